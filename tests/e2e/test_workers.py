"""Workers in places where things are not as on the first machine."""

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from forum.engine import RunRequest
from forum.engine.context import MAX_OWN_TASKS
from forum.ledger.kinds import Outcome
from forum.runs.plan import Plan, Task, single_task_plan
from forum.runs.policy import Answer, Policy, Scripted, ScriptStep
from tests.e2e.project import ALL_HOMES, ALL_RUNNERS, Project, eventually, project


@pytest.mark.postgres
@ALL_RUNNERS
def test_a_worker_on_a_machine_that_does_not_sign_carries_runs_out(
    tmp_path: Path, postgres_url: str, runner: str
) -> None:
    """Only one machine remembers what it signed; work must not depend on that one being up."""
    with project(tmp_path / "project", postgres_url, runner=runner) as home:
        elsewhere = replace(
            home,
            environ={
                **home.environ,
                "FORUM_STATE_DIR": str(tmp_path / "elsewhere"),
                "FORUM_KEY_FILE": str(home.forum.settings.key_file),
            },
        )
        run = home.submit(RunRequest("Go.", single_task_plan("Go.")))
        with elsewhere.worker():
            state = home.end(run)
        home.forum.log.publish()
        report = home.forum.log.verify(home.forum.log.read_trust())

    assert state.outcome is Outcome.OK
    assert report.ok, report.findings
    assert not list((tmp_path / "elsewhere").rglob("guard.note"))


@ALL_HOMES
def test_a_worker_that_is_stopped_politely_ends_its_calls_first(home: Project) -> None:
    """Others must not think it dead meanwhile: every deploy would pay for its calls again."""
    slow = Scripted({"*": (ScriptStep("done", milliseconds=5000),)})
    with home.worker() as first:
        run = home.submit(RunRequest("Go.", single_task_plan("Go."), Policy(agents={"": slow})))
        eventually(lambda: bool(home.forum.reads.read_run(run).tasks))
        with home.worker():
            first.send_signal(signal.SIGTERM)
            state = home.end(run)
        status = first.wait()

    assert status == 0
    assert state.outcome is Outcome.OK
    assert len(state.tasks["answer"].calls) == 1


@ALL_HOMES
def test_what_is_held_by_one_without_a_lease_is_handed_on(home: Project) -> None:
    """Whoever wakes up after its lease was dropped may take work, and die before it has a new one.

    No lease runs out then, and the queues take the work for being done: it would wait for ever.
    """
    slow = Scripted({"*": (ScriptStep("done", milliseconds=2000),)})
    with home.worker() as worker:
        run = home.submit(RunRequest("Go.", single_task_plan("Go."), Policy(agents={"": slow})))
        eventually(lambda: bool(home.forum.reads.read_run(run).tasks))
        worker.kill()
        worker.wait()
    for name in home.forum.store.workers():
        home.forum.store.release_lease(name)
    with home.worker():
        state = home.end(run)

    assert state.outcome is Outcome.OK


@ALL_HOMES
def test_another_worker_goes_on_with_the_runs_of_one_that_was_killed(home: Project) -> None:
    """It finds a call without a reply, says that it was lost, and makes it again."""
    slow = Scripted({"*": (ScriptStep("done", milliseconds=1500),)})
    plan = Plan((Task("a", "Go."), Task("b", "Go.", needs=("a",))))
    with home.worker() as first:
        run = home.submit(RunRequest("Go.", plan, Policy(agents={"": slow})))
        eventually(lambda: bool(home.forum.reads.read_run(run).tasks))
        with home.worker():
            first.kill()
            first.wait()
            state = home.end(run)
    calls = [call.replied.why for call in state.tasks["a"].calls if call.replied]

    assert state.outcome is Outcome.OK
    assert calls == ["lost", ""]
    assert len(state.tasks["b"].calls) == 1


