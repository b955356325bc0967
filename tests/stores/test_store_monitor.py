"""A store that hangs is noticed by the clock, and what a store does is told once."""

import logging
from collections.abc import Iterator
from threading import Event
from time import monotonic, time_ns

import pytest

from forum import errors
from forum.errors import StoreConnectionLost
from forum.ledger.conditions import Ability, StoreCondition
from forum.ledger.ports import StoreState
from forum.stores import store_monitor as module
from forum.stores.store_monitor import StoreMonitor, find_condition
from tests.support import StoreFactory, Wrapped, wait_until


def test_a_store_that_never_answers_is_noticed(
    store_factory: StoreFactory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A driver may wait for minutes for a server that is cut off: nobody waits with it."""
    monkeypatch.setattr(module, "LOST_AFTER_S", 0.3)
    caplog.set_level(logging.INFO, "forum")
    store, cut_off = store_factory(), Event()
    back = Event()

    def read_state() -> object:
        if cut_off.is_set():
            back.wait(30)
        return store.read_state()

    watched = StoreMonitor(Wrapped(store, read_state=read_state))
    with watched.run_in_background(0.2):
        wait_until(lambda: watched.is_available)
        cut_off.set()
        begun = monotonic()
        wait_until(lambda: not watched.is_available)
        noticed = monotonic() - begun
        wait_until(lambda: "is away" in caplog.text)
        cut_off.clear()
        back.set()
        wait_until(lambda: "is back" in caplog.text)
        answers = watched.is_available

    assert noticed < 1.5
    assert answers
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]


def test_a_connection_that_broke_is_told_though_the_store_answers(
    store_factory: StoreFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that restarts within a moment leaves a line, and nobody is turned away."""
    watched = StoreMonitor(store_factory())
    with watched.run_in_background():
        watched.report_failure(StoreConnectionLost("appending", "the connection broke"))
        wait_until(lambda: bool(caplog.records))
        answers = watched.is_available

    assert answers
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "the connection broke" in caplog.text


class Watched:
    """A monitor over a store whose state a test sets."""

    def __init__(self, store: object) -> None:
        self.size, self.pending = 5, None
        self.skew_s = 0.0
        self.standby = self.read_only = False
        self.refused: Exception | None = None
        self.lost: Exception | None = None
        self.monitor = StoreMonitor(
            Wrapped(store, read_state=self._read, try_writing=self._write),
            lambda: time_ns() // 1000,
        )

    pending: int | None
    unsigned = 0

    @property
    def signed(self) -> int:
        """The size of the newest signed tree."""
        return self.size - self.unsigned

    def _read(self) -> StoreState:
        if self.lost is not None:
            raise self.lost
        now = time_ns() // 1000 + round(self.skew_s * 1e6)
        return StoreState(
            self.size,
            oldest_pending=self.pending,
            signed=self.signed,
            now=now,
            is_standby=self.standby,
            is_read_only=self.read_only,
        )

    def _write(self) -> None:
        if self.refused is not None:
            raise self.refused

    @property
    def conditions(self) -> set[StoreCondition]:
        """What is there now."""
        return {trouble.condition for trouble in self.monitor.troubles}


@pytest.fixture
def watched(store_factory: StoreFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    """Return a monitor that looks often."""
    monkeypatch.setattr(module, "WRITE_INTERVAL_S", 0.02)
    monkeypatch.setattr(module, "STALL_AFTER_S", 0.3)
    made = Watched(store_factory())
    with made.monitor.run_in_background(0.02):
        yield made


@pytest.mark.parametrize(
    ("error", "condition", "stopped"),
    [
        (errors.StoreFull("a", "b"), StoreCondition.DISK_FULL, "write sign"),
        (errors.StoreReadOnly("a", "b"), StoreCondition.READ_ONLY, "write sign"),
        (errors.StoreLocked("a", "b"), StoreCondition.LOCKED, "write sign"),
        (errors.StoreTimedOut("a", "b"), StoreCondition.COMMITS_HANG, "write sign"),
        (errors.StoreFailed("a", "b"), StoreCondition.DATABASE_FAILING, "write sign"),
    ],
)
def test_a_refused_write_stops_writing_and_not_reading(
    watched: Watched,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    condition: StoreCondition,
    stopped: str,
) -> None:
    """One line when it begins, one when it is over; the metric is 1 between them."""
    caplog.set_level(logging.INFO, "forum")
    watched.refused = error
    wait_until(lambda: bool(watched.conditions))
    store_conditions, available = watched.conditions, watched.monitor.is_available
    values = {(s.metric.name, s.labels[0][1]): float(s.value) for s in watched.monitor.samples()}
    watched.refused = None
    wait_until(lambda: not watched.conditions)
    wait_until(lambda: "is over" in caplog.text)

    assert store_conditions == {condition}
    assert available
    assert [a for a in Ability if not values["forum_ready", str(a)]] == stopped.split()
    assert [c for c in StoreCondition if values["forum_condition", c.label]] == [condition]
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]
    assert condition.remedy in caplog.text


def test_what_a_look_shows(watched: Watched) -> None:
    """A standby, a read-only database, a clock, a tree that has shrunk, a signer that is gone."""
    wait_until(lambda: watched.monitor.is_available)
    document: dict[str, set[StoreCondition]] = {}
    for name, value in (
        ("standby", True),
        ("read_only", True),
        ("skew_s", 90.0),
        ("pending", 7),
        ("unsigned", 2),
    ):
        before = getattr(watched, name)
        setattr(watched, name, value)
        wait_until(lambda: bool(watched.conditions))
        document[name] = watched.conditions
        setattr(watched, name, before)
        wait_until(lambda: not watched.conditions)
    for size in (3, 9):  # it stays, because the tree of nine may be another one
        watched.size = size
        wait_until(lambda: watched.conditions == {StoreCondition.ROLLED_BACK})
    watched.lost = StoreConnectionLost("reading", "gone")
    wait_until(lambda: watched.conditions == {StoreCondition.DATABASE_AWAY})
    watched.lost = None
    wait_until(lambda: watched.conditions == {StoreCondition.ROLLED_BACK})

    assert document == {
        "standby": {StoreCondition.STANDBY},
        "read_only": {StoreCondition.READ_ONLY},
        "skew_s": {StoreCondition.CLOCK_OFF},
        "pending": {StoreCondition.NOT_SIGNED},
        "unsigned": {StoreCondition.NOT_SIGNED},
    }


def test_a_signer_that_moves_on_is_not_lost(watched: Watched) -> None:
    """Entries always wait under load; only one that waits for long shows that nobody signs."""
    for pending in range(60):
        watched.pending = pending
        assert not watched.conditions
        Event().wait(0.02)


def test_an_error_of_the_signer_of_this_process_is_told(watched: Watched) -> None:
    """It was seen by writers alone, and only once they tried to write."""
    rolled_back = errors.RollbackDetected("o", 5, 3)
    error: Exception = rolled_back
    with watched.monitor.watch_signer(lambda: error):
        wait_until(lambda: watched.conditions == {StoreCondition.ROLLED_BACK})
        error = errors.StateFileFailed("the guard", "writing", "no space")
        wait_until(lambda: watched.conditions == {StoreCondition.NOT_SIGNED})
        error = errors.TamperDetected("o", "x")
        wait_until(lambda: watched.conditions == {StoreCondition.SIGNER_STOPPED})
    wait_until(lambda: not watched.conditions)


def test_what_a_writer_met_counts_for_a_while(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk may have room for a probe, and none for what was to be written."""
    monkeypatch.setattr(module, "_HOLD_S", 0.5)
    wait_until(lambda: watched.monitor.is_available)
    watched.monitor.report_failure(errors.StoreFull("appending", "no space"))
    wait_until(lambda: watched.conditions == {StoreCondition.DISK_FULL})
    wait_until(lambda: not watched.conditions)


def _subclasses(kind: type[Exception]) -> Iterator[type[Exception]]:
    each: type[Exception]
    for each in kind.__subclasses__():
        yield from (each, *_subclasses(each))


def test_every_blocked_store_has_a_condition_of_its_own() -> None:
    """One without would be told as something else."""
    kinds = [kind for kind in _subclasses(errors.StoreBlocked) if kind.__module__ == "forum.errors"]
    store_conditions = {
        find_condition(kind("a", "b"), StoreCondition.DATABASE_FAILING) for kind in kinds
    }

    assert StoreCondition.DATABASE_FAILING not in store_conditions
    assert len(store_conditions) == len(kinds)


def test_every_condition_says_what_it_stops_and_what_to_do() -> None:
    """The labels are those of metrics and probes, so each is there once."""
    assert len({condition.label for condition in StoreCondition}) == len(StoreCondition)
    for condition in StoreCondition:
        assert condition.stops
        assert condition.remedy
        assert condition.sentence.startswith("cannot ")
