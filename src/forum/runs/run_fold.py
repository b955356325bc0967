"""Fold entries into the state of a run.

Resuming, showing, steering and measuring a run all use this fold. It is total: entries of unknown
kinds, or in an order that no engine writes, change only what they state and never raise. Entries of
one strand must come in their order; strands may come in any order, in one call or several.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, assert_never

import msgspec
from msgspec.structs import replace

from forum.ledger.entry import MAIN_STRAND, Entry
from forum.ledger.kinds import NoteFacts, Outcome, RunCloseFacts, RunOpenFacts
from forum.ledger.ports import NO_LIMIT, UNLIMITED, Amount, Position
from forum.runs import kinds, report_fold
from forum.runs.acceptance_criteria import Check
from forum.runs.council_end import UNDECIDED, Accord, CouncilCloseFacts, as_undecided
from forum.runs.policy import Answer, Role
from forum.runs.report_kinds import Provenance, ReportGapFacts, ReportSourceFacts
from forum.runs.spending import cost_of
from forum.tlog import Hash

UNNAMED_AGENT = "agent"
"""The name under which a stop reports the spending of the agent without a name."""


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
        """Whether the state is final."""
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
    called: kinds.CallFacts
    begun: int
    replied: kinds.ReplyFacts | None = None
    reply_at: Position | None = None
    reply: Hash | None = None
    ended: int = 0
    commitment: str = ""
    """The salted commitment to the output of the reply."""

    @property
    def is_child_run(self) -> bool:
        """Whether a run within was asked, and no agent."""
        return kinds.is_inner_run(self.called.agent, self.called.model)

    @property
    def spent(self) -> Amount:
        """The cost of the call, or its reservation while there is no reply."""
        return cost_of(self.called, self.replied)


class ToolUseRecord(msgspec.Struct, frozen=True):
    """One effect on the world, and what became of it if that is known."""

    at: Position
    entry: Hash
    intended: kinds.IntentFacts
    happened: kinds.OutcomeFacts | None = None
    outcome_at: Position | None = None
    outcome: Hash | None = None


class PanelVerdict(msgspec.Struct, frozen=True):
    """How far a panel agreed that judged an attempt; its findings are a body of the entry."""

    attempt: int
    accord: kinds.AccordFacts
    at: Position


class TaskRun(msgspec.Struct, frozen=True):
    """A task as far as it has come."""

    id: str
    state: TaskState = TaskState.RUNNING
    calls: tuple[CallRecord, ...] = ()
    uses: tuple[ToolUseRecord, ...] = ()
    verdicts: tuple[kinds.VerdictFacts, ...] = ()
    skipped: kinds.SkipFacts | None = None
    stopped: kinds.StopFacts | None = None
    compactions: tuple[kinds.CompactionFacts, ...] = ()
    """How its conversations were shortened, in order."""
    children: tuple[kinds.DelegationFacts, ...] = ()
    """The runs within: one for each call of `kinds.CHILD_RUN`."""
    accord: kinds.AccordFacts | None = None
    """How far the last panel that worked on the task agreed."""
    accord_at: Position | None = None
    judged: tuple["PanelVerdict", ...] = ()
    """What panels said that judged the task, or the answer of the run."""
    last: Hash | None = None
    """The task's last entry, which is the cause of entries that depend on the task."""

    @property
    def result(self) -> CallRecord | None:
        """The last call with a reply, not counting calls by roles such as the Validator."""
        own = [c for c in self.calls if c.replied is not None and not c.called.role]
        return own[-1] if own else None

    @property
    def verdict(self) -> kinds.VerdictFacts | None:
        """The last verdict."""
        return self.verdicts[-1] if self.verdicts else None

    @property
    def delegated(self) -> kinds.DelegationFacts | None:
        """The last run within that did the work of the task; those that judge it do not count."""
        roles = [call.called.role for call in self.calls if call.is_child_run]
        # The run is named before its call.
        own = [
            child
            for number, child in enumerate(self.children)
            if number >= len(roles) or not roles[number]
        ]
        return own[-1] if own else None

    @property
    def open_run(self) -> str | None:
        """The run within that has not replied yet, or None."""
        if not self.children or not self.calls or not self.calls[-1].is_child_run:
            return None
        return self.children[-1].run if self.calls[-1].replied is None else None

    @property
    def attempts(self) -> int:
        """The number of attempts so far."""
        return max((call.called.attempt for call in self.calls), default=0)

    @property
    def spent(self) -> Amount:
        """The cost of the task's calls; a call without a reply counts with its reservation."""
        return sum_amounts(call.spent for call in self.calls)


