"""The one fold of entries into a run.

Resuming, showing, steering and measuring a run all begin here.  The fold is total: entries of
unknown kinds, or in an order that no engine would write, change nothing that they do not say.  It
takes each strand's entries in their order, and the strands in any, in one sitting or in several.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, assert_never

import msgspec
from msgspec.structs import replace

from forum.ledger import (
    MAIN_STRAND,
    NO_LIMIT,
    Amount,
    Entry,
    Outcome,
    Position,
    RunCloseFacts,
)
from forum.tlog import Hash
from forum.work.kinds import (
    CONTROL,
    TURN_PREFIX,
    AcceptedFacts,
    AnswerFacts,
    CallFacts,
    CancelFacts,
    CheckFacts,
    DelegationFacts,
    GateDecision,
    GateDecisionByFacts,
    GateDecisionFacts,
    GateEditFacts,
    GateOpenFacts,
    IntentFacts,
    InterruptionFacts,
    Next,
    OutcomeFacts,
    PlanFacts,
    ReplyFacts,
    ResumptionFacts,
    RouteFacts,
    SkipFacts,
    StopFacts,
    StopReason,
    VerdictFacts,
    gate_strand,
    task_of_strand,
    task_strand,
    tool_gate_subject,
)
from forum.work.policy import Answer

UNNAMED_AGENT = "agent"
"""What the agent without a name is called where a stop tells what was spent."""


class TaskState(StrEnum):
    """How far a task has come."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    STOPPED = "stopped"

    @property
    def is_end(self) -> bool:
        """Whether nothing follows."""
        match self:
            case TaskState.PENDING | TaskState.RUNNING | TaskState.WAITING:
                return False
            case TaskState.PASSED | TaskState.FAILED | TaskState.SKIPPED | TaskState.STOPPED:
                return True
            case _:
                assert_never(self)


class CallRecord(msgspec.Struct, frozen=True):
    """One call of a model, and its reply if there is one."""

    at: Position
    entry: Hash
    called: CallFacts
    begun: int
    replied: ReplyFacts | None = None
    reply_at: Position | None = None
    reply: Hash | None = None
    ended: int = 0

    @property
    def spent(self) -> Amount:
        """What it has cost, or can still cost."""
        if self.replied is None:
            return self.called.reserved
        return Amount(self.replied.usd, self.replied.tokens, 1)


class ToolUseRecord(msgspec.Struct, frozen=True):
    """One effect on the world, and what became of it if that is known."""

    at: Position
    entry: Hash
    intended: IntentFacts
    happened: OutcomeFacts | None = None
    outcome_at: Position | None = None
    outcome: Hash | None = None


class TaskRun(msgspec.Struct, frozen=True):
    """A task as far as it has come."""

    id: str
    state: TaskState = TaskState.RUNNING
    calls: tuple[CallRecord, ...] = ()
    uses: tuple[ToolUseRecord, ...] = ()
    verdicts: tuple[VerdictFacts, ...] = ()
    skipped: SkipFacts | None = None
    stopped: StopFacts | None = None
    delegated: DelegationFacts | None = None
    last: Hash | None = None
    """Its last entry: the cause of what waits for it."""

    @property
    def result(self) -> CallRecord | None:
        """The call whose reply was accepted, or came last."""
        own = [c for c in self.calls if c.replied is not None and not c.called.role]
        return own[-1] if own else None

    @property
    def verdict(self) -> VerdictFacts | None:
        """The last word on it."""
        return self.verdicts[-1] if self.verdicts else None

    @property
    def attempts(self) -> int:
        """How often it was tried."""
        return max((call.called.attempt for call in self.calls), default=0)

    @property
    def spent(self) -> Amount:
        """What its calls have cost, or can still cost."""
        return sum_amounts(call.spent for call in self.calls)


