"""The SQLite store: a ledger in one file, shared by any number of processes.

Every connection that writes uses the write-ahead log with `synchronous=FULL`, so that a commit is
durable when it returns, and `secure_delete`, so that erased bodies are overwritten.
"""

import errno
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from threading import RLock
from time import monotonic, sleep
from typing import Any

import msgspec

from forum import errors
from forum.ledger import ports
from forum.stores import sql_queries, sql_schema, sql_store
from forum.stores.catalogue import (
    Catalogue,
    collect_objects,
    compare_catalogue,
    describe_unknown_state,
)
from forum.stores.fork_safety import ForkAware, block_forks, register_fork_aware
from forum.stores.sql_queries import QueryExecutor
from forum.tlog import EMPTY_ROOT, TileId
from forum.tracing import SpanName, begin_span

_SQL = sql_schema.load_queries("sqlite")
_BUSY_TIMEOUT_S = 20.0
_PROBE_TIMEOUT_S = 1.0
_PROBE_BYTES = 128 << 10
_WATCH_INTERVAL_S = 0.03
_MAX_INSERT_ROWS = 240
"""Rows per insert statement: four parameters each, and every SQLite accepts 999 parameters."""
_RETRY_DELAY_S = 0.01
_TAGS_MIGRATION = 6
"""The number of the migration that requires a tag on every entry."""

_FIRST_WITHOUT_VIEW = 8
"""The number of the first migration after those that `_OLD_SCHEMA_VIEWS` replaces."""

_OLD_SCHEMA_VIEWS = """
CREATE TEMP VIEW entry AS SELECT *, NULL AS tag FROM main.entry;
CREATE TEMP VIEW once AS SELECT *, NULL AS tag FROM main.once;
CREATE TEMP VIEW head AS SELECT 0 AS log, '' AS strand, 0 AS n, x'' AS leaf, x'' AS tag WHERE 0;
CREATE TEMP VIEW quarantine AS
SELECT 0 AS id, 0 AS log, '' AS run, '' AS strand, 0 AS n, x'' AS bytes, x'' AS tag, 0 AS at
WHERE 0;
CREATE TEMP VIEW budget AS
SELECT 0 AS log, '' AS period, '' AS scope, 0 AS until, 0 AS usd, 0 AS tokens, 0 AS runs WHERE 0;
"""
"""Views for a read-only reader of a file of release 0.1.0: new tables and columns appear empty.

SQLite resolves names in the temporary schema before names in the file.
"""

_SUMMARIES_MIGRATION = 11
_NO_SUMMARIES_VIEW = """
CREATE TEMP VIEW run_summary AS
SELECT 0 AS log, '' AS run, 0 AS version, 0 AS ended, x'' AS data, x'' AS tag WHERE 0;
"""
"""The same for a file of a release that keeps no summaries of runs."""


class _SharedConnection(sqlite3.Connection, ForkAware):
    """A connection for all threads of one process, one thread at a time; a fork closes it.

    SQLite tracks its file locks in memory per process, not per connection.  A forked child inherits
    this table, but not the locks themselves: while an inherited connection is open, even a new
    connection would read and write without locks.  So a child closes all inherited connections at
    once.  Closing them does not affect the parent, which keeps its own locks, provided that no
    transaction was open; therefore a fork waits for open transactions.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401  as in sqlite3
        super().__init__(*arguments, **options)
        self.lock = RLock()
        register_fork_aware(self)

    def close(self) -> None:
        """Close the connection, after waiting for the thread that uses it."""
        with self.lock:
            super().close()

    def before_fork(self) -> None:
        """Wait for the running statement or transaction, and block new ones."""
        self.lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Let the threads of the parent continue."""
        self.lock.release()

    def after_fork_in_child(self) -> None:
        """Close the connection, so that SQLite drops its inherited table of locks."""
        self.lock = RLock()
        self.close()


