"""Plans as large as people write them, and a memory that does not grow with them."""

from pathlib import Path

import pytest

from forum.engine import RunRequest
from forum.ledger.kinds import Outcome
from forum.runs.plan import Plan, Task
from forum.runs.policy import Policy
from forum.runs.run_fold import TaskState
from tests.e2e.project import Project

MEMORY_MB = 200


def wide(tasks: int) -> Plan:
    """Return a tree of tasks in which each feeds ten others."""
    return Plan(
        tuple(Task(f"t{i}", "Say it.", needs=(f"t{i // 10}",) if i else ()) for i in range(tasks))
    )


def deep(levels: int) -> Plan:
    """Return a chain of tasks."""
    return Plan(
        tuple(Task(f"t{i}", "Say it.", needs=(f"t{i - 1}",) if i else ()) for i in range(levels))
    )


def peak_of(pid: int) -> int:
    """Return the most memory that a process ever had, in megabytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1024


@pytest.mark.slow
@pytest.mark.parametrize(
    ("home", "plan"),
    [
        pytest.param("sqlite", wide(1000), id="sqlite-1000-tasks"),
        pytest.param("postgres", deep(200), marks=pytest.mark.postgres, id="postgres-200-levels"),
        pytest.param("sqlite", deep(200), marks=pytest.mark.nightly, id="sqlite-200-levels"),
        pytest.param(
            "postgres",
            wide(1000),
            marks=(pytest.mark.postgres, pytest.mark.nightly),
            id="postgres-1000-tasks",
        ),
    ],
    indirect=["home"],
)
def test_a_large_plan_is_carried_out_with_little_memory(home: Project, plan: Plan) -> None:
    """Nothing on the way may hold the whole of it again for every task."""
    with home.worker() as worker:
        run = home.submit(RunRequest("All of it.", plan, Policy(parallel=64)))
        state = home.wait(run, seconds=240)
        peak = peak_of(worker.pid)

    assert state.outcome is Outcome.OK
    assert {task.state for task in state.tasks.values()} == {TaskState.PASSED}
    assert len(state.tasks) == len(plan.tasks)
    assert peak < MEMORY_MB, f"{peak} MB"
