"""The ledger as an installation has it: first use, many writers, and what stops."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from forum import app
from forum.app import Forum, log, project
from forum.config import Settings
from forum.errors import IdempotencyKeyUsed, RollbackDetected
from forum.features.witness import service as witness_server
from forum.ledger.body import text_content
from forum.ledger.kinds import NoteFacts, Outcome, RunOpenFacts
from forum.ledger.strand import Draft
from forum.stores import state_files
from forum.verify import Problem, Report, State

FIRST_USE = """
import os, sys, time
from pathlib import Path
from forum.app import Forum
from forum.config import load_settings
from forum.ledger.body import text_content
with Forum(load_settings(Path.cwd(), os.environ)) as forum:
    while time.time() < float(sys.argv[1]):
        pass
    forum.keys.initialise()
    print(forum.log.record_note(text_content("first"))[0].leaf.hex())
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
        assert all(forum.ledger.find_entry(leaf).index is not None for leaf in recorded)
        assert forum.log.verify(forum.log.read_trust()).ok


def test_writers_hear_that_their_log_is_kept_no_more(settings: Settings, tmp_path: Path) -> None:
    """Entries that nobody will ever sign must not be acknowledged without a word."""
    with Forum(settings) as forum:
        forum.keys.initialise()
        forum.log.record_note(text_content("signed"))
        guard = next((settings.state / "logs").glob("*/guard.note"))
        other = Forum(Settings(tmp_path / "x", tmp_path / "y", tmp_path / "x" / "log.key"))
        with other:
            other.keys.initialise()
            for _ in range(3):
                other.log.record_note(text_content("another history"))
        foreign = next((tmp_path / "y" / "logs").glob("*/guard.note"))
        guard.write_bytes(foreign.read_bytes())

        with pytest.raises(RollbackDetected):
            write_on(forum)


def write_on(forum: Forum) -> None:
    """Write for as long as nobody objects."""
    with forum.log.open_writer() as ledger:
        strand = ledger.open_strand("run")
        for n in range(20_000):
            strand.append(Draft(f"step/{n}", "tester", NoteFacts()))


def test_an_epoch_that_was_interrupted_is_begun_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped at any point, the new log names the old one, or the old one is still in use."""
    with Forum(settings) as forum:
        forum.keys.initialise()
        left = forum.origin
    kept = state_files.write_key

    def stop_at(call: int) -> Callable[..., None]:
        calls = iter(range(9))

        def write_key(*arguments: object, **named: object) -> None:
            if next(calls) == call:
                raise KeyboardInterrupt
            kept(*arguments, **named)  # type: ignore[arg-type]

        return write_key

    for call in (0, 1):
        monkeypatch.setattr(state_files, "write_key", stop_at(call))
        with pytest.raises(KeyboardInterrupt), Forum(settings) as forum:
            forum.keys.new_epoch()
    monkeypatch.setattr(state_files, "write_key", kept)
    with Forum(settings) as forum:
        origin = forum.keys.new_epoch().origin
    with Forum(settings) as forum:
        run = forum.ledger.open_run("run", "tester")
        forum.ledger.close_run(run, "tester", Outcome.OK)
        forum.log.publish()
        report = forum.log.verify(forum.log.read_trust())

    assert origin == f"{left}/epoch-2" == report.origin
    assert report.ok
    assert [(epoch.origin, epoch.complete) for epoch in report.epochs] == [(left, State.HOLDS)]
    assert report.not_checked == ()


# Clocks

DAY = 24 * 3600 * 1_000_000
HOUR = DAY // 24


class Machine:
    """An installation whose clock can be set: writer and local witness share it."""

    def __init__(self, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
        self.settings, self.now = settings, 1_800_000_000 * 1_000_000
        self.warnings = list[str]()
        for part in (log, project, witness_server):  # each took the clock when it was imported
            monkeypatch.setattr(part, "now", lambda: self.now)

    def note(self, words: str) -> str:
        """Record a remark as a command does, a minute later, and return its run."""
        self.now += 60 * 1_000_000
        with Forum(self.settings, self.warnings.append) as forum:
            forum.keys.initialise()
            return forum.log.record_note(text_content(words))[0].entry.run

    def verify(self) -> Report:
        """Verify as a command does."""
        with Forum(self.settings, self.warnings.append) as forum:
            return forum.log.verify(forum.log.read_trust())


@pytest.mark.parametrize("wrong", [DAY, -3 * HOUR], ids=["ahead", "behind"])
def test_a_clock_that_was_wrong_for_one_note_costs_that_note_only(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, wrong: int
) -> None:
    """Whoever sets a clock right must not find all that follows refuted, or not witnessed."""
    machine = Machine(settings, monkeypatch)
    for words in ("one", "two", "three"):
        machine.note(words)
    machine.now += wrong
    blamed = machine.note("by a wrong clock")
    machine.now -= wrong
    for words in ("four", "five"):
        machine.note(words)
    report = machine.verify()

    # The entry that names the run has the time of the same clock.
    assert {str(finding.entry).split("/")[0] for finding in report.findings} == {blamed, "log"}
    assert {finding.problem for finding in report.findings} == {Problem.TIME_IMPOSSIBLE}
    assert all("clock" in finding.detail for finding in report.findings)
    # The newest checkpoint has its witness all the same.
    assert [sighting.time * 1_000_000 for sighting in report.sightings] == [machine.now]


def test_a_writer_hears_that_its_clock_is_behind_the_log(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is recorded with a wrong time keeps it."""
    machine = Machine(settings, monkeypatch)
    machine.note("on time")
    machine.warnings.clear()
    machine.now -= DAY
    machine.note("a day early")

    assert any("behind the last checkpoint" in warning for warning in machine.warnings)


