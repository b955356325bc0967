"""Watching whether a store answers: for probes, which must not wait, and for the log."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from time import monotonic

from forum.errors import StoreFailed
from forum.ledger import Store

POLL_INTERVAL_S = 0.25
"""How often the store is asked."""
READY_WITHIN_S = 0.6
"""How long an answer may take before probes are told that there is none."""
LOST_AFTER_S = 5.0
"""How long an answer may take before the operator is told: a busy machine is no lost database."""


LOG = logging.getLogger("forum")


class StoreMonitor:
    """Asks a store again and again; the log gets one line when it is gone, and one when it is back.

    One thread asks.  It may have to wait for as long as a driver waits for its server, so another
    one watches the time, and neither is ever waited for.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock, self._stop, self._hurry = Lock(), Event(), Event()
        self._asked: float | None = None
        """When the question was asked that has no answer yet."""
        self._lost: float | None = None
        """Since when the store does not answer."""
        self._told = False
        """Whether the log has it."""
        self._hint = ""
        """What somebody else has met, about which the store was not asked yet."""

    @property
    def is_available(self) -> bool:
        """Whether the store answers, known without asking it."""
        with self._lock:
            late = self._asked is not None and monotonic() - self._asked > READY_WITHIN_S
            return self._lost is None and not late

    def report_failure(self, error: StoreFailed) -> None:
        """Take the word of somebody whose connection broke, and ask the store at once."""
        with self._lock:
            self._hint = str(error)
        self._hurry.set()

    @contextmanager
    def run_in_background(self) -> Iterator[None]:
        """Watch until the end of the block."""
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
            self._hurry.set()

    def _probe_store(self) -> None:
        while not self._stop.is_set():
            with self._lock:
                self._asked = monotonic()
            try:
                self._store.head()
            except StoreFailed as error:
                self._handle_probe_result(str(error))
            else:
                self._handle_probe_result(None)
            self._hurry.wait(POLL_INTERVAL_S)
            self._hurry.clear()

    def _watch_probe(self) -> None:
        while not self._stop.wait(POLL_INTERVAL_S):
            with self._lock:
                asked = self._asked
            if asked is not None and monotonic() - asked > LOST_AFTER_S:
                self._mark_lost(asked, "the database does not answer")

    def _handle_probe_result(self, why: str | None) -> None:
        """Take an answer in, or why there is none."""
        with self._lock:
            asked, self._asked = self._asked, None
        if why is not None:
            self._mark_lost(asked or monotonic(), why)
            return
        with self._lock:
            lost, told, hint = self._lost, self._told, self._hint
            self._lost, self._told, self._hint = None, False, ""
        if self._stop.is_set():
            return  # a store that is closed says nothing of its database
        if lost is not None and told:
            LOG.info("the database is back after %.1f s", monotonic() - lost)
        elif hint:
            LOG.warning("a connection to the database broke, and was made again: %s", hint)

    def _mark_lost(self, since: float, why: str) -> None:
        with self._lock:
            told, self._told = self._told, True
            self._lost = since if self._lost is None else self._lost
            self._hint = ""
        if not told and not self._stop.is_set():
            LOG.error("the database is away: %s (it is tried again)", why)
