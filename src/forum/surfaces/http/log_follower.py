"""Follow the end of a log once, for all clients that wait for new entries.

An entry's event id is its index.  A client that reconnects, to this or to another process, sends
the last index and misses no entry.  Clients read the entries from the store themselves; this module
only wakes them.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import TypeVar

from forum.errors import StoreFailed
from forum.ledger.database_memory import DatabaseMemory
from forum.ledger.entry import peek_run
from forum.ledger.ports import EntryReader
from forum.tlog import Checkpoint, parse_checkpoint

POLL_INTERVAL_S = 0.05
_POLLS_PER_CHECKPOINT_READ = 20
_KEEP_ALIVE_INTERVAL_S = 15.0
"""Interval of keep-alive messages on idle streams, so that proxies keep the connection open."""
_WHOLE_LOG = ""
"""Stands for all runs among the listeners; no run has this name."""
_ListenerT = TypeVar("_ListenerT")


class LogFollower:
    """Wakes the listeners of a run, or of the log, when new entries get their indexes."""

    def __init__(self, store: EntryReader) -> None:
        self._store = store
        self._size: DatabaseMemory[int | None] = DatabaseMemory(store.lineage, lambda: None)
        self._listeners: dict[str, set[asyncio.Event]] = {}
        self.latest_checkpoint: Checkpoint | None = None
        """The newest checkpoint, possibly a moment old."""
        self.closed = False

    async def poll(self) -> None:
        """Poll the log until cancelled."""
        for looks in count():
            with suppress(StoreFailed):  # the database restarts: listeners keep waiting
                if looks % _POLLS_PER_CHECKPOINT_READ == 0:
                    self.latest_checkpoint = await asyncio.to_thread(self._read_checkpoint)
                if self._listeners:
                    self._wake(await asyncio.to_thread(self._find_changed_runs))
                else:
                    # Without listeners the log is not read, to spare the database.  What was missed
                    # is unknown, so the next poll with listeners wakes all of them.
                    self._size.value = None
            await asyncio.sleep(POLL_INTERVAL_S)

    def _read_checkpoint(self) -> Checkpoint | None:
        note = self._store.checkpoint()
        return parse_checkpoint(note) if note else None

    def close(self) -> None:
        """Wake all listeners for the last time: the process is about to exit."""
        self.closed = True
        self._wake(None)

    @contextmanager
    def subscribe(self, run: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set whenever a run has new entries.

        Clear it, then read, then wait: in this order no entry is missed.
        """
        with registered(self._listeners, run, asyncio.Event()) as event:
            yield event

    @contextmanager
    def subscribe_log(self) -> Iterator[asyncio.Event]:
        """Yield an event that is set whenever the log has new entries, as `subscribe` does."""
        with registered(self._listeners, _WHOLE_LOG, asyncio.Event()) as event:
            yield event

    @property
    def listener_count(self) -> int:
        """The number of listeners."""
        return sum(map(len, self._listeners.values()))

    def _find_changed_runs(self) -> set[str] | None:
        """Return the runs with new entries, or None if it may be any run."""
        size, previous = self._store.head().size, self._size.value
        runs = None
        if previous is not None:
            runs = {peek_run(data) for data in self._store.entries(previous, size) if data}
            runs |= {_WHOLE_LOG} if size > previous else set()
        # Advanced only after the read succeeded: if the store fails
        # in between, the next poll finds the same entries again.
        self._size.value = size
        return runs

    def _wake(self, runs: set[str] | None) -> None:
        for run in self._listeners.keys() if runs is None else runs & self._listeners.keys():
            for event in self._listeners[run]:
                event.set()


@contextmanager
def registered(
    listeners: dict[str, set[_ListenerT]], run: str, listener: _ListenerT
) -> Iterator[_ListenerT]:
    """Register a listener of a run during the block."""
    others = listeners.setdefault(run, set())
    others.add(listener)
    try:
        yield listener
    finally:
        others.discard(listener)
        if not others:
            listeners.pop(run, None)


async def wait_for_news(news: asyncio.Event) -> bool:
    """Wait for a change; return False when a keep-alive is due first."""
    try:
        async with asyncio.timeout(_KEEP_ALIVE_INTERVAL_S):
            return await news.wait()
    except TimeoutError:
        return False