class Gate(msgspec.Struct, frozen=True):
    """Something that waits, or waited, for a decision."""

    strand: str
    opened: kinds.GateOpenFacts
    shown_at: Position
    digest: str
    """The digest of the shown content; a decision names it."""
    begun: int
    entry: Hash
    """The last entry of the gate."""
    decided: kinds.GateDecision | None = None
    reason_at: Position | None = None
    """The entry with the reason for the decision, if one was given."""
    is_edited: bool = False
    """Whether the shown content is not the one that the gate was opened with."""

    @property
    def deadline(self) -> int:
        """When the default answer applies, in microseconds since 1970."""
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

    accepted: kinds.AcceptedFacts | None = None
    begun: int = 0
    ended: int = 0
    route: Hash | None = None
    routed: kinds.RouteFacts | None = None
    about: kinds.AboutFacts | None = None
    """The answer of another run, on which a panel deliberates."""
    plan: Hash | None = None
    planned: int = 0
    """The number of tasks in the plan."""
    tasks: Mapping[str, TaskRun] = {}
    gates: Mapping[str, Gate] = {}
    """By strand."""
    cancelled: bool = False
    interruptions: int = 0
    """How often the run was interrupted."""
    interrupted: bool = False
    """Whether the run is interrupted and not resumed yet."""
    stopped: kinds.StopFacts | None = None
    accord: Accord | None = None
    """How far the council agreed that deliberated on the request."""
    checks: tuple[tuple[Hash, kinds.CheckFacts], ...] = ()
    """The checks of the answer, with the ids of their entries."""
    answered: kinds.AnswerFacts | None = None
    answer_at: Position | None = None
    outcome: Outcome | None = None
    lengths: Mapping[str, int] = {}
    """The number of entries folded so far, by strand."""
    opened: bool = False
    """Whether the entry that opens a run is there; the log's own run has none."""
    is_evaluation: bool = False
    report: report_fold.ReportedPart = report_fold.ReportedPart()
    """What programs outside of the engine recorded in the run."""

    @property
    def is_reported(self) -> bool:
        """Whether this is a run that Forum does not drive."""
        return self.opened and self.accepted is None and not self.is_evaluation

    @property
    def provenance(self) -> Provenance:
        """How Forum knows of the run."""
        if self.accepted is not None:
            return Provenance.DRIVEN
        source = self.report.source
        return Provenance(source.told.value) if source else Provenance.REPORTED

    @property
    def cap(self) -> Amount:
        """What the calls of the run may cost at most."""
        if self.accepted is not None:
            return self.accepted.cap
        return self.report.source.cap if self.report.source else UNLIMITED

    @property
    def state(self) -> RunState:
        """The state of the run."""
        # Precedence: ended, interrupted, stopped, waiting, running. A stopped run may still have an
        # open gate about an unknown outcome, and is shown as stopped.
        if self.outcome is not None:
            return RunState.ENDED
        if self.interrupted:
            return RunState.INTERRUPTED
        if self.stopped is not None or self.cancelled:
            return RunState.STOPPED
        running = any(self.task(name).state is TaskState.RUNNING for name in self.tasks)
        if self.open_gates and not running:
            return RunState.WAITING
        if self.is_reported:
            return RunState.RUNNING
        # A session has no plan: its first turn shows that it is running.
        has_turns = any(name.startswith(kinds.TURN_PREFIX) for name in self.tasks)
        return RunState.RUNNING if self.plan or has_turns else RunState.ACCEPTED

    @property
    def open_gates(self) -> tuple[Gate, ...]:
        """The gates that wait for a decision."""
        return tuple(gate for gate in self.gates.values() if gate.decided is None)

    @property
    def deadline(self) -> int | None:
        """When the run's time limit ends, in microseconds since 1970; None without a limit."""
        # The default means that there is no time limit.
        if (
            self.accepted is None
            or self.accepted.milliseconds == kinds.AcceptedFacts().milliseconds
        ):
            return None
        return self.begun + 1000 * self.accepted.milliseconds

    @property
    def spent(self) -> Amount:
        """The cost of all calls; a call without a reply counts with its reservation."""
        tasks = (task.spent for task in self.tasks.values())
        return sum_amounts((*tasks, *(spent for _, spent in self.report.spent_by)))

    @property
    def spent_by(self) -> Mapping[str, Amount]:
        """The cost of all calls by agent."""
        spent: dict[str, Amount] = {}
        for task in self.tasks.values():
            for call in task.calls:
                agent = call.called.agent
                spent[agent] = spent.get(agent, Amount()).plus(call.spent)
        for agent, cost in self.report.spent_by:
            if cost != Amount():
                spent[agent] = spent.get(agent, Amount()).plus(cost)
        return dict(sorted(spent.items()))

    def task(self, name: str) -> TaskRun:
        """Return the state of a task, also if it has not begun or is waiting."""
        task = self.tasks.get(name) or TaskRun(name, TaskState.PENDING)
        if task.state.is_end or not self._is_waiting(task):
            return task
        return replace(task, state=TaskState.WAITING)

    def _is_waiting(self, task: TaskRun) -> bool:
        """Tell whether the task waits for a human decision or for an inner run."""
        # Four gates can block a task: the one before the task, the one before its next tool use,
        # the one that asks for an unknown outcome of its last use, and the one about a dissent.
        uses = len(task.uses)
        subjects = [
            kinds.task_strand(task.id),
            kinds.tool_gate_subject(task.id, uses + 1),
            f"effect/{task.id}/{uses}",
        ]
        # Once the run is stopped, nobody decides about a dissent any more: the task ends.
        if self.stopped is None and not self.cancelled:
            subjects.append(kinds.dissent_gate_subject(task.id))
        gates = (self.gates.get(kinds.gate_strand(subject)) for subject in subjects)
        is_open = any(gate is not None and gate.decided is None for gate in gates)
        return is_open or task.open_run is not None

    def decision(self, strand: str) -> Answer | None:
        """Return the answer given at a gate, or None."""
        gate = self.gates.get(strand)
        return gate.decided.answer if gate and gate.decided else None


