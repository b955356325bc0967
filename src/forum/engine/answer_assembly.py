"""Assemble the one answer of a run from its results: synthesis, checks, revision, verification.

Everything here is a function of recorded entries, so every driver of the run comes to the same
answer.
"""

from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec

from forum.engine import context
from forum.engine.ports import TaskHalted
from forum.engine.prompt_fit import SourceText, read_findings_source
from forum.engine.structured_output import independence
from forum.errors import BodyGone
from forum.ledger.body import BytesContent, Content, text_content
from forum.ledger.kinds import Outcome
from forum.ledger.log import Ledger
from forum.ledger.ports import Position
from forum.runs import answer_checks
from forum.runs.acceptance_criteria import Check
from forum.runs.answer_flags import flag_answer
from forum.runs.answer_form import FormFault, check_form, merge_reply
from forum.runs.asks import is_echo, is_question_list
from forum.runs.coverage import CoverageFinding, WordCoverage, check_coverage
from forum.runs.judging import MAX_READ_BYTES, judge_by_panel
from forum.runs.kinds import (
    FINDINGS,
    NOT_CONFIRMED,
    VERIFIER,
    CheckFacts,
    StopFacts,
    StopReason,
)
from forum.runs.policy import Role
from forum.runs.roles import intent, prompt_parts, reviser, synthesizer
from forum.runs.run_fold import Run, TaskRun, TaskState, outcome_of_stop
from forum.runs.schedule import final_results
from forum.runs.text_fit import estimate_tokens
from forum.tlog import Hash

INTENT, DELIVERY = "intent", "delivery"
SYNTHESIS = "synthesis"
_DECISIVE = frozenset({Check.MODEL, Check.COMMAND, Check.COVERAGE})
"""Checks that fail the run.  A failed revision is not among them: the long answer is kept."""

_PART_SEPARATOR = "\n\n"
"""The text between two results of an answer."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of a passed task."""

    task: str
    content: Content
    entry: Hash
    agent: str
    model: str


