"""One worker process for many logs of a database."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from benchmarks.many_logs import fair_figures, load_due
from forum.app import Forum, logs_worker, new_run_id
from forum.app.logs_worker import LogsWorker
from forum.config import Settings, WorkerCapacity, load_settings
from forum.engine import RunRequest
from forum.errors import BadSettings
from forum.features.retention.service import RetentionOperations
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Position
from forum.runs.plan import single_task_plan
from forum.runs.policy import Policy, Scripted, ScriptStep
from forum.sections import TenantQuota
from forum.stores import publisher_loop
from forum.tlog import parse_checkpoint
from tests.e2e.project import Project, eventually, project
from tests.surfaces.command_server import run_command
from tests.surfaces.serving import serving

pytestmark = pytest.mark.postgres
ORDER = RunRequest("Go.", single_task_plan("Go."))
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
END_LISTENER = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE application_name = %s AND query = 'LISTEN forum_due'
"""


def call(home: Project, *words: str) -> dict[str, Any]:
    """Call a command in a project, and return what it prints as JSON."""
    done = run_command([*words, "--json"], home.home, home.environ)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@contextmanager
def logs(folder: Path, url: str, number: int) -> Iterator[list[Forum]]:
    """Make some logs in a database."""
    with ExitStack() as stack:
        made = [project(folder / f"log-{nth}", url, runner="claims") for nth in range(number)]
        yield [stack.enter_context(each).forum for each in made]


def named(forums: list[Forum], name: str) -> list[Settings]:
    """Return the settings of logs, whose sessions have a name in the database."""
    return [
        load_settings(
            forum.settings.data.parent,
            {
                "FORUM_DATABASE_URL": make_conninfo(
                    forum.settings.database or "", application_name=name
                ),
                "FORUM_STATE_DIR": str(forum.settings.state),
                "FORUM_WORKER_RUNNER": "claims",
            },
        )
        for forum in forums
    ]


def ended(forum: Forum, run: str) -> bool:
    """Return whether a run has ended well."""
    return forum.reads.read_run(run).outcome is Outcome.OK


def is_signed(forum: Forum) -> bool:
    """Return whether a checkpoint covers every entry."""
    note = forum.store.checkpoint()
    size = parse_checkpoint(note).size if note else 0
    return not forum.store.pending_entries(1).rows and size == forum.store.head().size


def is_published(forum: Forum) -> bool:
    """Sign what there is, and return whether a checkpoint covers every entry."""
    forum.log.publish()
    return is_signed(forum)


@pytest.fixture(autouse=True)
def worker_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make a folder that the user of confined programs can read, where tests run as root."""
    folder = Path(tempfile.mkdtemp(prefix="forum-worker-"))
    folder.chmod(0o755)
    monkeypatch.setenv("WORKER_FOLDER", str(folder))
    yield
    shutil.rmtree(folder, ignore_errors=True)


def copy_to_worker(home: Project) -> Path:
    """Copy a project to the machine of its worker, without the keys that sign; return the folder.

    To be called again when a tenant was added.
    """
    there = Path(os.environ["WORKER_FOLDER"]) / "project"
    unwanted = shutil.ignore_patterns("log.key*", "*.log", "state*")
    shutil.copytree(home.home, there, dirs_exist_ok=True, ignore=unwanted)
    for folder in (there, *there.glob("tenants"), *there.glob("tenants/*")):
        folder.chmod(0o755)
    return there


@contextmanager
def confined_worker(home: Project) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a worker for all tenants on a machine that signs nothing."""
    there = copy_to_worker(home)
    environ = {**home.environ, "FORUM_STATE_DIR": f"{there}-state"}
    with replace(home, home=there, environ=environ).worker("--tenants", "--confine") as worker:
        yield worker


