"""A worker that claims runs in the ledger: how many, for how long, and what it does not begin."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from forum.config import WorkerCapacity
from forum.engine import RunRequest
from forum.ledger.kinds import Outcome
from forum.ledger.ports import RunClaim
from forum.runs.plan import Plan, Task, single_task_plan
from forum.runs.policy import Policy, Scripted, ScriptStep
from forum.runs.run_fold import TaskRun
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


def count_calls(home: Project, run: str) -> int:
    """Return how many calls of a run have begun."""
    return sum(len(task.calls) for task in tasks_of(home, run).values())


def claim_as(home: Project, worker: str) -> set[str]:
    """Have another worker claim whatever it can get."""
    claim = RunClaim(worker=worker, limit=9, own_limit=9, anew=0, shortest=0.0, longest=0.0)
    home.forum.store.renew_lease(worker, 60.0)
    return {timer.run for timer in home.forum.store.claim_runs(claim)}


def test_no_more_runs_are_claimed_than_there_is_room_for(home: Project) -> None:
    """The others are left to workers that have room."""
    request = RunRequest("Go.", single_task_plan("Go."), slow(1500))
    first = home.submit(request)
    with home.forum.runs.run_worker(WorkerCapacity(runs=1, tasks=4)):
        eventually(lambda: bool(tasks_of(home, first)))
        second = home.submit(request)
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
        eventually(lambda: count_calls(home, run) == 2)
        home.forum.runs.cancel(run)
        state = home.end(run)

    assert state.outcome is Outcome.CANCELLED
    assert count_calls(home, run) == 2


MAX_IDLE_CONNECTIONS = 4
CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
LOCK = "SELECT pg_advisory_lock(hashtext('forum.worker'), hashtext(%s))"
WORKER_LOCKS = """
FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2
AND classid = (hashtext('forum.worker')::bigint & 4294967295)::oid
AND objid = (hashtext(%s)::bigint & 4294967295)::oid
"""
COUNT_WAITING = f"SELECT count(*) {WORKER_LOCKS} AND NOT granted"
END_HOLDER = f"SELECT count(pg_terminate_backend(pid)) {WORKER_LOCKS} AND granted"


@pytest.mark.postgres
def test_a_worker_gives_its_connections_back_soon_after_its_work(
    tmp_path: Path, postgres_url: str
) -> None:
    """Many workers share a server whose connections are few."""
    url = make_conninfo(postgres_url, application_name=tmp_path.name)
    with (
        project(tmp_path / "project", url, runner="claims") as home,
        psycopg.connect(postgres_url, autocommit=True) as db,
        home.forum.runs.run_worker(),
    ):

        def connections() -> int:
            row = db.execute(CONNECTIONS, (tmp_path.name,)).fetchone()
            assert row
            return int(row[0])

        request = RunRequest("Go.", single_task_plan("Go."), slow(1))
        runs = [home.submit(request) for _ in range(30)]
        eventually(lambda: connections() > MAX_IDLE_CONNECTIONS)
        for run in runs:
            home.end(run)
        eventually(lambda: connections() <= MAX_IDLE_CONNECTIONS, seconds=8)


@pytest.mark.postgres
def test_a_worker_without_its_lock_begins_no_call(tmp_path: Path, postgres_url: str) -> None:
    """Others may think that it is gone, and begin the same call."""
    plan = Plan((Task("first", "Go."), Task("second", "Go.", needs=("first",))))
    with (
        project(tmp_path / "project", postgres_url, runner="claims") as home,
        psycopg.connect(postgres_url, autocommit=True) as db,
        ThreadPoolExecutor(1) as threads,
        home.forum.runs.run_worker() as worker,
    ):
        started = home.submit(RunRequest("Go.", plan, slow(1000)))
        eventually(lambda: count_calls(home, started) == 1)
        # Granted when the session of the worker is gone; until then the worker cannot hold its own.
        with psycopg.connect(postgres_url, autocommit=True) as holder:
            # Whatever fails here, the statement ends: the connection is not closed before.
            holder.execute("SET lock_timeout = '10s'")
            waiting = threads.submit(holder.execute, LOCK, (worker.id,))
            eventually(lambda: db.execute(COUNT_WAITING, (worker.id,)).fetchone() == (1,))
            assert db.execute(END_HOLDER, (worker.id,)).fetchone() == (1,)
            waiting.result(timeout=10)
            fresh = home.submit(RunRequest("Go.", single_task_plan("Go."), slow(1)))
            eventually(lambda: tasks_of(home, started)["first"].state.is_end)
            sleep(1.5)
            meanwhile = claim_as(home, "other")
            calls = count_calls(home, started)
            home.forum.store.release_runs("other", [fresh])
            home.forum.store.renew_lease("other", 0)
        ends = [home.end(run) for run in (started, fresh)]

    assert calls == 1
    assert meanwhile == {fresh}
    assert [state.outcome for state in ends] == [Outcome.OK, Outcome.OK]
