"""The clock that dates entries, compared with the clock of the database.

The time of an entry can never be corrected, and witnesses contradict a wrong one for ever.  So a
process whose clock is off writes nothing.  For a ledger in a file there is no other clock: its
newest entry may itself be dated by a clock that was wrong, so nothing is refused there.
"""

from collections.abc import Callable
from typing import NamedTuple

from forum.errors import ClockOff
from forum.ledger.conditions import MAX_CLOCK_SKEW_US

_CHECK_INTERVAL_US = 30_000_000
"""How often the database is asked; in between, the clock is compared with the ticks since then."""


class ClockSkew(NamedTuple):
    """How far this machine's clock is ahead of the database's, in microseconds."""

    ahead: int
    """Measured in the middle of the query; negative if it is behind."""
    doubt: int
    """Half the time of the query: how far the measurement may be wrong."""

    def __str__(self) -> str:
        return f"{abs(self.ahead) / 1e6:.1f} s {'ahead of' if self.ahead > 0 else 'behind'}"

    @property
    def is_excessive(self) -> bool:
        """Whether the difference is too large, however long the query took."""
        return abs(self.ahead) - self.doubt > MAX_CLOCK_SKEW_US


class _Measurement(NamedTuple):
    at: int
    """The ticks in the middle of the query."""
    time: int
    """The time of the database then."""
    doubt: int


class CheckedClock:
    """Returns the time, and raises `ClockOff` instead if the database's clock differs.

    All are functions that return microseconds: `read_time` the time of this machine, `read_ticks`
    a count that nobody sets, and `ask_database` the time of the database.
    """

    def __init__(
        self,
        read_time: Callable[[], int],
        read_ticks: Callable[[], int],
        ask_database: Callable[[], int],
    ) -> None:
        self._read_time, self._read_ticks = read_time, read_ticks
        self._ask_database = ask_database
        self._last: _Measurement | None = None

    def __call__(self) -> int:
        """Return the time in microseconds since 1970."""
        last = self._last
        if last is None or self._read_ticks() - last.at > _CHECK_INTERVAL_US:
            last = self._measure()
        if self._compare(last).is_excessive:
            # Ticks stand still while a machine sleeps, so the database is asked once more.
            skew = self._compare(self._measure())
            if skew.is_excessive:
                raise ClockOff(str(skew))
        return self._read_time()

    def measure(self) -> ClockSkew:
        """Ask the database, and return how far this machine's clock is ahead."""
        return self._compare(self._measure())

    def _measure(self) -> _Measurement:
        # Threads may measure at the same time; each result is as good as the other.
        begun = self._read_ticks()
        time = self._ask_database()
        doubt = (self._read_ticks() - begun) // 2
        self._last = _Measurement(begun + doubt, time, doubt)
        return self._last

    def _compare(self, last: _Measurement) -> ClockSkew:
        expected = last.time + self._read_ticks() - last.at
        return ClockSkew(self._read_time() - expected, last.doubt)
