"""How entries and their effects are appended in Postgres.

Committing an entry takes no lock that an append to another strand waits for.  Beside the log, the
strands of a run share its budget account: a transaction that charges the account holds the lock on
its row until the transaction ends.
"""

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from time import sleep

import psycopg

from forum import errors
from forum.ledger import ports
from forum.ledger.entry import MAIN_STRAND
from forum.stores import sql_migrations, sql_queries
from forum.stores.postgres_arrays import (
    BigintArray,
    BooleanArray,
    ByteaArray,
    IntegerArray,
    TextArray,
    TypedArray,
)
from forum.stores.postgres_connections import Connection
from forum.stores.postgres_log import NotHereError, PostgresLog
from forum.stores.postgres_reader import StrandKey
from forum.stores.postgres_sessions import QUERIES, RetryDelay, run_query
from forum.stores.sql_appending import SqlEntryStore
from forum.stores.sql_pieces import KnownBodies, SharedBodies
from forum.stores.sql_queries import QueryExecutor

_SHARING_MIGRATION = sql_migrations.SHARING_MIGRATION["postgres"]


_MAX_ATTEMPTS = 5


_FIRST_RETRY_S, _LAST_RETRY_S = 0.02, 0.2


_MAX_BUFFERED_BYTES = 1 << 20
"""The number of buffered body bytes above which a batch of body parts is sent."""


_ColumnTypes = tuple[type[TypedArray], ...]
_BODY_COLUMNS: _ColumnTypes = (
    BigintArray, BigintArray, TextArray, IntegerArray, ByteaArray, ByteaArray, BigintArray,
)  # fmt: skip
_PIECE_COLUMNS: _ColumnTypes = (BigintArray, BigintArray, BigintArray, ByteaArray)
_LIST_COLUMNS: _ColumnTypes = (BigintArray, BigintArray, BigintArray, IntegerArray, ByteaArray)


_RETRYABLE_ERRORS = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
"""Errors caused by concurrent transactions: Postgres has rolled back, and a retry is safe."""