class SqliteReader(sql_store.SqlReader):
    """A reader of one log of a ledger file through one connection."""

    def __init__(self, connection: _SharedConnection, origin: str) -> None:
        super().__init__(origin)
        self._db, self._process = connection, os.getpid()
        self._log = self._fetch_one("log", origin=origin)
        if self._log is None:
            raise errors.NoSuchLog(origin)

    def _list(self, values: list[int] | list[str]) -> object:
        return msgspec.json.encode(values).decode()

    def _entries_at(self, places: list[tuple[int | None, int]]) -> list[Any]:
        return self._fetch_rows("entries_at", places=str([[key or 0, n] for key, n in places]))

    def _last_entries(self, places: Sequence[tuple[str, str]]) -> list[Any]:
        return self._fetch_rows("last_entries", places=msgspec.json.encode(places).decode())

    def _bodies_at(self, places: list[tuple[str, str, int, str]]) -> list[Any]:
        encoded = msgspec.json.encode(places).decode()
        return self._fetch_rows("bodies_at", places=encoded, size=sql_queries.MAX_SMALL_BODY_BYTES)

    def find_misplaced(self, start: int, leaves: Sequence[bytes]) -> list[int]:
        """Return those indexes, from `start` on, whose leaf the id lookup does not find there.

        Compares the column in log order first, which is faster: SQLite itself keeps the index
        over the column consistent with it.
        """
        stop = start + len(leaves)
        rows = self._fetch_rows("prefixes", start=start, stop=stop)
        if rows == list(zip(sql_queries.leaf_prefixes(leaves))):
            return []
        return super().find_misplaced(start, leaves)

    def check_catalogue(self) -> ports.CatalogueCheck:
        """Compare the schema of the file with what the migrations recorded in it make."""
        db = self._current()
        with db.lock, _translate_errors("reading the schema"):
            version, additions = _version(db), _additions(db)
            migrations = sql_schema.load_migrations("sqlite")
            unknown = describe_unknown_state(migrations, additions, missing=False)
            if unknown:
                return ports.CatalogueCheck(not_checked=unknown)
            stored = _read_catalogue(db)
        applied = [m for m in migrations if m.number <= version or m.number in additions]
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as empty:
            for migration in applied:
                _run_script(empty, migration)
            expected = _read_catalogue(empty)
            empty.execute(_SQL["make_additions"])
            optional = _read_catalogue(empty)
        forms = {name: [lines] for name, lines in expected.items()}
        for name in optional.keys() - expected.keys():
            forms[name] = [optional[name], frozenset()]
        return compare_catalogue(stored, forms)

    def _fetch(self, query: str, parameters: dict[str, object]) -> list[Any]:
        db = self._current()
        doing = f"reading ({query})"
        with begin_span(SpanName.STORE, doing), db.lock, _translate_errors(doing):
            return db.execute(_SQL[query], parameters).fetchall()

    def _current(self) -> _SharedConnection:
        """Return the connection; raise `StoreFailed` in a forked child."""
        sql_queries.check_not_forked(self._process)
        return self._db


