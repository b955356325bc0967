"""A tenant is moved to another database while clients write, and is in one place at any moment."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from uuid import uuid4

import httpx2
import psycopg
import pytest

from forum.app import Forum
from forum.config import load_settings
from forum.engine import RunRequest
from forum.errors import LogMoved, LogPaused, MoveRefused, StoreFailed
from forum.features.tenants.service import TenantFolders
from forum.runs.plan import single_task_plan
from forum.stores.postgres import PostgresStore
from forum.stores.postgres_reader import find_database
from forum.stores.postgres_schema import upgrade_schema
from tests.e2e.project import Project, project
from tests.e2e.test_many_logs import call
from tests.soak.cluster import Cluster, scratch_database
from tests.surfaces.serving import serving

pytestmark = pytest.mark.postgres
ORDER = RunRequest("Go.", single_task_plan("Go."))
WRITERS = 4


@pytest.fixture(scope="module")
def second_server() -> Iterator[str]:
    """Return the address of another server of Postgres."""
    with Cluster() as cluster:
        yield cluster.url


@contextmanager
def two_databases(tmp_path: Path, first: str, second: str) -> Iterator[tuple[Project, str, str]]:
    """Return a project with a tenant `blue`, and the addresses of two databases."""
    with scratch_database(first) as home_url, scratch_database(second) as other_url:
        upgrade_schema(home_url)
        upgrade_schema(other_url)
        with project(tmp_path / "project", home_url, runner="claims") as home:
            file = home.home / "forum.toml"
            file.write_text(f'{file.read_text()}\n[databases.second]\nurl = "{other_url}"\n')
            call(home, "tenant", "add", "blue")
            yield home, home_url, other_url


def folders_of(home: Project) -> TenantFolders:
    """Return the tenants of a project, as a command finds them."""
    return TenantFolders(load_settings(home.home, home.environ), home.environ)


def open_tenant(home: Project) -> Forum:
    """Open the ledger of the tenant as a process of the operator does."""
    folders = folders_of(home)
    settings = folders.load(folders.find("blue"))
    return Forum(folders.as_operator(settings))


class Writer:
    """A client that submits runs, and tries each again until it is accepted."""

    def __init__(self, root: str, token: str, stop: Event) -> None:
        self.runs: dict[str, str] = {}
        """By idempotency key."""
        self.refused: set[int] = set()
        self.longest_s = 0.0
        """The longest time from one acceptance to the next."""
        self._root, self._token = root, token
        self._stop = stop
        self.thread = Thread(target=self._write)
        self.thread.start()

    def _write(self) -> None:
        accepted = monotonic()
        with httpx2.Client(base_url=self._root, timeout=30) as client:
            while not self._stop.is_set():
                key = str(uuid4())
                while key not in self.runs:
                    answer = client.post(
                        "/api/v1/runs",
                        json={"request": "Go.", "route": False},
                        headers={
                            "Authorization": f"Bearer {self._token}",
                            "Idempotency-Key": key,
                        },
                    )
                    if answer.status_code in {200, 202}:
                        self.runs[key] = answer.json()["run"]
                        self.longest_s = max(self.longest_s, monotonic() - accepted)
                        accepted = monotonic()
                        continue
                    self.refused.add(answer.status_code)
                    assert answer.status_code == 503, answer.text
                    sleep(float(answer.headers["Retry-After"]) / 10)


def test_a_tenant_is_moved_while_clients_write(
    tmp_path: Path, postgres_url: str, second_server: str
) -> None:
    """None of their runs is lost and none is there twice, and the server follows."""
    with (
        two_databases(tmp_path, postgres_url, second_server) as (home, home_url, other_url),
        serving(home, ("--tenants",)) as served,
    ):
        with open_tenant(home) as forum:
            token, origin = forum.access.operator_token(), forum.origin
        root, stop = str(served.client.base_url), Event()
        writers = [Writer(root, token, stop) for _ in range(WRITERS)]
        try:
            sleep(2)
            moved = call(home, "tenant", "move", "blue", "--to", "second")
            sleep(2)
        finally:
            stop.set()
            for writer in writers:
                writer.thread.join()
        accepted = [run for writer in writers for run in writer.runs.values()]
        with open_tenant(home) as forum:
            forum.log.publish()
            runs = list_runs(forum)
            report = forum.log.verify(forum.log.read_trust())
        listed = served.client.get(
            "/api/v1/runs?limit=1", headers={"Authorization": f"Bearer {token}"}
        )
        where = find_database(home_url, origin, {"second": other_url})
        with pytest.raises(LogMoved):
            PostgresStore(home_url, origin)

    assert where == other_url
    assert moved["database"] == "second"
    assert moved["copied"] > 0
    assert len(accepted) == len(set(accepted))
    assert set(accepted) - set(runs) == set()
    assert len(runs) == len(set(runs)) == len(accepted)
    assert report.ok
    # Runs of several writers are accepted in one millisecond: any of them is the newest.
    assert listed.json()["runs"][0]["run"] in runs[-WRITERS:]
    assert set().union(*(writer.refused for writer in writers)) <= {503}
    longest = max(writer.longest_s for writer in writers)
    figures = {name: moved[name] for name in ("copied", "delta", "pause_s")}
    (tmp_path / "figures").write_text(f"{figures} {len(accepted)} runs, {longest:.2f} s\n")
    assert moved["pause_s"] < 10


def list_runs(forum: Forum) -> list[str]:
    """Return the runs of clients."""
    texts: list[str] = []
    while page := forum.store.runs(texts[-1] if texts else "", 1000):
        texts += page
    return [run for run in texts if run != "log"]


MOVE = """
import os, signal, sys
from forum.features.tenants.service import TenantFolders
from forum.config import load_settings
from pathlib import Path

