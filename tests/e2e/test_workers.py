"""Workers in places where things are not as on the first machine."""

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from forum.engine import RunRequest
from forum.ledger.kinds import Outcome
from forum.work.plan import single_task_plan
from forum.work.policy import Policy, Scripted, ScriptStep
from tests.e2e.project import Project, eventually, project


@pytest.mark.postgres
def test_a_worker_on_a_machine_that_does_not_sign_carries_runs_out(
    tmp_path: Path, postgres_url: str
) -> None:
    """Only one machine remembers what it signed; work must not depend on that one being up."""
    with project(tmp_path / "project", postgres_url) as home:
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


def test_a_worker_that_is_stopped_politely_ends_its_calls_first(tmp_path: Path) -> None:
    """Others must not think it dead meanwhile: every deploy would pay for its calls again."""
    slow = Scripted({"*": (ScriptStep("done", milliseconds=5000),)})
    with project(tmp_path / "project", None) as home, home.worker() as first:
        run = home.submit(RunRequest("Go.", single_task_plan("Go."), Policy(agents={"": slow})))
        eventually(lambda: bool(home.forum.reads.read_run(run).tasks))
        with home.worker():
            first.send_signal(signal.SIGTERM)
            state = home.end(run)
        status = first.wait()

    assert status == 0
    assert state.outcome is Outcome.OK
    assert len(state.tasks["answer"].calls) == 1


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
