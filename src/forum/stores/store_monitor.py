"""Monitors whether a process can read, write and sign its log; probes and metrics read the result.

One thread looks at the store.  It may block for as long as the database driver waits for its
server, so a second thread watches the time.  No caller ever waits for either of them.  Each
condition leaves one line in the log when it begins, and one when it is over.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from time import monotonic

from forum import errors, metrics
from forum.ledger.conditions import MAX_CLOCK_SKEW_US, Ability, StoreCondition, Trouble
from forum.ledger.ports import StoreProbe, StoreState

POLL_INTERVAL_S = 1.0
"""The interval between two looks at the store."""
_WATCH_INTERVAL_S = 0.25
WRITE_INTERVAL_S = 1.9
"""The interval between two probes of writing, each of which is flushed to the disk."""
READY_WITHIN_S = 0.6
"""The response time above which health probes report the store as unavailable."""
LOST_AFTER_S = 4.0
"""The response time above which the outage is logged; long enough for a busy machine."""
STALL_AFTER_S = 2.0
"""How long the oldest waiting entry may stay the same: a signer takes it within a second."""
_HOLD_S = 5.0
"""How long an error that a caller met counts, though the probe has met none."""

LOG = logging.getLogger("forum")

CAUSES: tuple[tuple[type[Exception], StoreCondition], ...] = (
    (errors.TooManyConnections, StoreCondition.TOO_MANY_CONNECTIONS),
    (errors.ServerReplaced, StoreCondition.OLD_PRIMARY),
    (errors.StoreConnectionLost, StoreCondition.DATABASE_AWAY),
    (errors.StoreFull, StoreCondition.DISK_FULL),
    (errors.StoreReadOnly, StoreCondition.READ_ONLY),
    (errors.StoreLocked, StoreCondition.LOCKED),
    (errors.StoreTimedOut, StoreCondition.COMMITS_HANG),
    (errors.TransactionPooler, StoreCondition.SHARED_POOLER),
    (errors.RollbackDetected, StoreCondition.ROLLED_BACK),
    (errors.CommitsLost, StoreCondition.ROLLED_BACK),
    (errors.LogEnded, StoreCondition.EPOCH_OVER),
    (errors.ClockOff, StoreCondition.CLOCK_OFF),
)
"""The condition that an error shows: the first whose class it is."""


def find_condition(error: Exception, other: StoreCondition) -> StoreCondition:
    """Return the condition that an error shows, or another one for an error without its own."""
    return next((condition for kind, condition in CAUSES if isinstance(error, kind)), other)


class StoreMonitor:
    """Looks at a store in the background and knows which conditions stop what."""

    def __init__(
        self,
        store: StoreProbe,
        clock: Callable[[], int] | None = None,
        signed_size: Callable[[], int] = lambda: 0,
    ) -> None:
        """Take the store, the clock of this machine, and the size that was signed here last."""
        self._store, self._clock = store, clock
        self._signed_size = signed_size
        self._lock, self._stop = Lock(), Event()
        self._probe_now = Event()
        self._reading_since: float | None = None
        """The start of a look at the store that has no response yet."""
        self._troubles: dict[StoreCondition, str] = {}
        """What was found by the last look."""
        self._held: dict[StoreCondition, tuple[str, float]] = {}
        """What callers have met, and until when that counts."""
        self._begun: dict[StoreCondition, float] = {}
        """Since when a condition is there that was logged."""
        self._hint = ""
        """A lost connection that was reported since the last look."""
        self._largest: int | None = None
        """The largest tree that was seen or signed here."""
        self._shrunk = ""
        """How the tree has shrunk.  It stays: that it grows again may be another history."""
        self._still: dict[str, tuple[int | None, float]] = {}
        """The oldest entry that waits and the signed tree, and since when they are the same."""
        self._tried_at, self._write_error = -WRITE_INTERVAL_S, None
        self._signer_error: Callable[[], Exception | None] = lambda: None
        self._interval_s = POLL_INTERVAL_S

    _write_error: errors.ForumError | None

    @property
    def is_available(self) -> bool:
        """Whether the store responded lately; does not query it."""
        return self.find_trouble(Ability.READ) is None

    @property
    def troubles(self) -> list[Trouble]:
        """The conditions that are there now, in the order of their definition."""
        with self._lock:
            conditions, since = self._join_held(self._troubles), self._reading_since
        if since is not None and monotonic() - since > READY_WITHIN_S:
            conditions.setdefault(StoreCondition.DATABASE_AWAY, StoreCondition.DATABASE_AWAY.text)
        return [
            Trouble(condition, conditions[condition])
            for condition in StoreCondition
            if condition in conditions
        ]

    def _join_held(self, conditions: dict[StoreCondition, str]) -> dict[StoreCondition, str]:
        """Return what was found, with what writers met if that does not explain it."""
        if any(Ability.WRITE in condition.stops for condition in conditions):
            return dict(conditions)
        moment = monotonic()
        return {c: why for c, (why, until) in self._held.items() if until > moment} | conditions

    def find_trouble(self, ability: Ability) -> Trouble | None:
        """Return what stops an ability, if anything does."""
        return next((t for t in self.troubles if ability in t.condition.stops), None)

    def samples(self) -> list[metrics.Sample]:
        """Return each condition, and each ability, as a metric of 0 or 1."""
        troubles = self.troubles
        there = {trouble.condition for trouble in troubles}
        stopped = {ability for condition in there for ability in condition.stops}
        return [
            *(
                metrics.Sample(metrics.CONDITION, c in there, (("condition", c.label),))
                for c in StoreCondition
            ),
            *(
                metrics.Sample(metrics.READY, ability not in stopped, (("to", str(ability)),))
                for ability in Ability
            ),
        ]

    def report_failure(self, error: Exception) -> None:
        """Record an error that a caller has met, and look at the store at once."""
        with self._lock:
            if isinstance(error, errors.StoreConnectionLost):
                self._hint = str(error)
            elif isinstance(error, errors.StoreFull | errors.StoreReadOnly):
                # The disk may have room for a probe, and not for what was to be appended.
                condition = find_condition(error, StoreCondition.DATABASE_FAILING)
                self._held[condition] = (str(error), monotonic() + _HOLD_S)
        self._probe_now.set()

    @contextmanager
    def watch_signer(self, error: Callable[[], Exception | None]) -> Iterator[None]:
        """Ask for the error that keeps the signer of this process from signing, while it runs."""
        self._signer_error = error
        try:
            yield
        finally:
            self._signer_error = lambda: None

    @contextmanager
    def run_in_background(self, interval_s: float = POLL_INTERVAL_S) -> Iterator[None]:
        """Look at the store at this interval until the end of the block."""
        self._interval_s = interval_s
        threads = [
            Thread(target=target, name=f"forum-{name}", daemon=True)
            for name, target in (("ping", self._look_repeatedly), ("monitor", self._watch_time))
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._probe_now.set()

    def _look_repeatedly(self) -> None:
        while not self._stop.is_set():
            with self._lock:
                self._reading_since = monotonic()
            self._record({t.condition: t.why for t in self.look()})
            self._probe_now.wait(self._interval_s)
            self._probe_now.clear()

    def look(self) -> list[Trouble]:
        """Look at the store now, as long as that takes, and return what is found."""
        asked = self._clock() if self._clock else 0
        try:
            state = self._store.read_state()
        except Exception as error:  # noqa: BLE001  whatever it is, nothing can be read
            # What was known of it is old when it is back; nothing stands still meanwhile.
            self._still.clear()
            self._write_error = None
            self._tried_at = -WRITE_INTERVAL_S
            is_away = isinstance(error, errors.StoreFailed)
            other = StoreCondition.DATABASE_AWAY if is_away else StoreCondition.DATABASE_FAILING
            return [Trouble(find_condition(error, other), str(error))]
        with self._lock:
            self._reading_since = None
        return [
            Trouble(*condition_and_reason)
            for condition_and_reason in self._find_troubles(state, asked)
        ]

    @property
    def _is_write_due(self) -> bool:
        return monotonic() - self._tried_at >= WRITE_INTERVAL_S

    def _find_troubles(self, state: StoreState, asked: int) -> Iterator[tuple[StoreCondition, str]]:
        if self._clock is not None:
            # The database told its time between these two.
            apart = max(asked - state.now, state.now - self._clock())
            if apart > MAX_CLOCK_SKEW_US:
                yield StoreCondition.CLOCK_OFF, f"{apart / 1e6:.0f} s apart"
        if state.is_standby:
            # It may lag behind: its size says nothing, and nobody signs here.
            yield StoreCondition.STANDBY, "pg_is_in_recovery() is true"
            return
        if state.is_read_only:
            yield StoreCondition.READ_ONLY, "transaction_read_only is on"
        else:
            yield from self._try_writing()
        yield from self._compare_size(state)
        yield from self._check_signer(state)

    def _try_writing(self) -> Iterator[tuple[StoreCondition, str]]:
        if self._is_write_due:
            try:
                self._store.try_writing()
            except errors.ForumError as error:
                self._write_error = error
            else:
                self._write_error = None
            self._tried_at = monotonic()
        if self._write_error is not None:
            condition = find_condition(self._write_error, StoreCondition.DATABASE_FAILING)
            yield condition, str(self._write_error)

    def _compare_size(self, state: StoreState) -> Iterator[tuple[StoreCondition, str]]:
        """Find out whether the tree has shrunk, which no tree does."""
        if self._largest is None:
            self._largest = self._signed_size()
        if state.size < self._largest:
            self._shrunk = f"the tree had {self._largest} entries, and had {state.size} later"
        self._largest = max(self._largest, state.size)
        if self._shrunk:
            yield StoreCondition.ROLLED_BACK, self._shrunk

    def _check_signer(self, state: StoreState) -> Iterator[tuple[StoreCondition, str]]:
        error = self._signer_error()
        if error is not None:
            is_stopped = not isinstance(error, errors.StoreFailed)
            other = StoreCondition.SIGNER_STOPPED if is_stopped else StoreCondition.NOT_SIGNED
            yield find_condition(error, other), str(error)
        pending, signed = state.oldest_pending, state.signed
        is_unindexed = self._stands_still("pending", pending, is_waiting=pending is not None)
        is_unsigned = self._stands_still("signed", signed, is_waiting=signed < state.size)
        if is_unindexed or is_unsigned:
            waiting = "entries wait for an index; " if is_unindexed else ""
            why = f"{waiting}of {state.size} entries with an index, {signed} are signed"
            yield StoreCondition.NOT_SIGNED, why

    def _stands_still(self, name: str, value: int | None, *, is_waiting: bool) -> bool:
        """Return whether a value has been the same for too long, while something waits for it."""
        if not is_waiting:
            self._still.pop(name, None)
        elif self._still.get(name, (None, 0.0))[0] != value:
            self._still[name] = (value, monotonic())
        return is_waiting and monotonic() - self._still[name][1] >= STALL_AFTER_S

    def _watch_time(self) -> None:
        while not self._stop.wait(_WATCH_INTERVAL_S):
            with self._lock:
                since = self._reading_since
            if since is not None and monotonic() - since > LOST_AFTER_S:
                self._record({StoreCondition.DATABASE_AWAY: StoreCondition.DATABASE_AWAY.text})

    def _record(self, conditions: dict[StoreCondition, str]) -> None:
        """Replace what is known, and log what has begun and what is over."""
        with self._lock:
            if StoreCondition.DATABASE_AWAY not in conditions:
                self._reading_since = None
            self._troubles = conditions
            moment, there = monotonic(), self._join_held(conditions)
            begun = {c: why for c, why in there.items() if c not in self._begun}
            over = {c: since for c, since in self._begun.items() if c not in there}
            self._begun = {c: self._begun.get(c, moment) for c in there}
            hint, self._hint = self._hint, ""
        if self._stop.is_set():
            return  # the store is being closed: its errors say nothing about the database
        for condition, why in begun.items():
            _log_begin(condition, why)
        for condition, since in over.items():
            _log_end(condition, moment - since)
        if hint and not there and not over:
            LOG.warning("a connection to the database broke, and was made again: %s", hint)


def _log_begin(condition: StoreCondition, why: str) -> None:
    if condition is StoreCondition.DATABASE_AWAY:
        LOG.error("the database is away: %s (it is tried again). %s", why, condition.remedy)
    else:
        LOG.error("%s (%s)", condition.sentence, why)


def _log_end(condition: StoreCondition, seconds: float) -> None:
    if condition is StoreCondition.DATABASE_AWAY:
        LOG.info("the database is back after %.1f s", seconds)
    else:
        LOG.info("%s is over after %.1f s", condition.label, seconds)
