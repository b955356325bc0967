"""What a recorder reports, as values: the same in a process and on the wire to a server."""

from typing import Annotated

import msgspec
from msgspec import Meta

from forum.ledger.kinds import Outcome
from forum.ledger.ports import NO_LIMIT
from forum.runs.policy import Answer
from forum.runs.report_kinds import GapReason, Operation, ReportProvenance

MAX_BATCH_ITEMS = 500

RunName = Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{7,63}$")]
SpanName = Annotated[str, Meta(pattern="^[A-Za-z0-9._-]{1,64}$")]
Number = Annotated[int, Meta(ge=0, lt=2**53)]
Json = msgspec.Raw | msgspec.UnsetType
"""Any JSON value, not decoded."""
_Name = Annotated[str, Meta(max_length=1000)]
_Label = Annotated[str, Meta(max_length=128)]


class EarlierInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The input begins with the first bytes of the recorded input of an earlier step of the run.

    `input` is then a text: what follows these bytes.  It is put together before anything of the
    batch is recorded; where that is not possible, the whole batch is refused as a conflict, and has
    to be sent with whole inputs.
    """

    span: SpanName
    size: Number
    """How many bytes."""
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    """The digest of the whole input."""


class _ReportedItem(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False
):
    """Base class of what is reported."""

    run: RunName


class RunStart(_ReportedItem, frozen=True, tag="start"):
    """A run begins, under these limits."""

    name: _Name
    told: ReportProvenance = ReportProvenance.WRAPPED
    framework: _Label = ""
    trace: _Label = ""
    continues: _Label = ""
    usd: Number = NO_LIMIT
    """In nano-dollars."""
    tokens: Number = NO_LIMIT
    calls: Number = NO_LIMIT

    @property
    def is_capped(self) -> bool:
        """Whether the run has a limit, and so an account."""
        return min(self.usd, self.tokens, self.calls) < NO_LIMIT


class StepBegin(_ReportedItem, frozen=True, tag="begin"):
    """A step is about to be made; it is made only after this is recorded."""

    span: SpanName
    op: Operation
    name: _Name
    within: _Label = ""
    agent: _Name = ""
    model: _Label = ""
    provider: _Label = ""
    usd: Number = 0
    tokens: Number = 0
    calls: Number = 0
    prices: _Label = ""
    cut: Number = 0
    input: Json = msgspec.UNSET
    input_after: EarlierInput | None = None


class StepReport(_ReportedItem, frozen=True, tag="step"):
    """A step was made.  Bodies are JSON values."""

    span: SpanName
    op: Operation
    name: _Name
    outcome: Outcome
    within: _Label = ""
    began: Number = 0
    micros: Number = 0
    agent: _Name = ""
    model: _Label = ""
    provider: _Label = ""
    input_tokens: Number = 0
    output_tokens: Number = 0
    usd: Number = 0
    prices: _Label = ""
    code: _Label = ""
    cut: Number = 0
    begun: bool = False
    """Whether the step follows a `begin` in its strand."""
    input: Json = msgspec.UNSET
    output: Json = msgspec.UNSET
    error: Json = msgspec.UNSET
    attributes: Json = msgspec.UNSET
    input_after: EarlierInput | None = None


class RunEnd(_ReportedItem, frozen=True, tag="end"):
    """A run has ended, and this many steps were handed in and dropped."""

    name: _Name
    outcome: Outcome
    handed_in: Number
    dropped: Number = 0
    dropped_why: GapReason = GapReason.OVERFLOW
    refused: Number = 0
    """Steps that were refused when they were reported; those of this batch are not among them."""
    missing_why: GapReason = GapReason.SEQUENCE
    """Why other steps are missing, if some are."""
    filtered: Number = 0
    """Spans of a framework that were left out by rule; they were never handed in."""


class GateQuestion(_ReportedItem, frozen=True, tag="gate"):
    """Something waits for approval.  Reporting it again returns the decision, if there is one."""

    subject: Annotated[str, Meta(pattern="^[A-Za-z0-9._-]{1,64}$")]
    shown: str
    milliseconds: Annotated[int, Meta(ge=1, le=366 * 86_400_000)]
    default: Answer = Answer.REJECT


ReportItem = RunStart | StepBegin | StepReport | RunEnd | GateQuestion


class ItemRefusal(msgspec.Struct, frozen=True, omit_defaults=True):
    """An item of a batch that is not recorded, and why."""

    item: int
    """The place in the batch, from 0."""
    code: str
    """The name of the error, for programs."""
    why: str
    facts: tuple[str | int, ...] = ()


class GateState(msgspec.Struct, frozen=True):
    """The decision at a gate of the batch; None while it waits."""

    item: int
    answer: Answer | None


class ReportResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of the items of a batch."""

    recorded: int = 0
    known: int = 0
    """Items that were recorded before."""
    refused: tuple[ItemRefusal, ...] = ()
    gates: tuple[GateState, ...] = ()