# Faults


def test_a_guard_that_cannot_be_written_costs_no_entry(settings: Settings) -> None:
    """The entry is durable before it is signed: a failure would have it recorded a second time."""
    warnings: list[str] = []
    with Forum(settings, warnings.append) as forum:
        forum.keys.initialise()
        guard = next((settings.state / "logs").glob("*/guard.note"))
        obstacle = guard.with_name("guard.note.new")
        obstacle.mkdir()
        recorded, publication = forum.log.record_note(text_content("hello"), "key")
        left = forum.log.verify(forum.log.read_trust(), at=app.now() + DAY)
        assert (publication, recorded.entry.kind) == (None, "note/1")
        assert "the signer's guard failed while writing" in warnings[0]
        assert str(guard) in warnings[0]
        assert left.ok
        assert any("the next write signs them" in notice for notice in left.notices)
        with forum.log.open_writer() as ledger:  # a program that goes on writing hears of it too
            ledger.open_strand("run").append(Draft("run/open", "tester", RunOpenFacts()))
        assert len(warnings) == 2

        obstacle.rmdir()
        again, signed = forum.log.record_note(text_content("hello"), "key")
        assert again.leaf == recorded.leaf
        assert signed is not None
        assert signed.witnessed
        assert forum.log.verify(forum.log.read_trust()).ok


def test_a_witness_that_cannot_write_is_out_of_reach(settings: Settings) -> None:
    """The log is signed; the witness of this machine is asked again next time."""
    with Forum(settings, lambda _: None) as forum:
        forum.keys.initialise()
        memory = next((settings.state / "witness" / "logs").glob("*.note"))
        obstacle = memory.with_name(f"{memory.name}.new")
        obstacle.mkdir()
        _, publication = forum.log.record_note(text_content("hello"))
        left = forum.log.verify(forum.log.read_trust(), at=app.now() + DAY)
        obstacle.rmdir()
        _, after = forum.log.record_note(text_content("again"))

    assert publication is not None
    assert (publication.witnessed, len(publication.unreachable)) == (False, 1)
    assert "the witness's memory failed" in str(publication.unreachable[0])
    assert left.ok
    assert any("not cosigned yet" in notice for notice in left.notices)
    assert after is not None
    assert after.witnessed


def test_a_key_stands_for_one_remark(settings: Settings) -> None:
    """A retry returns what is recorded; the same key for something else is a mistake."""
    with Forum(settings, lambda _: None) as forum:
        forum.keys.initialise()
        first, _ = forum.log.record_note(text_content("hello"), "key")
        again, _ = forum.log.record_note(text_content("hello"), "key")
        other, _ = forum.log.record_note(text_content("hello"), "another key")

        assert first.leaf == again.leaf != other.leaf
        with pytest.raises(IdempotencyKeyUsed):
            forum.log.record_note(text_content("something else"), "key")
