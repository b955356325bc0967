"""The forms of requests and replies of the server.

Generated from the declared endpoints by `just client`; do not edit.

They have the names and the members of the server's own forms.  A type checker knows
the values that a text can have; at run time every text is accepted, so that a value
that only a newer server knows does not make a reply unreadable.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    Accord = Literal["agreed", "majority", "split", "blocked"]
    Answer = Literal["approve", "reject"]
    Authority = Literal["person", "key", "operator"]
    Basis = Literal["given", "lexical", "semantic", "classifier"]
    CapAct = Literal["set", "raise", "unset"]
    ChatRole = Literal[
        "system", "user", "assistant", "tool", "input", "output", "command", "error", "raw"
    ]
    Check = Literal[
        "outcome",
        "contains",
        "matches",
        "json",
        "command",
        "tests",
        "file",
        "form",
        "model",
        "coverage",
        "kept",
    ]
    Claim = Literal["intact", "complete", "independent"]
    Concern = Literal["stop", "budget-stop", "denial", "gap", "indeterminate", "gate"]
    CostAxis = Literal["day", "agent", "model", "lane"]
    DecidedBy = Literal["person", "key", "operator", "deadline", "end"]
    DivergenceKind = Literal["missing", "added", "facts", "bodies"]
    End = Literal["gate", "unanimous", "stable", "exhausted", "rounds", "stopped", "silent"]
    EquivalenceStep = Literal["text", "encoder", "judge"]
    FreezeAct = Literal["freeze", "unfreeze"]
    GapReason = Literal[
        "overflow",
        "shutdown",
        "refused",
        "unreachable",
        "sequence",
        "parent-unseen",
        "sampled",
        "filtered",
        "limit",
    ]
    Ground = Literal["gate", "vote", "check", "judge", "none"]
    IncidentSeverity = Literal["low", "medium", "high", "critical"]
    Independence = Literal["", "independent", "not-independent"]
    IntervalMethod = Literal["none", "wilson", "student-t", "agresti-min"]
    KeyState = Literal["set", "missing", "none", "provider"]
    MessageType = Literal[
        "problem_statement",
        "primary_turn",
        "coordination_turn",
        "branch_turn",
        "synthesis",
        "panel_contraction",
    ]
    Next = Literal["accept", "retry", "escalate", "give-up"]
    Operation = Literal["model", "tool", "agent", "retrieval", "guardrail", "handoff", "step"]
    Outcome = Literal["ok", "failed", "denied", "timeout", "cancelled", "indeterminate"]
    OutcomeKind = Literal["synthesis", "termination"]
    Period = Literal["hour", "day", "week", "month", "ever"]
    Problem = Literal[
        "bundle-altered",
        "entry-malformed",
        "foreign-entry",
        "stray-entry",
        "leaf-mismatch",
        "root-mismatch",
        "proof-rejected",
        "signature-rejected",
        "link-broken",
        "parent-unknown",
        "body-mismatch",
        "column-mismatch",
        "table-mismatch",
        "tag-rejected",
        "row-quarantined",
        "session-asked",
        "session-recorded",
        "session-counted",
        "session-order",
        "session-course",
        "session-surplus",
        "session-answer",
        "run-course",
        "child-foreign",
        "score-invalid",
        "report-invalid",
        "entry-missing",
        "position-missing",
        "position-doubled",
        "cause-missing",
        "run-unopened",
        "after-close",
        "strand-unclosed",
        "body-missing",
        "hold-broken",
        "rule-missing",
        "session-missing",
        "directory-broken",
        "tail-cut",
        "epoch-missing",
        "left-unsequenced",
        "catalogue-mismatch",
        "nothing-signed",
        "history-replaced",
        "not-witnessed",
        "time-impossible",
        "past-unknown",
        "cosignature-missing",
    ]
    Protocol = Literal["council", "symposium"]
    Provenance = Literal["driven", "relayed", "wrapped", "reported"]
    Reason = Literal[
        "budget_exceeded",
        "schema_error",
        "provider_unrecoverable",
        "user_cancel",
        "timeout",
        "user_input_required",
        "external_research_required",
        "",
    ]
    ReportCheck = Literal["follows", "differs", "erased", "not computed"]
    ReportProvenance = Literal["relayed", "wrapped", "reported"]
    Requirement = Literal["majority", "agreement"]
    RouteNext = Literal["lane", "classifier", "no-lane", "not-routed"]
    RunOutcome = Literal[
        "ok", "failed", "denied", "timeout", "cancelled", "indeterminate", "split", "blocked"
    ]
    RunState = Literal["accepted", "running", "waiting", "interrupted", "stopped", "ended"]
    Scope = Literal["submit", "read", "approve", "audit", "admin", "metrics", "report"]
    ScoreSubject = Literal["run", "task", "answer"]
    Scorer = Literal["person", "program", "judge"]
    Speaker = Literal["system", "developer", "user", "assistant", "tool"]
    State = Literal["holds", "fails", "not checked"]
    Status = Literal[0, 1, 5, 6, 8, 9, 130]
    StopReason = Literal[
        "budget",
        "deadline",
        "depth",
        "repeat",
        "ping-pong",
        "turns",
        "lost",
        "cancelled",
        "rejected",
        "error",
        "role",
    ]
    TaskState = Literal["pending", "running", "waiting", "passed", "failed", "skipped", "stopped"]
    Tier = Literal["cheap", "capable", "frontier"]
    Validity = Literal["valid", "expired", "revoked"]
    Why = Literal["", "error", "lost", "deadline", "cancelled", "oversize", "throttled", "cut"]
    WitnessState = Literal["independent", "self-witnessed", "none"]
else:
    Accord = str
    Answer = str
    Authority = str
    Basis = str
    CapAct = str
    ChatRole = str
    Check = str
    Claim = str
    Concern = str
    CostAxis = str
    DecidedBy = str
    DivergenceKind = str
    End = str
    EquivalenceStep = str
    FreezeAct = str
    GapReason = str
    Ground = str
    IncidentSeverity = str
    Independence = str
    IntervalMethod = str
    KeyState = str
    MessageType = str
    Next = str
    Operation = str
    Outcome = str
    OutcomeKind = str
    Period = str
    Problem = str
    Protocol = str
    Provenance = str
    Reason = str
    ReportCheck = str
    ReportProvenance = str
    Requirement = str
    RouteNext = str
    RunOutcome = str
    RunState = str
    Scope = str
    ScoreSubject = str
    Scorer = str
    Speaker = str
    State = str
    Status = int
    StopReason = str
    TaskState = str
    Tier = str
    Validity = str
    Why = str
    WitnessState = str


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was taken on: it will be carried out, whatever happens now."""

    run: str
    href: str
    events: str
    worker: bool
    """Whether a worker was seen that carries out runs of this ledger. If not, the run waits
    until one is started: `forum worker`. A worker of many ledgers is seen only while it has
    work in this one.
    """


