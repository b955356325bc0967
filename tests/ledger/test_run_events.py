"""The feed of a run: each entry once and in order, whatever fails or is added meanwhile."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from forum.ledger import run_events
from forum.ledger.entry import peek_run
from forum.ledger.ports import Store
from forum.ledger.run_events import LogEventReader, RunEventReader, read_page
from forum.ledger.sequencer import Sequencer
from tests.support import (
    Calls,
    Chain,
    Fuse,
    Stopped,
    StoreFactory,
    Wrapped,
    entries_of,
)


def record(store: Store, *chains: Chain) -> None:
    """Add an entry to each of some strands, and give all of them their indexes."""
    store.append([chain.next() for chain in chains])
    Sequencer(store).drain()


@pytest.mark.parametrize("near", [0, 2, 1000])
def test_a_feed_yields_every_entry_of_a_run_once_and_in_order(
    store_factory: StoreFactory, monkeypatch: pytest.MonkeyPatch, near: int
) -> None:
    """An index is an event id: whoever names the last one must find nothing missing behind it."""
    monkeypatch.setattr(run_events, "_MAX_LOG_SCAN", near)
    store, random = store_factory(), Random(7)
    strands = [Chain(store.origin, "run", name) for name in ("main", "task/a", "task/b")]
    other = Chain(store.origin, "other")
    following, seen = RunEventReader(store, "run"), []
    for _ in range(40):
        chain = random.choice([*strands, other])
        store.append([chain.next()])
        if random.random() < 0.5:
            Sequencer(store).drain()
        if random.random() < 0.5:
            seen += following.read_new()
    Sequencer(store).drain()
    seen += following.read_new()
    everything = enumerate(entries_of(store))
    expected = [(index, data) for index, data in everything if peek_run(data) == "run"]

    assert [(entry.index, entry.data) for entry in seen] == expected
    for after in range(-1, len(expected) + 20, 3):
        again = RunEventReader(store, "run", after).read_new()
        assert [(e.index, e.data) for e in again] == [pair for pair in expected if pair[0] > after]


def test_pages_of_a_run_are_all_of_it_in_the_order_of_the_log(
    store_factory: StoreFactory,
) -> None:
    """Whoever asks page by page, from anywhere, gets what a feed yields."""
    store, random = store_factory(), Random(11)
    strands = [Chain(store.origin, "run", f"task/{nth}") for nth in range(4)]
    other = Chain(store.origin, "other")
    for _ in range(40):
        store.append(random.choice([*strands, other]).take(random.randint(1, 3)))
        if random.random() < 0.5:
            Sequencer(store).drain()
    Sequencer(store).drain()
    store.append([chain.next() for chain in strands])  # which have no index yet
    everything = RunEventReader(store, "run").read_new()
    last = everything[-1].index

    for limit in (1, 3, 7, len(everything), 1000):
        pages, after = [], -1
        more = True
        while more:
            page, more = read_page(store, "run", after, limit)
            pages += page
            after = page[-1].index
        assert pages == everything
    for after in range(-1, last + 2):
        page, more = read_page(store, "run", after, 5)
        rest = [entry for entry in everything if entry.index > after]
        assert (page, more) == (rest[:5], len(rest) > 5)
    assert read_page(store, "none", -1, 5) == ([], False)


def test_a_page_of_a_run_reads_little_more_than_the_page(store_factory: StoreFactory) -> None:
    """A run may have very many entries, and whoever looks at some of them waits for those only."""
    store = store_factory()
    strands = [Chain(store.origin, "run", f"task/{nth}") for nth in range(3)]
    for _ in range(20):
        for chain in strands:
            store.append(chain.take(50))
    Sequencer(store).drain()
    read = 0

    def entries_at(run: str, places: Sequence[tuple[str, int]]) -> list[bytes | None]:
        nonlocal read
        read += len(places)
        return store.entries_at(run, places)

    def refuse(*_: object, **__: object) -> Any:  # noqa: ANN401  it never returns
        raise AssertionError("a page reads no strand from its beginning")

    reader: Any = Wrapped(store, entries_at=entries_at, read_strand=refuse, entries_of_run=refuse)
    page, more = read_page(reader, "run", 1500, 20)

    assert [entry.index for entry in page] == list(range(1501, 1521))
    assert more
    # For each strand a look at its end, some to find the place, and at most twice what is shown.
    assert read < 3 * (1 + 11 + 1) + 2 * 20 + 3


def test_what_is_sequenced_while_a_feed_reads_comes_in_order(store_factory: StoreFactory) -> None:
    """An effect may get its index while its cause's strand was read before: it has to wait."""
    store = store_factory()
    cause, effect = Chain(store.origin, "run", "a"), Chain(store.origin, "run", "b")
    record(store, cause, effect)

    def strand(run: str, name: str, start: int = 0) -> Iterator[bytes]:
        strand = list(store.read_strand(run, name, start))
        if name == "a" and len(cause.records) == 1:
            store.append([cause.next()])
            store.append([effect.next(cause.records[-1].leaf)])
            Sequencer(store).drain()
        return iter(strand)

    following = RunEventReader(Wrapped(store, read_strand=strand), "run")
    indexes = [[entry.index for entry in following.read_new()] for _ in range(2)]

    assert indexes == [[0, 1], [2, 3]]