class SqliteStore(SqliteReader, sql_store.SqlStore):
    """A store of one log in a ledger file; a forked child reconnects on first use."""

    def __init__(self, path: Path, origin: str) -> None:
        self._path = path
        self._probe: _SharedConnection | None = None
        self._probe_lock, self._probe_process = RLock(), 0
        connection = _connect(path)
        try:
            with connection.lock:
                _migrate(connection)
                with _translate_errors("opening the log"), _transaction(connection):
                    connection.execute(_SQL["add_log"], {"origin": origin, "root": EMPTY_ROOT})
            super().__init__(connection, origin)
        except BaseException:
            connection.close()
            raise

    def append(self, records: Sequence[ports.EntryWrite]) -> None:
        added: dict[tuple[str, str], int] = {}
        with self._write_transaction("appending") as execute:
            rows = [
                (self._strand_id(r.position, added), r.position.n, r.data, r.tag) for r in records
            ]
            try:
                self._insert_rows("add_entries", rows)
            except sqlite3.IntegrityError as error:
                # A trigger refuses entries without a tag, which is no taken position: a writer
                # that tried the next one would never end.
                if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_UNIQUE:
                    raise
                raise errors.PositionTaken(str(records[0].position)) from None
            self._db.executemany(
                _SQL["add_body"],
                (
                    (strand, n, body.name, part, body.salt, data)
                    for record, (strand, n, _, _) in zip(records, rows, strict=True)
                    for body in record.bodies
                    for part, data in enumerate(body.content.chunks())
                ),
            )
            self._apply_effects(execute, records)
        # After the commit: if the transaction had failed, these keys would not exist.
        self._cache_strand_keys(added, self._strand_ids.value)

    def pending_entries(self, limit: int) -> ports.PendingEntries:
        """Return the next entries without an index, in the order of their commits.

        SQLite serializes commits, so the row ids give this order.
        """
        rows = self._fetch_rows("waiting", limit=limit)
        return ports.PendingEntries(
            [ports.EntryRow(*row[1:]) for row in rows], [row[0] for row in rows]
        )

    def advance_head(
        self,
        old: ports.TreeHead,
        new: ports.TreeHead,
        batch: ports.PendingEntries,
        tiles: Mapping[TileId, bytes],
        own: Sequence[ports.EntryWrite] = (),
    ) -> None:
        ids = batch.keys
        added: dict[tuple[str, str], int] = {}
        with self._signer_transaction("sequencing") as execute:
            # The compare-and-set includes the first id.  The head alone is not enough: another
            # sequencer may have indexed these entries after this one read them and before this one
            # read the head.
            head = (new.size, new.root, ids[-1], self._log, old.size, old.root, ids[0])
            if self._db.execute(_SQL["swap"], head).rowcount != 1:
                raise errors.ConcurrentUpdate(f"the tree of {self._origin}")
            # An entry may have been moved to the quarantine since the batch was read.
            waited = self._db.execute(_SQL["remove_pending"], (self._log, ids[0], ids[-1]))
            if waited.rowcount != len(ids):
                raise errors.ConcurrentUpdate(f"the waiting entries of {self._origin}")
            own_ids = self._add_own_entries(execute, own, added)
            # This removes own entries too, which a trigger has made pending: their ids are smaller.
            self._db.execute(_SQL["remove_left_behind"], (self._log, ids[0]))
            prefixes = sql_queries.leaf_prefixes([*batch.leaves, *(write.leaf for write in own)])
            entries = zip(range(old.size, new.size), [*ids, *own_ids], prefixes, strict=True)
            rows = [(self._log, index, key, prefix) for index, key, prefix in entries]
            self._insert_rows("add_leaves", rows)
            self._db.executemany(
                _SQL["put_tile"], ((self._log, t.level, t.index, h) for t, h in tiles.items())
            )
        self._cache_strand_keys(added, self._strand_ids.value)

    def _add_own_entries(
        self,
        execute: QueryExecutor,
        own: Sequence[ports.EntryWrite],
        added: dict[tuple[str, str], int],
    ) -> list[int]:
        """Store entries of the sequencer, and return their ids.

        Their ids are negative.  A positive one would be greater than the ids of entries that were
        appended since the batch was read, and those would no longer count as pending.
        """
        if not own:
            return []
        first: int = execute("next_own_id").fetchall()[0][0]
        ids = [first - offset for offset in range(len(own))]
        rows = [
            (key, self._strand_id(write.position, added), write.position.n, write.data, write.tag)
            for key, write in zip(ids, own, strict=True)
        ]
        try:
            self._insert_rows("add_own_entries", rows)
        except sqlite3.IntegrityError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_UNIQUE:
                raise
            raise errors.PositionTaken(str(own[0].position)) from None
        self._apply_effects(execute, own)
        return ids

    def move_to_quarantine(self, batch: ports.PendingEntries) -> None:
        with self._signer_transaction("setting rows aside") as execute:
            for key, row in zip(batch.keys, batch.rows, strict=True):
                execute("add_quarantine", id=key)
                quarantine = self._db.execute("SELECT last_insert_rowid()").fetchone()[0]
                execute("add_quarantine_bodies", id=key, quarantine=quarantine)
                execute("remove_bodies", id=key)
                removed = execute("remove_entry", id=key, data=row.data)
                if removed.rowcount != 1:
                    raise errors.ConcurrentUpdate(f"the waiting entries of {self._origin}")
                execute("remove_waiting", id=key)

    def enforce_tags(self) -> bool:
        """Apply the migration that requires a tag on every entry, if no other process is connected.

        Returns whether tags are required now.  A process of an older release would keep writing
        entries without tags, which are never sequenced: so none may be connected now, and the
        migration keeps older releases from opening the file again.
        """
        with self._current().lock, _translate_errors("upgrading the schema"):
            if _version(self._db) >= _TAGS_MIGRATION:
                return True
            if not _is_only_connection(self._db):
                return False
            _apply(
                self._db,
                [m for m in sql_schema.load_migrations("sqlite") if m.number <= _TAGS_MIGRATION],
            )
            # The check above has left the file in rollback mode.
            _use_wal(self._db)
            return True

    def save_checkpoint(self, size: int, note: bytes) -> None:
        with self._signer_transaction("publishing") as execute:
            self._save_checkpoint(execute, size, note)

    def erase_bodies(self, places: Sequence[tuple[ports.Position, str]]) -> None:
        """Erase bodies and their salts, also from the write-ahead log.

        Raises `StoreFailed` while a reader holds a snapshot that contains one of them.
        """
        with self._current().lock, _translate_errors("erasing"):
            # Truncate before the erasure too: if a reader prevents it, nothing has been erased
            # yet, and a retry still finds the body.
            self._truncate_wal()
            super().erase_bodies(places)
            # secure_delete has overwritten the freed pages; now clear the write-ahead log.
            self._truncate_wal()

    def open_signal(self, worker: str) -> ports.WorkSignal:  # noqa: ARG002  the lease alone tells
        """Watch the file for commits of any process."""
        return _FileWatch(self._path)

    def beat(self, worker: str, lease_s: float, early_s: float) -> list[str]:  # noqa: ARG002
        with self._write_transaction("holding a lease") as execute:
            lost = [row[0] for row in execute("lost_workers").fetchall()]
            execute("cut_leases", most=round(ports.MAX_LEASE_S * 1e6))
            execute("hold_lease", worker=worker, micros=round(lease_s * 1e6))
        return lost

    def find_sequencer(self) -> ports.SequencerSession | None:
        """Return None: no process holds a lock."""
        return None

    def read_state(self) -> ports.StoreState:
        """Return what a monitor looks at, through a connection of its own.

        A thread that waits for the lock of another process keeps the shared one meanwhile.
        """
        with self._probe_lock, _translate_errors("reading its state"):
            row = self._open_probe().execute(_SQL["log_state"], {"log": self._log}).fetchone()
        return ports.StoreState(*row)

    def try_writing(self) -> None:
        """Raise the `StoreFailed` of the cause if the file or its disk cannot be written.

        Raises `LogEnded` too.  Takes the lock of writers and gives it back, and writes a file
        without a name beside the ledger.  A commit would grow the write-ahead log at every probe.
        """
        # Opened anew: a file that was opened before can be written whatever its mode has become.
        with (
            closing(_connect(self._path, busy_timeout_s=_PROBE_TIMEOUT_S)) as db,
            db.lock,
            _translate_errors("trying whether it can be written"),
        ):
            db.execute("BEGIN IMMEDIATE")
            is_stopped = db.execute(_SQL["is_stopped"], {"log": self._log}).fetchone()[0]
            db.execute("ROLLBACK")
        if is_stopped:
            raise errors.LogEnded(self._origin)
        try:
            with TemporaryFile(dir=self._path.parent, buffering=0) as file:
                file.write(bytes(_PROBE_BYTES))
        except OSError as error:
            why, code = error.strerror or str(error), _DISK_ERRORS.get(error.errno or 0)
            raise _make_error(f"writing beside {self._path}", why, code) from error

    def require_history(self, head: ports.TreeHead) -> None:
        """Do nothing: no other server takes the place of a file and lacks commits."""

    def check_history(self) -> None:
        """Raise `LogEnded` if the next epoch has begun."""
        if self._fetch_one("has_ended"):
            raise errors.LogEnded(self._origin)

    def try_lead(self) -> bool:
        """Return True: any process may sequence, and the compare-and-set detects conflicts."""
        return True

    def snapshot(self) -> AbstractContextManager[ports.Reader]:
        """Open a reader of one snapshot of the log, on a connection of its own."""
        return open_reader(self._path, self._origin)

    def _open_probe(self) -> _SharedConnection:
        """Return the connection of the monitor; a forked child has closed that of its parent."""
        if self._probe is None or self._probe_process != os.getpid():
            self._probe = _connect(self._path, busy_timeout_s=_PROBE_TIMEOUT_S)
            self._probe_process = os.getpid()
        return self._probe

    def close(self) -> None:
        """Close the connections to the file."""
        if self._probe is not None:
            self._probe.close()
        self._db.close()

    def _current(self) -> _SharedConnection:
        """Return the connection of this process; open a new one in a forked child."""
        if self._process != os.getpid():
            with self._db.lock:  # the closed connection's lock, shared by all threads of the child
                if self._process != os.getpid():
                    self._db, self._process = _connect(self._path), os.getpid()
        return self._db

    @contextmanager
    def _write_transaction(self, doing: str) -> Iterator[QueryExecutor]:
        with self._transaction_unless("is_stopped", doing) as execute:
            yield execute

    @contextmanager
    def _signer_transaction(self, doing: str) -> Iterator[QueryExecutor]:
        """Open a transaction that is needed to sign what was appended."""
        with self._transaction_unless("has_ended", doing) as execute:
            yield execute

    @contextmanager
    def _transaction_unless(self, query: str, doing: str) -> Iterator[QueryExecutor]:
        db = self._current()
        with (
            begin_span(SpanName.STORE, doing),
            db.lock,
            _translate_errors(doing),
            _transaction(db),
        ):
            if self._execute(query).fetchone()[0]:
                raise errors.LogEnded(self._origin)
            yield self._execute

    def _open_accounts(
        self, execute: QueryExecutor, accounts: Sequence[ports.OpenBudgetAccount]
    ) -> None:
        for run, cap in accounts:
            execute("open_account", run=run, **cap._asdict())

    def _set_timers(self, execute: QueryExecutor, alarms: Sequence[ports.Timer]) -> None:
        for run, strand, at in alarms:
            if at is None:
                execute("clear_alarm", run=run, strand=strand)
            else:
                execute("set_alarm", run=run, strand=strand, at=at)

    def _add_timers(self, execute: QueryExecutor, timers: Sequence[ports.Timer]) -> None:
        for timer in timers:
            execute("add_alarm", **timer._asdict())

    def _add_ended(self, execute: QueryExecutor, ends: Sequence[ports.EndedRun]) -> None:
        for end in ends:
            execute("add_ended", **end._asdict())

    def _claim_due_timers(
        self, claim: ports.TimerClaim, pauses: dict[str, int]
    ) -> list[ports.Timer]:
        look = {"worker": claim.worker, "limit": claim.limit}
        # Check first without a write lock: idle workers poll often, and writers would wait.
        if not self._fetch_rows("claimable", **look):
            return []
        own = frozenset(claim.own)
        with self._write_transaction("claiming timers") as execute:
            claimed = [ports.Timer(*row) for row in execute("claimable", **look).fetchall()]
            for run, strand, _ in claimed:
                place = {"run": run, "strand": strand, "own": run in own}
                execute("put_off", **place, anew=claim.anew, **pauses)
        return claimed

    def _claim_runs(self, claim: ports.RunClaim, pauses: dict[str, int]) -> list[ports.Timer]:
        own = {"worker": claim.worker, "own_limit": claim.own_limit}
        free = {"worker": claim.worker, "limit": claim.limit}
        # Check first without a write lock: idle workers poll often, and writers would wait.
        if not self._fetch_rows("own_due", **own) and not self._fetch_rows("free_due", **free):
            return []
        with self._write_transaction("claiming runs") as execute:
            mine = [ports.Timer(*row) for row in execute("own_due", **own).fetchall()]
            # Without a lease it claims nothing: nobody would take over what it has claimed.
            has_lease = execute("has_lease", worker=claim.worker).fetchall()
            rows = execute("free_due", **free).fetchall() if has_lease else []
            taken = [ports.Timer(*row) for row in rows]
            for run in dict.fromkeys(timer.run for timer in taken):
                execute("add_claim", run=run, worker=claim.worker)
            for timers, is_own in ((mine, True), (taken, False)):
                for run, strand, _ in timers:
                    place = {"run": run, "strand": strand, "own": is_own}
                    execute("put_off", **place, anew=claim.anew, **pauses)
        return [*mine, *taken]

    def _execute(self, query: str, **parameters: object) -> sqlite3.Cursor:
        return self._db.execute(_SQL[query], {"log": self._log, **parameters})

    def _truncate_wal(self) -> None:
        """Move the whole write-ahead log into the file and truncate it.

        Raises `StoreFailed` if a reader prevents it.
        """
        if self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            raise errors.StoreFailed("erasing", "somebody is reading the ledger; try again later")

    def _insert_rows(self, query: str, rows: Sequence[tuple[object, ...]]) -> None:
        # Insert many rows per statement: between statements the interpreter may switch to another
        # thread, and every waiting writer would delay this commit.
        for start in range(0, len(rows), _MAX_INSERT_ROWS):
            part = rows[start : start + _MAX_INSERT_ROWS]
            marks = f"({','.join('?' * len(part[0]))})"
            values = ",".join([marks] * len(part))
            self._db.execute(_SQL[query] + values, list(chain.from_iterable(part)))

    def _strand_id(self, position: ports.Position, added: dict[tuple[str, str], int]) -> int:
        run, name = key = (position.run, position.strand)
        strand = self._strand_ids.value.get(key) or added.get(key)
        if strand is None:
            insert = self._db.execute(_SQL["add_strand"], (self._log, run, name))
            # Without a row id it was there: another process or an earlier store has added it.
            new = insert.lastrowid if insert.rowcount else None
            strand = added[key] = new or self._fetch_one("strand", run=run, name=name)
        return strand


