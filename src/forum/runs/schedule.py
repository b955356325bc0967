"""Decide the next steps of a run from its plan and its recorded state.

All functions are pure: a worker that takes a run over decides the same from the same record.
"""

from collections.abc import Iterator

import msgspec

from forum.runs import kinds
from forum.runs.plan import Plan
from forum.runs.policy import Policy
from forum.runs.run_fold import Run, TaskState

STOP_CAUSE = "stop"
"""The cause of a skipped task if no other task caused the skip."""
MAX_CHECK_ATTEMPTS = 3
"""How often a read-only tool is run if its worker dies each time."""

_STARTABLE_STATES = frozenset({TaskState.PENDING, TaskState.RUNNING})


class NextSteps(msgspec.Struct, frozen=True):
    """Tasks to skip and tasks to start."""

    skip: tuple[tuple[str, kinds.SkipFacts], ...] = ()
    start: tuple[str, ...] = ()


def next_steps(plan: Plan, run: Run, policy: Policy, started: frozenset[str]) -> NextSteps:
    """Return which tasks to skip and which to start, in plan order.

    A task starts as soon as all its upstream tasks have passed and a slot is free; there is no
    barrier between levels of the plan. Tasks that have begun come first: after a takeover they fill
    the slots, so that new tasks cannot exceed the parallelism limit.
    """
    if run.stopped is not None or run.cancelled:
        return _wind_up(plan, run, started)
    # The driver removes tasks that wait, for example for approval, from `started`: they must not
    # occupy slots.
    room = policy.parallel - len(started)
    skip, start = [], []
    for task in sorted(plan.tasks, key=lambda task: task.id not in run.tasks):
        if task.id in started or run.task(task.id).state not in _STARTABLE_STATES:
            continue
        cause = _blocked_by(plan, run, task.id)
        if cause is not None:
            # Names the direct upstream task, so that a reader can follow a chain of skips to its
            # origin.
            skip.append((task.id, kinds.SkipFacts(cause)))
        elif room > 0 and _is_ready(plan, run, task.id):
            start.append(task.id)
            room -= 1
    return NextSteps(tuple(skip), tuple(start))


def _wind_up(plan: Plan, run: Run, started: frozenset[str]) -> NextSteps:
    """Skip tasks that have not begun, and start the others so that they can end.

    A task that waits for the outcome of a tool use keeps waiting: stopping the run does not settle
    whether the effect happened.
    """
    left = [name for name in unfinished_tasks(plan, run) if name not in started]
    skip = tuple((name, kinds.SkipFacts(STOP_CAUSE)) for name in left if name not in run.tasks)
    active = (name for name in left if name in run.tasks)
    return NextSteps(skip, tuple(n for n in active if run.task(n).state is not TaskState.WAITING))


def _blocked_by(plan: Plan, run: Run, task: str) -> str | None:
    for name in plan.by_id[task].upstream:
        state = run.task(name).state
        if state.is_end and state is not TaskState.PASSED:
            return name
    return None


def _is_ready(plan: Plan, run: Run, task: str) -> bool:
    upstream = plan.by_id[task].upstream
    return all(run.task(name).state is TaskState.PASSED for name in upstream)


def is_finished(plan: Plan, run: Run) -> bool:
    """Tell whether every task has ended."""
    return all(run.task(task.id).state.is_end for task in plan.tasks)


def unfinished_tasks(plan: Plan, run: Run) -> Iterator[str]:
    """Return the names of the tasks that have not ended."""
    return (task.id for task in plan.tasks if not run.task(task.id).state.is_end)


def final_results(plan: Plan, state: Run) -> list[str]:
    """Return the passed tasks whose results no other passed task has used, in plan order."""
    passed = {t.id for t in plan.tasks if state.task(t.id).state is TaskState.PASSED}
    return [t.id for t in plan.tasks if t.id in passed and passed.isdisjoint(plan.dependants[t.id])]
