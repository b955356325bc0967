"""Counting the ballots of a council. Results do not depend on the order in which they were cast."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from forum.features.council.ballots import Ballot
from forum.runs.panel import normalize_answer
from forum.runs.session_steps import TurnResult

ReadPosition = Callable[[str], str]
"""Returns the position of an answer, which is equal for answers that count as the same."""


class CastBallot(msgspec.Struct, frozen=True):
    """A ballot with its seat, its round and the result of its turn."""

    seat: int
    round: int
    ballot: Ballot
    said: TurnResult

    @property
    def order(self) -> tuple[int, int]:
        """Sort key that prefers the earlier ballot when all else is equal."""
        return self.round, self.seat


class Tally:
    """The weight of each position and the number of seats that hold it."""

    def __init__(
        self, ballots: Iterable[Ballot], position: ReadPosition = normalize_answer
    ) -> None:
        self.weights: Counter[str] = Counter()
        self.seats: Counter[str] = Counter()
        for ballot in ballots:
            stand = position(ballot.answer)
            # With a weight of zero, a seat that states no confidence would lose its vote.
            self.weights[stand] += max(1, int(ballot.confidence))
            self.seats[stand] += 1

    def rank_positions(self, baseline: str) -> list[str]:
        """Return the positions, heaviest first; the baseline's position wins a tie.

        Remaining ties are broken by the text of the position, so the ranking is deterministic.
        """

        def rank(stand: str) -> tuple[int, int, bool, str]:
            return -self.weights[stand], -self.seats[stand], stand != baseline, stand

        return sorted(self.weights, key=rank)

    def has_majority(self, stand: str) -> bool:
        """Return whether a position outweighs all others together."""
        return 2 * self.weights[stand] > self.weights.total()


def most_frequent_answer(
    casts: Sequence[CastBallot], position: ReadPosition = normalize_answer
) -> tuple[str, int]:
    """Return the most frequent answer, in its first wording, and its number of votes."""
    if not casts:
        return "", 0
    votes = Counter(position(cast.ballot.answer) for cast in casts)
    first = min(casts, key=lambda cast: (-votes[position(cast.ballot.answer)], cast.order))
    return first.ballot.answer, votes[position(first.ballot.answer)]


def best_wording(
    casts: Iterable[CastBallot], stand: str, position: ReadPosition = normalize_answer
) -> str:
    """Return a position in the wording of the seat with the highest confidence in it."""
    holders = [cast for cast in casts if position(cast.ballot.answer) == stand]
    return min(holders, key=lambda cast: (-cast.ballot.confidence, cast.order)).ballot.answer
