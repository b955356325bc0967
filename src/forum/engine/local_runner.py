"""A runner within one event loop, with no memory of its own: for turns, replays and tests."""

import asyncio
from collections.abc import Coroutine
from typing import Protocol

from forum.engine.ports import Runner


class EnginePort(Protocol):
    """Who is called."""

    async def drive_run(self, run: str, runner: Runner) -> None:
        """Go on with a run."""
        ...

    async def drive_task(self, run: str, task: str) -> None:
        """Go on with a task."""
        ...


class LocalRunner:
    """Calls the engine at once."""

    def __init__(self, engine: EnginePort) -> None:
        self._engine = engine
        self._running: dict[tuple[str, ...], asyncio.Task[None]] = {}
        self._requeued: set[str] = set()
        self._ended: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()

    async def enqueue_run(self, run: str) -> None:
        """Drive a run; where that is going on, once more: it may be over but for its end."""
        if (run,) in self._running:
            self._requeued.add(run)
        else:
            self._start((run,), self._engine.drive_run(run, self))

    async def enqueue_tasks(self, run: str, tasks: tuple[str, ...]) -> None:
        """Drive these tasks, but for those that are being driven."""
        for task in tasks:
            self._start((run, task), self._engine.drive_task(run, task))

    async def wait_until_idle(self) -> None:
        """Wait until nothing is going on any more; what goes wrong ends the rest, and is raised."""
        try:
            while self._running or self._ended:
                await self._changed.wait()
                self._changed.clear()
                self._take_results()
        finally:
            await self.cancel_all()

    def raise_failures(self) -> None:
        """Raise what went wrong, once nothing is going on: what others pay for is not cut off."""
        if not self._running:
            self._take_results()

    def _take_results(self) -> None:
        while self._ended:
            self._ended.pop().result()

    async def cancel_all(self) -> None:
        """End what is going on."""
        left = list(self._running.values())
        for task in left:
            task.cancel()
        await asyncio.gather(*left, *self._ended, return_exceptions=True)

    def _start(self, key: tuple[str, ...], work: Coroutine[None, None, None]) -> None:
        if key in self._running:
            work.close()
            return
        task = self._running[key] = asyncio.ensure_future(work)
        task.add_done_callback(lambda done: self._end(key, done))

    def _end(self, key: tuple[str, ...], done: asyncio.Task[None]) -> None:
        del self._running[key]
        self._ended.append(done)
        if len(key) == 1 and key[0] in self._requeued:
            self._requeued.remove(key[0])
            self._start(key, self._engine.drive_run(key[0], self))
        self._changed.set()
