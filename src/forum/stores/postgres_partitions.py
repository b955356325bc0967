"""Partitions of the Postgres tables that grow with every entry: by ranges of strand ids.

Ids of strands are given in the order of their creation, so new rows go to the newest range, and
the unique index on (log, strand, n), which decides who takes a position, contains the partition
key.  Partitions are made ahead of need.  A row whose strand is beyond all ranges goes to the
default partition: an append never fails because a partition is missing.
"""

import re
from typing import NamedTuple

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from forum.stores.postgres_sessions import QUERIES

PARTITIONED_TABLES = ("entry", "body", "piece", "span_list")
PARTITION_STRANDS = 10_000_000
"""The number of strand ids in a partition: some days of 10^6 runs a day."""

_SQL = QUERIES
_SCHEMA = "forum"
_DEFAULT = "default"
# As migration 14 sets them for tables that are not partitioned.
_STORAGE = sql.SQL(
    "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100000,"
    " autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000,"
    " autovacuum_analyze_scale_factor = 0.02"
)

Connection = psycopg.Connection[TupleRow]


class _Range(NamedTuple):
    """The strand ids of a partition: from `low` to below `high`."""

    low: int
    high: int


class _Layout(NamedTuple):
    """The last strand id, and the ranges of each partitioned table."""

    last: int
    ranges: dict[str, list[_Range]]


def is_partitioned(db: Connection, table: str) -> bool:
    """Return whether a table is partitioned."""
    return table in _read_layout(db).ranges


def needs_partitions(db: Connection, width: int = PARTITION_STRANDS) -> bool:
    """Return whether a partitioned table lacks partitions for the next strands."""
    layout = _read_layout(db)
    return any(_end(ranges) <= layout.last + width for ranges in layout.ranges.values())


