"""Partitions of the large tables: made ahead of need, and no reader or writer can tell."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from forum.errors import DatabaseInUse, PositionTaken
from forum.ledger.body import text_content
from forum.stores import postgres_partitions, postgres_schema, postgres_upgrade
from forum.stores.postgres import PostgresStore
from forum.stores.postgres_partitions import PARTITIONED_TABLES
from forum.stores.postgres_schema import partition_database, upgrade_schema
from forum.stores.sql_migrations import load_queries
from tests.soak.cluster import scratch_database
from tests.stores.statements import postgres_plan
from tests.support import Chain, data_of

pytestmark = pytest.mark.postgres

ORIGIN = "test.example/partitions"
WIDTH = 4
"""Strands in a partition here."""
KILLED_STEPS = range(1, 26, 6)

# Prints a line after each statement of the conversion and waits, so that it can be killed there.
PAUSED = """
import sys
from forum.stores import (postgres, postgres_partitions, postgres_schema)
plain = postgres_partitions._execute
def paused(*args, **parts):
    result = plain(*args, **parts)
    print("step", flush=True)
    sys.stdin.readline()
    return result
postgres_partitions._execute = paused
postgres_schema.partition_database(sys.argv[1])
"""


@pytest.fixture
def new_database(postgres_url: str) -> Iterator[str]:
    """Return a database that was just created."""
    with scratch_database(postgres_url) as url:
        upgrade_schema(url)
        yield url


@pytest.fixture
def old_database(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return a database of a release without partitions, brought up to date."""
    with scratch_database(postgres_url) as url:
        with monkeypatch.context() as old:
            old.setattr(postgres_schema, "_PARTITION_MIGRATION", 0)
            upgrade_schema(url)
        yield url


def write(url: str, runs: range, entries: int = 2) -> list[Chain]:
    """Append to a strand of each run, with a body in each entry."""
    chains = [Chain(ORIGIN, f"run-{number}") for number in runs]
    store = PostgresStore(url, ORIGIN)
    for chain in chains:
        store.append([chain.next(text=text_content(chain.run * 1000)) for _ in range(entries)])
    store.close()
    return chains


def read(url: str, chains: list[Chain]) -> list[list[bytes]]:
    """Return the entries of strands, and see that each has its body."""
    store = PostgresStore(url, ORIGIN)
    for chain in chains:
        bodies = store.bodies_at([(record.position, "text") for record in chain.records])
        assert [b"".join(body.read()) if body else b"" for body in bodies] == (
            [chain.run.encode() * 1000] * len(chain.records)
        )
    entries_by_chain = [list(store.read_strand(chain.run, "main")) for chain in chains]
    store.close()
    return entries_by_chain


def query(url: str, text: str) -> Any:  # noqa: ANN401  a column of any type
    """Return the first column of the first row."""
    with psycopg.connect(url, autocommit=True) as db:
        row = db.execute(text.encode()).fetchone()
    assert row is not None
    return row[0]


def partitions_of(url: str) -> list[str]:
    """Return the names of all partitions of entries."""
    return str(
        query(
            url,
            "SELECT string_agg(inhrelid::regclass::text, ' ' ORDER BY inhrelid)"
            " FROM pg_inherits WHERE inhparent = 'forum.entry'::regclass",
        )
        or ""
    ).split()


def test_a_new_database_has_partitions_ahead_of_need(new_database: str) -> None:
    """The one in use, the next one, and the one that catches what has none."""
    assert partitions_of(new_database) == [
        "forum.entry_0",
        "forum.entry_default",
        "forum.entry_10000000",
    ]


