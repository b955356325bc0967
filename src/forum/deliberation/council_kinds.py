"""The kinds of entries that a council leaves behind, each with its facts.

What was voted stands in bodies, which can be erased; how it was voted stands in facts.
"""

from enum import StrEnum

from forum.ledger import Count, Facts, Kind, Kinds


class CouncilFacts(Facts, frozen=True):
    """A council sits."""

    seats: Count
    models: Count
    """How many different agents sit on it: one alone agrees with itself."""
    baseline: Count
    rounds: Count


class BallotFacts(Facts, frozen=True):
    """A seat has sealed its ballot: nobody else has seen it.  Body: the ballot.

    The digest of the body commits the seat to it before any ballot is shown to anybody.
    """

    seat: Count
    round: Count


class BaselineDecision(StrEnum):
    """What follows from the first answers."""

    AGREED = "agreed"
    """They agree: nobody else is asked."""
    DELIBERATE = "deliberate"
    OPEN = "open"
    """There is no gate."""


class BaselineFacts(Facts, frozen=True):
    """What the first seats answered, independently of each other.  Body: their answer."""

    answers: Count
    agreement: Count
    """The share of the most frequent answer, in thousandths."""
    passage: BaselineDecision
    usd: Count
    tokens: Count


class RevealFacts(Facts, frozen=True):
    """All ballots of a round are in, and may be shown.

    Its parents are the verdicts that stand behind the ballots: they end the turns.
    """

    round: Count
    ballots: Count
    seed: str
    """By which the others are named and put in order for each reader; it follows from the
    ballots, so nobody could choose it."""


class End(StrEnum):
    """Why nobody was asked again."""

    GATE = "gate"
    """The first answers agreed."""
    UNANIMOUS = "unanimous"
    STABLE = "stable"
    """Nobody has changed his answer."""
    EXHAUSTED = "exhausted"
    """Nobody had a new claim."""
    ROUNDS = "rounds"
    STOPPED = "stopped"
    """By a limit, or by somebody."""
    SILENT = "silent"
    """Nobody has cast a ballot."""


class Ground(StrEnum):
    """By what the answer was chosen."""

    GATE = "gate"
    VOTE = "vote"
    CHECK = "check"
    """A tool has found it to hold."""
    JUDGE = "judge"
    """A model has preferred it, whichever it was shown first."""
    NONE = "none"


class Accord(StrEnum):
    """How far the seats agree in the end."""

    AGREED = "agreed"
    MAJORITY = "majority"
    SPLIT = "split"
    BLOCKED = "blocked"
    """Somebody has an objection that must be answered first."""


class CouncilCloseFacts(Facts, frozen=True):
    """How a council ended.  Body: the report, with what the minority said."""

    end: End
    ground: Ground
    accord: Accord
    rounds: Count
    ballots: Count
    changed: Count
    """How often a seat has changed its answer."""
    conformed: Count
    """How often without a reason: such a change is not weighed."""
    blockers: Count
    usd: Count
    tokens: Count


COUNCIL_KINDS = Kinds(
    [
        Kind("council/1", CouncilFacts),
        Kind("ballot/1", BallotFacts, frozenset({"ballot"})),
        Kind("baseline/1", BaselineFacts, frozenset({"answer"})),
        Kind("reveal/1", RevealFacts),
        Kind("council.close/1", CouncilCloseFacts, frozenset({"report"})),
    ]
)
