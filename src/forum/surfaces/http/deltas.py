"""What models say while they are asked, for those who follow a run; heard or not."""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from forum.surfaces.http.tail import joining

_MOST = 1000
"""How many pieces wait for one client; the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class Delta:
    """Some more of what is said in a call, which is known by its task and its step."""

    task: str
    step: str
    text: str


class Ear:
    """What one client has yet to be told."""

    def __init__(self, news: asyncio.Event) -> None:
        self._news = news
        self._pieces: deque[Delta] = deque(maxlen=_MOST)
        self.missed = False
        """Whether something was dropped: what is still here does not follow on what was taken."""

    def put(self, piece: Delta) -> None:
        """Keep a piece until the client takes it."""
        self.missed = self.missed or len(self._pieces) == _MOST
        self._pieces.append(piece)
        self._news.set()

    def take(self) -> Iterator[Delta]:
        """Yield what has come."""
        while self._pieces:
            yield self._pieces.popleft()


class Deltas:
    """Passes on what is said to those who listen to the run."""

    def __init__(self) -> None:
        self._ears: dict[str, set[Ear]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to pass on, in this loop."""
        self._loop = loop

    def hear(self, run: str, task: str, step: str, text: str) -> None:
        """Take what was said; called from any thread."""
        if self._loop is None or run not in self._ears:
            return
        self._loop.call_soon_threadsafe(self._pass_on, run, Delta(task, step, text))

    def _pass_on(self, run: str, piece: Delta) -> None:
        for ear in self._ears.get(run, ()):
            ear.put(piece)

    @contextmanager
    def listening(self, run: str, news: asyncio.Event) -> Iterator[Ear]:
        """Keep what is said in a run for one client, and tell it by an event."""
        with joining(self._ears, run, Ear(news)) as ear:
            yield ear
