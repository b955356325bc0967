"""A ledger in one SQLite file: WAL, `synchronous=FULL`, any number of processes."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from threading import RLock
from time import monotonic, sleep
from typing import Any

from forum.backends.sql import Execute, SqlReader, SqlStore, migrations, prefix_of, queries
from forum.errors import NoSuchLog, NotDurable, Overtaken, PositionTaken, StoreFailed
from forum.ledger import Alarm, Head, OpenAccount, Position, Reader, Record, Waiting
from forum.tlog import EMPTY_ROOT, TileId, hash_leaves

_SQL = queries("sqlite")
_BUSY_SECONDS = 20.0
_ROWS = 240
"""How many rows one statement inserts: four parameters each, and every SQLite takes 999."""
_PAUSE_SECONDS = 0.01


class SqliteReader(SqlReader):
    """One log of a ledger file, read through one connection."""

    def __init__(self, connection: sqlite3.Connection, origin: str) -> None:
        super().__init__(origin)
        # One connection serves all threads of the process, one statement at a time.
        self._db, self._lock = connection, RLock()
        self._log = self._one("log", origin=origin)
        if self._log is None:
            raise NoSuchLog(origin)

    def _list(self, numbers: list[int]) -> object:
        return str(numbers)  # which is JSON too

    def _rows(self, query: str, **parameters: object) -> list[Any]:
        with self._lock, _typed(f"reading ({query})"):
            return self._db.execute(_SQL[query], parameters).fetchall()


class SqliteStore(SqliteReader, SqlStore):
    """One log of a ledger file that this process may write."""

    def __init__(self, path: Path, origin: str) -> None:
        self._path = path
        connection = _connect(path)
        try:
            _migrate(connection)
            with _typed("opening the log"), _transaction(connection):
                connection.execute(_SQL["add_log"], {"origin": origin, "root": EMPTY_ROOT})
            super().__init__(connection, origin)
        except BaseException:
            connection.close()
            raise

    def append(self, records: Sequence[Record]) -> None:
        """Commit all of these or none, durably."""
        found: dict[tuple[str, str], int] = {}
        with self._writing("appending") as execute:
            rows = [
                (self._strand_id(r.position.run, r.position.strand, found), r.position.n, r.data)
                for r in records
            ]
            try:
                self._insert("add_entries", rows)
            except sqlite3.IntegrityError:
                raise PositionTaken(str(records[0].position)) from None
            for record, (strand, n, _) in zip(records, rows, strict=True):
                for body in record.bodies:
                    for part, data in enumerate(body.content.chunks()):
                        row = (strand, n, body.name, part, body.salt, data)
                        self._db.execute(_SQL["add_body"], row)
            self._apply_effects(execute, records)
        self._know(found)

    def waiting(self, limit: int) -> Waiting:
        """Return the next entries without an index; commits are serial, so ids follow them."""
        rows = self._rows("waiting", log=self._log, limit=limit)
        return Waiting(hash_leaves(row[1] for row in rows), [row[0] for row in rows])

    def swap(self, old: Head, new: Head, batch: Waiting, tiles: Mapping[TileId, bytes]) -> None:
        """Give the batch its indexes, store the tiles, replace old by new: all or nothing."""
        ids: Any = batch.token
        leaves = zip(range(old.size, new.size), ids, batch.leaves, strict=True)
        with self._writing("sequencing"):
            # The ids take part in the comparison: the tree may be the old one only if these
            # entries are still waiting.
            head = (new.size, new.root, ids[-1], self._log, old.size, old.root, ids[0])
            if self._db.execute(_SQL["swap"], head).rowcount != 1:
                raise Overtaken(f"the tree of {self._origin}")
            rows = [(self._log, i, entry, prefix_of(leaf)) for i, entry, leaf in leaves]
            self._insert("add_leaves", rows)
            self._db.executemany(
                _SQL["put_tile"], ((self._log, t.level, t.index, h) for t, h in tiles.items())
            )

    def save_checkpoint(self, size: int, note: bytes) -> None:
        """Keep a signed note; one with more cosignatures replaces the one of that size."""
        with self._writing("publishing"):
            self._db.execute(_SQL["save_checkpoint"], (self._log, size, note))

    def erase(self, position: Position, name: str) -> None:
        """Erase a body and its salt, from the write-ahead log too.

        Raises `StoreFailed` when somebody goes on reading a moment at which the body was there.
        """
        with self._lock, _typed("erasing"):
            # Before the erasure too: if it cannot be made complete now, it is not begun, and
            # whoever asks again still finds the body.
            self._empty_log()
            with _transaction(self._db):
                self._db.execute(_SQL["erase"], self._body_key(position, name))
                # It has no salt: by it, what was asked for could be found by trying.
                self._execute("forget_asked", log=self._log, run=position.run)
            # The freed pages were overwritten (secure_delete); the log of their writing remains.
            self._empty_log()

    def lead(self) -> bool:
        """Tell whether this process may sequence: any may, and the swap sorts them out."""
        return True

    @contextmanager
    def snapshot(self) -> Iterator[Reader]:
        """Read everything as of one moment, through a connection of its own."""
        with open_reader(self._path, self._origin) as reader:
            yield reader

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._db.close()

    @contextmanager
    def _writing(self, doing: str) -> Iterator[Execute]:
        with self._lock, _typed(doing), _transaction(self._db):
            yield self._execute

    def _open_accounts(self, execute: Execute, accounts: Sequence[OpenAccount]) -> None:
        for run, cap in accounts:
            execute("open_account", log=self._log, run=run, **cap._asdict())

    def _set_alarms(self, execute: Execute, alarms: Sequence[Alarm]) -> None:
        for run, strand, at in alarms:
            if at is None:
                execute("clear_alarm", log=self._log, run=run, strand=strand)
            else:
                execute("set_alarm", log=self._log, run=run, strand=strand, at=at)

    def _execute(self, query: str, **parameters: object) -> sqlite3.Cursor:
        return self._db.execute(_SQL[query], parameters)

    def _empty_log(self) -> None:
        """Move all of the write-ahead log into the file, and make it empty."""
        if self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            raise StoreFailed("erasing", "somebody is reading the ledger; try again later")

    def _insert(self, query: str, rows: Sequence[tuple[object, ...]]) -> None:
        # Many rows in one statement: between statements the interpreter lets other threads run,
        # and the writers behind this commit would each make it wait.
        for start in range(0, len(rows), _ROWS):
            part = rows[start : start + _ROWS]
            marks = f"({','.join('?' * len(part[0]))})"
            values = ",".join([marks] * len(part))
            self._db.execute(_SQL[query] + values, list(chain.from_iterable(part)))

    def _strand_id(self, run: str, name: str, found: dict[tuple[str, str], int]) -> int:
        key = (run, name)
        strand = self._strand_ids.get(key) or found.get(key)
        if strand is None:
            self._db.execute(_SQL["add_strand"], (self._log, run, name))
            strand = found[key] = self._one("strand", log=self._log, run=run, name=name)
        return strand


@contextmanager
def open_reader(path: Path, origin: str) -> Iterator[SqliteReader]:
    """Read a log as of one moment, without being able to write; also from a read-only disk."""
    with closing(_connect(path, read_only=True)) as connection:
        with _typed("reading"):
            connection.execute("BEGIN")
        yield SqliteReader(connection, origin)


def origins(path: Path) -> list[str]:
    """Return the names of the logs in a ledger file, oldest first."""
    with closing(_connect(path, read_only=True)) as connection, _typed("reading"):
        return [row[0] for row in connection.execute(_SQL["origins"])]


def _connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    with _typed(f"opening {path}"):
        if not read_only:
            _make_private(path)
        connection = sqlite3.connect(
            _uri(path, read_only=read_only),
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            migrations("sqlite", _version(connection))  # refuses a schema that is newer than we are
            if not read_only:
                _make_durable(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def _uri(path: Path, *, read_only: bool) -> str:
    if not read_only:
        return f"{path.absolute().as_uri()}?mode=rwc"
    if not path.exists():
        raise StoreFailed("opening", f"there is no ledger at {path}")
    # A closed ledger on a read-only disk can be read only as a file that nobody changes; with a
    # write-ahead log beside it that would show an older state, so then it is left to fail.
    log = path.with_name(path.name + "-wal")
    closed = not log.exists() or log.stat().st_size == 0
    frozen = closed and not _can_create_beside(path)
    return f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if frozen else ''}"


def _can_create_beside(path: Path) -> bool:
    shared = path.with_name(path.name + "-shm")
    try:
        with shared.open("ab"):
            return True
    except OSError:
        return False


def _use_wal(connection: sqlite3.Connection) -> str:
    # SQLite does not wait for the lock that this statement needs on a new file: of several
    # processes that make a ledger at the same time, all but one would fail.
    deadline = monotonic() + _BUSY_SECONDS
    while True:
        try:
            journal: str = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > deadline:
                raise
            sleep(_PAUSE_SECONDS)
        else:
            return journal


def _make_private(path: Path) -> None:
    # Bodies hold whatever agents said; SQLite gives its other files the mode of this one.
    try:
        if not path.exists():
            path.touch(mode=0o600)
    except OSError as error:
        raise StoreFailed(f"opening {path}", error.strerror or str(error)) from None


def _make_durable(connection: sqlite3.Connection) -> None:
    journal = _use_wal(connection)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")
    level = connection.execute("PRAGMA synchronous").fetchone()[0]
    if journal != "wal" or level < 2:
        raise NotDurable(f"journal_mode is {journal}, synchronous is {level}")


def _migrate(connection: sqlite3.Connection) -> None:
    with _typed("preparing the schema"):
        if not migrations("sqlite", _version(connection)):
            return
        with _transaction(connection):
            for migration in migrations("sqlite", _version(connection)):
                for statement in migration.sql.split(";\n"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {migration.number}")


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A failed COMMIT (a full disk) may or may not have ended the transaction.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def _typed(doing: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreFailed(doing, str(error)) from error
