"""Looking after very many runs: nobody is forgotten, and nobody is kept from stopping."""

import asyncio

from forum.engine import RunRequest
from forum.runs.plan import single_task_plan
from tests.engine.office import Office
from tests.support import StoreFactory


def test_a_long_backlog_is_handed_on_piece_by_piece(office: Office) -> None:
    """A worker that is to stop must not first hand on whatever waits."""
    names = [f"run-{n:03}" for n in range(250)]
    for name in names:
        office.accept(RunRequest("Go.", single_task_plan("Go.")), name)
    queue = list[str]()
    more = [asyncio.run(office.dispatch_due_runs(queue.append)) for _ in range(6)]
    at_first = list(queue)
    asyncio.run(office.dispatch_due_runs(queue.append))

    assert more == [True] * 5 + [False]
    assert at_first == names
    assert queue == names  # they wait in the queue now, and are left alone for a while


def test_workers_that_look_at_the_same_time_hand_on_each_run_once(factory: StoreFactory) -> None:
    """Otherwise a run costs more, the more workers there are."""
    offices, queue = [Office(factory()) for _ in range(3)], list[str]()
    names = [f"run-{n:03}" for n in range(120)]
    for name in names:
        offices[0].accept(RunRequest("Go.", single_task_plan("Go.")), name)

    async def attend_all() -> None:
        await asyncio.gather(*(office.dispatch_due_runs(queue.append) for office in offices))

    asyncio.run(attend_all())

    assert sorted(queue) == names


def test_an_alarm_may_ring_for_days(office: Office) -> None:
    """A run that is driven elsewhere is never driven here: the pauses end at a heartbeat."""
    office.accept(RunRequest("Go.", single_task_plan("Go.")), "run")
    queue = list[str]()
    for _ in range(1500):
        asyncio.run(office.dispatch_due_runs(queue.append))
        office.store.reschedule(office.store.timers(None, 10, due=False), 0)

    assert len(queue) == 1500
