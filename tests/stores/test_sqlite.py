"""What only the SQLite backend has to promise: about its file, and those beside it."""

import secrets
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier
from time import sleep

import pytest

from forum.errors import NoSuchLog, SchemaTooNew, StoreFailed
from forum.ledger.body import CHUNK_SIZE, BytesContent
from forum.ledger.conditions import StoreCondition
from forum.ledger.entry import read_entry
from forum.ledger.ports import Amount, BudgetAccount, EntryWrite, OpenBudgetAccount
from forum.ledger.sequencer import Sequencer
from forum.stores import sql_migrations, sqlite_connections
from forum.stores.sqlite import SqliteStore, copy_ledger, open_copy, open_reader
from forum.stores.sqlite_schema import run_script
from forum.stores.store_monitor import StoreMonitor
from forum.tlog import EMPTY_ROOT
from tests.support import Chain, StoreFactory, data_of, entries_of, fresh_origin


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the ledger is."""
    return tmp_path / "ledger.db"


def bytes_on_disk(path: Path) -> bytes:
    """Return the ledger and all that SQLite keeps beside it."""
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(f"{path.name}*")))


@pytest.mark.parametrize("size", [40, 5_000, 2 * CHUNK_SIZE + 5_000], ids=["short", "page", "long"])
def test_an_erased_body_is_in_no_file(path: Path, size: int) -> None:
    """To erase means that not even the owner of the disk's files can read it again."""
    factory = StoreFactory(path)
    store, chain = factory(), Chain(factory.origin)
    factory()  # another process has the ledger open, and keeps the log of writes alive
    secret = secrets.token_bytes(size)
    store.append(
        [chain.next(text=BytesContent(secret)), chain.next(text=BytesContent(b"its neighbour"))]
    )
    store.append(chain.take(2))
    record = chain.records[0]
    places = range(0, size - 31, max(1, size // 100))
    traces = [record.bodies[0].salt, *(secret[at : at + 32] for at in places)]
    before = bytes_on_disk(path)
    store.erase_bodies([(record.position, "text")])
    after = bytes_on_disk(path)
    factory.close()

    # Not all of them: some lie across the border of two pages.
    assert sum(trace in before for trace in traces) > 0.9 * len(traces)
    assert not any(trace in after for trace in traces)
    assert b"its neighbour" in after


def test_a_body_that_is_being_read_is_not_erased_in_part(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a snapshot shows it the files must hold it; to say it is gone would be a lie."""
    monkeypatch.setattr(sqlite_connections, "_BUSY_TIMEOUT_S", 0.05)
    factory = StoreFactory(path)
    store, chain = factory(), Chain(factory.origin)
    record = chain.next(text=BytesContent(b"to be erased"))
    store.append([record])
    with store.snapshot() as view:
        with pytest.raises(StoreFailed, match="try again"):
            store.erase_bodies([(record.position, "text")])
        assert view.body(record.position, "text") is not None
        assert store.body(record.position, "text") is not None
    store.erase_bodies([(record.position, "text")])

    assert b"to be erased" not in bytes_on_disk(path)
    factory.close()


def _origins(path: Path) -> list[str]:
    """Return the names of the logs in a file, oldest first."""
    with closing(sqlite3.connect(path)) as db:
        return [row[0] for row in db.execute("SELECT origin FROM log ORDER BY id")]


def test_many_processes_make_one_ledger(path: Path) -> None:
    """A first run often starts several workers at once, and all of them open the ledger."""
    for attempt in range(10):
        file, start = path.with_name(f"{attempt}.db"), Barrier(4)

        def make(origin: str, file: Path = file, start: Barrier = start) -> None:
            start.wait()
            SqliteStore(file, origin).close()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(make, ["a", "b", "a", "b"]))
        assert sorted(_origins(file)) == ["a", "b"]


def test_a_path_is_not_taken_for_an_address(tmp_path: Path) -> None:
    """A question mark in a folder's name must not become an option of the database."""
    folder = tmp_path / "50% of #1?mode=memory&x= é"
    folder.mkdir()
    factory = StoreFactory(folder / "ledger.db")
    factory().append(Chain(factory.origin).take(1))
    factory.close()

    assert (folder / "ledger.db").stat().st_size > 0
    assert _origins(folder / "ledger.db") == [factory.origin]


def test_a_ledger_is_durable_before_it_acknowledges(path: Path) -> None:
    """Without synchronous=FULL a power cut takes entries that were acknowledged."""
    connection = sqlite_connections.connect(path)  # these settings are those of a connection
    levels = [
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("synchronous", "secure_delete", "journal_mode")
    ]
    connection.close()

    assert levels == [2, 1, "wal"]


def test_a_closed_ledger_is_read_without_being_changed(path: Path) -> None:
    """Whoever verifies a ledger must not be able to write into it."""
    factory = StoreFactory(path)
    chain = Chain(factory.origin)
    factory().append(chain.take(3))
    factory.close()
    before = path.read_bytes()
    with open_reader(path, factory.origin) as reader:
        strand = list(reader.read_strand("run", "main"))

    assert strand == data_of(chain.records)
    assert path.read_bytes() == before


def test_what_is_not_there_is_not_made_by_reading(path: Path) -> None:
    """A mistyped path or name must not leave an empty ledger that verifies as intact."""
    with pytest.raises(StoreFailed, match="there is no ledger"), open_reader(path, "o"):
        pass
    assert not path.exists()
    StoreFactory(path, "o")().close()
    with pytest.raises(NoSuchLog, match="other"), open_reader(path, "other"):
        pass
    assert _origins(path) == ["o"]


@pytest.mark.parametrize("content", [b"not a database, but long enough to be one" * 99, b""])
def test_a_file_that_is_no_ledger_is_refused(path: Path, content: bytes) -> None:
    """With an error of ours: what lies on a disk is not a fault of the program."""
    path.write_bytes(content)

    with pytest.raises(StoreFailed), open_reader(path, "o"):
        pass
    if content:
        with pytest.raises(StoreFailed):
            SqliteStore(path, "o")
        assert path.read_bytes() == content


def make_old_ledger(path: Path, records: list[EntryWrite], *, schema: int) -> None:
    """Write a ledger with entries as a release with this version of the schema left it."""
    origin = read_entry(records[0].data).log
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for migration in sql_migrations.load_migrations("sqlite")[:schema]:
            run_script(db, migration)
        db.execute(f"PRAGMA user_version = {schema}")
        db.execute("INSERT INTO log (id, origin, root) VALUES (1, ?, ?)", (origin, EMPTY_ROOT))
        db.execute("INSERT INTO strand (id, log, run, name) VALUES (1, 1, 'run', 'main')")
        rows = [(record.position.n, record.data) for record in records]
        db.executemany("INSERT INTO entry (strand, n, bytes) VALUES (1, ?, ?)", rows)


def test_a_ledger_of_the_first_release_is_read_as_it_is_and_upgraded_when_opened(
    path: Path,
) -> None:
    """Whoever verifies it need not write into it; whoever goes on with it need not do anything."""
    factory = StoreFactory(path)
    chain = Chain(factory.origin)
    make_old_ledger(path, chain.take(2), schema=1)
    with open_reader(path, factory.origin) as reader:
        strand = list(reader.read_strand("run", "main"))
    store = factory()
    store.append([chain.next(effects=(OpenBudgetAccount("run", Amount()),))])

    assert strand == data_of(chain.records[:2])
    assert list(store.read_strand("run", "main")) == data_of(chain.records)
    assert store.account("run") == BudgetAccount(Amount(), Amount())
    factory.close()


def test_a_copy_of_an_older_ledger_is_read_with_its_bodies(path: Path) -> None:
    """A backup of release 0.2 is verified before it is restored, and is not changed by that."""
    history = Path(__file__).parent.parent / "histories/0.2.0/sqlite/data/ledger.db"
    old = path.with_name("old.db")
    old.write_bytes(history.read_bytes())
    copy_ledger(old, path)
    before = path.read_bytes()
    with closing(sqlite3.connect(path)) as db:
        (origin,) = db.execute("SELECT origin FROM log").fetchone()
    with open_copy(path, origin) as reader:
        runs = reader.runs("", 100)
        bodies = [body for run in runs for *_, body in reader.bodies_of_run(run)]
        contents = [b"".join(body.read()) for body in bodies]

    assert len(contents) > 5
    assert all(contents)
    assert path.read_bytes() == before


def test_what_an_older_release_writes_beside_us_is_sequenced(path: Path) -> None:
    """It knows nothing of the table of what waits: not when it appends, nor when it sequences."""
    factory = StoreFactory(path)
    chain = Chain(factory.origin)
    make_old_ledger(path, chain.take(3), schema=3)
    store = factory()
    found = [list(store.unsequenced_entries()), store.backlog()]
    store.append(chain.take(2))
    with closing(sqlite3.connect(path)) as db:
        # As an older sequencer leaves it: indexes are given, and the rows are still there.
        waiting = db.execute("SELECT log, entry FROM pending").fetchall()
        Sequencer(store).drain()
        db.executemany("INSERT INTO pending VALUES (?, ?)", waiting)
        db.commit()
    size, left = store.head().size, store.backlog()
    store.append(chain.take(1))
    Sequencer(store).drain()
    with closing(sqlite3.connect(path)) as db:
        after = db.execute("SELECT count(*) FROM pending").fetchone()

    assert found == [data_of(chain.records[:3]), 3]
    assert (size, left) == (5, 0)
    assert entries_of(store) == data_of(chain.records)
    assert after == (0,)
    factory.close()


def test_an_id_that_is_given_again_is_not_taken_for_the_entry_that_had_it(path: Path) -> None:
    """SQLite gives the id of the newest row again when that row is gone, here to another log."""
    ours, factory = StoreFactory(path), StoreFactory(path)
    store, stranger = ours(), factory()
    store.append(Chain(store.origin).take(2))
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM entry WHERE id = (SELECT max(id) FROM entry)")
        db.commit()
    stranger.append(Chain(stranger.origin).take(1))
    backlogs = [store.backlog(), stranger.backlog()]
    Sequencer(store).drain()
    Sequencer(stranger).drain()

    assert backlogs == [1, 1]
    assert [store.head().size, stranger.head().size] == [1, 1]
    for opened in (ours, factory):
        opened.close()


def test_a_newer_schema_is_refused(path: Path) -> None:
    """An older release would write into tables whose rules it does not know, or misread them."""
    StoreFactory(path, "o")().close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 9999")
    connection.close()

    with pytest.raises(SchemaTooNew, match="9999"):
        SqliteStore(path, "o")
    with pytest.raises(SchemaTooNew, match="9999"), open_reader(path, "o"):
        pass


def test_a_store_that_was_closed_says_so(path: Path) -> None:
    """A writer that outlives its store gets an error that it knows how to handle."""
    factory = StoreFactory(path)
    store = factory()
    store.close()
    store.close()

    with pytest.raises(StoreFailed):
        store.append(Chain(factory.origin).take(1))
    with pytest.raises(StoreFailed):
        store.head()


def test_a_monitor_waits_for_no_writer_of_its_process(path: Path) -> None:
    """A writer that waits for the lock of another program has the shared connection for 20 s."""
    with (
        closing(SqliteStore(path, fresh_origin())) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
        ThreadPoolExecutor(2) as threads,
    ):
        other.execute("BEGIN IMMEDIATE")
        writing = threads.submit(store.append, Chain(store.origin).take(1))
        sleep(0.2)
        monitor = StoreMonitor(store)
        try:
            found = threads.submit(monitor.look).result(5)
            is_writing = not writing.done()
        finally:
            other.execute("ROLLBACK")
            writing.result(30)

    assert is_writing
    assert [trouble.condition for trouble in found] == [StoreCondition.LOCKED]


def test_an_entry_without_a_needed_tag_is_refused(tmp_path: Path) -> None:
    """That is no taken position: a writer that tried the next one would never end."""
    with closing(SqliteStore(tmp_path / "ledger.db", fresh_origin())) as store:
        assert store.enforce_tags()
        with pytest.raises(StoreFailed, match="need a tag"):
            store.append([Chain(store.origin).next()])


def test_a_reader_leaves_the_locks_of_its_process_in_place(path: Path) -> None:
    """Closing a file drops the locks that any connection of the process has on it.

    Another process would then take itself for the first, and truncate what this one has mapped.
    """
    origin = fresh_origin()
    with closing(SqliteStore(path, origin)) as store:
        store.append(Chain(origin).take(1))
        with closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # as an erasure does
        with open_reader(path, origin):
            pass
        # Each connection has a shared lock on this byte, by which others see that it is there.
        program = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), 6, 1, 128)"
        argv = [sys.executable, "-c", program, f"{path}-shm"]
        other_process = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert "BlockingIOError" in other_process.stderr
