"""The ledger as an installation has it: first use, many writers, and what stops."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from forum.app import Forum
from forum.backends import files
from forum.config import Settings
from forum.errors import RolledBack
from forum.ledger import Draft, Outcome, Remark, text

FIRST_USE = """
import os, sys, time
from pathlib import Path
from forum.app import Forum
from forum.config import load_settings
from forum.ledger import text
with Forum(load_settings(Path.cwd(), os.environ)) as forum:
    while time.time() < float(sys.argv[1]):
        pass
    forum.initialise()
    print(forum.remark(text("first"))[0].leaf.hex())
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return the settings of an installation that has a folder for itself."""
    return Settings(tmp_path / "data", tmp_path / "state", tmp_path / "data" / "log.key")


@pytest.mark.slow
def test_processes_that_come_first_together_share_one_ledger(
    settings: Settings, tmp_path: Path
) -> None:
    """Two keys made at once would be two logs, and the entries of one of them lost."""
    folders = {"FORUM_DATA_DIR": str(settings.data), "FORUM_STATE_DIR": str(settings.state)}
    environment = {k: v for k, v in os.environ.items() if k != "FORUM_DATABASE_URL"} | folders
    begin = subprocess.run(
        [sys.executable, "-c", "import time; print(time.time() + 2)"],
        capture_output=True,
        text=True,
        check=True,
    )
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", FIRST_USE, begin.stdout.strip()],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    recorded = [writer.communicate(timeout=60)[0].strip() for writer in writers]

    assert [writer.returncode for writer in writers] == [0] * 6
    with Forum(settings) as forum:
        assert all(forum.ledger.find(leaf).index is not None for leaf in recorded)
        assert forum.verify(forum.trust()).ok


def test_writers_hear_that_their_log_is_kept_no_more(settings: Settings, tmp_path: Path) -> None:
    """Entries that nobody will ever sign must not be acknowledged without a word."""
    with Forum(settings) as forum:
        forum.initialise()
        forum.remark(text("signed"))
        guard = next((settings.state / "logs").glob("*/guard.note"))
        other = Forum(Settings(tmp_path / "x", tmp_path / "y", tmp_path / "x" / "log.key"))
        with other:
            other.initialise()
            for _ in range(3):
                other.remark(text("another history"))
        foreign = next((tmp_path / "y" / "logs").glob("*/guard.note"))
        guard.write_bytes(foreign.read_bytes())

        with pytest.raises(RolledBack):
            write_on(forum)


def write_on(forum: Forum) -> None:
    """Write for as long as nobody objects."""
    with forum.writing() as ledger:
        strand = ledger.strand("run")
        for n in range(20_000):
            strand.append(Draft(f"step/{n}", "tester", Remark()))


def test_an_epoch_that_was_interrupted_is_begun_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped at any point, the new log names the old one, or the old one is still in use."""
    with Forum(settings) as forum:
        forum.initialise()
        left = forum.origin
    kept = files.write_key

    def stop_at(call: int) -> Callable[..., None]:
        calls = iter(range(9))

        def write_key(*arguments: object) -> None:
            if next(calls) == call:
                raise KeyboardInterrupt
            kept(*arguments)  # type: ignore[arg-type]

        return write_key

    for call in (0, 1):
        monkeypatch.setattr(files, "write_key", stop_at(call))
        with pytest.raises(KeyboardInterrupt), Forum(settings) as forum:
            forum.new_epoch()
    monkeypatch.setattr(files, "write_key", kept)
    with Forum(settings) as forum:
        origin = forum.new_epoch()
    with Forum(settings) as forum:
        run = forum.ledger.open_run("run", "tester")
        forum.ledger.close_run(run, "tester", Outcome.OK)
        forum.settle()
        report = forum.verify(forum.trust())

    assert origin == f"{left}/epoch-2" == report.origin
    assert report.ok
    assert any(left in missing for missing in report.not_checked)
