"""The schema of a ledger file: its version, its migrations, and what it consists of."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from forum.stores import sql_migrations
from forum.stores.catalogue import Catalogue, collect_objects
from forum.stores.sqlite_errors import translate_errors

QUERIES = sql_migrations.load_queries("sqlite")


FIRST_WITHOUT_VIEW = 8
"""The number of the first migration after those that `OLD_SCHEMA_VIEWS` replaces."""


OLD_SCHEMA_VIEWS = """
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


SUMMARIES_MIGRATION = 11


NO_SUMMARIES_VIEW = """
CREATE TEMP VIEW run_summary AS
SELECT 0 AS log, '' AS run, 0 AS version, 0 AS ended, x'' AS data, x'' AS tag WHERE 0;
"""
"""The same for a file of a release that keeps no summaries of runs."""


PIECES_MIGRATION = 14


NO_PIECES_VIEW = """
CREATE TEMP VIEW body AS SELECT *, NULL AS list FROM main.body;
CREATE TEMP VIEW piece AS SELECT 0 AS strand, 0 AS number, 0 AS start, x'' AS data WHERE 0;
CREATE TEMP VIEW span_list AS
SELECT 0 AS strand, 0 AS number, 0 AS base, 0 AS kept, x'' AS spans WHERE 0;
"""
"""The same for a file of a release in which no bodies share bytes."""


def add_views(connection: sqlite3.Connection) -> None:
    """Show a read-only reader of an older file the tables that it lacks, as empty ones."""
    # A migration that only adds an index leaves nothing for the reader to miss; with the views, it
    # would miss what the tables hold.
    missing = {migration.number for migration in list_missing(connection)}
    if any(number < FIRST_WITHOUT_VIEW for number in missing):
        connection.executescript(OLD_SCHEMA_VIEWS)
    if SUMMARIES_MIGRATION in missing:
        connection.executescript(NO_SUMMARIES_VIEW)
    if PIECES_MIGRATION in missing:
        connection.executescript(NO_PIECES_VIEW)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Hold the lock of writers: commit at the end of the block, roll back if the block raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A failed COMMIT (for example on a full disk) may or may not have ended the transaction.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def migrate_schema(connection: sqlite3.Connection) -> None:
    """Apply the missing migrations with which older releases keep working."""
    with translate_errors("preparing the schema"):
        if list_missing(connection):
            apply_migrations(connection)


def list_missing(
    connection: sqlite3.Connection, *, post: bool = False
) -> list[sql_migrations.Migration]:
    """Return the missing migrations with which older releases keep working; with `post`, all."""
    version, applied = read_version(connection), read_applied(connection)
    return sql_migrations.missing_migrations("sqlite", version, applied, post=post)


def read_applied(connection: sqlite3.Connection) -> set[int]:
    """Return the numbers of all migrations that were applied, but for those of the first schema."""
    applied = read_additions(connection)
    # Releases up to 0.2 recorded this one by the version alone.
    if read_version(connection) == sql_migrations.TAGS_MIGRATION:
        applied.add(sql_migrations.TAGS_MIGRATION)
    return applied


def read_additions(connection: sqlite3.Connection) -> set[int]:
    """Return the numbers of the additive migrations that were applied."""
    # The previous release refuses a file whose user_version it does not know.  So migrations that
    # it can work with are recorded in a table that it does not read.
    if not connection.execute(QUERIES["has_additions"]).fetchone():
        return set()
    return {row[0] for row in connection.execute(QUERIES["additions"])}


def apply_migrations(connection: sqlite3.Connection, *, post: bool = False) -> None:
    """Apply missing migrations in one transaction; with `post`, also those of no way back."""
    with transaction(connection):
        connection.execute(QUERIES["make_additions"])
        missing = list_missing(connection, post=post)
        recorded = read_additions(connection)
        for migration in missing:
            run_script(connection, migration)
        for number in {*read_applied(connection), *(m.number for m in missing)} - recorded:
            connection.execute(QUERIES["add_addition"], (number,))
        refused = [
            m.number
            for m in missing
            if m.number <= sql_migrations.BASE_SCHEMA_VERSION or not m.is_additive
        ]
        # An older release refuses a version that it does not know.
        if refused:
            version = max(read_version(connection), *refused)
            connection.execute(f"PRAGMA user_version = {version}")


def run_script(connection: sqlite3.Connection, migration: sql_migrations.Migration) -> None:
    """Run the statements of a migration in the transaction of the caller."""
    for statement in migration.sql.split(";\n"):
        connection.execute(statement)


def read_catalogue(connection: sqlite3.Connection) -> Catalogue:
    """Return the objects of a file with the statements that made them.

    Nothing else decides what they are: SQLite reads these statements when it opens a file.
    """
    rows = connection.execute(QUERIES["catalogue"]).fetchall()
    return collect_objects((f"{kind} {name}", " ".join(text.split())) for kind, name, text in rows)


def check_version(connection: sqlite3.Connection) -> None:
    """Raise `SchemaTooNew` if the schema is newer than this release."""
    sql_migrations.missing_migrations("sqlite", read_version(connection))


def read_version(connection: sqlite3.Connection) -> int:
    """Return the version of the schema of a file."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version
