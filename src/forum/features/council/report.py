"""The report of a council: the answer, the minority, changes of answer, and decisive evidence."""

import msgspec

from forum.features.council import answer_groups
from forum.features.council import kinds as council_kinds
from forum.features.council.ballots import Ballot
from forum.features.council.claims import ClaimRegister, ClaimStatus, CouncilClaim
from forum.features.council.tally import CastBallot, Tally
from forum.runs.answer_similarity import EquivalenceStep
from forum.runs.panel import Council, normalize_answer

MAX_REPORTED_PAIRS = 40
"""How many pairs of compared answers a report lists; all are in the entries of the comparison."""
NO_CHECKED_ANSWER_WARNING = "The tool that checks answers has found none of them to hold."
SINGLE_AGENT_WARNING = (
    "All seats are the same agent: it agrees with itself, and an exchange rarely helps it."
)


class _ReportPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base of the parts of a report."""


class Vote(_ReportPart, frozen=True):
    """The ballot of a seat in one round."""

    round: int
    answer: str
    confidence: int


class SeatReport(_ReportPart, frozen=True):
    """A seat, and its way through the session."""

    seat: int
    agent: str
    model: str
    votes: tuple[Vote, ...]
    weighed: str
    """The answer that was counted for the seat."""


class ReportedChange(_ReportPart, frozen=True):
    """A change of answer, and its reason."""

    seat: int
    round: int
    before: str
    after: str
    conformity: bool
    """Whether no reason was given; such a change does not count."""
    because: tuple[str, ...] = ()
    """The other seats' claims given as the reason."""
    evidence: str = ""


class Blocker(_ReportPart, frozen=True):
    """An objection that must be answered first."""

    seat: int
    text: str


class CouncilRecord(msgspec.Struct):
    """What has happened in a council so far: the data that its report is built from."""

    casts: list[CastBallot] = []
    changes: list[ReportedChange] = []
    claims: ClaimRegister = msgspec.field(default_factory=ClaimRegister)
    weighed: dict[int, Ballot] = {}
    """The counted ballot of each seat."""
    stated: dict[int, Ballot] = {}
    """The last ballot of each seat, whether it counts or not."""
    baseline: council_kinds.BaselineFacts | None = None
    baseline_answer: str = ""
    groups: answer_groups.AnswerGroups = msgspec.field(default_factory=answer_groups.AnswerGroups)

    def position(self, answer: str) -> str:
        """Return the position of an answer: equal for answers that count as the same."""
        return self.groups.position(answer)

    def blockers(self) -> list[Blocker]:
        """Return the objections that must be answered first, by seat."""
        stated = self.stated or self.weighed
        return [Blocker(seat, b.blocker) for seat, b in sorted(stated.items()) if b.blocker]


class Argument(_ReportPart, frozen=True):
    """A claim with its support and the attacks on it."""

    claim: str
    status: ClaimStatus
    support: int
    evidence: str = ""
    attacks: tuple[str, ...] = ()


class MinorityPosition(_ReportPart, frozen=True):
    """A position that did not become the answer."""

    answer: str
    seats: tuple[int, ...]
    weight: int
    argument: Argument | None = None
    """The strongest claim for it."""


class ReportedCost(_ReportPart, frozen=True):
    """A cost."""

    usd: int
    """In nano-dollars."""
    tokens: int


class BaselineReport(_ReportPart, frozen=True):
    """The result of the first answers alone, for comparison."""

    answer: str
    answers: int
    agreement: int
    """In thousandths."""
    changed: bool
    """Whether deliberation led to another answer."""
    spent: ReportedCost


class ReportedPair(_ReportPart, frozen=True):
    """Two free-text answers, whether they count as the same, and the step that decided it."""

    first: str
    second: str
    same: bool
    step: EquivalenceStep
    score: int | None = None
    """The similarity by the encoder, in thousandths."""
    rule: str = ""
    """The rule on words by which they are different."""


class ComparisonReport(_ReportPart, frozen=True):
    """How free-text answers were compared."""

    encoder: str
    """The sentence model; empty if there was none, so that only texts and the judge decided."""
    answers: int
    """Number of answers with different normalized texts."""
    positions: int
    """Number of answers that remain once those that mean the same are one."""
    pairs: tuple[ReportedPair, ...] = ()