def last_reply_position(task: TaskRun) -> Position | None:
    """Return the position of the last successful reply to a task, or else of its last reply.

    Calls by roles do not count.
    """
    own = [call for call in task.calls if call.replied is not None and not call.called.role]
    good = [call for call in own if call.replied and call.replied.outcome is Outcome.OK]
    return (good or own)[-1].reply_at if own else None


def opinion_positions(task: TaskRun) -> dict[int, Position]:
    """Return the position of the judging agent's last reply in each attempt, by attempt."""
    return {
        call.called.attempt: call.reply_at
        for call in task.calls
        if call.called.role == Role.VALIDATOR and call.reply_at is not None
        if not call.is_child_run
    }


def sum_amounts(amounts: Iterable[Amount]) -> Amount:
    """Return the sum of amounts, limited to the largest number that an entry can hold."""
    usd = tokens = calls = 0
    for amount in amounts:
        usd, tokens = usd + amount.usd, tokens + amount.tokens
        calls = calls + amount.calls
    # A recorded count is at most NO_LIMIT; the sum of several counts can be larger.
    return Amount(min(usd, NO_LIMIT), min(tokens, NO_LIMIT), calls)


_OUTCOMES = {
    kinds.StopReason.BUDGET: Outcome.DENIED,
    kinds.StopReason.DEPTH: Outcome.DENIED,
    kinds.StopReason.REJECTED: Outcome.DENIED,
    kinds.StopReason.DEADLINE: Outcome.TIMEOUT,
    kinds.StopReason.CANCELLED: Outcome.CANCELLED,
}


