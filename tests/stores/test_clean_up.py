"""The clean-up behind ended runs: who starts it, and what an older database has for it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import psycopg
import pytest

from forum.app import KINDS
from forum.ledger.kinds import NoteFacts, Outcome
from forum.ledger.log import Ledger
from forum.ledger.ports import Amount, Effect, IdempotencyRecord, OpenBudgetAccount, Store
from forum.ledger.sequencer import Publisher, Sequencer
from forum.ledger.strand import Draft
from forum.runs.kinds import AcceptedFacts
from forum.stores import publisher_loop
from forum.stores.postgres_partitions import PARTITIONED_TABLES
from forum.stores.postgres_schema import upgrade_schema
from forum.stores.publisher_loop import PublisherLoop
from forum.stores.state_files import FileCheckpointStore
from forum.tlog import WitnessPolicy
from tests.support import StoreFactory, Wrapped, key_of, wait_until

NO_WITNESSES = WitnessPolicy((), (), (), "none")


def ledger_of(store: Store) -> Ledger:
    """Return a ledger that knows requests."""
    return Ledger(store, KINDS, count(1).__next__, lambda: bytes(32))


def accept(ledger: Ledger, run: str, parent: str = "") -> None:
    """Open a run with an account and a key."""
    effects: tuple[Effect, ...] = (
        OpenBudgetAccount(run, Amount(1, 1, 1)),
        IdempotencyRecord(f"key-{run}", run, "digest"),
    )
    facts = AcceptedFacts(parent_run=parent)
    ledger.open_run(run, "tester", Draft("accepted", "tester", facts, effects=effects))


def close(ledger: Ledger, run: str, parent: str = "") -> None:
    """Close a run as its driver does."""
    strand = ledger.open_strand_at_end(run, "main")
    ledger.close_run(strand, "tester", Outcome.OK, parent=parent)


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[PublisherLoop]]:
    """Return a list of loops that are closed at the end, and are in a hurry until then."""
    for name in ("SEQUENCE_INTERVAL_S", "LEADER_POLL_INTERVAL_S", "CLEAN_UP_INTERVAL_S"):
        monkeypatch.setattr(publisher_loop, name, 0.005)
    started: list[PublisherLoop] = []
    yield started
    for loop in started:
        loop.close()


def start(store: Store, folder: Path, retention_s: float) -> PublisherLoop:
    """Start to lead a log."""
    guard = FileCheckpointStore(folder / "guard.note")
    publisher = Publisher(store, key_of(store.origin), guard, NO_WITNESSES)
    return PublisherLoop(store, Sequencer(store), publisher, cleanup_delay_s=retention_s)


def test_the_leader_cleans_up_behind_ended_runs(
    store_factory: StoreFactory, tmp_path: Path, loops: list[PublisherLoop]
) -> None:
    """Nobody has to ask for it, and a run that goes on is left alone."""
    store = store_factory()
    ledger = ledger_of(store)
    for run in ("ended", "open"):
        accept(ledger, run)
    loops.append(start(store_factory(), tmp_path, 0.0))
    close(ledger, "ended")
    wait_until(lambda: store.account_runs("", 10) == ["open"])

    assert [row.run for row in store.idempotency_rows("", 10)] == ["open"]


def test_rows_stay_for_the_time_that_was_promised(
    store_factory: StoreFactory, tmp_path: Path, loops: list[PublisherLoop]
) -> None:
    """A client that asks again within that time gets the same run."""
    store, looks = store_factory(), count()
    ledger = ledger_of(store)
    accept(ledger, "ended")
    close(ledger, "ended")

    def clean_up(seconds: float, limit: int) -> int:
        next(looks)
        return store.clean_up(seconds, limit)

    loops.append(start(Wrapped(store, clean_up=clean_up), tmp_path, 3600.0))
    wait_until(lambda: next(looks) > 5)

    assert store.account_runs("", 10) == ["ended"]
    assert [row.run for row in store.idempotency_rows("", 10)] == ["ended"]


def test_only_the_leader_cleans_up(
    store_factory: StoreFactory, tmp_path: Path, loops: list[PublisherLoop]
) -> None:
    """A thousand processes that all look for old runs would be work without end."""
    store, asked = store_factory(), count()
    cleaned = count()

    def try_lead() -> bool:
        next(asked)
        return False

    def clean_up(_seconds: float, _limit: int) -> int:
        next(cleaned)
        return 0

    follower = Wrapped(store, try_lead=try_lead, clean_up=clean_up)
    loop = start(follower, tmp_path, 0.0)
    wait_until(lambda: next(asked) > 10)
    loop.close()

    assert next(cleaned) == 0


def test_runs_that_ended_before_the_upgrade_are_found(store_factory: StoreFactory) -> None:
    """With their parents, as if their ends had been listed when they came."""
    store = store_factory()
    ledger = ledger_of(store)
    for run, parent in (("ended", ""), ("open", ""), ("child", "open"), ("orphan", "ended")):
        accept(ledger, run, parent)
    for run in ("ended", "child", "orphan"):
        close(ledger, run)
    # A note has a key and no account.
    note = Draft("note", "tester", NoteFacts(), effects=(IdempotencyRecord("n", "note", "d"),))
    ledger.record_run("note", "tester", note)
    forget_ends(store_factory.place)
    again = store_factory()
    looked = again.clean_up(0, 100)

    assert looked == 4
    assert again.account_runs("", 10) == ["child", "open"]
    assert [row.run for row in again.idempotency_rows("", 10)] == ["child", "open"]


def forget_ends(place: Path | str) -> None:
    """Bring a database to the schema before the list of ended runs."""
    if isinstance(place, Path):
        with closing(sqlite3.connect(place, isolation_level=None)) as lite:
            lite.execute("DROP TABLE ended")
            lite.execute("DELETE FROM addition WHERE number = 13")
        return
    with psycopg.connect(place) as db:
        db.execute("DROP TABLE forum.ended")
        db.execute("DELETE FROM forum.addition WHERE number = 13")
    upgrade_schema(place)


@pytest.mark.postgres
def test_large_tables_are_vacuumed_by_number(postgres_url: str) -> None:
    """A share of a table that grows for ever is a vacuum that comes ever later."""
    upgrade_schema(postgres_url)
    query = "SELECT array_to_string(reloptions, ' ') FROM pg_class WHERE oid = to_regclass(%s)"
    with psycopg.connect(postgres_url) as db:
        hot = ("account", "once", "ended", "pending", "alarm", "claim", "lease", "log", "budget")
        parts = [f"{table}_{part}" for table in PARTITIONED_TABLES for part in ("0", "default")]
        for table in (*hot, *parts):
            row = db.execute(query, (f"forum.{table}",)).fetchone()
            assert row is not None
            assert "autovacuum_vacuum_scale_factor=0" in row[0], table
