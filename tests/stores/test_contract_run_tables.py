"""The promise of a store about summaries and idempotency keys, kept by every database."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from forum.errors import IdempotencyKeyUsed
from forum.ledger.body import text_content
from forum.ledger.ports import (
    IdempotencyRecord,
    Position,
    RunSummaryRow,
)
from tests.support import (
    Chain,
    StoreFactory,
)


def test_a_summary_replaces_the_one_before(store_factory: StoreFactory) -> None:
    """A reader gets the last row of each run that has one, and pages of their names."""
    store = store_factory()
    rows = [
        RunSummaryRow(run, version=1, ended=2**40, data=b"[]", tag=b"tag")
        for run in ("Z", "a", "b")
    ]
    store.save_summaries(rows)
    later = RunSummaryRow("a", version=2, ended=2**41, data=b"\x00\xff", tag=None)
    store.save_summaries([later])
    reader = store_factory()

    assert reader.summaries(["a", "none", "Z"]) == {"a": later, "Z": rows[0]}
    assert reader.summaries([]) == {}
    assert [reader.summary_runs("", 2), reader.summary_runs("a", 2)] == [["Z", "a"], ["b"]]


def test_the_same_name_is_asked_for_once_whoever_races(store_factory: StoreFactory) -> None:
    """A client that asks again, of another process, must not have its work done twice."""
    stores = [store_factory() for _ in range(4)]

    def ask(number: int) -> tuple[str, str]:
        run, digest = f"run-{number}", f"digest of run-{number}"
        record = Chain(store_factory.origin, run).next(
            effects=(IdempotencyRecord("key", run, digest),)
        )
        try:
            stores[number % len(stores)].append([record])
        except IdempotencyKeyUsed as asked:
            return asked.run, asked.digest
        return run, digest

    with ThreadPoolExecutor(8) as threads:
        told = set(threads.map(ask, range(24)))

    ((winner, digest),) = told
    assert digest == f"digest of {winner}"
    assert [run for n in range(24) if stores[0].strands(run := f"run-{n}")] == [winner]


def test_a_name_is_asked_for_once_in_each_log(store_factory: StoreFactory) -> None:
    """Whoever uses another ledger of the same server must not find out which names are taken."""
    store, beside = store_factory(), store_factory.beside()()
    for one in (store, beside):
        one.append([Chain(one.origin).next(effects=(IdempotencyRecord("key", "run", "digest"),))])

    assert store.last_entry("run", "main")
    assert beside.last_entry("run", "main")


def test_what_was_asked_for_cannot_be_guessed_once_it_is_erased(
    store_factory: StoreFactory,
) -> None:
    """A commitment has a salt and a digest has none: whoever has a guess could try it on that."""
    store = store_factory()
    for run in ("erased", "kept"):
        asked = Chain(store.origin, run).next(
            text=text_content("x"), effects=(IdempotencyRecord(run, run, "digest"),)
        )
        store.append([asked])
    store.erase_bodies([(Position("erased", "main", 0), "text")])
    told = []
    for name in ("erased", "kept"):
        with pytest.raises(IdempotencyKeyUsed) as again:
            store.append(
                [Chain(store.origin).next(effects=(IdempotencyRecord(name, "run", "digest"),))]
            )
        told.append((again.value.run, again.value.digest))

    assert told == [("erased", ""), ("kept", "digest")]
