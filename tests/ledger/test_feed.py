"""The feed of a run: each entry once and in order, whatever fails or is added meanwhile."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from forum.ledger import Feed, Sequencer, Store, feed, peek_run
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
    monkeypatch.setattr(feed, "_NEAR", near)
    store, random = store_factory(), Random(7)
    strands = [Chain(store.origin, "run", name) for name in ("main", "task/a", "task/b")]
    other = Chain(store.origin, "other")
    following, seen = Feed(store, "run"), []
    for _ in range(40):
        chain = random.choice([*strands, other])
        store.append([chain.next()])
        if random.random() < 0.5:
            Sequencer(store).drain()
        if random.random() < 0.5:
            seen += following.read()
    Sequencer(store).drain()
    seen += following.read()
    everything = enumerate(entries_of(store))
    expected = [(index, data) for index, data in everything if peek_run(data) == "run"]

    assert [(entry.index, entry.data) for entry in seen] == expected
    for after in range(-1, len(expected) + 20, 3):
        again = Feed(store, "run", after).read()
        assert [(e.index, e.data) for e in again] == [pair for pair in expected if pair[0] > after]


def test_what_is_sequenced_while_a_feed_reads_comes_in_order(store_factory: StoreFactory) -> None:
    """An effect may get its index while its cause's strand was read before: it has to wait."""
    store = store_factory()
    cause, effect = Chain(store.origin, "run", "a"), Chain(store.origin, "run", "b")
    record(store, cause, effect)

    def strand(run: str, name: str, start: int = 0) -> Iterator[bytes]:
        found = list(store.strand(run, name, start))
        if name == "a" and len(cause.records) == 1:
            store.append([cause.next()])
            store.append([effect.next(cause.records[-1].leaf)])
            Sequencer(store).drain()
        return iter(found)

    following = Feed(Wrapped(store, strand=strand), "run")
    indexes = [[entry.index for entry in following.read()] for _ in range(2)]

    assert indexes == [[0, 1], [2, 3]]


@pytest.mark.parametrize("near", [0, 1000], ids=["by strand", "in the log"])
def test_a_read_that_fails_half_way_is_made_up_for(
    store_factory: StoreFactory, monkeypatch: pytest.MonkeyPatch, near: int
) -> None:
    """A follower outlasts the restart of a database: what was read until then must come again."""
    monkeypatch.setattr(feed, "_NEAR", near)
    store = store_factory()
    for calls in range(100):
        run = f"run-{calls}"
        chains = [Chain(store.origin, run, name) for name in ("main", "task/a", "task/b")]
        fuse, indexes = Fuse(calls, persisted=True), []
        following = Feed(fuse.port(store), run)
        size = store.head().size
        for _ in range(2):
            record(store, *chains)
            try:
                found = following.read()
            except Stopped:
                found = following.read()
            indexes += [entry.index for entry in found]

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
    store, other, costs = store_factory(), Chain(store_factory.origin, "other"), []
    for strands in (1, 12):
        run = f"run-{strands}"
        chains = [Chain(store.origin, run, f"task/{n}") for n in range(strands)]
        record(store, *chains)
        tally = Tally()
        following = Feed(tally.port(store), run)
        found, made = [len(following.read())], [tally.made]
        for news in ((), (other,), (chains[0],)):
            record(store, *news)
            found.append(len(following.read()))
            made.append(tally.made)
        costs.append([after - before for before, after in pairwise(made)])

        assert found == [strands, 0, 0, 1]

    assert costs[0] == costs[1]
    assert costs[0][0] == 1  # whether the log has grown
