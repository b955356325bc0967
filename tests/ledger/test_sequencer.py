"""The sequencer: whenever it stops, and however many there are, there is one tree."""

import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event
from typing import Any, cast

import pytest

from forum.errors import ConcurrentUpdate
from forum.ledger.entry import LOG_RUN
from forum.ledger.kinds import LEDGER_KINDS
from forum.ledger.ports import PublisherStore, Store
from forum.ledger.run_directory import RunDirectory
from forum.ledger.sequencer import Sequencer
from forum.ledger.strand import RUNS_STRAND
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
    ledger_on,
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
    store, other = store_factory(), store_factory()
    chain = Chain(store_factory.origin)
    store.append(chain.take(3))
    swaps = 0

    def append_more(*arguments: Any, **named: Any) -> None:  # noqa: ANN401  those of a swap
        nonlocal swaps
        swaps += 1
        assert swaps < 10, "it goes on for as long as others append"
        store.advance_head(*arguments, **named)
        other.append(chain.take(2))

    given = Sequencer(cast("PublisherStore", Wrapped(store, advance_head=append_more))).drain()

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


def directory_sequencer(store: Any) -> Sequencer:  # noqa: ANN401  a store, or a port to one
    """Return a sequencer that names the runs which its batches open."""
    return Sequencer(store, writer=ledger_on(store).writer, composers=(RunDirectory(store),))


def named_runs(store: Store) -> list[str]:
    """Return the runs of the directory, whose positions have no gap."""
    named: list[str] = []
    for n, data in enumerate(store.read_strand(LOG_RUN, RUNS_STRAND)):
        entry = LEDGER_KINDS.read(data)
        assert (entry.n, entry.facts.first) == (n, len(named))
        named += entry.facts.runs
    return named


def opened_runs(store: Store) -> list[str]:
    """Return the runs of a log in the order in which their openings got indexes."""
    entries = map(LEDGER_KINDS.read, entries_of(store))
    return [e.run for e in entries if not e.n and e.strand == "main" and e.run != LOG_RUN]


def append_runs(store: Store, runs: int) -> None:
    """Open runs, each with a second entry, in one commit."""
    chains = [Chain(store.origin, f"run-{secrets.token_hex(4)}") for _ in range(runs)]
    store.append([record for chain in chains for record in chain.take(2)])


@crashes
@pytest.mark.parametrize("survives", [False, True], ids=["a new process", "the same process"])
def test_a_stopped_sequencer_names_each_run_once(
    store_factory: StoreFactory, *, persisted: bool, survives: bool
) -> None:
    """At each of its calls: the next one names what is left, and signs no other tree."""
    for calls in range(100):
        factory = store_factory.beside()
        store = factory()
        for _ in range(3):
            append_runs(store, 2)
        fuse = Fuse(calls, persisted=persisted)
        sequencer = directory_sequencer(fuse.port(store))
        with suppress(Stopped):
            sequencer.sequence_batch(4)
            sequencer.sequence_batch(4)
        if fuse.reached:
            successor = sequencer if survives else directory_sequencer(store)
            successor.drain()
            assert len(named_runs(store)) == 6
        assert named_runs(store) == opened_runs(store)
        assert store.head().root == compute_root(leaves_of(store))
        assert store.backlog() == (0 if fuse.reached else 4)
        factory.close()
        if not fuse.reached:
            break

    assert calls >= 8  # waiting, indexes, head, end of the strand and swap, twice


def test_an_overtaken_sequencer_names_no_run_twice(store_factory: StoreFactory) -> None:
    """Between any two calls of one sequencer another one names the runs of the same batch."""
    for calls in range(100):
        factory = store_factory.beside()
        store = factory()
        append_runs(store, 3)
        other = factory()

        def act(other: Store = other) -> None:
            directory_sequencer(other).drain()
            append_runs(other, 2)

        interlude = Interlude(calls, act)
        with suppress(ConcurrentUpdate):
            directory_sequencer(interlude.port(store)).sequence_batch()
        directory_sequencer(store).drain()
        assert named_runs(store) == opened_runs(store)
        factory.close()
        if not interlude.reached:
            break

    assert calls >= 4


def test_entries_appended_during_a_batch_stay_pending(store_factory: StoreFactory) -> None:
    """The own entries are stored after them, and get their indexes before them."""
    store, other = store_factory(), store_factory()
    append_runs(store, 1)

    def append_more(*arguments: Any, **named: Any) -> None:  # noqa: ANN401  those of a swap
        append_runs(other, 1)
        store.advance_head(*arguments, **named)

    wrapped = cast("PublisherStore", Wrapped(store, advance_head=append_more))
    directory_sequencer(wrapped).sequence_batch()
    assert (store.head().size, store.backlog()) == (3, 2)
    directory_sequencer(store).drain()

    assert named_runs(store) == opened_runs(store)
    counts = store.count_rows()
    assert (counts.edge, counts.pending, counts.leaves) == (1, 0, 6)


def test_an_idle_log_stays_idle(store_factory: StoreFactory) -> None:
    """The entries of the sequencer are no reason for another batch."""
    store = store_factory()
    append_runs(store, 1)
    sequencer = directory_sequencer(store)
    sequencer.drain()
    head = store.head()

    assert sequencer.drain() == directory_sequencer(store).drain() == 0
    assert store.head() == head
    assert store.pending_span() is None


def test_many_runs_of_a_batch_are_named_in_a_chain(store_factory: StoreFactory) -> None:
    """An entry has a limited size; only the first one of a log says where the directory begins."""
    store = store_factory()
    store.append(Chain(store.origin).take(2))
    Sequencer(store).drain()
    append_runs(store, 700)
    directory_sequencer(store).drain()

    entries = [LEDGER_KINDS.read(data) for data in store.read_strand(LOG_RUN, RUNS_STRAND)]
    assert len(entries) > 2
    assert [entry.facts.since for entry in entries] == [2, *[0] * (len(entries) - 1)]
    assert named_runs(store) == opened_runs(store)[1:]


def test_runs_of_an_earlier_release_are_named_later(store_factory: StoreFactory) -> None:
    """A process of an earlier release may sequence in between, until it is replaced."""
    store = store_factory()
    sequencer = directory_sequencer(store)
    for other in (None, Sequencer(store), None):
        append_runs(store, 2)
        (other or sequencer).drain()

    assert len(named_runs(store)) == 6
    assert named_runs(store) == opened_runs(store)


@pytest.mark.parametrize("before", [0, 3], ids=["in the batch", "behind the batch"])
def test_nobody_else_writes_to_the_directory(store_factory: StoreFactory, before: int) -> None:
    """Such a row is set aside, also if it takes the position that the sequencer needs."""
    store, chain = store_factory(), Chain(store_factory.origin, LOG_RUN, RUNS_STRAND)
    append_runs(store, before)
    store.append(chain.take(2))
    sequencer = directory_sequencer(store)
    append_runs(store, 1)
    with suppress(ConcurrentUpdate):
        sequencer.sequence_batch(4)
    sequencer.drain()

    assert [row.row.data for row in store.quarantined_rows()] == data_of(chain.records)
    assert named_runs(store) == opened_runs(store)
    assert len(named_runs(store)) == before + 1
