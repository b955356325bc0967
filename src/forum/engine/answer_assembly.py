"""Assemble the one answer of a run from its results: synthesis, checks, revision, verification.

Everything here is a function of recorded entries, so every driver of the run comes to the same
answer.
"""

from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from forum.engine import context
from forum.engine.ports import TaskHalted
from forum.engine.structured_output import independence
from forum.errors import BodyGone
from forum.ledger.body import Content, text_content
from forum.ledger.kinds import Outcome
from forum.ledger.log import Ledger
from forum.tlog import Hash
from forum.work import answer_checks, role_prompts
from forum.work.acceptance_criteria import Check
from forum.work.judging import MAX_READ_BYTES
from forum.work.kinds import VERIFIER, CheckFacts, StopFacts, StopReason
from forum.work.policy import Role
from forum.work.prompt import Quotation
from forum.work.run_fold import Run, TaskState, outcome_of_stop

INTENT, DELIVERY = "intent", "delivery"
_DECISIVE = frozenset({Check.MODEL, Check.COMMAND})
"""Checks that fail the run.  A failed revision is not among them: the long answer is kept."""

_PART_SEPARATOR = "\n\n"
"""The text between two results of an answer."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of a passed task that no other passed task has used."""

    task: str
    content: Content
    entry: Hash
    model: str


@dataclass(frozen=True, slots=True)
class RoleNeed:
    """A role that is needed next, and the answer that it is to work on."""

    task: str
    answer: str = ""
    missing: str = ""
    """The intent check's reason for rejecting the first answer, for the second synthesis."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The outcome and the answer of a run."""

    outcome: Outcome
    answer: Content
    causes: list[Hash]
    checks: list[tuple[CheckFacts, str]] = field(default_factory=list)
    """The checks of the answer, each with its detail text."""
    stopped: StopFacts | None = None
    """The stop to record if a role has failed, so that there is no answer."""


