"""A worker that claims runs in the ledger: how many, for how long, and what it does not begin."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from forum.config import WorkerCapacity
from forum.engine import RunRequest
from forum.ledger.kinds import Outcome
from forum.ledger.ports import RunClaim
from forum.work.plan import Plan, Task, single_task_plan
from forum.work.policy import Policy, Scripted, ScriptStep
from forum.work.run_fold import TaskRun
from tests.e2e.project import Project, eventually, project


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Project]:
    """Make a project whose workers claim runs, in each database that we have."""
    database = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    with project(tmp_path / "project", database, runner="claims") as made:
        yield made


def slow(milliseconds: int) -> Policy:
    """Return a policy whose calls take so long."""
    return Policy(agents={"": Scripted({"*": (ScriptStep("done", milliseconds=milliseconds),)})})


def tasks_of(home: Project, run: str) -> Mapping[str, TaskRun]:
    """Return what has become of the tasks of a run."""
    return home.forum.reads.read_run(run).tasks


def claim_as(home: Project, worker: str) -> set[str]:
    """Have another worker claim whatever it can get."""
    claim = RunClaim(worker=worker, limit=9, own_limit=9, anew=0, shortest=0.0, longest=0.0)
    home.forum.store.renew_lease(worker, 60.0)
    return {timer.run for timer in home.forum.store.claim_runs(claim)}


def test_no_more_runs_are_claimed_than_there_is_room_for(home: Project) -> None:
    """The others are left to workers that have room."""
    order = RunRequest("Go.", single_task_plan("Go."), slow(1500))
    first = home.submit(order)
    with home.forum.runs.run_worker(WorkerCapacity(runs=1, tasks=4)):
        eventually(lambda: bool(tasks_of(home, first)))
        second = home.submit(order)
        claimed = claim_as(home, "other")
        home.forum.store.release_runs("other", [second])
        states = [home.end(run) for run in (first, second)]

    assert claimed == {second}
    assert [state.outcome for state in states] == [Outcome.OK, Outcome.OK]


def test_a_worker_that_stops_hands_its_runs_over_at_once(home: Project) -> None:
    """Nobody waits for its lease to end, or for the timers that it has put off."""
    run = home.submit(RunRequest("Go.", single_task_plan("Go."), slow(60_000)))
    with home.forum.runs.run_worker() as worker:
        eventually(lambda: bool(tasks_of(home, run)))
        while_it_works = claim_as(home, "other")
    afterwards = claim_as(home, "other")

    assert (while_it_works, afterwards) == (set(), {run})
    assert worker.id not in home.forum.store.workers()


def test_a_cancelled_run_begins_no_further_call(home: Project) -> None:
    """Its tasks are driven where the run is: they must look for a cancellation all the same."""
    tasks = [Task(name, "Go.") for name in "abcdef"]
    policy = slow(60_000)
    run = home.submit(RunRequest("Go.", Plan(tuple(tasks)), policy))
    with home.forum.runs.run_worker(WorkerCapacity(runs=4, tasks=2)):
        eventually(lambda: sum(len(task.calls) for task in tasks_of(home, run).values()) == 2)
        home.forum.runs.cancel(run)
        state = home.end(run)

    assert state.outcome is Outcome.CANCELLED
    assert sum(len(task.calls) for task in state.tasks.values()) == 2