class _FileWatch:
    """Notices the commits to a ledger file by other connections, also those of this process."""

    def __init__(self, path: Path) -> None:
        self._db = _connect(path, read_only=True)
        self._version = self._read_version()

    def wait(self, seconds: float) -> bool:
        """Wait for a commit; return False after some seconds without one."""
        deadline = monotonic() + seconds
        while True:
            before, self._version = self._version, self._read_version()
            if self._version != before:
                return True
            if monotonic() >= deadline:
                return False
            sleep(_WATCH_INTERVAL_S)

    def _read_version(self) -> int:
        with self._db.lock, _translate_errors("watching the ledger"):
            version: int = self._db.execute("PRAGMA data_version").fetchone()[0]
        return version

    def close(self) -> None:
        """Close the connection to the file."""
        self._db.close()


@contextmanager
def open_reader(path: Path, origin: str) -> Iterator[SqliteReader]:
    """Open a read-only reader of one snapshot of a log; this works on a read-only disk too."""
    with closing(_connect(path, read_only=True)) as connection:
        with connection.lock, _translate_errors("reading"):
            # A migration that only adds an index leaves nothing for the reader to miss; with the
            # views, it would miss what the tables hold.
            missing = {migration.number for migration in _missing(connection)}
            if any(number < _FIRST_WITHOUT_VIEW for number in missing):
                connection.executescript(_OLD_SCHEMA_VIEWS)
            if _SUMMARIES_MIGRATION in missing:
                connection.executescript(_NO_SUMMARIES_VIEW)
            connection.execute("BEGIN")
        yield SqliteReader(connection, origin)