@pytest.mark.parametrize("fault", ["not confined", "own key", "key of a tenant", "old key"])
def test_a_worker_for_tenants_refuses_what_lets_one_read_the_keys_of_another(
    tmp_path: Path, postgres_url: str, fault: str
) -> None:
    """The programs of all tenants run as one user."""
    with project(tmp_path / "project", postgres_url, runner="claims") as home:
        call(home, "tenant", "add", "blue")
        there = copy_to_worker(home)
        key = "log.key.rotated-00000000" if fault == "old key" else "log.key"
        if fault == "own key":
            shutil.copy(home.home / ".forum/log.key", there / ".forum")
        elif fault != "not confined":
            blue = "tenants/blue/.forum"
            shutil.copy(home.home / blue / "log.key", there / blue / key)
        options = () if fault == "not confined" else ("--confine",)
        environ = {**home.environ, "FORUM_STATE_DIR": str(tmp_path / "elsewhere")}
        ended = run_command(["worker", "--tenants", *options], there, environ)

    assert ended.returncode == 1
    reason = "confine = true" if fault == "not confined" else "signs its log"
    assert reason in ended.stderr


def test_a_worker_serves_tenants_that_commands_have_made(tmp_path: Path, postgres_url: str) -> None:
    """Also one that is added while it works."""
    with project(tmp_path / "project", postgres_url, runner="claims") as home, ExitStack() as stack:
        first = call(home, "tenant", "add", "research")
        runs = []
        with confined_worker(home):
            second = call(home, "tenant", "add", "sales")
            copy_to_worker(home)
            listed = call(home, "tenant", "list")["tenants"]
            for line in listed:
                forum = Forum(load_settings(Path(line["folder"]), home.environ))
                stack.enter_context(forum)
                runs.append((forum, forum.runs.submit(ORDER)))
            runs.append((home.forum, home.submit(ORDER)))
            for forum, run in runs:
                eventually(lambda forum=forum, run=run: ended(forum, run))  # type: ignore[misc]
                # The worker may still note that it has handed the run back.
                eventually(lambda forum=forum: is_published(forum))  # type: ignore[misc]
        reports = [forum.log.verify(forum.log.read_trust()) for forum, _ in runs]

    assert [line["name"] for line in listed] == ["research", "sales"]
    added = [first["tenant"], second["tenant"]]
    # A list says what they use, too.
    assert [{name: line[name] for name in added[0]} for line in listed] == added
    assert len({forum.origin for forum, _ in runs}) == 3
    assert all(report.ok for report in reports)


def test_a_tenant_that_cannot_be_served_does_not_stop_the_others(
    tmp_path: Path, postgres_url: str
) -> None:
    """Neither at the start nor later; each fault is told."""
    with (
        project(tmp_path / "project", postgres_url, runner="claims") as home,
        tenant(home, "research") as first,
    ):
        tenants = home.home / "tenants"
        add_faulty(tenants / "a-malformed", "[worker\n")
        with confined_worker(home):
            run = first.runs.submit(ORDER)
            eventually(lambda: ended(first, run))
            add_faulty(tenants / "another", "[database]\nurls = 7\n")
            with tenant(home, "sales") as second:
                copy_to_worker(home)
                late = second.runs.submit(ORDER)
                eventually(lambda: ended(second, late))
                again = first.runs.submit(ORDER)
                eventually(lambda: ended(first, again))
        log = (copy_to_worker(home) / "worker.log").read_text()

    assert "a-malformed" in log
    assert "tenants/another/" in log


def add_faulty(folder: Path, text: str) -> None:
    """Write the project file of a tenant that cannot be served."""
    folder.mkdir(exist_ok=True)
    (folder / "forum.toml").write_text(text)


def test_a_project_that_is_found_in_another_database_is_reported(
    tmp_path: Path, postgres_url: str
) -> None:
    """The others are served."""
    reported: list[Exception] = []
    with (
        logs(tmp_path, postgres_url, 2) as forums,
        project(tmp_path / "file", None, runner="claims") as other,
    ):
        first, second = named(forums, tmp_path.name)
        settings = [other.forum.settings, second]
        with LogsWorker([first], find=lambda: settings, report=reported.append):
            run = forums[1].runs.submit(ORDER)
            eventually(lambda: ended(forums[1], run))

    assert "one Postgres" in str(reported[0])


@contextmanager
def tenant(home: Project, name: str) -> Iterator[Forum]:
    """Add a tenant, and open its ledger."""
    folder = Path(call(home, "tenant", "add", name)["tenant"]["folder"])
    with Forum(load_settings(folder, home.environ)) as forum:
        yield forum


def slow(milliseconds: int) -> RunRequest:
    """Return a request whose call takes so long."""
    script = Scripted({"*": (ScriptStep("done", milliseconds=milliseconds),)})
    return RunRequest("Go.", single_task_plan("Go."), Policy(agents={"": script}))


