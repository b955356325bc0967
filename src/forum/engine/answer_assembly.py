"""From the results of a run to its one answer: what is made of them, and who looks at it first.

Everything here follows from what is recorded, so whoever drives the run comes to the same.
"""

from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from forum.engine.context import (
    JoinedContent,
    RunContext,
    open_body,
    read_body,
    read_prefix,
    read_request,
)
from forum.engine.ports import TaskHalted
from forum.engine.structured_output import independence
from forum.errors import BodyGone
from forum.ledger import Content, Ledger, Outcome, text_content
from forum.tlog import Hash
from forum.work import (
    MAX_READ_BYTES,
    MIN_COVERAGE,
    Check,
    CheckFacts,
    Quotation,
    Role,
    Run,
    StopFacts,
    StopReason,
    TaskState,
    find_lost_facts,
    is_long,
    outcome_of_stop,
    read_opinion,
    read_parts,
    read_revision,
    task_of_role,
    term_coverage,
)

INTENT, DELIVERY = "intent", "delivery"
_DECISIVE = frozenset({Check.MODEL, Check.COMMAND})
"""A run fails by these; an answer that could not be shortened is given as it was."""
VERIFIER = "@verifier"

_PART_SEPARATOR = "\n\n"
"""What stands between two results of an answer."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task has come to that nobody has made more of."""

    task: str
    content: Content
    entry: Hash
    model: str


@dataclass(frozen=True, slots=True)
class RoleNeed:
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
    checks: list[tuple[CheckFacts, str]] = field(default_factory=list)
    """How the answer was looked at, and what was said of it."""
    stopped: StopFacts | None = None
    """Why there is no answer, where a role has failed."""