@dataclass(frozen=True, slots=True)
class RoleNeed:
    """A role that is needed next, and the answer that it is to work on."""

    task: str
    answer: str = ""
    missing: str = ""
    """What the first answer lacks by the intent check, for the second synthesis."""
    faults: tuple[FormFault, ...] = ()
    """What code finds wrong with the first answer."""
    is_correction: bool = False
    """Whether the answer is a single result, which its author mends."""
    agent: str = ""
    """The agent that plays the role; empty: the one that the policy names."""


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
        self._ledger, self._case = ledger, case
        self._state = state
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
        """Return the results of the passed tasks that the answer is made from.

        With a Synthesizer these are all of them: a result that another task has used may hold
        what only the answer needs. Otherwise only those that no other passed task has used. If the
        run failed, these are the results that it leaves.
        """
        final, results = set(final_results(self._case.plan, self._state)), []
        for task in self._case.plan.tasks:
            run = self._state.task(task.id)
            is_passed = run.state is TaskState.PASSED
            is_part = is_passed and (self._needs_synthesis or task.id in final)
            call = run.result if is_part else None
            if call is None or call.reply_at is None or call.replied is None:
                continue
            try:
                content = self._result_content(run, call.reply_at)
            except BodyGone:
                continue  # erased meanwhile: the run ends without this result
            results.append(
                TaskResult(
                    task=task.id,
                    content=content,
                    entry=run.last or self._case.plan_entry,
                    agent=call.called.agent,
                    model=call.replied.model or call.called.model,
                )
            )
        return results

    def _result_content(self, task: TaskRun, reply_at: Position) -> Content:
        """Return the result of a task and, if a panel worked on it, what the panel found.

        Raises `BodyGone` if the result was erased.
        """
        content: Content = context.open_body(self._ledger, reply_at, "output")
        for source in read_findings_source(self._ledger, task, MAX_READ_BYTES):
            content = context.JoinedContent(
                (content, text_content(_PART_SEPARATOR), BytesContent(source.text))
            )
        return content

    @cached_property
    def request_text(self) -> str:
        """The beginning of the request; empty if it was erased."""
        with suppress(BodyGone):
            request = context.read_request(self._ledger, self._case.run, MAX_READ_BYTES)
            return request.decode(errors="replace")
        return ""

    def synthesis_sources(self) -> tuple[list[SourceText], list[str]]:
        """Return the results for the Synthesizer, and a line for each task without one."""
        texts = []
        for result in self.results():
            head = context.read_prefix(result.content.chunks(), MAX_READ_BYTES)
            texts.append(SourceText(f"task {result.task}", head, result.content.size))
        absent = [
            f"{task.id} ({self._state.task(task.id).state.value}): {task.instruction[:200]}"
            for task in self._case.plan.tasks
            if self._state.task(task.id).state is not TaskState.PASSED
        ]
        return texts, absent

    def _role_needs(self) -> Generator[RoleNeed, None, Conclusion]:
        """Yield the needed roles in order, and return the conclusion of the run.

        The output of a role is read right after its yield, so a caller may resume the generator
        only when that role has ended.  A second synthesis follows a failed intent check.
        """
        outcome, results = self._outcome(), self.results()
        causes, content = [result.entry for result in results], self._join_results(results)
        if not results or not self._may_answer(outcome):
            return Conclusion(outcome, content, causes)
        draft = self._draft_of_results(results)
        drafts: list[_CheckedDraft] = []
        for number in (1, 2) if self._may_synthesize else (1,):
            # A single result is the answer, unless it turns out not to answer the request.
            if self._needs_synthesis or number > 1:
                task = prompt_parts.task_of_role(Role.SYNTHESIZER, number)
                need = self._synthesis_need(task, drafts)
                yield need
                reply = self._role_output(task)
                if reply is None and drafts:
                    break  # the second synthesis failed: keep the first answer and its check
                written = self._read_draft(need, reply, results)
                if written is None:
                    return self._stop_without_answer(task, content, causes)
                draft = written
            checked = yield from self._check_intent(number, draft)
            drafts.append(checked)
            if checked.is_final:
                break
        kept = self._choose_draft(drafts)
        checks = kept.checks
        draft = yield from self._shorten_answer(kept.draft, checks)
        yield from self._verify_answer(draft, checks)
        if self._case.policy.checks_coverage:
            checks = [*flag_answer(self.request_text, draft.words), *checks]
        failed = any(c.outcome is Outcome.FAILED and c.check in _DECISIVE for c, _ in checks)
        return Conclusion(
            Outcome.FAILED if failed else outcome, draft.content, draft.causes, checks
        )

    def _draft_of_results(self, results: list[TaskResult]) -> "_AnswerDraft":
        return _AnswerDraft(
            content=self._join_results(results),
            text=None,
            causes=[result.entry for result in results],
            agents=[result.agent for result in results],
            models=",".join(result.model for result in results),
        )

    def _may_answer(self, outcome: Outcome) -> bool:
        """Tell whether the roles work on an answer: all passed, or a team has some results.

        A team answers what it can and names what is missing; the run has failed all the same.
        """
        if outcome is Outcome.OK:
            return True
        is_stopped = self._state.stopped is not None
        return self._needs_synthesis and not is_stopped

    def _stop_without_answer(self, task: str, content: Content, causes: list[Hash]) -> Conclusion:
        return Conclusion(
            outcome=Outcome.FAILED,
            answer=content,
            causes=causes,
            checks=[],
            stopped=StopFacts(StopReason.ROLE, by=task),
        )

    def _synthesis_need(self, task: str, drafts: list["_CheckedDraft"]) -> RoleNeed:
        """Return the need for a synthesis: the first, or the second with what the first lacks."""
        if not drafts:
            return RoleNeed(task)
        first, faults = drafts[-1], drafts[-1].faults
        words = first.draft.words
        agent, request = self._roles[Role.SYNTHESIZER], self.request_text
        tokens = estimate_tokens(f"{request}{words}{first.missing}".encode(errors="replace"))
        fits = tokens < self._case.policy.prompt_tokens(agent) * 3 // 4
        is_correction = fits and self._case.policy.checks_coverage and not self._needs_synthesis
        return RoleNeed(
            task,
            answer=words,
            missing=first.missing,
            faults=faults,
            is_correction=is_correction,
        )

    def _read_draft(
        self, need: RoleNeed, reply: bytes | None, results: list[TaskResult]
    ) -> "_AnswerDraft | None":
        """Return what the Synthesizer wrote or, if it failed, the results as the answer.

        None if there is no answer: earlier rules ended the run as failed, though its tasks had
        passed.
        """
        task = need.task
        if reply is None:
            has_failed = self._state.task(task).state is TaskState.FAILED
            if not has_failed or not self._case.policy.checks_coverage:
                return None
            final = set(final_results(self._case.plan, self._state))
            draft = self._draft_of_results([each for each in results if each.task in final])
            return replace(draft, is_assembled=True)
        if need.is_correction:
            text = synthesizer.parse_correction(reply)
            asked = synthesizer.find_short_asks(need.faults, need.missing)
            if asked:
                text = merge_reply(self.request_text, need.answer, asked[0], text)
            return self._draft_of(task, text)
        # Allow the names of all tasks: a result that the answer quotes may have been erased since,
        # and is missing from `results` then.
        answer = synthesizer.parse_parts(reply, [task.id for task in self._case.plan.tasks])
        return self._draft_of(task, answer)

    def _draft_of(self, task: str, text: str) -> "_AnswerDraft":
        return _AnswerDraft(
            content=text_content(text),
            text=text,
            causes=[self._last_entry(task)],
            agents=[self._roles[Role.SYNTHESIZER]],
            models=self._model(task),
        )

    @property
    def _may_synthesize(self) -> bool:
        if self._case.policy.is_team:
            return Role.SYNTHESIZER in self._roles
        return self._needs_synthesis

    @cached_property
    def _needs_synthesis(self) -> bool:
        """Whether the answer is written by the Synthesizer, and is not one result as it is."""
        if Role.SYNTHESIZER not in self._roles or self._is_question_list:
            return False
        if self._case.policy.is_team:
            return len(self._case.plan.tasks) > 1
        return len(final_results(self._case.plan, self._state)) > 1

    @cached_property
    def _is_question_list(self) -> bool:
        tasks = self._case.plan.tasks
        return self._case.policy.splits_questions and is_question_list(
            (task.instruction for task in tasks), self.request_text
        )

    def _join_results(self, results: list[TaskResult]) -> Content:
        """Return the results one after another, or a single result as it is.

        Each has a heading or, if the request lists questions, the number of its question.
        """
        if len(results) == 1 and not self._is_question_list:
            return results[0].content
        places = {task.id: number for number, task in enumerate(self._case.plan.tasks, 1)}
        parts: list[Content] = []
        for result in results:
            number, task = places[result.task], result.task
            head = f"{number}. " if self._is_question_list else f"## {task}\n\n"
            separator = _PART_SEPARATOR if parts else ""
            parts += [text_content(f"{separator}{head}"), result.content]
        return context.JoinedContent(tuple(parts))

    def _choose_draft(self, drafts: list["_CheckedDraft"]) -> "_CheckedDraft":
        """Return the answer to give: the better one by the check that both were given.

        Of two that are equally good it is the first. Earlier rules took the last one.
        """
        if not self._case.policy.checks_coverage:
            return drafts[-1]
        return max(drafts, key=lambda checked: checked.rank)

    def _coverage_of(self, draft: "_AnswerDraft") -> WordCoverage:
        return check_coverage(self.request_text, draft.words)

    def _check_intent(
        self, number: int, draft: "_AnswerDraft"
    ) -> Generator[RoleNeed, None, "_CheckedDraft"]:
        """Check whether the answer meets the request.

        Code recognizes an answer that only repeats the request. A judge is asked where the words
        of the answer leave a doubt, and always if somebody asked for the role. Runs of the first
        version of the rules ask it only if the answer has few of the request's terms.
        """
        policy = self._case.policy
        coverage = self._coverage_of(draft) if policy.checks_coverage else None
        faults = check_form(self.request_text, draft.words) if policy.checks_coverage else ()
        unchecked = _CheckedDraft(draft, coverage=coverage, faults=faults)
        if Role.INTENT not in self._roles:
            return unchecked
        request = self.request_text
        if not policy.is_team:
            if answer_checks.term_coverage(request, draft.words) >= answer_checks.MIN_COVERAGE:
                return replace(unchecked, check=(_covered(), ""))
        elif _is_echo(request, draft.words, coverage):
            check = CheckFacts(INTENT, Outcome.FAILED, Check.COVERAGE, "echo")
            detail = "The answer repeats the request and answers nothing."
            return replace(unchecked, check=(check, detail), missing=detail)
        elif policy.doubted and coverage is not None and not coverage.is_flagged:
            return unchecked
        return (yield from self._ask_judge(number, unchecked))

    def _ask_judge(
        self, number: int, unchecked: "_CheckedDraft"
    ) -> Generator[RoleNeed, None, "_CheckedDraft"]:
        policy, draft = self._case.policy, unchecked.draft
        task = prompt_parts.task_of_role(Role.INTENT, number)
        judge = policy.judge_of(Role.INTENT, draft.agents) or ""
        yield RoleNeed(task, draft.words, agent=judge)
        if judge in policy.panels:
            return self._read_panel(task, judge, unchecked)
        reply = self._role_output(task)
        if reply is None:
            unjudged = CheckFacts(
                subject=INTENT,
                outcome=Outcome.INDETERMINATE,
                check=Check.MODEL,
                reason="unjudged",
                judge=judge,
            )
            return replace(unchecked, check=(unjudged, ""))
        return self._read_intent(task, judge, intent.parse_opinion(reply), unchecked)

    def _read_panel(self, task: str, judge: str, checked: "_CheckedDraft") -> "_CheckedDraft":
        """Return the answer with what the panel decided that judges it.

        Unlike a finding of one model, its verdict needs no confirmation: what it does not accept
        has failed.
        """
        run, panel = self._state.task(task), self._case.policy.judging_panel(judge)
        judged, output = run.judged[-1] if run.judged else None, self._role_output(task)
        # A panel that was stopped, or whose decision was erased, has accepted nothing.
        outcome = Outcome.OK if output is not None else Outcome.FAILED
        accord = judged.accord.accord if judged else None
        judgement = judge_by_panel(accord, panel.require, outcome, output or b"")
        detail = ""
        with suppress(BodyGone):
            if judged:
                findings = context.open_body(self._ledger, judged.at, FINDINGS)
                detail = context.read_prefix(findings.chunks(), MAX_READ_BYTES).decode()
        facts = intent.check_by_panel(judge, judgement)
        if run.calls:
            kind = independence(self._model(task), checked.draft.models)
            facts = msgspec.structs.replace(facts, independence=kind)
        missing = "" if judgement.passed else detail or "The panel did not accept the answer."
        return replace(
            checked, check=(facts, detail), missing=missing, gaps=int(not judgement.passed)
        )

    def _read_intent(
        self, task: str, judge: str, opinion: intent.IntentOpinion, checked: "_CheckedDraft"
    ) -> "_CheckedDraft":
        """Return the answer with what its judge found.

        A finding fails the answer only if code confirms it. Earlier rules took each finding, and
        each quotation that is not in the answer, for a failure.
        """
        request, words = self.request_text, checked.draft.words
        if checked.coverage is None:
            unmet = opinion.unmet_asks(request, words)
            passed = opinion.passed and not unmet
            outcome = Outcome.OK if passed else Outcome.FAILED
            reason, described = "not-answered", opinion.describe_asks(request, words)
        else:
            unmet, passed = list(opinion.named_gaps), opinion.is_content
            outcome = opinion.outcome_for(request, words, is_flagged=checked.coverage.is_flagged)
            reason = "not-answered" if outcome is Outcome.FAILED else NOT_CONFIRMED
            described = opinion.describe_gaps(request, words)
        facts = CheckFacts(
            subject=INTENT,
            outcome=outcome,
            check=Check.MODEL,
            reason="" if outcome is Outcome.OK else reason,
            judge=judge,
            independence=independence(self._model(task), checked.draft.models),
        )
        lines = [described]
        if not passed:
            lines.append(opinion.feedback or "it does not answer")
        detail = "\n".join(line for line in lines if line)
        return replace(
            checked,
            check=(facts, detail),
            missing="" if passed else detail,
            gaps=len(unmet) or int(not passed),
        )

    def _shorten_answer(
        self, draft: "_AnswerDraft", checks: list[tuple[CheckFacts, str]]
    ) -> Generator[RoleNeed, None, "_AnswerDraft"]:
        """Return a shortened answer, or the draft if that is not shorter or has lost facts."""
        if Role.REVISER not in self._roles or not answer_checks.is_long(draft.words):
            return draft
        task, judge = prompt_parts.task_of_role(Role.REVISER), self._roles[Role.REVISER]
        if not self._can_revise(draft, judge):
            return draft
        yield RoleNeed(task, draft.words)
        reply = self._role_output(task)
        if reply is None:
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
        shorter = reviser.parse_revision(reply)
        lost = answer_checks.find_lost_facts(self.request_text, draft.words, shorter)
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
            content=text_content(shorter),
            text=shorter,
            causes=[self._last_entry(task)],
            agents=[judge],
            models=self._model(task),
        )

    def _can_revise(self, draft: "_AnswerDraft", agent: str) -> bool:
        """Tell whether an agent could see and write a whole answer: else it would lose a part."""
        policy = self._case.policy
        if not policy.is_team:
            return draft.content.size <= policy.input_bytes
        is_writable = draft.content.size <= policy.max_reply_chars(agent)
        tokens = estimate_tokens(draft.words.encode())
        return is_writable and tokens <= policy.prompt_tokens(agent) // 2

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
    agents: list[str]
    """The agents that wrote the answer."""
    models: str
    """Their models as the record names them, separated by commas."""
    is_assembled: bool = False
    """Whether it stands in for what the Synthesizer should have written."""

    @cached_property
    def words(self) -> str:
        """The answer as text, cut to `MAX_READ_BYTES`."""
        if self.text is not None:
            return self.text
        return context.read_prefix(self.content.chunks(), MAX_READ_BYTES).decode(errors="replace")


