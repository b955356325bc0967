"""The result of a panel, for every protocol; what reads it from a run is a part of its feature."""

from collections.abc import Iterator
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from forum.app import RunView
from forum.feature import load_parts
from forum.features import FEATURES
from forum.runs.answer_similarity import EquivalenceStep
from forum.runs.council_end import Accord, End, Ground
from forum.runs.symposium_end import MessageType, OutcomeKind, Reason
from forum.surfaces.schemas import fields
from forum.surfaces.schemas.fields import SpentForm

MAX_SPOKEN_CHARS = 4000
"""Limit of the words of one turn that are shown while a panel goes on; its record has them all."""


class VoteForm(Struct, frozen=True):
    """The ballot of a seat in one round."""

    round: Annotated[
        int, Meta(description="0 is the first round, in which no seat saw another ballot.")
    ]
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


class ArgumentForm(Struct, frozen=True):
    """A claim for the answer: where to check it, who else supports it, and who attacks it."""

    claim: str
    status: Annotated[str, Meta(examples=["open", "supported", "contested"])]
    evidence: Annotated[str | None, Meta(description="The source: where to check the claim.")]
    support: Annotated[int, Meta(description="How many other seats support it.")]
    attacks: tuple[str, ...]


class PairForm(Struct, frozen=True):
    """Two free-text answers, whether they count as the same, and which step decided that."""

    first: str
    second: str
    same: bool
    step: EquivalenceStep
    score: Annotated[float | None, Meta(description="The similarity by the encoder, up to 1.")]
    rule: Annotated[str | None, Meta(description="The rule on words that made them different.")]


class ComparisonForm(Struct, frozen=True):
    """How the free-text answers were compared."""

    encoder: Annotated[str | None, Meta(description="Null: no encoder is installed.")]
    answers: Annotated[int, Meta(description="How many wordings there were.")]
    positions: Annotated[int, Meta(description="How many answers they come to.")]
    pairs: tuple[PairForm, ...]


class BlockerForm(Struct, frozen=True):
    """An objection that must be answered before anything is called agreed."""

    seat: int
    text: str


class AbsentForm(Struct, frozen=True):
    """A seat that cast no ballot."""

    seat: int
    reason: str


class BaselineForm(Struct, frozen=True):
    """The result that the first answers alone would have given."""

    answer: str
    answers: int
    agreement: Annotated[float, Meta(description="The share that gave this answer.")]
    changed: Annotated[bool, Meta(description="Whether deliberation led to another answer.")]
    spent: fields.SpentForm


class RoundForm(Struct, frozen=True):
    """How many ballots of a round are sealed."""

    round: int
    sealed: int
    revealed: bool


class CouncilForm(Struct, frozen=True, tag="council", tag_field="protocol"):
    """The result of a council: sealed ballots, anonymous exchanges, a vote, and dissent."""

    seated: Annotated[int, Meta(description="How many seats there are.")]
    ballots: tuple[RoundForm, ...]
    end: Annotated[End | None, Meta(description="Why nobody was asked again; null before.")]
    ground: Annotated[Ground | None, Meta(description="The rule that chose the answer.")]
    accord: Annotated[Accord | None, Meta(description="The degree of agreement of the seats.")]
    rounds: Annotated[int, Meta(description="How often ballots were exchanged.")]
    baseline: BaselineForm | None
    spent: fields.SpentForm | None
    seats: tuple[SeatForm, ...]
    changes: tuple[ChangeForm, ...]
    conformity: Annotated[float, Meta(description="The share of changes without a reason.")]
    minority: tuple[MinorityForm, ...]
    decisive: Annotated[tuple[str, ...], Meta(description="What evidence would decide.")]
    blockers: tuple[BlockerForm, ...]
    absent: tuple[AbsentForm, ...]
    warnings: tuple[str, ...]
    headline: Annotated[
        str | None, Meta(description="Why the answer is no decision; null if it is one.")
    ] = None
    claims: Annotated[
        tuple[ArgumentForm, ...],
        Meta(description="Why the panel decided so: the claims for the answer, the best first."),
    ] = ()
    holders: Annotated[
        tuple[int, ...], Meta(description="The seats that were counted for the answer.")
    ] = ()
    comparison: Annotated[
        ComparisonForm | None, Meta(description="Null where the possible answers were listed.")
    ] = None


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


class SpokenTurn(Struct, frozen=True):
    """The words of one turn of a panel."""

    speaker: str
    text: str


class PanelView(Protocol):
    """What reads the sessions of one protocol from the views of their runs."""

    def read_form(self, view: RunView) -> DeliberationForm | None:
        """Return the result of a session; None if the run is no session of this protocol."""
        ...

    def read_words(self, view: RunView) -> list[SpokenTurn]:
        """Return the words of the turns so far that may be read, in their order."""
        ...


def deliberation_form(view: RunView) -> DeliberationForm | None:
    """Return what is told of a deliberation, if the run is one."""
    forms = (panel.read_form(view) for panel in _panel_views(view))
    return next((form for form in forms if form is not None), None)


def spoken_turns(view: RunView) -> list[SpokenTurn]:
    """Return the words of the turns of a panel so far, in the order in which they may be read."""
    return [turn for panel in _panel_views(view) for turn in panel.read_words(view)]


def _panel_views(view: RunView) -> Iterator[PanelView]:
    """Load what reads sessions; for a run without one, nothing is loaded."""
    yield from load_parts(FEATURES, "panel_view") if view.notes else ()
