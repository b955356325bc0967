"""How many tasks hold a slot at once, while that number changes."""

import asyncio

from forum.engine.worker_slots import TaskLimit


async def hold(limit: TaskLimit, held: list[int], number: int) -> None:
    """Take a slot, and keep it."""
    await limit.acquire()
    held.append(number)


async def settle() -> None:
    """Let all tasks go on as far as they can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def start(limit: TaskLimit, number: int) -> tuple[list[asyncio.Task[None]], list[int]]:
    """Let tasks ask for slots."""
    held: list[int] = []
    tasks = [asyncio.ensure_future(hold(limit, held, nth)) for nth in range(number)]
    await settle()
    return tasks, held


def test_a_limit_that_changes_holds_for_those_who_wait() -> None:
    """More slots admit the next ones in their order; fewer admit nobody until enough are free."""

    async def play() -> list[list[int]]:
        limit, seen = TaskLimit(2), []
        _, held = await start(limit, 6)
        seen.append([*held])
        limit.resize(4)
        await settle()
        seen.append([*held])
        limit.resize(1)
        for _ in range(3):
            limit.release()
        await settle()
        seen.append([*held])
        limit.release()
        await settle()
        return [*seen, held]

    assert asyncio.run(play()) == [[0, 1], [0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3, 4]]


def test_a_task_that_is_cancelled_as_it_is_admitted_keeps_no_slot() -> None:
    """Else slots would be lost one by one, and in the end nothing would begin."""

    async def play() -> list[int]:
        limit = TaskLimit(1)
        tasks, held = await start(limit, 4)
        tasks[2].cancel()  # while it waits
        limit.release()
        tasks[1].cancel()  # admitted, and not resumed yet
        await settle()
        return held

    assert asyncio.run(play()) == [0, 3]
