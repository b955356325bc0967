"""The catalogue of a database is compared with the migrations: it cannot answer by query."""

import re
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from forum.ledger.ports import CatalogueCheck
from forum.stores import postgres_schema, sql_migrations, sqlite
from forum.stores.catalogue import load_postgres_forms
from forum.stores.postgres import PostgresStore
from forum.stores.postgres_reader import PostgresReader
from forum.stores.postgres_schema import upgrade_schema
from forum.stores.postgres_sessions import Purpose, connect
from tests.soak.cluster import scratch_database
from tests.stores import postgres_catalogue

ORIGIN = "test.example/catalogue"
HONEST = CatalogueCheck()


class Lie(NamedTuple):
    """Statements of somebody who has the database, and the object that they change."""

    does: str
    statements: str
    object: str


POSTGRES_LIES = [
    Lie("a view for a table",
        "ALTER TABLE forum.strand RENAME TO hidden; CREATE VIEW forum.strand AS SELECT * FROM"
        " forum.hidden WHERE current_query() NOT LIKE '%ORDER BY id DESC%'", "relation strand"),
    Lie("a materialized view for a table",
        "ALTER TABLE forum.run_summary RENAME TO hidden; CREATE MATERIALIZED VIEW"
        " forum.run_summary AS SELECT * FROM forum.hidden", "relation run_summary"),
    Lie("a table of another name", "CREATE TABLE forum.other (log integer)", "relation other"),
    Lie("no table", "DROP TABLE forum.claim", "relation claim"),
    Lie("a rule that swallows", "CREATE RULE r AS ON INSERT TO forum.checkpoint DO INSTEAD NOTHING",
        "relation checkpoint"),
    Lie("a trigger that swallows",
        "CREATE FUNCTION public.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
        " CREATE TRIGGER t BEFORE INSERT ON forum.pending FOR EACH ROW EXECUTE FUNCTION f()",
        "relation pending"),
    Lie("a trigger of all partitions",
        "CREATE FUNCTION public.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
        " CREATE TRIGGER t BEFORE INSERT ON forum.entry FOR EACH ROW EXECUTE FUNCTION f()",
        "partition of entry"),
    Lie("a foreign key that is off", "ALTER TABLE forum.strand DISABLE TRIGGER ALL",
        "relation strand"),
    Lie("a policy that hides rows",
        "ALTER TABLE forum.strand ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;"
        " CREATE POLICY p ON forum.strand USING (run <> 'x')", "relation strand"),
    Lie("a policy for one role only", "CREATE POLICY p ON forum.tile TO postgres USING (true)",
        "relation tile"),
    Lie("a generated column", "ALTER TABLE forum.log ADD COLUMN more bigint GENERATED ALWAYS AS"
        " (size + 1) STORED", "relation log"),
    Lie("a default by a function", "ALTER TABLE forum.quarantine ALTER COLUMN at SET DEFAULT"
        " (extract(epoch FROM now()))::bigint", "relation quarantine"),
    Lie("a column of another type", "ALTER TABLE forum.leaf ALTER COLUMN prefix TYPE numeric",
        "relation leaf"),
    Lie("another collation", "ALTER TABLE forum.strand ALTER COLUMN run TYPE text"
        " COLLATE ucs_basic", "relation strand"),
    Lie("an index without a run", "DROP INDEX forum.strand_main; CREATE INDEX strand_main ON"
        " forum.strand (log, id) WHERE name = 'main' AND run <> 'x'", "relation strand"),
    Lie("an index that is not used", "UPDATE pg_index SET indisvalid = false WHERE indexrelid ="
        " 'forum.strand_main'::regclass", "relation strand"),
    Lie("operators of one's own in an index",
        "CREATE OPERATOR CLASS public.mine FOR TYPE int8 USING btree AS OPERATOR 1 <, OPERATOR 2"
        " <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint8cmp(int8, int8);"
        " DROP INDEX forum.strand_main; CREATE INDEX strand_main ON forum.strand"
        " (log, id public.mine) WHERE name = 'main'", "relation strand"),
    Lie("no fence", "ALTER TABLE forum.entry DROP CONSTRAINT entry_pkey", "relation entry"),
    Lie("rows of another table", "CREATE TABLE public.more () INHERITS (forum.checkpoint)",
        "relation checkpoint"),
    Lie("a partition elsewhere",
        "CREATE SCHEMA evil; CREATE TABLE evil.more PARTITION OF forum.entry"
        " FOR VALUES FROM (900000000) TO (900000001)", "relation entry"),
    Lie("a table that a crash empties", "ALTER TABLE forum.checkpoint SET UNLOGGED",
        "relation checkpoint"),
    Lie("a sequence that leaps",
        "ALTER TABLE forum.pending ALTER COLUMN seq SET CACHE 50", "relation pending_seq_seq"),
    Lie("an owner of one's own", "CREATE ROLE forum_test_owner;"
        " ALTER TABLE forum.head OWNER TO forum_test_owner", "relation head"),
    Lie("a function in the schema", "CREATE FUNCTION forum.f() RETURNS int LANGUAGE sql AS"
        " 'SELECT 1'", "function forum.f()"),
    Lie("a domain in the schema", "CREATE DOMAIN forum.d AS int", "type forum.d"),
    Lie("a better function of the server", "CREATE FUNCTION pg_catalog.unnest(bigint[]) RETURNS"
        " SETOF bigint LANGUAGE sql AS 'SELECT 1::bigint'", "function pg_catalog.unnest(bigint[])"),
    Lie("a better operator of the server",
        "CREATE OPERATOR pg_catalog.=# (LEFTARG = text, RIGHTARG = text, FUNCTION = texteq)",
        "operator =#(text,text)"),
    Lie("a cast of one's own",
        "CREATE FUNCTION public.c(bytea) RETURNS int LANGUAGE sql AS 'SELECT 1';"
        " CREATE CAST (bytea AS int) WITH FUNCTION public.c(bytea) AS IMPLICIT",
        "cast from bytea to integer"),
]  # fmt: skip