class Gate(msgspec.Struct, frozen=True):
    """Something that waits, or waited, for a decision."""

    strand: str
    opened: GateOpenFacts
    shown_at: Position
    digest: str
    """The commitment to what is shown: a decision names it."""
    begun: int
    entry: Hash
    """The last entry about it."""
    decided: GateDecision | None = None

    @property
    def deadline(self) -> int:
        """When its default holds, in microseconds since 1970."""
        return self.begun + 1000 * self.opened.milliseconds


class RunState(StrEnum):
    """How far a run has come."""

    ACCEPTED = "accepted"
    RUNNING = "running"
    WAITING = "waiting"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"
    ENDED = "ended"


class Run(msgspec.Struct, frozen=True):
    """A run as its entries tell it."""

    accepted: AcceptedFacts | None = None
    begun: int = 0
    ended: int = 0
    route: Hash | None = None
    routed: RouteFacts | None = None
    plan: Hash | None = None
    planned: int = 0
    """How many tasks its plan has."""
    tasks: Mapping[str, TaskRun] = {}
    gates: Mapping[str, Gate] = {}
    """By strand."""
    cancelled: bool = False
    interruptions: int = 0
    """How often it was interrupted."""
    interrupted: bool = False
    """Whether it was not resumed since then."""
    stopped: StopFacts | None = None
    checks: tuple[tuple[Hash, CheckFacts], ...] = ()
    """How the answer was looked at before it was given."""
    answered: AnswerFacts | None = None
    answer_at: Position | None = None
    outcome: Outcome | None = None
    lengths: Mapping[str, int] = {}
    """How many entries of each strand were taken in."""

    @property
    def state(self) -> RunState:
        """How far it has come."""
        if self.outcome is not None:
            return RunState.ENDED
        if self.interrupted:
            return RunState.INTERRUPTED
        if self.stopped is not None or self.cancelled:
            return RunState.STOPPED
        running = any(self.task(name).state is TaskState.RUNNING for name in self.tasks)
        if self.open_gates and not running:
            return RunState.WAITING
        sitting = any(name.startswith(TURN_PREFIX) for name in self.tasks)
        return RunState.RUNNING if self.plan or sitting else RunState.ACCEPTED

    @property
    def open_gates(self) -> tuple[Gate, ...]:
        """What waits for a decision."""
        return tuple(gate for gate in self.gates.values() if gate.decided is None)

    @property
    def deadline(self) -> int | None:
        """When its time is over, in microseconds since 1970."""
        if self.accepted is None or self.accepted.milliseconds == AcceptedFacts().milliseconds:
            return None
        return self.begun + 1000 * self.accepted.milliseconds

    @property
    def spent(self) -> Amount:
        """What all calls have cost, or can still cost."""
        return sum_amounts(task.spent for task in self.tasks.values())

    @property
    def spent_by(self) -> Mapping[str, Amount]:
        """The same by agent."""
        found: dict[str, Amount] = {}
        for task in self.tasks.values():
            for call in task.calls:
                agent = call.called.agent
                found[agent] = found.get(agent, Amount()).plus(call.spent)
        return dict(sorted(found.items()))

    def task(self, name: str) -> TaskRun:
        """Return a task as far as it has come, also when it has not begun."""
        task = self.tasks.get(name) or TaskRun(name, TaskState.PENDING)
        if task.state.is_end or not self._is_waiting(task):
            return task
        return replace(task, state=TaskState.WAITING)

    def _is_waiting(self, task: TaskRun) -> bool:
        """Tell whether a person, or a run of its own, has the word."""
        uses = len(task.uses)
        subjects = (
            task_strand(task.id),
            tool_gate_subject(task.id, uses + 1),
            f"effect/{task.id}/{uses}",
        )
        gates = (self.gates.get(gate_strand(subject)) for subject in subjects)
        return any(gate is not None and gate.decided is None for gate in gates) or (
            task.delegated is not None and any(call.replied is None for call in task.calls)
        )

    def decision(self, strand: str) -> Answer | None:
        """Return what was decided at a gate."""
        gate = self.gates.get(strand)
        return gate.decided.answer if gate and gate.decided else None


