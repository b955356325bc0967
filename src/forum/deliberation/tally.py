"""Counting: what the ballots of a council come to, whoever has cast them and when."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from forum.deliberation.ballots import Ballot
from forum.deliberation.steps import TurnResult
from forum.work import normalize_answer


class CastBallot(msgspec.Struct, frozen=True):
    """A ballot that was cast."""

    seat: int
    round: int
    ballot: Ballot
    said: TurnResult

    @property
    def position(self) -> str:
        """Its position."""
        return normalize_answer(self.ballot.answer)

    @property
    def order(self) -> tuple[int, int]:
        """By which of two casts that are alike in all else the earlier one is taken."""
        return self.round, self.seat


class Tally:
    """The weight of each position, and how many seats hold it."""

    def __init__(self, ballots: Iterable[Ballot]) -> None:
        self.weights: Counter[str] = Counter()
        self.seats: Counter[str] = Counter()
        for ballot in ballots:
            stand = normalize_answer(ballot.answer)
            # Whoever is not sure at all has a vote all the same.
            self.weights[stand] += max(1, int(ballot.confidence))
            self.seats[stand] += 1

    def rank_positions(self, baseline: str) -> list[str]:
        """Return the positions, the heaviest first; of two alike, that of the baseline."""

        def rank(stand: str) -> tuple[int, int, bool, str]:
            return -self.weights[stand], -self.seats[stand], stand != baseline, stand

        return sorted(self.weights, key=rank)

    def has_majority(self, stand: str) -> bool:
        """Tell whether a position weighs more than all others together."""
        return 2 * self.weights[stand] > self.weights.total()


def most_frequent_answer(casts: Sequence[CastBallot]) -> tuple[str, int]:
    """Return the answer that most have given, as it was given first, and how many they are."""
    if not casts:
        return "", 0
    votes = Counter(cast.position for cast in casts)
    first = min(casts, key=lambda cast: (-votes[cast.position], cast.order))
    return first.ballot.answer, votes[first.position]


def best_wording(casts: Iterable[CastBallot], stand: str) -> str:
    """Return a position in the words of whoever is surest of it."""
    holders = [cast for cast in casts if cast.position == stand]
    return min(holders, key=lambda cast: (-cast.ballot.confidence, cast.order)).ballot.answer