class AnswerAssembler:
    """Derives the next role needed for the answer, or the answer, from the state of a run."""

    def __init__(self, ledger: Ledger, case: context.RunContext, state: Run) -> None:
        self._ledger, self._case, self._state = ledger, case, state
        self._roles = case.policy.roles

    def next_step(self) -> str | Conclusion:
        """Return the name of the role task to run now, or the conclusion of the run."""
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
        """Return the need that a role task serves.  Raises `TaskHalted` if there is none."""
        for need in self._role_needs():
            if need.task == task:
                return need
        raise TaskHalted(StopFacts(StopReason.ERROR, "not needed any more", by=task))

    def results(self) -> list[TaskResult]:
        """Return the results of passed tasks that no other passed task has used.

        If the run failed, these are the results that it leaves.
        """
        plan, found = self._case.plan, []
        passed = {t.id for t in plan.tasks if self._state.task(t.id).state is TaskState.PASSED}
        for task in plan.tasks:
            run = self._state.task(task.id)
            used = not passed.isdisjoint(plan.dependants[task.id])
            call = run.result if task.id in passed and not used else None
            if call is None or call.reply_at is None or call.replied is None:
                continue
            try:
                content = context.open_body(self._ledger, call.reply_at, "output")
            except BodyGone:
                continue  # erased meanwhile: the run ends without this result
            model = call.replied.model or call.called.model
            found.append(TaskResult(task.id, content, run.last or self._case.plan_entry, model))
        return found

    def request(self) -> Quotation:
        """Return the request as a quotation, cut to the policy's input limit."""
        whole = b""
        with suppress(BodyGone):
            whole = context.read_request(self._ledger, self._case.run)
        return Quotation("the request", whole[: self._case.policy.input_bytes], len(whole))

    def quoted_results(self) -> list[Quotation]:
        """Return the results as quotations, each cut to the policy's input limit."""
        limit, found = self._case.policy.input_bytes, []
        for result in self.results():
            head = context.read_prefix(result.content.chunks(), limit)
            found.append(Quotation(f"task {result.task}", head, result.content.size))
        return found

    def _role_needs(self) -> Generator[RoleNeed, None, Conclusion]:
        """Yield the needed roles in order, and return the conclusion of the run.

        The output of a role is read right after its yield, so a caller may resume the generator
        only when that role has ended.  A second synthesis follows a failed intent check.
        """
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
                task = role_prompts.task_of_role(Role.SYNTHESIZER, number)
                yield RoleNeed(task, missing=missing)
                said = self._role_output(task)
                if said is None and missing:
                    break  # the second synthesis failed: keep the first answer and its check
                if said is None:
                    stopped = StopFacts(StopReason.ROLE, by=task)
                    return Conclusion(
                        outcome=Outcome.FAILED,
                        answer=content,
                        causes=causes,
                        checks=[],
                        stopped=stopped,
                    )
                # Allow the names of all tasks: a result that the answer quotes may have been erased
                # since, and is missing from `results` then.
                answer = role_prompts.read_parts(said, [task.id for task in self._case.plan.tasks])
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
        """Check whether the answer meets the request, by a judge only if term coverage is low.

        Return the check, or None if there is no such role, and the reason of a rejection.
        """
        if Role.INTENT not in self._roles:
            return None, ""
        request = self.request().text.decode(errors="replace")
        if answer_checks.term_coverage(request, draft.words) >= answer_checks.MIN_COVERAGE:
            return CheckFacts(INTENT, Outcome.OK, Check.COVERAGE), ""
        task, judge = role_prompts.task_of_role(Role.INTENT, number), self._roles[Role.INTENT]
        yield RoleNeed(task, draft.words)
        said = self._role_output(task)
        if said is None:
            unjudged = CheckFacts(
                subject=INTENT,
                outcome=Outcome.INDETERMINATE,
                check=Check.MODEL,
                reason="unjudged",
                judge=judge,
            )
            return unjudged, ""
        opinion = role_prompts.read_opinion(said)
        outcome = Outcome.OK if opinion.passed else Outcome.FAILED
        reason = "" if opinion.passed else "not-answered"
        who = independence(self._model(task), draft.models)
        checked = CheckFacts(
            subject=INTENT,
            outcome=outcome,
            check=Check.MODEL,
            reason=reason,
            judge=judge,
            independence=who,
        )
        return checked, "" if opinion.passed else opinion.reason or "it does not answer"

    def _shorten_answer(
        self, draft: "_AnswerDraft", checks: list[tuple[CheckFacts, str]]
    ) -> Generator[RoleNeed, None, "_AnswerDraft"]:
        """Return a shortened answer, or the draft if that is not shorter or has lost facts."""
        # The reviser sees at most `input_bytes`, and must not shorten an answer it sees in part.
        whole = draft.content.size <= self._case.policy.input_bytes
        if Role.REVISER not in self._roles or not whole or not answer_checks.is_long(draft.words):
            return draft
        task, judge = role_prompts.task_of_role(Role.REVISER), self._roles[Role.REVISER]
        yield RoleNeed(task, draft.words)
        said = self._role_output(task)
        if said is None:
            checks.append(
                (
                    CheckFacts(
                        subject=DELIVERY,
                        outcome=Outcome.FAILED,
                        check=Check.FORM,
                        reason="unusable",
                        judge=judge,
                    ),
                    "",
                )
            )
            return draft
        shorter = role_prompts.read_revision(said)
        request = self.request().text.decode(errors="replace")
        lost = answer_checks.find_lost_facts(request, draft.words, shorter)
        if lost or len(shorter) >= len(draft.words):
            reason, detail = "lost" if lost else "longer", ", ".join(lost)[:2000]
            checks.append(
                (
                    CheckFacts(
                        subject=DELIVERY,
                        outcome=Outcome.FAILED,
                        check=Check.KEPT,
                        reason=reason,
                        judge=judge,
                    ),
                    detail,
                )
            )
            return draft
        checks.append(
            (
                CheckFacts(
                    subject=DELIVERY, outcome=Outcome.OK, check=Check.KEPT, reason="", judge=judge
                ),
                "",
            )
        )
        return _AnswerDraft(
            text_content(shorter), shorter, [self._last_entry(task)], self._model(task)
        )

    def _verify_answer(
        self, draft: "_AnswerDraft", checks: list[tuple[CheckFacts, str]]
    ) -> Generator[RoleNeed, None, None]:
        """Check the answer with each external verifier of the policy."""
        for number, tool in enumerate(self._case.policy.verifiers, 1):
            task = f"{VERIFIER}.{number}"
            yield RoleNeed(task, draft.words)
            verdict = self._state.task(task).verdict
            passed = verdict is not None and verdict.outcome is Outcome.OK
            reason = verdict.reason if verdict else "stopped"
            outcome = Outcome.OK if passed else Outcome.FAILED
            checks.append((CheckFacts(tool, outcome, Check.COMMAND, reason), ""))

    def _role_output(self, task: str) -> bytes | None:
        """Return the well-formed output of a role, or None if it failed or was erased."""
        run = self._state.task(task)
        call = run.calls[-1] if run.state is TaskState.PASSED and run.calls else None
        if call is None or call.reply_at is None:
            return None
        with suppress(BodyGone):  # erased meanwhile: treat the role as failed
            return context.read_body(self._ledger, call.reply_at, "output", MAX_READ_BYTES)
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
    """An answer that is not final yet."""

    content: Content
    text: str | None
    causes: list[Hash]
    models: str
    """The models that wrote the answer, separated by commas."""

    @cached_property
    def words(self) -> str:
        """The answer as text, cut to `MAX_READ_BYTES`."""
        if self.text is not None:
            return self.text
        return context.read_prefix(self.content.chunks(), MAX_READ_BYTES).decode(errors="replace")


def _concatenate_results(results: list[TaskResult]) -> Content:
    """Return the results one after another under headings, or a single result as it is."""
    if len(results) == 1:
        return results[0].content
    heads = [f"{_PART_SEPARATOR if n else ''}## {one.task}\n\n" for n, one in enumerate(results)]
    together = zip(heads, results, strict=True)
    return context.JoinedContent(
        tuple(c for head, one in together for c in (text_content(head), one.content))
    )