def count_calls(forum: Forum, run: str) -> int:
    """Return how many calls of a run have begun."""
    return sum(len(task.calls) for task in forum.reads.read_run(run).tasks.values())


def test_a_worker_that_is_stopped_politely_ends_the_calls_of_all_logs(
    tmp_path: Path, postgres_url: str
) -> None:
    """As a worker of one log does."""
    with (
        project(tmp_path / "project", postgres_url, runner="claims") as home,
        tenant(home, "research") as forum,
    ):
        runs = [(forum, forum.runs.submit(slow(2000))), (home.forum, home.submit(slow(2000)))]
        with confined_worker(home) as worker:
            eventually(lambda: all(count_calls(*run) == 1 for run in runs))
            worker.send_signal(signal.SIGTERM)
            status = worker.wait()
        replied = [
            next(iter(forum.reads.read_run(run).tasks.values())).calls[0].replied
            for forum, run in runs
        ]

    assert status == 0
    assert all(reply is not None and reply.outcome is Outcome.OK for reply in replied)


def test_the_runs_of_a_killed_worker_are_taken_over(tmp_path: Path, postgres_url: str) -> None:
    """By one that has their log closed."""
    with (
        project(tmp_path / "project", postgres_url, runner="claims") as home,
        tenant(home, "research") as forum,
        confined_worker(home) as first,
    ):
        run = forum.runs.submit(slow(60_000))
        eventually(lambda: count_calls(forum, run) == 1)
        with confined_worker(home):
            sleep(3)
            first.kill()
            eventually(lambda: count_calls(forum, run) == 2, seconds=50)


def test_a_server_of_many_logs_shares_its_connections(tmp_path: Path, postgres_url: str) -> None:
    """Beside them, it has one session for each ledger, which listens for pieces of answers."""
    with (
        project(tmp_path / "project", postgres_url, runner="claims") as home,
        psycopg.connect(postgres_url, autocommit=True) as db,
        ExitStack() as stack,
    ):
        forums = [stack.enter_context(tenant(home, name)) for name in ("one", "two", "three")]
        url = make_conninfo(postgres_url, application_name=tmp_path.name)
        named = replace(home, environ={**home.environ, "FORUM_DATABASE_URL": url})
        with serving(named, ("--tenants",)) as served, confined_worker(home):
            for forum in forums:
                shown = {"Authorization": f"Bearer {forum.access.operator_token()}"}
                taken = served.client.post(
                    "/api/v1/runs", json={"request": "Go.", "route": False}, headers=shown
                )
                assert taken.status_code == 202, taken.text
                run = taken.json()["run"]
                eventually(lambda forum=forum, run=run: ended(forum, run))  # type: ignore[misc]

            def sessions() -> int:
                row = db.execute(SESSIONS, (tmp_path.name,)).fetchone()
                assert row
                return int(row[0])

            eventually(lambda: 0 < sessions() <= 1 + len(forums) + 3)


def test_idle_logs_are_closed_and_opened_for_whatever_waits(
    tmp_path: Path, postgres_url: str
) -> None:
    """What is waiting for an index or a signature opens a log; the loss of a session harms none."""
    with (
        logs(tmp_path, postgres_url, 4) as forums,
        psycopg.connect(postgres_url, autocommit=True) as db,
    ):

        def sessions() -> int:
            row = db.execute(SESSIONS, (tmp_path.name,)).fetchone()
            assert row
            return int(row[0])

        with LogsWorker(named(forums, tmp_path.name)) as worker:
            runs = [(forum, forum.runs.submit(ORDER)) for forum in forums[:2]]
            eventually(lambda: all(ended(*run) for run in runs))
            were_open = set(worker.open_logs)
            eventually(lambda: not worker.open_logs)
            eventually(lambda: sessions() <= 4)
            # Any user of the database can send any payload.
            db.execute("SELECT pg_notify('forum_due', repeat('9', 5000))")
            forums[2].ledger.open_run(new_run_id(), "x")  # nobody is told, and nothing is due
            eventually(lambda: is_signed(forums[2]))
            eventually(lambda: db.execute(END_LISTENER, (tmp_path.name,)).fetchone() == (1,))
            late = forums[3].runs.submit(ORDER)
            eventually(lambda: ended(forums[3], late))
        assert all(is_signed(forum) for forum in forums)

    assert were_open == {forum.origin for forum in forums[:2]}


