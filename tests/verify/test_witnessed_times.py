"""Evidence of time that is taken away: no report claims more than what is left proves.

An approval is written on the ninth day and dated to the third; signer, witness and exporter are
honest.  Then somebody without any key takes away cosignatures: in the bundle, or in the database.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import pytest

from forum.ledger.bundle import gather_bundle
from forum.ledger.kinds import LEDGER_KINDS, WitnessedFacts
from forum.ledger.ports import Cosigner
from forum.ledger.sequencer import Publication, Publisher, Sequencer
from forum.ledger.strand import Draft
from forum.ledger.witness_records import WitnessRecorder, find_records
from forum.ledger.zip_archive import unpack_archive
from forum.tlog import (
    Note,
    Signature,
    SigningKey,
    cosign,
    parse_checkpoint,
    quorum_time,
    verify_cosignatures,
)
from forum.verify import Interval, Problem, Report
from tests.verify.samples import seal, verify_both
from tests.verify.world import (
    LOCAL,
    REMOTE,
    SECOND,
    START,
    World,
    junk_lines,
    problems,
    record_junk,
    witness_key,
)

DAY = 86_400


def day(number: int) -> int:
    """Return a moment of a day of the log, in seconds."""
    return START // SECOND + number * DAY


def stripped(note: bytes, *names: str) -> bytes:
    """Return a note without the lines of others than these."""
    parsed = Note.parse(note)
    return Note(parsed.text, tuple(s for s in parsed.signatures if s.name in names)).encode()


class Backdated(World):
    """A log of ten days, and an approval of the ninth that is dated to the third."""

    def __init__(self, folder: Path, *witnesses: str) -> None:
        super().__init__(folder, *(witnesses or (LOCAL,)))
        self.settle()
        for number in range(1, 10):
            self.now = day(number) * SECOND
            self.run(f"run-{number}")
            self.settle()
        self.now = (day(3) + 500) * SECOND
        self.run("approval")
        self.now = (day(9) + 1) * SECOND
        self.settle()
        self.now += 100 * SECOND
        self.run("last")
        self.settle()

    def bundle(self, run: str = "approval") -> bytes:
        """Export a run."""
        with self.store.snapshot() as reader:
            return gather_bundle(reader, LEDGER_KINDS, run, self.policy, verifier=b"").encode()

    def judge(self, data: bytes) -> Report:
        """Verify a bundle with all verifiers, which must agree."""
        return verify_both(data, self.trust)

    def strip(self, chosen: Callable[[int], bool], *kept: str) -> None:
        """Take the cosignatures of these days by others off the notes in the database."""
        database = sqlite3.connect(self.folder / "ledger.db")
        rows = database.execute("SELECT size, note FROM checkpoint ORDER BY size").fetchall()
        for size, data in rows:
            cosigned = verify_cosignatures(Note.parse(data), self.policy.witness_keys)
            if chosen(quorum_time(cosigned, self.policy)):
                note = stripped(data, self.key.name, *kept)
                database.execute("UPDATE checkpoint SET note = ? WHERE size = ?", (note, size))
        database.commit()
        database.close()


@pytest.fixture
def world(tmp_path: Path) -> Backdated:
    """Return the log with the backdated approval."""
    return Backdated(tmp_path)


def test_an_honest_export_shows_the_wrong_date(world: Backdated) -> None:
    """Nothing was taken away: all verifiers find the date, and prove the day."""
    report = world.judge(world.bundle())
    assert set(problems(report)) == {Problem.TIME_IMPOSSIBLE}
    assert report.interval == Interval(day(9), day(9) + 1)
    assert Problem.TIME_IMPOSSIBLE in problems(world.verify())


def test_an_honest_run_is_bounded_on_both_sides(world: Backdated) -> None:
    """The trees before and behind a run of the fifth day are its interval."""
    report = world.judge(world.bundle("run-5"))
    assert report.ok
    assert report.interval == Interval(day(4), day(5))
    assert not any("bounded" in line for line in report.not_checked)


def test_cosignatures_stripped_in_transit_leave_the_run_unbounded(world: Backdated) -> None:
    """Its date cannot be contradicted any more; the report says that it was not checked."""
    files = unpack_archive(world.bundle())
    for name in files:
        if name.startswith("past/") and name.endswith(".note"):
            files[name] = stripped(files[name], world.key.name)
    report = world.judge(seal(files))
    assert report.interval is not None
    assert report.interval.after is None
    assert any("not bounded below" in line for line in report.not_checked)


def test_cosignatures_stripped_in_the_database_widen_the_interval(world: Backdated) -> None:
    """The exporter is honest, and what it can prove is that the run is of days 3 to 9."""
    world.strip(lambda time: day(3) < time <= day(9) + 1)
    report = world.judge(world.bundle())
    assert report.interval == Interval(day(3), day(9) + 101)


def test_the_first_run_of_a_log_without_a_witness_then_is_unbounded(tmp_path: Path) -> None:
    """A laptop whose witness could not be reached: it holds, and says what it cannot show."""
    world = World(tmp_path, LOCAL)
    world.sign()
    world.run("run")
    world.settle()
    with world.store.snapshot() as reader:
        data = gather_bundle(reader, LEDGER_KINDS, "run", world.policy, verifier=b"").encode()
    report = verify_both(data, world.trust)
    assert report.ok
    assert report.interval == Interval(None, START // SECOND)
    assert any("not bounded below" in line for line in report.not_checked)


def test_a_witnessed_tree_before_the_run_bounds_it_though_later_ones_are_not(
    tmp_path: Path,
) -> None:
    """The exporter takes the last tree before the run that was witnessed."""
    world = World(tmp_path, LOCAL)
    size = parse_checkpoint(world.settle().note).size
    world.now += DAY * SECOND
    world.run("unwitnessed")
    world.sign()
    world.run("run")
    world.sign()
    world.run("another")
    world.settle()
    with world.store.snapshot() as reader:
        data = gather_bundle(reader, LEDGER_KINDS, "run", world.policy, verifier=b"").encode()
    assert f"past/{size:016}.note" in unpack_archive(data)
    report = verify_both(data, world.trust)
    assert report.ok
    assert report.interval == Interval(day(0), day(1))


class Recorded(Backdated):
    """The same log, whose sequencer records what was cosigned."""

    @property
    def sequencer(self) -> Sequencer:
        """Return a sequencer that records cosignatures."""
        recorder = WitnessRecorder(self.store, self.policy.witness_keys)
        return Sequencer(self.store, writer=self.ledger.writer, composers=(recorder,))

    def settle(self, *asked: Cosigner) -> Publication:
        """Sequence with records, sign, and ask the witnesses."""
        self.sequencer.drain()
        return self.publish(*asked)


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    """Return the log with the backdated approval, and with records of cosignatures."""
    return Recorded(tmp_path)


def records_of(world: World) -> list[WitnessedFacts]:
    """Return what a log recorded of its checkpoints."""
    with world.store.snapshot() as reader:
        return [entry.facts for entry in find_records(reader, LEDGER_KINDS)]


def test_each_cosignature_is_recorded_once_with_the_next_batch(recorded: Recorded) -> None:
    """An idle log stays idle; what is recorded are the lines below the stored notes."""
    size = recorded.store.head().size
    assert not recorded.sequencer.drain()
    assert recorded.store.head().size == size
    with recorded.store.snapshot() as reader:
        notes = {n.size: d for d in reader.checkpoints() if (n := parse_checkpoint(d)).size < size}
    facts = records_of(recorded)
    assert [fact.size for fact in facts] == list(notes)
    for fact in facts:
        (line,) = fact.cosignatures
        assert line.encode() in notes[fact.size]
    assert set(problems(recorded.verify())) == {Problem.TIME_IMPOSSIBLE}


def test_cosignatures_stripped_in_transit_are_missing(recorded: Recorded) -> None:
    """The bundle holds what the log recorded: it is a finding, and the times still count."""
    files = unpack_archive(recorded.bundle())
    for name in files:
        if name.startswith("past/") and name.endswith(".note"):
            files[name] = stripped(files[name], recorded.key.name)
    report = recorded.judge(seal(files))
    expected = {Problem.TIME_IMPOSSIBLE, Problem.COSIGNATURE_MISSING}
    assert set(problems(report)) == expected
    assert report.interval is not None
    assert report.interval.after == day(9)


def test_cosignatures_stripped_in_the_database_are_missing(recorded: Recorded) -> None:
    """In the ledger and in every bundle that an honest exporter makes of it."""
    recorded.strip(lambda time: day(3) < time <= day(9) + 1)
    expected = {Problem.TIME_IMPOSSIBLE, Problem.COSIGNATURE_MISSING}
    assert set(problems(recorded.verify())) == expected
    report = recorded.judge(recorded.bundle())
    assert set(problems(report)) == expected
    assert report.interval == Interval(day(9), day(9) + 1)


class Flooded(Recorded):
    """The same log, with other lines before the cosignatures that it recorded of a checkpoint.

    They are written by somebody who has the write key and the database, and signed: each is a
    signature line, and those of witnesses hold.
    """

    def settle(self, *asked: Cosigner) -> Publication:
        """Sign, and record lines of the new checkpoint before the sequencer does."""
        publication = super().settle(*asked)
        record_junk(self, publication.note, self.junk(publication.note))
        return publication

    def junk(self, note: bytes) -> list[str]:
        """Return lines to record of a checkpoint."""
        del note
        return junk_lines(70)


class Repeated(Flooded):
    """The lines before are copies of one that is left below the note."""

    def junk(self, note: bytes) -> list[str]:
        """Return copies of the line of the first witness."""
        line = next(s for s in Note.parse(note).signatures if s.name == LOCAL)
        return [str(line)] * 70


@pytest.mark.parametrize("log", [Flooded, Repeated])
def test_lines_before_the_recorded_cosignatures_do_not_hide_them(
    tmp_path: Path, log: type[Flooded]
) -> None:
    """Only the first line of each witness is read that is not below the note, wherever it is."""
    world = log(tmp_path, LOCAL, REMOTE)
    assert set(problems(world.verify())) == {Problem.TIME_IMPOSSIBLE}
    files = unpack_archive(world.bundle())
    for name in files:
        if name.startswith("past/") and name.endswith(".note"):
            files[name] = stripped(files[name], world.key.name, LOCAL)
    expected = {Problem.TIME_IMPOSSIBLE, Problem.COSIGNATURE_MISSING}

    report = world.judge(seal(files))

    assert set(problems(report)) == expected
    assert report.interval is not None
    assert report.interval.after == day(9)
    world.strip(lambda time: day(3) < time <= day(9) + 1, LOCAL)
    assert set(problems(world.verify())) == expected
    assert set(problems(world.judge(world.bundle()))) == expected


def test_a_checkpoint_that_was_recorded_and_is_gone_is_missing(recorded: Recorded) -> None:
    """Its time still counts, because the tree has the root that was cosigned."""
    before = len(records_of(recorded))
    with closing(sqlite3.connect(recorded.folder / "ledger.db")) as database, database:
        places = [fact.size for fact in records_of(recorded)][2:9]
        database.executemany("DELETE FROM checkpoint WHERE size = ?", [(size,) for size in places])
    assert len(records_of(recorded)) == before
    found = [f.problem for f in recorded.verify().findings if f.problem != Problem.PAST_UNKNOWN]
    assert set(found) >= {Problem.TIME_IMPOSSIBLE, Problem.COSIGNATURE_MISSING}


@pytest.mark.parametrize("is_there", [True, False])
def test_a_signer_that_died_before_it_stored_a_cosignature_accuses_nobody(
    recorded: Recorded,
    is_there: bool,  # noqa: FBT001  whether the database has the checkpoint without it
) -> None:
    """It was kept beside the guard, and the disk was full: the next batch records and stores it.

    A standby that takes over may lack the checkpoint itself.
    """
    with recorded.store.snapshot() as reader:
        kept = reader.checkpoint()
    assert kept is not None
    size = parse_checkpoint(kept).size
    recorded.strip(lambda time: time == recorded.now // SECOND)
    if not is_there:
        with closing(sqlite3.connect(recorded.folder / "ledger.db")) as database, database:
            database.execute("DELETE FROM checkpoint WHERE size = ?", (size,))
    recorder = WitnessRecorder(recorded.store, recorded.policy.witness_keys, lambda: kept)
    recorded.run("after")
    Sequencer(recorded.store, writer=recorded.ledger.writer, composers=(recorder,)).drain()
    recorded.publish()
    assert size in [fact.size for fact in records_of(recorded)]
    assert set(problems(recorded.verify())) == {Problem.TIME_IMPOSSIBLE}


def test_a_writer_cannot_invent_a_cosignature(recorded: Recorded) -> None:
    """A line that the witness did not make is a finding, and no evidence of time."""
    with recorded.store.snapshot() as reader:
        newest = parse_checkpoint(reader.checkpoint() or b"")
    key = witness_key(LOCAL)
    forged = SigningKey(b"f" * 32, LOCAL, key.algorithm)
    line = cosign(str(newest), forged, day(1))
    named = Signature(line.name, key.verifier().key_id, line.blob)
    facts = WitnessedFacts(newest.size, newest.root.hex(), (str(named),))
    recorded.ledger.append_log_entry(Draft("witnessed", "system", facts), "witnessed")
    # An honest sequencer sets the row aside: nobody else writes to its strand.
    with patch("forum.ledger.own_entries.is_foreign_to_own", return_value=False):
        Sequencer(recorded.store).drain()
    recorded.publish()
    assert Problem.SIGNATURE_REJECTED in problems(recorded.verify())


def test_a_log_that_was_not_witnessed_for_a_while_says_so(tmp_path: Path) -> None:
    """Nobody condemns a laptop: the record of a checkpoint without cosignatures is empty."""
    world = Recorded.__new__(Recorded)
    World.__init__(world, tmp_path, LOCAL)
    world.settle()
    for number in range(3):
        world.run(f"run-{number}")
        world.sequencer.drain()
        Publisher(world.store, world.key, world.guard, world.policy).sign()
    world.run("last")
    world.settle()
    assert [len(fact.cosignatures) for fact in records_of(world)] == [1, 0, 0, 0]
    report = world.verify()
    assert report.ok
    assert any("3 checkpoints" in notice for notice in report.notices)


def test_times_that_fall_in_the_order_of_the_log_are_impossible(tmp_path: Path) -> None:
    """Without a single cosignature between, the entries before it contradict the date."""
    world = World(tmp_path, LOCAL)
    world.settle()
    for number in range(1, 10):
        world.now = day(number) * SECOND
        world.run(f"run-{number}")
        world.sign()
    world.now = (day(3) + 500) * SECOND
    world.run("approval")
    world.now = (day(9) + 1) * SECOND
    world.settle()
    report = world.verify()
    assert {f.entry for f in report.findings} == {f"approval/main/{n}" for n in range(3)}
    assert set(problems(report)) == {Problem.TIME_IMPOSSIBLE}


def test_a_clock_that_was_ahead_condemns_nobody_else_after_the_next_checkpoint(
    tmp_path: Path,
) -> None:
    """Its own entries are the findings: those of others are below the witnessed time."""
    world = World(tmp_path, LOCAL)
    world.settle()
    world.skew = DAY * SECOND
    world.run("ahead")
    world.skew = 0
    world.now += 200 * SECOND
    world.run("right")
    world.settle()
    world.run("later")
    world.settle()
    report = world.verify()
    assert {(f.entry or "").split("/")[0] for f in report.findings} == {"ahead"}
