"""A bus for the text deltas of running model calls, within one process.

Deltas are not recorded and may be lost: the reply, which is recorded, contains the same text.  The
engine redacts secrets and limits the size of a delta before it publishes it.  A delta carries the
step of the reply to come; if that reply is already recorded, the delta is late.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from typing import Protocol

from forum.engine import DeltaSink

DeltaListener = Callable[[str, str, str, str], None]
"""A callback for run, task, step and a piece of text; it must not block the calling thread.

A listener that raises is unsubscribed.
"""


class DeltaBus(DeltaSink, Protocol):
    """A bus that carries deltas from the engine to listeners."""

    def subscribe(self, listener: DeltaListener) -> AbstractContextManager[None]:
        """Subscribe a listener to the deltas of this log until the end of the block."""

    def close(self) -> None:
        """Release all resources; no more deltas are delivered."""


class LocalDeltaBus:
    """A bus within one process.  Threads may subscribe, unsubscribe and publish concurrently."""

    def __init__(self) -> None:
        self._listeners: tuple[DeltaListener, ...] = ()
        self._lock = Lock()

    def publish(self, run: str, task: str, step: str, text: str) -> None:
        """Pass a delta to all listeners immediately, and unsubscribe those that raise."""
        for listener in self._listeners:
            try:
                listener(run, task, step, text)
            except Exception:  # noqa: BLE001  a listener must not fail a call
                self._remove(listener)

    @contextmanager
    def subscribe(self, listener: DeltaListener) -> Iterator[None]:
        """Subscribe a listener until the end of the block."""
        with self._lock:
            self._listeners = (*self._listeners, listener)
        try:
            yield
        finally:
            self._remove(listener)

    def close(self) -> None:
        """Do nothing: this bus holds no resources."""

    def _remove(self, listener: DeltaListener) -> None:
        with self._lock:
            self._listeners = tuple(other for other in self._listeners if other is not listener)
