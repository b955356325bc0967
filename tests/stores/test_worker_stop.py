"""A worker that is stopped while one of its queues hands it work."""

import time
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import pytest
from dbos import DBOS, _queue
from dbos._core import execute_dequeued_workflow
from dbos._event_loop import BackgroundEventLoop
from dbos._sys_db import WorkflowStatusInternal

from forum.engine import RunRequest
from forum.runs.plan import single_task_plan
from tests.e2e.project import project

MAX_SECONDS = 5.0


@pytest.mark.postgres
def test_a_worker_that_has_just_dequeued_a_run_ends_in_time(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that hands a run to an event loop which ends at that moment waits for ever."""
    dequeued, stopped = Event(), Event()
    shut_down = BackgroundEventLoop._shutdown  # noqa: SLF001  the moment has no public name

    def execute_late(dbos: DBOS, status: WorkflowStatusInternal, owner: str) -> None:
        dequeued.set()
        stopped.wait(0.5)
        execute_dequeued_workflow(dbos, status, owner)

    async def shut_down_slowly(loop: BackgroundEventLoop) -> None:
        await shut_down(loop)
        stopped.set()
        time.sleep(0.2)  # noqa: ASYNC251  the loop is to hold on here: it takes calls, and runs none

    monkeypatch.setattr(_queue, "execute_dequeued_workflow", execute_late)
    monkeypatch.setattr(BackgroundEventLoop, "_shutdown", shut_down_slowly)
    with project(tmp_path, postgres_url, runner="dbos") as home, ExitStack() as serving:
        serving.enter_context(home.forum.runs.run_worker())
        home.submit(RunRequest("Go.", single_task_plan("Go.")))
        assert dequeued.wait(20)
        begun = time.monotonic()
        serving.close()
        seconds = time.monotonic() - begun

    assert seconds < MAX_SECONDS
