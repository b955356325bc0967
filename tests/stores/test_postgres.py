"""What only the Postgres backend has to promise: its schema, its sessions, lost connections."""

import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from time import sleep

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from forum.errors import (
    BadSettings,
    DurabilityDisabled,
    EntryLost,
    SchemaTooNew,
    SchemaTooOld,
    StoreConnectionLost,
    StoreFailed,
)
from forum.ledger.body import text_content
from forum.ledger.ports import Amount, BudgetAccount, BudgetCharge, OpenBudgetAccount
from forum.ledger.sequencer import Sequencer
from forum.stores import (
    postgres,
    postgres_appending,
    postgres_schema,
    postgres_sessions,
    sql_migrations,
)
from forum.stores.group_commit import GroupCommitter
from forum.stores.postgres import PostgresStore
from forum.stores.postgres_schema import upgrade_schema
from forum.stores.sql_migrations import missing_migrations
from tests.soak.cluster import scratch_database
from tests.support import Chain, StoreFactory, data_of, fresh_origin, upgraded, wait_until

pytestmark = pytest.mark.postgres

APPEND_OF_THE_FIRST_RELEASE = """
WITH new AS (
    INSERT INTO forum.entry (log, strand, n, bytes) SELECT %(log)s, strand, n, bytes
    FROM unnest(%(strands)b::bigint[], %(ns)b::bigint[], %(bytes)b::bytea[]) AS u (strand, n, bytes)
)
INSERT INTO forum.pending (log, strands, ns)
VALUES (%(log)s, %(strands)b::bigint[], %(ns)b::bigint[])
"""


@pytest.fixture
def empty_database(postgres_url: str) -> Iterator[str]:
    """Return the address of a database without a schema."""
    with scratch_database(postgres_url) as url:
        yield url


def named(url: str) -> tuple[str, str]:
    """Return an address under a name by which the sessions of one store can be found."""
    name = f"forum-{secrets.token_hex(8)}"
    return make_conninfo(upgraded(url), application_name=name), name


def disconnect(url: str, name: str) -> int:
    """End all sessions of that name, as a restart of the server would."""
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
    with psycopg.connect(url, autocommit=True) as db:
        return len(db.execute(query, (name,)).fetchall())


def test_the_schema_has_to_be_made_and_to_be_known(empty_database: str) -> None:
    """A server is upgraded on purpose, never by whoever happens to connect first."""
    with pytest.raises(SchemaTooOld, match="forum db upgrade"):
        PostgresStore(empty_database, "o")
    first, second = upgrade_schema(empty_database), upgrade_schema(empty_database)
    PostgresStore(empty_database, "o").close()
    with psycopg.connect(empty_database, autocommit=True) as db:
        db.execute("INSERT INTO forum.migration (number) VALUES (9999)")

    assert first == [step.number for step in missing_migrations("postgres", 0)]
    assert second == []
    for call in (upgrade_schema, lambda url: PostgresStore(url, "o")):
        with pytest.raises(SchemaTooNew, match="9999"):
            call(empty_database)


