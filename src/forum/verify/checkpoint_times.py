"""Cosignature times of checkpoints, and the time bounds that they imply for entries.

The times come from the clocks of witnesses, and a clock may be wrong for a while.  Only times that
agree with the order of the log are used, so that one wrong clock does not cause findings against
entries.
"""

from bisect import bisect_right
from itertools import accumulate

from forum.ledger.entry import MAX_CLOCK_SKEW_US
from forum.tlog import select_consistent_times

MAX_TIME_US = 2**53 - 1 - MAX_CLOCK_SKEW_US
"""The latest time that an entry can have (2**53 - 1), less the tolerance."""


class CheckpointTimes:
    """The cosignature times of checkpoints, in microseconds, keyed by tree size."""

    def __init__(self, now: int = MAX_TIME_US) -> None:
        self._now = now
        """The upper bound for the times of entries and cosignatures."""
        self._given: dict[int, int] = {}
        self._sizes: list[int] = []
        self._kept: list[int] = []
        self._floors, self._ceilings = [0], [now]

    def add(self, size: int, time: int) -> None:
        """Add the cosignature time of a tree of this size; 0 means unknown.

        Of several times for one size, the earliest counts.
        """
        if time:
            self._given[size] = min(time, self._given.get(size, time))

    def drop_inconsistent(self) -> None:
        """Select the times that are consistent with each other; call this after all were added."""
        self._sizes = sorted(self._given)
        # A time in the future only shows that the clock of the witness is wrong; ignore it.
        times = [self._given[size] for size in self._sizes]
        possible = [time if time <= self._now + MAX_CLOCK_SKEW_US else 0 for time in times]
        self._kept = select_consistent_times(possible)
        self._floors = list(accumulate(self._kept, max, initial=0))
        behind = (time or self._now for time in reversed(self._kept))
        self._ceilings = list(accumulate(behind, min, initial=self._now))[::-1]

    def time_of(self, size: int) -> int:
        """Return the selected cosignature time of a tree of this size, or 0 if there is none."""
        place = bisect_right(self._sizes, size) - 1
        exact = place >= 0 and self._sizes[place] == size
        return self._kept[place] if exact else 0

    @property
    def last(self) -> int:
        """The latest selected time, or 0."""
        return max(self._kept, default=0)

    def bounds(self, index: int) -> tuple[int, int]:
        """Return the times after which and before which the entry at an index was indexed."""
        place = bisect_right(self._sizes, index)
        return self._floors[place], self._ceilings[place]

    def time_before(self, index: int) -> int:
        """Return the latest selected time of a tree without the entry at an index, or 0."""
        return self._floors[bisect_right(self._sizes, index)]

    def time_with(self, index: int) -> int:
        """Return the earliest selected time of a tree with the entry at an index, or 0."""
        return next(filter(None, self._kept[bisect_right(self._sizes, index) :]), 0)

    def notices(self) -> tuple[str, ...]:
        """Return a notice about ignored times that are off by more than the tolerance."""
        wrong = [
            size
            for place, size in enumerate(self._sizes)
            if not self._kept[place] and self._is_far_off(place)
        ]
        if not wrong:
            return ()
        sizes = ", ".join(map(str, wrong[:5])) + (", ..." if len(wrong) > 5 else "")
        notice = (
            f"the times of {len(wrong)} checkpoints (of size {sizes}) contradict the others and "
            "were not used: the clock of a witness was wrong"
        )
        return (notice,)

    def _is_far_off(self, place: int) -> bool:
        time, size = self._given[self._sizes[place]], self._sizes[place]
        before, behind = self.bounds(size - 1)[0], self.bounds(size)[1]
        return not before - MAX_CLOCK_SKEW_US <= time <= behind + MAX_CLOCK_SKEW_US
