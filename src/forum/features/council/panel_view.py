"""What the views of runs show of a council: ballots, changes and dissent."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from forum.app import RunView
from forum.app.formatting import explain_task_state, note_body, undecided_headline
from forum.features.council import report as council_report
from forum.features.council.ballots import Ballot
from forum.features.council.kinds import (
    BallotFacts,
    CouncilCloseFacts,
    CouncilFacts,
    RevealFacts,
    RevealV2Facts,
)
from forum.features.council.panel_outcome import find_close, read_view_report
from forum.ledger.entry import Facts
from forum.runs.kinds import TURN_PREFIX
from forum.runs.panel import TurnId
from forum.surfaces.schemas import fields
from forum.surfaces.schemas.panels import (
    AbsentForm,
    ArgumentForm,
    BaselineForm,
    BlockerForm,
    ChangeForm,
    ComparisonForm,
    CouncilForm,
    MinorityForm,
    PairForm,
    RoundForm,
    SeatForm,
    SpokenTurn,
    VoteForm,
)

_ballot = msgspec.json.Decoder(Ballot)


class CouncilView:
    """Reads councils from the views of their runs."""

    def read_form(self, view: RunView) -> CouncilForm | None:
        """Return the result of a council; None if the run is none."""
        return council_form(view) if _is_council(view) else None

    def read_words(self, view: RunView) -> list[SpokenTurn]:
        """Return the ballots that may be read: sealed ones not before their round is revealed."""
        return _revealed_ballots(view) if _is_council(view) else []


VIEW = CouncilView()


def _is_council(view: RunView) -> bool:
    return any(isinstance(note.facts, CouncilFacts) for note in view.notes)


def council_form(view: RunView) -> CouncilForm:
    """Return what is told of a council, in its form."""
    facts = [note.facts for note in view.notes]
    opened = next(fact for fact in facts if isinstance(fact, CouncilFacts))
    concluded, report = find_close(view), read_view_report(view)
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
        if isinstance(fact, BallotFacts):
            sealed[fact.round] += 1
        elif isinstance(fact, RevealFacts | RevealV2Facts):
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


def _revealed_ballots(view: RunView) -> list[SpokenTurn]:
    facts = [note.facts for note in view.notes]
    is_over = any(isinstance(fact, CouncilCloseFacts) for fact in facts)
    revealed = {fact.round for fact in facts if isinstance(fact, RevealFacts | RevealV2Facts)}
    cast = [
        (note.facts.round, note.facts.seat, _ballot.decode(body))
        for note in view.notes
        if isinstance(note.facts, BallotFacts) and (body := note_body(note, "ballot"))
    ]
    return [
        SpokenTurn(f"seat {seat}, round {number}", _ballot_text(ballot))
        for number, seat, ballot in sorted(cast, key=lambda item: item[:2])
        if is_over or number in revealed
    ]


def _ballot_text(ballot: Ballot) -> str:
    claims = "".join(f"; {claim.text}" for claim in ballot.claims)
    blocker = f"; blocks: {ballot.blocker}" if ballot.blocker else ""
    return f"{ballot.answer} ({ballot.confidence} %){claims}{blocker}"