def test_the_leader_adds_partitions_before_they_are_needed(
    new_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the clean-up, which only the leader does; and only what is missing."""
    with psycopg.connect(new_database, autocommit=True) as db:
        db.execute("SELECT setval('forum.strand_id_seq', 10000005)")
    store = PostgresStore(new_database, ORIGIN)
    store.clean_up(0, 10)
    first = partitions_of(new_database)
    store.clean_up(0, 10)
    # A reader of the whole table makes the leader give up soon, not every writer wait.
    monkeypatch.setattr(postgres_upgrade, "LOCK_TIMEOUT", "50ms")
    with psycopg.connect(new_database) as reader:
        reader.execute("SELECT count(*) FROM forum.entry")
        reader.execute("SELECT setval('forum.strand_id_seq', 20000005)")
        looked = store.clean_up(0, 10)
        during = partitions_of(new_database)
    store.clean_up(0, 10)
    store.close()

    assert first[-1] == "forum.entry_20000000"
    assert (looked, during) == (0, first)
    assert partitions_of(new_database) == [*first, "forum.entry_30000000"]


def test_a_strand_is_looked_up_in_one_partition(old_database: str) -> None:
    """By the plan that serves for all parameters: the others are not even opened."""
    chains = write(old_database, range(3))
    partition_database(old_database, WIDTH)
    with psycopg.connect(old_database) as db:
        for _ in range(50):
            (last,) = db.execute("SELECT nextval('forum.strand_id_seq')").fetchone() or (0,)
            postgres_partitions.add_partitions(db, WIDTH)
    with psycopg.connect(old_database, autocommit=True) as db:
        statements = load_queries("postgres")
        place = {"log": 1, "strand": last}
        bounds = {"low": last, "high": last, "log": 1}
        parameters: dict[str, dict[str, Any]] = {
            "strand_entries": {**place, "n": 0, "limit": 10},
            "last": place,
            "body_part": {**place, "n": 0, "name": "text", "part": 0},
            "last_entries": {**bounds, "runs": ["run-1"], "names": ["main"]},
        }
        touched = {
            name: [line for line in postgres_plan(db, statements[name], values).lines
                   if "entry_" in line or "body_" in line]
            for name, values in parameters.items()
        }  # fmt: skip

    assert len(partitions_of(old_database)) > 12
    assert {name: len(lines) for name, lines in touched.items()} == dict.fromkeys(parameters, 1)
    assert read(old_database, chains) == [data_of(chain.records) for chain in chains]


def test_rows_without_a_partition_are_kept_and_fenced(old_database: str) -> None:
    """No process that leads for a long time: appends go on, and the command puts it right."""
    chains = write(old_database, range(2))
    partition_database(old_database, WIDTH)
    chains += write(old_database, range(2, 20))
    caught = query(old_database, "SELECT count(*) FROM forum.entry_default")
    # The leader makes room for what comes, and leaves alone what is there.
    with psycopg.connect(old_database) as db:
        postgres_partitions.add_partitions(db, WIDTH)
    chains += write(old_database, range(20, 26))
    beyond = query(old_database, "SELECT min(strand) FROM forum.entry_24")
    before = read(old_database, chains)
    changed = partition_database(old_database, WIDTH)
    store = PostgresStore(old_database, ORIGIN)
    for chain in chains:
        with pytest.raises(PositionTaken):
            store.append(chain.records[:1])
    store.close()

    assert caught > 0
    assert beyond == 24
    assert changed == list(PARTITIONED_TABLES)
    assert query(old_database, "SELECT count(*) FROM forum.entry_default") == 0
    assert before == read(old_database, chains) == [data_of(chain.records) for chain in chains]
    assert partition_database(old_database, WIDTH) == []


def test_an_older_database_is_partitioned_by_the_command(old_database: str) -> None:
    """Its entries of before tags, its rule against them and the rights of others stay."""
    chains = write(old_database, range(3))
    role = "forum_reader_of_partitions"
    with psycopg.connect(old_database, autocommit=True) as db:
        db.execute("UPDATE forum.entry SET tag = NULL")
        db.execute(f"CREATE ROLE {role}".encode())
        db.execute(f"GRANT SELECT ON forum.entry TO {role}".encode())
    upgrade_schema(old_database, post=True)
    try:
        plain = partitions_of(old_database)
        changed = partition_database(old_database)
        may_read = query(
            old_database, f"SELECT has_table_privilege('{role}', 'forum.entry', 'SELECT')"
        )
    finally:
        with psycopg.connect(old_database, autocommit=True) as db:
            db.execute(f"DROP OWNED BY {role}".encode())
            db.execute(f"DROP ROLE {role}".encode())
    insert = "INSERT INTO forum.entry (log, strand, n, bytes) VALUES (1, {}, 99, 'x')"
    for strand in (1, 10_000_000, 10**12):
        with pytest.raises(psycopg.errors.CheckViolation):
            query(old_database, insert.format(strand))

    assert (plain, changed, may_read) == ([], list(PARTITIONED_TABLES), True)
    assert read(old_database, chains) == [data_of(chain.records) for chain in chains]


def test_the_command_refuses_a_database_in_use(old_database: str) -> None:
    """A worker whose connection broke comes back; its lease says so."""
    store = PostgresStore(old_database, ORIGIN)
    with pytest.raises(DatabaseInUse, match="other sessions"):
        partition_database(old_database)
    store.renew_lease("worker", 60)
    store.close()
    with pytest.raises(DatabaseInUse, match="1 workers"):
        partition_database(old_database)

    assert partitions_of(old_database) == []


@pytest.mark.parametrize("steps", KILLED_STEPS)
def test_a_killed_conversion_has_changed_nothing(old_database: str, steps: int) -> None:
    """After any statement: the tables are as before, and the command can be given again."""
    chains = write(old_database, range(3))
    process = subprocess.Popen(
        [sys.executable, "-c", PAUSED, old_database],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout
    assert process.stdin
    for _ in range(steps):
        assert process.stdout.readline() == b"step\n"
        process.stdin.write(b"\n")
        process.stdin.flush()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    after = partitions_of(old_database)
    _wait_until_alone(old_database)

    assert after == []
    assert read(old_database, chains) == [data_of(chain.records) for chain in chains]
    _wait_until_alone(old_database)
    assert partition_database(old_database) == list(PARTITIONED_TABLES)
    assert read(old_database, chains) == [data_of(chain.records) for chain in chains]


def _wait_until_alone(url: str) -> None:
    """Wait until the server has noticed that other sessions are gone."""
    sessions = load_queries("postgres")["other_sessions"]
    while query(url, sessions):
        pass
