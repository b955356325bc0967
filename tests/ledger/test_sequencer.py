"""The sequencer: whenever it stops, and however many there are, there is one tree."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event
from typing import Any, cast

import pytest

from forum.errors import ConcurrentUpdate
from forum.ledger.ports import Store
from forum.ledger.sequencer import Sequencer
from tests.support import (
    Chain,
    Fuse,
    Interlude,
    Stopped,
    StoreFactory,
    Wrapped,
    data_of,
    entries_of,
    leaves_of,
)
from tests.tlog.trees import compute_root

crashes = pytest.mark.parametrize(
    "persisted", [False, True], ids=["failed", "failed but persisted"]
)


@crashes
@pytest.mark.parametrize("survives", [False, True], ids=["a new process", "the same process"])
def test_a_sequencer_that_is_stopped_leaves_one_tree(
    store_factory: StoreFactory, *, persisted: bool, survives: bool
) -> None:
    """At each of its calls, heard of or not: what comes next finds all entries, each once."""
    for calls in range(100):
        factory = store_factory.beside()
        store, chain = factory(), Chain(factory.origin)
        for _ in range(5):
            store.append(chain.take(1))
        fuse = Fuse(calls, persisted=persisted)
        sequencer = Sequencer(fuse.port(store))
        done = 0
        try:
            done += sequencer.sequence_batch(2)
            done += sequencer.sequence_batch(2)
        except Stopped:
            successor = sequencer if survives else Sequencer(store)
            successor.drain()
            assert store.head().root == compute_root([record.leaf for record in chain.records])
            assert entries_of(store) == data_of(chain.records)
        factory.close()
        if not fuse.reached:
            break

    assert done == 4
    assert calls >= 6  # waiting, head and swap, twice


def test_a_sequencer_that_is_overtaken_changes_nothing(store_factory: StoreFactory) -> None:
    """Between any two of its calls another one may come and go: of its own work nothing is left."""
    for calls in range(100):
        factory = store_factory.beside()
        store, chain = factory(), Chain(factory.origin)
        for _ in range(5):
            store.append(chain.take(1))
        interlude = Interlude(calls, Sequencer(factory()).drain)
        with suppress(ConcurrentUpdate):
            Sequencer(interlude.port(store)).sequence_batch(2)
        Sequencer(store).drain()
        assert store.head().root == compute_root([record.leaf for record in chain.records])
        assert entries_of(store) == data_of(chain.records)
        factory.close()
        if not interlude.reached:
            break

    assert calls == 4  # waiting, indexes, head and swap


def test_a_drain_ends_while_others_append(store_factory: StoreFactory) -> None:
    """A worker that is told to stop drains: it must not have to wait until all others are idle."""
    store, other, chain = store_factory(), store_factory(), Chain(store_factory.origin)
    store.append(chain.take(3))
    swaps = 0

    def append_more(*arguments: Any) -> None:  # noqa: ANN401  those of a swap
        nonlocal swaps
        swaps += 1
        assert swaps < 10, "it goes on for as long as others append"
        store.advance_head(*arguments)
        other.append(chain.take(2))

    given = Sequencer(cast("Store", Wrapped(store, advance_head=append_more))).drain()

    assert (given, swaps) == (3, 1)
    assert store.head().size == 3
    assert Sequencer(store).drain() == 2


def test_a_sequencer_goes_on_where_another_one_was(store_factory: StoreFactory) -> None:
    """It keeps the edge of the tree in memory, and must notice when the tree has moved."""
    store, other = store_factory(), store_factory()
    chain, sequencers = Chain(store_factory.origin), [Sequencer(store), Sequencer(other)]
    for turn in (0, 1, 1, 0, 0, 1, 0):
        store.append(chain.take(turn + 1))
        sequencers[turn].sequence_batch()

    assert store.head().root == compute_root([record.leaf for record in chain.records])
    assert leaves_of(other) == [record.leaf for record in chain.records]


def test_sequencers_at_the_same_time_make_one_tree(store_factory: StoreFactory) -> None:
    """They may waste each other's work; they cannot lose an entry, nor give it two indexes."""
    done = Event()
    chains = [Chain(store_factory.origin, strand=f"{n}") for n in range(2)]
    overtaken: list[ConcurrentUpdate] = []

    def write(chain: Chain) -> None:
        store = store_factory()
        for _ in range(60):
            store.append(chain.take(1))

    def keep(_: int) -> None:
        sequencer = Sequencer(store_factory())
        while not done.is_set():
            try:
                sequencer.sequence_batch(3)
            except ConcurrentUpdate as error:
                overtaken.append(error)
        sequencer.drain()

    with ThreadPoolExecutor(4) as pool:
        keeping = pool.map(keep, range(2))
        list(pool.map(write, chains))
        done.set()
        list(keeping)

    store = store_factory()
    expected = sorted(data for chain in chains for data in data_of(chain.records))
    assert store.head().size == 120
    assert store.head().root == compute_root(leaves_of(store))
    assert sorted(entries_of(store)) == expected
    assert store.backlog() == 0


def test_nothing_to_do_changes_nothing(store_factory: StoreFactory) -> None:
    """A sequencer looks ten times a second, also at a log that nobody writes."""
    store = store_factory()
    fuse = Fuse(1, persisted=False)
    idle = Sequencer(fuse.port(store))

    assert idle.sequence_batch() == 0
    assert not fuse.reached