SQLITE_LIES = [
    Lie("a view for a table",
        "ALTER TABLE run_summary RENAME TO hidden; CREATE VIEW run_summary AS SELECT * FROM hidden",
        "table run_summary is missing"),
    Lie("a trigger that swallows", "CREATE TRIGGER t BEFORE INSERT ON entry WHEN new.n = 2"
        " BEGIN SELECT RAISE(IGNORE); END", "trigger t is there"),
    Lie("a view that takes rows",
        "ALTER TABLE tile RENAME TO hidden; CREATE VIEW tile AS SELECT * FROM hidden;"
        " CREATE TRIGGER t INSTEAD OF INSERT ON tile BEGIN SELECT 1; END", "trigger t is there"),
    Lie("a trigger that does less", "DROP TRIGGER entry_added; CREATE TRIGGER entry_added AFTER"
        " INSERT ON entry WHEN new.n <> 2 BEGIN INSERT INTO pending SELECT log, new.id FROM strand"
        " WHERE id = new.strand; END", "trigger entry_added has"),
    Lie("an index without a run", "DROP INDEX strand_main; CREATE INDEX strand_main ON strand"
        " (log, id) WHERE name = 'main' AND run <> 'x'", "index strand_main has"),
    Lie("a generated column", "ALTER TABLE log ADD COLUMN more INTEGER AS (size + 1)",
        "table log has"),
    Lie("no index", "DROP INDEX leaf_prefix", "index leaf_prefix is missing"),
    Lie("a table of another name", "CREATE TABLE other (log INTEGER)", "table other is there"),
    Lie("another statement than was executed",
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql,"
        " 'size    INTEGER', 'size INTEGER COLLATE NOCASE') WHERE name = 'log'", "table log has"),
]  # fmt: skip