class PostgresEntryStore(PostgresLog, SqlEntryStore):
    """Appends entries with their bodies and effects."""

    def append(self, records: Sequence[ports.EntryWrite]) -> None:
        def write() -> None:
            with self._write_connection("appending") as db:
                self._append_with_retry(db, records)

        self._write_where_it_is(write)

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

    def _append(self, db: Connection, records: Sequence[ports.EntryWrite]) -> None:
        # Look up only the strands of these records: the cache may hold very many strands.
        strands = {(r.position.run, r.position.strand) for r in records}
        cache, known_bodies = self._strand_ids.value, self._known_bodies.value
        self._guard.check_current(db)
        # With the strand `main` of each run, under which its pieces stand.
        looked_up = strands | {(run, MAIN_STRAND) for run, _ in strands}
        cached = {key: id_ for key in looked_up if (id_ := cache.get(key)) is not None}
        missing = strands - cached.keys()
        if self.lineage.generation:
            self._confirm_strands(db, records)
        try:
            if missing or any(r.bodies or r.effects for r in records):
                added = self._append_all(
                    db,
                    records,
                    cached=cached,
                    wanted=missing,
                    known_bodies=known_bodies,
                )
                # After the commit: if the transaction had failed, these ids would not exist.
                self._cache_strand_keys(added, cache)
            else:
                self._append_entries(db, records, cached)
        except psycopg.errors.UniqueViolation as error:
            # Another row that somebody has put there is no taken position: a writer that tried the
            # next one would never end.
            if not (error.diag.table_name or "entry").startswith("entry"):
                raise errors.StoreFailed("appending", str(error).strip()) from error
            raise errors.PositionTaken(str(records[0].position)) from None

    def _append_all(
        self,
        db: Connection,
        records: Sequence[ports.EntryWrite],
        cached: dict[StrandKey, int],
        wanted: set[StrandKey],
        known_bodies: KnownBodies,
    ) -> dict[StrandKey, int]:
        with db.transaction():
            added = self._add_strands(db, wanted) if wanted else {}
            ids = ChainMap(added, cached)
            self._append_entries(db, records, ids)
            execute = partial(run_query, db, log=self._log)
            shared = self._share_bodies(execute, records, ids, known_bodies)
            self._append_bodies(db, records, ids, shared)
            # All transactions lock in the order strands, entries, pieces, accounts, timers, which
            # prevents deadlocks between these tables.  Entries are inserted in the order of the
            # records: if two transactions race for the same positions in opposite order, Postgres
            # aborts one of them, and `append` retries it.
            self._apply_effects(partial(run_query, db, log=self._log), records)
        self._keep_known(known_bodies, shared)
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
        parameters = {"log": self._log, "runs": TextArray(runs), "names": TextArray(names)}
        rows = db.execute(QUERIES["add_strands"], parameters).fetchall()
        if len(rows) < len(wanted):  # the statement returns only new strands
            rows = db.execute(QUERIES["strand_ids"], parameters).fetchall()
        return {(run, name): strand for run, name, strand in rows}

    def _append_entries(
        self, db: Connection, records: Sequence[ports.EntryWrite], ids: Mapping[StrandKey, int]
    ) -> None:
        rows = {
            "log": self._log,
            "strands": BigintArray(ids[r.position.run, r.position.strand] for r in records),
            "ns": BigintArray(r.position.n for r in records),
            "bytes": ByteaArray(r.data for r in records),
            "tags": ByteaArray(r.tag for r in records),
        }
        if not db.execute(QUERIES["append"], rows).rowcount:
            raise NotHereError

    def _append_bodies(
        self,
        db: Connection,
        records: Sequence[ports.EntryWrite],
        ids: Mapping[StrandKey, int],
        shared: SharedBodies,
    ) -> None:
        # Send many small parts in one statement, but never hold a whole long body in memory.
        bodies = (
            row
            for record in records
            for row in shared.body_rows(ids[record.position.run, record.position.strand], record)
        )
        self._add_rows(db, "add_bodies", bodies, _BODY_COLUMNS, data=5)
        pieces = (row for body in shared.rows.values() for row in body.pieces())
        self._add_rows(db, "add_pieces", pieces, _PIECE_COLUMNS, data=3)
        lists = (body.row() for body in shared.rows.values())
        self._add_rows(db, "add_lists", lists, _LIST_COLUMNS, data=4)

    def _add_rows(
        self,
        db: Connection,
        query: str,
        rows: Iterable[tuple[object, ...]],
        types: _ColumnTypes,
        data: int,
    ) -> None:
        """Insert rows by some statements; `data` is the place of the column that may be large."""
        batch: list[tuple[object, ...]] = []
        held = 0
        for row in rows:
            batch.append(row)
            column = row[data]
            held += len(column) if isinstance(column, bytes) else 0
            if held > _MAX_BUFFERED_BYTES:
                self._insert_columns(db, query, batch, types)
                batch, held = [], 0
        if batch:
            self._insert_columns(db, query, batch, types)

    def _insert_columns(
        self, db: Connection, query: str, rows: Sequence[tuple[object, ...]], types: _ColumnTypes
    ) -> None:
        columns = zip(*rows, strict=True)
        arrays = [array(column) for array, column in zip(types, columns, strict=True)]
        db.execute(QUERIES[query], (self._log, *arrays))

    def _writes_shared_bodies(self, execute: QueryExecutor) -> bool:
        rows = execute("writes_shared_bodies", number=_SHARING_MIGRATION).fetchall()
        return bool(rows[0][0])

    def _charge_slices(
        self, execute: QueryExecutor, charges: Sequence[ports.BudgetSliceCharge]
    ) -> None:
        if len(charges) == 1:
            super()._charge_slices(execute, charges)
            return
        # One statement for any number of caps.  It cannot change a row twice, so the charges of a
        # slice are added up: what is settled makes room for what is asked for in the same commit.
        by_slice: dict[ports.BudgetSlice, list[ports.BudgetSliceCharge]] = {}
        for charge in charges:
            by_slice.setdefault(charge.slice, []).append(charge)
        asked = [_sum_amounts(each for each in some if each.guarded) for some in by_slice.values()]
        totals = [_sum_amounts(some) for some in by_slice.values()]
        columns: dict[str, TypedArray] = {
            name: TextArray(getattr(budget_slice, name[:-1]) for budget_slice in by_slice)
            for name in ("scopes", "periods", "owners")
        }
        columns["guarded"] = BooleanArray(
            any(each.guarded for each in some) for some in by_slice.values()
        )
        for unit in ports.Spend._fields:
            columns[unit] = BigintArray(getattr(total, unit) for total in totals)
            columns[f"asked_{unit}"] = BigintArray(getattr(amount, unit) for amount in asked)
        charged = {
            ports.BudgetSlice(*row) for row in execute("charge_slices", **columns).fetchall()
        }
        for budget_slice, some in by_slice.items():
            if budget_slice not in charged:
                # One by one: the first that the slice does not cover is refused.
                super()._charge_slices(execute, some)

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
        last = {(timer.run, timer.strand): timer.at for timer in alarms}
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


def _sum_amounts(charges: Iterable[ports.BudgetSliceCharge]) -> ports.Spend:
    amounts = [charge.amount for charge in charges]
    return ports.Spend(*map(sum, zip(*amounts, strict=True))) if amounts else ports.Spend()
