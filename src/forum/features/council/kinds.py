"""Entry kinds of a council, with their facts.

Contents of the vote are in bodies, which can be erased; its counts and outcome are in facts.
"""

from enum import StrEnum

from forum.ledger.entry import Count, Facts
from forum.ledger.kinds import Kind, Kinds
from forum.runs.answer_similarity import SimilarityFacts
from forum.runs.council_end import Accord, CouncilCloseFacts, End, Ground

__all__ = [
    "COMMITTED_SEED_VERSION",
    "COUNCIL_KINDS",
    "Accord",
    "BallotFacts",
    "BaselineDecision",
    "BaselineFacts",
    "CouncilCloseFacts",
    "CouncilFacts",
    "End",
    "EquivalenceFacts",
    "Ground",
    "RevealFacts",
    "RevealV2Facts",
    "SimilarityFacts",
]


COMMITTED_SEED_VERSION = 3
"""The version of the rules since which seeds are computed from commitments."""


class CouncilFacts(Facts, frozen=True):
    """A council sits."""

    seats: Count
    models: Count
    """Number of different agents; a single agent in all seats only agrees with itself."""
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
    """They agree, so no further seat is asked."""
    DELIBERATE = "deliberate"
    OPEN = "open"
    """The council has no gate."""


class BaselineFacts(Facts, frozen=True):
    """The answers that the first seats gave independently.  Body: the most frequent one."""

    answers: Count
    agreement: Count
    """Share of the most frequent answer, in thousandths."""
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
    """Determines the labels and the order of the other seats for each reader.

    It is computed from the ballots, so no seat can choose it.
    """


# Another kind, because the seed of `reveal/1` is a digest of the ballots themselves: with it, one
# that was erased could be guessed.
class RevealV2Facts(Facts, frozen=True):
    """All ballots of a round are in, and may be shown.  Parents as in `reveal/1`."""

    round: Count
    ballots: Count
    seed: str
    """Determines the labels and the order of the other seats for each reader.

    It is computed from the commitments to the replies that the ballots were read from.
    """


class EquivalenceFacts(Facts, frozen=True):
    """Which free-text answers count as the same.  Body: each pair, and the step that decided it."""

    answers: Count
    """Number of answers with different normalized texts so far."""
    positions: Count
    """Number of groups that they fall into."""
    text: Count
    """Number of pairs decided by their normalized text alone."""
    encoder: Count
    judge: Count


COUNCIL_KINDS = Kinds(
    [
        Kind("council/1", CouncilFacts),
        Kind("ballot/1", BallotFacts, frozenset({"ballot"})),
        Kind("baseline/1", BaselineFacts, frozenset({"answer"})),
        Kind("reveal/1", RevealFacts),
        Kind("reveal/2", RevealV2Facts),
        Kind("council.close/1", CouncilCloseFacts, frozenset({"report"})),
        Kind("council.similarity/1", SimilarityFacts, frozenset({"scores"})),
        Kind("council.equivalence/1", EquivalenceFacts, frozenset({"pairs"})),
    ]
)
