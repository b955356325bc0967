"""What models say while they are asked, for those who follow a run; heard or not."""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from forum.surfaces.http.log_follower import registered

_MAX_QUEUED_DELTAS = 1000
"""How many pieces wait for one client; the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class Delta:
    """Some more of what is said in a call, which is known by its task and its step."""

    task: str
    step: str
    text: str


class DeltaQueue:
    """What one client has yet to be told."""

    def __init__(self, news: asyncio.Event) -> None:
        self._news = news
        self._pieces: deque[Delta] = deque(maxlen=_MAX_QUEUED_DELTAS)
        self.has_gap = False
        """Whether something was dropped: what is still here does not follow on what was taken."""

    def put(self, piece: Delta) -> None:
        """Keep a piece until the client takes it."""
        self.has_gap = self.has_gap or len(self._pieces) == _MAX_QUEUED_DELTAS
        self._pieces.append(piece)
        self._news.set()

    def drain(self) -> Iterator[Delta]:
        """Yield what has come."""
        while self._pieces:
            yield self._pieces.popleft()


class DeltaBroadcaster:
    """Passes on what is said to those who listen to the run."""

    def __init__(self) -> None:
        self._queues: dict[str, set[DeltaQueue]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def bind_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to pass on, in this loop."""
        self._loop = loop

    def publish(self, run: str, task: str, step: str, text: str) -> None:
        """Take what was said; called from any thread."""
        if self._loop is None or run not in self._queues:
            return
        self._loop.call_soon_threadsafe(self._enqueue, run, Delta(task, step, text))

    def _enqueue(self, run: str, piece: Delta) -> None:
        for ear in self._queues.get(run, ()):
            ear.put(piece)

    @contextmanager
    def subscribe(self, run: str, news: asyncio.Event) -> Iterator[DeltaQueue]:
        """Keep what is said in a run for one client, and tell it by an event."""
        with registered(self._queues, run, DeltaQueue(news)) as ear:
            yield ear
