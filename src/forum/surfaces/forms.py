"""The JSON that Forum speaks: one form for each thing, the same at every surface.

A form has no rules of its own: it is made from a value of the app, and says what that says.
Dollars are texts, so that they stay exact; points in time are RFC 3339 in UTC; what is not known,
not limited or not there is null.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from forum.app import RunView
from forum.deliberation import (
    Accord,
    Balloted,
    Concluded,
    CoordinationTurn,
    End,
    Ground,
    Message,
    MessageType,
    Minority,
    Note,
    Opened,
    OutcomeKind,
    PanelContraction,
    Pin,
    Place,
    ProblemStatement,
    Reason,
    Revealed,
    Sat,
    Selected,
    SessionClosed,
    Spoken,
    Synthesis,
    TerminationArtifact,
    Turned,
    read_message,
    read_report,
    read_selection,
    read_termination,
    type_of,
)
from forum.deliberation import Report as CouncilReport
from forum.ledger import NO_LIMIT, Access, AccessGranted, Amount, Facts, Located, Outcome, Scope
from forum.staff import inspect_agent
from forum.surfaces.telling import (
    Part,
    Status,
    dollars,
    draw_tree,
    exit_status,
    first_line,
    iso,
    lost_calls,
    own_calls,
    parts_of,
    run_reason,
    run_time,
    session_end,
    share_of_work,
    task_reason,
    task_time,
)
from forum.tlog import Checkpoint, Hash, TlogProof
from forum.verify import Bodies, Claim, Finding, Problem, Report, Sighting, State
from forum.work import (
    NANO,
    TURN,
    Answer,
    Basis,
    Check,
    Checked,
    Decider,
    Divergence,
    Gate,
    Independence,
    Inspection,
    Judged,
    Lane,
    Next,
    Parting,
    Policy,
    Role,
    Roster,
    Route,
    Run,
    RunState,
    Step,
    StopReason,
    Symposium,
    Task,
    TaskRun,
    TaskState,
    Tier,
    UseOfTool,
    Why,
    agent_for,
)
from forum.work import Claim as Deed

if TYPE_CHECKING:
    from forum.engine import Order, Reply

RunId = Annotated[
    str,
    Meta(description="The name of a run.", examples=["0199c0de-1234-7abc-8def-0123456789ab"]),
]
EntryId = Annotated[
    str, Meta(description="The id of an entry: its leaf hash in the tree, in hexadecimal digits.")
]
Index = Annotated[int, Meta(description="The index of an entry in the log.", examples=[57])]
Usd = Annotated[
    str,
    Meta(description="Dollars, as exact as they are; a text, not a number.", examples=["0.012"]),
]
Moment = Annotated[
    str,
    Meta(description="A point in time (RFC 3339, UTC).", examples=["2026-03-01T12:00:00.250000Z"]),
]
Subject = Annotated[
    str,
    Meta(
        description="What waits at a gate: `plan`, `task/NAME` or `effect/NAME/N`.",
        examples=["plan", "task/announce"],
    ),
]
Digest = Annotated[
    str,
    Meta(description="The digest of what a gate shows; a decision names it."),
]
Seconds = Annotated[float, Meta(description="How long it took, in seconds.", examples=[1.25])]
Object = Annotated[Raw, Meta(extra_json_schema={"type": "object"})]
"""A JSON object, byte for byte as it is recorded."""

MOST = 1000
"""How many divergences are listed."""
_MOST_OF_AN_ERROR = 300


# Runs


class AmountForm(Struct, frozen=True):
    """What something has used."""

    usd: Usd
    tokens: int
    calls: int


def amount_form(amount: Amount) -> AmountForm:
    """Return what something has used, in its form."""
    return AmountForm(dollars(amount.usd), amount.tokens, amount.calls)


class CapForm(Struct, frozen=True):
    """What a run may use at most; null is no limit."""

    usd: Usd | None
    tokens: int | None
    calls: int | None
    seconds: float | None


_UNCAPPED = CapForm(None, None, None, None)


def _cap_form(cap: Amount, milliseconds: int) -> CapForm:
    return CapForm(
        None if cap.usd == NO_LIMIT else dollars(cap.usd),
        None if cap.tokens == NO_LIMIT else cap.tokens,
        None if cap.calls == NO_LIMIT else cap.calls,
        None if milliseconds == NO_LIMIT else milliseconds / 1000,
    )


class RoutedForm(Struct, frozen=True):
    """The lane that a run was given, by what, and how sure that was."""

    lane: str | None
    basis: Basis
    confidence: float
    runner_up: str | None
    margin: float
    roster: Annotated[
        str | None, Meta(description="The digest of the lanes that there were to choose from.")
    ]
    entry: Index | None


def _routed_form(view: RunView) -> RoutedForm | None:
    routed, route = view.state.routed, view.state.route
    if routed is None:
        return None
    return RoutedForm(
        routed.lane or None,
        routed.basis,
        routed.confidence / 1000,
        routed.runner_up or None,
        routed.margin / 1000,
        routed.roster or None,
        view.places.get(route.hex()) if route else None,
    )


class PartForm(Struct, frozen=True):
    """What a role has done in a run."""

    role: str
    who: str
    state: Annotated[
        TaskState | None, Meta(description="Null of a role that is asked within tasks.")
    ]
    spent: AmountForm


def _part_form(part: Part) -> PartForm:
    return PartForm(part.role, part.who, part.state, amount_form(part.spent))


class CheckForm(Struct, frozen=True):
    """How the answer was looked at, and what came of it."""

    subject: str
    outcome: Outcome
    check: Check
    reason: str | None
    judge: str | None
    independence: Independence | None
    entry: Index | None


def _check_form(view: RunView, leaf: Hash, checked: Checked) -> CheckForm:
    return CheckForm(
        checked.subject,
        checked.outcome,
        checked.check,
        checked.reason or None,
        checked.judge or None,
        checked.independence or None,
        view.places.get(leaf.hex()),
    )


class ClaimForm(Struct, frozen=True):
    """What the answer says was done, and which entry shows it; without one it is unverified."""

    deed: Annotated[str, Meta(examples=["tests", "file", "command", "sent"])]
    text: str
    entry: Index | None
    receipt: EntryId | None


def _claim_form(view: RunView, claim: Deed) -> ClaimForm:
    entry = view.places.get(claim.receipt)
    return ClaimForm(claim.deed.value, claim.text, entry, claim.receipt or None)


class EffectForm(Struct, frozen=True):
    """An effect on the world: intended, and what became of it."""

    task: str
    tool: str
    outcome: Annotated[
        Outcome | None, Meta(description="Null while it is intended, and nobody knows more.")
    ]
    entry: Index | None


def _effect_form(view: RunView, task: str, use: UseOfTool) -> EffectForm:
    return EffectForm(
        task,
        use.intended.tool,
        use.happened.outcome if use.happened else None,
        view.places.get((use.outcome or use.entry).hex()),
    )


class VerdictForm(Struct, frozen=True):
    """What was found of one attempt, by what, and what followed from it."""

    attempt: int
    outcome: Outcome
    check: Check
    next: Next
    reason: str | None
    judge: str | None
    independence: Independence | None
    claims: int
    unverified: int


def _verdict_form(verdict: Judged) -> VerdictForm:
    return VerdictForm(
        verdict.attempt,
        verdict.outcome,
        verdict.check,
        verdict.next,
        verdict.reason or None,
        verdict.judge or None,
        verdict.independence or None,
        verdict.claims,
        verdict.unverified,
    )


class TaskForm(Struct, frozen=True):
    """A task of a run: how far it has come, by whom, and at what cost."""

    id: str
    lane: str | None
    state: TaskState
    reason: Annotated[str, Meta(description="Why it is where it is, if that needs saying.")]
    agent: Annotated[str, Meta(description="Who works on it; the default agent has no name.")]
    model: str | None
    attempts: int
    verdicts: tuple[VerdictForm, ...]
    lost: Annotated[int, Meta(description="Calls whose replies were lost with their workers.")]
    spent: AmountForm
    seconds: Seconds
    needs: Annotated[tuple[str, ...], Meta(description="Tasks whose output it is given.")]
    after: Annotated[tuple[str, ...], Meta(description="Tasks that it only follows.")]
    run: Annotated[RunId | None, Meta(description="The run within this one that does it.")]
    entry: Annotated[int | None, Meta(description="The index of its last entry.")]


def _task_form(view: RunView, task: TaskRun) -> TaskForm:
    planned = view.plan.by_id.get(task.id) if view.plan else None
    own = own_calls(task)
    last = own[-1].called if own else None
    return TaskForm(
        id=task.id,
        lane=planned.lane or None if planned else None,
        state=task.state,
        reason=task_reason(view, task),
        agent=last.agent if last else planned.agent if planned else "",
        model=last.model if last else None,
        attempts=task.attempts,
        verdicts=tuple(_verdict_form(verdict) for verdict in task.verdicts),
        lost=lost_calls(task),
        spent=amount_form(task.spent),
        seconds=round(task_time(task, view.at) / 1e6, 3),
        needs=tuple(planned.needs) if planned else (),
        after=tuple(planned.after) if planned else (),
        run=task.delegated.run if task.delegated else None,
        entry=view.entries.get(task.id),
    )


class GateForm(Struct, frozen=True):
    """Something that waits, or waited, for a decision."""

    run: RunId
    subject: Subject
    digest: Digest
    decided: Answer | None
    by: Decider | None
    default: Annotated[Answer, Meta(description="What holds when nobody decides in time.")]
    deadline: Moment


def gate_form(run: str, gate: Gate) -> GateForm:
    """Return a gate of a run, in its form."""
    return GateForm(run, *_gate_facts(gate))


class ShownGateForm(GateForm, frozen=True):
    """A gate with what waits at it."""

    shown: str


def shown_gate_form(run: str, gate: Gate, shown: bytes) -> ShownGateForm:
    """Return a gate of a run with what it shows; bytes that are no text are replaced."""
    return ShownGateForm(run, *_gate_facts(gate), shown.decode(errors="replace"))


def _gate_facts(gate: Gate) -> tuple[str, str, Answer | None, Decider | None, Answer, str]:
    decided, opened = gate.decided, gate.opened
    return (
        opened.subject,
        gate.digest,
        decided.answer if decided else None,
        decided.by if decided else None,
        opened.default,
        iso(gate.deadline),
    )


class GatesForm(Struct, frozen=True):
    """Everything that waits for a person."""

    gates: tuple[GateForm, ...]


def gates_form(found: Iterable[tuple[str, Gate]]) -> GatesForm:
    """Return gates with their runs, in their form."""
    return GatesForm(tuple(gate_form(run, gate) for run, gate in found))


class DecisionForm(Struct, frozen=True):
    """What was decided at a gate."""

    run: RunId
    subject: Subject
    answer: Answer
    digest: Digest


class GateEditForm(Struct, frozen=True):
    """What was replaced at a gate; it waits still, under this digest."""

    run: RunId
    subject: Subject
    digest: Digest


class WaitForm(Struct, frozen=True):
    """What a run waits for: a gate of its own, or of a run within it."""

    run: RunId
    subject: Subject


# Deliberations


class SpentForm(Struct, frozen=True):
    """What a part of a deliberation has cost."""

    usd: Usd
    tokens: int


class VoteForm(Struct, frozen=True):
    """What a seat said in one round."""

    round: Annotated[int, Meta(description="0 is the first, in which nobody saw anybody else.")]
    answer: str
    confidence: Annotated[int, Meta(description="In per cent.")]


class SeatForm(Struct, frozen=True):
    """A seat, and its way through the session."""

    seat: int
    agent: Annotated[str, Meta(description="The default agent has no name.")]
    model: str | None
    votes: tuple[VoteForm, ...]
    weighed: Annotated[str | None, Meta(description="The answer by which it was counted.")]


class ChangeForm(Struct, frozen=True):
    """A seat has changed its answer."""

    seat: int
    round: int
    before: str
    after: str
    conformity: Annotated[bool, Meta(description="Without a reason: such a change is not weighed.")]
    because: Annotated[tuple[str, ...], Meta(description="The claims that it names.")]
    evidence: str | None


class MinorityForm(Struct, frozen=True):
    """A position that did not become the answer, with the best that was said for it."""

    answer: str
    seats: tuple[int, ...]
    weight: int
    argument: str | None
    evidence: str | None
    support: Annotated[int, Meta(description="How many other seats rest on the argument.")]
    attacks: tuple[str, ...]


class BlockerForm(Struct, frozen=True):
    """An objection that must be answered before anything is called agreed."""

    seat: int
    text: str


class AbsentForm(Struct, frozen=True):
    """A seat that cast no ballot."""

    seat: int
    reason: str


class BaselineForm(Struct, frozen=True):
    """What the first answers alone would have come to."""

    answer: str
    answers: int
    agreement: Annotated[float, Meta(description="The share that gave this answer.")]
    changed: Annotated[bool, Meta(description="Whether deliberation led to another answer.")]
    spent: SpentForm


class RoundForm(Struct, frozen=True):
    """How many ballots of a round are sealed."""

    round: int
    sealed: int
    revealed: bool


class CouncilForm(Struct, frozen=True, tag="council", tag_field="protocol"):
    """Sealed ballots, an anonymous exchange, a vote: what came of it, and who disagrees."""

    seated: Annotated[int, Meta(description="How many seats there are.")]
    ballots: tuple[RoundForm, ...]
    end: Annotated[End | None, Meta(description="Why nobody was asked again; null before.")]
    ground: Annotated[Ground | None, Meta(description="By what the answer was chosen.")]
    accord: Annotated[Accord | None, Meta(description="How far the seats agree.")]
    rounds: Annotated[int, Meta(description="How often ballots were exchanged.")]
    baseline: BaselineForm | None
    spent: SpentForm | None
    seats: tuple[SeatForm, ...]
    changes: tuple[ChangeForm, ...]
    conformity: Annotated[float, Meta(description="The share of changes without a reason.")]
    minority: tuple[MinorityForm, ...]
    decisive: Annotated[tuple[str, ...], Meta(description="What evidence would decide.")]
    blockers: tuple[BlockerForm, ...]
    absent: tuple[AbsentForm, ...]
    warnings: tuple[str, ...]


class SpokenForm(Struct, frozen=True):
    """A message of a session."""

    id: str
    round: int
    turn: int
    type: MessageType
    speaker: str
    text: str
    spent: SpentForm


class SymposiumForm(Struct, frozen=True, tag="symposium", tag_field="protocol"):
    """A session of the open protocol: who said what, and how it ended."""

    session: Annotated[str | None, Meta(description="Its id; null if that was erased.")]
    panel: tuple[str, ...]
    rounds: int
    messages: tuple[SpokenForm, ...]
    outcome: Annotated[OutcomeKind | None, Meta(description="Null while it goes on.")]
    reason: Annotated[Reason | None, Meta(description="Why there is no synthesis.")]
    pending: Annotated[str | None, Meta(description="What the panel wants to know.")]
    unresolved: Annotated[tuple[str, ...], Meta(description="What it left open.")]
    digest: Annotated[str | None, Meta(description="SHA-256 of the canonical transcript.")]
    spent: SpentForm | None


DeliberationForm = CouncilForm | SymposiumForm


def deliberation_form(view: RunView) -> DeliberationForm | None:
    """Return what is told of a deliberation, if the run is one."""
    facts = [note.facts for note in view.notes]
    if any(isinstance(one, Opened) for one in facts):
        return _council_form(view)
    return _symposium_form(view) if any(isinstance(one, Spoken) for one in facts) else None


def _spent_form(usd: int, tokens: int) -> SpentForm:
    return SpentForm(dollars(usd), tokens)


def _body_of(note: Note, name: str) -> bytes:
    """Return a body of a note; nothing of one that was erased."""
    return next((body.data for body in note.bodies if body.name == name), b"")


def _council_form(view: RunView) -> CouncilForm:
    facts = [note.facts for note in view.notes]
    opened = next(one for one in facts if isinstance(one, Opened))
    concluded = next((one for one in facts if isinstance(one, Concluded)), None)
    told = (_body_of(note, "report") for note in view.notes if isinstance(note.facts, Concluded))
    body = next(told, b"")
    report = read_report(body) if body else None
    return CouncilForm(
        seated=opened.seats,
        ballots=_round_forms(facts),
        end=concluded.end if concluded else None,
        ground=concluded.ground if concluded else None,
        accord=concluded.accord if concluded else None,
        rounds=concluded.rounds if concluded else 0,
        baseline=_baseline_form(report) if report and report.baseline.answers else None,
        spent=_spent_form(concluded.usd, concluded.tokens) if concluded else None,
        seats=tuple(map(_seat_form, report.seats)) if report else (),
        changes=tuple(map(_change_form, report.changes)) if report else (),
        conformity=concluded.conformed / max(1, concluded.changed) if concluded else 0.0,
        minority=tuple(map(_minority_form, report.minority)) if report else (),
        decisive=report.decisive if report else (),
        blockers=tuple(BlockerForm(b.seat, b.text) for b in report.blockers) if report else (),
        absent=_absent_forms(view, report.absent) if report else (),
        warnings=report.warnings if report else (),
    )


def _round_forms(facts: Iterable[Facts]) -> tuple[RoundForm, ...]:
    sealed: Counter[int] = Counter()
    revealed = set()
    for one in facts:
        if isinstance(one, Balloted):
            sealed[one.round] += 1
        elif isinstance(one, Revealed):
            revealed.add(one.round)
    return tuple(RoundForm(number, sealed[number], number in revealed) for number in sorted(sealed))


def _baseline_form(report: CouncilReport) -> BaselineForm:
    base = report.baseline
    return BaselineForm(
        base.answer,
        base.answers,
        base.agreement / 1000,
        base.changed,
        _spent_form(base.spent.usd, base.spent.tokens),
    )


def _seat_form(sat: Sat) -> SeatForm:
    votes = tuple(VoteForm(vote.round, vote.answer, vote.confidence) for vote in sat.votes)
    return SeatForm(sat.seat, sat.agent, sat.model or None, votes, sat.weighed or None)


def _change_form(turned: Turned) -> ChangeForm:
    return ChangeForm(
        turned.seat,
        turned.round,
        turned.before,
        turned.after,
        turned.conformity,
        turned.because,
        turned.evidence or None,
    )


def _minority_form(minority: Minority) -> MinorityForm:
    best = minority.argument
    return MinorityForm(
        minority.answer,
        minority.seats,
        minority.weight,
        best.claim if best else None,
        best.evidence or None if best else None,
        best.support if best else 0,
        best.attacks if best else (),
    )


def _absent_forms(view: RunView, seats: Iterable[int]) -> tuple[AbsentForm, ...]:
    turns = {seat: view.state.task(TURN + Place(0, seat).turn) for seat in seats}
    return tuple(AbsentForm(seat, task_reason(view, turn)) for seat, turn in turns.items())


def _symposium_form(view: RunView) -> SymposiumForm:
    closed = session_end(view)
    told = {type(note.facts): note for note in view.notes}
    panel = _body_of(told[Selected], "panel") if Selected in told else b""
    ended = _body_of(told[SessionClosed], "termination") if closed else b""
    ending = read_termination(ended) if ended else None
    messages = [
        read_message(body)
        for note in view.notes
        if isinstance(note.facts, Spoken) and (body := _body_of(note, "message"))
    ]
    return SymposiumForm(
        session=_session_id(view),
        panel=read_selection(panel).selected_agents if panel else (),
        rounds=max((message.round for message in messages), default=0),
        messages=tuple(map(_spoken_form, messages)),
        outcome=closed.outcome if closed else None,
        reason=closed.reason or None if closed else None,
        pending=_pending(ending),
        unresolved=_unresolved(messages, ending),
        digest=closed.digest if closed else None,
        spent=_spent_form(closed.usd, closed.tokens) if closed else None,
    )


def _session_id(view: RunView) -> str | None:
    panel = view.session.policy.panel if view.session else None
    return str(panel.config.get("session_id")) if isinstance(panel, Symposium) else None


def _spoken_form(message: Message) -> SpokenForm:
    usage = message.usage
    return SpokenForm(
        message.id,
        message.round,
        message.turn_index,
        type_of(message),
        message.speaker,
        _said(message),
        _spent_form(round(usage.cost_usd * NANO), usage.total_tokens),
    )


def _said(message: Message) -> str:
    """Return what a message says, in words."""
    match message:
        case ProblemStatement():
            return message.content
        case CoordinationTurn():
            return f"{message.content.next_action}: {message.content.rationale}"
        case Synthesis():
            return message.content.integrated_answer
        case PanelContraction():
            return f"{message.content.agent_id} has left: {message.content.reason}"
        case _:
            return message.content.text


def _pending(ending: TerminationArtifact | None) -> str | None:
    if ending and ending.pending_user_input_request:
        return ending.pending_user_input_request.question
    if ending and ending.pending_external_research_request:
        return ending.pending_external_research_request.query
    return None


def _unresolved(messages: Sequence[Message], ending: TerminationArtifact | None) -> tuple[str, ...]:
    last = messages[-1] if messages else None
    left = ending or (last.content if isinstance(last, Synthesis) else None)
    return tuple(one.topic for one in left.unresolved_disagreements) if left else ()


class FaultForm(Struct, frozen=True):
    """A law that an artifact breaks, and where."""

    law: str
    where: str
    why: str


class ArtifactForm(Struct, frozen=True):
    """What came of looking at the artifact of a session."""

    session: str | None
    holds: bool
    faults: tuple[FaultForm, ...]
    digest: Annotated[str | None, Meta(description="What its transcript comes to now.")] = None
    stored: Annotated[str | None, Meta(description="What the artifact says of it.")] = None
    messages: Annotated[int | None, Meta(description="How many were read again.")] = None
    parted: Annotated[str | None, Meta(description="The first message that is another.")] = None
    run: Annotated[RunId | None, Meta(description="The run that it was compared with.")] = None
    pin: Annotated[Pin | None, Meta(description="The first pin that could not be held.")] = None


class RunForm(Struct, frozen=True):
    """A run: what was asked, how far it has come, what it cost, and what was answered."""

    run: RunId
    until: Annotated[
        int | None,
        Meta(description="The last entry that is taken into account, if not all are."),
    ]
    state: RunState
    outcome: Annotated[Outcome | None, Meta(description="Null while the run goes on.")]
    status: Annotated[
        Status | None,
        Meta(
            description="What it has come to, as an exit status: 0 answered, 1 failed, 5 budget or "
            "time used up, 6 waiting for approval; null while it goes on."
        ),
    ]
    reason: Annotated[str, Meta(description="Why it did not end well, or what it waits for.")]
    request: Annotated[str | None, Meta(description="Null if it was erased.")]
    answer: Annotated[str | None, Meta(description="Null if there is none, or it was erased.")]
    spent: AmountForm
    cap: CapForm
    spent_by: Annotated[dict[str, AmountForm], Meta(description="By the names of agents.")]
    route: RoutedForm | None
    roles: tuple[PartForm, ...]
    checks: tuple[CheckForm, ...]
    claims: tuple[ClaimForm, ...]
    effects: tuple[EffectForm, ...]
    begun: Moment
    seconds: Seconds
    tasks: tuple[TaskForm, ...]
    deliberation: Annotated[
        DeliberationForm | None, Meta(description="Null if no panel deliberates.")
    ]
    gates: tuple[GateForm, ...]
    waits_for: tuple[WaitForm, ...]
    fork_of: Annotated[RunId | None, Meta(description="The run that this one parted from.")]
    within: Annotated[RunId | None, Meta(description="The run that has this one done.")]


def run_form(view: RunView) -> RunForm:
    """Return all that is told of a run, in its form."""
    state, accepted = view.state, view.state.accepted
    return RunForm(
        run=view.run,
        until=view.until,
        state=state.state,
        outcome=state.outcome,
        status=exit_status(view),
        reason=run_reason(view),
        request=view.request,
        answer=None if view.answer is None else view.answer.decode(errors="replace"),
        spent=amount_form(state.spent),
        cap=_cap_form(accepted.cap, accepted.milliseconds) if accepted else _UNCAPPED,
        spent_by={agent: amount_form(spent) for agent, spent in state.spent_by.items()},
        route=_routed_form(view),
        roles=tuple(_part_form(part) for part in parts_of(state)),
        checks=tuple(_check_form(view, leaf, checked) for leaf, checked in state.checks),
        claims=tuple(_claim_form(view, claim) for claim in view.claims),
        effects=tuple(
            _effect_form(view, task.id, use) for task in state.tasks.values() for use in task.uses
        ),
        begun=iso(state.begun),
        seconds=round(run_time(view) / 1e6, 3),
        tasks=tuple(_task_form(view, state.task(twig.id)) for twig in draw_tree(view.plan, state)),
        deliberation=deliberation_form(view),
        gates=tuple(gate_form(view.run, gate) for gate in state.gates.values()),
        waits_for=tuple(WaitForm(run, gate.opened.subject) for run, gate in view.gates),
        fork_of=accepted.fork_run or None if accepted else None,
        within=accepted.parent_run or None if accepted else None,
    )


class RunLine(Struct, frozen=True):
    """A run in a list of runs."""

    run: RunId
    state: RunState
    outcome: Outcome | None
    stopped: StopReason | None
    passed: Annotated[int, Meta(description="How many tasks, or turns of a panel, have passed.")]
    tasks: Annotated[int, Meta(description="How many its plan has, or its panel has begun.")]
    spent: AmountForm
    begun: Moment
    request: Annotated[str | None, Meta(description="Null if it was erased.")]


def run_line(run: str, state: Run, request: str | None) -> RunLine:
    """Return what a list tells of a run."""
    return RunLine(
        run,
        state.state,
        state.outcome,
        state.stopped.reason if state.stopped else None,
        *share_of_work(state),
        amount_form(state.spent),
        iso(state.begun),
        request,
    )


class RunsForm(Struct, frozen=True):
    """Runs, the newest first."""

    runs: tuple[RunLine, ...]


def runs_form(found: Iterable[tuple[str, Run]], requests: Mapping[str, str | None]) -> RunsForm:
    """Return runs with what was asked of them, in their form."""
    return RunsForm(tuple(run_line(run, state, requests[run]) for run, state in found))


class RunsPage(RunsForm, frozen=True):
    """Some runs, the newest first."""

    next: Annotated[str | None, Meta(description="The cursor of the next page.")]


def runs_page(
    found: Sequence[tuple[str, Run]], requests: Mapping[str, str | None], limit: int
) -> RunsPage:
    """Return a page of at most so many runs, in its form; a full one may have a next."""
    following = found[-1][0] if len(found) == limit else None
    return RunsPage(runs_form(found, requests).runs, following)


class MeasureForm(Struct, frozen=True):
    """What a run did, cost and took, in one number each."""

    run: RunId
    outcome: Annotated[str, Meta(description="Its outcome; while it goes on, its state.")]
    passed: int
    tasks: int
    attempts: int
    calls: int
    lost: int
    tokens: int
    usd: Usd
    seconds: Seconds
    slowest_task: str | None
    slowest_seconds: float | None


def measure_form(view: RunView) -> MeasureForm:
    """Return a run in numbers."""
    state = view.state
    times = {name: task_time(task, view.at) for name, task in state.tasks.items()}
    slowest = max(times, key=lambda name: times[name], default=None)
    passed, tasks = share_of_work(state)
    return MeasureForm(
        run=view.run,
        outcome=(state.outcome or state.state).value,
        passed=passed,
        tasks=tasks,
        attempts=sum(task.attempts for task in state.tasks.values()),
        calls=state.spent.calls,
        lost=sum(lost_calls(task) for task in state.tasks.values()),
        tokens=state.spent.tokens,
        usd=dollars(state.spent.usd),
        seconds=round(run_time(view) / 1e6, 3),
        slowest_task=slowest,
        slowest_seconds=round(times[slowest] / 1e6, 3) if slowest else None,
    )


class BenchForm(Struct, frozen=True):
    """Two runs in numbers, side by side."""

    a: MeasureForm
    b: MeasureForm


# Where two runs part


class StepForm(Struct, frozen=True):
    """What one entry says, apart from when, where and under which hashes it says it."""

    kind: str
    facts: dict[str, Any]
    bodies: Annotated[dict[str, str], Meta(description="The digests of bodies by their names.")]


def step_form(step: Step) -> StepForm:
    """Return a step of a run, in its form."""
    return StepForm(step.kind, msgspec.json.decode(step.facts), dict(step.bodies))


class DivergenceForm(Struct, frozen=True):
    """One step that two runs do not share."""

    parting: Parting
    strand: str
    step: str
    first: StepForm | None
    second: StepForm | None


def divergence_forms(found: Sequence[Divergence]) -> tuple[DivergenceForm, ...]:
    """Return where runs part; of very many, the first thousand."""
    return tuple(
        DivergenceForm(
            one.parting,
            one.strand,
            one.step,
            step_form(one.first) if one.first else None,
            step_form(one.second) if one.second else None,
        )
        for one in found[:MOST]
    )


class DiffForm(Struct, frozen=True):
    """Where two runs part."""

    a: RunId
    b: RunId
    equal: bool
    count: Annotated[int, Meta(description="How many steps differ; a thousand are listed.")]
    divergences: tuple[DivergenceForm, ...]


def diff_form(a: str, b: str, found: Sequence[Divergence]) -> DiffForm:
    """Return where two runs part, in its form."""
    return DiffForm(a, b, not found, len(found), divergence_forms(found))


class ReplayForm(Struct, frozen=True):
    """Whether a run says the same when it is played again from its record."""

    run: RunId
    equal: bool
    count: Annotated[int, Meta(description="How many steps differ; a thousand are listed.")]
    divergences: tuple[DivergenceForm, ...]
    missing: Annotated[str, Meta(description="What the record does not hold, if that ended it.")]


def replay_form(run: str, found: Sequence[Divergence], missing: str) -> ReplayForm:
    """Return what a replay has shown, in its form."""
    equal = not found and not missing
    return ReplayForm(run, equal, len(found), divergence_forms(found), missing)


# The ledger


class EntryForm(Struct, frozen=True):
    """An entry of the log, byte for byte as it is hashed."""

    id: EntryId
    index: Annotated[Index | None, Meta(description="Null until it is sequenced.")]
    entry: Object


def entry_form(located: Located) -> EntryForm:
    """Return an entry with its id and its index."""
    return EntryForm(located.leaf.hex(), located.index, Raw(located.data))


class RecordedForm(EntryForm, frozen=True):
    """An entry that was just recorded, and whether witnesses have seen it."""

    run: RunId
    witnessed: bool


def recorded_form(located: Located, *, witnessed: bool) -> RecordedForm:
    """Return an entry that was just recorded, in its form."""
    leaf, data = located.leaf.hex(), Raw(located.data)
    return RecordedForm(leaf, located.index, data, located.entry.run, witnessed)


class EntriesForm(Struct, frozen=True):
    """Entries of the log, in its order."""

    entries: tuple[EntryForm, ...]


def entries_form(found: Iterable[Located]) -> EntriesForm:
    """Return entries, in their form."""
    return EntriesForm(tuple(entry_form(located) for located in found))


class CauseForm(Struct, frozen=True):
    """An entry that led to another one."""

    depth: Annotated[
        int, Meta(description="How many causes away; 0 is the entry that was asked about.")
    ]
    id: EntryId
    index: Annotated[Index | None, Meta(description="Null until it is sequenced.")]
    entry: Object


class WhyForm(Struct, frozen=True):
    """An entry, what led to it, and what led to that."""

    causes: tuple[CauseForm, ...]


def why_form(chain: Iterable[tuple[int, Located]]) -> WhyForm:
    """Return what led to an entry, in its form."""
    return WhyForm(
        tuple(
            CauseForm(depth, cause.leaf.hex(), cause.index, Raw(cause.data))
            for depth, cause in chain
        )
    )


class ProofForm(Struct, frozen=True):
    """What it takes to believe an entry offline."""

    id: EntryId
    index: Index
    proof: Annotated[
        str,
        Meta(description="A C2SP tlog-proof: the inclusion proof, and the checkpoint it leads to."),
    ]


def proof_form(located: Located, proven: TlogProof) -> ProofForm:
    """Return the proof of an entry, in its form."""
    return ProofForm(located.leaf.hex(), proven.index, proven.encode().decode())


class CheckpointForm(Struct, frozen=True):
    """What the log has committed to."""

    origin: Annotated[str, Meta(description="The name of the log.")]
    size: int
    root: str
    witnessed: Annotated[bool, Meta(description="Whether enough witnesses have cosigned it.")]
    note: Annotated[str, Meta(description="The signed note, with the cosignatures that it has.")]


def checkpoint_form(signed: Checkpoint, note: bytes, *, witnessed: bool) -> CheckpointForm:
    """Return a checkpoint and the note that it comes in."""
    return CheckpointForm(signed.origin, signed.size, signed.root.hex(), witnessed, note.decode())


class SummaryForm(Struct, frozen=True):
    """What the ledger holds, counted."""

    origin: str
    size: int
    root: str
    waiting: Annotated[int, Meta(description="Entries that have no index yet.")]
    runs: int
    kinds: Annotated[dict[str, int], Meta(description="How many entries there are of each kind.")]


# Verification


class AnswerForm(Struct, frozen=True):
    """Whether a claim holds, and why."""

    state: State
    reason: str


class FindingForm(Struct, frozen=True):
    """One thing that is wrong, and where."""

    problem: Problem
    detail: str
    index: Index | None
    entry: Annotated[str | None, Meta(description="Where the entry stands: run/strand/n.")]
    claim: Annotated[Claim, Meta(description="The claim that it refutes.")]


class ReportForm(Struct, frozen=True):
    """What was checked, what was found, and what was not checked."""

    ok: Annotated[bool, Meta(description="Whether all three claims hold.")]
    origin: str
    size: int
    root: str
    intact: AnswerForm
    complete: AnswerForm
    independent: AnswerForm
    findings: tuple[FindingForm, ...]
    found: Annotated[int, Meta(description="How many findings there are; a thousand are listed.")]
    not_checked: tuple[str, ...]
    entries: int
    runs: int
    open_runs: tuple[str, ...]
    bodies: Bodies
    pending: Annotated[int, Meta(description="Entries that are newer than the checkpoint.")]
    sightings: tuple[Sighting, ...]


def report_form(report: Report) -> ReportForm:
    """Return a report, in its form."""
    words = (report.intact, report.complete, report.independent)
    intact, complete, independent = (AnswerForm(word.state, word.reason) for word in words)
    return ReportForm(
        ok=report.ok,
        origin=report.origin,
        size=report.size,
        root=report.root,
        intact=intact,
        complete=complete,
        independent=independent,
        findings=tuple(_finding_form(finding) for finding in report.findings),
        found=report.found,
        not_checked=report.not_checked,
        entries=report.entries,
        runs=report.runs,
        open_runs=report.open_runs,
        bodies=report.bodies,
        pending=report.pending,
        sightings=report.sightings,
    )


def _finding_form(finding: Finding) -> FindingForm:
    problem = finding.problem
    return FindingForm(problem, finding.detail, finding.index, finding.entry, problem.claim)


# Who does the work


class EvidenceForm(Struct, frozen=True):
    """What one feature of a request says for the nearest lane and against the runner-up."""

    feature: str
    weight: float


class RouteForm(Struct, frozen=True):
    """Where a request belongs, and why."""

    lane: Annotated[
        str | None,
        Meta(description="Null if none is sure enough: the request is left to the Classifier."),
    ]
    confidence: Annotated[
        float, Meta(description="How often a route like this one is right, by measurement.")
    ]
    nearest: str
    runner_up: str
    margin: Annotated[float, Meta(description="The sum of the evidence.")]
    evidence: tuple[EvidenceForm, ...]
    rung: str


def route_form(found: Route) -> RouteForm:
    """Return a route, in its form."""
    return RouteForm(
        found.lane,
        found.confidence,
        found.nearest,
        found.runner_up,
        found.margin,
        tuple(EvidenceForm(one.feature, one.weight) for one in found.evidence),
        found.rung,
    )


class LaneForm(Struct, frozen=True):
    """A specialist of the roster."""

    name: Annotated[str, Meta(examples=["backend"])]
    group: str
    does: str
    tier: Annotated[Tier, Meta(description="How strong a model its work usually needs.")]
    tools: tuple[str, ...]


def lane_form(lane: Lane) -> LaneForm:
    """Return a lane of the roster, in its form."""
    return LaneForm(lane.name, lane.group, lane.does, lane.tier, lane.tools)


class RosterForm(Struct, frozen=True):
    """Every specialist that there is."""

    digest: Annotated[str, Meta(description="Routes name it: by which roster they were found.")]
    lanes: tuple[LaneForm, ...]


def roster_form(roster: Roster) -> RosterForm:
    """Return a roster, in its form."""
    return RosterForm(roster.digest, tuple(map(lane_form, roster.lanes)))


class PlannedForm(Struct, frozen=True):
    """A task as it would be done."""

    id: str
    instruction: str
    done_when: str
    needs: Annotated[tuple[str, ...], Meta(description="Tasks whose output it is given.")]
    after: Annotated[tuple[str, ...], Meta(description="Tasks that it only follows.")]
    lane: str | None
    agent: Annotated[str, Meta(description="Who would do it; the default agent has no name.")]
    tasks: Annotated[tuple["PlannedForm", ...], Meta(description="The plan within it.")]


def _planned_form(task: Task, policy: Policy) -> PlannedForm:
    return PlannedForm(
        task.id,
        task.instruction,
        task.done_when,
        task.needs,
        task.after,
        task.lane or None,
        policy.worker_of(task),
        tuple(_planned_form(inner, policy) for inner in task.tasks),
    )


class PlanForm(Struct, frozen=True):
    """What would be done, if it were asked for now."""

    lane: Annotated[str | None, Meta(description="Null if none was looked for, or is sure.")]
    team: Annotated[bool, Meta(description="Whether a team would make the plan: no task is known.")]
    tasks: tuple[PlannedForm, ...]
    gates: Annotated[tuple[str, ...], Meta(description="What a person has to approve first.")]
    cap: CapForm


def plan_form(order: "Order") -> PlanForm:
    """Return what an order would have done, in its form."""
    tasks = order.plan.tasks if order.plan else ()
    return PlanForm(
        order.route.facts.lane or None if order.route else None,
        order.plan is None,
        tuple(_planned_form(task, order.policy) for task in tasks),
        order.policy.gates,
        _cap_form(order.budget.cap, order.budget.milliseconds),
    )


@dataclass(frozen=True, slots=True)
class AgentView:
    """An agent, and all that can be told of it."""

    name: str
    origin: str
    found: Inspection
    tiers: tuple[Tier, ...]
    roles: tuple[str, ...]
    lanes: tuple[str, ...]
    default: bool
    """Whether it works for tasks that name nobody."""
    reply: "Reply | None" = None

    @property
    def is_usable(self) -> bool:
        """Whether it can be asked, as far as that was tried."""
        answered = self.reply is None or self.reply.outcome is Outcome.OK
        return answered and not self.found.problem


def agent_view(team: Policy, name: str, origin: str) -> AgentView:
    """Return an agent of a team, configured there, and what it is used for."""
    return AgentView(
        name,
        origin,
        inspect_agent(team.agents[name]),
        tuple(tier for tier in Tier if agent_for(tier, team.agents) == name),
        tuple(role.value for role in Role if team.roles[role] == name),
        tuple(lane for lane, brief in team.lanes.items() if brief.agent == name),
        default=name == (_named_default(team) or [""])[0],
    )


def shown_agents(policy: Policy) -> list[str]:
    """Return the agents; not the one without a name, where it is one of the others as well."""
    return [name for name in policy.agents if name or not _named_default(policy)]


def _named_default(policy: Policy) -> list[str]:
    """Return the agents that are who works under no name."""
    return [name for name, one in policy.agents.items() if name and one == policy.agents.get("")]


class KeyState(StrEnum):
    """Whether there is a key; what it is, is told nowhere."""

    SET = "set"
    MISSING = "missing"
    NONE = "none"
    PROVIDER = "provider"


class PriceForm(Struct, frozen=True):
    """What an agent costs, as far as that is known: for a million tokens, or for a call."""

    table: str | None
    input_usd: Usd | None
    output_usd: Usd | None
    call_usd: Usd | None


class CallForm(Struct, frozen=True):
    """What came of asking an agent for one word."""

    outcome: Outcome
    why: Why | None
    code: str | None
    error: str | None
    milliseconds: int
    model: str | None
    usd: Usd
    tokens: int
    calls: int


def _call_form(reply: "Reply") -> CallForm:
    return CallForm(
        reply.outcome,
        reply.why or None,
        reply.code or None,
        error_of(reply) or None,
        reply.milliseconds,
        reply.model or None,
        dollars(reply.spent.usd),
        reply.spent.tokens,
        reply.spent.calls,
    )


def error_of(reply: "Reply") -> str:
    """Return the beginning of what an agent's system said of an error."""
    said = b"".join(reply.error.chunks()).decode(errors="replace")
    return first_line(said, _MOST_OF_AN_ERROR)


