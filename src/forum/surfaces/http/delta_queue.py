"""Pass streamed text of models to the clients that follow a run, at most once."""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from forum.surfaces.http.log_follower import registered

_MAX_QUEUED_DELTAS = 1000
"""Maximum number of queued deltas per client; the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of streamed text; task and step identify the call."""

    task: str
    step: str
    text: str


class DeltaQueue:
    """The deltas that one client has not received yet."""

    def __init__(self, news: asyncio.Event) -> None:
        self._news = news
        self._pieces: deque[Delta] = deque(maxlen=_MAX_QUEUED_DELTAS)
        self.has_gap = False
        """Whether a delta was dropped, so that the text is no longer contiguous."""

    def put(self, piece: Delta) -> None:
        """Append a delta and wake the client."""
        self.has_gap = self.has_gap or len(self._pieces) == _MAX_QUEUED_DELTAS
        self._pieces.append(piece)
        self._news.set()

    def drain(self) -> Iterator[Delta]:
        """Yield and remove all queued deltas."""
        while self._pieces:
            yield self._pieces.popleft()


class DeltaBroadcaster:
    """Distributes deltas to the listeners of a run."""

    def __init__(self) -> None:
        self._queues: dict[str, set[DeltaQueue]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def bind_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start to distribute, on this event loop."""
        self._loop = loop

    def publish(self, run: str, task: str, step: str, text: str) -> None:
        """Distribute a delta; may be called from any thread."""
        if self._loop is None or run not in self._queues:
            return
        self._loop.call_soon_threadsafe(self._enqueue, run, Delta(task, step, text))

    def _enqueue(self, run: str, piece: Delta) -> None:
        for queue in self._queues.get(run, ()):
            queue.put(piece)

    @contextmanager
    def subscribe(self, run: str, news: asyncio.Event) -> Iterator[DeltaQueue]:
        """Collect the deltas of a run for one client, and set an event for each."""
        with registered(self._queues, run, DeltaQueue(news)) as queue:
            yield queue