def test_a_database_of_the_first_release_is_upgraded_with_what_it_holds(
    empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entries stay as they are; what this release needs beside them is made."""
    chain = Chain("o")
    with monkeypatch.context() as old:
        old.setattr(
            sql_migrations,
            "missing_migrations",
            lambda *args, **options: missing_migrations(*args, **options)[:1],
        )
        old.setattr(postgres_schema, "separate_logs", lambda _db: None)
        old.setitem(postgres_sessions.QUERIES, "append", APPEND_OF_THE_FIRST_RELEASE)
        first = upgrade_schema(empty_database)
        old.setattr(sql_migrations, "missing_migrations", lambda *_, **__: [])
        store = PostgresStore(empty_database, "o")
        store.append(chain.take(2))
        store.close()
    with pytest.raises(SchemaTooOld, match="version 1"):
        PostgresStore(empty_database, "o")
    rest = upgrade_schema(empty_database)
    store = PostgresStore(empty_database, "o")
    store.append([chain.next(effects=(OpenBudgetAccount("run", Amount()),))])
    strand, account = list(store.read_strand("run", "main")), store.account("run")
    store.close()

    assert [first, rest[:1]] == [[1], [2]]
    assert strand == data_of(chain.records)
    assert account == BudgetAccount(Amount(), Amount())


@pytest.mark.slow
@pytest.mark.parametrize("attempts", [1, 2])
def test_a_deadlock_with_a_stranger_is_tried_again(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, attempts: int
) -> None:
    """Whoever works on the tables by hand knows nothing of our order, and may stand in the way.

    Nothing was committed, and that is known: to call the connection lost would be wrong.
    """
    monkeypatch.setattr(postgres_appending, "_MAX_ATTEMPTS", attempts)
    url, name = named(postgres_url)
    store = PostgresStore(url, fresh_origin())
    chain, cap = Chain(store.origin), Amount(calls=9)
    store.append([chain.next(effects=(OpenBudgetAccount("a", cap), OpenBudgetAccount("b", cap)))])
    charges = tuple(BudgetCharge(run, Amount(calls=1)) for run in "ab")
    # Of the two, the one whose patience ends first is told.
    patient = make_conninfo(postgres_url, options="-c deadlock_timeout=60s")
    hold = (
        "UPDATE forum.account SET calls = calls + 1 WHERE run = %s"
        " AND log = (SELECT id FROM forum.log WHERE origin = %s)"
    )
    waits = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE application_name = %s AND wait_event_type = 'Lock'"
    )

    def waiting() -> bool:
        with psycopg.connect(postgres_url, autocommit=True) as db:
            return db.execute(waits, (name,)).fetchone() == (1,)

    with ThreadPoolExecutor(1) as pool, psycopg.connect(patient) as stranger:
        stranger.execute(hold, ("b", store.origin))
        appending = pool.submit(store.append, [chain.next(effects=charges)])
        wait_until(waiting)
        stranger.execute(hold, ("a", store.origin))
        stranger.commit()
        error = appending.exception()
    accounts, entries = [store.account(run) for run in "ab"], list(store.read_strand("run", "main"))
    store.close()

    assert type(error) is (StoreFailed if attempts == 1 else type(None))
    assert accounts == [BudgetAccount(cap, Amount(calls=attempts))] * 2
    assert entries == data_of(chain.records[:attempts])


@pytest.mark.parametrize("change", [postgres.stop_appends, postgres.end_log])
def test_the_end_of_a_log_holds_other_writers_up_for_a_moment(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, change: Callable[..., None]
) -> None:
    """It waits for a transaction that goes on, and all logs of the database wait behind it."""
    monkeypatch.setattr(postgres, "_WAIT_TIMEOUT", "100ms", raising=False)
    url = upgraded(postgres_url)
    ending, other = PostgresStore(url, fresh_origin()), PostgresStore(url, fresh_origin())
    chain = Chain(other.origin)
    with ThreadPoolExecutor(1) as pool, psycopg.connect(url) as slow:
        slow.execute("LOCK TABLE forum.entry IN ROW EXCLUSIVE MODE")
        done = pool.submit(change, url, ending.origin, {})
        for _ in range(4):
            other.append([chain.next()])
            sleep(0.1)
        is_waiting = not done.done()
        slow.commit()
        done.result()
    entries = list(other.read_strand("run", "main"))
    ending.close()
    other.close()

    assert is_waiting
    assert entries == data_of(chain.records)


def test_a_server_that_loses_commits_is_refused(postgres_url: str) -> None:
    """With synchronous_commit off it acknowledges what a power cut takes back."""
    url = make_conninfo(upgraded(postgres_url), options="-c synchronous_commit=off")

    with pytest.raises(DurabilityDisabled, match="synchronous_commit is off"):
        PostgresStore(url, fresh_origin())


def test_an_unreachable_server_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever starts without a server is told so, and does not hang."""
    monkeypatch.setattr("forum.stores.postgres_connections._POOL_TIMEOUT_S", 0.5)

    with pytest.raises(StoreConnectionLost):
        PostgresStore("postgresql://postgres@127.0.0.1:1/test", "o")


def test_a_server_that_only_reads_is_an_error_of_ours(postgres_url: str) -> None:
    """As after a failover to a replica; reading goes on there."""
    factory = StoreFactory(postgres_url)
    chain = Chain(factory.origin)
    factory().append(chain.take(1))
    options = "-c default_transaction_read_only=on"
    with closing(
        PostgresStore(make_conninfo(postgres_url, options=options), factory.origin)
    ) as store:
        read = list(store.read_strand("run", "main"))
        with pytest.raises(StoreFailed, match="read-only"):
            store.append([chain.next()])

    assert read == list(factory().read_strand("run", "main"))
    assert read == data_of(chain.records[:1])
    factory.close()


def test_one_process_leads_at_a_time(postgres_url: str) -> None:
    """Several that sequence one log would be safe, and would waste each other's work."""
    factory, beside = StoreFactory(postgres_url), StoreFactory(postgres_url)
    first, second = factory(), factory()
    stranger = beside()

    assert first.try_lead()
    assert not second.try_lead()
    assert stranger.try_lead()
    first.close()
    wait_until(second.try_lead)
    for opened in (factory, beside):
        opened.close()


def test_a_leader_whose_session_ended_asks_again(postgres_url: str) -> None:
    """Whoever lost its lock must notice within some seconds; until then two leaders are safe."""
    url, name = named(postgres_url)
    origin = fresh_origin()
    store, other = PostgresStore(url, origin), PostgresStore(postgres_url, origin)
    held = store.try_lead()
    disconnect(postgres_url, name)
    wait_until(other.try_lead)

    assert held
    wait_until(lambda: not store.try_lead())
    store.close()
    other.close()


def test_an_append_survives_a_lost_connection(postgres_url: str) -> None:
    """The commit is tried again, never the work; and what was recorded is there once."""
    url, name = named(postgres_url)
    store = PostgresStore(url, fresh_origin())
    committer, chain = GroupCommitter(store), Chain(store.origin)
    for n in range(4):
        assert disconnect(postgres_url, name)
        committer.append([chain.next(text=text_content(f"{n}"))])
    committer.close()
    store.close()
    reader = PostgresStore(postgres_url, store.origin)

    assert list(reader.unsequenced_entries()) == data_of(chain.records)
    reader.close()


@pytest.mark.parametrize("address", ["postgres//forum:hunter2@db/forum", "postgresql://a:%zz2@h/x"])
def test_a_wrong_address_is_refused_without_repeating_it(address: str) -> None:
    """It may hold a password, and what an error says ends up in logs."""
    with pytest.raises(BadSettings) as caught:
        PostgresStore(address, "test.example/log")

    assert "hunter2" not in str(caught.value)
    assert "%zz2" not in str(caught.value)


def test_an_entry_that_is_gone_before_it_was_sequenced_is_named(postgres_url: str) -> None:
    """It was acknowledged: nothing may be signed as if it had never been."""
    store = PostgresStore(upgraded(postgres_url), fresh_origin())
    store.append(Chain(store.origin).take(2))
    with psycopg.connect(postgres_url, autocommit=True) as db:
        log = db.execute("SELECT id FROM forum.log WHERE origin = %s", (store.origin,)).fetchone()
        db.execute("DELETE FROM forum.entry WHERE log = %s AND n = 0", log)

    with pytest.raises(EntryLost, match="was acknowledged and is gone"):
        Sequencer(store).sequence_batch()
    assert None in list(store.unsequenced_entries())
    store.close()