def partition_table(db: Connection, table: str, width: int = PARTITION_STRANDS) -> None:
    """Make a plain table the first partition of a new table of its name; no row is copied.

    The caller holds the table and commits.  Postgres checks in a scan that all rows are in range.
    """
    plain, ids = f"{table}_0", {"table": _name(table), "plain": _name(f"{table}_0")}
    rename = "ALTER TABLE {table} RENAME TO {name}"
    _execute(db, rename, table=_name(table), name=sql.Identifier(plain))
    key, name = _name(f"{table}_pkey"), sql.Identifier(f"{plain}_pkey")
    _execute(db, "ALTER INDEX {key} RENAME TO {name}", key=key, name=name)
    like = "LIKE {plain} INCLUDING DEFAULTS INCLUDING STORAGE INCLUDING INDEXES"
    _execute(db, f"CREATE TABLE {{table}} ({like}) PARTITION BY RANGE (strand)", **ids)
    # The policy of the table is made anew for the new one; nobody asks a partition for rows.
    _execute(db, "DROP POLICY IF EXISTS tenant ON {plain}", **ids)
    _execute(db, "ALTER TABLE {plain} DISABLE ROW LEVEL SECURITY", **ids)
    high = (_read_layout(db).last // width + 1) * width
    _attach(db, table, plain, _Range(0, high))
    # Only now: a constraint that old rows need not meet cannot be there before its partition.
    for name, definition in db.execute(_SQL["check_constraints"], {"table": plain}).fetchall():
        add = sql.SQL("ALTER TABLE {table} ADD CONSTRAINT {name} {definition}")
        parts = {"name": sql.Identifier(name), "definition": sql.SQL(definition)}
        db.execute(add.format(table=_name(table), **parts))
    for privilege, grantee in db.execute(_SQL["table_grants"], {"table": plain}).fetchall():
        grant = "GRANT {privilege} ON {table} TO {grantee}"
        role = sql.Identifier(grantee) if grantee else sql.SQL("PUBLIC")
        _execute(db, grant, privilege=sql.SQL(privilege), table=_name(table), grantee=role)
    _create_like(db, table, _DEFAULT)
    default = _name(f"{table}_{_DEFAULT}")
    attach = "ALTER TABLE {table} ATTACH PARTITION {default} DEFAULT"
    _execute(db, attach, table=_name(table), default=default)


def add_partitions(db: Connection, width: int = PARTITION_STRANDS) -> int:
    """Add the partitions that strands need soon, and return their number.

    Partitions reach one width beyond the last strand.  Strands whose rows are in the default
    partition already stay there: Postgres would refuse a partition for their ids.
    """
    added = 0
    layout = _read_layout(db)
    for table, ranges in layout.ranges.items():
        low = _end(ranges)
        if low <= layout.last and _first_in_default(db, table) is not None:
            low = (layout.last // width + 1) * width
        while low <= layout.last + width:
            _create_like(db, table, str(low))
            _attach(db, table, f"{table}_{low}", _Range(low, low + width))
            low += width
            added += 1
    return added


def empty_default(db: Connection, table: str, width: int = PARTITION_STRANDS) -> int:
    """Move the rows of the default partition to new partitions, and return the number of these.

    The caller holds the table and commits.
    """
    made = 0
    while (first := _first_in_default(db, table)) is not None:
        layout = _read_layout(db)
        ranges = layout.ranges[table]
        low = max(part.high for part in ranges if part.high <= first)
        end = (max(first, layout.last) // width + 1) * width
        high = min((part.low for part in ranges if part.low > first), default=end)
        _create_like(db, table, str(low))
        move = (
            "WITH moved AS (DELETE FROM {default} WHERE strand < {high} RETURNING *)"
            " INSERT INTO {target} SELECT * FROM moved"
        )
        default, target = _name(f"{table}_{_DEFAULT}"), _name(f"{table}_{low}")
        _execute(db, move, default=default, target=target, high=sql.Literal(high))
        _attach(db, table, f"{table}_{low}", _Range(low, high))
        made += 1
    return made


def count_table_rows(db: Connection, table: str) -> int:
    """Return the number of rows of a table, of all its partitions if it has some."""
    counts = _execute(db, "SELECT count(*) FROM {table}", table=_name(table)).fetchall()
    return int(counts[0][0])


def _create_like(db: Connection, table: str, suffix: str) -> None:
    # Not CREATE TABLE PARTITION OF, which would make readers and writers of the table wait.
    create = "CREATE TABLE {new} (LIKE {table} INCLUDING ALL) WITH ({storage})"
    new = _name(f"{table}_{suffix}")
    _execute(db, create, new=new, table=_name(table), storage=_STORAGE)


def _attach(db: Connection, table: str, partition: str, part: _Range) -> None:
    attach = "ALTER TABLE {table} ATTACH PARTITION {new} FOR VALUES FROM ({low}) TO ({high})"
    low, high = sql.Literal(part.low), sql.Literal(part.high)
    _execute(db, attach, table=_name(table), new=_name(partition), low=low, high=high)


def _read_layout(db: Connection) -> _Layout:
    rows = db.execute(_SQL["partitions"]).fetchall()
    ranges: dict[str, list[_Range]] = {}
    for _, table, bound in rows:
        if table is not None:
            low, high = map(int, re.findall(r"\d+", bound)[:2])
            ranges.setdefault(table, []).append(_Range(low, high))
    return _Layout(rows[0][0], ranges)


def _end(ranges: list[_Range]) -> int:
    """Return the first strand id beyond all ranges."""
    return max(part.high for part in ranges)


def _first_in_default(db: Connection, table: str) -> int | None:
    default = _name(f"{table}_{_DEFAULT}")
    # Without an index that begins with the strand; but the partition is empty, or becomes so.
    lowest = _execute(db, "SELECT min(strand) FROM {default}", default=default).fetchall()
    return None if lowest[0][0] is None else int(lowest[0][0])


def _execute(db: Connection, text: str, **parts: sql.Composable) -> psycopg.Cursor[TupleRow]:
    return db.execute(sql.SQL(text).format(**parts))


def _name(table: str) -> sql.Identifier:
    return sql.Identifier(_SCHEMA, table)