def stop_appends(path: Path, origin: str) -> None:
    """Let nobody append to a log from now on; what is there can be sequenced and signed."""
    _change_log(path, "mark_ended", origin=origin, n=1)


def end_log(path: Path, origin: str) -> None:
    """Let nobody change a log from now on, because its next epoch begins."""
    _change_log(path, "mark_ended", origin=origin, n=0)


def reopen_log(path: Path, origin: str) -> None:
    """Let processes add to a log again, because its next epoch could not begin."""
    _change_log(path, "reopen_log", origin=origin)


def _change_log(path: Path, query: str, **parameters: object) -> None:
    with (
        closing(_connect(path)) as db,
        db.lock,
        _translate_errors("ending the log"),
        _transaction(db),
    ):
        db.execute(_SQL[query], parameters)


def copy_ledger(path: Path, target: Path) -> None:
    """Copy a snapshot of a ledger file while other processes keep writing to the file.

    The copy is one file without a write-ahead log beside it.
    """
    _make_private(target)
    with (
        _translate_errors("copying the ledger"),
        closing(_connect(path, read_only=True)) as source,
        source.lock,
        closing(sqlite3.connect(target, isolation_level=None)) as copy,
    ):
        # All pages in one step: its read lock covers the whole copy, which makes it a snapshot.
        source.backup(copy, pages=-1)
        copy.execute("PRAGMA journal_mode = DELETE")