class CouncilReport(_ReportPart, frozen=True):
    """All that a reader should know of a council."""

    answer: str
    end: council_kinds.End
    ground: council_kinds.Ground
    accord: council_kinds.Accord
    rounds: int
    spent: ReportedCost
    baseline: BaselineReport
    seats: tuple[SeatReport, ...]
    changes: tuple[ReportedChange, ...] = ()
    conformity: int = 0
    """Changes without a reason, in thousandths of all changes."""
    minority: tuple[MinorityPosition, ...] = ()
    decisive: tuple[str, ...] = ()
    """Evidence that would decide, according to the seats; then claims that stay contested."""
    blockers: tuple[Blocker, ...] = ()
    absent: tuple[int, ...] = ()
    """Seats that were asked and cast no ballot."""
    warnings: tuple[str, ...] = ()
    claims: tuple[Argument, ...] = ()
    """The claims for the answer, the best supported first."""
    holders: tuple[int, ...] = ()
    """The seats that were counted for the answer."""
    comparison: ComparisonReport | None = None


def encode_report(
    record: CouncilRecord, facts: council_kinds.CouncilCloseFacts, answer: str, council: Council
) -> bytes:
    """Return the recorded form of the report."""
    return msgspec.json.encode(_build_report(record, facts, answer, council))


def read_report(data: bytes) -> CouncilReport:
    """Decode a recorded report."""
    return _reports.decode(data)


def _build_report(
    record: CouncilRecord, facts: council_kinds.CouncilCloseFacts, answer: str, council: Council
) -> CouncilReport:
    reasoned = council.version > 1 and bool(answer)
    numbers = range(1, len(council.seats) + 1)
    present = {cast.seat for cast in record.casts}
    expected = numbers if facts.end is not council_kinds.End.GATE else numbers[: council.baseline]
    return CouncilReport(
        answer=answer,
        end=facts.end,
        ground=facts.ground,
        accord=facts.accord,
        rounds=facts.rounds,
        spent=ReportedCost(facts.usd, facts.tokens),
        baseline=_base(record, answer),
        seats=tuple(_build_seat(seat, record, council) for seat in numbers if seat in present),
        changes=tuple(record.changes),
        conformity=1000 * facts.conformed // max(1, facts.changed),
        minority=_minority(record, answer),
        decisive=_decisive(record),
        blockers=tuple(record.blockers()),
        absent=tuple(seat for seat in expected if seat not in present),
        warnings=_warnings(facts, council),
        claims=tuple(_rank_claims(record.position(answer), record)) if reasoned else (),
        holders=_holders(record, answer) if reasoned else (),
        comparison=_comparison(record, council),
    )


def _holders(record: CouncilRecord, answer: str) -> tuple[int, ...]:
    position = record.position(answer)
    return tuple(
        seat
        for seat, ballot in sorted(record.weighed.items())
        if record.position(ballot.answer) == position
    )


def _warnings(facts: council_kinds.CouncilCloseFacts, council: Council) -> tuple[str, ...]:
    alone = len({seat.agent for seat in council.seats}) == 1 and len(council.seats) > 1
    over = facts.end is not council_kinds.End.STOPPED
    unchecked = (
        council.check
        and over
        and facts.ground in (council_kinds.Ground.VOTE, council_kinds.Ground.JUDGE)
    )
    warnings = ((SINGLE_AGENT_WARNING, alone), (NO_CHECKED_ANSWER_WARNING, unchecked))
    return tuple(words for words, holds in warnings if holds)


def _base(record: CouncilRecord, answer: str) -> BaselineReport:
    base = record.baseline
    if base is None:
        return BaselineReport("", 0, 0, changed=False, spent=ReportedCost(0, 0))
    changed = record.position(record.baseline_answer) != record.position(answer)
    spent = ReportedCost(base.usd, base.tokens)
    return BaselineReport(
        answer=record.baseline_answer,
        answers=base.answers,
        agreement=base.agreement,
        changed=changed,
        spent=spent,
    )


