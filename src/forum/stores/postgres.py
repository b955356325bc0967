"""The Postgres store: many logs in one database, written by many processes.

Committing an entry takes no lock that an append to another strand waits for; the compare-and-set of
the sequencer is the only statement that changes a shared row of the log.  Beside the log, the
strands of a run share its budget account: a transaction that charges the account holds the lock on
its row until the transaction ends.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from math import inf
from threading import Lock
from time import monotonic, sleep
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import TupleRow

from forum import errors
from forum.ledger import ports
from forum.ledger.database_memory import DatabaseMemory
from forum.ledger.epochs import previous_epoch
from forum.ledger.strand import ENDED_MARK, LOST_COMMITS_MARK
from forum.stores import postgres_partitions, postgres_upgrade, sql_queries, sql_schema, sql_store
from forum.stores.catalogue import (
    Catalogue,
    collect_objects,
    compare_catalogue,
    describe_unknown_state,
    load_postgres_forms,
)
from forum.stores.database_guard import DatabaseGuard
from forum.stores.postgres_connections import (
    POOL_SIZE,
    Connection,
    PostgresConnections,
    translate_errors,
)
from forum.stores.postgres_sessions import (
    QUERIES,
    Purpose,
    RetryDelay,
    check_database_url,
    connect,
)
from forum.stores.postgres_tenants import (
    grant_to_tenants,
    list_unseparated,
    separate_log,
    separate_logs,
)
from forum.stores.sql_queries import QueryExecutor
from forum.tlog import EMPTY_ROOT, Hash, TileId
from forum.tracing import SpanName, begin_span

_SQL = QUERIES
_MAX_ATTEMPTS = 5
_FIRST_RETRY_S, _LAST_RETRY_S = 0.02, 0.2
_MAX_BUFFERED_BYTES = 1 << 20
"""The number of buffered body bytes above which a batch of body parts is sent."""
_MAX_ID = 2**63 - 1
_PARTITION_MIGRATION = 14
"""Databases that are created with this migration have partitioned tables from the beginning."""
_WAIT_FOR_WRITERS = "LOCK TABLE forum.log, forum.entry, forum.body, forum.checkpoint IN SHARE MODE"
"""A statement waits for this lock of its table before it looks whether it may write."""
_WAIT_TIMEOUT = "2s"
_WAIT_ATTEMPTS = 10
_NOWHERE: Mapping[str, str] = {}
_MOVE_CHECK_INTERVAL_S = 2.0
"""How often a process that writes nothing asks whether its log was moved."""
_END_MARKS = [LOST_COMMITS_MARK, ENDED_MARK]
"""Each of these in the table of heads stops the processes of a log."""
_RETRYABLE_ERRORS = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
"""Errors caused by concurrent transactions: Postgres has rolled back, and a retry is safe."""

StrandKey = tuple[str, str]


class PendingKey(NamedTuple):
    """The key of a pending entry: the sequence number of its commit, its strand and position."""

    seq: int
    strand: int
    n: int


class _PostgresQueries(sql_store.SqlReader):
    """The parameters of queries in the form that Postgres needs."""

    def _list(self, values: list[int] | list[str]) -> object:
        return values

    def _entries_at(self, places: list[tuple[int | None, int]]) -> list[Any]:
        strands, ns = [place[0] for place in places], [place[1] for place in places]
        return self._fetch_rows("entries_at", strands=strands, ns=ns)

    def _last_entries(self, places: Sequence[tuple[str, str]]) -> list[Any]:
        runs, names = [place[0] for place in places], [place[1] for place in places]
        bounds = self._strand_bounds(places)
        return self._fetch_rows("last_entries", runs=runs, names=names, **bounds)

    def _bodies_at(self, places: list[tuple[str, str, int, str]]) -> list[Any]:
        runs, strands, ns, names = map(list, zip(*places, strict=True))
        return self._fetch_rows(
            "bodies_at",
            runs=runs,
            strands=strands,
            ns=ns,
            names=names,
            size=sql_queries.MAX_SMALL_BODY_BYTES,
            **self._strand_bounds([place[:2] for place in places]),
        )

    def _strand_bounds(self, strands: Sequence[StrandKey]) -> dict[str, int]:
        """Return the lowest and the highest id of strands; all ids if one is not known."""
        cached = self._strand_ids.value
        ids = [cached.get(strand) for strand in strands]
        known = [strand for strand in ids if strand is not None]
        if len(known) < len(ids) or not known:
            return {"low": 0, "high": _MAX_ID}
        return {"low": min(known), "high": max(known)}


class PostgresReader(_PostgresQueries):
    """A reader of one log in one transaction: all queries see the same snapshot."""

    def __init__(self, connection: Connection, origin: str, log: int) -> None:
        super().__init__(origin)
        self._db, self._log, self._process = connection, log, os.getpid()

    def check_catalogue(self) -> ports.CatalogueCheck:
        sql_queries.check_not_forked(self._process)
        return _check_catalogue(self._db)

    def _fetch(self, query: str, parameters: dict[str, object]) -> list[Any]:
        sql_queries.check_not_forked(self._process)
        return _fetch(self._db, query, parameters)


class _NotHereError(Exception):
    """The statement inserted nothing, because the log is not in this database."""


class _PlacedSignal:
    """A signal of the database in which the log was when it was opened."""

    def __init__(self, store: "PostgresStore", signal: ports.WorkSignal) -> None:
        self._store, self._signal, self._moves = store, signal, store.moves

    def wait(self, seconds: float) -> bool:
        """Wait for a notification.  Raises `StoreConnectionLost` when the log is elsewhere."""
        heard = self._signal.wait(seconds)
        if self._moves != self._store.moves:
            why = "the log was moved to another database"
            raise errors.StoreConnectionLost("listening", why)
        return heard

    def close(self) -> None:
        """Close the session."""
        self._signal.close()


class PostgresStore(_PostgresQueries, sql_store.SqlStore):
    """A store of one log in a Postgres database; a forked child reconnects on first use."""

    def __init__(
        self,
        url: str,
        origin: str,
        connections: int = POOL_SIZE,
        shared: PostgresConnections | None = None,
        after_look: Callable[[], None] = lambda: None,
        databases: Mapping[str, str] = _NOWHERE,
    ) -> None:
        """Open a log, with connections of its own unless it is given some that others use too.

        `after_look` is called now and then while the log is used, with its tree compared.  A log
        that was moved is followed to those of the other databases that are named.
        """
        super().__init__(origin)
        self._databases, self._moves, self._looked_at = databases, 0, -inf
        self._follow_lock = Lock()
        self._left: list[PostgresConnections] = []
        """Own connections to databases where the log was before; threads may still use them."""
        self._connections = shared or PostgresConnections(url, connections)
        self._guard = DatabaseGuard(origin, self.lineage, self._open_over)
        self._confirmed: DatabaseMemory[set[StrandKey]] = DatabaseMemory(self.lineage, set)
        """Strands whose end was compared with the record since the database has changed."""
        self._is_sharing, self._after_look = shared is not None, after_look
        if shared is None:
            self._connections.connect()
        try:
            self._begin()
        except BaseException:
            if shared is None:
                self._connections.close()
            raise

    def append(self, records: Sequence[ports.EntryWrite]) -> None:
        def write() -> None:
            with self._write_connection("appending") as db:
                self._append_with_retry(db, records)

        self._write_where_it_is(write)

    def save_checkpoint(self, size: int, note: bytes) -> None:
        def write() -> None:
            with self._write_transaction("publishing") as execute:
                if not self._save_checkpoint(execute, size, note).rowcount:
                    raise _NotHereError

        self._write_where_it_is(write)

    def _write_where_it_is(self, write: Callable[[], None]) -> None:
        """Call a function that raises `_NotHereError` where the log is not; follow the log."""
        for _ in range(_MAX_ATTEMPTS):
            moves = self._moves
            try:
                return write()
            except _NotHereError:
                # Nothing was recorded.  Another attempt if the log is here again, or elsewhere.
                self._find_log(moves)
                self._check_not_stopped()
        raise errors.LogPaused(self._origin)

    def _append_with_retry(self, db: Connection, records: Sequence[ports.EntryWrite]) -> None:
        delay = RetryDelay(_FIRST_RETRY_S, _LAST_RETRY_S)
        for left in reversed(range(_MAX_ATTEMPTS)):
            try:
                self._append(db, records)
            except _RETRYABLE_ERRORS as error:
                if not left:
                    raise errors.StoreFailed("appending", str(error).strip()) from error
                # The other transaction waits for a row that this one has given up: an attempt at
                # once could take the row first, and end in the same way.
                sleep(delay.next())
            else:
                self._guard.note_appended(records)
                return

    def _find_log(self, moves: int) -> None:
        """Find out where a log is that did not take a write, and follow it.

        `moves` tells how often this store had moved before.  Raises `LogPaused` while the log is
        being moved, `LogMoved` if it is in a database without a name here, and `LogEnded` if it is
        not signed any more.
        """
        with self._follow_lock:
            if moves != self._moves:
                return  # another thread has followed it
            with self._write_transaction("looking for the log") as execute:
                rows = execute("move").fetchall()
                is_here = not rows or rows[0][0] == "copying"
                if rows and rows[0][0] == "paused":
                    try:
                        is_here = execute("end_lost_move").rowcount == 1
                    except psycopg.errors.InsufficientPrivilege:
                        raise errors.LogPaused(self._origin) from None  # a tenant may not
                ended = execute("strand_head", strand=ENDED_MARK).fetchall()
            if is_here and ended and not ended[0][0]:
                raise errors.LogEnded(self._origin)
            if is_here:
                return
            state, place, move = rows[0]
            if state != "left":
                raise errors.LogPaused(self._origin)
            self._follow(place, move)

    def _check_not_stopped(self) -> None:
        """Raise `LogEnded` if the log takes no entries, because its next epoch begins."""
        if self._fetch_rows("strand_head", strand=ENDED_MARK):
            raise errors.LogEnded(self._origin)

    def _follow(self, place: str, move: str) -> None:
        """Use the log in another database from now on.  Raises `LogMoved`."""
        if place not in self._databases:
            raise errors.LogMoved(self._origin, place)
        there = PostgresConnections(self._databases[place])
        there.connect()
        try:
            with there.use("opening the log") as db:
                if not _fetch(db, "log", {"origin": self._origin}):
                    _add_log(db, self._origin)
                log = _fetch(db, "log", {"origin": self._origin})[0][0]
                # The other database says that it left, so it has arrived, even if the mover was
                # killed before it wrote so.
                db.execute(_SQL["arrive"], {"log": log, "id": move})
        except BaseException:
            there.close()
            raise
        if self._is_sharing:
            self._connections.stop_leading(self._log)
        else:
            self._left.append(self._connections)
        self._connections, self._log, self._is_sharing = there, log, False
        self.lineage.move()
        self._moves += 1

    def _check_not_moving(self, execute: QueryExecutor) -> None:
        """Raise `LogPaused` while the log is copied: what is erased must not be in the copy."""
        if execute("move").fetchall() and execute("end_lost_move").rowcount == 0:
            raise errors.LogPaused(self._origin)

    @property
    def moves(self) -> int:
        """How often this store has followed its log to another database."""
        return self._moves

    def pending_entries(self, limit: int) -> ports.PendingEntries:
        """Return the next entries without an index, in the order of their commits.

        Raises `EntryLost` if a pending entry is no longer stored.
        """
        pending = self._fetch_rows("waiting", limit=limit)
        rows = []
        for _, _, run, strand, n, data, tag in pending:
            if data is None:
                why = f"entry {run}/{strand}/{n} was acknowledged and is gone"
                raise errors.EntryLost(self._origin, why)
            rows.append(ports.EntryRow(run=run or "", strand=strand or "", n=n, data=data, tag=tag))
        return ports.PendingEntries(rows, [PendingKey(row[0], row[1], row[4]) for row in pending])

    def advance_head(
        self,
        old: ports.TreeHead,
        new: ports.TreeHead,
        batch: ports.PendingEntries,
        tiles: Mapping[TileId, bytes],
        own: Sequence[ports.EntryWrite] = (),
    ) -> None:
        moves = self._moves
        try:
            self._advance_head(old, new, batch, tiles, own)
        except errors.ConcurrentUpdate:
            self._find_log(moves)  # the head does not advance where the log is not
            raise

    def _advance_head(
        self,
        old: ports.TreeHead,
        new: ports.TreeHead,
        batch: ports.PendingEntries,
        tiles: Mapping[TileId, bytes],
        own: Sequence[ports.EntryWrite],
    ) -> None:
        keys: Sequence[PendingKey] = batch.keys
        added: dict[StrandKey, int] = {}
        with self._write_connection("sequencing") as db, db.transaction():
            cached = self._strand_ids.value
            head = (new.size, new.root, self._log, old.size, old.root)
            # The row lock is held until the commit: a second sequencer that waits for it then
            # finds a different head, and its compare-and-set fails.
            if db.execute(_SQL["swap"], head).rowcount != 1:
                raise errors.ConcurrentUpdate(f"the tree of {self._origin}")
            # The head can be the expected one although the batch is no longer pending: another
            # sequencer may have indexed the entries after this one read them and before it read
            # the head, or an entry may have been moved to the quarantine.
            seqs = sorted({key.seq for key in keys})
            removed = db.execute(_SQL["remove_pending"], (self._log, seqs)).fetchall()
            places = {
                (seq, *place) for seq, *arrays in removed for place in zip(*arrays, strict=True)
            }
            if places != set(keys):
                raise errors.ConcurrentUpdate(f"the tree of {self._origin}")
            strands = [key.strand for key in keys]
            strands += self._add_own_entries(db, own, added, cached)
            ns = [*(key.n for key in keys), *(write.position.n for write in own)]
            db.execute(_SQL["add_sequenced"], (self._log, old.size, strands, ns))
            self._add_leaves(db, old.size, [*batch.leaves, *(write.leaf for write in own)])
            with db.cursor() as cursor:
                cursor.executemany(
                    _SQL["put_tile"], [(self._log, t.level, t.index, h) for t, h in tiles.items()]
                )
        self._cache_strand_keys(added, cached)
        self._guard.note_head(new, old)

    def _add_own_entries(
        self,
        db: Connection,
        own: Sequence[ports.EntryWrite],
        added: dict[StrandKey, int],
        cached: dict[StrandKey, int],
    ) -> list[int]:
        """Store entries of the sequencer, which are never pending; return their strand keys.

        Raises `PositionTaken`.
        """
        if not own:
            return []
        wanted = {(write.position.run, write.position.strand) for write in own}
        missing = {key for key in wanted if key not in cached}
        added.update(self._add_strands(db, missing) if missing else {})
        places = [(write.position.run, write.position.strand) for write in own]
        strands = [added.get(place) or cached[place] for place in places]
        rows = {
            "log": self._log,
            "strands": strands,
            "ns": [write.position.n for write in own],
            "bytes": [write.data for write in own],
            "tags": [write.tag for write in own],
        }
        try:
            db.execute(_SQL["add_own_entries"], rows)
        except psycopg.errors.UniqueViolation:
            raise errors.PositionTaken(str(own[0].position)) from None
        self._apply_effects(partial(_execute, db, log=self._log), own)
        return strands

    def move_to_quarantine(self, batch: ports.PendingEntries) -> None:
        keys: Sequence[PendingKey] = batch.keys
        by_commit: dict[int, list[PendingKey]] = {}
        for key in keys:
            by_commit.setdefault(key.seq, []).append(key)
        with self._write_transaction("setting rows aside") as execute:
            self._check_not_moving(execute)
            for seq, group in sorted(by_commit.items()):
                self._remove_waiting(execute, seq, group)
                for key in group:
                    place = {"strand": key.strand, "n": key.n}
                    row = execute("add_quarantine", **place).fetchall()
                    execute("add_quarantine_bodies", quarantine=row[0][0], **place)
                    execute("remove_bodies", **place)
                    execute("remove_entry", **place)

    def _remove_waiting(self, execute: QueryExecutor, seq: int, keys: Sequence[PendingKey]) -> None:
        """Remove entries from their pending commit.

        Raises `ConcurrentUpdate` if one of them is no longer pending.
        """
        commit = execute("pending_row", seq=seq).fetchall()
        waiting = list(zip(*commit[0], strict=True)) if commit else []
        removed = {(key.strand, key.n) for key in keys}
        if not removed.issubset(waiting):
            raise errors.ConcurrentUpdate(f"the waiting entries of {self._origin}")
        left = [place for place in waiting if place not in removed]
        if not left:
            execute("remove_commit", seq=seq)
            return
        strands, ns = [place[0] for place in left], [place[1] for place in left]
        execute("set_pending", seq=seq, strands=strands, ns=ns)

    def try_lead(self) -> bool:
        """Return whether this process holds the sequencer lock; try to take it if not.

        The lock is an advisory lock of one database session, so Postgres frees it when the process
        or its connection is gone.
        """
        if monotonic() - self._looked_at >= _MOVE_CHECK_INTERVAL_S:
            # A process that writes nothing would go on reading where the log was.
            self._looked_at = monotonic()
            if self._fetch_rows("move"):
                self._find_log(self._moves)
        return self._connections.try_lead(self._log)

    def find_sequencer(self) -> ports.SequencerSession | None:
        rows = self._fetch_rows("sequencer_session")
        return ports.SequencerSession(*rows[0]) if rows else None

    def read_state(self) -> ports.StoreState:
        """Return what a monitor looks at, in a session of its own."""
        # What an old primary says must not look like a database that was rolled back.
        return self._connections.read_state(self._log, self._guard.refuse_left)

    def try_writing(self) -> None:
        """Raise the `StoreFailed` of the cause if the database cannot be written.

        Raises `CommitsLost` and `LogEnded` too.
        """
        self.check_history()
        self._connections.try_writing()
        # With a connection of the pool, and what is checked before one is used.  Afterwards: the
        # pool waits long for a server that is away.
        _, has_mark = self._watch_head()
        if has_mark:
            self._check_not_stopped()

    def open_signal(self, worker: str) -> ports.WorkSignal:
        """Listen for due timers in a session that holds a lock of this worker."""
        with translate_errors("listening"):
            return _PlacedSignal(self, self._connections.open_signal(self._log, worker))

    def beat(self, worker: str, lease_s: float, early_s: float) -> list[str]:
        """Renew the lease of a worker, and return the workers that are lost, in one statement."""
        micros, early = round(lease_s * 1e6), round(early_s * 1e6)
        most = round(ports.MAX_LEASE_S * 1e6)
        return self._fetch_column("beat", worker=worker, micros=micros, early=early, most=most)

    def clean_up(self, seconds: float, limit: int) -> int:
        """Delete rows as every store does, and make the partitions that are needed soon."""
        looked = super().clean_up(seconds, limit)
        if looked < limit:
            # Another process may hold a table for long, make the same partitions at the moment, or
            # only its role may make them.  Then the default partition takes the rows.
            with suppress(errors.StoreFailed), self._connection("adding partitions") as db:
                add_partitions(db)
        return looked

    def snapshot(self) -> AbstractContextManager[ports.Reader]:
        """Open a reader in a read-only transaction of its own: all its reads see one snapshot."""
        return open_reader(self._connections.url, self._origin, self._databases)

    def close(self) -> None:
        """Close all connections, except shared ones."""
        if self._is_sharing:
            self._connections.stop_leading(self._log)
        else:
            self._connections.close()
        for connections in self._left:
            connections.close()

    def check_catalogue(self) -> ports.CatalogueCheck:
        with self._connection("reading the catalogue") as db:
            return _check_catalogue(db)

    def _fetch(self, query: str, parameters: dict[str, object]) -> list[Any]:
        try:
            return self._fetch_once(query, parameters)
        except errors.StoreConnectionLost:
            # After a restart of the server, all connections in the pool are broken, and have been
            # dropped: retry once.  A read can always be repeated.
            return self._fetch_once(query, parameters)

    def _fetch_once(self, query: str, parameters: Mapping[str, object]) -> list[Any]:
        with self._connection(f"reading ({query})") as db:
            return _fetch(db, query, parameters)

    @contextmanager
    def _connection(self, doing: str) -> Iterator[Connection]:
        with begin_span(SpanName.STORE, doing), self._connections.use(doing) as db:
            self._guard.admit(db)
            yield db

    @contextmanager
    def _write_connection(self, doing: str) -> Iterator[Connection]:
        with self._connection(doing) as db:
            self._guard.check(db)
            yield db

    def _open_over(self, db: Connection) -> "PostgresReader | None":
        """Open this log over a session; None if the database lacks it."""
        rows = _fetch(db, "log", {"origin": self._origin})
        if not rows:
            return None
        self._log = rows[0][0]  # a database that was made from a dump has other ids
        return PostgresReader(db, self._origin, self._log)

    def head(self) -> ports.TreeHead:
        """Return the tree that the sequencer committed last, and compare it with those seen."""
        return self._watch_head()[0]

    def _watch_head(self) -> tuple[ports.TreeHead, bool]:
        """Return the head as `head` does, and whether a mark stops the processes of the log."""
        before = self._guard.seen
        *row, has_mark = self._fetch_rows("watched_head", marks=_END_MARKS)[0]
        head = ports.TreeHead(row[0], Hash(row[1]))
        is_behind = not self._guard.note_head(head, before)
        is_due = self._guard.begin_look()
        if is_behind or (is_due and has_mark):
            with self._connection("comparing trees") as db:
                self._guard.look(db, again=is_behind)
        if is_due:
            self._after_look()
        return head, has_mark

    def require_history(self, head: ports.TreeHead) -> None:
        with self._connection("comparing trees") as db:
            self._guard.require(db, head)

    def check_history(self) -> None:
        if self._guard.has_ended:
            with self._write_connection("looking for the log"):
                return  # its next epoch could not begin, and it goes on
        self._guard.check()

    @contextmanager
    def _write_transaction(self, doing: str) -> Iterator[QueryExecutor]:
        with self._write_connection(doing) as db, db.transaction():
            yield partial(_execute, db, log=self._log)

    def _begin(self) -> None:
        with self._connection("opening the log") as db:
            check_schema(db)
        fsync, commit = self._fetch_rows("durability")[0]
        # With these off, the server could acknowledge a commit and lose it in a crash.
        if fsync != "on" or commit == "off":
            raise errors.DurabilityDisabled(f"fsync is {fsync}, synchronous_commit is {commit}")
        # A tenant may not add a log, and an insert that adds nothing is refused as well.
        log: int | None = self._fetch_one("log", origin=self._origin)
        if log is None:
            with self._connection("opening the log") as db:
                _add_log(db, self._origin)
            log = self._fetch_one("log", origin=self._origin)
        if log is None:
            raise errors.NoSuchLog(self._origin)
        self._log = log
        with self._connection("looking for the log") as db:
            left = _find_left(db, log)
        if left is not None:
            self._follow(left.place, left.id)

    def _append(self, db: Connection, records: Sequence[ports.EntryWrite]) -> None:
        # Look up only the strands of these records: the cache may hold very many strands.
        strands = {(r.position.run, r.position.strand) for r in records}
        cache = self._strand_ids.value
        self._guard.check_current(db)
        cached = {key: id_ for key in strands if (id_ := cache.get(key)) is not None}
        if self.lineage.generation:
            self._confirm_strands(db, records)
        try:
            if len(cached) < len(strands) or any(r.bodies or r.effects for r in records):
                added = self._append_all(db, records, cached, strands - cached.keys())
                # After the commit: if the transaction had failed, these ids would not exist.
                self._cache_strand_keys(added, cache)
            else:
                self._append_entries(db, records, cached)
        except psycopg.errors.UniqueViolation:
            raise errors.PositionTaken(str(records[0].position)) from None

    def _append_all(
        self,
        db: Connection,
        records: Sequence[ports.EntryWrite],
        cached: dict[StrandKey, int],
        wanted: set[StrandKey],
    ) -> dict[StrandKey, int]:
        with db.transaction():
            added = self._add_strands(db, wanted) if wanted else {}
            ids = cached | added
            self._append_entries(db, records, ids)
            self._append_bodies(db, records, ids)
            # All transactions lock in the order strands, entries, accounts, timers, which prevents
            # deadlocks between these tables.  Entries are inserted in the order of the records: if
            # two transactions race for the same positions in opposite order, Postgres aborts one
            # of them, and `append` retries it.
            self._apply_effects(partial(_execute, db, log=self._log), records)
        return added

    def _confirm_strands(self, db: Connection, records: Sequence[ports.EntryWrite]) -> None:
        """Compare the end of each strand with the record, once after the database has changed.

        A writer knows the end of its strand from before, and may write behind entries that are
        lost.  Raises `CommitsLost`, and `PositionTaken` if another writer was there.
        """
        confirmed = self._confirmed.value
        first: dict[StrandKey, ports.EntryWrite] = {}
        for record in records:
            first.setdefault((record.position.run, record.position.strand), record)
        unknown = [record for strand, record in first.items() if strand not in confirmed]
        self._guard.check_predecessors(db, [record for record in unknown if record.position.n])
        if len(confirmed) > sql_queries.MAX_CACHED_STRANDS:
            confirmed.clear()
        confirmed.update(first)

    def _add_strands(self, db: Connection, wanted: set[StrandKey]) -> dict[StrandKey, int]:
        # Sorted: two transactions that add the same strands cannot deadlock.
        runs, names = zip(*sorted(wanted), strict=True)
        parameters = {"log": self._log, "runs": list(runs), "names": list(names)}
        rows = db.execute(_SQL["add_strands"], parameters).fetchall()
        if len(rows) < len(wanted):  # the statement returns only new strands
            rows = db.execute(_SQL["strand_ids"], parameters).fetchall()
        return {(run, name): strand for run, name, strand in rows}

    def _append_entries(
        self, db: Connection, records: Sequence[ports.EntryWrite], ids: Mapping[StrandKey, int]
    ) -> None:
        rows = {
            "log": self._log,
            "strands": [ids[r.position.run, r.position.strand] for r in records],
            "ns": [r.position.n for r in records],
            "bytes": [r.data for r in records],
            "tags": [r.tag for r in records],
        }
        if not db.execute(_SQL["append"], rows).rowcount:
            raise _NotHereError

    def _append_bodies(
        self, db: Connection, records: Sequence[ports.EntryWrite], ids: Mapping[StrandKey, int]
    ) -> None:
        # Send many small parts in one statement, but never hold a whole long body in memory.
        rows: list[tuple[int, int, str, int, bytes, bytes]] = []
        held = 0
        for record in records:
            strand = ids[record.position.run, record.position.strand]
            for body in record.bodies:
                for part, data in enumerate(body.content.chunks()):
                    rows.append((strand, record.position.n, body.name, part, body.salt, data))
                    held += len(data)
                    if held > _MAX_BUFFERED_BYTES:
                        self._add_bodies(db, rows)
                        rows, held = [], 0
        if rows:
            self._add_bodies(db, rows)

    def _add_bodies(
        self, db: Connection, rows: list[tuple[int, int, str, int, bytes, bytes]]
    ) -> None:
        columns = [list(column) for column in zip(*rows, strict=True)]
        db.execute(_SQL["add_bodies"], (self._log, *columns))

    def _open_accounts(
        self, execute: QueryExecutor, accounts: Sequence[ports.OpenBudgetAccount]
    ) -> None:
        caps = {
            name: [getattr(account.cap, name) for account in accounts]
            for name in ports.Amount._fields
        }
        execute("open_accounts", runs=[a.run for a in accounts], **caps)

    def _set_timers(self, execute: QueryExecutor, alarms: Sequence[ports.Timer]) -> None:
        # One statement cannot change a row twice, so keep only the last time of each timer.
        last = {(alarm.run, alarm.strand): alarm.at for alarm in alarms}
        for wanted, query in ((False, "clear_alarms"), (True, "set_alarms")):
            some = [(*place, at) for place, at in last.items() if (at is not None) is wanted]
            if some:
                runs, strands, ats = (list(column) for column in zip(*some, strict=True))
                execute(query, runs=runs, strands=strands, ats=ats)

    def _add_timers(self, execute: QueryExecutor, timers: Sequence[ports.Timer]) -> None:
        if timers:
            runs, strands, ats = (list(column) for column in zip(*timers, strict=True))
            execute("add_alarms", runs=runs, strands=strands, ats=ats)

    def _add_ended(self, execute: QueryExecutor, ends: Sequence[ports.EndedRun]) -> None:
        execute("add_ended", runs=[e.run for e in ends], parents=[e.parent for e in ends])

    def _claim_due_timers(
        self, claim: ports.TimerClaim, pauses: dict[str, int]
    ) -> list[ports.Timer]:
        with self._write_connection("claiming timers") as db:
            values = claim._asdict() | pauses | {"log": self._log, "own": list(claim.own)}
            return [ports.Timer(*row) for row in _execute(db, "claim_due", **values).fetchall()]

    def _claim_runs(self, claim: ports.RunClaim, pauses: dict[str, int]) -> list[ports.Timer]:
        with self._write_connection("claiming runs") as db:
            values = claim._asdict() | pauses | {"log": self._log}
            return [ports.Timer(*row) for row in _execute(db, "claim_runs", **values).fetchall()]

    def _add_leaves(self, db: Connection, first: int, leaves: Sequence[bytes]) -> None:
        # In the order of the index on the prefix, so that neighbours go to the same page.
        prefixes = sql_queries.leaf_prefixes(leaves)
        rows = sorted((prefix, idx) for idx, prefix in enumerate(prefixes, first))
        columns = ([row[0] for row in rows], [row[1] for row in rows])
        db.execute(_SQL["add_leaves"], (self._log, *columns))


@contextmanager
def open_reader(
    url: str, origin: str, databases: Mapping[str, str] = _NOWHERE
) -> Iterator[PostgresReader]:
    """Open a reader of one snapshot of a log in a read-only transaction.

    A log that was moved is read in the one of the other databases where it is.  Raises `NoSuchLog`,
    and `LogMoved`.
    """
    check_database_url(url)
    with translate_errors("reading"), connect(url, Purpose.LONG) as db:
        db.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        db.read_only = True
        # With REPEATABLE READ, this first statement takes the snapshot that all later reads see.
        rows = _fetch(db, "log", {"origin": origin})
        if not rows:
            raise errors.NoSuchLog(origin)
        left = _find_left(db, rows[0][0])
        if left is None:
            yield PostgresReader(db, origin, rows[0][0])
    if left is not None:
        if left.place not in databases:
            raise errors.LogMoved(origin, left.place)
        with open_reader(databases[left.place], origin, databases) as reader:
            yield reader


def stop_appends(url: str, origin: str, databases: Mapping[str, str]) -> None:
    """Let nobody append to a log from now on; what is there can be sequenced and signed.

    Raises `StoreLocked` if a writer that began before does not end: then call it again.
    """
    _mark_ended(url, origin, databases, n=1)


def end_log(url: str, origin: str, databases: Mapping[str, str]) -> None:
    """Let nobody change a log from now on, because its next epoch begins.

    Raises `StoreLocked` if a writer that began before does not end: then call it again.
    """
    _mark_ended(url, origin, databases, n=0)


def _mark_ended(url: str, origin: str, databases: Mapping[str, str], *, n: int) -> None:
    with (
        translate_errors("ending the log"),
        connect(find_database(url, origin, databases), Purpose.LONG, autocommit=True) as db,
    ):
        db.execute(_SQL["mark_ended"], {"origin": origin, "n": n})
        wait_for_writers(db)


def reopen_log(url: str, origin: str, databases: Mapping[str, str]) -> None:
    """Let processes add to a log again, because its next epoch could not begin."""
    with (
        translate_errors("going on with the log"),
        connect(find_database(url, origin, databases), Purpose.LONG, autocommit=True) as db,
    ):
        db.execute(_SQL["reopen_log"], {"origin": origin})


def wait_for_writers(db: Connection) -> None:
    """Wait for the statements that write and began before a mark of a log was committed.

    All writers of the database wait behind the lock that this takes, so it is given up soon and
    tried again.  Raises `psycopg.errors.LockNotAvailable` if one of the statements does not end.
    """
    for left in reversed(range(_WAIT_ATTEMPTS)):
        try:
            with db.transaction():
                db.execute("SELECT set_config('lock_timeout', %s, true)", (_WAIT_TIMEOUT,))
                db.execute(_WAIT_FOR_WRITERS)
        except psycopg.errors.LockNotAvailable:
            if not left:
                raise
        else:
            return


def find_database(url: str, origin: str, databases: Mapping[str, str]) -> str:
    """Return the address of the database in which a log is: this one, or where it was moved to.

    Raises `LogMoved` if that has no name here.
    """
    with translate_errors("looking for the log"), connect(url, Purpose.LONG) as db:
        rows = _fetch(db, "log", {"origin": origin})
        left = _find_left(db, rows[0][0]) if rows else None
    if left is None:
        return url
    if left.place not in databases:
        raise errors.LogMoved(origin, left.place)
    return find_database(databases[left.place], origin, databases)


def check_schema(db: Connection) -> None:
    """Raise `SchemaTooOld` if a database lacks migrations of this release."""
    version, missing = _missing_migrations(db)
    if missing:
        raise errors.SchemaTooOld(version, missing[-1].number)


def upgrade_schema(
    url: str, *, post: bool = False, report: Callable[[str], None] = lambda _: None
) -> list[int]:
    """Apply the missing migrations of this release, and return their numbers.

    Without `post`, apply only migrations with which processes of the previous release keep working.
    With `post`, apply the others too: all such processes must have ended, and cannot open the
    database again.

    Each migration is applied by itself: those that were applied stay if a later one cannot be.
    Raises `UpgradeBlocked` if a session of another keeps a table for too long.
    """
    check_database_url(url)
    with (
        translate_errors("upgrading the schema"),
        connect(url, Purpose.LONG, autocommit=True) as db,
    ):
        changer = postgres_upgrade.SchemaChanger(db, report)
        changer.lock_out_others()
        version, missing = _missing_migrations(db, post=post)
        if version:
            for migration in missing:
                changer.apply(migration, partial(_record_migration, db, migration))
            for table in list_unseparated(db):
                changer.change(f"the policy of {table}", [table], partial(separate_log, db, table))
            with db.transaction():
                grant_to_tenants(db)
        else:
            _create_schema(db, missing)
    return [migration.number for migration in missing]


def _create_schema(db: Connection, migrations: Sequence[sql_schema.Migration]) -> None:
    """Apply all migrations in one transaction: nobody has used the tables yet."""
    with db.transaction():
        for migration in migrations:
            db.execute(migration.sql.encode())
            _record_migration(db, migration)
        if {1, _PARTITION_MIGRATION} <= {migration.number for migration in migrations}:
            for table in postgres_partitions.PARTITIONED_TABLES:
                postgres_partitions.partition_table(db, table)
            postgres_partitions.add_partitions(db)
        separate_logs(db)


def add_partitions(db: Connection, width: int = postgres_partitions.PARTITION_STRANDS) -> int:
    """Add the partitions that strands need soon, and return their number.

    Raises `StoreFailed` or `StoreConnectionLost` if a table is held by others for longer than
    writers may wait, or if the role of this session may not do it; nothing has changed then.
    """
    with translate_errors("adding partitions"):
        if not postgres_partitions.needs_partitions(db, width):
            return 0
    with translate_errors("adding partitions"), db.transaction():
        # The scan of the default partition, which is empty, is part of the statement.
        for setting in ("lock_timeout", "statement_timeout"):
            values = {"name": setting, "value": postgres_upgrade.LOCK_TIMEOUT, "local": True}
            db.execute(_SQL["set_timeout"], values)
        return postgres_partitions.add_partitions(db, width)


def partition_database(
    url: str,
    width: int = postgres_partitions.PARTITION_STRANDS,
    report: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """Partition the large tables of a database that nobody else uses, in one transaction.

    Tables that are partitioned already get partitions for the rows in their default partition.
    Return the tables that were changed.  Raises `DatabaseInUse` while other sessions are connected
    or workers have leases, and `UpgradeBlocked` if one that has just connected keeps a table.
    """
    check_database_url(url)
    with translate_errors("partitioning"), connect(url, Purpose.LONG, autocommit=True) as db:
        _, missing = _missing_migrations(db)
        if missing:
            raise errors.SchemaTooOld(missing[0].number - 1, missing[-1].number)
        _check_unused(db)
        tables = ("strand", *postgres_partitions.PARTITIONED_TABLES)
        changer = postgres_upgrade.SchemaChanger(db, report)
        return changer.change("partitioning", tables, partial(_partition_tables, db, width))


def _partition_tables(db: Connection, width: int) -> list[str]:
    """Partition the large tables in the transaction of the caller, and return those changed."""
    db.execute("LOCK TABLE forum.strand, forum.entry, forum.body IN ACCESS EXCLUSIVE MODE")
    _check_unused(db)  # nobody has begun to work before the tables were locked
    changed = [
        table
        for table in postgres_partitions.PARTITIONED_TABLES
        if _partition_table(db, table, width)
    ]
    postgres_partitions.add_partitions(db, width)
    separate_logs(db)
    return changed


def _check_unused(db: Connection) -> None:
    sessions, workers = (
        _fetch(db, query, {})[0][0] for query in ("other_sessions", "live_workers")
    )
    if sessions or workers:
        raise errors.DatabaseInUse(sessions, workers)


def _partition_table(db: Connection, table: str, width: int) -> bool:
    """Partition a table, or empty its default partition; return whether anything changed."""
    before = postgres_partitions.count_table_rows(db, table)
    if postgres_partitions.is_partitioned(db, table):
        if not postgres_partitions.empty_default(db, table, width):
            return False
    else:
        postgres_partitions.partition_table(db, table, width)
    after = postgres_partitions.count_table_rows(db, table)
    if after != before:
        raise errors.StoreFailed("partitioning", f"{table} had {before} rows and has {after}")
    return True


def _missing_migrations(
    db: Connection, *, post: bool = False
) -> tuple[int, list[sql_schema.Migration]]:
    """Return the version of a schema, and the migrations that it lacks."""

    def column(query: str, has_table: str) -> list[Any]:
        there = _fetch(db, has_table, {})[0][0]
        return [row[0] for row in _fetch(db, query, {})] if there else []

    version = max(column("version", "has_schema"), default=0)
    applied = column("additions", "has_additions")
    return version, sql_schema.missing_migrations("postgres", version, applied, post=post)


def _check_catalogue(db: Connection) -> ports.CatalogueCheck:
    try:
        with db.transaction():  # a refusal undoes nothing of what is read before
            _, missing = _missing_migrations(db)
            has_additions = _fetch(db, "has_additions", {})[0][0]
            applied = [row[0] for row in _fetch(db, "additions", {})] if has_additions else []
            migrations = sql_schema.load_migrations("postgres")
            unknown = describe_unknown_state(migrations, applied, missing=bool(missing))
            if unknown:
                return ports.CatalogueCheck(not_checked=unknown)
            return compare_catalogue(read_catalogue(db), load_postgres_forms())
    except psycopg.errors.InsufficientPrivilege as error:
        why = str(error).partition("\n")[0]
        return ports.CatalogueCheck(not_checked=f"this user may not read it: {why}")


def read_catalogue(db: Connection) -> Catalogue:
    """Return what the schema of a database consists of."""
    rows = _fetch(db, "catalogue", {})
    return collect_objects((name, " ".join(line.split())) for name, line in rows)


def _record_migration(db: Connection, migration: sql_schema.Migration) -> None:
    # The previous release refuses to start if forum.migration has a number that it does not know.
    # So migrations that it can work with are recorded in a table that it does not read.
    if migration.number > sql_schema.BASE_SCHEMA_VERSION and migration.is_additive:
        db.execute(_SQL["make_additions"])
        db.execute(_SQL["add_addition"], (migration.number,))
    else:
        db.execute(_SQL["add_migration"], (migration.number,))


class _LeftLog(NamedTuple):
    """Where a log is that was moved."""

    place: str
    id: str


def _find_left(db: Connection, log: int) -> _LeftLog | None:
    """Return where a log is, if it was moved from this database; an older schema has no moves."""
    if not _fetch(db, "has_moves", {})[0][0]:
        return None
    rows = _fetch(db, "move", {"log": log})
    return _LeftLog(*rows[0][1:]) if rows and rows[0][0] == "left" else None


def _add_log(db: Connection, origin: str) -> None:
    """Add a log; if the epoch before it was moved, it begins where that one is."""
    rows = _fetch(db, "log", {"origin": previous_epoch(origin) or ""})
    left = _find_left(db, rows[0][0]) if rows else None
    try:
        with db.transaction():
            db.execute(_SQL["add_log"], (origin, EMPTY_ROOT))
            if left is not None:
                db.execute(_SQL["add_left"], {"origin": origin, **left._asdict()})
    except psycopg.errors.InsufficientPrivilege as error:
        why = f"this user of the database may not add {origin}"
        hint = "The operator does: forum tenant epoch NAME, or after one: forum tenant role NAME"
        raise errors.StoreFailed("opening the log", why, hint) from error


def _fetch(db: Connection, query: str, parameters: Mapping[str, Any]) -> list[Any]:
    return db.execute(_SQL[query], parameters, binary=True).fetchall()


def _execute(db: Connection, query: str, **parameters: object) -> psycopg.Cursor[TupleRow]:
    return db.execute(_SQL[query], parameters)