@contextmanager
def open_copy(path: Path, origin: str) -> Iterator[SqliteReader]:
    """Open a reader of a log in a copy that no process writes to; create no files beside it."""
    with _translate_errors(f"opening {path}"), block_forks():
        uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        connection = _SharedConnection(uri, uri=True, isolation_level=None, check_same_thread=False)
    with closing(connection), _translate_errors("reading"):
        _check_version(connection)
        yield SqliteReader(connection, origin)


def _connect(
    path: Path, *, read_only: bool = False, busy_timeout_s: float = _BUSY_TIMEOUT_S
) -> _SharedConnection:
    with _translate_errors(f"opening {path}"):
        if not read_only:
            _make_private(path)
        # No fork between opening and registration: a child would not close this connection.
        with block_forks():
            connection = _SharedConnection(
                _uri(path, read_only=read_only),
                uri=True,
                timeout=busy_timeout_s,
                isolation_level=None,
                check_same_thread=False,
            )
        try:
            with connection.lock:
                _check_version(connection)
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
        raise errors.StoreFailed("opening", f"there is no ledger at {path}")
    # On a read-only disk SQLite can open a WAL database only as immutable.  That ignores the
    # write-ahead log: with a log that is not empty, it would show an older state, so the normal
    # mode is used, which fails.
    log = path.with_name(path.name + "-wal")
    closed = not log.exists() or log.stat().st_size == 0
    frozen = closed and not _can_create_beside(path)
    return f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if frozen else ''}"


