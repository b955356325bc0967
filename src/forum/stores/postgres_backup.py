"""Backup of the logs of one project from a Postgres database, and restore into another.

Rows are copied with COPY in one REPEATABLE READ snapshot, so the copy is consistent while writers
work.  It contains only the rows of this project's logs, because a database may serve many projects,
and it needs no `pg_dump` of a version that matches the server.  The ids of logs and strands are
local to a database: a restore assigns new ids, and rewrites all columns that refer to them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

from forum.errors import BackupRejected, NoSuchLog
from forum.ledger.ports import Reader
from forum.stores import postgres_partitions, postgres_reader, sql_migrations
from forum.stores.postgres_connections import Connection, translate_errors
from forum.stores.postgres_sessions import QUERIES, Purpose, check_database_url, connect

_SCHEMA = "forum"
_ID_TABLES = ("log", "strand")
"""Tables whose ids other tables refer to, in the order of their restore."""
_CHUNK_BYTES = 1 << 20

SINCE = "since"
"""The file with the oldest transaction that a copy does not have."""
_OLDEST_TRANSACTION = (
    "COPY (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint % 4294967296) TO STDOUT"
)

Columns = Mapping[str, Sequence[str]]
"""The columns of each copied table, in the order of the fields in the copied rows."""


@contextmanager
def copy_rows(
    url: str, base: str, origin: str, folder: Path, *, moves: bool = False
) -> Iterator[tuple[Reader, dict[str, list[str]]]]:
    """Copy the rows of a log and its epochs into one file per table.

    Yields a reader of the log in the snapshot that was copied, and the columns of each table.
    With `moves`, leaves out what is not moved with a log.
    """
    check_database_url(url)
    with translate_errors("backing up"), connect(url, Purpose.LONG) as db:
        db.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        db.read_only = True
        logs, columns = find_logs(db, base), list_columns(db)
        if moves:
            save_rows(db, sql.SQL(_OLDEST_TRANSACTION), folder / SINCE)
            columns = {t: names for t, names in columns.items() if t not in MOVE_TABLES}
        query = "COPY (SELECT {names} FROM {table} WHERE {key} = ANY({logs})) TO STDOUT"
        for table, names in columns.items():
            key = sql.Identifier("id" if table == "log" else "log")
            parts = {"names": join_names(names), "table": qualify(table), "key": key}
            rows = sql.SQL(query).format(logs=sql.Literal(list(logs.values())), **parts)
            save_rows(db, rows, folder / f"{table}.copy")
        if origin not in logs:
            raise NoSuchLog(origin)
        yield postgres_reader.PostgresReader(db, origin, logs[origin]), columns


def save_rows(db: Connection, rows: sql.SQL | sql.Composed, path: Path) -> None:
    """Write what a COPY statement gives into a new file."""
    path.touch(mode=0o600, exist_ok=False)  # bodies are confidential
    with path.open("wb") as file, db.cursor().copy(rows) as copy:
        for piece in copy:
            file.write(piece)


@contextmanager
def restore_rows(
    url: str,
    origin: str,
    folder: Path,
    columns: Columns,
    finish: Callable[[Connection], None] = lambda _: None,
) -> Iterator[Reader]:
    """Restore copied rows into a database, and yield a reader of the log before the commit.

    If the block raises, the database stays unchanged; `finish` does the last before the commit.
    Raises `BackupRejected` if the database has
    one of the logs already, or lacks a column.
    """
    check_database_url(url)
    with translate_errors("restoring"), connect(url, Purpose.LONG) as db:
        _check_columns(db, columns)
        for table in columns:
            load_rows(db, table, columns[table], folder / f"{table}.copy")
        _check_absent(db)
        check_sharing(db)
        restore_logs(db, columns["log"])
        restore_strands(db, columns["strand"])
        postgres_partitions.add_partitions(db)
        for table in columns:
            if table not in _ID_TABLES:
                insert_rows(db, table, columns[table])
        row = db.execute("SELECT id FROM forum.log WHERE origin = %s", (origin,)).fetchone()
        if row is None:
            raise BackupRejected(f"it does not hold the log {origin} that it names")
        yield postgres_reader.PostgresReader(db, origin, row[0])
        finish(db)


def find_logs(db: Connection, base: str) -> dict[str, int]:
    """Return the ids of a log and its epochs, keyed by origin."""
    rows = db.execute(
        "SELECT origin, id FROM forum.log"
        " WHERE origin = %(base)s OR starts_with(origin, %(epochs)s)",
        {"base": base, "epochs": f"{base}/epoch-"},
    )
    return dict(rows.fetchall())


MOVE_TABLES = frozenset({"move", "tenant"})
"""Tables that say something of a log in one database, and are not moved with it."""


def list_columns(db: Connection) -> dict[str, list[str]]:
    """Return the columns of every table with rows of logs, read from the database's catalog.

    So tables that later releases add are included.  The rows of partitions are those of their
    table, and a restore distributes them anew: their strands get new ids.
    """
    rows = db.execute(
        "SELECT table_name, column_name FROM information_schema.columns JOIN pg_class"
        " ON relname = table_name AND relnamespace = table_schema::regnamespace"
        " WHERE table_schema = %s AND NOT relispartition ORDER BY table_name, ordinal_position",
        (_SCHEMA,),
    )
    columns: dict[str, list[str]] = {}
    for table, column in rows:
        columns.setdefault(table, []).append(column)
    return {t: names for t, names in columns.items() if t == "log" or "log" in names}


def _check_columns(db: Connection, columns: Columns) -> None:
    here = list_columns(db)
    for table, names in columns.items():
        missing = set(names) - set(here.get(table, []))
        if missing:
            what = f"{table}.{min(missing)}"
            raise BackupRejected(f"this database has no {what}: upgrade it with forum db upgrade")


def load_rows(db: Connection, table: str, names: Sequence[str], path: Path) -> None:
    """Load copied rows into a temporary table, where they can be joined with the new ids."""
    create = "CREATE TEMP TABLE {copied} ON COMMIT DROP AS SELECT {names} FROM {table} WHERE false"
    parts = {"copied": staging_table(table), "names": join_names(names), "table": qualify(table)}
    db.execute(sql.SQL(create).format(**parts))
    rows = sql.SQL("COPY {copied} FROM STDIN").format(copied=staging_table(table))
    with path.open("rb") as file, db.cursor().copy(rows) as copy:
        while piece := file.read(_CHUNK_BYTES):
            copy.write(piece)


def check_sharing(db: Connection) -> None:
    """Raise `BackupRejected` if staged bodies share bytes, and older releases may still work here.

    Such a process could not read them, and would take them for altered ones.
    """
    names = db.execute("SELECT to_regclass('copied_span_list') IS NOT NULL").fetchone()
    if names is None or not names[0]:
        return  # a backup of a release in which no bodies share bytes
    row = db.execute("SELECT EXISTS (SELECT FROM copied_span_list)").fetchone()
    number = {"number": sql_migrations.SHARING_MIGRATION["postgres"]}
    ready = db.execute(QUERIES["writes_shared_bodies"], number).fetchone()
    if row and row[0] and not (ready and ready[0]):
        raise BackupRejected(
            "releases up to 0.2 may still work with this database, and cannot read its bodies: end "
            "their processes, then: forum db upgrade --post"
        )


def _check_absent(db: Connection) -> None:
    there = db.execute("SELECT origin FROM forum.log JOIN copied_log USING (origin)").fetchone()
    if there is not None:
        why = (
            f"the database holds the log {there[0]} already, and nothing is written over it. "
            "Restore into another database; or, if only the project folder was lost, copy the "
            "keys from data/ of the backup back into .forum/"
        )
        raise BackupRejected(why)


def restore_logs(db: Connection, names: Sequence[str]) -> None:
    """Insert the staged logs, and map their old ids to the new ones."""
    own = [name for name in names if name != "id"]
    insert = "INSERT INTO forum.log ({own}) SELECT {own} FROM copied_log ORDER BY id"
    db.execute(sql.SQL(insert).format(own=join_names(own)))
    db.execute(
        "CREATE TEMP TABLE new_log ON COMMIT DROP AS"
        " SELECT c.id AS old, l.id AS new FROM copied_log c JOIN forum.log l USING (origin)"
    )


def restore_strands(db: Connection, names: Sequence[str]) -> None:
    """Insert the staged strands that are new, and map their old ids to the new ones."""
    own = [name for name in names if name not in ("id", "log")]
    insert = (
        "INSERT INTO forum.strand (log, {own}) SELECT m.new, {own}"
        " FROM copied_strand c JOIN new_log m ON m.old = c.log ORDER BY c.id"
        " ON CONFLICT (log, run, name) DO NOTHING"
    )
    db.execute(sql.SQL(insert).format(own=join_names(own)))
    db.execute(
        "CREATE TEMP TABLE new_strand ON COMMIT DROP AS SELECT c.id AS old, s.id AS new"
        " FROM copied_strand c JOIN new_log m ON m.old = c.log"
        " JOIN forum.strand s ON s.log = m.new AND s.run = c.run AND s.name = c.name"
    )
    db.execute("CREATE UNIQUE INDEX ON new_strand (old)")
    db.execute("ANALYZE new_strand")


def insert_rows(
    db: Connection, table: str, names: Sequence[str], *, skip_known: bool = False
) -> None:
    """Insert the staged rows of a table with the new ids; leave out known ones if told to."""
    rows = db.execute(
        "SELECT column_name, data_type, is_identity FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = %s",
        (_SCHEMA, table),
    ).fetchall()
    types = {name: data_type for name, data_type, _ in rows}
    generated = {name for name, _, is_identity in rows if is_identity == "YES"}
    own = [name for name in names if name not in generated]
    # Generated numbers express an order, for example that of commits that wait for an index.
    # Insert in the old order, so that the new numbers express the same order.
    columns_of_order = join_names([name for name in names if name in generated] or ["log"])
    insert = "INSERT INTO {table} ({own}) SELECT {values} FROM {copied} c ORDER BY {order}"
    insert += " ON CONFLICT DO NOTHING" if skip_known else ""
    values = sql.SQL(", ").join(_value(name, types[name]) for name in own)
    parts = {"table": qualify(table), "own": join_names(own), "copied": staging_table(table)}
    db.execute(sql.SQL(insert).format(values=values, order=columns_of_order, **parts))


def _value(column: str, data_type: str) -> sql.Composable:
    """Return the SQL expression for a restored column; ids of logs and strands are mapped."""
    if column == "log":
        return sql.SQL("(SELECT new FROM new_log WHERE old = c.log)")
    if (column, data_type) == ("strand", "bigint"):
        return sql.SQL("(SELECT new FROM new_strand WHERE old = c.strand)")
    if (column, data_type) == ("strands", "ARRAY"):
        return sql.SQL(
            "(SELECT array_agg(m.new ORDER BY u.place) FROM unnest(c.strands)"
            " WITH ORDINALITY AS u (old, place) JOIN new_strand m ON m.old = u.old)"
        )
    return sql.SQL("c.{}").format(sql.Identifier(column))


def qualify(table: str) -> sql.Identifier:
    """Return the name of a table with its schema."""
    return sql.Identifier(_SCHEMA, table)


def staging_table(table: str) -> sql.Identifier:
    """Return the temporary table into which the rows of a table are loaded."""
    return sql.Identifier(f"copied_{table}")


def join_names(names: Sequence[str]) -> sql.Composed:
    """Return a list of columns."""
    return sql.SQL(", ").join(map(sql.Identifier, names))
