"""The part of a store that holds timers: when to look at a strand again."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Timer(NamedTuple):
    """A wake-up time of a strand (microseconds since 1970); as an effect, None clears the timer."""

    run: str
    strand: str
    at: int | None


def due_now(run: str, strand: str, now: int) -> Timer:
    """Return a timer that any worker may claim immediately.

    Its time is decades in the past, so it is due by every clock despite clock skew.  It still grows
    with `now`, so that `reschedule` can tell whether the timer was set again since it was read.
    """
    # A sixteenth of the current time is in the 1970s.
    return Timer(run, strand, now >> 4)


def due_now_limit(now: int) -> int:
    """Return a time after every `due_now` time, and before every time of a rescheduled timer."""
    return now >> 3


def decode_due_time(at: int, now: int) -> int:
    """Return the time at which a timer became due, undoing the encoding of `due_now`."""
    return at << 4 if at < due_now_limit(now) else at


class TimerClaim(NamedTuple):
    """Parameters of `Store.claim_due_timers`: batch size, and the delay until the next claim."""

    worker: str
    """The claiming worker.  Timers of runs that another live worker has are not claimed."""
    limit: int
    anew: int
    """A timer below this time comes from `due_now`: it was set since it was last claimed."""
    own: Sequence[str]
    """The runs that this worker drives; their timers are rescheduled by `longest`."""
    shortest: float
    """Seconds until the next claim of a timer claimed for the first time or set by `due_now`."""
    longest: float
    """Upper bound, in seconds, of the delay, which doubles with each claim."""


class TimerReader(Protocol):
    """Reads timers page by page."""

    def timers(self, after: Timer | None, limit: int, *, due: bool) -> list[Timer]:
        """Return timers ordered by run and strand, starting after one of them.

        With `due`, return only timers that are due by the store's clock, longest overdue first.
        """


class StoreClock(Protocol):
    """Tells the time of the database, by which timers and leases are due."""

    def now(self) -> int:
        """Return the time by the store's own clock, in microseconds since 1970."""


class TimerStore(TimerReader, StoreClock, Protocol):
    """Sets, claims and reschedules timers."""

    def timer(self, run: str, strand: str) -> Timer | None:
        """Return the timer of a strand, or None if none is set."""

    def set_timers(self, timers: Sequence[Timer]) -> None:
        """Set or clear timers without an entry, and tell the workers that wait."""

    def add_timers(self, timers: Sequence[Timer]) -> None:
        """Set those of these timers that are not set, and tell the workers that wait."""

    def reschedule(self, alarms: Sequence[Timer], seconds: float | None) -> None:
        """Set these timers to some seconds from now, or clear them, unless they changed meanwhile.

        No state is lost: the entries are the record, and a timer only says when to read them.
        """

    def claim_due_timers(self, claim: "TimerClaim") -> list[Timer]:
        """Claim timers that are due by the store's own clock; return them, longest overdue first.

        Each timer is rescheduled in the same transaction, so that no other worker claims it
        meanwhile.  A worker that dies with a claim only delays the run until the timer is due
        again, because a timer stays until the driver of its run clears it.
        """