def outcome_of_stop(stopped: kinds.StopFacts) -> Outcome:
    """Return the outcome of a run that was stopped."""
    return _OUTCOMES.get(stopped.reason, Outcome.FAILED)


def stop_reason(run: Run) -> kinds.StopReason | None:
    """Return why a run was stopped, or else why an inner run of a failed task was."""
    if run.stopped is not None:
        return run.stopped.reason
    reasons = (inner_stop_reason(task) for task in run.tasks.values())
    return next((reason for reason in reasons if reason is not None), None)


def has_failed_inner_run(task: TaskRun) -> bool:
    """Return whether a task failed because the inner run that worked on it did not end well."""
    call = task.result
    if task.state is not TaskState.FAILED or call is None or not call.is_child_run:
        return False
    return call.replied is not None and call.replied.outcome is not Outcome.OK


def inner_stop_reason(task: TaskRun) -> kinds.StopReason | None:
    """Return why the inner run of a failed task was stopped."""
    call = task.result
    if task.delegated is None or task.state is not TaskState.FAILED or call is None:
        return None
    code = call.replied.code if call.replied else ""
    # The code of an inner run's reply is the name of its stop reason, if it was stopped.
    return next((reason for reason in kinds.StopReason if reason == code), None)


def undecided_accord(run: Run) -> Accord | None:
    """Return the accord of the council that left an ended run undecided: split, blocked or None.

    The council deliberated on the request, or worked on a task that failed because of it, or
    judged a result or the answer.
    """
    if run.outcome is None or run.stopped is not None:
        return None
    if run.outcome is Outcome.OK:
        return as_undecided(run.accord)
    failed = (task for task in run.tasks.values() if task.state is TaskState.FAILED)
    judged: tuple[kinds.VerdictFacts | kinds.CheckFacts, ...] = (
        *(task.verdict for task in failed if task.verdict),
        *(facts for _, facts in run.checks),
    )
    accords = map(vetoed_accord, judged)
    return next((accord for accord in accords if accord is not None), None)


def is_undecided_task(task: TaskRun) -> bool:
    """Return whether a task failed because a panel that worked on it or judged it is undecided."""
    is_failed = task.state is TaskState.FAILED
    return is_failed and task.verdict is not None and vetoed_accord(task.verdict) is not None


def vetoed_accord(verdict: kinds.VerdictFacts | kinds.CheckFacts) -> Accord | None:
    """Return the accord because of which something was not accepted: split, blocked or None."""
    # Only panels give these reasons: by their own answer, or as the judge of another's.
    if verdict.check not in (Check.OUTCOME, Check.MODEL):
        return None
    return next((accord for accord in UNDECIDED if accord == verdict.reason), None)


IdentifiedEntry = tuple[Hash, Entry[Any]]
"""An entry with its id."""


def fold(entries: Iterable[IdentifiedEntry], run: Run | None = None) -> Run:
    """Return the run after these entries, starting from an earlier state if one is given."""
    before = run or Run()
    folding = _RunFolder(before)
    for leaf, entry in entries:
        folding.add_entry(leaf, entry)
    return folding.result()


