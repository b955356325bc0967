"""From the results of a run to its one answer: what is made of them, and who looks at it first.

Everything here follows from what is recorded, so whoever drives the run comes to the same.
"""

from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from forum.engine.case import Case, Joined, beginning, read_body, read_request, stored
from forum.engine.judges import independence
from forum.engine.ports import Halt
from forum.errors import BodyGone
from forum.ledger import Content, Ledger, Outcome, text
from forum.tlog import Hash
from forum.work import (
    COVERED,
    MOST_READ,
    Check,
    Checked,
    Quoted,
    Role,
    Run,
    Stopped,
    StopReason,
    TaskState,
    coverage,
    is_long,
    lost_in,
    outcome_of,
    read_opinion,
    read_parts,
    read_revision,
    task_of_role,
)

INTENT, DELIVERY = "intent", "delivery"
_DECISIVE = frozenset({Check.MODEL, Check.COMMAND})
"""A run fails by these; an answer that could not be shortened is given as it was."""
VERIFIER = "@verifier"

_NEXT_PART = "\n\n"
"""What stands between two results of an answer."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a task has come to that nobody has made more of."""

    task: str
    content: Content
    entry: Hash
    model: str


@dataclass(frozen=True, slots=True)
class Need:
    """A role that is to be played, and the answer as it is by then."""

    task: str
    answer: str = ""
    missing: str = ""
    """What was found wanting in an earlier answer."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """How a run ends."""

    outcome: Outcome
    answer: Content
    causes: list[Hash]
    checks: list[tuple[Checked, str]] = field(default_factory=list)
    """How the answer was looked at, and what was said of it."""
    stopped: Stopped | None = None
    """Why there is no answer, where a role has failed."""


class Answering:
    """The way from results to the answer, as far as a run has come."""

    def __init__(self, ledger: Ledger, case: Case, state: Run) -> None:
        self._ledger, self._case, self._state = ledger, case, state
        self._roles = case.policy.roles

    def next_step(self) -> str | Conclusion:
        """Return the role that has to do its part now, or how the run ends."""
        steps = self._steps()
        while True:
            try:
                need = next(steps)
            except StopIteration as end:
                conclusion: Conclusion = end.value
                return conclusion
            if not self._state.task(need.task).state.is_end:
                return need.task

    def need_of(self, task: str) -> Need:
        """Return what a role is needed for."""
        for need in self._steps():
            if need.task == task:
                return need
        raise Halt(Stopped(StopReason.ERROR, "not needed any more", by=task))

    def results(self) -> list[Result]:
        """Return the results that nobody has made more of; those of a failed run are kept."""
        plan, found = self._case.plan, []
        passed = {t.id for t in plan.tasks if self._state.task(t.id).state is TaskState.PASSED}
        for task in plan.tasks:
            run = self._state.task(task.id)
            used = not passed.isdisjoint(plan.dependants[task.id])
            call = run.result if task.id in passed and not used else None
            if call is None or call.reply_at is None or call.replied is None:
                continue
            try:
                content = stored(self._ledger, call.reply_at, "output")
            except BodyGone:
                continue  # it was erased meanwhile, which is no reason not to end
            model = call.replied.model or call.called.model
            found.append(Result(task.id, content, run.last or self._case.plan_entry, model))
        return found

    def request(self) -> Quoted:
        """Return what was asked for, in order to quote it."""
        whole = b""
        with suppress(BodyGone):
            whole = read_request(self._ledger, self._case.run)
        return Quoted("the request", whole[: self._case.policy.input_bytes], len(whole))

    def quoted_results(self) -> list[Quoted]:
        """Return the results, in order to quote them, as much of each as is given on."""
        limit, found = self._case.policy.input_bytes, []
        for result in self.results():
            head = beginning(result.content.chunks(), limit)
            found.append(Quoted(f"task {result.task}", head, result.content.size))
        return found

    def _steps(self) -> Generator[Need, None, Conclusion]:
        """Yield the roles that are needed, in their order, and return how the run then ends."""
        outcome, results = self._outcome(), self.results()
        causes, content = [result.entry for result in results], _together(results)
        if outcome is not Outcome.OK or not results:
            return Conclusion(outcome, content, causes)
        draft = _Draft(content, None, causes, ",".join(result.model for result in results))
        missing = ""
        checks: list[tuple[Checked, str]] = []
        rounds = (1, 2) if self._synthesizes(results) else (1,)
        for number in rounds:
            if self._synthesizes(results):
                task = task_of_role(Role.SYNTHESIZER, number)
                yield Need(task, missing=missing)
                said = self._said(task)
                if said is None and missing:
                    break  # the first answer stays, and what was found wanting in it
                if said is None:
                    stopped = Stopped(StopReason.ROLE, by=task)
                    return Conclusion(Outcome.FAILED, content, causes, [], stopped)
                # Of all tasks: the result of one that it quotes may be erased by now.
                answer = read_parts(said, [task.id for task in self._case.plan.tasks])
                draft = _Draft(text(answer), answer, [self._last(task)], self._model(task))
            checked, missing = yield from self._intent(number, draft)
            checks = [(checked, missing)] if checked else []
            if not missing:
                break
        draft = yield from self._delivery(draft, checks)
        yield from self._verification(draft, checks)
        failed = any(c.outcome is Outcome.FAILED and c.check in _DECISIVE for c, _ in checks)
        outcome = Outcome.FAILED if failed else Outcome.OK
        return Conclusion(outcome, draft.content, draft.causes, checks)

    def _synthesizes(self, results: list[Result]) -> bool:
        return Role.SYNTHESIZER in self._roles and len(results) > 1

    def _intent(
        self, number: int, draft: "_Draft"
    ) -> Generator[Need, None, tuple[Checked | None, str]]:
        """Check whether the answer answers: by its words first, by a judge where those flag it."""
        if Role.INTENT not in self._roles:
            return None, ""
        request = self.request().text.decode(errors="replace")
        if coverage(request, draft.words) >= COVERED:
            return Checked(INTENT, Outcome.OK, Check.COVERAGE), ""
        task, judge = task_of_role(Role.INTENT, number), self._roles[Role.INTENT]
        yield Need(task, draft.words)
        said = self._said(task)
        if said is None:
            unjudged = Checked(INTENT, Outcome.INDETERMINATE, Check.MODEL, "unjudged", judge)
            return unjudged, ""
        opinion = read_opinion(said)
        outcome = Outcome.OK if opinion.passed else Outcome.FAILED
        reason = "" if opinion.passed else "not-answered"
        who = independence(self._model(task), draft.models)
        checked = Checked(INTENT, outcome, Check.MODEL, reason, judge, who)
        return checked, "" if opinion.passed else opinion.reason or "it does not answer"

    def _delivery(
        self, draft: "_Draft", checks: list[tuple[Checked, str]]
    ) -> Generator[Need, None, "_Draft"]:
        """Have a long answer shortened; what has lost anything is not taken."""
        whole = draft.content.size <= self._case.policy.input_bytes  # else it is seen in part
        if Role.REVISER not in self._roles or not whole or not is_long(draft.words):
            return draft
        task, judge = task_of_role(Role.REVISER), self._roles[Role.REVISER]
        yield Need(task, draft.words)
        said = self._said(task)
        if said is None:
            checks.append((Checked(DELIVERY, Outcome.FAILED, Check.FORM, "unusable", judge), ""))
            return draft
        shorter = read_revision(said)
        request = self.request().text.decode(errors="replace")
        lost = lost_in(request, draft.words, shorter)
        if lost or len(shorter) >= len(draft.words):
            reason, detail = "lost" if lost else "longer", ", ".join(lost)[:2000]
            checks.append((Checked(DELIVERY, Outcome.FAILED, Check.KEPT, reason, judge), detail))
            return draft
        checks.append((Checked(DELIVERY, Outcome.OK, Check.KEPT, "", judge), ""))
        return _Draft(text(shorter), shorter, [self._last(task)], self._model(task))

    def _verification(
        self, draft: "_Draft", checks: list[tuple[Checked, str]]
    ) -> Generator[Need, None, None]:
        """Have the answer checked from outside."""
        for number, tool in enumerate(self._case.policy.verifiers, 1):
            task = f"{VERIFIER}.{number}"
            yield Need(task, draft.words)
            verdict = self._state.task(task).verdict
            passed = verdict is not None and verdict.outcome is Outcome.OK
            reason = verdict.reason if verdict else "stopped"
            outcome = Outcome.OK if passed else Outcome.FAILED
            checks.append((Checked(tool, outcome, Check.COMMAND, reason), ""))

    def _said(self, task: str) -> bytes | None:
        """Return what a role has said in the right form, if it has."""
        run = self._state.task(task)
        call = run.calls[-1] if run.state is TaskState.PASSED and run.calls else None
        if call is None or call.reply_at is None:
            return None
        with suppress(BodyGone):  # erased meanwhile: it has said nothing
            return read_body(self._ledger, call.reply_at, "output", MOST_READ)
        return None

    def _model(self, task: str) -> str:
        call = self._state.task(task).calls[-1]
        return (call.replied.model if call.replied else "") or call.called.model

    def _last(self, task: str) -> Hash:
        return self._state.task(task).last or self._case.plan_entry

    def _outcome(self) -> Outcome:
        if self._state.stopped is not None:
            return outcome_of(self._state.stopped)
        states = (self._state.task(task.id).state for task in self._case.plan.tasks)
        passed = all(state is TaskState.PASSED for state in states)
        return Outcome.OK if passed else Outcome.FAILED


@dataclass(frozen=True)
class _Draft:
    """An answer that is not given yet."""

    content: Content
    text: str | None
    causes: list[Hash]
    models: str
    """Who has written it, separated by commas."""

    @cached_property
    def words(self) -> str:
        """The answer, or its beginning, as text."""
        if self.text is not None:
            return self.text
        return beginning(self.content.chunks(), MOST_READ).decode(errors="replace")


def _together(results: list[Result]) -> Content:
    """Put results together as they are."""
    if len(results) == 1:
        return results[0].content
    heads = [f"{_NEXT_PART if n else ''}## {one.task}\n\n" for n, one in enumerate(results)]
    together = zip(heads, results, strict=True)
    return Joined(tuple(c for head, one in together for c in (text(head), one.content)))