class AnswerAssembler:
    """The way from results to the answer, as far as a run has come."""

    def __init__(self, ledger: Ledger, case: RunContext, state: Run) -> None:
        self._ledger, self._case, self._state = ledger, case, state
        self._roles = case.policy.roles

    def next_step(self) -> str | Conclusion:
        """Return the role that has to do its part now, or how the run ends."""
        steps = self._role_needs()
        while True:
            try:
                need = next(steps)
            except StopIteration as end:
                conclusion: Conclusion = end.value
                return conclusion
            if not self._state.task(need.task).state.is_end:
                return need.task

    def need_of(self, task: str) -> RoleNeed:
        """Return what a role is needed for."""
        for need in self._role_needs():
            if need.task == task:
                return need
        raise TaskHalted(StopFacts(StopReason.ERROR, "not needed any more", by=task))

    def results(self) -> list[TaskResult]:
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
                content = open_body(self._ledger, call.reply_at, "output")
            except BodyGone:
                continue  # it was erased meanwhile, which is no reason not to end
            model = call.replied.model or call.called.model
            found.append(TaskResult(task.id, content, run.last or self._case.plan_entry, model))
        return found

    def request(self) -> Quotation:
        """Return what was asked for, in order to quote it."""
        whole = b""
        with suppress(BodyGone):
            whole = read_request(self._ledger, self._case.run)
        return Quotation("the request", whole[: self._case.policy.input_bytes], len(whole))

    def quoted_results(self) -> list[Quotation]:
        """Return the results, in order to quote them, as much of each as is given on."""
        limit, found = self._case.policy.input_bytes, []
        for result in self.results():
            head = read_prefix(result.content.chunks(), limit)
            found.append(Quotation(f"task {result.task}", head, result.content.size))
        return found

    def _role_needs(self) -> Generator[RoleNeed, None, Conclusion]:
        """Yield the roles that are needed, in their order, and return how the run then ends."""
        outcome, results = self._outcome(), self.results()
        causes, content = [result.entry for result in results], _concatenate_results(results)
        if outcome is not Outcome.OK or not results:
            return Conclusion(outcome, content, causes)
        draft = _AnswerDraft(content, None, causes, ",".join(result.model for result in results))
        missing = ""
        checks: list[tuple[CheckFacts, str]] = []
        rounds = (1, 2) if self._needs_synthesis(results) else (1,)
        for number in rounds:
            if self._needs_synthesis(results):
                task = task_of_role(Role.SYNTHESIZER, number)
                yield RoleNeed(task, missing=missing)
                said = self._role_output(task)
                if said is None and missing:
                    break  # the first answer stays, and what was found wanting in it
                if said is None:
                    stopped = StopFacts(StopReason.ROLE, by=task)
                    return Conclusion(Outcome.FAILED, content, causes, [], stopped)
                # Of all tasks: the result of one that it quotes may be erased by now.
                answer = read_parts(said, [task.id for task in self._case.plan.tasks])
                draft = _AnswerDraft(
                    text_content(answer), answer, [self._last_entry(task)], self._model(task)
                )
            checked, missing = yield from self._check_intent(number, draft)
            checks = [(checked, missing)] if checked else []
            if not missing:
                break
        draft = yield from self._shorten_answer(draft, checks)
        yield from self._verify_answer(draft, checks)
        failed = any(c.outcome is Outcome.FAILED and c.check in _DECISIVE for c, _ in checks)
        outcome = Outcome.FAILED if failed else Outcome.OK
        return Conclusion(outcome, draft.content, draft.causes, checks)

    def _needs_synthesis(self, results: list[TaskResult]) -> bool:
        return Role.SYNTHESIZER in self._roles and len(results) > 1

    def _check_intent(
        self, number: int, draft: "_AnswerDraft"
    ) -> Generator[RoleNeed, None, tuple[CheckFacts | None, str]]:
        """Check whether the answer answers: by its words first, by a judge where those flag it."""
        if Role.INTENT not in self._roles:
            return None, ""
        request = self.request().text.decode(errors="replace")
        if term_coverage(request, draft.words) >= MIN_COVERAGE:
            return CheckFacts(INTENT, Outcome.OK, Check.COVERAGE), ""
        task, judge = task_of_role(Role.INTENT, number), self._roles[Role.INTENT]
        yield RoleNeed(task, draft.words)
        said = self._role_output(task)
        if said is None:
            unjudged = CheckFacts(INTENT, Outcome.INDETERMINATE, Check.MODEL, "unjudged", judge)
            return unjudged, ""
        opinion = read_opinion(said)
        outcome = Outcome.OK if opinion.passed else Outcome.FAILED
        reason = "" if opinion.passed else "not-answered"
        who = independence(self._model(task), draft.models)
        checked = CheckFacts(INTENT, outcome, Check.MODEL, reason, judge, who)
        return checked, "" if opinion.passed else opinion.reason or "it does not answer"

    def _shorten_answer(
        self, draft: "_AnswerDraft", checks: list[tuple[CheckFacts, str]]
    ) -> Generator[RoleNeed, None, "_AnswerDraft"]:
        """Have a long answer shortened; what has lost anything is not taken."""
        whole = draft.content.size <= self._case.policy.input_bytes  # else it is seen in part
        if Role.REVISER not in self._roles or not whole or not is_long(draft.words):
            return draft
        task, judge = task_of_role(Role.REVISER), self._roles[Role.REVISER]
        yield RoleNeed(task, draft.words)
        said = self._role_output(task)
        if said is None:
            checks.append((CheckFacts(DELIVERY, Outcome.FAILED, Check.FORM, "unusable", judge), ""))
            return draft
        shorter = read_revision(said)
        request = self.request().text.decode(errors="replace")
        lost = find_lost_facts(request, draft.words, shorter)
        if lost or len(shorter) >= len(draft.words):
            reason, detail = "lost" if lost else "longer", ", ".join(lost)[:2000]
            checks.append((CheckFacts(DELIVERY, Outcome.FAILED, Check.KEPT, reason, judge), detail))
            return draft
        checks.append((CheckFacts(DELIVERY, Outcome.OK, Check.KEPT, "", judge), ""))
        return _AnswerDraft(
            text_content(shorter), shorter, [self._last_entry(task)], self._model(task)
        )

    def _verify_answer(
        self, draft: "_AnswerDraft", checks: list[tuple[CheckFacts, str]]
    ) -> Generator[RoleNeed, None, None]:
        """Have the answer checked from outside."""
        for number, tool in enumerate(self._case.policy.verifiers, 1):
            task = f"{VERIFIER}.{number}"
            yield RoleNeed(task, draft.words)
            verdict = self._state.task(task).verdict
            passed = verdict is not None and verdict.outcome is Outcome.OK
            reason = verdict.reason if verdict else "stopped"
            outcome = Outcome.OK if passed else Outcome.FAILED
            checks.append((CheckFacts(tool, outcome, Check.COMMAND, reason), ""))

    def _role_output(self, task: str) -> bytes | None:
        """Return what a role has said in the right form, if it has."""
        run = self._state.task(task)
        call = run.calls[-1] if run.state is TaskState.PASSED and run.calls else None
        if call is None or call.reply_at is None:
            return None
        with suppress(BodyGone):  # erased meanwhile: it has said nothing
            return read_body(self._ledger, call.reply_at, "output", MAX_READ_BYTES)
        return None

    def _model(self, task: str) -> str:
        call = self._state.task(task).calls[-1]
        return (call.replied.model if call.replied else "") or call.called.model

    def _last_entry(self, task: str) -> Hash:
        return self._state.task(task).last or self._case.plan_entry

    def _outcome(self) -> Outcome:
        if self._state.stopped is not None:
            return outcome_of_stop(self._state.stopped)
        states = (self._state.task(task.id).state for task in self._case.plan.tasks)
        passed = all(state is TaskState.PASSED for state in states)
        return Outcome.OK if passed else Outcome.FAILED


@dataclass(frozen=True)
class _AnswerDraft:
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
        return read_prefix(self.content.chunks(), MAX_READ_BYTES).decode(errors="replace")


def _concatenate_results(results: list[TaskResult]) -> Content:
    """Put results together as they are."""
    if len(results) == 1:
        return results[0].content
    heads = [f"{_PART_SEPARATOR if n else ''}## {one.task}\n\n" for n, one in enumerate(results)]
    together = zip(heads, results, strict=True)
    return JoinedContent(
        tuple(c for head, one in together for c in (text_content(head), one.content))
    )
