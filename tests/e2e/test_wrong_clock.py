"""Processes whose clocks are off, with the real database: they write nothing, and others go on."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from forum.engine import RunRequest
from forum.ledger.kinds import Outcome
from forum.runs.plan import single_task_plan
from tests.e2e.project import Project, eventually

pytestmark = pytest.mark.postgres
LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
REQUEST = RunRequest("Go.", single_task_plan("Go."))
SUBMIT = ("submit", "--no-route", "--detach", "Name three rivers.")


@pytest.fixture
def skewed(home: Project) -> Project:
    """Return the project for processes whose clock is set by the file `clock`."""
    if not LIBRARIES:
        pytest.skip("faketime is not installed")
    set_clock(home, "+0s")
    clock = {
        "LD_PRELOAD": str(LIBRARIES[0]),
        "FAKETIME_TIMESTAMP_FILE": str(home.home / "clock"),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    return replace(home, environ={**home.environ, **clock})


def set_clock(project: Project, offset: str) -> None:
    """Set the clock of the skewed processes."""
    file = project.home / "clock.new"
    file.write_text(f"{offset}\n")
    file.replace(project.home / "clock")


def call(project: Project, *words: str) -> subprocess.CompletedProcess[str]:
    """Give a command."""
    return subprocess.run(
        [sys.executable, "-m", "forum", *words],
        cwd=project.home,
        env=project.environ,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
@pytest.mark.parametrize(
    ("offset", "says"),
    [("+1200s", "s ahead of the database's"), ("-90s", "s behind the database's")],
)
def test_a_process_whose_clock_is_off_refuses_to_write(
    skewed: Project, offset: str, says: str
) -> None:
    """Worker and command line say by how much, and what to do; reading goes on."""
    noted = call(skewed, "ledger", "note", "Right.")
    set_clock(skewed, offset)
    refused = [
        call(skewed, *words) for words in (SUBMIT, ("worker",), ("ledger", "note", "Wrong."))
    ]
    read = call(skewed, "ledger", "verify")

    assert noted.returncode == 0, noted.stderr
    for done in refused:
        assert done.returncode == 1, done.stderr
        assert says in done.stderr
        assert f"{offset[1:-1]}." in done.stderr
        assert "timedatectl set-ntp true" in done.stderr
    assert "Wrong." not in read.stdout
    assert skewed.forum.log.verify(skewed.forum.log.read_trust()).ok


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
def test_a_worker_whose_clock_is_set_wrong_leaves_its_runs_to_others(skewed: Project) -> None:
    """It says so in its log, writes nothing until its clock is right, and then goes on."""
    log = skewed.home / "worker.log"
    with skewed.worker():
        eventually(lambda: " serves " in log.read_text(), 60)
        first = skewed.submit(REQUEST)
        assert skewed.wait(first).outcome is Outcome.OK
        set_clock(skewed, "-1200s")
        eventually(lambda: "behind the database's" in log.read_text(), 60)
        second = skewed.submit(REQUEST)
        waiting = skewed.forum.reads.read_run(second)
        set_clock(skewed, "+0s")
        ended = skewed.wait(second)
        report = skewed.forum.log.verify(skewed.forum.log.read_trust())

    assert waiting.outcome is None
    assert ended.outcome is Outcome.OK
    assert report.ok, report.findings
