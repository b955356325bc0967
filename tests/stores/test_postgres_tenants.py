"""A role for each tenant: in every table it sees and changes the rows of its own log alone."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import psycopg
import pytest
from psycopg import sql

from forum.errors import StoreFailed
from forum.ledger.body import text_content
from forum.ledger.ports import CatalogueCheck
from forum.ledger.sequencer import Sequencer
from forum.stores import postgres_schema, sql_migrations
from forum.stores.postgres import PostgresStore
from forum.stores.postgres_schema import upgrade_schema
from forum.stores.postgres_sessions import Purpose, connect
from forum.stores.postgres_tenants import is_same_database, make_tenant_role
from forum.stores.sql_migrations import load_queries
from tests.soak.cluster import scratch_database
from tests.stores.statements import Plan, postgres_plan
from tests.support import Chain

pytestmark = pytest.mark.postgres

RED, BLUE = "test.example/red", "test.example/blue"
TABLES = """
    SELECT c.oid, relname::text, relispartition FROM pg_class AS c
    WHERE relnamespace = 'forum'::regnamespace AND relkind IN ('r', 'p')
    AND (relname = 'log' OR EXISTS (
        SELECT FROM pg_attribute WHERE attrelid = c.oid AND attname = 'log' AND NOT attisdropped
    )) ORDER BY relname
"""
COLUMNS = """
    SELECT attname::text, format_type(atttypid, NULL) FROM pg_attribute
    WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND attidentity = ''
