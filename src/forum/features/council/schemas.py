"""The result of a council: ballots, changes and dissent."""

from collections import Counter
from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from forum.app import RunView
from forum.app.formatting import explain_task_state, note_body, undecided_headline
from forum.features.council import kinds as council_kinds
from forum.features.council import report as council_report
from forum.features.council.answer_groups import EquivalenceStep
from forum.ledger.entry import Facts
from forum.runs.kinds import TURN_PREFIX
from forum.runs.panel import TurnId
from forum.surfaces.schemas import fields


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
    end: Annotated[
        council_kinds.End | None, Meta(description="Why nobody was asked again; null before.")
    ]
    ground: Annotated[
        council_kinds.Ground | None, Meta(description="The rule that chose the answer.")
    ]
    accord: Annotated[
        council_kinds.Accord | None, Meta(description="The degree of agreement of the seats.")
    ]
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


def council_form(view: RunView) -> CouncilForm:
    """Return what is told of a council, in its form."""
    facts = [note.facts for note in view.notes]
    opened = next(fact for fact in facts if isinstance(fact, council_kinds.CouncilFacts))
    concluded = next(
        (fact for fact in facts if isinstance(fact, council_kinds.CouncilCloseFacts)), None
    )
    bodies = (
        note_body(note, "report")
        for note in view.notes
        if isinstance(note.facts, council_kinds.CouncilCloseFacts)
    )
    body = next(bodies, b"")
    report = council_report.read_report(body) if body else None
    return CouncilForm(
        seated=opened.seats,
        ballots=_round_forms(facts),
        end=concluded.end if concluded else None,
        ground=concluded.ground if concluded else None,
        accord=concluded.accord if concluded else None,
        rounds=concluded.rounds if concluded else 0,
        baseline=_baseline_form(report) if report and report.baseline.answers else None,
        spent=fields.spent_form(concluded.usd, concluded.tokens) if concluded else None,
        seats=tuple(map(_seat_form, report.seats)) if report else (),
        changes=tuple(fields.fill(ChangeForm, item) for item in report.changes) if report else (),
        conformity=concluded.conformed / max(1, concluded.changed) if concluded else 0.0,
        minority=tuple(map(_minority_form, report.minority)) if report else (),
        decisive=report.decisive if report else (),
        blockers=tuple(fields.fill(BlockerForm, item) for item in report.blockers)
        if report
        else (),
        absent=_absent_forms(view, report.absent) if report else (),
        warnings=report.warnings if report else (),
        headline=undecided_headline(view) or None,
        claims=tuple(map(_argument_form, report.claims)) if report else (),
        holders=report.holders if report else (),
        comparison=_comparison_form(report),
    )


def _argument_form(argument: council_report.Argument) -> ArgumentForm:
    return fields.fill(ArgumentForm, argument, evidence=argument.evidence or None)


def _comparison_form(report: council_report.CouncilReport | None) -> ComparisonForm | None:
    if report is None or report.comparison is None:
        return None
    compared = report.comparison
    pairs = tuple(
        fields.fill(
            PairForm,
            pair,
            score=None if pair.score is None else pair.score / 1000,
            rule=pair.rule or None,
        )
        for pair in compared.pairs
    )
    return fields.fill(ComparisonForm, compared, encoder=compared.encoder or None, pairs=pairs)


def _round_forms(facts: Iterable[Facts]) -> tuple[RoundForm, ...]:
    sealed: Counter[int] = Counter()
    revealed = set()
    for fact in facts:
        if isinstance(fact, council_kinds.BallotFacts):
            sealed[fact.round] += 1
        elif isinstance(fact, council_kinds.RevealFacts | council_kinds.RevealV2Facts):
            revealed.add(fact.round)
    return tuple(RoundForm(number, sealed[number], number in revealed) for number in sorted(sealed))


def _baseline_form(report: council_report.CouncilReport) -> BaselineForm:
    base = report.baseline
    spent = fields.spent_form(base.spent.usd, base.spent.tokens)
    return fields.fill(BaselineForm, base, agreement=base.agreement / 1000, spent=spent)


def _seat_form(sat: council_report.SeatReport) -> SeatForm:
    votes = tuple(fields.fill(VoteForm, vote) for vote in sat.votes)
    return fields.fill(SeatForm, sat, votes=votes)


def _minority_form(minority: council_report.MinorityPosition) -> MinorityForm:
    best = minority.argument
    return MinorityForm(
        answer=minority.answer,
        seats=minority.seats,
        weight=minority.weight,
        argument=best.claim if best else None,
        evidence=best.evidence or None if best else None,
        support=best.support if best else 0,
        attacks=best.attacks if best else (),
    )


def _absent_forms(view: RunView, seats: Iterable[int]) -> tuple[AbsentForm, ...]:
    turns = {seat: view.state.task(TURN_PREFIX + TurnId(0, seat).turn) for seat in seats}
    return tuple(AbsentForm(seat, explain_task_state(view, turn)) for seat, turn in turns.items())
