"""Reads from a database for callers who cannot wait for it."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Generic, TypeVar

from forum.errors import StoreFailed

T = TypeVar("T")


class BackgroundReader(Generic[T]):
    """Calls a function in a thread, one call at a time: a database that hangs holds one thread."""

    def __init__(self, function: Callable[[], Sequence[T]]) -> None:
        self._function, self._lock = function, Lock()
        self._running: _Reading[T] | None = None

    def read(self, timeout_s: float) -> Sequence[T]:
        """Return what a call returns that ends in time; nothing if it does not, or fails."""
        with self._lock:
            if self._running is None or self._running.ended.is_set():
                self._running = _Reading(self._function)
            reading = self._running
        reading.ended.wait(timeout_s)
        return reading.result


class _Reading(Generic[T]):
    """One call, which any number of callers wait for."""

    def __init__(self, function: Callable[[], Sequence[T]]) -> None:
        self._function, self.ended = function, Event()
        self.result: Sequence[T] = ()
        Thread(target=self._run, name="forum-gauges", daemon=True).start()

    def _run(self) -> None:
        try:
            with suppress(StoreFailed):  # the monitor reports it
                self.result = self._function()
        finally:
            self.ended.set()