"""
VALUES = {"state": "copying", "text": "x", "name": "x", "bytea": b"", "bigint[]": [7]}


class Tenants(NamedTuple):
    """A database with two logs, and the addresses of their roles."""

    url: str
    red: str
    blue: str
    numbers: dict[str, int]


def write(url: str, origin: str, run: str = "run") -> None:
    """Append an entry with a body, and give it an index."""
    store = PostgresStore(url, origin)
    store.append([Chain(origin, run).next(text=text_content("words"))])
    Sequencer(store).drain()
    store.close()


def make_tenants(url: str) -> Tenants:
    """Write two logs as the operator, and make their roles."""
    for origin in (RED, BLUE):
        write(url, origin)
    red, blue = (make_tenant_role(url, origin) for origin in (RED, BLUE))
    assert (red.statements, blue.statements) == ("", "")
    with connect(url, Purpose.LONG) as db:
        rows = db.execute("SELECT origin, id FROM forum.log").fetchall()
        numbers = {str(origin): int(log) for origin, log in rows}
    return Tenants(url, red.url, blue.url, numbers)


NUMBERED = """
SELECT relname::text, attname::text, relispartition
FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
WHERE relnamespace = to_regnamespace('forum') AND relkind IN ('r', 'p') AND attidentity <> ''
"""


@pytest.fixture(scope="module")
def tenants(postgres_url: str) -> Iterator[Tenants]:
    """Return two tenants of a database that was just created."""
    with scratch_database(postgres_url) as url:
        upgrade_schema(url)
        made = make_tenants(url)
        yield made


def insert(db: psycopg.Connection, oid: int, table: str, log: int) -> None:
    """Insert a row of a log into any table."""
    columns = db.execute(COLUMNS, (oid,)).fetchall()
    row = {
        name: log if name == "log" else VALUES.get(name, VALUES.get(kind, 7))
        for name, kind in columns
    }
    names, marks = map(sql.Identifier, row), map(sql.Placeholder, row)
    statement = sql.SQL("INSERT INTO {} ({}) VALUES ({}) ON CONFLICT DO NOTHING")
    join = sql.SQL(", ").join
    db.execute(statement.format(sql.Identifier("forum", table), join(names), join(marks)), row)


def test_a_tenant_meets_no_row_of_another_in_any_table(tenants: Tenants) -> None:
    """The tables are read from the catalogue: one that is added later is tried, too."""
    blue = tenants.numbers[BLUE]
    leaks, written = [], []
    with connect(tenants.url, Purpose.LONG) as owner:
        tables = owner.execute(TABLES).fetchall()
        for oid, table, is_partition in tables:
            if table != "log" and not is_partition:
                insert(owner, oid, table, blue)
        owner.commit()
    for oid, table, _ in tables:
        key = "id" if table == "log" else "log"
        name, column = sql.Identifier("forum", table), sql.Identifier(key)
        for verb, text in (
            ("read", "SELECT FROM {} WHERE {} = %s"),
            ("change", "UPDATE {} SET {} = %s WHERE {} = %s" if key == "log" else ""),
            ("delete", "DELETE FROM {} WHERE {} = %s"),
        ):
            with connect(tenants.red, Purpose.LONG) as db:
                statement = sql.SQL(text).format(name, column, column)
                values = [blue] * text.count("%s")
                try:
                    if text and db.execute(statement, values).rowcount:
                        leaks.append((table, verb))
                except psycopg.errors.InsufficientPrivilege:
                    db.rollback()
        with connect(tenants.red, Purpose.LONG) as db:
            try:
                insert(db, oid, table, blue)
                written.append(table)
            except psycopg.errors.InsufficientPrivilege:
                db.rollback()

    assert len(tables) > 20
    assert (leaks, written) == ([], [])


def test_a_tenant_gives_no_row_a_number_and_no_log_a_name(tenants: Tenants) -> None:
    """Who takes the next number stops all others; a name may be that of another's next epoch."""
    with connect(tenants.url, Purpose.LONG) as owner:
        numbered = owner.execute(NUMBERED).fetchall()
    taken = []
    for table, column, partition in numbered:
        name, number = sql.Identifier("forum", table), sql.Identifier(column)
        for text in (
            "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE VALUES (9)",
            "UPDATE {} SET {} = DEFAULT",
        ):
            with connect(tenants.red, Purpose.LONG) as db:
                try:
                    db.execute(sql.SQL(text).format(name, number))
                    taken.append((table, column, partition))
                except psycopg.errors.InsufficientPrivilege:
                    db.rollback()
    with (
        connect(tenants.red, Purpose.LONG) as db,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        db.execute("UPDATE forum.log SET origin = %s", (f"{BLUE}/epoch-2",))

    assert len(numbered) >= 4
    assert taken == []


def test_a_tenant_works_in_its_own_log(tenants: Tenants) -> None:
    """It opens, appends, sequences, reads and compares the catalogue, as any process does."""
    write(tenants.red, RED, "again")
    store = PostgresStore(tenants.red, RED)
    with store.snapshot() as reader:
        found = reader.runs("", 10), reader.count_entries(), reader.check_catalogue()
    store.beat("worker", 10.0, 1.0)
    store.clean_up(1.0, 10)
    store.close()

    assert found == (["again", "run"], 2, CatalogueCheck())
    with pytest.raises(StoreFailed):
        PostgresStore(tenants.red, BLUE)
    with pytest.raises(StoreFailed):
        PostgresStore(tenants.red, "test.example/new")


def test_a_role_that_is_no_tenant_sees_what_it_was_granted(tenants: Tenants) -> None:
    """Processes of the previous release may run as such a role, and must go on."""
    with connect(tenants.url, Purpose.LONG) as db:
        db.execute("CREATE ROLE forum_test_app; GRANT USAGE ON SCHEMA forum TO forum_test_app")
        db.execute("GRANT SELECT ON ALL TABLES IN SCHEMA forum TO forum_test_app")
        db.execute("SET LOCAL ROLE forum_test_app")
        logs = db.execute("SELECT DISTINCT log FROM forum.strand").fetchall()
        db.rollback()

    assert {log for (log,) in logs} == set(tenants.numbers.values())


@pytest.mark.parametrize("partitioned", [0, 14])
def test_an_upgrade_separates_the_logs_that_were_there(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, partitioned: int
) -> None:
    """Tables of the previous release, with and without partitions, also if these come later."""
    migrations = sql_migrations.load_migrations("postgres")
    with scratch_database(postgres_url) as url:
        with monkeypatch.context() as old:
            old.setattr(postgres_schema, "_PARTITION_MIGRATION", partitioned)
            old.setattr(postgres_schema, "separate_logs", lambda _: None)
            old.setattr(sql_migrations, "load_migrations", lambda _: [
                migration for migration in migrations if migration.number != 15
            ])  # fmt: skip
            upgrade_schema(url)
            write(url, BLUE, "before")
        upgrade_schema(url)
        made = make_tenants(url)
        if not partitioned:
            postgres_schema.partition_database(url)
        store = PostgresStore(made.red, RED)
        check, runs = store.check_catalogue(), store.runs("", 10)
        store.close()
        with connect(made.red, Purpose.LONG) as db:
            seen = db.execute("SELECT DISTINCT log FROM forum.entry").fetchall()

    assert (check, runs) == (CatalogueCheck(), ["run"])
    assert seen == [(made.numbers[RED],)]


def test_a_second_role_for_a_log_is_only_another_password(tenants: Tenants) -> None:
    """What somebody has copied is worth nothing after that, and the role stays."""
    again = make_tenant_role(tenants.url, RED)

    assert again.url.partition(":")[2].partition("@")[0] != tenants.red.partition("@")[0]
    assert psycopg.conninfo.conninfo_to_dict(again.url)["user"] == again.name
    assert is_same_database(again.url, tenants.url)
    assert not is_same_database(again.url, tenants.url.replace("127.0.0.1", "127.0.0.2"))


def test_who_may_not_make_roles_is_told_the_statements(tenants: Tenants) -> None:
    """They are for an administrator; and until they are carried out, nothing has changed."""
    with connect(tenants.url, Purpose.LONG, autocommit=True) as db:
        db.execute("CREATE ROLE forum_test_plain LOGIN; GRANT USAGE ON SCHEMA forum TO PUBLIC")
        db.execute("GRANT SELECT ON ALL TABLES IN SCHEMA forum TO forum_test_plain")
        user = psycopg.conninfo.make_conninfo(tenants.url, user="forum_test_plain")
        write(tenants.url, "test.example/green")
        try:
            tenant_role = make_tenant_role(user, "test.example/green")
            before = db.execute(
                "SELECT FROM pg_roles WHERE rolname = %s", (tenant_role.name,)
            ).fetchall()
            db.execute(tenant_role.statements.encode())
            write(tenant_role.url, "test.example/green", "later")
        finally:
            db.execute("DROP OWNED BY forum_test_plain; DROP ROLE forum_test_plain")

    assert before == []


def test_statements_of_a_tenant_are_carried_out_as_those_of_the_operator(tenants: Tenants) -> None:
    """A policy that kept a condition from an index would make each look-up read a whole table."""
    log = tenants.numbers[RED]
    strands = {"strands": [1], "ns": [0], "low": 0, "high": 9, "size": 8}
    values: dict[str, dict[str, object]] = {
        "entries": {"log": log, "start": 0, "stop": 9},
        "entries_at": {"log": log, **strands},
        "strand": {"log": log, "run": "run", "name": "main"},
        "runs": {"log": log, "run": "", "limit": 9},
        "runs_before": {"log": log, "run": "run", "limit": 9},
        "last_runs": {"log": log, "run": None, "limit": 9},
        "find": {"log": log, "low": 0, "high": 9},
        "checkpoint": {"log": log, "size": 9},
    }
    queries = load_queries("postgres")
    with connect(tenants.url, Purpose.LONG) as owner, connect(tenants.red, Purpose.LONG) as red:
        plans = {
            name: [index_conditions(postgres_plan(db, queries[name], each)) for db in (owner, red)]
            for name, each in values.items()
        }

    assert all(own for own, _ in plans.values())
    assert {name: own for name, (own, _) in plans.items()} == {
        name: tenants for name, (_, tenants) in plans.items()
    }


def index_conditions(plan: Plan) -> set[str]:
    """Return what is looked up in indexes, but for the log of the role."""
    conditions = {re.sub(r"\$\d+", "$", line.partition(" (")[2]) for line in plan.lines}
    return conditions - {"(role = CURRENT_USER))"}