class ModelForm(Struct, frozen=True):
    """An agent: what it is, whether it can be asked, what it costs, and what it is used for."""

    name: Annotated[str, Meta(description="The default agent has none.")]
    origin: Annotated[str, Meta(description="Where it is configured.")]
    usable: bool
    problem: str | None
    warning: str | None
    kind: str
    model: str
    where: Annotated[str, Meta(description="The host, or the program.")]
    key: KeyState
    key_name: Annotated[
        str | None, Meta(description="The variable or the file that holds the key.")
    ]
    price: PriceForm
    default: Annotated[bool, Meta(description="Whether it works for tasks that name nobody.")]
    tiers: tuple[Tier, ...]
    lanes: tuple[str, ...]
    roles: tuple[str, ...]
    call: Annotated[CallForm | None, Meta(description="Null if it was not tried.")]


def model_form(agent: AgentView) -> ModelForm:
    """Return all that can be told of an agent, in its form."""
    found = agent.found
    return ModelForm(
        name=agent.name,
        origin=agent.origin,
        usable=agent.is_usable,
        problem=found.problem or None,
        warning=found.warning or None,
        kind=found.kind,
        model=found.model,
        where=found.where,
        key=KeyState(found.key.name.lower()),
        key_name=found.key_name or None,
        price=PriceForm(
            found.prices or None,
            per_million(found.read_usd),
            per_million(found.said_usd),
            None if found.call_usd is None else dollars(found.call_usd),
        ),
        default=agent.default,
        tiers=agent.tiers,
        lanes=agent.lanes,
        roles=agent.roles,
        call=_call_form(agent.reply) if agent.reply else None,
    )


