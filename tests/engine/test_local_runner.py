"""The runner of replays and tests: nothing is forgotten, and nothing goes wrong in silence."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import cast

import pytest

from forum.engine import ClaimedRun, Engine, LocalRunner
from forum.engine.signals import RunSignals
from tests.support import Wrapped

DriveRun = Callable[[ClaimedRun], AsyncIterator[tuple[str, ...]]]
DriveTask = Callable[[str, str], Awaitable[None]]


def runner_of(drive: DriveRun, drive_task: DriveTask) -> LocalRunner:
    """Return a runner of an engine that works like this."""
    return LocalRunner(cast(Engine, Wrapped(object(), drive=drive, drive_task=drive_task)))


def test_what_goes_wrong_in_a_task_is_raised_while_its_run_goes_on() -> None:
    """A run whose task cannot be played again would wait for it for ever."""
    ended: list[str] = []

    async def drive(claim: ClaimedRun) -> AsyncIterator[tuple[str, ...]]:
        try:
            yield ("a", "b")
            await asyncio.sleep(60)
        finally:
            ended.append(claim.run)

    async def drive_task(_run: str, task: str) -> None:
        await asyncio.sleep(0.01)
        raise LookupError(task)

    async def play() -> None:
        runner = runner_of(drive, drive_task)
        runner.enqueue_run("run")
        await runner.wait_until_idle()

    with pytest.raises(LookupError):
        asyncio.run(asyncio.wait_for(play(), 10))
    assert ended == ["run"], "nothing goes on behind the back of who was told"


def test_a_run_that_is_asked_for_while_it_goes_on_is_driven_once_more() -> None:
    """It may be over but for its end; a task that goes on is not driven twice."""
    driven: list[str] = []
    runners: list[LocalRunner] = []

    async def drive(claim: ClaimedRun) -> AsyncIterator[tuple[str, ...]]:
        driven.append(claim.run)
        if len(driven) == 1:
            for _ in range(3):
                runners[0].enqueue_run(claim.run)
                yield ("a",)
        await asyncio.sleep(0.01)

    async def drive_task(_run: str, task: str) -> None:
        driven.append(task)
        await asyncio.sleep(0.01)

    async def play() -> None:
        runner = runner_of(drive, drive_task)
        runners.append(runner)
        runner.enqueue_run("run")
        await runner.wait_until_idle()
        await runner.wait_until_idle()

    asyncio.run(play())

    assert sorted(driven) == ["a", "run", "run"]


def test_a_cancelled_driver_ends_in_the_moment_in_which_it_is_told_something() -> None:
    """Until Python 3.12 a timeout of asyncio could swallow the cancellation of who waits."""

    async def play() -> None:
        signals = RunSignals()

        async def listen() -> None:
            with signals.listen("run") as attention:
                while True:
                    await attention.wait_for_signal(60)

        for _ in range(20):
            listening = asyncio.ensure_future(listen())
            await asyncio.sleep(0)
            signals.notify("run")
            await asyncio.sleep(0)
            listening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(listening, 5)

    asyncio.run(play())
