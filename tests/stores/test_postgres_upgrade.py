"""Upgrades of a database in use: nobody waits long, and whoever is in the way is named."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic
from typing import Self
from unittest.mock import patch

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from forum.errors import StoreFailed, UpgradeBlocked
from forum.stores import postgres_schema, postgres_upgrade, sql_migrations
from forum.stores.postgres_partitions import PARTITIONED_TABLES
from forum.stores.postgres_schema import partition_database, upgrade_schema
from forum.stores.postgres_sessions import Purpose, connect
from forum.stores.postgres_tenants import separate_logs
from tests.soak.cluster import scratch_database

pytestmark = pytest.mark.postgres

MIGRATIONS = sql_migrations.load_migrations("postgres")
TENANTS = 15
"""The migration that makes tenants: before it, tables have no policies."""
MAX_WAIT_S = 1.0
"""How long a writer may wait: one attempt to lock, and what a busy machine adds."""
PATIENCE_S = 2.0
"""How long an upgrade waits here: a writer that waits behind it all that time waits too long."""
HARMLESS_CHANGES = (
    re.compile(r"ALTER TABLE \S+ ADD COLUMN \w+ \w+( COLLATE \"C\")?$"),
    re.compile(r"ALTER TABLE \S+ ADD CONSTRAINT .* NOT VALID$", re.DOTALL),
    re.compile(r"ALTER TABLE \S+ SET \(.*\)$", re.DOTALL),
    re.compile(r"ALTER TABLE \S+ ENABLE ROW LEVEL SECURITY$"),
)
"""Changes of a table that neither read nor rewrite its rows."""


def older_database(url: str, number: int) -> None:
    """Make a database as it is before a migration, without partitions."""
    before = [migration for migration in MIGRATIONS if migration.number < number]
    with (
        patch.object(sql_migrations, "load_migrations", lambda _: before),
        patch.object(postgres_schema, "_PARTITION_MIGRATION", 0),
        patch.object(
            postgres_schema, "separate_logs", separate_logs if number > TENANTS else lambda _: None
        ),
    ):
        upgrade_schema(url, post=True)


def tables_of(url: str) -> list[str]:
    """Return the tables of the schema."""
    query = "SELECT relname FROM pg_class WHERE relnamespace = 'forum'::regnamespace"
    with psycopg.connect(url) as db:
        rows = db.execute(f"{query} AND relkind IN ('r', 'p') AND NOT relispartition".encode())
        return [row[0] for row in rows.fetchall()]


class Writer:
    """Takes the locks of readers and writers of each table in turn, and measures its waits."""

    def __init__(self, url: str, tables: Sequence[str]) -> None:
        self._url, self._tables = url, tables
        self._stop, self.longest_s = Event(), 0.0
        self.rounds = 0
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object, **__: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as db:
            while not self._stop.is_set():
                for table in self._tables:
                    begun = monotonic()
                    with db.transaction():
                        db.execute(f"SELECT FROM forum.{table} LIMIT 1".encode())
                        db.execute(f"LOCK TABLE forum.{table} IN ROW EXCLUSIVE MODE".encode())
                    self.longest_s = max(self.longest_s, monotonic() - begun)
                self.rounds += 1


@contextmanager
def transaction_in_the_way(url: str, tables: Sequence[str]) -> Iterator[int]:
    """Hold a transaction open that has read and written every table; return its session."""
    with psycopg.connect(make_conninfo(url, application_name="nightly report")) as db:
        db.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        for table in tables:
            db.execute(f"SELECT FROM forum.{table} LIMIT 1".encode())
            db.execute(f"LOCK TABLE forum.{table} IN ROW EXCLUSIVE MODE".encode())
        yield db.info.backend_pid


def attempt_upgrade(url: str) -> str | None:
    """Upgrade a database; return why it could not be, if so."""
    try:
        upgrade_schema(url, post=True)
    except UpgradeBlocked as blocked:
        return str(blocked)
    return None


@pytest.mark.parametrize("number", [migration.number for migration in MIGRATIONS[1:]])
def test_no_migration_makes_readers_or_writers_wait(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Beside an open transaction it is applied, or gives up; afterwards it is applied."""
    monkeypatch.setattr(postgres_upgrade, "_PATIENCE_S", PATIENCE_S)
    monkeypatch.setattr(postgres_upgrade, "_RETRY_DELAY_S", 0.1)
    upto = [migration for migration in MIGRATIONS if migration.number <= number]
    monkeypatch.setattr(sql_migrations, "load_migrations", lambda _: upto)
    if number < TENANTS:
        monkeypatch.setattr(postgres_schema, "list_unseparated", lambda _: [])
        monkeypatch.setattr(postgres_schema, "grant_to_tenants", lambda _: None)
    with scratch_database(postgres_url) as url:
        older_database(url, number)
        tables = tables_of(url)
        with Writer(url, tables) as writer:
            with transaction_in_the_way(url, tables) as session:
                refusal = attempt_upgrade(url)
            after = upgrade_schema(url, post=True)

    assert refusal is None or f"session {session} (nightly report)" in refusal
    assert after in ([number], []) if refusal else after == []
    assert writer.rounds > 0
    assert writer.longest_s < MAX_WAIT_S


