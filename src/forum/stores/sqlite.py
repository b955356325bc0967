"""The SQLite store: a ledger in one file, shared by any number of processes."""

import os
import sqlite3
from collections import ChainMap
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
from forum.stores import sql_migrations, sql_queries, sql_store
from forum.stores.catalogue import compare_catalogue, describe_unknown_state
from forum.stores.fork_safety import block_forks
from forum.stores.sql_queries import QueryExecutor
from forum.stores.sqlite_connections import (
    SharedConnection,
    connect,
    is_only_connection,
    make_private,
    use_wal,
)
from forum.stores.sqlite_errors import DISK_ERRORS, make_error, translate_errors
from forum.stores.sqlite_schema import (
    QUERIES,
    add_views,
    apply_migrations,
    check_version,
    list_missing,
    migrate_schema,
    read_applied,
    read_catalogue,
    read_version,
    run_script,
    transaction,
)
from forum.tlog import EMPTY_ROOT, TileId
from forum.tracing import SpanName, begin_span

_PROBE_TIMEOUT_S = 1.0


_PROBE_BYTES = 128 << 10


_WATCH_INTERVAL_S = 0.03


_MAX_INSERT_ROWS = 240
"""Rows per insert statement: four parameters each, and every SQLite accepts 999 parameters."""


_SHARING_MIGRATION = sql_migrations.SHARING_MIGRATION["sqlite"]


class SqliteReader(sql_store.SqlReader):
    """A reader of one log of a ledger file through one connection."""

    def __init__(self, connection: SharedConnection, origin: str) -> None:
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
        with db.lock, translate_errors("reading the schema"):
            version, additions = read_version(db), read_applied(db)
            migrations = sql_migrations.load_migrations("sqlite")
            unknown = describe_unknown_state(migrations, additions, missing=False)
            if unknown:
                return ports.CatalogueCheck(not_checked=unknown)
            stored = read_catalogue(db)
        base = min(version, sql_migrations.BASE_SCHEMA_VERSION)
        applied = [m for m in migrations if m.number <= base or m.number in additions]
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as empty:
            for migration in applied:
                run_script(empty, migration)
            expected = read_catalogue(empty)
            empty.execute(QUERIES["make_additions"])
            optional = read_catalogue(empty)
        forms = {name: [lines] for name, lines in expected.items()}
        for name in optional.keys() - expected.keys():
            forms[name] = [optional[name], frozenset()]
        return compare_catalogue(stored, forms)

    def _fetch(self, query: str, parameters: dict[str, object]) -> list[Any]:
        db = self._current()
        doing = f"reading ({query})"
        with begin_span(SpanName.STORE, doing), db.lock, translate_errors(doing):
            return db.execute(QUERIES[query], parameters).fetchall()

    def _current(self) -> SharedConnection:
        """Return the connection; raise `StoreFailed` in a forked child."""
        sql_queries.check_not_forked(self._process)
        return self._db


