"""Tasks of large plans, which any worker may drive."""

import asyncio

import pytest

from forum.engine import Engine, RunRequest, context
from forum.engine.local_runner import LocalRunner
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.ports import Timer
from forum.runs.shared_tasks import key_of
from tests.engine.office import RUN, Office, chain, quick, until

KEY = key_of(RUN, "a")


@pytest.fixture(autouse=True)
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Share the tasks of every plan."""
    monkeypatch.setattr(context, "MAX_OWN_TASKS", 0)


def postpone(office: Office) -> Timer:
    """Set the timer of the task as a worker leaves it that has claimed it."""
    office.store.set_timers([Timer(KEY, MAIN_STRAND, 2**52)])
    timer = office.store.timer(KEY, MAIN_STRAND)
    assert timer
    return timer


def drive_task(office: Office) -> None:
    """Drive the task as a worker does that has claimed it."""

    async def drive() -> None:
        runner = LocalRunner(office.engine)
        runner.enqueue_run(KEY)
        await runner.wait_until_idle()

    asyncio.run(drive())


def test_a_worker_that_is_refused_leaves_the_timer(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one drives the task: if that one dies, the timer is what others find."""

    async def be_refused(engine: Engine, run: str, task: str) -> None:
        """Return as a worker does that another one has overtaken."""

    office.accept(RunRequest("x", chain("a"), quick()))
    timer = postpone(office)
    monkeypatch.setattr(Engine, "drive_task", be_refused)
    drive_task(office)

    assert office.store.timer(KEY, MAIN_STRAND) == timer


def test_a_worker_that_has_ended_a_task_clears_its_timer(office: Office) -> None:
    """Nobody has to look at it again."""
    office.accept(RunRequest("x", chain("a"), quick()))
    postpone(office)
    drive_task(office)

    assert office.store.timer(KEY, MAIN_STRAND) is None


def test_a_timer_that_is_lost_is_set_again(office: Office) -> None:
    """Whatever has become of it, a task that has not ended is started again by its run."""
    office.accept(RunRequest("x", chain("a"), quick()))

    async def drive() -> None:
        runner = LocalRunner(office.engine)
        runner.enqueue_run(RUN)
        await until(lambda: office.store.timer(KEY, MAIN_STRAND) is not None)
        office.store.set_timers([Timer(KEY, MAIN_STRAND, None)])
        await until(lambda: office.store.timer(KEY, MAIN_STRAND) is not None)
        await runner.cancel_all()

    asyncio.run(drive())
