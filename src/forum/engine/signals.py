"""Signals between the drivers of runs and the workers of tasks in one process.

Best effort: a missed signal only delays, because drivers also poll the ledger.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

from forum.engine.worker_slots import TaskLimit, WorkerSlot
from forum.errors import ConcurrentUpdate

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wakeup:
    """The signals that the driver of a run has received since its last wait."""

    tasks: frozenset[str]
    """The tasks whose workers in this process have returned."""
    anything: bool
    """Whether there was a signal without a task, so that anything may have changed."""


class RunListener:
    """Receives the signals for one driver of a run."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._tasks: set[str] = set()
        self._anything = self._is_interrupted = False
        self.has_shared_tasks = False
        """Whether the driver waits for tasks that any worker may drive."""

    async def wait_for_signal(self, seconds: float) -> Wakeup | None:
        """Wait for a signal; return None after `seconds` without one.

        Raises `ConcurrentUpdate` if the run was interrupted.
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
        wakeup = Wakeup(frozenset(self._tasks), self._anything)
        self._tasks.clear()
        self._anything = False
        return wakeup

    @property
    def has_missed_signal(self) -> bool:
        """Whether a signal without a task arrived after the driver's last wait."""
        return self._anything

    def notify(self, task: str | None) -> None:
        """Wake the driver, from any thread."""
        # Set the flag now, not in the callback: by the time the loop runs that, the driver may have
        # left, and the flag tells the engine to drive the run once more.
        self._anything |= task is None
        self._loop.call_soon_threadsafe(self._wake, task)

    def interrupt(self) -> None:
        """Make the driver's next wait raise `ConcurrentUpdate`, from any thread."""
        self._is_interrupted = True
        self._loop.call_soon_threadsafe(self._event.set)

    def _wake(self, task: str | None) -> None:
        if task is not None:
            self._tasks.add(task)
        self._event.set()


class CancelToken:
    """Tells the worker of a task that its run is to end, and holds the worker's slot."""

    def __init__(self, free: TaskLimit) -> None:
        self._loop = asyncio.get_running_loop()
        self.stop_requested, self.abort_requested = asyncio.Event(), asyncio.Event()
        self.left = False
        """Whether the task is abandoned without an end entry, so that a worker can continue it."""
        self.slot = WorkerSlot(free, self.stop_requested)

    def cancel(self, *, cut: bool) -> None:
        """Start nothing new and, with `cut`, abort calls under way; from any thread."""
        self._loop.call_soon_threadsafe(self.stop_requested.set)
        if cut:
            self._loop.call_soon_threadsafe(self.abort_requested.set)

    def leave(self) -> None:
        """Start nothing new and record no end, but finish a call under way; from any thread."""
        self.left = True
        self._loop.call_soon_threadsafe(self.stop_requested.set)


class RunSignals:
    """The registry of all listeners and cancel tokens in this process, by run."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._listeners: dict[str, list[RunListener]] = {}
        self._cancel_tokens: dict[str, list[CancelToken]] = {}

    @contextmanager
    def listen(self, run: str) -> Iterator[RunListener]:
        """Register a listener for a run while the context is open."""
        ear = RunListener()
        with self._lock:
            self._listeners.setdefault(run, []).append(ear)
        try:
            yield ear
        finally:
            self._unregister(self._listeners, run, ear)

    @contextmanager
    def register_task(self, run: str, free: TaskLimit) -> Iterator[CancelToken]:
        """Register a worker of a task of a run while the context is open, and yield its token."""
        stop = CancelToken(free)
        with self._lock:
            self._cancel_tokens.setdefault(run, []).append(stop)
        try:
            yield stop
        finally:
            self._unregister(self._cancel_tokens, run, stop)

    def active_runs(self) -> list[str]:
        """Return the runs that are driven, or have a task, in this process."""
        with self._lock:
            return list(dict.fromkeys((*self._cancel_tokens, *self._listeners)))

    def count_sharing_runs(self) -> int:
        """Count the runs whose drivers wait for tasks that any worker may drive."""
        with self._lock:
            return sum(
                any(ear.has_shared_tasks for ear in ears) for ears in self._listeners.values()
            )

    def driven_runs(self) -> list[str]:
        """Return the runs that are driven in this process."""
        with self._lock:
            return list(self._listeners)

    def notify(self, run: str, task: str | None = None) -> bool:
        """Wake the drivers of a run, and return whether there are any in this process."""
        with self._lock:
            ears = list(self._listeners.get(run, ()))
        for ear in ears:
            ear.notify(task)
        return bool(ears)

    def interrupt(self, run: str) -> None:
        """Stop driving a run in this process, and leave its tasks without an end."""
        with self._lock:
            ears, stops = list(self._listeners.get(run, ())), list(self._cancel_tokens.get(run, ()))
        for ear in ears:
            ear.interrupt()
        for stop in stops:
            stop.leave()

    def leave_tasks(self) -> None:
        """Leave all tasks in this process without an end."""
        with self._lock:
            stops = [stop for run in self._cancel_tokens.values() for stop in run]
        for stop in stops:
            stop.leave()

    def stop_run(self, run: str, *, cut: bool) -> None:
        """Start nothing new for a run in this process and, with `cut`, abort its calls."""
        with self._lock:
            stops = list(self._cancel_tokens.get(run, ()))
        for stop in stops:
            stop.cancel(cut=cut)

    def _unregister(self, table: dict[str, list[T]], run: str, item: T) -> None:
        with self._lock:
            table[run].remove(item)
            if not table[run]:
                del table[run]