def _can_create_beside(path: Path) -> bool:
    # Without opening it: when the file is closed, the operating system drops the locks that other
    # connections of this process have on it, and other processes would truncate what is in use.
    shared = path.with_name(path.name + "-shm")
    return os.access(shared if shared.exists() else path.parent, os.W_OK)


def _use_wal(connection: sqlite3.Connection) -> str:
    # The busy timeout does not cover the lock that this statement needs on a new file.  Without
    # this loop, all but one of several processes that create a ledger at once would fail.
    deadline = monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            journal: str = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > deadline:
                raise
            sleep(_RETRY_DELAY_S)
        else:
            return journal


def _make_private(path: Path) -> None:
    # Bodies hold confidential replies of agents, so only the owner may read the file.  SQLite
    # creates its journal files with the same mode.
    try:
        if not path.exists():
            path.touch(mode=0o600)
    except OSError as error:
        remedy = "Check that its disk has free space, and that this user may write there"
        raise errors.StoreFailed(f"opening {path}", error.strerror or str(error), remedy) from None


def _make_durable(connection: sqlite3.Connection) -> None:
    journal = _use_wal(connection)
    connection.execute("PRAGMA synchronous = FULL")
    # On macOS a file is only on the disk after a full sync; elsewhere these change nothing.
    connection.execute("PRAGMA fullfsync = ON")
    connection.execute("PRAGMA checkpoint_fullfsync = ON")
    connection.execute("PRAGMA secure_delete = ON")
    level = connection.execute("PRAGMA synchronous").fetchone()[0]
    if journal != "wal" or level < 2:  # 2 is FULL
        raise errors.DurabilityDisabled(f"journal_mode is {journal}, synchronous is {level}")


def _migrate(connection: sqlite3.Connection) -> None:
    with _translate_errors("preparing the schema"):
        if _missing(connection):
            _apply(connection, sql_schema.load_migrations("sqlite"), additive=True)


def _missing(connection: sqlite3.Connection) -> list[sql_schema.Migration]:
    """Return the missing migrations with which older releases keep working."""
    version, applied = _version(connection), _additions(connection)
    return sql_schema.missing_migrations("sqlite", version, applied)


def _additions(connection: sqlite3.Connection) -> set[int]:
    # The previous release refuses a file whose user_version it does not know.  So migrations that
    # it can work with are recorded in a table that it does not read.
    if not connection.execute(_SQL["has_additions"]).fetchone():
        return set()
    return {row[0] for row in connection.execute(_SQL["additions"])}


