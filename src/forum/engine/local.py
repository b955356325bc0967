"""A runner within one event loop, with no memory of its own: for replays and for tests."""

import asyncio
from collections.abc import Coroutine

from forum.engine.engine import Engine


class LocalRunner:
    """Calls the engine at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._going: dict[tuple[str, ...], asyncio.Task[None]] = {}

    async def enqueue_run(self, run: str) -> None:
        """Drive a run, unless that is going on."""
        self._start((run,), self._engine.drive_run(run, self))

    async def enqueue_tasks(self, run: str, tasks: tuple[str, ...]) -> None:
        """Drive these tasks, but for those that are being driven."""
        for task in tasks:
            self._start((run, task), self._engine.drive_task(run, task))

    async def finish(self) -> None:
        """Wait until nothing is going on any more; raise what went wrong."""
        while self._going:
            done, _ = await asyncio.wait(self._going.values(), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()

    def _start(self, key: tuple[str, ...], work: Coroutine[None, None, None]) -> None:
        if key in self._going:
            work.close()
            return
        task = asyncio.ensure_future(work)
        self._going[key] = task
        task.add_done_callback(lambda _: self._going.pop(key))