def per_million(usd: int | None) -> str | None:
    """Return the price of a thousand tokens, in nano-dollars, as dollars for a million."""
    return None if usd is None else dollars(1000 * usd)


class ModelsForm(Struct, frozen=True):
    """Every agent that is configured."""

    agents: tuple[ModelForm, ...]
    independent_judge: Annotated[
        bool, Meta(description="Whether whoever judges is a model that does not work itself.")
    ]


def models_form(agents: Iterable[AgentView], *, independent: bool) -> ModelsForm:
    """Return agents, in their form."""
    return ModelsForm(tuple(model_form(agent) for agent in agents), independent)


class Validity(StrEnum):
    """Whether a key opens anything."""

    VALID = "valid"
    EXPIRED = "expired"
    REVOKED = "revoked"


class KeyForm(Struct, frozen=True):
    """A key that somebody was given; what is secret of it is nowhere."""

    id: str
    name: str
    scopes: tuple[Scope, ...]
    made: Annotated[str, Meta(description="RFC 3339.")]
    expires: Annotated[str | None, Meta(description="RFC 3339; null if it holds for ever.")]
    state: Validity


class NewKeyForm(Struct, frozen=True):
    """A key, with its secret: it is shown this once."""

    key: KeyForm
    secret: Annotated[str, Meta(description="All that a client has to show.")]


class KeysForm(Struct, frozen=True):
    """Every key of a ledger, the oldest first."""

    keys: tuple[KeyForm, ...]


def key_form(access: Access, key: str, now: int) -> KeyForm:
    """Return a key that was granted, in its form."""
    grant: AccessGranted = access.granted[key]
    lapsed = access.lapsed(grant, now)
    return KeyForm(
        grant.key,
        grant.name,
        grant.scopes,
        iso(access.made[key]),
        iso(grant.expires) if grant.expires else None,
        Validity(lapsed.value) if lapsed else Validity.VALID,
    )


def keys_form(access: Access, now: int) -> KeysForm:
    """Return every key that was granted, in its form."""
    return KeysForm(tuple(key_form(access, key, now) for key in access.granted))
