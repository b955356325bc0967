"""Move a log to another Postgres database while its writers work.

The rows are copied and verified while the log takes writes.  Then it takes none: what was added
since the copy is copied and compared, and in one commit the log leaves this database for ever.

A mover decides in one session, which holds a lock of the log.  Before that commit the log is here,
and a writer that finds no mover alive ends the pause.  After it the log is there, and whoever
follows it marks it as arrived.  So at any moment one database takes writes, or none for a moment.

Who writes sees the row of `forum.move` in the statement that writes.  A statement that began before
the row was committed does not: the mover waits for those by a lock of the tables.
"""

import secrets
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import psycopg
from psycopg import sql

from forum import errors
from forum.ledger.entry import leaf_of
from forum.ledger.ports import Reader
from forum.ledger.row_checks import has_tree
from forum.stores import (
    postgres,
    postgres_backup,
    postgres_partitions,
    postgres_reader,
    postgres_schema,
    sql_queries,
)
from forum.stores.postgres_connections import Connection, translate_errors
from forum.stores.postgres_sessions import QUERIES, Purpose, connect

_DELTA_TABLES = (
    *("entry", "body", "checkpoint", "tile", "sequenced"),
    *("piece_head", "piece", "span_list"),
)
"""Tables of which only new rows are copied in the pause; the others are small."""
_DELTA: Mapping[str, str] = {
    # A body in another strand of a run adds to the pieces, which stand under its strand `main`.
    "strand": "id IN (SELECT strand FROM ({new}) AS new UNION SELECT strand FROM forum.piece_head"
    " WHERE log = {log} AND age(xmin) <= age({since}::xid))",
    "entry": "(strand, n) IN ({new})",
    "body": "(strand, n) IN ({new})",
    "sequenced": "first >= {size}",
    # A tile of a level covers 256 times as many entries as one below it.
    "tile": "idx >= {size} >> (8 * (level + 1))",
    # Cosignatures are added to checkpoints that were stored before.
    "checkpoint": "age(xmin) <= age({since}::xid)",
    # While a log is moved nothing is erased, so pieces and lists are only added.
    "piece_head": "age(xmin) <= age({since}::xid)",
    "piece": "age(xmin) <= age({since}::xid)",
    "span_list": "age(xmin) <= age({since}::xid)",
}
"""Which rows are new since the first copy."""
_NEW_PLACES = sql.SQL("""
    SELECT u.strand, u.n FROM forum.sequenced, unnest(strands, ns) AS u (strand, n)
    WHERE log = {log} AND first >= {size}
    UNION SELECT u.strand, u.n FROM forum.pending, unnest(strands, ns) AS u (strand, n)
    WHERE log = {log}
""")


class MoveResult(NamedTuple):
    """What a move has done."""

    size: int
    """The size of the tree that was moved."""
    copied: int
    """How many entries were copied while the log took writes."""
    delta: int
    """How many entries were copied in the pause."""
    pause_s: float
    """For how long no write was taken."""


class _Snapshot(NamedTuple):
    """The moment of the first copy."""

    log: int
    size: int
    since: str
    """The oldest transaction that was going on then."""


