"""How those who work on a run in one process hear of each other, and from outside.

For liveness only: who misses a word learns the same from the ledger a little later.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

from forum.engine.places import Place
from forum.errors import Overtaken

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Heard:
    """Something happened in a run."""

    tasks: frozenset[str]
    """Those that nobody in this process works on any more."""
    anything: bool
    """Whether it may be anything else, too."""


class Attention:
    """The ear of one who drives a run."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._tasks: set[str] = set()
        self._anything = self._left = False

    async def wait(self, seconds: float) -> Heard | None:
        """Wait until something happens, but no longer than this.

        Raises `Overtaken` where nobody is to go on with the run.
        """
        try:
            # Not asyncio.wait_for: until Python 3.12 it can swallow a cancellation.
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return None
        if self._left:
            raise Overtaken("a run that was interrupted")
        self._event.clear()
        heard = Heard(frozenset(self._tasks), self._anything)
        self._tasks.clear()
        self._anything = False
        return heard

    @property
    def missed(self) -> bool:
        """Whether something was told from outside that nobody has waited for."""
        return self._anything

    def tell(self, task: str | None) -> None:
        """Let the driver know, from any thread."""
        # At once, and not when the loop gets round to it: by then the driver may have left.
        self._anything |= task is None
        self._loop.call_soon_threadsafe(self._hear, task)

    def leave(self) -> None:
        """Have the driver go no further, from any thread."""
        self._left = True
        self._loop.call_soon_threadsafe(self._event.set)

    def _hear(self, task: str | None) -> None:
        if task is not None:
            self._tasks.add(task)
        self._event.set()


class Stop:
    """How one who works on a task hears that its run is to end, and where that is done."""

    def __init__(self, free: asyncio.Semaphore) -> None:
        self._loop = asyncio.get_running_loop()
        self.halt, self.cut = asyncio.Event(), asyncio.Event()
        self.left = False
        """Whether the task is left as it is, unended: somebody may go on with it later."""
        self.place = Place(free, self.halt)

    def set(self, *, cut: bool) -> None:
        """Let nothing new be begun, and if wanted, end what is going on; from any thread."""
        self._loop.call_soon_threadsafe(self.halt.set)
        if cut:
            self._loop.call_soon_threadsafe(self.cut.set)

    def leave(self) -> None:
        """Begin nothing new and record no end; a call under way is finished, from any thread."""
        self.left = True
        self._loop.call_soon_threadsafe(self.halt.set)


class Switchboard:
    """Who listens to which run in this process, and which runs are to stop."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._ears: dict[str, list[Attention]] = {}
        self._stops: dict[str, list[Stop]] = {}

    @contextmanager
    def listening(self, run: str) -> Iterator[Attention]:
        """Listen to a run."""
        ear = Attention()
        with self._lock:
            self._ears.setdefault(run, []).append(ear)
        try:
            yield ear
        finally:
            self._forget(self._ears, run, ear)

    @contextmanager
    def working(self, run: str, free: asyncio.Semaphore) -> Iterator[Stop]:
        """Work on a run, as long as nobody stops it, at one of the places that are free."""
        stop = Stop(free)
        with self._lock:
            self._stops.setdefault(run, []).append(stop)
        try:
            yield stop
        finally:
            self._forget(self._stops, run, stop)

    def worked_on(self) -> list[str]:
        """Return the runs that somebody in this process works on."""
        with self._lock:
            return list(self._stops)

    def driven(self) -> list[str]:
        """Return the runs that are driven in this process."""
        with self._lock:
            return list(self._ears)

    def tell(self, run: str, task: str | None = None) -> bool:
        """Let whoever drives a run know that something happened; tell whether anybody does."""
        with self._lock:
            ears = list(self._ears.get(run, ()))
        for ear in ears:
            ear.tell(task)
        return bool(ears)

    def leave(self, run: str) -> None:
        """Stop driving a run in this process, and leave its tasks as they are."""
        with self._lock:
            ears, stops = list(self._ears.get(run, ())), list(self._stops.get(run, ()))
        for ear in ears:
            ear.leave()
        for stop in stops:
            stop.leave()

    def leave_tasks(self) -> None:
        """Leave all tasks in this process as they are."""
        with self._lock:
            stops = [stop for run in self._stops.values() for stop in run]
        for stop in stops:
            stop.leave()

    def stop(self, run: str, *, cut: bool) -> None:
        """Let nothing new be begun for a run in this process, and if wanted, end its calls."""
        with self._lock:
            stops = list(self._stops.get(run, ()))
        for stop in stops:
            stop.set(cut=cut)

    def _forget(self, table: dict[str, list[T]], run: str, one: T) -> None:
        with self._lock:
            table[run].remove(one)
            if not table[run]:
                del table[run]
