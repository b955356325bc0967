"""A runner within one event loop, without a durable queue: for turns, replays and tests."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Protocol

from forum.engine.ports import ClaimedRun


class EnginePort(Protocol):
    """The methods of the engine that a runner calls."""

    def drive(self, claim: ClaimedRun) -> AsyncGenerator[tuple[str, ...], None]:
        """Drive a run until it has ended or waits; yield the tasks that are to be driven."""
        ...

    async def drive_task(self, run: str, task: str) -> None:
        """Drive a task until it has ended or waits."""
        ...


class LocalRunner:
    """Calls the engine immediately, in asyncio tasks of the current event loop."""

    def __init__(self, engine: EnginePort) -> None:
        self._engine = engine
        self._running: dict[tuple[str, ...], asyncio.Task[None]] = {}
        self._requeued: set[str] = set()
        self._ended: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()

    def enqueue_run(self, run: str) -> None:
        """Drive a run; if it is being driven, drive it once more afterwards.

        Its current driver may already have made its last look at the ledger.
        """
        if (run,) in self._running:
            self._requeued.add(run)
        else:
            self._start((run,), self._drive(run))

    def enqueue_tasks(self, run: str, tasks: tuple[str, ...]) -> None:
        """Drive these tasks, except those that are being driven."""
        for task in tasks:
            self._start((run, task), self._engine.drive_task(run, task))

    async def _drive(self, run: str) -> None:
        async with aclosing(self._engine.drive(ClaimedRun(run))) as wanted:
            async for tasks in wanted:
                self.enqueue_tasks(run, tasks)

    async def wait_until_idle(self) -> None:
        """Wait until nothing is running; on the first failure cancel the rest, and raise it."""
        try:
            while self._running or self._ended:
                await self._changed.wait()
                self._changed.clear()
                self._take_results()
        finally:
            await self.cancel_all()

    def raise_failures(self) -> None:
        """Raise a failure once nothing is running, so that paid calls of others are not cut off."""
        if not self._running:
            self._take_results()

    def _take_results(self) -> None:
        while self._ended:
            self._ended.pop().result()

    async def cancel_all(self) -> None:
        """Cancel everything that is running, and wait until it has ended."""
        left = list(self._running.values())
        for task in left:
            task.cancel()
        await asyncio.gather(*left, *self._ended, return_exceptions=True)

    def _start(self, key: tuple[str, ...], work: Coroutine[None, None, None]) -> None:
        if key in self._running:
            work.close()  # or Python warns that the coroutine was never awaited
            return
        task = self._running[key] = asyncio.ensure_future(work)
        task.add_done_callback(lambda done: self._end(key, done))

    def _end(self, key: tuple[str, ...], done: asyncio.Task[None]) -> None:
        del self._running[key]
        self._ended.append(done)
        if len(key) == 1 and key[0] in self._requeued:
            self._requeued.remove(key[0])
            self._start(key, self._drive(key[0]))
        self._changed.set()
