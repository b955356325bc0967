"""DBOS and Temporal: nobody needs them, and whoever chooses one is told what is missing."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from forum.errors import BadSettings, RunQueueFailed
from tests.e2e.project import project
from tests.support import free_port
from tests.test_repository import ROOT

ENGINES = ("dbos", "sqlalchemy", "temporalio")
WITHOUT_ENGINES = f"import sys; sys.modules.update(dict.fromkeys({ENGINES}));"
"""A module that is None there cannot be imported."""


def run_forum(home: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command in an installation that has none of the engines."""
    code = f"{WITHOUT_ENGINES} from forum.surfaces.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=home,
        env={**os.environ, "FORUM_STATE_DIR": str(home / "state"), **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def base_requirements() -> Iterator[str]:
    """Yield the names of all packages that an installation without extras brings."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    waiting, seen = [Requirement(line) for line in declared], set()
    while waiting:
        wanted = waiting.pop()
        if wanted.name in seen or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        seen.add(wanted.name)
        yield wanted.name.lower()
        waiting += [Requirement(line) for line in distribution(wanted.name).requires or ()]


def test_the_base_installation_brings_no_other_engine() -> None:
    """Neither by itself nor through a package that it needs."""
    names = set(base_requirements())

    assert "msgspec" in names
    assert names.isdisjoint(ENGINES)


def test_runs_are_carried_out_without_any_other_engine(tmp_path: Path) -> None:
    """A worker loads none of them: here they cannot be loaded."""
    (tmp_path / "forum.toml").touch()
    done = run_forum(tmp_path, "submit", "Go.", "--cmd", "echo done")

    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


@pytest.mark.postgres
@pytest.mark.parametrize("engine", ["dbos", "temporal"])
def test_an_engine_that_is_not_installed_is_one_sentence(
    tmp_path: Path, postgres_url: str, engine: str
) -> None:
    """It names the extra to install."""
    with project(tmp_path, postgres_url, runner=engine) as home:
        failed = run_forum(tmp_path, "worker", **home.environ)

    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1].endswith(f"[{engine}]'")


def test_dbos_without_postgres_is_refused(tmp_path: Path) -> None:
    """Its queue is in the ledger's own server."""
    with (
        project(tmp_path, None, runner="dbos") as home,
        pytest.raises(BadSettings, match="needs Postgres"),
        home.forum.runs.run_worker(),
    ):
        pass


def test_a_temporal_server_that_is_away_is_named(tmp_path: Path) -> None:
    """Whoever starts a worker learns it at once, and the worker leaves no thread behind."""
    toml = f'[worker]\ntemporal_address = "127.0.0.1:{free_port()}"\n'
    with (
        project(tmp_path, None, toml, runner="temporal") as home,
        pytest.raises(RunQueueFailed, match="Temporal, which assigns runs"),
        home.forum.runs.run_worker(),
    ):
        pass


@pytest.mark.parametrize("engine", ["dbos", "temporal"])
def test_an_adapter_is_small(engine: str) -> None:
    """What all engines need stands in one place: an adapter is what differs."""
    adapter = ROOT / f"src/forum/stores/{engine}_worker.py"

    assert len(adapter.read_text().splitlines()) <= 80
