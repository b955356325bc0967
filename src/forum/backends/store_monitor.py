"""Monitors whether a store responds, for health probes, which must not block, and for the log."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from time import monotonic

from forum.errors import StoreFailed
from forum.ledger.ports import Store

POLL_INTERVAL_S = 0.25
"""The interval between two queries to the store."""
READY_WITHIN_S = 0.6
"""The response time above which health probes report the store as unavailable."""
LOST_AFTER_S = 5.0
"""The response time above which the outage is logged; long enough for a busy machine."""


LOG = logging.getLogger("forum")


class StoreMonitor:
    """A monitor that polls a store, and logs one line per outage and one per recovery.

    One thread queries the store.  It may block for as long as the database driver waits for its
    server, so a second thread watches the time.  No caller ever waits for either of them.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock, self._stop, self._probe_now = Lock(), Event(), Event()
        self._probing_since: float | None = None
        """The start time of the query that has no response yet."""
        self._lost: float | None = None
        """The start time of the outage, if there is one."""
        self._logged = False
        """Whether the outage was logged."""
        self._hint = ""
        """A connection error that was reported since the last query."""
        self._interval_s = POLL_INTERVAL_S

    @property
    def is_available(self) -> bool:
        """Whether the store responded lately; does not query it."""
        with self._lock:
            late = (
                self._probing_since is not None
                and monotonic() - self._probing_since > READY_WITHIN_S
            )
            return self._lost is None and not late

    def report_failure(self, error: StoreFailed) -> None:
        """Record the error of a caller whose connection broke, and query the store at once."""
        with self._lock:
            self._hint = str(error)
        self._probe_now.set()

    @contextmanager
    def run_in_background(self, interval_s: float = POLL_INTERVAL_S) -> Iterator[None]:
        """Query the store at this interval until the end of the block."""
        self._interval_s = interval_s
        threads = [
            Thread(target=target, name=f"forum-{name}", daemon=True)
            for name, target in (("ping", self._probe_store), ("monitor", self._watch_probe))
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._probe_now.set()

    def _probe_store(self) -> None:
        while not self._stop.is_set():
            with self._lock:
                self._probing_since = monotonic()
            try:
                self._store.head()
            except StoreFailed as error:
                self._handle_probe_result(str(error))
            else:
                self._handle_probe_result(None)
            self._probe_now.wait(self._interval_s)
            self._probe_now.clear()

    def _watch_probe(self) -> None:
        while not self._stop.wait(POLL_INTERVAL_S):
            with self._lock:
                since = self._probing_since
            if since is not None and monotonic() - since > LOST_AFTER_S:
                self._mark_lost(since, "the database does not answer")

    def _handle_probe_result(self, why: str | None) -> None:
        """Record a response (None), or the reason why there was none, and log a change."""
        with self._lock:
            since, self._probing_since = self._probing_since, None
        if why is not None:
            self._mark_lost(since or monotonic(), why)
            return
        with self._lock:
            lost, logged, hint = self._lost, self._logged, self._hint
            self._lost, self._logged, self._hint = None, False, ""
        if self._stop.is_set():
            return  # the store is being closed: its errors say nothing about the database
        if lost is not None and logged:
            LOG.info("the database is back after %.1f s", monotonic() - lost)
        elif hint:
            LOG.warning("a connection to the database broke, and was made again: %s", hint)

    def _mark_lost(self, since: float, why: str) -> None:
        with self._lock:
            logged, self._logged = self._logged, True
            self._lost = since if self._lost is None else self._lost
            self._hint = ""
        if not logged and not self._stop.is_set():
            LOG.error("the database is away: %s (it is tried again)", why)