def test_retention_of_an_idle_log_is_applied(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else would ever open it."""
    monkeypatch.setattr(publisher_loop, "FIRST_RETENTION_DELAY_S", 1.5)
    with logs(tmp_path, postgres_url, 2) as forums:
        forum = forums[1]
        run = forum.runs.submit(ORDER)
        with LogsWorker(named(forums, tmp_path.name)):
            eventually(lambda: ended(forum, run))
        RetentionOperations(forum).set_rule("*", 1)
        forum.log.publish()
        sleep(1.1)
        with LogsWorker(named(forums, tmp_path.name)) as worker:
            place = Position(run, "main", 1)
            eventually(lambda: forum.store.body(place, "request") is None)
            eventually(lambda: not worker.open_logs)


def test_logs_that_wait_get_their_turn(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more logs are open at once than allowed, however much the first one has to do."""
    monkeypatch.setattr(logs_worker, "_TURN_S", 1.0)
    with logs(tmp_path, postgres_url, 2) as (busy, other):
        load_due(busy, 3000)
        worker = LogsWorker(named([busy, other], tmp_path.name), WorkerCapacity(runs=20, tasks=20))
        worker.max_open = 1
        with worker:
            eventually(lambda: worker.open_logs == [busy.origin])
            run = other.runs.submit(ORDER)
            eventually(lambda: ended(other, run))
            left = len(busy.store.timers(None, 10, due=False))

    assert left == 10


CLAIMS = """
SELECT origin, count(*) FROM forum.claim JOIN forum.log ON log.id = claim.log
WHERE origin = ANY(%s) GROUP BY origin
"""


def test_shares_follow_demand_and_weight(tmp_path: Path, postgres_url: str) -> None:
    """An open log without work keeps nothing; two that want more than there is share by weight."""
    most = WorkerCapacity(runs=12, tasks=12)
    with (
        logs(tmp_path, postgres_url, 3) as forums,
        psycopg.connect(postgres_url, autocommit=True) as db,
    ):
        first, second, idle = forums
        settings = named(forums, tmp_path.name)
        settings[1] = replace(settings[1], quota=TenantQuota(weight=3))

        def claimed() -> dict[str, int]:
            rows = db.execute(CLAIMS, ([forum.origin for forum in forums],)).fetchall()
            return {str(origin): int(number) for origin, number in rows}

        with LogsWorker(settings, most) as worker:
            quick = [(forum, forum.runs.submit(ORDER)) for forum in forums]
            eventually(lambda: all(ended(*run) for run in quick))
            assert set(worker.open_logs) >= {idle.origin}
            alone = [first.runs.submit(slow(3000)) for _ in range(12)]
            eventually(lambda: claimed() == {first.origin: 12})
            eventually(lambda: all(ended(first, run) for run in alone))
            for _ in range(12):
                for forum in (first, second):
                    forum.runs.submit(slow(60_000))
            # The one that is looked at first may have taken more: what it has goes on.
            eventually(lambda: claimed().get(second.origin, 0) >= 9)
            both = claimed()

    assert both[first.origin] + both[second.origin] <= 24
    assert both[first.origin] >= 3


def test_one_log_full_of_due_runs_does_not_hold_the_others_up(
    tmp_path: Path, postgres_url: str
) -> None:
    """Their runs end within 2.5 times the time that they take alone, long before it has ended.

    They take a sixth of a machine that they had alone, and are ten runs of each log only.
    """
    figures = fair_figures(tmp_path, postgres_url, due=2000, logs=5, runs=10, rounds=3)

    assert figures["fair_ratio"] <= 2.5, figures
    assert figures["left"] > figures["due"] / 4, figures


def test_logs_that_are_not_in_one_postgres_are_refused(tmp_path: Path, postgres_url: str) -> None:
    """A file has one worker for each project."""
    with (
        project(tmp_path / "a", postgres_url, runner="claims") as one,
        project(tmp_path / "b", None, runner="claims") as other,
    ):
        both = [one.forum.settings, other.forum.settings]
        with pytest.raises(BadSettings, match="one Postgres"):
            LogsWorker(both)
