"""Backup and restoration: what is destroyed comes back, and no log goes on in two ways."""

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Event, Thread

import psycopg
import pytest
from msgspec.structs import replace

from forum.app import KINDS, Forum, upgrade_database
from forum.config import load_settings
from forum.errors import BackupRejected, ForumError, RestoreRefused, TamperDetected
from forum.features.backup.service import MANIFEST, create_backup, read_backup, restore_backup
from forum.features.demo.tampering import open_tamperer
from forum.ledger.body import text_content
from forum.ledger.entry import LOG_RUN, MAIN_STRAND
from forum.tlog import parse_checkpoint
from forum.verify import Problem
from tests.soak.cluster import scratch_database
from tests.support import wait_until
from tests.surfaces.terminal import Terminal


@dataclass
class Machine:
    """A machine with a project on it, and the databases that it has used so far."""

    folder: Path
    postgres: str | None
    undo: ExitStack
    database: str | None = None
    state: str = "state"
    backups: int = field(default=0)

    def __post_init__(self) -> None:
        (self.folder / "project").mkdir(parents=True)
        (self.folder / "project/forum.toml").write_text('[ledger]\norigin = "example.com/drill"\n')
        self._new_database()

    def _new_database(self) -> None:
        if self.postgres is not None:
            self.database = self.undo.enter_context(scratch_database(self.postgres))
            upgrade_database(self.forum().settings)

    def forum(self) -> Forum:
        """Open the ledger."""
        environ = {"FORUM_STATE_DIR": str(self.folder / self.state)}
        if self.database:
            environ["FORUM_DATABASE_URL"] = self.database
        return Forum(load_settings(self.folder / "project", environ))

    def write(self, notes: int) -> int:
        """Record some notes, and return the size of the log."""
        with self.forum() as forum:
            forum.keys.initialise()
            for n in range(notes):
                # Long enough that it is stored as pieces, which have ids of their own.
                forum.log.record_note(text_content(f"note {n} " * 400))
            return forum.store.head().size

    def back_up(self) -> Path:
        """Back the ledger up."""
        self.backups += 1
        target = self.folder / f"backup-{self.backups}"
        with self.forum() as forum:
            create_backup(forum, target)
        return target

    def destroy(self) -> None:
        """Lose the project's data and its database; the state directory is left."""
        shutil.rmtree(self.folder / "project/.forum")
        self._new_database()

    def lose_database(self) -> None:
        """Lose the database alone."""
        for path in (self.folder / "project/.forum").glob("ledger.db*"):
            path.unlink()
        self._new_database()

    def empty(self, tables: Sequence[str]) -> None:
        """Delete all rows of some tables, as whoever has the database can."""
        if self.database:
            with psycopg.connect(self.database, autocommit=True) as postgres:
                names = ", ".join(f"forum.{table}" for table in tables)
                postgres.execute(f"TRUNCATE {names} CASCADE".encode())
            return
        with closing(sqlite3.connect(self.folder / "project/.forum/ledger.db")) as lite, lite:
            lite.execute("PRAGMA foreign_keys = off")
            for (name,) in lite.execute(
                "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall():
                lite.execute(f"DROP TRIGGER {name}")
            for table in tables:
                lite.execute(f"DELETE FROM {table}")  # noqa: S608

    def verify(self) -> set[Problem]:
        """Verify the ledger, and return what is found."""
        with self.forum() as forum:
            report = forum.log.verify(forum.log.read_trust())
        assert report.ok == (not report.findings)
        return {finding.problem for finding in report.findings}


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    """Return a machine whose ledger is in a file, or in Postgres."""
    postgres = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    with ExitStack() as undo:
        yield Machine(tmp_path, postgres, undo)


def test_a_backup_of_the_newest_state_goes_on(machine: Machine) -> None:
    """Nothing was signed after it: the log is the same, and needs no new epoch."""
    size = machine.write(3)
    saved = machine.back_up()
    machine.destroy()
    restored = restore_backup(machine.forum().settings, saved)

    assert (restored.size, restored.remembered, restored.lost, restored.epoch) == (
        size,
        size,
        0,
        "",
    )
    assert machine.verify() == set()
    assert machine.write(1) > size
    assert machine.verify() == set()


def test_a_backup_with_a_quarantined_row_can_be_restored(machine: Machine) -> None:
    """What somebody planted in the database must not keep its owner from restoring it."""
    machine.write(2)
    with machine.forum() as forum:
        planted = forum.store.last_entry(LOG_RUN, MAIN_STRAND)
        assert planted is not None
        entry = KINDS.read(planted)
        forged = KINDS.write(replace(entry, n=entry.n + 1))
        open_tamperer(forum).insert(forged, bytes(16))
    size = machine.write(1)
    saved = machine.back_up()
    machine.destroy()
    restored = restore_backup(machine.forum().settings, saved)

    assert restored.size == size
    assert machine.verify() == {Problem.ROW_QUARANTINED}


def test_an_older_backup_is_refused_and_becomes_a_new_epoch(machine: Machine) -> None:
    """To sign other entries in the place of lost ones would make two histories of one log."""
    size = machine.write(2)
    saved = machine.back_up()
    later = machine.write(3)
    machine.destroy()
    settings = machine.forum().settings

    with pytest.raises(RestoreRefused, match=f"checkpoint of size {later}.*{later - size} entries"):
        restore_backup(settings, saved)
    with pytest.raises(RestoreRefused):
        restore_backup(settings, saved, resume=True)  # which is for those who remember nothing
    assert not settings.key_file.exists()
    assert not settings.ledger_file.exists()
    restored = restore_backup(settings, saved, epoch=True)

    assert (restored.size, restored.remembered, restored.lost) == (size, later, later - size)
    with machine.forum() as forum:
        (opened,) = forum.store.entries(0, 1)
        left = forum.ledger.kinds.read(opened or b"").facts
    assert forum.origin == restored.epoch == "example.com/drill/epoch-2"
    assert (left.left_origin, left.left_size) == ("example.com/drill", later)
    assert machine.verify() == set()
    machine.write(1)
    assert machine.verify() == set()


def test_a_machine_that_remembers_nothing_is_asked(machine: Machine) -> None:
    """The state directory is gone too: whether more was signed, only its operator can know."""
    size = machine.write(2)
    saved = machine.back_up()
    machine.destroy()
    machine.state = "another"
    settings = machine.forum().settings

    with pytest.raises(RestoreRefused, match="remembers nothing"):
        restore_backup(settings, saved)
    restored = restore_backup(settings, saved, resume=True)

    assert (restored.size, restored.remembered, restored.epoch) == (size, 0, "")
    assert machine.write(1) > size
    assert machine.verify() == set()


def test_another_history_of_the_log_is_refused(machine: Machine) -> None:
    """Two machines had the same key: what one has signed, the other does not continue."""
    machine.write(1)
    saved = machine.back_up()
    machine.write(1)  # this history is remembered
    machine.destroy()
    remembered, machine.state = machine.state, "another"
    restore_backup(machine.forum().settings, saved, resume=True)
    machine.write(4)
    other = machine.back_up()
    machine.destroy()
    machine.state = remembered

    with pytest.raises(RestoreRefused, match="another history"):
        restore_backup(machine.forum().settings, other)


def test_a_backup_is_of_one_moment_while_others_write(machine: Machine) -> None:
    """Nobody stops a system to copy it: rows of two moments would be a ledger that never was."""
    machine.write(1)
    stop = Event()

    def write() -> None:
        with machine.forum() as forum, forum.log.open_writer() as ledger:
            for n in count():
                ledger.open_run(f"run-{n}", "tester")
                if stop.is_set():
                    return

    def back_up_later() -> Path:
        """Back up after the log has grown: an entry that waits for its index is in no size."""
        with machine.forum() as forum:
            before = forum.store.head().size
            wait_until(lambda: forum.store.head().size > before)
        return machine.back_up()

    writer = Thread(target=write)
    writer.start()
    try:
        saved = [back_up_later() for _ in range(5)]
    finally:
        stop.set()
        writer.join()
    sizes = [read_backup(path).size for path in saved]
    machine.destroy()
    for path in saved[:-1]:
        with pytest.raises(RestoreRefused):
            restore_backup(machine.forum().settings, path)
    restored = restore_backup(machine.forum().settings, saved[-1], epoch=True)

    assert sizes == sorted(set(sizes))
    assert restored.size == sizes[-1]
    assert machine.verify() == set()


def test_an_altered_backup_is_rejected(machine: Machine) -> None:
    """A backup lies around for years: what was changed in it must not become the ledger."""
    machine.write(2)
    saved = machine.back_up()
    machine.destroy()
    settings = machine.forum().settings
    names = [file.path for file in read_backup(saved).files]
    for name in names:
        original = (saved / name).read_bytes()
        (saved / name).write_bytes(original + b"!")
        with pytest.raises(BackupRejected, match="not the file"):
            restore_backup(settings, saved)
        (saved / name).unlink()
        with pytest.raises(BackupRejected, match="missing"):
            restore_backup(settings, saved)
        (saved / name).write_bytes(original)
    (saved / "more").touch()
    with pytest.raises(BackupRejected, match="not in its manifest"):
        restore_backup(settings, saved)
    (saved / "more").unlink()
    (saved / MANIFEST).unlink()
    with pytest.raises(BackupRejected, match="not finished"):
        restore_backup(settings, saved)
    assert not settings.key_file.exists()


def test_a_ledger_is_not_written_over(machine: Machine) -> None:
    """What is there may be newer than the backup, and it is the only copy."""
    machine.write(1)
    saved = machine.back_up()
    with pytest.raises(BackupRejected, match="already"):
        restore_backup(machine.forum().settings, saved, epoch=True)
    shutil.rmtree(machine.folder / "project/.forum")
    if machine.postgres:
        with pytest.raises(BackupRejected, match=r"holds the log example\.com/drill already"):
            restore_backup(machine.forum().settings, saved)


def test_an_emptied_database_is_no_backup(machine: Machine) -> None:
    """Whoever kept it in the place of an older one would have nothing of what was signed."""
    machine.write(3)
    machine.empty(("leaf", "body", "head", "checkpoint", "tile", "entry", "strand"))
    with pytest.raises(TamperDetected, match="put the newer database back"):
        machine.back_up()


def test_no_log_begins_in_the_place_of_a_lost_one(machine: Machine) -> None:
    """It would have its name and its key, and contradict what was signed."""
    machine.write(3)
    machine.lose_database()
    with machine.forum() as forum:
        with pytest.raises(TamperDetected, match="put the newer database back"):
            forum.keys.initialise()
        assert not forum.store.count_entries()
    with pytest.raises(ForumError):
        machine.back_up()


def test_the_state_directory_is_not_in_a_backup(machine: Machine) -> None:
    """Restored together with the ledger, the guard would forget what it is there to remember."""
    machine.write(1)
    saved = machine.back_up()
    with machine.forum() as forum:
        notes = {parse_checkpoint(note).size for note in forum.remembered_checkpoints()}

    assert notes == {read_backup(saved).size}
    assert not list(saved.rglob("*.note"))
    assert not list(saved.rglob("witness*"))
    assert {path.stat().st_mode & 0o077 for path in saved.rglob("*")} == {0}


@pytest.mark.postgres
def test_a_restored_log_fits_beside_others(postgres_url: str, tmp_path: Path) -> None:
    """A database has given its ids to other logs: what is restored must not take theirs."""
    with ExitStack() as undo:
        machine = Machine(tmp_path / "own", postgres_url, undo)
        machine.write(2)
        saved = machine.back_up()
        machine.destroy()
        beside = Machine(tmp_path / "beside", None, undo, machine.database)
        (tmp_path / "beside/project/forum.toml").write_text('[ledger]\norigin = "example.com/b"\n')
        beside.write(3)
        restore_backup(machine.forum().settings, saved)

        assert machine.verify() == beside.verify() == set()


def test_the_commands_say_what_is_lost(tmp_path: Path) -> None:
    """Whoever restores a ledger has to learn which entries are not in it."""
    terminal = Terminal(tmp_path)
    terminal.call("init")
    first = terminal.note("first")
    saved = terminal.ask("backup", "../saved")
    terminal.note("second")
    shutil.rmtree(terminal.folder)
    terminal.folder.mkdir()
    refused = terminal.type("restore", "../saved")
    left_over = list(terminal.folder.iterdir())
    restored = terminal.type("restore", "../saved", "--epoch")

    assert (saved["size"], saved["signed"]) == (first["index"] + 4, first["index"] + 4)
    assert refused.returncode == 1
    assert "would fork the log, and 5 entries" in refused.stderr
    assert "--epoch" in refused.stderr
    assert left_over == []
    assert restored.returncode == 0, restored.stderr
    assert restored.stdout.strip() == f"{saved['origin']}/epoch-2"
    assert "lost: 5 entries" in restored.stderr
    assert terminal.call("ledger", "verify").exit_code == 0
    assert terminal.call("restore", "../saved", "--epoch", "--resume").exit_code == 2
    assert terminal.call("backup", "../saved").exit_code == 2