class AmountForm(msgspec.Struct, frozen=True, kw_only=True):
    """The time, calls, tokens and dollars used."""

    usd: str
    """An exact amount in US dollars, as a string."""
    tokens: int
    calls: int


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a list of runs."""

    run: str
    """The name of a run."""
    state: RunState
    outcome: Outcome | None
    stopped: StopReason | None
    passed: int
    """How many tasks, or turns of a panel, have passed."""
    tasks: int
    """How many its plan has, or its panel has begun."""
    spent: AmountForm
    begun: str
    """A point in time (RFC 3339, UTC)."""
    request: str | None
    """Its first 200 characters. Null if it was erased, or if Forum does not drive the run."""
    provenance: Provenance
    """How Forum knows of the run: `driven` by its engine, `relayed` by a gateway, `wrapped` by
    the SDK in the program, or `reported` by a program afterwards.
    """
    name: str | None
    """The name of a run that Forum does not drive."""
    spans: int
    """How many spans were recorded."""
    gaps: int
    """How many gaps were recorded."""
    ended: str | None = None
    """When it ended; null while it goes on."""
    lane: str | None = None
    """The lane that its route has chosen."""
    unpriced: int = 0
    """How many of its calls have no known price, and count as free."""
    altered: bool = False
    """Whether somebody has changed its summary, or its request, in the database. All else is
    then told by its entries; verify the ledger.
    """
    title: str | None = None
    """What a run that Forum does not drive is shown as: its command or name, and the first
    message to a model. Null for a run with a request.
    """
    models: tuple[str, ...] = ()
    """The models that were called, the dearest first."""
    seconds: float | None = None
    """How long it took; null while it goes on."""
    word: str = ""
    """The one word for its state that all surfaces show: `ok`, `failed`, `budget`, `overrun`,
    `waiting` and others.
    """
    refused: int = 0
    """The number of calls that a cap refused, for a run that Forum does not drive."""
    is_cut: bool = False
    """Whether its request, name or title is longer. The run itself has it."""


class RunsPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some runs, the newest first."""

    runs: tuple[RunLine, ...]
    next: str | None
    """The cursor of the next page; null at the end. A page with filters may hold fewer runs than
    asked for, or none, and still have a next one.
    """
    unsearched: int = 0
    """How many runs are missing here although not all of their texts were searched: they are too
    large, or in an archive that cannot be reached.
    """


