"""What a program learns of a run: its answer, tasks, verdicts, cost, and why it failed."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Generic, TypeVar

import msgspec

from forum import errors
from forum.app import Forum, RunView
from forum.deliberation.council_kinds import Accord, CouncilCloseFacts
from forum.deliberation.council_report import Blocker, MinorityPosition, read_report
from forum.ledger.kinds import Outcome
from forum.sdk.typed_values import AnswerType
from forum.work.acceptance_criteria import Check
from forum.work.kinds import COVERAGE, StopFacts, StopReason, VerdictFacts
from forum.work.run_fold import TaskRun, TaskState, last_reply_position
from forum.work.run_words import RUN_WORDS
from forum.work.team_settings import NANO_USD

ValueT = TypeVar("ValueT")
_MAX_REASON_CHARS = 500
_FAILED = (TaskState.FAILED, TaskState.STOPPED)


class TaskVerdict(msgspec.Struct, frozen=True):
    """A verdict on one attempt of a task."""

    attempt: int
    passed: bool
    check: Check
    """By what the result was judged."""
    reason: str = ""
    judge: str = ""
    """The agent that judged, where code could not."""
    feedback: str = ""
    """What the judge wrote."""


class CouncilOutcome(msgspec.Struct, frozen=True):
    """How far a council agreed, and what was said against its answer."""

    accord: Accord
    dissent: tuple[MinorityPosition, ...] = ()
    """The positions that did not become the answer, the heaviest first."""
    blockers: tuple[Blocker, ...] = ()
    """Objections that must be answered first."""


class TaskOutcome(msgspec.Struct, frozen=True):
    """A task of a run, as far as it has come."""

    id: str
    state: TaskState
    output: str | None = None
    """Its last reply; None before, and if it was erased."""
    reason: str = ""
    """Why it did not pass."""
    verdicts: tuple[TaskVerdict, ...] = ()
    council: CouncilOutcome | None = None
    """The council that deliberated on it."""
    attempts: int = 0
    cost: Decimal = Decimal(0)
    """In dollars."""
    tokens: int = 0


class RunResult(msgspec.Struct, Generic[ValueT], frozen=True):
    """How a run ended, or what it waits for."""

    run: str
    outcome: Outcome | None
    """None if the run has not ended."""
    answer: str | None
    waiting: tuple[str, ...]
    """The subjects of the gates that wait for a decision."""
    usd: float
    """The cost of its calls, in dollars, rounded to a float; `cost` is exact."""
    cost: Decimal = Decimal(0)
    """The cost of its calls, in dollars."""
    tokens: int = 0
    calls: int = 0
    reason: str = ""
    """Why it failed, was stopped, is undecided or waits; empty if all is well."""
    tasks: Mapping[str, TaskOutcome] = {}
    """The tasks of its plan, by id."""
    council: CouncilOutcome | None = None
    """The council that deliberated on the request."""
    parsed: ValueT | None = None
    flags: tuple[str, ...] = ()
    """Why the answer may be about something else, by its words: `off-topic`, `no-number`, `echo`.

    A flag fails nothing.
    """

    @property
    def value(self) -> ValueT:
        """The answer as the type that `result=` named.  Raises `NoTypedAnswer` with the reason."""
        if self.parsed is None:
            why = self.reason or "submit was not given result=, the type of the answer"
            raise errors.NoTypedAnswer(self.run, why)
        return self.parsed

    @property
    def verdicts(self) -> Mapping[str, tuple[TaskVerdict, ...]]:
        """The verdicts on each task, by its id."""
        return {name: task.verdicts for name, task in self.tasks.items()}

    @property
    def accord(self) -> Accord | None:
        """How far the council agreed: that of the request, or the least of those of tasks."""
        accords = [council.accord for council in self._councils()]
        return max(accords, key=list(Accord).index, default=None)

    @property
    def dissent(self) -> tuple[MinorityPosition, ...]:
        """The positions that did not become the answer of a council."""
        return tuple(position for council in self._councils() for position in council.dissent)

    def _councils(self) -> Iterator[CouncilOutcome]:
        for council in (self.council, *(task.council for task in self.tasks.values())):
            if council is not None:
                yield council


def read_result(forum: Forum, run: str, into: AnswerType[ValueT] | None) -> RunResult[ValueT]:
    """Return what is known of a run now."""
    return build_result(forum, forum.reads.view_run(run), into)


def build_result(
    forum: Forum, view: RunView, into: AnswerType[ValueT] | None = None
) -> RunResult[ValueT]:
    """Return what a view shows of a run."""
    tasks = {task.id: task for task in _read_tasks(forum, view)}
    council, spent = _read_council(view), view.state.spent
    answer = view.answer.decode(errors="replace") if view.answer is not None else None
    waiting = tuple(gate.opened.subject for _, gate in view.gates)
    reason, parsed = _explain(view, tasks, council), None
    if into is not None and view.state.outcome is Outcome.OK:
        try:
            parsed = into.parse(answer or "")
        except ValueError as error:
            reason = f"the answer is no {into.name}: {error}"[:_MAX_REASON_CHARS]
    return RunResult(
        flags=tuple(check.reason for _, check in view.state.checks if check.subject == COVERAGE),
        run=view.run,
        outcome=view.state.outcome,
        answer=answer,
        waiting=waiting,
        usd=spent.usd / NANO_USD,
        cost=_dollars(spent.usd),
        tokens=spent.tokens,
        calls=spent.calls,
        reason=reason or (f"waits for approval: {', '.join(waiting)}" if waiting else ""),
        tasks=tasks,
        council=council,
        parsed=parsed,
    )


def _read_tasks(forum: Forum, view: RunView) -> Iterator[TaskOutcome]:
    for planned in view.plan.tasks if view.plan else ():
        task = view.state.task(planned.id)
        council = None
        if planned.panel is not None and task.delegated is not None and task.state.is_end:
            council = _read_council(forum.reads.view_run(task.delegated.run))
        yield TaskOutcome(
            id=task.id,
            state=task.state,
            output=forum.reads.read_text(last_reply_position(task), "output"),
            reason=_explain_task(view, task),
            verdicts=tuple(_read_verdict(view, task, verdict) for verdict in task.verdicts),
            council=council,
            attempts=task.attempts,
            cost=_dollars(task.spent.usd),
            tokens=task.spent.tokens,
        )


def _read_verdict(view: RunView, task: TaskRun, verdict: VerdictFacts) -> TaskVerdict:
    opinion = view.opinions.get((task.id, verdict.attempt))
    return TaskVerdict(
        attempt=verdict.attempt,
        passed=verdict.outcome is Outcome.OK,
        check=verdict.check,
        reason=verdict.reason,
        judge=verdict.judge,
        feedback=opinion.feedback if opinion else "",
    )


def _read_council(view: RunView) -> CouncilOutcome | None:
    """Return how the council of a session ended; None if there was none, or it goes on."""
    for note in view.notes:
        if isinstance(note.facts, CouncilCloseFacts):
            body = next((body.data for body in note.bodies if body.name == "report"), b"")
            report = read_report(body) if body else None
            return CouncilOutcome(
                note.facts.accord,
                report.minority if report else (),
                report.blockers if report else (),
            )
    return None


def _explain(
    view: RunView, tasks: Mapping[str, TaskOutcome], council: CouncilOutcome | None
) -> str:
    """Return why a run failed or is undecided; empty if it did not fail."""
    state = view.state
    if state.stopped is not None:
        return _explain_stop(state.stopped)
    if state.outcome is None:
        return "it was interrupted; go on with forum resume" if state.interrupted else ""
    if council is not None and council.accord in (Accord.SPLIT, Accord.BLOCKED):
        objections = "; ".join(blocker.text for blocker in council.blockers)
        return f"{RUN_WORDS[council.accord]}{f': {objections}' if objections else ''}"
    for leaf, check in state.checks:
        is_failure = check.outcome is Outcome.FAILED and check.check is not Check.KEPT
        if is_failure and state.outcome is not Outcome.OK:
            found = view.check_details.get(leaf.hex(), "") or check.reason
            return f"the answer did not pass the check {check.subject!r}: {found}"
    failed = [f"{task.id}: {task.reason}" for task in tasks.values() if task.state in _FAILED]
    turns = [_explain_task(view, task) for task in state.tasks.values() if task.state in _FAILED]
    other = "" if state.outcome is Outcome.OK else RUN_WORDS[state.outcome]
    return other and ("; ".join(failed) or next(filter(None, turns), "") or other)


def _explain_task(view: RunView, task: TaskRun) -> str:
    """Return why a task did not pass; empty if it passed, or has not ended."""
    if task.skipped is not None:
        return f"skipped, because {task.skipped.cause} did not pass"
    if task.stopped is not None:
        return _explain_stop(task.stopped)
    if task.state is not TaskState.FAILED or task.verdict is None:
        return ""
    verdict, call = task.verdict, task.result
    parts = [verdict.reason or verdict.check.value]
    if call is not None and call.replied is not None and call.replied.outcome is not Outcome.OK:
        parts = [call.replied.code or call.replied.why.value or verdict.reason]
    opinion = view.opinions.get((task.id, verdict.attempt))
    parts += [view.errors.get(task.id, ""), opinion.feedback if opinion else ""]
    words = ": ".join(" ".join(part.split()) for part in parts if part.strip())
    return f"{words} (after {task.attempts} attempts)"[:_MAX_REASON_CHARS]


def _explain_stop(stopped: StopFacts) -> str:
    if stopped.reason is not StopReason.BUDGET:
        return RUN_WORDS[_STOP_WORDS.get(stopped.reason, stopped.reason.value)]
    unit = stopped.limit.partition("/")[0]
    if unit == "usd":
        asked, used, cap = (f"${_dollars(n)}" for n in (stopped.asked, stopped.used, stopped.cap))
        return f"budget: {asked} more was needed, and {used} of {cap} was used"
    used, cap = f"{stopped.used:,}", f"{stopped.cap:,} {stopped.limit}"
    return f"budget: {stopped.asked:,} more was needed, and {used} of {cap} was used"


_STOP_WORDS = {StopReason.DEADLINE: Outcome.TIMEOUT.value}


def _dollars(nano: int) -> Decimal:
    return Decimal(nano).scaleb(-9).normalize() + 0