def last_reply_position(task: TaskRun) -> Position | None:
    """Return where the last reply of a task's own work is, if one came that said something."""
    own = [call for call in task.calls if call.replied is not None and not call.called.role]
    good = [call for call in own if call.replied and call.replied.outcome is Outcome.OK]
    return (good or own)[-1].reply_at if own else None


def sum_amounts(amounts: Iterable[Amount]) -> Amount:
    """Return all amounts together; as much as an entry can say where it is more."""
    usd = tokens = calls = 0
    for amount in amounts:
        usd, tokens, calls = usd + amount.usd, tokens + amount.tokens, calls + amount.calls
    return Amount(min(usd, NO_LIMIT), min(tokens, NO_LIMIT), calls)


_OUTCOMES = {
    StopReason.BUDGET: Outcome.DENIED,
    StopReason.DEPTH: Outcome.DENIED,
    StopReason.REJECTED: Outcome.DENIED,
    StopReason.DEADLINE: Outcome.TIMEOUT,
    StopReason.CANCELLED: Outcome.CANCELLED,
}


def outcome_of_stop(stopped: StopFacts) -> Outcome:
    """Return how a run ends that was stopped."""
    return _OUTCOMES.get(stopped.reason, Outcome.FAILED)


def stop_reason(run: Run) -> StopReason | None:
    """Return why a run was stopped, or a run within one of its tasks that failed for it."""
    if run.stopped is not None:
        return run.stopped.reason
    reasons = (inner_stop_reason(task) for task in run.tasks.values())
    return next((reason for reason in reasons if reason is not None), None)


def inner_stop_reason(task: TaskRun) -> StopReason | None:
    """Return why the run within a failed task was stopped, as the reply of that run says."""
    call = task.result
    if task.delegated is None or task.state is not TaskState.FAILED or call is None:
        return None
    code = call.replied.code if call.replied else ""
    return next((reason for reason in StopReason if reason == code), None)


IdentifiedEntry = tuple[Hash, Entry[Any]]
"""An entry, and its id."""


def fold(entries: Iterable[IdentifiedEntry], run: Run | None = None) -> Run:
    """Return the run that these entries tell, going on from one that was folded before."""
    before = run or Run()
    folding = _RunFolder(before)
    for leaf, entry in entries:
        folding.add_entry(leaf, entry)
    return folding.result()