@pytest.mark.postgres
@ALL_RUNNERS
def test_workers_share_runs_and_do_none_twice(
    tmp_path: Path, postgres_url: str, runner: str
) -> None:
    """Also when one of them is killed while all have their hands full."""
    quick = Policy(agents={"": Scripted({"*": (ScriptStep("done", milliseconds=200),)})})
    with (
        project(tmp_path / "project", postgres_url, runner=runner) as home,
        home.worker() as process,
    ):
        runs = [home.submit(RunRequest("Go.", single_task_plan("Go."), quick)) for _ in range(20)]
        eventually(lambda: bool(home.forum.reads.read_run(runs[0]).tasks))
        with home.worker(), home.worker():
            process.kill()
            process.wait()
            states = [home.end(run) for run in runs]

    for state in states:
        assert len(state.tasks["answer"].verdicts) == 1
        replies = [call.replied.why for call in state.tasks["answer"].calls if call.replied]
        assert state.outcome is Outcome.OK
        assert replies in ([""], ["lost", ""])


def test_workers_share_the_tasks_of_a_large_plan(home: Project) -> None:
    """Together they make more calls at once than one may; and of one that dies others go on."""
    slow = Scripted({"*": (ScriptStep("done", milliseconds=400),)})
    tasks = tuple(Task(f"t{number}", "Go.") for number in range(MAX_OWN_TASKS + 1))
    request = RunRequest("Go.", Plan(tasks), Policy(parallel=40, agents={"": slow}))
    limits = ("--tasks", "8")

    def open_calls() -> int:
        tasks = home.forum.reads.read_run(run).tasks.values()
        return sum(call.replied is None for task in tasks for call in task.calls)

    with home.worker(*limits) as first, home.worker(*limits):
        run = home.submit(request)
        eventually(lambda: open_calls() > 8)
        first.kill()
        first.wait()
        with home.worker(*limits):
            state = home.end(run, 60.0)
    lost = [c for t in state.tasks.values() for c in t.calls if c.replied and c.replied.why]

    assert state.outcome is Outcome.OK
    assert len(state.tasks) == len(tasks)
    assert all(len(task.verdicts) == 1 for task in state.tasks.values())
    assert len(lost) <= 8
    eventually(lambda: not home.forum.store.timers(None, 10, due=False))


def large_order(*gates: str) -> RunRequest:
    """Return a plan whose tasks workers share."""
    quick = Scripted({"*": (ScriptStep("done", milliseconds=20),)})
    tasks = tuple(Task(f"t{number}", "Go.") for number in range(MAX_OWN_TASKS + 1))
    return RunRequest("Go.", Plan(tasks), Policy(parallel=10, agents={"": quick}, gates=gates))


def test_a_worker_of_one_run_ends_a_large_plan(tmp_path: Path) -> None:
    """The run that waits must not take the room that its tasks need."""
    with project(tmp_path / "project", None) as home, home.worker("--runs", "1"):
        assert home.end(home.submit(large_order())).outcome is Outcome.OK


def test_a_large_plan_is_interrupted_and_resumed_wherever_its_tasks_are(tmp_path: Path) -> None:
    """Its driver may be in a process that has none of its tasks."""
    with project(tmp_path / "project", None) as home, home.worker("--runs", "1"), home.worker():
        run = home.submit(large_order())
        eventually(lambda: len(home.forum.reads.read_run(run).tasks) > 20)
        home.forum.runs.interrupt(run)
        eventually(lambda: not home.forum.store.timers(None, 10, due=False))
        home.forum.runs.resume(run)
        state = home.end(run, 60.0)

    assert state.outcome is Outcome.OK
    assert all(len(task.calls) == 1 for task in state.tasks.values())


def test_gates_of_a_large_plan_may_be_decided_at_once(tmp_path: Path) -> None:
    """Even before the driver, in another process, has seen that they were opened."""
    with project(tmp_path / "project", None) as home, home.worker("--runs", "1"), home.worker():
        run = home.submit(large_order("tasks"))

        def approve() -> bool:
            state = home.forum.reads.read_run(run)
            for gate in state.open_gates:
                home.forum.runs.decide_gate(run, gate.opened.subject, Answer.APPROVE, gate.digest)
            return state.outcome is not None

        eventually(approve, 60.0)
        assert home.forum.reads.read_run(run).outcome is Outcome.OK