def on_step(step):
    print(step, flush=True)
    if step == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)

TenantFolders(load_settings(Path.cwd(), os.environ)).move("blue", "second", on_step)
"""
STEPS = ("copy", "verify the copy", "pause", "copy the rest", "leave", "arrive")


@pytest.mark.parametrize("step", STEPS)
def test_a_mover_that_is_killed_leaves_the_log_in_one_place(
    tmp_path: Path, postgres_url: str, second_server: str, step: str
) -> None:
    """It takes writes there at once, the other place takes none, and the move can be repeated."""
    with two_databases(tmp_path, postgres_url, second_server) as (home, home_url, other_url):
        with open_tenant(home) as forum:
            runs = [forum.runs.submit(ORDER) for _ in range(3)]
            origin = forum.origin
            ended = subprocess.run(
                [sys.executable, "-c", MOVE, step], cwd=home.home, env=home.environ,
                capture_output=True, text=True, timeout=120, check=False,
            )  # fmt: skip
            assert ended.returncode == -9, ended.stderr
            places = {"second": other_url}
            # This one has been open since before the move.
            runs.append(forum.runs.submit(ORDER))
            where = find_database(home_url, origin, places)
            other = other_url if where == home_url else home_url
            with pytest.raises((LogMoved, LogPaused)):
                write_in(other, origin)
            call(home, "tenant", "move", "blue", "--to", "second")
            runs.append(forum.runs.submit(ORDER))
            assert find_database(home_url, origin, places) == other_url
            with pytest.raises(LogMoved):
                write_in(home_url, origin)
        with open_tenant(home) as forum:
            forum.log.publish()
            assert sorted(list_runs(forum)) == sorted(runs)
            assert forum.log.verify(forum.log.read_trust()).ok

    assert where == (other_url if step == "arrive" else home_url)


def write_in(url: str, origin: str) -> None:
    """Append in a database, as a process that knows no other one."""
    if not has_log(url, origin):
        raise LogMoved(origin, "nowhere")
    store = PostgresStore(url, origin)
    try:
        store.append([])
    finally:
        store.close()


def has_log(url: str, origin: str) -> bool:
    """Return whether a database has a log."""
    with psycopg.connect(url) as db:
        return bool(db.execute("SELECT FROM forum.log WHERE origin = %s", (origin,)).fetchall())


def test_a_tenant_comes_back(tmp_path: Path, postgres_url: str, second_server: str) -> None:
    """The old rows give way to those of the place where it was."""
    with two_databases(tmp_path, postgres_url, second_server) as (home, home_url, other_url):
        with open_tenant(home) as forum:
            runs = [forum.runs.submit(ORDER)]
            call(home, "tenant", "move", "blue", "--to", "second")
            runs.append(forum.runs.submit(ORDER))
            call(home, "tenant", "move", "blue", "--to", "home")
            runs.append(forum.runs.submit(ORDER))
            origin = forum.origin
            assert list_runs(forum) == sorted(runs)
        assert find_database(home_url, origin, {"second": other_url}) == home_url


def test_a_log_is_never_moved_over_one_that_takes_writes(
    tmp_path: Path, postgres_url: str, second_server: str
) -> None:
    """A database that was restored from a backup may have it."""
    with two_databases(tmp_path, postgres_url, second_server) as (home, _, other_url):
        folders = folders_of(home)
        settings = folders.load(folders.find("blue"))
        with Forum(replace(settings, database=other_url, databases={})) as copy:
            copy.store.head()
        with pytest.raises(MoveRefused, match="takes writes"):
            folders.move("blue", "second")
        with open_tenant(home) as forum:
            forum.runs.submit(ORDER)


def test_a_moved_tenant_begins_its_next_epoch_where_it_is(
    tmp_path: Path, postgres_url: str, second_server: str
) -> None:
    """Else the operator's processes would begin another log of that name at home."""
    with two_databases(tmp_path, postgres_url, second_server) as (home, _, _):
        folders = folders_of(home)
        folder = folders.find("blue")
        environ = {k: v for k, v in home.environ.items() if k != "FORUM_DATABASE_URL"}
        with open_tenant(home) as forum:
            run = forum.runs.submit(ORDER)
            forum.log.publish()
        call(home, "tenant", "move", "blue", "--to", "second")
        with (
            pytest.raises(StoreFailed, match="forum tenant epoch NAME"),
            Forum(load_settings(folder, environ)) as forum,
        ):
            forum.keys.new_epoch()  # the role of a tenant may add no log
        call(home, "tenant", "epoch", "blue", "--yes", "--reason", "a drill")
        with open_tenant(home) as forum:
            origin, later = forum.store.origin, forum.runs.submit(ORDER)
            runs = forum.store.runs("", 10)
            report = forum.log.verify(forum.log.read_trust())
        own = load_settings(folder, environ)
        with Forum(own) as tenant:
            theirs = tenant.store.runs("", 10)
        call(home, "tenant", "move", "blue", "--to", "home")
        with open_tenant(home) as forum:
            moved = forum.store.runs("", 10)

        assert origin.endswith("/epoch-2")
        assert {run, later} < set(runs)
        assert theirs == runs == moved
        assert not report.findings
        assert own.database is not None
        assert second_server.split("@")[1].split("/", maxsplit=1)[0] in own.database