@pytest.fixture(scope="module")
def database(postgres_url: str) -> Iterator[str]:
    """Return a database with all migrations."""
    with scratch_database(postgres_url) as url:
        upgrade_schema(url, post=True)
        PostgresStore(url, ORIGIN).close()
        yield url


@pytest.mark.postgres
@pytest.mark.parametrize("lie", POSTGRES_LIES, ids=lambda lie: lie.does)
def test_a_lie_of_postgres_is_named(database: str, lie: Lie) -> None:
    """Each of them can answer a list otherwise than it answers a verification."""
    with connect(database, Purpose.LONG) as db:
        db.execute("SET search_path = pg_catalog, public; SET allow_system_table_mods = on")
        db.execute(lie.statements.encode())
        db.execute("SET search_path = pg_catalog, pg_temp")
        check = PostgresReader(db, ORIGIN, 1).check_catalogue()
        db.rollback()

    assert not check.not_checked
    assert any(difference.startswith(f"{lie.object} ") for difference in check.differences), check


@pytest.mark.parametrize("lie", SQLITE_LIES, ids=lambda lie: lie.does)
def test_a_lie_of_sqlite_is_named(tmp_path: Path, lie: Lie) -> None:
    """Each of them can answer a list otherwise than it answers a verification."""
    path = tmp_path / "ledger.db"
    sqlite.SqliteStore(path, ORIGIN).close()
    with sqlite3.connect(path, isolation_level=None) as db:
        db.executescript(lie.statements)
    db.close()

    with sqlite.open_reader(path, ORIGIN) as reader:
        differences = reader.check_catalogue().differences
    assert any(difference.startswith(lie.object) for difference in differences), differences


@pytest.mark.postgres
def test_the_recorded_catalogue_is_that_of_the_migrations(postgres_url: str) -> None:
    """Write it anew after a migration: python -m tests.stores.postgres_catalogue URL."""
    made = postgres_catalogue.generate_catalogue(postgres_url)

    assert postgres_catalogue.PATH.read_bytes() == made


@pytest.mark.postgres
@pytest.mark.parametrize("first_partitioned", [0, 14])
def test_every_way_of_an_upgrade_ends_in_an_expected_catalogue(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, first_partitioned: int
) -> None:
    """Partitions before or after tags are required, and before or after rows: all are honest."""
    with scratch_database(postgres_url) as url:
        with monkeypatch.context() as old:
            old.setattr(postgres_schema, "_PARTITION_MIGRATION", first_partitioned)
            upgrade_schema(url)
        checks = [check_store(url)]
        postgres_schema.partition_database(url, 4)
        checks.append(check_store(url))
        upgrade_schema(url, post=True)
        checks.append(check_store(url))
        with connect(url, Purpose.LONG) as db:
            db.execute("SELECT setval('forum.strand_id_seq', 100)")
            postgres_schema.add_partitions(db, 20)
        checks.append(check_store(url))

    assert checks == [HONEST] * 4


def check_store(url: str) -> CatalogueCheck:
    """Return what a store says of its catalogue."""
    store = PostgresStore(url, ORIGIN)
    try:
        return store.check_catalogue()
    finally:
        store.close()


def test_every_state_of_a_ledger_file_is_expected(tmp_path: Path) -> None:
    """Files of each release before this one, and whether tags are required or not."""
    path, old = tmp_path / "ledger.db", tmp_path / "old.db"
    store = sqlite.SqliteStore(path, ORIGIN)
    checks = [store.check_catalogue()]
    assert store.enforce_tags()
    checks.append(store.check_catalogue())
    store.close()
    with sqlite3.connect(old, isolation_level=None) as db:
        for migration in sql_migrations.load_migrations("sqlite")[
            : sql_migrations.BASE_SCHEMA_VERSION
        ]:
            db.executescript(migration.sql)
            db.execute(f"PRAGMA user_version = {migration.number}")
        db.execute("INSERT INTO log (origin, root) VALUES (?, x'')", (ORIGIN,))
    db.close()
    shutil.copy(old, tmp_path / "newer.db")
    with sqlite.open_reader(old, ORIGIN) as reader:
        checks.append(reader.check_catalogue())
    newer = sqlite.SqliteStore(tmp_path / "newer.db", ORIGIN)
    checks.append(newer.check_catalogue())
    newer.close()

    assert checks == [HONEST] * 4