@dataclass(frozen=True)
class _CheckedDraft:
    """An answer with the check of its intent."""

    draft: _AnswerDraft
    check: tuple[CheckFacts, str] | None = None
    """The check and its detail text; None if nothing was to be checked."""
    missing: str = ""
    """What the next synthesis is told that this answer lacks; empty if none is needed."""
    gaps: int = 0
    """How many asks its judge finds not met."""
    coverage: WordCoverage | None = None
    faults: tuple[FormFault, ...] = ()
    """What code finds missing or wrong in it."""

    @property
    def is_final(self) -> bool:
        """Whether no synthesis follows: nothing is missing, or the Synthesizer has failed."""
        return self.draft.is_assembled or not (self.missing or self.faults)

    @property
    def checks(self) -> list[tuple[CheckFacts, str]]:
        """The checks to record of it."""
        unusable = CheckFacts(SYNTHESIS, Outcome.INDETERMINATE, Check.FORM, "unusable")
        stood_in = [(unusable, "")] if self.draft.is_assembled else []
        return [*stood_in, *([self.check] if self.check else [])]

    @property
    def rank(self) -> tuple[bool, int, bool, int, int]:
        """Where the answer stands among others, by its check: the higher the better."""
        is_flagged = self.coverage is not None and self.coverage.is_flagged
        has_failed = self.check is not None and self.check[0].outcome is Outcome.FAILED
        term_count = self.coverage.found if self.coverage else 0
        return not has_failed, -self.gaps, not is_flagged, -len(self.faults), term_count


def _covered() -> CheckFacts:
    return CheckFacts(INTENT, Outcome.OK, Check.COVERAGE)


def _is_echo(request: str, answer: str, coverage: WordCoverage | None) -> bool:
    if coverage is not None:
        return coverage.finding is CoverageFinding.ECHO
    return is_echo(request, answer)
