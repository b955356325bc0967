"""A process whose clock is off writes nothing, and says by how much it is off."""

import pytest

from forum.app.checked_clock import CheckedClock
from forum.errors import ClockOff, StoreFailed
from forum.ledger.conditions import MAX_CLOCK_SKEW_US

SECOND = 1_000_000


class Clocks:
    """The clock of a machine, its ticks, and the clock of a database, all in microseconds."""

    def __init__(self, ahead: int = 0, delay: int = 0) -> None:
        self.time, self.ticks = 10**15, 500 * SECOND
        self.ahead, self.delay = ahead, delay
        self.asked = 0

    def pass_time(self, micros: int) -> None:
        """Let time pass everywhere."""
        self.time += micros
        self.ticks += micros

    def ask(self) -> int:
        """Answer as the database: the query and the answer each take a while."""
        self.asked += 1
        self.pass_time(self.delay)
        answer = self.time
        self.pass_time(self.delay)
        return answer

    def make(self) -> CheckedClock:
        """Return the clock under test."""
        return CheckedClock(lambda: self.time + self.ahead, lambda: self.ticks, self.ask)


@pytest.mark.parametrize("ahead", [-MAX_CLOCK_SKEW_US, 0, MAX_CLOCK_SKEW_US])
def test_a_clock_within_the_bound_dates_entries(ahead: int) -> None:
    """The time is that of this machine, and the database is asked once in a while."""
    clocks = Clocks(ahead)
    clock = clocks.make()
    times = []
    for _ in range(100):
        times.append(clock() - clocks.time)
        clocks.pass_time(SECOND)

    assert set(times) == {ahead}
    assert clocks.asked == 4


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_clock_that_is_off_says_by_how_much(sign: int) -> None:
    """Half the time of the query is taken off, and a slow query accuses nobody."""
    clocks = Clocks(sign * 90 * SECOND, delay=SECOND // 10)
    with pytest.raises(ClockOff, match=r"90\.0 s (ahead of|behind) the database's") as off:
        clocks.make()()
    slow = Clocks(sign * 9 * SECOND, delay=5 * SECOND)

    assert "timedatectl set-ntp true" in str(off.value)
    # Whoever has recorded work to store tries again, as after any failure of the store.
    assert isinstance(off.value, StoreFailed)
    assert slow.make()() == slow.time + slow.ahead


def test_a_clock_that_is_set_while_a_process_runs_is_noticed_at_once() -> None:
    """Also one that is set right, and a machine that has slept is not accused."""
    clocks = Clocks()
    clock = clocks.make()
    clock()
    clocks.ahead = -20 * 60 * SECOND
    with pytest.raises(ClockOff, match=r"1200\.0 s behind"):
        clock()
    clocks.ahead = 0
    right = clock()
    clocks.time += 3600 * SECOND  # its ticks stand still
    slept = clock()

    assert [right, slept] == [clocks.time - 3600 * SECOND, clocks.time]