def _build_seat(seat: int, record: CouncilRecord, council: Council) -> SeatReport:
    casts = [cast for cast in record.casts if cast.seat == seat]
    votes = tuple(Vote(c.round, c.ballot.answer, int(c.ballot.confidence)) for c in casts)
    weighed = record.weighed.get(seat)
    agent, model = council.seats[seat - 1].agent, casts[-1].said.model
    return SeatReport(
        seat=seat, agent=agent, model=model, votes=votes, weighed=weighed.answer if weighed else ""
    )


def _minority(record: CouncilRecord, answer: str) -> tuple[MinorityPosition, ...]:
    """Return the positions that lost, heaviest first."""
    held: dict[str, list[int]] = {}
    for seat, ballot in sorted(record.weighed.items()):
        if record.position(ballot.answer) != record.position(answer):
            held.setdefault(record.position(ballot.answer), []).append(seat)
    positions = []
    for stand, seats in held.items():
        ballots = [record.weighed[seat] for seat in seats]
        weight = Tally(ballots, record.position).weights[stand]
        surest = max(ballots, key=lambda ballot: ballot.confidence)
        positions.append(
            MinorityPosition(surest.answer, tuple(seats), weight, _best_claim(stand, record))
        )
    return tuple(sorted(positions, key=lambda position: (-position.weight, position.seats)))


def _best_claim(stand: str, record: CouncilRecord) -> Argument | None:
    """Return the claim for a position with the most support minus attacks."""
    return next(iter(_rank_claims(stand, record)), None)


def _rank_claims(stand: str, record: CouncilRecord) -> list[Argument]:
    """Return the claims for a position, those with the most support minus attacks first."""
    claims = [claim for claim in record.claims.claims.values() if claim.answer == stand]

    def rank(claim: CouncilClaim) -> tuple[int, bool]:
        return len(claim.attacks) - len(claim.support), not claim.evidence

    return [
        Argument(
            claim=claim.text,
            status=claim.status,
            support=len(claim.support),
            evidence=claim.evidence,
            attacks=tuple(why for _, why in claim.attacks),
        )
        for claim in sorted(claims, key=rank)
    ]


def _comparison(record: CouncilRecord, council: Council) -> ComparisonReport | None:
    """Return how free-text answers were compared; None if they were not."""
    if council.version == 1 or council.options:
        return None
    groups = record.groups
    # The pairs that were joined come first, then the most similar ones that were not.
    ranked = sorted(groups.compared, key=lambda c: (not c.pair.same, -(c.pair.score or 0)))
    pairs = [
        ReportedPair(
            first=compared.first,
            second=compared.second,
            same=compared.pair.same,
            step=compared.pair.step,
            score=compared.pair.score,
            rule=compared.pair.rule,
        )
        for compared in [*_reworded(record), *ranked][:MAX_REPORTED_PAIRS]
    ]
    return ComparisonReport(
        encoder=groups.model,
        answers=len(groups.first_of),
        positions=len(groups.wordings),
        pairs=tuple(pairs),
    )


def _reworded(record: CouncilRecord) -> list[answer_groups.ComparedAnswers]:
    """Return answers that differ only in what normalizing takes away: the text decided."""
    first: dict[str, str] = {}
    pairs: dict[tuple[str, str], None] = {}
    for cast in record.casts:
        text = cast.ballot.answer
        wording = first.setdefault(normalize_answer(text), text)
        if wording != text:
            pairs[wording, text] = None
    decided = answer_groups.DecidedPair(first=0, second=0, same=True, step=EquivalenceStep.TEXT)
    return [answer_groups.ComparedAnswers(*pair, decided) for pair in pairs]


def _decisive(record: CouncilRecord) -> tuple[str, ...]:
    latest = {cast.seat: cast.ballot for cast in record.casts}
    wanted = [ballot.decides for _, ballot in sorted(latest.items()) if ballot.decides]
    contested = [
        claim.text
        for claim in record.claims.claims.values()
        if claim.status is ClaimStatus.CONTESTED
    ]
    return tuple(dict.fromkeys([*wanted, *contested]))


_reports = msgspec.json.Decoder(CouncilReport)
