"""The end of a log, followed once for all who wait for something new in it.

The event of an entry is its index, so whoever reconnects, here or to another process, says which
was the last and misses none.  A follower reads the entries from the store; this only wakes it.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count

from forum.errors import StoreFailed
from forum.ledger import Store, peek_run
from forum.tlog import Checkpoint, checkpoint_of

LOOK_SECONDS = 0.05
_PAST_LOOKS = 10


class Tail:
    """Wakes those who wait for a run when entries of it get their indexes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._size: int | None = None
        self._ears: dict[str, set[asyncio.Event]] = {}
        self.past: Checkpoint | None = None
        """The newest checkpoint, or one that was the newest a moment ago."""
        self.closed = False

    async def watch(self) -> None:
        """Look at the log until cancelled."""
        for looks in count():
            with suppress(StoreFailed):  # the database restarts: those who wait, wait
                if looks % _PAST_LOOKS == 0:
                    self.past = await asyncio.to_thread(self._newest)
                if self._ears:
                    self._wake(await asyncio.to_thread(self._runs_with_news))
                else:
                    self._size = None
            await asyncio.sleep(LOOK_SECONDS)

    def _newest(self) -> Checkpoint | None:
        note = self._store.checkpoint()
        return checkpoint_of(note) if note else None

    def close(self) -> None:
        """Wake everybody for the last time: the process is about to end."""
        self.closed = True
        self._wake(None)

    @contextmanager
    def listening(self, run: str) -> Iterator[asyncio.Event]:
        """Give an event that is set whenever there is something new in a run.

        Clear it, then read, then wait: what comes in between is not missed.
        """
        event = asyncio.Event()
        ears = self._ears.setdefault(run, set())
        ears.add(event)
        try:
            yield event
        finally:
            ears.discard(event)
            if not ears:
                self._ears.pop(run, None)

    @property
    def listeners(self) -> int:
        """How many wait."""
        return sum(map(len, self._ears.values()))

    def _runs_with_news(self) -> set[str] | None:
        """Return the runs that have got entries, or nothing if it may be any of them."""
        size, known = self._store.head().size, self._size
        self._size = size
        if known is None:
            return None
        return {peek_run(data) for data in self._store.entries(known, size) if data}

    def _wake(self, runs: set[str] | None) -> None:
        for run in self._ears.keys() if runs is None else runs & self._ears.keys():
            for event in self._ears[run]:
                event.set()