class CapForm(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a run; null means no limit."""

    usd: str | None
    tokens: int | None
    calls: int | None
    seconds: float | None


class RoutedForm(msgspec.Struct, frozen=True, kw_only=True):
    """The lane of a run, how it was chosen, and how certain the choice was."""

    lane: str | None
    basis: Basis
    confidence: float
    runner_up: str | None
    margin: float
    roster: str | None
    """The digest of the roster that the lane was chosen from."""
    entry: int | None


class PartForm(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one role in a run."""

    role: str
    who: str
    state: TaskState | None
    """Null for a role that is called within tasks and has no state of its own."""
    spent: AmountForm


class CheckForm(msgspec.Struct, frozen=True, kw_only=True):
    """A check of the answer, and its outcome."""

    subject: str
    outcome: Outcome
    check: Check
    reason: str | None
    judge: str | None
    independence: Independence | None
    entry: int | None
    detail: str
    """The findings: each requirement, and the words of the answer that meet it."""


class ClaimForm(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed action and the entry that shows it; without an entry it is unverified."""

    deed: str
    text: str
    entry: int | None
    receipt: str | None


class EffectForm(msgspec.Struct, frozen=True, kw_only=True):
    """An effect outside of Forum: what was intended, and its outcome."""

    task: str
    tool: str
    outcome: Outcome | None
    """Null while no outcome is recorded."""
    entry: int | None


class OpinionForm(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge wrote about a result."""

    reason: str
    evidence: str
    """The words of the result that decided."""
    missing: tuple[str, ...]


class VerdictForm(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one attempt, who gave it, and what followed."""

    attempt: int
    outcome: Outcome
    check: Check
    next: Next
    reason: str | None
    judge: str | None
    independence: Independence | None
    claims: int
    unverified: int
    opinion: OpinionForm | None
    """What the judge wrote, or the panel found; null if no model judged."""
    accord: Accord | None = None
    """How far the panel agreed that judged it; null if none did."""
    run: str | None = None
    """The run in which that panel deliberated."""


class TaskForm(msgspec.Struct, frozen=True, kw_only=True):
    """A task of a run: its progress, its agent and its cost."""

    id: str
    lane: str | None
    state: TaskState
    reason: str
    """The reason of its state, if there is one to give."""
    agent: str
    """The agent that works on it; empty for the default agent."""
    model: str | None
    attempts: int
    verdicts: tuple[VerdictForm, ...]
    lost: int
    """Calls whose replies were lost with their workers."""
    spent: AmountForm
    seconds: float
    """How long it took, in seconds."""
    needs: tuple[str, ...]
    """The tasks whose output it receives."""
    after: tuple[str, ...]
    """The tasks that must end before it, and whose output it does not receive."""
    run: str | None
    """The run within this one that does it."""
    entry: int | None
    """The index of its last entry."""
    accord: Accord | None = None
    """How far the panel agreed that worked on it; null without a panel."""


class RoundForm(msgspec.Struct, frozen=True, kw_only=True):
    """How many ballots of a round are sealed."""

    round: int
    sealed: int
    revealed: bool


class SpentForm(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of one part of a deliberation."""

    usd: str
    """An exact amount in US dollars, as a string."""
    tokens: int


class BaselineForm(msgspec.Struct, frozen=True, kw_only=True):
    """The result that the first answers alone would have given."""

    answer: str
    answers: int
    agreement: float
    """The share that gave this answer."""
    changed: bool
    """Whether deliberation led to another answer."""
    spent: SpentForm


class VoteForm(msgspec.Struct, frozen=True, kw_only=True):
    """The ballot of a seat in one round."""

    round: int
    """0 is the first round, in which no seat saw another ballot."""
    answer: str
    confidence: int
    """In per cent."""


class SeatForm(msgspec.Struct, frozen=True, kw_only=True):
    """A seat, and its way through the session."""

    seat: int
    agent: str
    """The default agent has no name."""
    model: str | None
    votes: tuple[VoteForm, ...]
    weighed: str | None
    """The answer by which it was counted."""


class ChangeForm(msgspec.Struct, frozen=True, kw_only=True):
    """A seat has changed its answer."""

    seat: int
    round: int
    before: str
    after: str
    conformity: bool
    """Without a reason: such a change is not weighed."""
    because: tuple[str, ...]
    """The claims that it names."""
    evidence: str | None


class MinorityForm(msgspec.Struct, frozen=True, kw_only=True):
    """A position that did not become the answer, with the best that was said for it."""

    answer: str
    seats: tuple[int, ...]
    weight: int
    argument: str | None
    evidence: str | None
    support: int
    """How many other seats rest on the argument."""
    attacks: tuple[str, ...]


class BlockerForm(msgspec.Struct, frozen=True, kw_only=True):
    """An objection that must be answered before anything is called agreed."""

    seat: int
    text: str


class AbsentForm(msgspec.Struct, frozen=True, kw_only=True):
    """A seat that cast no ballot."""

    seat: int
    reason: str


class ArgumentForm(msgspec.Struct, frozen=True, kw_only=True):
    """A claim for the answer: where to check it, who else supports it, and who attacks it."""

    claim: str
    status: str
    evidence: str | None
    """The source: where to check the claim."""
    support: int
    """How many other seats support it."""
    attacks: tuple[str, ...]


class PairForm(msgspec.Struct, frozen=True, kw_only=True):
    """Two free-text answers, whether they count as the same, and which step decided that."""

    first: str
    second: str
    same: bool
    step: EquivalenceStep
    score: float | None
    """The similarity by the encoder, up to 1."""
    rule: str | None
    """The rule on words that made them different."""


class ComparisonForm(msgspec.Struct, frozen=True, kw_only=True):
    """How the free-text answers were compared."""

    encoder: str | None
    """Null: no encoder is installed."""
    answers: int
    """How many wordings there were."""
    positions: int
    """How many answers they come to."""
    pairs: tuple[PairForm, ...]


class CouncilForm(msgspec.Struct, frozen=True, kw_only=True, tag_field="protocol", tag="council"):
    """The result of a council: sealed ballots, anonymous exchanges, a vote, and dissent."""

    seated: int
    """How many seats there are."""
    ballots: tuple[RoundForm, ...]
    end: End | None
    """Why nobody was asked again; null before."""
    ground: Ground | None
    """The rule that chose the answer."""
    accord: Accord | None
    """The degree of agreement of the seats."""
    rounds: int
    """How often ballots were exchanged."""
    baseline: BaselineForm | None
    spent: SpentForm | None
    seats: tuple[SeatForm, ...]
    changes: tuple[ChangeForm, ...]
    conformity: float
    """The share of changes without a reason."""
    minority: tuple[MinorityForm, ...]
    decisive: tuple[str, ...]
    """What evidence would decide."""
    blockers: tuple[BlockerForm, ...]
    absent: tuple[AbsentForm, ...]
    warnings: tuple[str, ...]
    headline: str | None = None
    """Why the answer is no decision; null if it is one."""
    claims: tuple[ArgumentForm, ...] = ()
    """Why the panel decided so: the claims for the answer, the best first."""
    holders: tuple[int, ...] = ()
    """The seats that were counted for the answer."""
    comparison: ComparisonForm | None = None
    """Null where the possible answers were listed."""


class SpokenForm(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a session."""

    id: str
    round: int
    turn: int
    type: MessageType
    speaker: str
    text: str
    spent: SpentForm


class SymposiumForm(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="protocol", tag="symposium"
):
    """A session of the open protocol: who said what, and how it ended."""

    session: str | None
    """Its id; null if that was erased."""
    panel: tuple[str, ...]
    rounds: int
    messages: tuple[SpokenForm, ...]
    outcome: OutcomeKind | None
    """Null while it goes on."""
    reason: Reason | None
    """Why there is no synthesis."""
    pending: str | None
    """What the panel wants to know."""
    unresolved: tuple[str, ...]
    """What it left open."""
    digest: str | None
    """SHA-256 of the canonical transcript."""
    spent: SpentForm | None


class GateForm(msgspec.Struct, frozen=True, kw_only=True):
    """A gate: something that waits, or has waited, for a decision."""

    run: str
    """The name of a run."""
    subject: str
    """What waits at a gate: `plan`, `task/NAME`, `use/NAME/N`, `effect/NAME/N` or
    `dissent/NAME`.
    """
    digest: str
    """The digest of what a gate shows; a decision names it."""
    decided: Answer | None
    by: DecidedBy | None
    default: Answer
    """The decision that takes effect if nobody decides in time."""
    deadline: str
    """A point in time (RFC 3339, UTC)."""
    provenance: Provenance
    """How Forum knows of the run: `driven` by its engine, `relayed` by a gateway, `wrapped` by
    the SDK in the program, or `reported` by a program afterwards.
    """
    asked_by: str
    """Who asks: the actor that submitted the run, or the key or process that reports it. A gate
    of a run that is not `driven` shows what its program says.
    """


class WaitForm(msgspec.Struct, frozen=True, kw_only=True):
    """A gate that a run waits for: its own, or one of a run within it."""

    run: str
    """The name of a run."""
    subject: str
    """What waits at a gate: `plan`, `task/NAME`, `use/NAME/N`, `effect/NAME/N` or
    `dissent/NAME`.
    """


class ScoreForm(msgspec.Struct, frozen=True, kw_only=True):
    """A score: its subject, its author and its value."""

    entry: str
    """The id of an entry: its leaf hash in the tree, in hexadecimal digits."""
    run: str
    """The name of a run."""
    subject: ScoreSubject
    task: str | None
    """Null if no task is scored."""
    name: str
    value: float
    """From 0 to 1, in thousandths."""
    by: Scorer
    judge: str | None
    """The agent that judged."""
    independence: Independence | None
    actor: str
    at: str
    """A point in time (RFC 3339, UTC)."""
    comment: str | None
    """Null if there is none, or it was erased."""
    latest: bool
    """Whether it counts: its actor has given no newer score of this subject."""


class SourceForm(msgspec.Struct, frozen=True, kw_only=True):
    """The client that reports a run."""

    by: str
    framework: str | None
    trace: str | None
    continues: str | None
    """The run that this one continues."""


class SpanForm(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a program, as far as it was recorded."""

    span: str
    within: str | None
    """The span that this one is part of."""
    op: Operation
    name: str
    agent: str | None
    model: str | None
    provider: str | None
    outcome: Outcome | None
    """Null while no end is recorded."""
    code: str | None
    error: str | None
    """The beginning of the error, if one is kept."""
    input_tokens: int
    output_tokens: int
    spent: AmountForm
    """The cost; while it is open, what is reserved."""
    began: str
    """A point in time (RFC 3339, UTC)."""
    seconds: float
    """How long it took, in seconds."""
    begun_first: bool
    """Whether it was recorded before it began."""
    cut: int
    """The number of bytes of its bodies that were not kept."""
    entry: int | None


class GapForm(msgspec.Struct, frozen=True, kw_only=True):
    """Steps that are known to be missing."""

    why: GapReason
    steps: int
    """0 if the number is not known."""
    since: str | None
    until: str | None
    entry: int | None


class RunNoteForm(msgspec.Struct, frozen=True, kw_only=True):
    """A note in a run that Forum does not drive."""

    strand: str
    step: str
    actor: str
    at: str
    """A point in time (RFC 3339, UTC)."""
    entry: int | None


class RunForm(msgspec.Struct, frozen=True, kw_only=True):
    """A run: its request, progress, cost and answer."""

    run: str
    """The name of a run."""
    until: int | None
    """The last entry that is taken into account, if not all are."""
    state: RunState
    outcome: Outcome | None
    """Null while the run goes on."""
    status: Status | None
    """The outcome, as an exit status: 0 answered, 1 failed, 5 budget or time used up, 6 waiting
    for approval, 8 a council is split, 9 a council is blocked; null while it goes on.
    """
    reason: str
    """Why it failed, or what it waits for."""
    request: str | None
    """Null if it was erased."""
    answer: str | None
    """Null if there is none, or it was erased."""
    spent: AmountForm
    cap: CapForm
    spent_by: dict[str, AmountForm]
    """By the names of agents."""
    route: RoutedForm | None
    roles: tuple[PartForm, ...]
    checks: tuple[CheckForm, ...]
    claims: tuple[ClaimForm, ...]
    effects: tuple[EffectForm, ...]
    begun: str
    """A point in time (RFC 3339, UTC)."""
    seconds: float
    """How long it took, in seconds."""
    tasks: tuple[TaskForm, ...]
    deliberation: CouncilForm | SymposiumForm | None
    """Null if no panel deliberates."""
    gates: tuple[GateForm, ...]
    waits_for: tuple[WaitForm, ...]
    fork_of: str | None
    """The run that this one was forked from."""
    within: str | None
    """The run that started this one."""
    about: str | None = None
    """The run on whose answer the panel of this one deliberates."""
    why: str | None = None
    """Why it failed, in one sentence with the last reply; null if it did not."""
    scores: tuple[ScoreForm, ...] = ()
    """Of the run, its tasks and its answer."""
    provenance: Provenance = "driven"
    """How Forum knows of the run: `driven` by its engine, `relayed` by a gateway, `wrapped` by
    the SDK in the program, or `reported` by a program afterwards.
    """
    coverage: str = ""
    """How Forum knows of the run, and what may be missing in it."""
    name: str | None = None
    """The name of a run that Forum does not drive."""
    source: SourceForm | None = None
    """Who reports the run."""
    spans: tuple[SpanForm, ...] = ()
    """The steps of a run that Forum does not drive."""
    gaps: tuple[GapForm, ...] = ()
    """Steps that are known to be missing."""
    notes: tuple[RunNoteForm, ...] = ()
    """Notes in a run that Forum does not drive."""
    planned: bool = False
    """Whether a model made its plan."""
    judged: bool = False
    """Whether models or verifiers judged its results or its answer."""
    word: str = ""
    """The one word for its state that all surfaces show: `ok`, `failed`, `budget`, `overrun`,
    `waiting` and others.
    """
    refused: int = 0
    """The number of calls that a cap refused, for a run that Forum does not drive."""
    title: str | None = None
    """What a run that Forum does not drive is shown as: its command or name, and the first
    message to a model. Null for a run with a request.
    """
    declined_team: tuple[str, ...] = ()
    """The models that gain nothing from a team: one was asked for, and a single agent works."""
    compacted: str | None = None
    """Which tasks went on with a compacted conversation, because it passed the context of the
    model; null if none did.
    """


class ChatToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A model asks for a tool."""

    name: str
    arguments: str
    id: str = ""


class ChatToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool has returned."""

    text: str
    id: str = ""
    name: str = ""


class ChatAttachment(msgspec.Struct, frozen=True, kw_only=True):
    """An image, a sound or a file in a message; its content stays in the recorded body."""

    kind: str
    media_type: str = ""
    size: int = 0
    name: str = ""


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message."""

    role: ChatRole
    text: str = ""
    reasoning: str = ""
    calls: tuple[ChatToolCall, ...] = ()
    results: tuple[ChatToolResult, ...] = ()
    attachments: tuple[ChatAttachment, ...] = ()
    note: str = ""


class ExchangeForm(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a model, a use of a tool, or another step, as messages."""

    entry: int | None
    """The entry that ends the step, or begins it."""
    began_entry: int | None
    """The entry that begins it."""
    strand: str
    op: Operation
    name: str
    agent: str | None
    model: str | None
    outcome: Outcome | None
    """Null while the step goes on."""
    code: str | None
    """The type of an error, or a status."""
    began: str
    """A point in time (RFC 3339, UTC)."""
    seconds: float
    """How long it took, in seconds."""
    spent: AmountForm
    input_tokens: int
    output_tokens: int
    stop_reason: str | None
    """Why the model stopped, in its words."""
    repeated: int
    """How many messages at the beginning of the request are left out here, because an earlier
    request has them.
    """
    follows: int | None
    """The entry of the earlier step whose messages are left out; null if none are. Agents that
    take turns go on from different steps.
    """
    dropped: int
    """How many messages of that step the request has no more: the agent has rewritten its
    history, for example replaced it by a summary.
    """
    repeated_later: int
    """How many further messages are left out, because that step has them too: those behind a
    part of the history that was rewritten.
    """
    request: tuple[ChatMessage, ...]
    """What was sent; empty if it was erased."""
    reply: tuple[ChatMessage, ...]
    """What came back; empty if it was erased."""


class TranscriptPage(msgspec.Struct, frozen=True, kw_only=True):
    """Steps of a run as messages, in the order of their beginnings."""

    run: str
    """The name of a run."""
    exchanges: tuple[ExchangeForm, ...]
    total: int
    """How many steps the run has."""
    next: int | None
    """`after` of the next page; null at the end of the run."""


class StepForm(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an entry without its time, position and hashes."""

    kind: str
    facts: dict[str, Any]
    bodies: dict[str, str]
    """The digests of bodies by their names."""


class DivergenceForm(msgspec.Struct, frozen=True, kw_only=True):
    """A step in which two runs differ."""

    parting: DivergenceKind
    strand: str
    step: str
    first: StepForm | None
    second: StepForm | None


class DiffForm(msgspec.Struct, frozen=True, kw_only=True):
    """The steps in which two runs differ."""

    a: str
    """The name of a run."""
    b: str
    """The name of a run."""
    equal: bool
    count: int
    """How many steps differ; a thousand are listed."""
    divergences: tuple[DivergenceForm, ...]
    answer_a: str | None
    """Null if there is none, or it was erased."""
    answer_b: str | None
    provenance_a: Provenance
    """How Forum knows of the run: `driven` by its engine, `relayed` by a gateway, `wrapped` by
    the SDK in the program, or `reported` by a program afterwards.
    """
    provenance_b: Provenance
    """How Forum knows of the run: `driven` by its engine, `relayed` by a gateway, `wrapped` by
    the SDK in the program, or `reported` by a program afterwards.
    """


class MeForm(msgspec.Struct, frozen=True, kw_only=True):
    """Who a client is to this server, and which ledger it uses."""

    name: str
    """The actor of the entries that the client records."""
    scopes: tuple[Scope, ...]
    ledger: str
    """The origin of the log."""
    version: str
    """The version of Forum."""


class LocatedGateForm(msgspec.Struct, frozen=True, kw_only=True):
    """A gate, with the data that is needed to check its digest."""

    run: str
    """The name of a run."""
    subject: str
    """What waits at a gate: `plan`, `task/NAME`, `use/NAME/N`, `effect/NAME/N` or
    `dissent/NAME`.
    """
    digest: str
    """The digest of what a gate shows; a decision names it."""
    decided: Answer | None
    by: DecidedBy | None
    default: Answer
    """The decision that takes effect if nobody decides in time."""
    deadline: str
    """A point in time (RFC 3339, UTC)."""
    provenance: Provenance
    """How Forum knows of the run: `driven` by its engine, `relayed` by a gateway, `wrapped` by
    the SDK in the program, or `reported` by a program afterwards.
    """
    asked_by: str
    """Who asks: the actor that submitted the run, or the key or process that reports it. A gate
    of a run that is not `driven` shows what its program says.
    """
    index: int | None
    """The entry that commits to what is shown; null until it has an index."""
    salt: str | None
    """The salt of the body `shown` of that entry, in hexadecimal digits: the digest is the
    salted commitment to the body. Null if it was erased.
    """


class GatesForm(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that waits for a person."""

    gates: tuple[LocatedGateForm, ...]


class GateResult(msgspec.Struct, frozen=True, kw_only=True):
    """The output of a task that a decision is about."""

    task: str
    result: str


class ShownGateForm(msgspec.Struct, frozen=True, kw_only=True):
    """A gate, with the content that waits at it and the results that the decision is about."""

    run: str
    """The name of a run."""
    subject: str
    """What waits at a gate: `plan`, `task/NAME`, `use/NAME/N`, `effect/NAME/N` or
    `dissent/NAME`.
    """
    digest: str
    """The digest of what a gate shows; a decision names it."""
    decided: Answer | None
    by: DecidedBy | None
    default: Answer
    """The decision that takes effect if nobody decides in time."""
    deadline: str
    """A point in time (RFC 3339, UTC)."""
    provenance: Provenance
    """How Forum knows of the run: `driven` by its engine, `relayed` by a gateway, `wrapped` by
    the SDK in the program, or `reported` by a program afterwards.
    """
    asked_by: str
    """Who asks: the actor that submitted the run, or the key or process that reports it. A gate
    of a run that is not `driven` shows what its program says.
    """
    index: int | None
    """The entry that commits to what is shown; null until it has an index."""
    salt: str | None
    """The salt of the body `shown` of that entry, in hexadecimal digits: the digest is the
    salted commitment to the body. Null if it was erased.
    """
    shown: str
    request: str | None
    """Null if it was erased."""
    results: tuple[GateResult, ...]
    """Of the tasks that it waits for; of an effect, also what its agent said."""
    if_approved: str
    """What an approval leads to."""
    if_rejected: str
    """What a rejection leads to."""
    spent: AmountForm
    cap: CapForm
    reason: str | None
    """The reason of the decision, if one was given."""


class DecisionForm(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided at a gate."""

    run: str
    """The name of a run."""
    subject: str
    """What waits at a gate: `plan`, `task/NAME`, `use/NAME/N`, `effect/NAME/N` or
    `dissent/NAME`.
    """
    answer: Answer
    digest: str
    """The digest of what a gate shows; a decision names it."""


class GateEditForm(msgspec.Struct, frozen=True, kw_only=True):
    """The content that replaced another at a gate. The gate is still open, with this digest."""

    run: str
    """The name of a run."""
    subject: str
    """What waits at a gate: `plan`, `task/NAME`, `use/NAME/N`, `effect/NAME/N` or
    `dissent/NAME`.
    """
    digest: str
    """The digest of what a gate shows; a decision names it."""


class ScoresForm(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of a run, its tasks and its answer, the oldest first."""

    run: str
    """The name of a run."""
    scores: tuple[ScoreForm, ...]


class SharedCapForm(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a cap; null means no limit."""

    usd: str | None
    tokens: int | None
    runs: int | None


class SpendForm(msgspec.Struct, frozen=True, kw_only=True):
    """The amounts used: dollars, tokens, runs."""

    usd: str
    """An exact amount in US dollars, as a string."""
    tokens: int
    runs: int


class BudgetForm(msgspec.Struct, frozen=True, kw_only=True):
    """One account under a cap."""

    name: str
    """The name of the cap in `forum.toml`, or its subject."""
    scope: str
    """The owner of the account: `ledger`, or one of `key`, `person`, `team`, `lane` and `agent`
    with a name: `team:NAME`.
    """
    per: Period
    period: str
    """The hour, day, week (by its Monday) or month in UTC, or `ever`."""
    until: str
    """A point in time (RFC 3339, UTC)."""
    cap: SharedCapForm
    used: SpendForm
    """The amounts spent or reserved for calls."""
    left: SharedCapForm


class BudgetsForm(msgspec.Struct, frozen=True, kw_only=True):
    """All accounts under caps over many runs."""

    budgets: tuple[BudgetForm, ...]
    frozen: bool = False
    """Whether all spending is frozen."""


class CostPartForm(msgspec.Struct, frozen=True, kw_only=True):
    """The dollars of a row for one day, agent, model or lane."""

    key: str | None
    usd: str
    """An exact amount in US dollars, as a string."""


class CostRowForm(msgspec.Struct, frozen=True, kw_only=True):
    """What the calls of one day, agent, model or lane have cost."""

    spent: AmountForm
    unpriced: int
    """How many of the calls have no known price, and count as free."""
    runs: int
    """How many runs made them. A run that another run has started is one."""
    key: str | None
    """The day, or the name; null if there is none. After the first thousand, all others are
    added up under `(others)`.
    """
    parts: tuple[CostPartForm, ...] = ()
    """With `split`: the dollars by that axis, in the same order in each row. The eight dearest
    of all rows are told apart, and others added up under `(others)`.
    """


class CostSumForm(msgspec.Struct, frozen=True, kw_only=True):
    """What some calls have cost."""

    spent: AmountForm
    unpriced: int
    """How many of the calls have no known price, and count as free."""
    runs: int
    """How many runs made them. A run that another run has started is one."""


class CostsForm(msgspec.Struct, frozen=True, kw_only=True):
    """What runs have cost."""

    by: CostAxis
    rows: tuple[CostRowForm, ...]
    """Days in their order, all else by cost."""
    total: CostSumForm
    runs_open: int
    """How many of the runs go on. They are counted with what they have cost so far, and their
    open calls with what is reserved for them.
    """
    runs_unpriced: int
    """How many of the runs made calls that have no known price."""
    runs_stopped: int
    """How many of the runs a budget or a cap has stopped."""
    stopped: tuple[str, ...]
    """The newest of these, at most a hundred."""
    runs_altered: int
    """How many of the runs have a summary that somebody has changed in the database. They are
    counted by their entries; verify the ledger.
    """
    next: str | None
    """Null if all runs are counted. Otherwise the cursor for the costs of the runs that began
    before these: a request adds up about ten thousand runs at most.
    """
    runs_refused: int = 0
    """In how many of the runs a cap refused a call, however they ended."""
    calls_refused: int = 0
    """How many calls caps refused."""
    refused: tuple[str, ...] = ()
    """The newest of these runs, at most a hundred."""
    runs_overrun: int = 0
    """In how many of the runs a provider billed more than the bound of a call. They are stopped,
    and are not among `runs_stopped`.
    """
    overrun: tuple[str, ...] = ()
    """The newest of these, at most a hundred."""


class UpstreamForm(msgspec.Struct, frozen=True, kw_only=True):
    """The calls that one provider got."""

    name: str
    """The provider, or the upstream of a route."""
    calls: int
    failed: int
    """How many of them did not end well."""
    usd: str
    """An exact amount in US dollars, as a string."""
    p50_ms: int
    """Half of the calls that ended well took at most so long."""
    p95_ms: int
    """Of the calls that ended well, 95 % took at most so long."""


class RefusalsForm(msgspec.Struct, frozen=True, kw_only=True):
    """The calls that were refused for one reason before they were made."""

    reason: str
    calls: int


class UpstreamsForm(msgspec.Struct, frozen=True, kw_only=True):
    """How providers have answered model calls of runs that Forum does not drive."""

    upstreams: tuple[UpstreamForm, ...]
    refused: tuple[RefusalsForm, ...]
    since: str | None
    """If not null, older calls of the time that was asked for are not counted: a request reads
    the newest ten thousand entries of the log at most.
    """


class KeyForm(msgspec.Struct, frozen=True, kw_only=True):
    """An API key. The secret itself is never stored."""

    id: str
    name: str
    scopes: tuple[Scope, ...]
    made: str
    """RFC 3339."""
    expires: str | None
    """RFC 3339; null if the key does not expire."""
    state: Validity


class KeysForm(msgspec.Struct, frozen=True, kw_only=True):
    """All API keys of a ledger, oldest first."""

    keys: tuple[KeyForm, ...]


class NewKeyForm(msgspec.Struct, frozen=True, kw_only=True):
    """A new API key with its secret, which is shown only once."""

    key: KeyForm
    secret: str
    """The secret that a client sends as its bearer token."""


class EntryForm(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the log, byte for byte as it is hashed."""

    id: str
    """The id of an entry: its leaf hash in the tree, in hexadecimal digits."""
    index: int | None
    """Null until it is sequenced."""
    entry: msgspec.Raw


class EntriesPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some entries, in the order of the log."""

    entries: tuple[EntryForm, ...]
    next: int | None
    """Where the next page begins; null at the end of the log."""


class ProofForm(msgspec.Struct, frozen=True, kw_only=True):
    """The proof of an entry, which can be checked offline."""

    id: str
    """The id of an entry: its leaf hash in the tree, in hexadecimal digits."""
    index: int
    """The index of an entry in the log."""
    proof: str
    """A C2SP tlog-proof: the inclusion proof, and the checkpoint it leads to."""


class DirectoryForm(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive entries of the directory of runs, with their proof."""

    first: int
    """The position of the first entry in the directory."""
    entries: tuple[str, ...]
    """The entries as they were hashed; each names the one before it."""
    proof: str
    """A C2SP tlog-proof of the last of these entries."""


class CauseForm(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that led to another one."""

    depth: int
    """The number of causes in between; 0 is the requested entry."""
    id: str
    """The id of an entry: its leaf hash in the tree, in hexadecimal digits."""
    index: int | None
    """Null until it is sequenced."""
    entry: msgspec.Raw
    judge: str
    """What the judge wrote, for a verdict or a check; else empty."""


class WhyForm(msgspec.Struct, frozen=True, kw_only=True):
    """An entry, its causes, and theirs."""

    causes: tuple[CauseForm, ...]


class CheckpointForm(msgspec.Struct, frozen=True, kw_only=True):
    """The newest checkpoint of the log."""

    origin: str
    """The name of the log."""
    size: int
    root: str
    witnessed: bool
    """Whether enough witnesses have cosigned it."""
    note: str
    """The signed note, with the cosignatures that it has."""


class AnswerForm(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a claim holds, and why."""

    state: State
    reason: str


class FindingForm(msgspec.Struct, frozen=True, kw_only=True):
    """A finding: what is wrong, and where."""

    problem: Problem
    detail: str
    index: int | None
    entry: str | None
    """Where the entry stands: run/strand/n."""
    claim: Claim
    """The claim that it refutes."""


class Bodies(msgspec.Struct, frozen=True, kw_only=True):
    """How the bodies that were committed to are found now."""

    ok: int = 0
    redacted: int = 0
    missing: int = 0
    mismatch: int = 0


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """A witness that has cosigned the newest checkpoint, and when it says it did."""

    witness: str
    time: int
    same_machine: bool
    independent: bool = False


class EpochSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an earlier log that the verified one continues."""

    origin: str
    size: int
    root: str
    intact: State
    complete: State
    independent: State
    witnessing: WitnessState = "none"


class GapCount(msgspec.Struct, frozen=True, kw_only=True):
    """Gaps for one reason, and the steps that are missing by them, as far as these are counted."""

    why: str
    gaps: int
    steps: int


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """How the runs are known: the number of runs by provenance, and what is known to be missing."""

    driven: int = 0
    relayed: int = 0
    wrapped: int = 0
    reported: int = 0
    gaps: tuple[GapCount, ...] = ()


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """The proven interval of a run, in seconds since 1970 by the clocks of the reader's
    witnesses.
    """

    after: int | None = None
    before: int | None = None


class ReportForm(msgspec.Struct, frozen=True, kw_only=True):
    """What was checked, what was found, and what was not checked."""

    ok: bool
    """Whether all three claims hold."""
    origin: str
    size: int
    root: str
    intact: AnswerForm
    complete: AnswerForm
    independent: AnswerForm
    findings: tuple[FindingForm, ...]
    found: int
    """How many findings there are; a thousand are listed."""
    not_checked: tuple[str, ...]
    entries: int
    runs: int
    open_runs: tuple[str, ...]
    bodies: Bodies
    pending: int
    """Entries that are newer than the checkpoint."""
    sightings: tuple[Sighting, ...]
    epochs: tuple[EpochSummary, ...]
    """The earlier logs that a ledger continues, the newest first."""
    notices: tuple[str, ...] = ()
    """Remarks that are not findings."""
    coverage: Coverage = Coverage()
    """How the runs are known, and which steps are known to be missing."""
    witnessing: WitnessState = "none"
    """Who has seen it: `independent` only if your trust file marks a witness that cosigned it as
    another organization's; otherwise `self-witnessed` or `none`.
    """
    interval: Interval | None = None
    """When the run of a bundle was written, in seconds since 1970, as witnesses prove it; null
    where that was not checked, and for a whole ledger.
    """


class ReplayForm(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a replay of a run from its record gives the same entries."""

    run: str
    """The name of a run."""
    equal: bool
    count: int
    """How many steps differ; a thousand are listed."""
    divergences: tuple[DivergenceForm, ...]
    missing: str
    """What is missing in the record, if the replay ended because of it."""


class EvidenceForm(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence that a feature of a request gives for the best lane against the second."""

    feature: str
    weight: float


class RouteForm(msgspec.Struct, frozen=True, kw_only=True):
    """The lane that a request belongs to, and why."""

    lane: str | None
    """Null if no lane is certain enough; `next` says what happens then."""
    confidence: float
    """The measured share of routes like this one that are right."""
    nearest: str
    runner_up: str
    margin: float
    """The sum of the evidence."""
    evidence: tuple[EvidenceForm, ...]
    rung: str
    next: RouteNext
    """What `submit` does with it in this project: `lane` carries it out in the lane,
    `classifier` asks a model for the lane, `no-lane` carries it out without one, `not-routed`
    gives it to the agent as it is, because no model is configured.
    """
    recorded: str | None = None
    """With `record`: the run whose note holds this reply and the request."""


class PlannedPanelForm(msgspec.Struct, frozen=True, kw_only=True):
    """A planned panel."""

    protocol: Protocol
    agents: tuple[str, ...]
    """The agent of each seat; the default agent has no name."""
    require: Requirement
    """The agreement that its task needs to pass."""


class PlannedForm(msgspec.Struct, frozen=True, kw_only=True):
    """A planned task."""

    id: str
    instruction: str
    done_when: str
    needs: tuple[str, ...]
    """The tasks whose output it receives."""
    after: tuple[str, ...]
    """The tasks that must end before it, and whose output it does not receive."""
    lane: str | None
    agent: str
    """The agent that would work on it; empty for the default agent."""
    tasks: "tuple[PlannedForm, ...]"
    """The plan within it."""
    panel: PlannedPanelForm | None = None
    """The panel that would deliberate on it; null if a single agent works on it."""
    decide: tuple[str, ...] = ()
    """The options of its panel; empty if any text may be the answer."""


class PlanForm(msgspec.Struct, frozen=True, kw_only=True):
    """A preview: the plan of a request, if it were submitted now."""

    lane: str | None
    """Null if no lane was looked for, or none is certain."""
    team: bool
    """Whether a team would make the plan: no task is known."""
    classifier: str | None
    """The agent that would choose the lane; null if none is asked."""
    tasks: tuple[PlannedForm, ...]
    gates: tuple[str, ...]
    """What a person has to approve first."""
    cap: CapForm
    judged: bool = False
    """Whether models or verifiers would judge results or the answer."""
    recorded: str | None = None
    """With `record`: the run whose note holds this reply and the request."""


class PriceForm(msgspec.Struct, frozen=True, kw_only=True):
    """The known prices of an agent: for a million tokens, or for a call."""

    table: str | None
    input_usd: str | None
    output_usd: str | None
    call_usd: str | None


class CallForm(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a test call that asks an agent for one word."""

    outcome: Outcome
    why: Why | None
    code: str | None
    error: str | None
    milliseconds: int
    model: str | None
    usd: str
    """An exact amount in US dollars, as a string."""
    tokens: int
    calls: int


class ModelForm(msgspec.Struct, frozen=True, kw_only=True):
    """An agent: its configuration, availability, prices and use."""

    name: str
    """The default agent has none."""
    origin: str
    """Where it is configured."""
    usable: bool
    problem: str | None
    warning: str | None
    kind: str
    model: str
    where: str
    """The host, or the program."""
    key: KeyState
    key_name: str | None
    """The variable or the file that holds the key."""
    price: PriceForm
    default: bool
    """Whether it works on tasks that name no agent."""
    tiers: tuple[Tier, ...]
    lanes: tuple[str, ...]
    roles: tuple[str, ...]
    call: CallForm | None
    """Null if it was not tried."""


class ModelsForm(msgspec.Struct, frozen=True, kw_only=True):
    """Every agent that is configured."""

    agents: tuple[ModelForm, ...]
    independent_judge: bool
    """Whether the judge is a model that works on no task itself."""


class LaneForm(msgspec.Struct, frozen=True, kw_only=True):
    """A specialist of the roster."""

    name: str
    group: str
    does: str
    tier: Tier
    """How strong a model its work usually needs."""
    tools: tuple[str, ...]


class RosterForm(msgspec.Struct, frozen=True, kw_only=True):
    """All specialists of the roster."""

    digest: str
    """The digest of the roster, which routes name."""
    lanes: tuple[LaneForm, ...]


class EvaluationLine(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluation in a list."""

    run: str
    """The name of a run."""
    begun: str
    """A point in time (RFC 3339, UTC)."""
    ended: str | None
    """Null while it goes on, or if it was given up."""
    configurations: tuple[str, ...]
    """Agents that play alone, and `team`."""
    cases: int
    repeat: int
    """How often each case is played."""
    plays: int
    """How many plays were recorded."""
    unplayed: int


class EvaluationsPage(msgspec.Struct, frozen=True, kw_only=True):
    """Evaluations, the newest first."""

    evaluations: tuple[EvaluationLine, ...]
    next: str | None
    """The cursor of the next page; null at the end."""


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A mean over cases, with its 95 % confidence interval."""

    mean: float
    low: float | None
    high: float | None
    cases: int
    method: IntervalMethod


class PlayFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of some plays of a configuration; money is in dollars."""

    plays: int
    failed: int
    quality: Estimate
    usd: Estimate
    seconds: Estimate
    tokens: Estimate


class ConfigurationResult(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration over all cases."""

    configuration: str
    spent_usd: str
    figures: PlayFigures


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The paired difference of two configurations: the first minus the second, case by case."""

    first: str
    second: str
    quality: Estimate
    usd: Estimate
    seconds: Estimate
    conclusion: str


class LaneResult(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration over the cases of one lane."""

    lane: str
    configuration: str
    figures: PlayFigures


class ModelResult(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one model for a configuration, over all plays."""

    configuration: str
    model: str
    calls: int
    tokens: int
    spent_usd: str
    seconds: float


class PlayResult(msgspec.Struct, frozen=True, kw_only=True):
    """One play, with the run that shows it."""

    case: int
    configuration: str
    repeat: int
    run: str
    outcome: Outcome
    quality: float
    lane: str
    usd: str
    tokens: int
    seconds: float


class UnplayedCase(msgspec.Struct, frozen=True, kw_only=True):
    """A play that did not happen."""

    case: int
    configuration: str
    repeat: int
    reason: str


class JudgeUse(msgspec.Struct, frozen=True, kw_only=True):
    """The judge that compared answers with references; its cost is not that of the plays."""

    agent: str
    judged: int
    unjudged: int
    spent_usd: str
    not_independent_of: tuple[str, ...]


class EvalReport(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of configurations on the same cases."""

    evaluation: str
    cases: int
    repeat: int
    configurations: tuple[ConfigurationResult, ...]
    comparisons: tuple[Comparison, ...]
    lanes: tuple[LaneResult, ...]
    models: tuple[ModelResult, ...]
    plays: tuple[PlayResult, ...]
    unplayed: tuple[UnplayedCase, ...] = ()
    judge: JudgeUse | None = None


class EvaluationForm(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluation: the recorded report, and whether it follows from the recorded runs."""

    run: str
    """The name of a run."""
    check: ReportCheck
    requests: tuple[str, ...]
    """What each case asks for; none if they were erased."""
    report: EvalReport


class ConcernCountsForm(msgspec.Struct, frozen=True, kw_only=True):
    """The number of entries with each concern; of those that are left out too."""

    stops: int
    budget_stops: int
    denials: int
    gaps: int
    indeterminate: int
    gates: int
    """Gates that are open, whenever they were opened."""


class ReviewItemForm(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that is worth a look, and why."""

    concern: Concern
    id: str
    """The id of an entry: its leaf hash in the tree, in hexadecimal digits."""
    index: int | None
    run: str
    """The name of a run."""
    strand: str
    kind: str
    actor: str
    at: str
    """A point in time (RFC 3339, UTC)."""
    text: str
    """The entry in words; over HTTP, its facts."""


class IncidentForm(msgspec.Struct, frozen=True, kw_only=True):
    """An incident, open or closed."""

    id: str
    severity: IncidentSeverity
    runs: tuple[str, ...]
    known: str
    """When somebody became aware of it."""
    opened: str
    """A point in time (RFC 3339, UTC)."""
    opened_by: str
    entry: str
    """The id of an entry: its leaf hash in the tree, in hexadecimal digits."""
    closed: str | None
    """Null while it is open."""
    closed_by: str | None
    text: str | None = None
    """Null if it was erased."""
    closing_text: str | None = None
    """Null while it is open, or if it was erased."""


class DoneReviewForm(msgspec.Struct, frozen=True, kw_only=True):
    """A review that somebody has done."""

    entry: str
    """The id of an entry: its leaf hash in the tree, in hexadecimal digits."""
    at: str
    """A point in time (RFC 3339, UTC)."""
    actor: str
    by: Authority
    since: int
    """The index of an entry in the log."""
    until: int
    """The index of an entry in the log."""
    remark: str | None
    """Null if there is none, or it was erased."""


class ReviewForm(msgspec.Struct, frozen=True, kw_only=True):
    """What is worth a look since the last review, or of one run."""

    since: int
    """The first entry that was looked at."""
    until: int
    """The first entry that was not looked at."""
    run: str | None
    counts: ConcernCountsForm
    items: tuple[ReviewItemForm, ...]
    """The newest of them."""
    incidents: tuple[IncidentForm, ...]
    """Those that are open."""
    last: DoneReviewForm | None
    """The review before."""
    recorded: str | None
    """The entry of the review that was just recorded."""


class IncidentsForm(msgspec.Struct, frozen=True, kw_only=True):
    """All incidents, the oldest first."""

    incidents: tuple[IncidentForm, ...]


class ItemRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """An item of a batch that is not recorded, and why."""

    item: int
    code: str
    why: str
    facts: tuple[str | int, ...] = ()


class GateState(msgspec.Struct, frozen=True, kw_only=True):
    """The decision at a gate of the batch; None while it waits."""

    item: int
    answer: Answer | None


class ReportResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the items of a batch."""

    recorded: int = 0
    known: int = 0
    refused: tuple[ItemRefusal, ...] = ()
    gates: tuple[GateState, ...] = ()


class ChoiceForm(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be chosen as a model."""

    id: str
    object: str
    created: int
    owned_by: str
    description: str
    """The purpose of the model."""


class ChoicesForm(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be chosen as a model."""

    object: str
    data: tuple[ChoiceForm, ...]


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What was answered."""

    role: str
    content: str
    refusal: str | None = None


class Alternative(msgspec.Struct, frozen=True, kw_only=True):
    """The one answer that there is."""

    index: int
    message: Reply
    finish_reason: str
    logprobs: None = None


class UsageForm(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class RunReference(msgspec.Struct, frozen=True, kw_only=True):
    """Where the answer comes from."""

    run: str
    href: str
    verify: str
    """POST there for the evidence, which `forum verify` reads."""
    deliberation: CouncilForm | SymposiumForm | None = None
    """How a panel has come to it, and who dissents."""


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """An answer in one piece."""

    id: str
    object: str
    created: int
    model: str
    choices: tuple[Alternative, ...]
    usage: UsageForm
    system_fingerprint: str
    forum: RunReference


class OutputText(msgspec.Struct, frozen=True, kw_only=True):
    """The words of the answer."""

    text: str
    type: str = "output_text"
    annotations: tuple[Any, ...] = ()
    logprobs: tuple[Any, ...] = ()


class OutputMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The answer."""

    id: str
    status: str
    content: tuple[OutputText, ...]
    type: str = "message"
    role: str = "assistant"


class ReadDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Of the tokens that were read."""

    cached_tokens: int = 0


class WrittenDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Of the tokens that were written."""

    reasoning_tokens: int = 0


class ResponseUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: ReadDetails = ReadDetails()
    output_tokens_details: WrittenDetails = WrittenDetails()


class ResponseError(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no answer."""

    code: str
    message: str


class ResponseForm(msgspec.Struct, frozen=True, kw_only=True):
    """A response, as far as it has come."""

    id: str
    created_at: int
    model: str
    status: str
    metadata: dict[str, Any]
    output: tuple[OutputMessage, ...] = ()
    usage: ResponseUsage | None = None
    error: ResponseError | None = None
    object: str = "response"
    instructions: str | None = None
    incomplete_details: None = None
    parallel_tool_calls: bool = False
    tool_choice: str = "none"
    tools: tuple[Any, ...] = ()
    temperature: None = None
    top_p: None = None
    text: dict[str, Any] = msgspec.field(default_factory=dict)
    background: bool = False
    store: bool = True
    forum: RunReference | None = None
    """Where the answer comes from, once it is there."""


class BudgetAsk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What may be used at most; what is not said has no limit."""

    usd: Decimal | str | int | None = None
    """Dollars."""
    tokens: int | None = None
    calls: int | None = None
    seconds: Decimal | str | int | None = None
    depth: int | None = None


class Persona(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A way of thinking: one for any subject, or one for some of them."""

    persona_class: Literal["domain", "horizontal"]
    id: str
    reasoning_scope: str
    reasoning_style: str
    behavioral_constraints: Sequence[str]
    failure_modes: Sequence[str]
    output_requirements: Sequence[str] = ()
    domain_scope: Sequence[str] | None = None
    forbidden_domains: Sequence[str] | None = None
    must_delegate: Mapping[str, str] | None = None
    status: Literal["archived", "deprecated", "experimental", "stable"] | None = None


class PanelAsk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who is to deliberate on the request, instead of carrying out a plan."""

    protocol: Protocol = "council"
    """`council`: ballots and a vote; `symposium`: turns and a synthesis."""
    seats: int | None = None
    """The number of seats. Default: that of the personas, or of the models, or five."""
    models: Sequence[str] = ()
    """Agents that take the seats in turn. Default: all agents."""
    personas: Sequence[str | Persona] = ()
    """The personas of the seats, in turn."""
    options: Sequence[str] = ()
    """The possible answers. Default: answers are free text."""
    rounds: int | None = None
    """The maximum number of exchanges of ballots, or of turns of each seat."""
    baseline: int = 3
    """The number of seats that answer first. With 0, all seats answer."""
    threshold: float = 1.0
    """The share of these seats that must agree for the panel to end early."""
    judge: str | None = None
    """The agent that compares free-text answers."""
    require: Requirement = "majority"
    """The agreement that a task with this panel needs to pass: `majority` or `agreement`. A
    blocked or split panel never passes.
    """


class TaskAsk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task of a plan."""

    id: str
    instruction: str
    done_when: str = ""
    """The criteria that the result must meet."""
    needs: Sequence[str] = ()
    """The tasks whose output it receives."""
    after: Sequence[str] = ()
    """The tasks that must end before it, and whose output it does not receive."""
    lane: str = ""
    agent: str = ""
    tasks: "Sequence[TaskAsk]" = ()
    budget: BudgetAsk | None = None
    panel: PanelAsk | None = None
    """The panel that deliberates on the task."""
    decide: Sequence[str] = ()
    """Options, one of which a configured panel chooses: that which `agent` names, or else the
    first.
    """


class GateAsk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person has to approve first."""

    what: Sequence[str]
    """`plan`, `tasks`, `task:NAME`, `dissent`."""
    seconds: int | None = None
    default: Answer | None = None


class RunStart(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="start"
):
    """A run begins, under these limits."""

    run: str
    name: str
    told: ReportProvenance = "wrapped"
    framework: str = ""
    trace: str = ""
    continues: str = ""
    usd: int = 9007199254740991
    tokens: int = 9007199254740991
    calls: int = 9007199254740991


class EarlierInput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The input begins with the first bytes of the recorded input of an earlier step of the run."""

    span: str
    size: int
    sha256: str


class StepBegin(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="begin"
):
    """A step is about to be made; it is made only after this is recorded."""

    run: str
    span: str
    op: Operation
    name: str
    within: str = ""
    agent: str = ""
    model: str = ""
    provider: str = ""
    usd: int = 0
    tokens: int = 0
    calls: int = 0
    prices: str = ""
    cut: int = 0
    input: msgspec.Raw | None = None
    input_after: EarlierInput | None = None


class StepReport(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="step"
):
    """A step was made.  Bodies are JSON values."""

    run: str
    span: str
    op: Operation
    name: str
    outcome: Outcome
    within: str = ""
    began: int = 0
    micros: int = 0
    agent: str = ""
    model: str = ""
    provider: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    usd: int = 0
    prices: str = ""
    code: str = ""
    cut: int = 0
    begun: bool = False
    input: msgspec.Raw | None = None
    output: msgspec.Raw | None = None
    error: msgspec.Raw | None = None
    attributes: msgspec.Raw | None = None
    input_after: EarlierInput | None = None


class RunEnd(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="end"
):
    """A run has ended, and this many steps were handed in and dropped."""

    run: str
    name: str
    outcome: Outcome
    handed_in: int
    dropped: int = 0
    dropped_why: GapReason = "overflow"
    refused: int = 0
    missing_why: GapReason = "sequence"
    filtered: int = 0


class GateQuestion(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="gate"
):
    """Something waits for approval.  Reporting it again returns the decision, if there is one."""

    run: str
    subject: str
    shown: str
    milliseconds: int
    default: Answer = "reject"


class Terms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What only Forum knows: what the run may use, what has to be approved, who deliberates."""

    budget: BudgetAsk = BudgetAsk()
    gates: GateAsk | None = None
    panel: PanelAsk | None = None
    """The options of the panel that answers as the model `panel`."""
    live: bool = True
    """Whether a stream may give words before the answer is recorded."""


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a message; only texts are taken."""

    type: str
    text: str | None = None


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One turn of a conversation."""

    role: Speaker
    content: str | Sequence[Part] | None = None


class Item(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One turn, as the Responses API has it."""

    type: str = "message"
    role: Speaker | None = None
    content: str | Sequence[Part] | None = None