class SqliteStore(SqliteReader, sql_store.SqlStore):
    """A store of one log in a ledger file; a forked child reconnects on first use."""

    def __init__(self, path: Path, origin: str) -> None:
        self._path = path
        self._probe: SharedConnection | None = None
        self._probe_lock, self._probe_process = RLock(), 0
        connection = connect(path)
        try:
            with connection.lock:
                migrate_schema(connection)
                with translate_errors("opening the log"), transaction(connection):
                    connection.execute(QUERIES["add_log"], {"origin": origin, "root": EMPTY_ROOT})
            super().__init__(connection, origin)
            self._has_shared_bodies = _SHARING_MIGRATION in read_applied(connection)
        except BaseException:
            connection.close()
            raise

    def append(self, records: Sequence[ports.EntryWrite]) -> None:
        added: dict[tuple[str, str], int] = {}
        known_bodies = self._known_bodies.value
        with self._write_transaction("appending") as execute:
            rows = [
                (self._strand_id(r.position, added), r.position.n, r.data, r.tag) for r in records
            ]
            self._insert_entries("add_entries", rows, records)
            strands = ChainMap(added, self._strand_ids.value)
            shared = self._share_bodies(execute, records, strands, known_bodies)
            self._db.executemany(
                QUERIES["add_body"],
                (
                    row
                    for record, (strand, _, _, _) in zip(records, rows, strict=True)
                    for row in shared.body_rows(strand, record)
                ),
            )
            for body in shared.rows.values():
                self._db.executemany(QUERIES["add_pieces"], body.pieces())
                self._db.execute(QUERIES["add_list"], body.row())
            self._apply_effects(execute, records)
        # After the commit: if the transaction had failed, these keys would not exist.
        self._cache_strand_keys(added, self._strand_ids.value)
        self._keep_known(known_bodies, shared)

    def _writes_shared_bodies(self, execute: QueryExecutor) -> bool:  # noqa: ARG002  as the port
        return self._has_shared_bodies

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
            if self._db.execute(QUERIES["swap"], head).rowcount != 1:
                raise errors.ConcurrentUpdate(f"the tree of {self._origin}")
            # An entry may have been moved to the quarantine since the batch was read.
            waited = self._db.execute(QUERIES["remove_pending"], (self._log, ids[0], ids[-1]))
            if waited.rowcount != len(ids):
                raise errors.ConcurrentUpdate(f"the waiting entries of {self._origin}")
            own_ids = self._add_own_entries(execute, own, added)
            # This removes own entries too, which a trigger has made pending: their ids are smaller.
            self._db.execute(QUERIES["remove_left_behind"], (self._log, ids[0]))
            prefixes = sql_queries.leaf_prefixes([*batch.leaves, *(write.leaf for write in own)])
            entries = zip(range(old.size, new.size), [*ids, *own_ids], prefixes, strict=True)
            rows = [(self._log, index, key, prefix) for index, key, prefix in entries]
            self._insert_rows("add_leaves", rows)
            self._db.executemany(
                QUERIES["put_tile"], ((self._log, t.level, t.index, h) for t, h in tiles.items())
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
        self._insert_entries("add_own_entries", rows, own)
        self._apply_effects(execute, own)
        return ids

    def move_to_quarantine(self, batch: ports.PendingEntries) -> None:
        with (
            self._signer_transaction("setting rows aside") as execute,
            self._releasing_pieces(execute, (row.run for row in batch.rows)) as write_out,
        ):
            for key, row in zip(batch.keys, batch.rows, strict=True):
                execute("add_quarantine", id=key)
                quarantine = self._db.execute("SELECT last_insert_rowid()").fetchone()[0]
                execute("add_quarantine_bodies", id=key, quarantine=quarantine)
                write_out(row.run, quarantine, id=key)
                execute("remove_bodies", id=key)
                removed = execute("remove_entry", id=key, data=row.data)
                if removed.rowcount != 1:
                    raise errors.ConcurrentUpdate(f"the waiting entries of {self._origin}")
                execute("remove_waiting", id=key)

    def enforce_tags(self) -> bool:
        """Apply the migrations that older releases cannot work with, if no process is connected.

        Returns whether tags are required on every entry now.  A process of an older release would
        keep writing entries without tags, which are never sequenced, and could not read bodies
        that share bytes: so none may be connected now, and the migrations keep older releases from
        opening the file again.
        """
        with self._current().lock, translate_errors("upgrading the schema"):
            if list_missing(self._db, post=True) and is_only_connection(self._db):
                apply_migrations(self._db, post=True)
                # The check above has left the file in rollback mode.
                use_wal(self._db)
            applied = read_applied(self._db)
            self._has_shared_bodies = _SHARING_MIGRATION in applied
            return sql_migrations.TAGS_MIGRATION in applied

    def save_checkpoint(self, size: int, note: bytes) -> None:
        with self._signer_transaction("publishing") as execute:
            self._save_checkpoint(execute, size, note)

    def erase_bodies(self, places: Sequence[tuple[ports.Position, str]]) -> None:
        """Erase bodies and their salts, also from the write-ahead log.

        Raises `StoreFailed` while a reader holds a snapshot that contains one of them.
        """
        with self._current().lock, translate_errors("erasing"):
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
        with self._probe_lock, translate_errors("reading its state"):
            row = self._open_probe().execute(QUERIES["log_state"], {"log": self._log}).fetchone()
        return ports.StoreState(*row)

    def try_writing(self) -> None:
        """Raise the `StoreFailed` of the cause if the file or its disk cannot be written.

        Raises `LogEnded` too.  Takes the lock of writers and gives it back, and writes a file
        without a name beside the ledger.  A commit would grow the write-ahead log at every probe.
        """
        # Opened anew: a file that was opened before can be written whatever its mode has become.
        with (
            closing(connect(self._path, busy_timeout_s=_PROBE_TIMEOUT_S)) as db,
            db.lock,
            translate_errors("trying whether it can be written"),
        ):
            db.execute("BEGIN IMMEDIATE")
            is_stopped = db.execute(QUERIES["is_stopped"], {"log": self._log}).fetchone()[0]
            db.execute("ROLLBACK")
        if is_stopped:
            raise errors.LogEnded(self._origin)
        try:
            with TemporaryFile(dir=self._path.parent, buffering=0) as file:
                file.write(bytes(_PROBE_BYTES))
        except OSError as error:
            why, code = error.strerror or str(error), DISK_ERRORS.get(error.errno or 0)
            raise make_error(f"writing beside {self._path}", why, code) from error

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

    def _open_probe(self) -> SharedConnection:
        """Return the connection of the monitor; a forked child has closed that of its parent."""
        if self._probe is None or self._probe_process != os.getpid():
            self._probe = connect(self._path, busy_timeout_s=_PROBE_TIMEOUT_S)
            self._probe_process = os.getpid()
        return self._probe

    def close(self) -> None:
        """Close the connections to the file."""
        if self._probe is not None:
            self._probe.close()
        self._db.close()

    def _current(self) -> SharedConnection:
        """Return the connection of this process; open a new one in a forked child."""
        if self._process != os.getpid():
            with self._db.lock:  # the closed connection's lock, shared by all threads of the child
                if self._process != os.getpid():
                    self._db, self._process = connect(self._path), os.getpid()
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
            translate_errors(doing),
            transaction(db),
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
        return self._db.execute(QUERIES[query], {"log": self._log, **parameters})

    def _truncate_wal(self) -> None:
        """Move the whole write-ahead log into the file and truncate it.

        Raises `StoreFailed` if a reader prevents it.
        """
        if self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            raise errors.StoreFailed("erasing", "somebody is reading the ledger; try again later")

    def _insert_entries(
        self, query: str, rows: Sequence[tuple[object, ...]], records: Sequence[ports.EntryWrite]
    ) -> None:
        """Insert the rows of entries.  Raises `PositionTaken`."""
        try:
            self._insert_rows(query, rows)
        except sqlite3.IntegrityError as error:
            # A trigger refuses entries without a tag, which is no taken position: a writer that
            # tried the next one would never end.
            if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_UNIQUE:
                raise
            raise errors.PositionTaken(str(records[0].position)) from None

    def _insert_rows(self, query: str, rows: Sequence[tuple[object, ...]]) -> None:
        # Insert many rows per statement: between statements the interpreter may switch to another
        # thread, and every waiting writer would delay this commit.
        for start in range(0, len(rows), _MAX_INSERT_ROWS):
            part = rows[start : start + _MAX_INSERT_ROWS]
            marks = f"({','.join('?' * len(part[0]))})"
            values = ",".join([marks] * len(part))
            self._db.execute(QUERIES[query] + values, list(chain.from_iterable(part)))

    def _strand_id(self, position: ports.Position, added: dict[tuple[str, str], int]) -> int:
        run, name = key = (position.run, position.strand)
        strand = self._strand_ids.value.get(key) or added.get(key)
        if strand is None:
            insert = self._db.execute(QUERIES["add_strand"], (self._log, run, name))
            # Without a row id it was there: another process or an earlier store has added it.
            new = insert.lastrowid if insert.rowcount else None
            strand = added[key] = new or self._fetch_one("strand", run=run, name=name)
        return strand


class _FileWatch:
    """Notices the commits to a ledger file by other connections, also those of this process."""

    def __init__(self, path: Path) -> None:
        self._db = connect(path, read_only=True)
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
        with self._db.lock, translate_errors("watching the ledger"):
            version: int = self._db.execute("PRAGMA data_version").fetchone()[0]
        return version

    def close(self) -> None:
        """Close the connection to the file."""
        self._db.close()


@contextmanager
def open_reader(path: Path, origin: str) -> Iterator[SqliteReader]:
    """Open a read-only reader of one snapshot of a log; this works on a read-only disk too."""
    with closing(connect(path, read_only=True)) as connection:
        with connection.lock, translate_errors("reading"):
            add_views(connection)
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
        closing(connect(path)) as db,
        db.lock,
        translate_errors("ending the log"),
        transaction(db),
    ):
        db.execute(QUERIES[query], parameters)


def copy_ledger(path: Path, target: Path) -> None:
    """Copy a snapshot of a ledger file while other processes keep writing to the file.

    The copy is one file without a write-ahead log beside it.
    """
    make_private(target)
    with (
        translate_errors("copying the ledger"),
        closing(connect(path, read_only=True)) as source,
        source.lock,
        closing(sqlite3.connect(target, isolation_level=None)) as copy,
    ):
        # All pages in one step: its read lock covers the whole copy, which makes it a snapshot.
        source.backup(copy, pages=-1)
        copy.execute("PRAGMA journal_mode = DELETE")


@contextmanager
def open_copy(path: Path, origin: str) -> Iterator[SqliteReader]:
    """Open a reader of a log in a copy that no process writes to; create no files beside it."""
    with translate_errors(f"opening {path}"), block_forks():
        uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        connection = SharedConnection(uri, uri=True, isolation_level=None, check_same_thread=False)
    with closing(connection), translate_errors("reading"):
        check_version(connection)
        add_views(connection)
        yield SqliteReader(connection, origin)
