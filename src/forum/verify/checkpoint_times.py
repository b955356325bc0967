"""When checkpoints were cosigned, and between which of them an entry can have been written.

Times come from the clocks of witnesses, and a clock may be wrong for a while.  What is kept of them
never contradicts the order of the log, so that one wrong clock is no finding against the entries
that were written before or after it was wrong.
"""

from bisect import bisect_right
from itertools import accumulate

from forum.tlog import select_consistent_times

MAX_CLOCK_SKEW_US = 300 * 1_000_000
"""How far, in microseconds, a writer's clock may be off before its times are called impossible."""

MAX_TIME_US = 2**53 - 1 - MAX_CLOCK_SKEW_US
"""As late as an entry can be, but for the tolerance."""


class CheckpointTimes:
    """The times of witnessed checkpoints, in microseconds, by the sizes of their trees."""

    def __init__(self, now: int = MAX_TIME_US) -> None:
        self._now = now
        """No entry can have been written, and no checkpoint cosigned, after this."""
        self._given: dict[int, int] = {}
        self._sizes: list[int] = []
        self._kept: list[int] = []
        self._floors, self._ceilings = [0], [now]

    def add(self, size: int, time: int) -> None:
        """Take in when a tree of this size was cosigned; 0 says that nobody tells."""
        if time:
            self._given[size] = min(time, self._given.get(size, time))

    def drop_inconsistent(self) -> None:
        """Decide which of the times can be believed together; call it when all are known."""
        self._sizes = sorted(self._given)
        # A time that has not come yet refutes nothing but the clock that it comes from.
        times = [self._given[size] for size in self._sizes]
        possible = [time if time <= self._now + MAX_CLOCK_SKEW_US else 0 for time in times]
        self._kept = select_consistent_times(possible)
        self._floors = list(accumulate(self._kept, max, initial=0))
        behind = (time or self._now for time in reversed(self._kept))
        self._ceilings = list(accumulate(behind, min, initial=self._now))[::-1]

    def time_of(self, size: int) -> int:
        """Return when a tree of this size was cosigned, or 0 if that is not known."""
        place = bisect_right(self._sizes, size) - 1
        known = place >= 0 and self._sizes[place] == size
        return self._kept[place] if known else 0

    @property
    def last(self) -> int:
        """The latest time that is believed, or 0."""
        return max(self._kept, default=0)

    def bounds(self, index: int) -> tuple[int, int]:
        """Return after and before which times an entry got its index."""
        place = bisect_right(self._sizes, index)
        return self._floors[place], self._ceilings[place]

    def notices(self) -> tuple[str, ...]:
        """Name the checkpoints whose times were not believed, unless they are off by little."""
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