def _apply(
    connection: sqlite3.Connection,
    migrations: Sequence[sql_schema.Migration],
    *,
    additive: bool = False,
) -> None:
    """Apply missing migrations in one transaction; with `additive`, only additive ones."""
    with _transaction(connection):
        connection.execute(_SQL["make_additions"])
        additions, version = _additions(connection), _version(connection)
        for migration in migrations:
            if migration.number <= version or (additive and not migration.is_additive):
                continue
            if migration.number not in additions:
                _run_script(connection, migration)
                connection.execute(_SQL["add_addition"], (migration.number,))
            if migration.number <= sql_schema.BASE_SCHEMA_VERSION or not additive:
                connection.execute(f"PRAGMA user_version = {migration.number}")


def _run_script(connection: sqlite3.Connection, migration: sql_schema.Migration) -> None:
    for statement in migration.sql.split(";\n"):
        connection.execute(statement)


def _read_catalogue(connection: sqlite3.Connection) -> Catalogue:
    """Return the objects of a file with the statements that made them.

    Nothing else decides what they are: SQLite reads these statements when it opens a file.
    """
    rows = connection.execute(_SQL["catalogue"]).fetchall()
    return collect_objects((f"{kind} {name}", " ".join(text.split())) for kind, name, text in rows)


def _is_only_connection(connection: sqlite3.Connection) -> bool:
    """Return whether no other connection is open; if so, leave the file in rollback mode.

    SQLite allows a file to leave WAL mode only if a single connection has it open.
    """
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        journal = connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        journal = "wal"
    finally:
        connection.execute(f"PRAGMA busy_timeout = {round(1000 * _BUSY_TIMEOUT_S)}")
    return bool(journal == "delete")


def _check_version(connection: sqlite3.Connection) -> None:
    """Raise `SchemaTooNew` if the schema is newer than this release."""
    sql_schema.missing_migrations("sqlite", _version(connection))


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
        # A failed COMMIT (for example on a full disk) may or may not have ended the transaction.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


_REMEDIES = {
    sqlite3.SQLITE_FULL: "Free some space on its disk, then try again",
    # SQLite also reports an I/O error if a full disk has no room even for its smallest file.
    sqlite3.SQLITE_IOERR: "Check that its disk has free space and no faults, then try again",
    sqlite3.SQLITE_READONLY: "Let this user write the file and its folder",
    sqlite3.SQLITE_PERM: "Let this user write the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "Check that its folder is there, and that this user may write there",
    sqlite3.SQLITE_BUSY: "Another process keeps it locked: try again when that one is done",
    sqlite3.SQLITE_CORRUPT: "Restore a backup of it: forum restore",
    sqlite3.SQLITE_NOTADB: "Restore a backup of it: forum restore",
}
"""The remedy for an error of SQLite, keyed by primary result code."""

_CAUSES: dict[int, type[errors.StoreFailed]] = {
    sqlite3.SQLITE_FULL: errors.StoreFull,
    sqlite3.SQLITE_READONLY: errors.StoreReadOnly,
    sqlite3.SQLITE_BUSY: errors.StoreLocked,
}
"""The error for a cause that has a class of its own, keyed by primary result code."""
_DISK_ERRORS = {
    errno.ENOSPC: sqlite3.SQLITE_FULL,
    errno.EDQUOT: sqlite3.SQLITE_FULL,
    errno.EFBIG: sqlite3.SQLITE_FULL,
    errno.EROFS: sqlite3.SQLITE_READONLY,
    errno.EACCES: sqlite3.SQLITE_READONLY,
    errno.EPERM: sqlite3.SQLITE_READONLY,
}
"""The result code of SQLite for the same error of the operating system."""


def _make_error(doing: str, why: str, code: int | None) -> errors.StoreFailed:
    kind = _CAUSES.get(code or 0, errors.StoreFailed)
    return kind(doing, why, _REMEDIES.get(code or 0, ""))


@contextmanager
def _translate_errors(doing: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        code: int = getattr(error, "sqlite_errorcode", None) or 0
        raise _make_error(doing, str(error), code & 0xFF) from error