class _RunFolder:
    """Mutable state while entries are folded into a run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._tasks, self._gates = dict(run.tasks), dict(run.gates)
        self._lengths = dict(run.lengths)
        # A run can have thousands of spans: the mapping is copied once for each fold.
        self._spans, self._notes = dict(run.report.spans), list(run.report.notes)

    def result(self) -> Run:
        notes = tuple(sorted(self._notes, key=report_fold.note_order))
        report = replace(self._run.report, spans=self._spans, notes=notes)
        return replace(
            self._run,
            tasks=self._tasks,
            gates=self._gates,
            lengths=self._lengths,
            report=report,
        )

    def add_entry(self, leaf: Hash, entry: Entry[Any]) -> None:
        # The lengths let a follower of the run read only new entries in its next fold.
        self._lengths[entry.strand] = max(entry.n + 1, self._lengths.get(entry.strand, 0))
        place, _, name = entry.strand.partition("/")
        subject = kinds.task_of_strand(entry.strand)
        span = report_fold.span_of_strand(entry.strand)
        if isinstance(entry.facts, NoteFacts):
            # The engine writes no notes; a program may write them to strands of any name.
            self._notes.append(
                report_fold.NoteRecord(
                    entry=leaf,
                    strand=entry.strand,
                    step=entry.step,
                    actor=entry.actor,
                    ts=entry.ts,
                )
            )
        elif entry.strand == MAIN_STRAND:
            self._add_main_entry(leaf, entry)
        elif span is not None:
            record = self._spans.get(span) or report_fold.SpanRecord(span)
            self._spans[span] = report_fold.fold_span(record, leaf, entry)
        elif entry.strand == kinds.CONTROL:
            if isinstance(entry.facts, kinds.CancelFacts):
                self._run = replace(self._run, cancelled=True)
        elif subject is not None:
            task = self._tasks.get(subject) or TaskRun(subject)
            self._tasks[subject] = replace(_fold_task(task, leaf, entry), last=leaf)
        elif place == "gate" and name:
            self._add_gate_entry(leaf, entry)

    def _add_main_entry(self, leaf: Hash, entry: Entry[Any]) -> None:
        run = self._run
        match entry.facts:
            case kinds.AcceptedFacts() as facts:
                self._run = replace(run, accepted=facts, begun=entry.ts)
            case kinds.RouteFacts() as facts:
                self._run = replace(run, route=leaf, routed=facts)
            case kinds.PlanFacts() as facts:
                self._run = replace(run, plan=leaf, planned=facts.tasks)
            case kinds.CheckFacts() as facts:
                self._run = replace(run, checks=(*run.checks, (leaf, facts)))
            case kinds.StopFacts() as facts:
                self._run = replace(run, stopped=facts)
            case kinds.AnswerFacts() as facts:
                self._run = replace(run, answered=facts, answer_at=_position_of(entry))
            case RunCloseFacts() as facts:
                self._run = replace(run, outcome=facts.outcome, ended=entry.ts)
            case _:
                self._run = _fold_reported(_fold_interruption(run, entry.facts), leaf, entry)

    def _add_gate_entry(self, leaf: Hash, entry: Entry[Any]) -> None:
        gate = self._gates.get(entry.strand)
        # The first opening and the first decision count: a later one changes nothing, and a decided
        # gate is not edited any more.
        match entry.facts:
            case kinds.GateOpenFacts() as facts if gate is None:
                gate = Gate(
                    strand=entry.strand,
                    opened=facts,
                    shown_at=_position_of(entry),
                    digest=_shown_digest(entry),
                    begun=entry.ts,
                    entry=leaf,
                )
            case kinds.GateEditFacts() if gate is not None and gate.decided is None:
                gate = replace(
                    gate,
                    shown_at=_position_of(entry),
                    digest=_shown_digest(entry),
                    entry=leaf,
                    is_edited=True,
                )
            case kinds.GateReasonFacts() if gate is not None and gate.decided is None:
                gate = replace(gate, reason_at=_position_of(entry))
            case (kinds.GateDecisionFacts() | kinds.GateDecisionByFacts()) as facts if (
                gate and gate.decided is None
            ):
                gate = replace(gate, decided=facts, entry=leaf)
            case _:
                pass
        if gate is not None:
            self._gates[entry.strand] = gate


def _fold_reported(run: Run, leaf: Hash, entry: Entry[Any]) -> Run:
    """Return the run after an entry of its main strand that few runs have."""
    match entry.facts:
        case RunOpenFacts():
            report = replace(run.report, label=entry.actor)
            return replace(run, opened=True, begun=entry.ts, report=report)
        case kinds.EvalOpenFacts() if entry.n == 1:
            return replace(run, is_evaluation=True)
        case kinds.AboutFacts() as facts:
            return replace(run, about=facts)
        case CouncilCloseFacts() as facts:
            return replace(run, accord=facts.accord)
        case ReportSourceFacts() | ReportGapFacts():
            return replace(run, report=_fold_report(run.report, leaf, entry))
        case _:
            return run


def _fold_report(
    report: report_fold.ReportedPart, leaf: Hash, entry: Entry[Any]
) -> report_fold.ReportedPart:
    """Return the reported part of a run after an entry of its main strand."""
    match entry.facts:
        case ReportSourceFacts() as facts if report.source is None:
            at = _position_of(entry)
            return replace(report, source=facts, source_at=at, label=entry.actor)
        case ReportGapFacts() as facts:
            return replace(report, gaps=(*report.gaps, report_fold.GapRecord(leaf, facts)))
        case _:
            return report


def _fold_interruption(run: Run, facts: object) -> Run:
    """Return the run as interrupted or resumed, if the facts record that."""
    match facts:
        case kinds.InterruptionFacts():
            return replace(run, interruptions=run.interruptions + 1, interrupted=True)
        case kinds.ResumptionFacts():
            return replace(run, interrupted=False)
        case _:
            return run


def _fold_task(task: TaskRun, leaf: Hash, entry: Entry[Any]) -> TaskRun:
    match entry.facts:
        case kinds.CallFacts() | kinds.ReplyFacts():
            return replace(task, calls=_fold_call(task.calls, leaf, entry))
        case kinds.IntentFacts() | kinds.OutcomeFacts():
            return replace(task, uses=_fold_tool_use(task.uses, leaf, entry))
        case kinds.VerdictFacts() as facts:
            # A rejected attempt is not a failed task: retries and escalations leave the state
            # unchanged.
            state = {kinds.Next.ACCEPT: TaskState.PASSED, kinds.Next.GIVE_UP: TaskState.FAILED}
            verdicts = (*task.verdicts, facts)
            return replace(task, verdicts=verdicts, state=state.get(facts.next, task.state))
        case kinds.SkipFacts() as facts:
            task = replace(task, skipped=facts, state=TaskState.SKIPPED)
        case kinds.StopFacts() as facts:
            task = replace(task, stopped=facts, state=TaskState.STOPPED)
        case _:
            task = _fold_beside_calls(task, entry)
    return task


def _fold_beside_calls(task: TaskRun, entry: Entry[Any]) -> TaskRun:
    """Return a task after an entry that stands beside its calls."""
    match entry.facts:
        case kinds.DelegationFacts() as facts:
            return replace(task, children=(*task.children, facts))
        case kinds.CompactionFacts() as facts:
            return replace(task, compactions=(*task.compactions, facts))
        case kinds.AccordFacts() as facts if facts.role:
            verdict = PanelVerdict(task.attempts, facts, _position_of(entry))
            return replace(task, judged=(*task.judged, verdict))
        case kinds.AccordFacts() as facts:
            return replace(task, accord=facts, accord_at=_position_of(entry))
        case _:
            return task


def _fold_call(
    calls: tuple[CallRecord, ...], leaf: Hash, entry: Entry[Any]
) -> tuple[CallRecord, ...]:
    if isinstance(entry.facts, kinds.CallFacts):
        return (*calls, CallRecord(_position_of(entry), leaf, entry.facts, entry.ts))
    if not calls or calls[-1].replied is not None:
        return calls  # a reply without a call: ignored
    output = entry.bodies.get("output")
    answered = replace(
        calls[-1],
        replied=entry.facts,
        reply_at=_position_of(entry),
        reply=leaf,
        ended=entry.ts,
        commitment=output.h if output else "",
    )
    return (*calls[:-1], answered)


def _fold_tool_use(
    uses: tuple[ToolUseRecord, ...], leaf: Hash, entry: Entry[Any]
) -> tuple[ToolUseRecord, ...]:
    if isinstance(entry.facts, kinds.IntentFacts):
        return (*uses, ToolUseRecord(_position_of(entry), leaf, entry.facts))
    # The fold must not raise, even for an outcome without an intent, which no engine writes.
    if not uses:
        return uses
    # A second outcome replaces the first: a person may settle an outcome that was unknown.
    use = replace(uses[-1], happened=entry.facts, outcome_at=_position_of(entry), outcome=leaf)
    return (*uses[:-1], use)


def _position_of(entry: Entry[Any]) -> Position:
    return Position(entry.run, entry.strand, entry.n)


def _shown_digest(entry: Entry[Any]) -> str:
    body = entry.bodies.get("shown")
    return body.h if body else ""
