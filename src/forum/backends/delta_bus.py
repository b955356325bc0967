"""Who listens to models while they speak: within one process.

Whispers are recorded nowhere and may be lost; what they tell of a call, its reply will tell again.
They are told as they leave the engine: without secrets, and never too much at once.  They bear the
step of the reply that is to come; where it is recorded already, they have come late.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from typing import Protocol

from forum.engine import DeltaSink

DeltaListener = Callable[[str, str, str, str], None]
"""Is told run, task, step and some more text, by a thread that must not be held up.

One that raises is told no more.
"""


class DeltaBus(DeltaSink, Protocol):
    """A way from those who speak to those who listen."""

    def subscribe(self, listener: DeltaListener) -> AbstractContextManager[None]:
        """Have somebody told what is said of this log from now on, within the block."""
        ...

    def close(self) -> None:
        """Let go of everything; nothing is heard any more."""
        ...


class DeltaListeners:
    """Those who listen in this process."""

    def __init__(self) -> None:
        self._listeners: tuple[DeltaListener, ...] = ()
        self._lock = Lock()

    def add(self, listener: DeltaListener) -> None:
        """Have somebody told."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def remove(self, listener: DeltaListener) -> None:
        """Have somebody told no more."""
        with self._lock:
            self._listeners = tuple(one for one in self._listeners if one is not listener)

    def notify(self, run: str, task: str, step: str, text: str) -> None:
        """Tell all of them."""
        for listener in self._listeners:
            try:
                listener(run, task, step, text)
            except Exception:  # noqa: BLE001  what a listener does must not end a call
                self.remove(listener)


class LocalDeltaBus:
    """Whispers between a worker and a server that are one process."""

    def __init__(self) -> None:
        self._listeners = DeltaListeners()

    def publish(self, run: str, task: str, step: str, text: str) -> None:
        """Tell whoever listens, at once."""
        self._listeners.notify(run, task, step, text)

    @contextmanager
    def subscribe(self, listener: DeltaListener) -> Iterator[None]:
        """Have somebody told what is said from now on, within the block."""
        self._listeners.add(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def close(self) -> None:
        """Let go of everything: of nothing."""
