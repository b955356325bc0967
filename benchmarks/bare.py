"""Plans on bare DBOS, as one would write them who needs no ledger: `python -m benchmarks.bare URL`.

A run is a workflow that enqueues one workflow for each task, as soon as those before it have
ended; a task is a workflow with one step, which does nothing.  Queues, limits and polling are those
of Forum's own worker, on a database of the same durability.  Other ways were tried, and this one is
the fastest: tasks as coroutines, `DBOS.wait_first`, one handle after the other, messages to the
run, and other pauses.

`bare-steps` is the least that DBOS can do with a plan: every task is a step of the one workflow.
No other process can share that work; it is here as a bound.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from dbos import DBOS, EnqueueOptions

from benchmarks.plans import Needs
from forum.config import WorkerCapacity

VERSION = "1"
RUNS, TASKS = "bare-runs", "bare-tasks"
POLL_INTERVAL_S = 0.1
LIMITS = {
    RUNS: (WorkerCapacity().runs, POLL_INTERVAL_S),
    TASKS: (WorkerCapacity().tasks, POLL_INTERVAL_S),
}
ONE_TASK: EnqueueOptions = {
    "workflow_name": "bare-task",
    "queue_name": TASKS,
    "app_version": VERSION,
}
LOOK_SECONDS = 0.1
"""How often a run looks for the end of a task."""

Ends = list[Coroutine[Any, Any, tuple[str, str]]]
"""The ends of some tasks, each with what the task has said."""


@DBOS.step()
def do_nothing(task: str, inputs: list[str]) -> str:
    """Answer at once."""
    return f"{task} after {len(inputs)}"


@DBOS.workflow(name="bare-task", max_recovery_attempts=None)
def one_task(task: str, inputs: list[str]) -> tuple[str, str]:
    """Carry out one task."""
    return task, do_nothing(task, inputs)


@DBOS.workflow(name="bare-run", max_recovery_attempts=None)
async def one_run(needs: Needs) -> int:
    """Carry out a plan with a workflow for each task: any process may run it."""

    async def start(ready: list[tuple[str, list[str]]]) -> Ends:
        handles = await asyncio.gather(
            *(DBOS.enqueue_workflow_with_options_async(ONE_TASK, *task) for task in ready)
        )
        return [handle.get_result(polling_interval_sec=LOOK_SECONDS) for handle in handles]

    return await carry_out(needs, start)


@DBOS.step()
async def do_nothing_here(task: str, inputs: list[str]) -> tuple[str, str]:
    """Answer at once, within the workflow that asks."""
    return task, f"{task} after {len(inputs)}"


@DBOS.workflow(name="bare-steps", max_recovery_attempts=None)
async def steps_only(needs: Needs) -> int:
    """Carry out a plan within this process, with a step for each task."""

    async def start(ready: list[tuple[str, list[str]]]) -> Ends:
        return [do_nothing_here(*task) for task in ready]

    return await carry_out(needs, start)


async def carry_out(
    needs: Needs, start: Callable[[list[tuple[str, list[str]]]], Awaitable[Ends]]
) -> int:
    """Start each task as soon as those before it have ended; return how many have."""
    outputs: dict[str, str] = {}
    left = dict(needs)
    going: list[asyncio.Future[tuple[str, str]]] = []
    while left or going:
        ready = [task for task, before in left.items() if outputs.keys() >= set(before)]
        for task in ready:
            del left[task]
        inputs = [(task, [outputs[name] for name in needs[task]]) for task in ready]
        going += [asyncio.ensure_future(end) for end in await start(inputs)]
        # This way of waiting is recorded, so that a run which is recovered goes on the same way.
        done, _ = await DBOS.asyncio_wait(list(going), return_when=asyncio.FIRST_COMPLETED)
        outputs |= dict(end.result() for end in done)
        going = [end for end in going if end not in done]
    return len(outputs)


def main(url: str) -> None:
    """Serve until the standard input ends."""
    DBOS(
        config={
            "name": "bare",
            "system_database_url": url,
            "executor_id": "bare",
            "application_version": VERSION,
            "use_listen_notify": False,
            "log_level": "CRITICAL",
        }
    )
    DBOS.launch()
    for queue, (most, pause) in LIMITS.items():
        DBOS.register_queue(queue, worker_concurrency=most, polling_interval_sec=pause)
    print("ready", flush=True)
    sys.stdin.read()
    DBOS.destroy()


if __name__ == "__main__":
    main(sys.argv[1])
