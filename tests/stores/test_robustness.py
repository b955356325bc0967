"""Full disks, disks that can only be read, other processes, and bodies larger than memory.

A ledger may refuse; it then says so with an error of ours, keeps all that it acknowledged, and
goes on as soon as it can.
"""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from forum.errors import StoreFailed
from forum.ledger.ports import Store
from forum.ledger.sequencer import Publisher, Sequencer
from forum.stores.sqlite import SqliteStore, open_reader
from forum.stores.state_files import FileCheckpointStore
from forum.tlog import WitnessPolicy
from tests.support import (
    Chain,
    Pieces,
    StoreFactory,
    data_of,
    entries_of,
    fresh_origin,
    key_of,
    leaves_of,
)
from tests.tlog.trees import compute_root

ROOT = Path(__file__).parent.parent.parent
NO_WITNESSES = WitnessPolicy((), (), (), "none")


class Disk:
    """A small file system of its own, in memory."""

    def __init__(self, folder: Path, kilobytes: int) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"
        mount("-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", f"{folder}")

    def hold_back(self, kilobytes: int) -> None:
        """Take space away that can be given back."""
        self._ballast.write_bytes(bytes(kilobytes << 10))

    def fill_up(self) -> None:
        """Take the last byte."""
        with suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(1024))

    def free(self) -> None:
        """Give it all back."""
        self._ballast.unlink()

    def make_read_only(self) -> None:
        """Let nobody write any more."""
        mount("-o", "remount,ro", f"{self.folder}")

    def unmount(self) -> None:
        """Let go of it."""
        subprocess.run(["umount", "--lazy", f"{self.folder}"], check=True)


def mount(*arguments: str) -> None:
    """Mount a file system, which needs root; without it a test is not possible."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr.strip()}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Return a disk of three megabytes: what waits at its end does not fit into one last page."""
    folder = tmp_path / "disk"
    folder.mkdir()
    disk = Disk(folder, 3072)
    yield disk
    disk.unmount()


class CappedStore(SqliteStore):
    """A store whose file cannot grow beyond a number of pages, until it is given more."""

    def cap(self, pages: int) -> None:
        """Let the file have so many pages."""
        self._db.execute(f"PRAGMA max_page_count = {pages}")


def fill(store: Store, chain: Chain, kilobytes: int) -> list[bytes]:
    """Append entries with bodies until the store refuses, and return what it acknowledged."""
    acknowledged: list[bytes] = []
    while True:
        record = chain.next(text=Pieces(kilobytes << 10))
        try:
            store.append([record])
        except StoreFailed:
            chain.records.pop()
            return acknowledged
        acknowledged.append(record.data)


def check_whole(path: Path, origin: str, expected: list[bytes]) -> None:
    """Check that a ledger has exactly these entries, with their bodies, in one tree."""
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    factory = StoreFactory(path, origin)
    store = factory()
    Sequencer(store).drain()
    assert list(store.read_strand("run", "main")) == expected
    assert sorted(entries_of(store)) == sorted(expected)
    assert store.head().root == compute_root(leaves_of(store))
    factory.close()


def test_a_full_disk_costs_nothing_that_was_acknowledged(disk: Disk) -> None:
    """It refuses in words, is read as before, and goes on when there is space again."""
    path, guard = disk.folder / "ledger.db", FileCheckpointStore(disk.folder / "guard.note")
    factory = StoreFactory(path)
    store, chain = factory(), Chain(factory.origin)
    publisher = Publisher(store, key_of(factory.origin), guard, NO_WITNESSES)
    signed = publisher.publish()
    store.append(chain.take(3))
    Sequencer(store).drain()
    # So much that the log of SQLite does not begin anew at the end: it would have room in its file.
    disk.hold_back(740)
    acknowledged = [*data_of(chain.records), *fill(store, chain, 50), *fill(store, chain, 1)]
    disk.fill_up()
    for call in (Sequencer(store).drain, publisher.publish):
        with pytest.raises(StoreFailed):
            call()
    assert guard.latest() == signed.note
    assert list(store.read_strand("run", "main")) == acknowledged
    assert list(factory().read_strand("run", "main")) == acknowledged
    disk.free()
    store.append([chain.next(text=Pieces(100 << 10))])
    Sequencer(store).drain()
    published = publisher.publish()
    factory.close()

    assert len(acknowledged) > 10
    assert published.checkpoint.size == len(acknowledged) + 1
    check_whole(path, factory.origin, data_of(chain.records))


def test_a_ledger_that_could_not_be_made_can_be_made_later(disk: Disk) -> None:
    """What a full disk leaves of a new ledger must not be in the way of the next attempt."""
    factory = StoreFactory(disk.folder / "ledger.db")
    disk.fill_up()
    with pytest.raises(StoreFailed):
        factory()
    disk.free()
    store, chain = factory(), Chain(factory.origin)
    store.append(chain.take(1))
    factory.close()

    check_whole(disk.folder / "ledger.db", factory.origin, data_of(chain.records))


