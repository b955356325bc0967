"""Counting: what the ballots of a council come to, whoever has cast them and when."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from forum.deliberation.ballots import Ballot
from forum.deliberation.steps import Said
from forum.work import position


class Cast(msgspec.Struct, frozen=True):
    """A ballot that was cast."""

    seat: int
    round: int
    ballot: Ballot
    said: Said

    @property
    def stand(self) -> str:
        """Its position."""
        return position(self.ballot.answer)

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
            stand = position(ballot.answer)
            # Whoever is not sure at all has a vote all the same.
            self.weights[stand] += max(1, int(ballot.confidence))
            self.seats[stand] += 1

    def ranking(self, baseline: str) -> list[str]:
        """Return the positions, the heaviest first; of two alike, that of the baseline."""

        def rank(stand: str) -> tuple[int, int, bool, str]:
            return -self.weights[stand], -self.seats[stand], stand != baseline, stand

        return sorted(self.weights, key=rank)

    def outweighs(self, stand: str) -> bool:
        """Tell whether a position weighs more than all others together."""
        return 2 * self.weights[stand] > self.weights.total()


def most_frequent(casts: Sequence[Cast]) -> tuple[str, int]:
    """Return the answer that most have given, as it was given first, and how many they are."""
    if not casts:
        return "", 0
    votes = Counter(cast.stand for cast in casts)
    first = min(casts, key=lambda cast: (-votes[cast.stand], cast.order))
    return first.ballot.answer, votes[first.stand]


def words_for(casts: Iterable[Cast], stand: str) -> str:
    """Return a position in the words of whoever is surest of it."""
    holders = [cast for cast in casts if cast.stand == stand]
    return min(holders, key=lambda cast: (-cast.ballot.confidence, cast.order)).ballot.answer