@pytest.mark.parametrize("near", [0, 1000], ids=["by strand", "in the log"])
def test_a_read_that_fails_half_way_is_made_up_for(
    store_factory: StoreFactory, monkeypatch: pytest.MonkeyPatch, near: int
) -> None:
    """A follower outlasts the restart of a database: what was read until then must come again."""
    monkeypatch.setattr(run_events, "_MAX_LOG_SCAN", near)
    store = store_factory()
    for calls in range(100):
        run = f"run-{calls}"
        chains = [Chain(store.origin, run, name) for name in ("main", "task/a", "task/b")]
        fuse, indexes = Fuse(calls, persisted=True), []
        following = RunEventReader(fuse.port(store), run)
        size = store.head().size
        for _ in range(2):
            record(store, *chains)
            try:
                sequenced_entries = following.read_new()
            except Stopped:
                sequenced_entries = following.read_new()
            indexes += [entry.index for entry in sequenced_entries]

        assert indexes == list(range(size, size + 6))
        if not fuse.reached:
            break

    assert calls >= 10  # the head, the strands, each of three strands and its indexes; and again


class Tally(Calls):
    """Counts the calls, and lets all of them through."""

    def __init__(self) -> None:
        super().__init__(0)

    @property
    def made(self) -> int:
        """How many there were."""
        return -self._left

    def _happen(self, effect: Callable[[], Any]) -> Any:  # noqa: ANN401
        return effect()


def test_a_look_costs_the_same_however_many_tasks_a_run_has(store_factory: StoreFactory) -> None:
    """Each word that a model says is a reason to look: it must not be one to read 500 strands."""
    store, other = store_factory(), Chain(store_factory.origin, "other")
    costs = []
    for strands in (1, 12):
        run = f"run-{strands}"
        chains = [Chain(store.origin, run, f"task/{n}") for n in range(strands)]
        record(store, *chains)
        tally = Tally()
        following = RunEventReader(tally.port(store), run)
        found, made = [len(following.read_new())], [tally.made]
        for news in ((), (other,), (chains[0],)):
            record(store, *news)
            found.append(len(following.read_new()))
            made.append(tally.made)
        costs.append([after - before for before, after in pairwise(made)])

        assert found == [strands, 0, 0, 1]

    assert costs[0] == costs[1]
    assert costs[0][0] == 1  # whether the log has grown


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_events_of_the_log_are_all_entries_once_and_in_order(
    store_factory: StoreFactory, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """From wherever a client goes on, whatever fails meanwhile, and never too many at once."""
    monkeypatch.setattr(run_events, "_MAX_LOG_EVENTS", at_once)
    store, random = store_factory(), Random(5)
    chains = [Chain(store.origin, f"run-{nth}") for nth in range(3)]
    fuse = Fuse(3, persisted=True)
    following, seen = LogEventReader(fuse.port(store)), []
    for _ in range(20):
        store.append(random.choice(chains).take(random.randint(1, 3)))
        if random.random() < 0.5:
            Sequencer(store).drain()
        try:
            seen.append(following.read_new())
        except Stopped:
            seen.append(following.read_new())
    Sequencer(store).drain()
    while seen[-1] or following.after + 1 < store.head().size:
        seen.append(following.read_new())
    expected = list(enumerate(entries_of(store)))

    assert fuse.reached
    assert max(map(len, seen)) <= at_once
    assert [(entry.index, entry.data) for some in seen for entry in some] == expected
    for after in (-1, 0, len(expected) - 2, len(expected) - 1, len(expected) + 5):
        again = LogEventReader(store, after).read_new()
        assert [entry.index for entry in again] == list(range(after + 1, len(expected)))[:at_once]