def test_a_full_file_costs_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """The same with a limit of SQLite's own, where no disk can be mounted."""
    path, origin = tmp_path / "ledger.db", fresh_origin()
    store, chain = CappedStore(path, origin), Chain(origin)
    store.cap(200)
    acknowledged = [*fill(store, chain, 50), *fill(store, chain, 1)]
    with pytest.raises(StoreFailed, match="full"):
        store.append([chain.next(text=Pieces(100 << 10))])
    strand = list(store.read_strand("run", "main"))
    store.cap(10_000)
    store.append([chain.records[-1]])
    store.close()

    assert len(acknowledged) > 10
    assert strand == acknowledged
    check_whole(path, origin, data_of(chain.records))


def test_a_ledger_on_a_read_only_disk_is_read(disk: Disk) -> None:
    """Evidence is often looked at on a medium that nobody may change."""
    factory = StoreFactory(disk.folder / "ledger.db")
    store, chain = factory(), Chain(factory.origin)
    store.append([chain.next(text=Pieces(5000)), *chain.take(2)])
    Sequencer(store).drain()
    guard = FileCheckpointStore(disk.folder / "guard.note")
    guard.advance(None, b"note")
    factory.close()
    disk.make_read_only()

    with open_reader(disk.folder / "ledger.db", factory.origin) as reader:
        body = reader.body(chain.records[0].position, "text")
        assert entries_of(reader) == data_of(chain.records)
        assert body is not None
        assert body.matches(chain.records[0].bodies[0].commitment())
    assert guard.latest() == b"note"
    with pytest.raises(StoreFailed):
        factory()
    with pytest.raises(StoreFailed, match="Read-only"):
        guard.advance(b"note", b"newer")


def test_a_ledger_that_was_not_closed_is_not_read_as_it_once_was(
    disk: Disk, tmp_path: Path
) -> None:
    """On a read-only disk its newest entries are in the log beside it: all of them, or an error."""
    factory = StoreFactory(tmp_path / "ledger.db")
    store, chain = factory(), Chain(factory.origin)
    for _ in range(3):
        store.append(chain.take(1))
    for name in ("ledger.db", "ledger.db-wal"):
        (disk.folder / name).write_bytes((tmp_path / name).read_bytes())
    factory.close()
    disk.make_read_only()
    strand = None
    try:
        with open_reader(disk.folder / "ledger.db", factory.origin) as reader:
            strand = list(reader.read_strand("run", "main"))
    except StoreFailed:
        pass

    assert strand in (None, data_of(chain.records))


def another_process(*arguments: object) -> "subprocess.Popen[str]":
    """Start another process with the same ledger."""
    command = [sys.executable, "-m", "tests.stores.another_process", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_two_processes_write_one_ledger(store_factory: StoreFactory) -> None:
    """Both append and both sequence; neither loses anything to the other."""
    store, chain = store_factory(), Chain(store_factory.origin, strand="here")
    with another_process("write", store_factory.place, store.origin, "there", 150) as other:
        assert other.stdout is not None
        other.stdout.readline()
        for _ in range(150):
            store.append(chain.take(1))
        Sequencer(store).drain()
        other.communicate()
    Sequencer(store).drain()
    expected = Chain(store.origin, strand="there")
    expected.take(150)

    assert other.returncode == 0
    assert list(store.read_strand("run", "here")) == data_of(chain.records)
    assert list(store.read_strand("run", "there")) == data_of(expected.records)
    assert store.head().size == 300
    assert store.head().root == compute_root(leaves_of(store))


def test_a_killed_process_keeps_what_was_acknowledged(store_factory: StoreFactory) -> None:
    """It cannot tidy up; what it printed is there, and the next one goes on behind it."""
    store, expected = store_factory(), Chain(store_factory.origin, strand="there")
    with another_process("write", store_factory.place, store.origin, "there", 100_000) as other:
        assert other.stdout is not None
        acknowledged = [int(other.stdout.readline()) for _ in range(25)]
        os.kill(other.pid, signal.SIGKILL)
        acknowledged += [int(line) for line in other.stdout.read().splitlines()]
    strand = list(store.read_strand("run", "there"))
    expected.take(len(strand))
    store.append(expected.take(1))
    Sequencer(store).drain()

    assert acknowledged == list(range(len(acknowledged)))
    assert len(strand) >= len(acknowledged)
    assert entries_of(store) == data_of(expected.records)


@pytest.mark.parametrize("megabytes", [1, 100])
def test_a_body_needs_little_memory(store_factory: StoreFactory, megabytes: int) -> None:
    """Whoever stores or checks a large body must not need a machine of its size."""
    with another_process("carry", store_factory.place, store_factory.origin, megabytes) as other:
        assert other.stdout is not None
        used = int(other.stdout.read())

    assert other.returncode == 0
    assert used < 40