def test_every_migration_is_of_a_kind_that_may_run_beside_writers() -> None:
    """Whatever the size of the tables: nothing scans or rewrites a table under a strong lock."""
    partitioned = {f"forum.{table}" for table in PARTITIONED_TABLES}
    for migration in MIGRATIONS[1:]:
        statements = postgres_upgrade.split_statements(migration.sql)
        created = postgres_upgrade.find_new_tables(migration.sql)
        changes = [text for text in statements if text.startswith("ALTER TABLE")]
        changes = [text for text in changes if text.split()[2] not in created]
        indexes = [match for text in statements if (match := postgres_upgrade.match_index(text))]
        beside = [match[2] for match in indexes if match[2] not in created]

        assert [c for c in changes if not any(f.match(c) for f in HARMLESS_CHANGES)] == []
        # A concurrent build is in no transaction: it can be repeated, and what is beside it cannot.
        assert not beside or len(indexes) == len(statements) == len(beside)
        assert not partitioned.intersection(beside)
        # Rows are moved for as long as it takes, so under no lock that others wait for.
        moves = any(text.startswith(postgres_upgrade.DATA_STATEMENTS) for text in statements)
        assert not (moves and changes)


def test_a_statement_that_would_hold_a_table_for_long_is_stopped(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is rolled back, with an error that says which migration it was."""
    monkeypatch.setattr(postgres_upgrade, "_STATEMENT_TIMEOUT", "100ms")
    script = "ALTER TABLE forum.once ADD COLUMN x integer; SELECT pg_sleep(9)"
    slow = sql_migrations.Migration(9998, script, is_additive=True)
    with scratch_database(postgres_url) as url:
        upgrade_schema(url)
        monkeypatch.setattr(sql_migrations, "load_migrations", lambda _: [*MIGRATIONS, slow])
        begun = monotonic()
        with pytest.raises(StoreFailed, match="migration 9998"):
            upgrade_schema(url)
        lasted = monotonic() - begun
        with connect(url, Purpose.LONG) as db:
            columns = "SELECT FROM pg_attribute WHERE attrelid = 'forum.once'::regclass"
            added = db.execute(f"{columns} AND attname = 'x'".encode()).fetchall()

    assert added == []
    assert lasted < MAX_WAIT_S * 3


def test_the_build_of_an_index_that_was_stopped_is_begun_again(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The build waits for an older transaction; what it leaves behind is built anew."""
    monkeypatch.setattr(postgres_upgrade, "_PATIENCE_S", PATIENCE_S)
    validity = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'forum.strand_main'::regclass"
    reports: list[str] = []
    with scratch_database(postgres_url) as url:
        older_database(url, 10)
        tables = tables_of(url)
        with transaction_in_the_way(url, tables) as session:
            with pytest.raises(UpgradeBlocked, match=f"session {session}") as blocked:
                upgrade_schema(url, report=reports.append)
            with connect(url, Purpose.LONG) as db:
                left_behind = db.execute(validity.encode()).fetchall()
        upgrade_schema(url, report=reports.append)
        with connect(url, Purpose.LONG) as db:
            built = db.execute(validity.encode()).fetchall()

    assert "migration 10" in str(blocked.value)
    assert blocked.value.next_step.startswith(
        f"wait until it has ended, or: SELECT pg_terminate_backend({session})"
    )
    assert [left_behind, built] == [[(False,)], [(True,)]]
    assert [line for line in reports if "builds the index strand_main" in line]


def test_one_upgrade_waits_for_another(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other is named, and nothing is done twice."""
    monkeypatch.setattr(postgres_upgrade, "_PATIENCE_S", 0.2)
    with scratch_database(postgres_url) as url:
        with psycopg.connect(make_conninfo(url, application_name="deploy 41")) as db:
            db.execute("SELECT pg_advisory_lock(hashtext('forum.upgrade'))")
            with pytest.raises(UpgradeBlocked, match=r"session \d+ \(deploy 41\) of user"):
                upgrade_schema(url)
        assert upgrade_schema(url)


def test_the_partitioning_of_tables_names_who_keeps_them(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that connected after the command had looked for others."""
    monkeypatch.setattr(postgres_upgrade, "_PATIENCE_S", 0.2)
    monkeypatch.setattr(postgres_schema, "_check_unused", lambda _: None)
    with scratch_database(postgres_url) as url:
        older_database(url, 9999)
        with (
            transaction_in_the_way(url, ["entry"]),
            pytest.raises(UpgradeBlocked, match="nightly report"),
        ):
            partition_database(url)
        assert partition_database(url) == list(PARTITIONED_TABLES)