class LogMover:
    """Moves one log from one database to another."""

    def __init__(  # where from, where to, and how it is checked
        self,
        origin: str,
        source: str,
        target: str,
        place: str,
        verify: Callable[[Reader], None],
        on_step: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`place` is the name of the target, which stays behind; `verify` raises if a copy is bad.

        `on_step` is told the name of each step before it is done.
        """
        self._origin, self._source = origin, source
        self._target = target
        self._place, self._verify = place, verify
        self._on_step = on_step

    def move(self) -> MoveResult:
        """Move the log.

        Raises `MoveRefused`, `BackupRejected` if a copy does not verify, and `StoreFailed`; then
        the log is where it was, and takes writes again.
        """
        with (
            translate_errors("moving a log"),
            connect(self._source, Purpose.LONG, autocommit=True) as db,
        ):
            # The log and its earlier epochs.
            logs = self._list_logs(db)
            log = self._lock(db, logs)
            row = db.execute(QUERIES["move"], {"log": log}).fetchone()
            if row is not None and row[0] == "left":
                raise errors.MoveRefused(self._origin, f"it is in the database {row[1]}")
            try:
                return self._move(db, logs, secrets.token_hex(8))
            finally:
                # If it has left, the row stays.  Without a session, a writer deletes it.
                if not db.closed:
                    db.execute(
                        "DELETE FROM forum.move WHERE log = ANY(%s) AND state <> 'left'",
                        (list(logs.values()),),
                    )

    def _lock(self, db: Connection, logs: Mapping[str, int]) -> int:
        """Take the lock of movers, which ends with the session; return the number of the log."""
        log = logs.get(self._origin)
        if log is None:
            raise errors.NoSuchLog(self._origin)
        query = "SELECT pg_try_advisory_lock(hashtext('forum.move'), %s)"
        row = db.execute(query, (log,)).fetchone()
        if row is None or not row[0]:
            raise errors.MoveRefused(self._origin, "another process is moving it")
        return log

    def _move(self, db: Connection, logs: Mapping[str, int], move: str) -> MoveResult:
        self._check_ready(db, logs)
        # From here on nothing is erased here: it would stay in the copy.
        self._set_state(db, logs, "copying", move)
        self._on_step("copy")
        with tempfile.TemporaryDirectory(prefix="forum-move-") as folder:
            at = self._copy_all(logs[self._origin], move, Path(folder))
        self._on_step("pause")
        started = monotonic()
        self._set_state(db, logs, "paused", move)
        self._on_step("copy the rest")
        with tempfile.TemporaryDirectory(prefix="forum-move-") as folder:
            size, delta = self._copy_new(at, Path(folder))
        self._on_step("leave")
        left = db.execute(
            "UPDATE forum.move SET state = 'left'"
            " WHERE log = ANY(%s) AND id = %s AND state = 'paused'",
            (list(logs.values()), move),
        )
        # One row each: all of them in one commit, or the move has not happened.
        if left.rowcount == 0:
            raise errors.MoveRefused(self._origin, "the pause was ended by somebody else")
        # From here on it is there.  After a crash, whoever follows it marks it as arrived.
        self._on_step("arrive")
        with connect(self._target, Purpose.LONG) as there:
            for log in self._list_logs(there).values():
                there.execute(QUERIES["arrive"], {"log": log, "id": move})
        return MoveResult(size, at.size, delta, monotonic() - started)

    def _check_ready(self, db: Connection, logs: Mapping[str, int]) -> None:
        """Check that nothing is in the way, and remove an earlier copy that takes no writes."""
        query = "SELECT FROM forum.quarantine WHERE log = ANY(%s) LIMIT 1"
        if db.execute(query, (list(logs.values()),)).fetchone() is not None:
            raise errors.MoveRefused(
                self._origin, "it has rows that were set aside; look at them first: forum doctor"
            )
        with connect(self._target, Purpose.LONG) as there:
            postgres_schema.check_schema(there)
            log_ids = list(self._list_logs(there).values())
            query = (
                "SELECT log FROM forum.move WHERE log = ANY(%s) AND state IN ('arriving', 'left')"
            )
            if len(there.execute(query, (log_ids,)).fetchall()) != len(log_ids):
                why = f"the database {self._place} has a log of this name, which takes writes"
                raise errors.MoveRefused(self._origin, why)
            # Strands refer to logs, and nothing else refers to either.
            tables = [t for t in postgres_backup.list_columns(there) if t not in {"strand", "log"}]
            for table in (*tables, "strand"):
                delete = sql.SQL("DELETE FROM {} WHERE log = ANY(%s)")
                there.execute(delete.format(postgres_backup.qualify(table)), (log_ids,))
            there.execute("DELETE FROM forum.log WHERE id = ANY(%s)", (log_ids,))

    def _list_logs(self, db: Connection) -> dict[str, int]:
        return postgres_backup.find_logs(db, self._origin.partition("/epoch-")[0])

    def _set_state(self, db: Connection, logs: Mapping[str, int], state: str, move: str) -> None:
        """Commit a state, and wait for the statements that do not see it."""
        db.execute(
            "INSERT INTO forum.move (log, state, id, place)"
            " SELECT log, %s, %s, %s FROM unnest(%s::integer[]) AS log"
            " ON CONFLICT (log) DO UPDATE SET state = excluded.state, id = excluded.id,"
            " place = excluded.place",
            (state, move, self._place, list(logs.values())),
        )
        postgres.wait_for_writers(db)

    def _copy_all(self, log: int, move: str, folder: Path) -> _Snapshot:
        base = self._origin.partition("/epoch-")[0]
        copying = postgres_backup.copy_rows(self._source, base, self._origin, folder, moves=True)
        with copying as (reader, columns):
            since = (folder / postgres_backup.SINCE).read_text().strip()
            at = _Snapshot(log, reader.head().size, since)

            def arrive(db: Connection) -> None:
                db.execute(
                    "INSERT INTO forum.move (log, state, id, place)"
                    " SELECT log, 'arriving', %s, %s FROM unnest(%s::integer[]) AS log",
                    (move, self._place, list(self._list_logs(db).values())),
                )

            restoring = postgres_backup.restore_rows(
                self._target, self._origin, folder, columns, finish=arrive
            )
            self._on_step("verify the copy")
            with restoring as copied:
                self._verify(copied)
        return at

    def _copy_new(self, at: _Snapshot, folder: Path) -> tuple[int, int]:
        """Copy what was added since the first copy, and what is small; compare the trees."""
        with connect(self._source, Purpose.LONG) as db:
            db.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            db.read_only = True
            columns = {
                table: names
                for table, names in postgres_backup.list_columns(db).items()
                if table not in {*postgres_backup.MOVE_TABLES, "leaf"}
            }
            for table, names in columns.items():
                postgres_backup.save_rows(db, _select(table, names, at), folder / f"{table}.copy")
            head = postgres_reader.PostgresReader(db, self._origin, at.log).head()
        with connect(self._target, Purpose.LONG) as there:
            delta = self._load_new(there, columns, folder)
            log = self._list_logs(there)[self._origin]
            reader = postgres_reader.PostgresReader(there, self._origin, log)
            if reader.head() != head or not has_tree(reader.read_tile, head):
                raise errors.MoveRefused(self._origin, "the copy is not what was copied")
        return head.size, delta

    def _load_new(self, db: Connection, columns: postgres_backup.Columns, folder: Path) -> int:
        for table, names in columns.items():
            postgres_backup.load_rows(db, table, names, folder / f"{table}.copy")
        postgres_backup.check_sharing(db)
        db.execute(
            "CREATE TEMP TABLE new_log ON COMMIT DROP AS"
            " SELECT c.id AS old, l.id AS new FROM copied_log c JOIN forum.log l USING (origin)"
        )
        postgres_backup.restore_strands(db, columns["strand"])
        postgres_partitions.add_partitions(db)
        db.execute("DELETE FROM forum.tile t USING copied_tile c, new_log m WHERE t.log = m.new"
                   " AND t.level = c.level AND t.idx = c.idx")  # fmt: skip
        db.execute("DELETE FROM forum.checkpoint t USING copied_checkpoint c, new_log m"
                   " WHERE t.log = m.new AND t.size = c.size")  # fmt: skip
        db.execute("DELETE FROM forum.piece_head t USING copied_piece_head c, new_strand m"
                   " WHERE m.old = c.strand AND t.strand = m.new")  # fmt: skip
        for table in columns:
            if table in {"log", "strand"}:
                continue
            if table not in _DELTA_TABLES:
                delete = sql.SQL("DELETE FROM {} WHERE log IN (SELECT new FROM new_log)")
                db.execute(delete.format(postgres_backup.qualify(table)))
            postgres_backup.insert_rows(
                db, table, columns[table], skip_known=table in _DELTA_TABLES
            )
        self._add_leaves(db)
        db.execute(
            "UPDATE forum.log SET size = c.size, root = c.root"
            " FROM copied_log c, new_log m WHERE m.old = c.id AND log.id = m.new"
        )
        row = db.execute("SELECT count(*) FROM copied_entry").fetchone()
        return int(row[0]) if row else 0

    def _add_leaves(self, db: Connection) -> None:
        """Add the leaves of new entries to the index, which has no order by which to copy it."""
        rows = db.execute(
            "SELECT m.new, s.first + u.place - 1, e.bytes FROM copied_sequenced s"
            " JOIN new_log m ON m.old = s.log"
            " CROSS JOIN unnest(s.strands, s.ns) WITH ORDINALITY AS u (strand, n, place)"
            " JOIN copied_entry e ON (e.log, e.strand, e.n) = (s.log, u.strand, u.n)"
        ).fetchall()
        prefixes = sql_queries.leaf_prefixes([leaf_of(data) for *_, data in rows])
        leaves = sorted(zip(prefixes, [idx for _, idx, _ in rows], strict=True))
        if leaves:
            columns = ([row[place] for row in leaves] for place in (0, 1))
            db.execute(QUERIES["add_leaves"], (rows[0][0], *columns))


def _select(table: str, names: list[str], at: _Snapshot) -> sql.Composed:
    """Return the statement that copies what is new in a table, or all of a small one."""
    values = {
        "log": sql.Literal(at.log),
        "size": sql.Literal(at.size),
        "since": sql.Literal(at.since),
    }
    new = _NEW_PLACES.format(**values)
    where = sql.SQL(_DELTA.get(table, "true")).format(**values, new=new)
    query = "COPY (SELECT {names} FROM {table} WHERE {key} = {log} AND {where}) TO STDOUT"
    return sql.SQL(query).format(
        names=postgres_backup.join_names(names),
        table=postgres_backup.qualify(table),
        key=sql.Identifier("id" if table == "log" else "log"),
        where=where,
        log=values["log"],
    )