@pytest.mark.postgres
def test_what_may_not_be_read_is_not_checked(database: str) -> None:
    """A refusal is said, and the transaction goes on with what it reads besides."""
    with connect(database, Purpose.LONG) as db:
        db.execute(
            "CREATE ROLE forum_test_reader; GRANT USAGE ON SCHEMA forum TO forum_test_reader"
        )
        db.execute("GRANT SELECT ON ALL TABLES IN SCHEMA forum TO forum_test_reader")
        db.execute("REVOKE SELECT ON pg_catalog.pg_policy FROM PUBLIC")
        db.execute("SET ROLE forum_test_reader")
        check = PostgresReader(db, ORIGIN, 1).check_catalogue()
        size = PostgresReader(db, ORIGIN, 1).head().size
        db.rollback()

    assert "may not read it" in check.not_checked
    assert (check.differences, size) == ((), 0)


@pytest.mark.postgres
@pytest.mark.parametrize(("statement", "why"), [
    ("INSERT INTO forum.addition VALUES (9999)", "newer release"),
    ("DELETE FROM forum.addition WHERE number = 14", "forum db upgrade"),
])  # fmt: skip
def test_other_migrations_than_those_of_this_release_are_not_compared(
    database: str, statement: str, why: str
) -> None:
    """What another release makes is not known here; to call it honest would be a guess."""
    with connect(database, Purpose.LONG) as db:
        db.execute(statement.encode())
        check = PostgresReader(db, ORIGIN, 1).check_catalogue()
        db.rollback()

    assert why in check.not_checked


def test_every_statement_names_the_schema_of_its_tables() -> None:
    """The search path has no schema of ours, and must not: it would have those of others, too."""
    statements = sql_migrations.load_queries("postgres")
    relations = [name.split() for name in load_postgres_forms()]
    tables = "|".join(name for kind, *_, name in relations if kind == "relation")
    unqualified = re.compile(rf"\b(?:FROM|JOIN|INTO|UPDATE|TABLE)\s+(?:{tables})\b")
    own = re.compile(r"\b(\w+) (?:\([\w, ]+\) )?AS (?:MATERIALIZED )?\(")

    for name, text in statements.items():
        found = {match.split()[-1] for match in unqualified.findall(text)}
        assert found <= set(own.findall(text)), name


@pytest.mark.postgres
def test_no_name_is_found_in_a_schema_of_others(database: str) -> None:
    """With a search path of its own a role would have operators and tables before the server's."""
    evil = (
        "CREATE SCHEMA evil; CREATE FUNCTION evil.never(text, text) RETURNS boolean LANGUAGE sql AS"
        " 'SELECT false'; CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text,"
        " FUNCTION = evil.never); CREATE VIEW evil.pg_policy AS SELECT * FROM pg_catalog.pg_policy"
        " WHERE false"
    )
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    with connect(database, Purpose.LONG, autocommit=True) as db:
        db.execute(evil.encode())
        db.execute(f"ALTER DATABASE {name} SET search_path = evil, pg_catalog".encode())
    try:
        store = PostgresStore(database, ORIGIN)
        check, head = store.check_catalogue(), store.head()
        store.close()
    finally:
        with connect(database, Purpose.LONG, autocommit=True) as db:
            db.execute(
                f"ALTER DATABASE {name} RESET search_path; DROP SCHEMA evil CASCADE".encode()
            )

    assert (check, head.size) == (HONEST, 0)
