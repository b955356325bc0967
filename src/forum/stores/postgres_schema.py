"""The schema of a Postgres database: its version, its migrations, and its partitions."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import psycopg

from forum import errors
from forum.ledger import ports
from forum.stores import postgres_partitions, postgres_upgrade, sql_migrations
from forum.stores.catalogue import (
    Catalogue,
    collect_objects,
    compare_catalogue,
    describe_unknown_state,
    load_postgres_forms,
)
from forum.stores.postgres_connections import Connection, translate_errors
from forum.stores.postgres_sessions import (
    QUERIES,
    Purpose,
    check_database_url,
    connect,
    fetch_rows,
)
from forum.stores.postgres_tenants import (
    grant_to_tenants,
    list_unseparated,
    separate_log,
    separate_logs,
)

_PARTITION_MIGRATION = 14
"""Databases that are created with this migration have partitioned tables from the beginning."""


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


def _create_schema(db: Connection, migrations: Sequence[sql_migrations.Migration]) -> None:
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
            db.execute(QUERIES["set_timeout"], values)
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
    tables = ", ".join(f"forum.{table}" for table in postgres_partitions.PARTITIONED_TABLES)
    db.execute(f"LOCK TABLE forum.strand, {tables} IN ACCESS EXCLUSIVE MODE".encode())
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
        fetch_rows(db, query, {})[0][0] for query in ("other_sessions", "live_workers")
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
) -> tuple[int, list[sql_migrations.Migration]]:
    """Return the version of a schema, and the migrations that it lacks."""

    def column(query: str, has_table: str) -> list[Any]:
        there = fetch_rows(db, has_table, {})[0][0]
        return [row[0] for row in fetch_rows(db, query, {})] if there else []

    numbers = column("migrations", "has_schema")
    version = max(numbers, default=0)
    applied = {*numbers, *column("additions", "has_additions")}
    return version, sql_migrations.missing_migrations("postgres", version, applied, post=post)


def check_catalogue(db: Connection) -> ports.CatalogueCheck:
    """Compare the catalogue of a database with what the migrations of this release make."""
    try:
        with db.transaction():  # a refusal undoes nothing of what is read before
            _, missing = _missing_migrations(db)
            has_additions = fetch_rows(db, "has_additions", {})[0][0]
            applied = [row[0] for row in fetch_rows(db, "additions", {})] if has_additions else []
            migrations = sql_migrations.load_migrations("postgres")
            unknown = describe_unknown_state(migrations, applied, missing=bool(missing))
            if unknown:
                return ports.CatalogueCheck(not_checked=unknown)
            return compare_catalogue(read_catalogue(db), load_postgres_forms())
    except psycopg.errors.InsufficientPrivilege as error:
        why = str(error).partition("\n")[0]
        return ports.CatalogueCheck(not_checked=f"this user may not read it: {why}")


def read_catalogue(db: Connection) -> Catalogue:
    """Return what the schema of a database consists of."""
    rows = fetch_rows(db, "catalogue", {})
    return collect_objects((name, " ".join(line.split())) for name, line in rows)


def _record_migration(db: Connection, migration: sql_migrations.Migration) -> None:
    # The previous release refuses to start if forum.migration has a number that it does not know.
    # So migrations that it can work with are recorded in a table that it does not read.
    if migration.number > sql_migrations.BASE_SCHEMA_VERSION and migration.is_additive:
        db.execute(QUERIES["make_additions"])
        db.execute(QUERIES["add_addition"], (migration.number,))
    else:
        db.execute(QUERIES["add_migration"], (migration.number,))