class _RunFolder:
    """A run while entries are added to it."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._tasks, self._gates = dict(run.tasks), dict(run.gates)
        self._lengths = dict(run.lengths)

    def result(self) -> Run:
        return replace(self._run, tasks=self._tasks, gates=self._gates, lengths=self._lengths)

    def add_entry(self, leaf: Hash, entry: Entry[Any]) -> None:
        self._lengths[entry.strand] = max(entry.n + 1, self._lengths.get(entry.strand, 0))
        place, _, name = entry.strand.partition("/")
        subject = task_of_strand(entry.strand)
        if entry.strand == MAIN_STRAND:
            self._add_main_entry(leaf, entry)
        elif entry.strand == CONTROL:
            if isinstance(entry.facts, CancelFacts):
                self._run = replace(self._run, cancelled=True)
        elif subject is not None:
            task = self._tasks.get(subject) or TaskRun(subject)
            self._tasks[subject] = replace(_fold_task(task, leaf, entry), last=leaf)
        elif place == "gate" and name:
            self._add_gate_entry(leaf, entry)

    def _add_main_entry(self, leaf: Hash, entry: Entry[Any]) -> None:
        run = self._run
        match entry.facts:
            case AcceptedFacts() as facts:
                self._run = replace(run, accepted=facts, begun=entry.ts)
            case RouteFacts() as facts:
                self._run = replace(run, route=leaf, routed=facts)
            case PlanFacts() as facts:
                self._run = replace(run, plan=leaf, planned=facts.tasks)
            case CheckFacts() as facts:
                self._run = replace(run, checks=(*run.checks, (leaf, facts)))
            case StopFacts() as facts:
                self._run = replace(run, stopped=facts)
            case AnswerFacts() as facts:
                self._run = replace(run, answered=facts, answer_at=_position_of(entry))
            case RunCloseFacts() as facts:
                self._run = replace(run, outcome=facts.outcome, ended=entry.ts)
            case facts:
                self._run = _fold_interruption(run, facts)

    def _add_gate_entry(self, leaf: Hash, entry: Entry[Any]) -> None:
        gate = self._gates.get(entry.strand)
        match entry.facts:
            case GateOpenFacts() as facts if gate is None:
                gate = Gate(
                    entry.strand, facts, _position_of(entry), _shown_digest(entry), entry.ts, leaf
                )
            case GateEditFacts() if gate is not None and gate.decided is None:
                gate = replace(
                    gate, shown_at=_position_of(entry), digest=_shown_digest(entry), entry=leaf
                )
            case (GateDecisionFacts() | GateDecisionByFacts()) as facts if (
                gate and gate.decided is None
            ):
                gate = replace(gate, decided=facts, entry=leaf)
            case _:
                pass
        if gate is not None:
            self._gates[entry.strand] = gate


def _fold_interruption(run: Run, facts: object) -> Run:
    """Return the run as interrupted or resumed, if these facts say so."""
    match facts:
        case InterruptionFacts():
            return replace(run, interruptions=run.interruptions + 1, interrupted=True)
        case ResumptionFacts():
            return replace(run, interrupted=False)
        case _:
            return run


def _fold_task(task: TaskRun, leaf: Hash, entry: Entry[Any]) -> TaskRun:
    match entry.facts:
        case CallFacts() | ReplyFacts():
            return replace(task, calls=_fold_call(task.calls, leaf, entry))
        case IntentFacts() | OutcomeFacts():
            return replace(task, uses=_fold_tool_use(task.uses, leaf, entry))
        case VerdictFacts() as facts:
            state = {Next.ACCEPT: TaskState.PASSED, Next.GIVE_UP: TaskState.FAILED}
            verdicts = (*task.verdicts, facts)
            return replace(task, verdicts=verdicts, state=state.get(facts.next, task.state))
        case SkipFacts() as facts:
            task = replace(task, skipped=facts, state=TaskState.SKIPPED)
        case StopFacts() as facts:
            task = replace(task, stopped=facts, state=TaskState.STOPPED)
        case DelegationFacts() as facts:
            task = replace(task, delegated=facts)
        case _:
            pass
    return task


def _fold_call(
    calls: tuple[CallRecord, ...], leaf: Hash, entry: Entry[Any]
) -> tuple[CallRecord, ...]:
    if isinstance(entry.facts, CallFacts):
        return (*calls, CallRecord(_position_of(entry), leaf, entry.facts, entry.ts))
    if not calls or calls[-1].replied is not None:
        return calls  # a reply to nothing
    answered = replace(
        calls[-1], replied=entry.facts, reply_at=_position_of(entry), reply=leaf, ended=entry.ts
    )
    return (*calls[:-1], answered)


def _fold_tool_use(
    uses: tuple[ToolUseRecord, ...], leaf: Hash, entry: Entry[Any]
) -> tuple[ToolUseRecord, ...]:
    if isinstance(entry.facts, IntentFacts):
        return (*uses, ToolUseRecord(_position_of(entry), leaf, entry.facts))
    if not uses:
        return uses
    # A person's word may follow upon an outcome that nobody knew.
    known = replace(uses[-1], happened=entry.facts, outcome_at=_position_of(entry), outcome=leaf)
    return (*uses[:-1], known)


def _position_of(entry: Entry[Any]) -> Position:
    return Position(entry.run, entry.strand, entry.n)


def _shown_digest(entry: Entry[Any]) -> str:
    body = entry.bodies.get("shown")
    return body.h if body else ""
