"""How those who work on a run in one process hear of each other, and from outside.

For liveness only: who misses a word learns the same from the ledger a little later.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

from forum.engine.worker_slots import WorkerSlot
from forum.errors import ConcurrentUpdate

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wakeup:
    """Something happened in a run."""

    tasks: frozenset[str]
    """Those that nobody in this process works on any more."""
    anything: bool
    """Whether it may be anything else, too."""


class RunListener:
    """The ear of one who drives a run."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._tasks: set[str] = set()
        self._anything = self._is_interrupted = False

    async def wait_for_signal(self, seconds: float) -> Wakeup | None:
        """Wait until something happens, but no longer than this.

        Raises `ConcurrentUpdate` where nobody is to go on with the run.
        """
        try:
            # Not asyncio.wait_for: until Python 3.12 it can swallow a cancellation.
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return None
        if self._is_interrupted:
            raise ConcurrentUpdate("a run that was interrupted")
        self._event.clear()
        heard = Wakeup(frozenset(self._tasks), self._anything)
        self._tasks.clear()
        self._anything = False
        return heard

    @property
    def has_missed_signal(self) -> bool:
        """Whether something was told from outside that nobody has waited for."""
        return self._anything

    def notify(self, task: str | None) -> None:
        """Let the driver know, from any thread."""
        # At once, and not when the loop gets round to it: by then the driver may have left.
        self._anything |= task is None
        self._loop.call_soon_threadsafe(self._wake, task)

    def interrupt(self) -> None:
        """Have the driver go no further, from any thread."""
        self._is_interrupted = True
        self._loop.call_soon_threadsafe(self._event.set)

    def _wake(self, task: str | None) -> None:
        if task is not None:
            self._tasks.add(task)
        self._event.set()


class CancelToken:
    """How one who works on a task hears that its run is to end, and where that is done."""

    def __init__(self, free: asyncio.Semaphore) -> None:
        self._loop = asyncio.get_running_loop()
        self.stop_requested, self.abort_requested = asyncio.Event(), asyncio.Event()
        self.left = False
        """Whether the task is left as it is, unended: somebody may go on with it later."""
        self.slot = WorkerSlot(free, self.stop_requested)

    def cancel(self, *, cut: bool) -> None:
        """Let nothing new be begun, and if wanted, end what is going on; from any thread."""
        self._loop.call_soon_threadsafe(self.stop_requested.set)
        if cut:
            self._loop.call_soon_threadsafe(self.abort_requested.set)

    def leave(self) -> None:
        """Begin nothing new and record no end; a call under way is finished, from any thread."""
        self.left = True
        self._loop.call_soon_threadsafe(self.stop_requested.set)


class RunSignals:
    """Who listens to which run in this process, and which runs are to stop."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._listeners: dict[str, list[RunListener]] = {}
        self._cancel_tokens: dict[str, list[CancelToken]] = {}

    @contextmanager
    def listen(self, run: str) -> Iterator[RunListener]:
        """Listen to a run."""
        ear = RunListener()
        with self._lock:
            self._listeners.setdefault(run, []).append(ear)
        try:
            yield ear
        finally:
            self._unregister(self._listeners, run, ear)

    @contextmanager
    def register_task(self, run: str, free: asyncio.Semaphore) -> Iterator[CancelToken]:
        """Work on a run, as long as nobody stops it, at one of the places that are free."""
        stop = CancelToken(free)
        with self._lock:
            self._cancel_tokens.setdefault(run, []).append(stop)
        try:
            yield stop
        finally:
            self._unregister(self._cancel_tokens, run, stop)

    def active_runs(self) -> list[str]:
        """Return the runs that somebody in this process works on."""
        with self._lock:
            return list(self._cancel_tokens)

    def driven_runs(self) -> list[str]:
        """Return the runs that are driven in this process."""
        with self._lock:
            return list(self._listeners)

    def notify(self, run: str, task: str | None = None) -> bool:
        """Let whoever drives a run know that something happened; tell whether anybody does."""
        with self._lock:
            ears = list(self._listeners.get(run, ()))
        for ear in ears:
            ear.notify(task)
        return bool(ears)

    def interrupt(self, run: str) -> None:
        """Stop driving a run in this process, and leave its tasks as they are."""
        with self._lock:
            ears, stops = list(self._listeners.get(run, ())), list(self._cancel_tokens.get(run, ()))
        for ear in ears:
            ear.interrupt()
        for stop in stops:
            stop.leave()

    def leave_tasks(self) -> None:
        """Leave all tasks in this process as they are."""
        with self._lock:
            stops = [stop for run in self._cancel_tokens.values() for stop in run]
        for stop in stops:
            stop.leave()

    def stop_run(self, run: str, *, cut: bool) -> None:
        """Let nothing new be begun for a run in this process, and if wanted, end its calls."""
        with self._lock:
            stops = list(self._cancel_tokens.get(run, ()))
        for stop in stops:
            stop.cancel(cut=cut)

    def _unregister(self, table: dict[str, list[T]], run: str, one: T) -> None:
        with self._lock:
            table[run].remove(one)
            if not table[run]:
                del table[run]
