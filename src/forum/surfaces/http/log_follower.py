"""The end of a log, followed once for all who wait for something new in it.

The event of an entry is its index, so whoever reconnects, here or to another process, says which
was the last and misses none.  A follower reads the entries from the store; this only wakes it.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import TypeVar

from forum.errors import StoreFailed
from forum.ledger import Store, peek_run
from forum.tlog import Checkpoint, parse_checkpoint

POLL_INTERVAL_S = 0.05
_POLLS_PER_CHECKPOINT_READ = 10
_KEEP_ALIVE_INTERVAL_S = 15.0
"""How often something is sent where nothing happens, so that proxies keep the connection."""
_ListenerT = TypeVar("_ListenerT")


class LogFollower:
    """Wakes those who wait for a run when entries of it get their indexes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._size: int | None = None
        self._listeners: dict[str, set[asyncio.Event]] = {}
        self.latest_checkpoint: Checkpoint | None = None
        """The newest checkpoint, or one that was the newest a moment ago."""
        self.closed = False

    async def poll(self) -> None:
        """Look at the log until cancelled."""
        for looks in count():
            with suppress(StoreFailed):  # the database restarts: those who wait, wait
                if looks % _POLLS_PER_CHECKPOINT_READ == 0:
                    self.latest_checkpoint = await asyncio.to_thread(self._read_checkpoint)
                if self._listeners:
                    self._wake(await asyncio.to_thread(self._find_changed_runs))
                else:
                    self._size = None
            await asyncio.sleep(POLL_INTERVAL_S)

    def _read_checkpoint(self) -> Checkpoint | None:
        note = self._store.checkpoint()
        return parse_checkpoint(note) if note else None

    def close(self) -> None:
        """Wake everybody for the last time: the process is about to end."""
        self.closed = True
        self._wake(None)

    @contextmanager
    def subscribe(self, run: str) -> Iterator[asyncio.Event]:
        """Give an event that is set whenever there is something new in a run.

        Clear it, then read, then wait: what comes in between is not missed.
        """
        with registered(self._listeners, run, asyncio.Event()) as event:
            yield event

    @property
    def listener_count(self) -> int:
        """How many wait."""
        return sum(map(len, self._listeners.values()))

    def _find_changed_runs(self) -> set[str] | None:
        """Return the runs that have got entries, or nothing if it may be any of them."""
        size, known = self._store.head().size, self._size
        runs = None
        if known is not None:
            runs = {peek_run(data) for data in self._store.entries(known, size) if data}
        # Only now: where the store fails half-way, those who wait are woken the next time.
        self._size = size
        return runs

    def _wake(self, runs: set[str] | None) -> None:
        for run in self._listeners.keys() if runs is None else runs & self._listeners.keys():
            for event in self._listeners[run]:
                event.set()


@contextmanager
def registered(ears: dict[str, set[_ListenerT]], run: str, ear: _ListenerT) -> Iterator[_ListenerT]:
    """Be among those who listen to a run, within the block."""
    others = ears.setdefault(run, set())
    others.add(ear)
    try:
        yield ear
    finally:
        others.discard(ear)
        if not others:
            ears.pop(run, None)


async def wait_for_news(news: asyncio.Event) -> bool:
    """Wait for something new; tell whether it came before one has to say that one is still here."""
    try:
        async with asyncio.timeout(_KEEP_ALIVE_INTERVAL_S):
            return await news.wait()
    except TimeoutError:
        return False
