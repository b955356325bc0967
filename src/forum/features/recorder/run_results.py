"""What a program learns of a run: its answer, tasks, verdicts, cost, and why it failed."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Generic, TypeVar

import msgspec

from forum import errors
from forum.app import Forum, RunView, formatting
from forum.app.panel_outcomes import read_panel_outcome
from forum.features.recorder.typed_values import AnswerType
from forum.ledger.kinds import Outcome
from forum.runs.acceptance_criteria import Check
from forum.runs.council_end import Accord
from forum.runs.kinds import COVERAGE, ROLE_PREFIX, AccordFacts, VerdictFacts
from forum.runs.panel_outcome import CouncilOutcome, Dissent
from forum.runs.run_fold import TaskRun, TaskState, last_reply_position
from forum.units import NANO_USD

ValueT = TypeVar("ValueT")
_MAX_REASON_CHARS = 500
_NOT_PASSED = (TaskState.FAILED, TaskState.SKIPPED, TaskState.STOPPED)


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
    council: CouncilOutcome | None = None
    """The panel that judged, if the judge was one."""


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
    """The panel that deliberated on it, a council or a symposium."""
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
    """The panel that deliberated on the request, a council or a symposium."""
    intent: CouncilOutcome | None = None
    """The panel that judged whether the answer is one to the request."""
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
        """How far its panels agreed: the least of those that worked, and of those that judged.

        Of the judges of a task, the one of its last attempt counts.
        """
        accords = [panel.accord for panel in self._panels()]
        return max(accords, key=list(Accord).index, default=None)

    @property
    def dissent(self) -> tuple[Dissent, ...]:
        """What is held against the answers of its panels, the same ones as for `accord`.

        Of each panel, objections that must be answered come first, then other positions.
        """
        return tuple(
            position for panel in self._panels() for position in (*panel.blockers, *panel.dissent)
        )

    def _panels(self) -> Iterator[CouncilOutcome]:
        panels = [self.council]
        for task in self.tasks.values():
            panels += [task.council, *(verdict.council for verdict in task.verdicts[-1:])]
        yield from (panel for panel in (*panels, self.intent) if panel is not None)


def read_result(forum: Forum, run: str, into: AnswerType[ValueT] | None) -> RunResult[ValueT]:
    """Return what is known of a run now."""
    return build_result(forum, forum.reads.view_run(run), into)


def build_result(
    forum: Forum, view: RunView, into: AnswerType[ValueT] | None = None
) -> RunResult[ValueT]:
    """Return what a view shows of a run."""
    tasks = {task.id: task for task in _read_tasks(forum, view)}
    council, spent = read_panel_outcome(view), view.state.spent
    answer = view.answer.decode(errors="replace") if view.answer is not None else None
    waiting = tuple(gate.opened.subject for _, gate in view.gates)
    reason, parsed = _explain(view, council), None
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
        reason=reason,
        tasks=tasks,
        council=council,
        intent=_read_intent_panel(forum, view),
        parsed=parsed,
    )


def _read_tasks(forum: Forum, view: RunView) -> Iterator[TaskOutcome]:
    for planned in view.plan.tasks if view.plan else ():
        task = view.state.task(planned.id)
        judges = _read_judges(forum, task)
        yield TaskOutcome(
            id=task.id,
            state=task.state,
            output=forum.reads.read_text(last_reply_position(task), "output"),
            reason=formatting.explain_task_state(view, task) if task.state in _NOT_PASSED else "",
            verdicts=tuple(_read_verdict(view, task, each, judges) for each in task.verdicts),
            council=_read_panel(forum, task.accord) if task.accord and task.state.is_end else None,
            attempts=task.attempts,
            cost=_dollars(task.spent.usd),
            tokens=task.spent.tokens,
        )


def _read_verdict(
    view: RunView, task: TaskRun, verdict: VerdictFacts, judges: Mapping[int, CouncilOutcome]
) -> TaskVerdict:
    opinion = view.opinions.get((task.id, verdict.attempt))
    return TaskVerdict(
        attempt=verdict.attempt,
        passed=verdict.outcome is Outcome.OK,
        check=verdict.check,
        reason=verdict.reason,
        judge=verdict.judge,
        feedback=opinion.feedback if opinion else "",
        council=judges.get(verdict.attempt),
    )


def _read_judges(forum: Forum, task: TaskRun) -> dict[int, CouncilOutcome]:
    """Return the panels that judged a task, by attempt."""
    return {each.attempt: _read_panel(forum, each.accord) for each in task.judged}


def _read_intent_panel(forum: Forum, view: RunView) -> CouncilOutcome | None:
    """Return the panel that judged the answer last; None if none did."""
    roles = [task for task in view.state.tasks.values() if task.id.startswith(ROLE_PREFIX)]
    judged = [each.accord for task in roles for each in task.judged]
    return _read_panel(forum, judged[-1]) if judged else None


def _read_panel(forum: Forum, facts: AccordFacts) -> CouncilOutcome:
    """Return how far a panel of a run agreed, and what its own run says of the dissent."""
    session = read_panel_outcome(forum.reads.view_run(facts.run))
    return msgspec.structs.replace(session or CouncilOutcome(facts.accord), accord=facts.accord)


def _explain(view: RunView, council: CouncilOutcome | None) -> str:
    """Return why a run failed, was stopped, is undecided or waits; empty if all is well."""
    objections = "; ".join(blocker.text for blocker in council.blockers) if council else ""
    reason = formatting.explain_failure(view) or formatting.explain_run_state(view)
    return f"{reason}: {objections}" if reason and objections else reason


def _dollars(nano: int) -> Decimal:
    return Decimal(nano).scaleb(-9).normalize() + 0
