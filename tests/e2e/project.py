"""A project with a ledger, and workers that are processes of their own."""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from forum.app import Forum, upgrade_database
from forum.config import load_settings
from forum.engine import RunRequest, read_body
from forum.runs.run_fold import Run
from tests.support import SOON, assert_soon
from tests.surfaces.command_server import start_command

RUNNERS = os.environ.get("FORUM_TEST_RUNNERS", "claims dbos").split()
"""Temporal is not among them: `just test-temporal` names it, and starts a server."""
NIGHTLY_RUNNERS = {"dbos": (pytest.mark.nightly,)}
"""The gate has tests of its own for the rows of DBOS, and what it loses (test_engine_rows.py)."""
ALL_RUNNERS = pytest.mark.parametrize(
    "runner", [pytest.param(name, marks=NIGHTLY_RUNNERS.get(name, ())) for name in RUNNERS]
)
"""For tests of what holds in whichever way workers find runs."""
ALL_HOMES = pytest.mark.parametrize(
    "home",
    [
        # Nobody operates DBOS on SQLite: it needs Postgres.
        *(f"sqlite-{runner}" for runner in RUNNERS if runner != "dbos"),
        *(
            pytest.param(
                f"postgres-{name}", marks=(pytest.mark.postgres, *NIGHTLY_RUNNERS.get(name, ()))
            )
            for name in RUNNERS
        ),
    ],
    indirect=True,
)
"""The same for tests with a project."""


@dataclass(frozen=True, slots=True)
class Project:
    """A folder with a ledger in it, and the environment in which commands find it."""

    home: Path
    environ: Mapping[str, str]
    forum: Forum

    @contextmanager
    def worker(self, *options: str) -> "Iterator[subprocess.Popen[bytes]]":
        """Run a worker for a while; what it says is in `worker.log`."""
        with (self.home / "worker.log").open("ab") as log:
            process = start_command(["worker", *options], self.home, self.environ, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def submit(self, request: RunRequest) -> str:
        """Have a run accepted."""
        return self.forum.runs.submit(request)

    def wait(self, run: str, seconds: float = SOON) -> Run:
        """Wait until a run has ended, or waits for a person."""
        state = self.forum.reads.follow_run(run, patience=seconds)
        log = self.home / "worker.log"
        text = log.read_text() if log.exists() else ""
        assert state.outcome is not None or state.open_gates, f"still {state.state}: {text}"
        return state

    def end(self, run: str, seconds: float = SOON) -> Run:
        """Wait until a run has ended, whatever it waits for meanwhile."""
        eventually(lambda: self.forum.reads.read_run(run).outcome is not None, seconds)
        return self.forum.reads.read_run(run)

    def answer(self, run: str) -> bytes:
        """Return what a run has answered."""
        at = self.forum.reads.read_run(run).answer_at
        assert at is not None
        return read_body(self.forum.ledger, at, "answer")


@contextmanager
def project(
    home: Path, database: str | None, toml: str = "", runner: str = "claims"
) -> Iterator[Project]:
    """Make a project in a folder, whose workers find runs in the way that is named."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "forum.toml").write_text(toml)
    environ = {**os.environ, "FORUM_STATE_DIR": str(home / "state")}
    environ.pop("FORUM_DATABASE_URL", None)
    environ["FORUM_WORKER_RUNNER"] = runner
    if database:
        environ["FORUM_DATABASE_URL"] = database
    settings = load_settings(home, environ)
    upgrade_database(settings)
    with Forum(settings) as forum:
        forum.keys.initialise()
        yield Project(home, environ, forum)


def eventually(happens: Callable[[], bool], seconds: float = SOON) -> None:
    """Wait for something that another process does."""
    assert_soon(happens, seconds, pause=0.02)
