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
from forum.tlog import Checkpoint, checkpoint_of

LOOK_SECONDS = 0.05
_PAST_LOOKS = 10
_BEAT_SECONDS = 15.0
"""How often something is sent where nothing happens, so that proxies keep the connection."""
_Ear = TypeVar("_Ear")


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
        with joining(self._ears, run, asyncio.Event()) as event:
            yield event

    @property
    def listeners(self) -> int:
        """How many wait."""
        return sum(map(len, self._ears.values()))

    def _runs_with_news(self) -> set[str] | None:
        """Return the runs that have got entries, or nothing if it may be any of them."""
        size, known = self._store.head().size, self._size
        runs = None
        if known is not None:
            runs = {peek_run(data) for data in self._store.entries(known, size) if data}
        # Only now: where the store fails half-way, those who wait are woken the next time.
        self._size = size
        return runs

    def _wake(self, runs: set[str] | None) -> None:
        for run in self._ears.keys() if runs is None else runs & self._ears.keys():
            for event in self._ears[run]:
                event.set()


@contextmanager
def joining(ears: dict[str, set[_Ear]], run: str, ear: _Ear) -> Iterator[_Ear]:
    """Be among those who listen to a run, within the block."""
    others = ears.setdefault(run, set())
    others.add(ear)
    try:
        yield ear
    finally:
        others.discard(ear)
        if not others:
            ears.pop(run, None)


async def heard(news: asyncio.Event) -> bool:
    """Wait for something new; tell whether it came before one has to say that one is still here."""
    try:
        async with asyncio.timeout(_BEAT_SECONDS):
            return await news.wait()
    except TimeoutError:
        return False
