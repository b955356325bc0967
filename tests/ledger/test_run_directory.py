"""Lists of runs by the directory: whatever is done to the tables, no run is left out unnoticed."""

import secrets
from collections.abc import Callable
from typing import Any

import pytest

from forum.errors import TamperDetected
from forum.ledger.entry import LOG_RUN
from forum.ledger.kinds import LEDGER_KINDS
from forum.ledger.log import Ledger
from forum.ledger.ports import Store
from forum.ledger.run_directory import DirectoryReader, RunDirectory
from forum.ledger.sequencer import Sequencer
from forum.ledger.strand import RUNS_STRAND
from tests.support import Chain, StoreFactory, Wrapped


def sequence(store: Store) -> None:
    """Sequence as this release does."""
    writer = Ledger(store, LEDGER_KINDS, lambda: 1, lambda: secrets.token_bytes(32)).writer
    Sequencer(store, writer=writer, composers=(RunDirectory(store),)).drain()


def open_runs(store: Store, *runs: str) -> None:
    """Open runs in one commit."""
    store.append([record for run in runs for record in Chain(store.origin, run).take(2)])


def list_runs(store: Store, size: int, *, anew: bool = True) -> list[str]:
    """Return all runs by pages of a size, each from a list of its own unless told otherwise."""
    listed: list[str] = []
    reader = DirectoryReader(store, LEDGER_KINDS, None)
    before = None
    while page := reader.runs_before(before, size):
        listed += page
        before = page[-1]
        if anew:
            reader = DirectoryReader(store, LEDGER_KINDS, None)
    return listed


@pytest.mark.parametrize("old", [0, 5], ids=["a new log", "a log of an earlier release"])
@pytest.mark.parametrize("waiting", [0, 3], ids=["all have indexes", "some wait"])
def test_pages_of_any_size_list_each_run_once(
    store_factory: StoreFactory, old: int, waiting: int
) -> None:
    """The newest first, from any run on, in one go and by requests that know only the last run."""
    store = store_factory()
    names = [f"run-{n}" for n in range(old + 90 + waiting)]
    for run in names[:old]:
        open_runs(store, run)
        Sequencer(store).drain()
    rest = names[old : old + 90]
    for start in range(0, 90, 3):
        open_runs(store, *rest[start : start + 3])
        sequence(store)
    for run in names[old + 90 :]:
        open_runs(store, run)
    names.reverse()

    for size in (1, 7, 1000):
        assert list_runs(store, size) == list_runs(store, size, anew=False) == names
    for before in range(0, len(names), 9):
        reader = DirectoryReader(store, LEDGER_KINDS, None)
        assert reader.runs_before(names[before], 4) == names[before + 1 : before + 5]
    assert reader.runs_before("none", 5) == []


def test_a_run_that_gets_its_index_during_a_list_is_listed_once(
    store_factory: StoreFactory,
) -> None:
    """Between the queue and the directory."""
    store = store_factory()
    open_runs(store, "one")
    sequence(store)
    open_runs(store, "two")

    def read_end(*place: Any, **named: Any) -> bytes | None:  # noqa: ANN401  those of a call
        sequence(store)
        return store.last_entry(*place, **named)

    reader: Any = Wrapped(store, last_entry=read_end)
    assert DirectoryReader(reader, LEDGER_KINDS, None).runs_before(None, 10) == ["two", "one"]


def test_runs_of_a_large_batch_are_found_in_their_chain(store_factory: StoreFactory) -> None:
    """A cursor may be a run that the fifth entry of a batch names."""
    store = store_factory()
    names = [f"a-run-with-a-rather-long-name-{n:05}" for n in range(700)]
    open_runs(store, *names)
    sequence(store)
    names.reverse()

    assert list_runs(store, 130) == names


Wrap = Callable[[Store], Any]


def _without(store: Store, missing: int) -> Any:  # noqa: ANN401
    """Return a store that has lost an entry of the directory."""

    def entries_at(run: str, places: list[tuple[str, int]]) -> list[bytes | None]:
        found = store.entries_at(run, places)
        gone = (LOG_RUN, (RUNS_STRAND, missing))
        pairs = zip(places, found, strict=True)
        return [None if (run, place) == gone else data for place, data in pairs]

    return Wrapped(store, entries_at=entries_at)


@pytest.mark.parametrize("missing", [0, 1, 3])
def test_a_gap_in_the_directory_is_tampering(store_factory: StoreFactory, missing: int) -> None:
    """At its beginning, in the middle and at its end."""
    store = store_factory()
    for n in range(4):
        open_runs(store, f"run-{n}")
        sequence(store)

    with pytest.raises(TamperDetected):
        list_runs(_without(store, missing), 10)


def test_a_directory_that_was_longer_is_tampering(store_factory: StoreFactory) -> None:
    """This machine remembers its end, in case the database is set back with the tagged head."""
    store = store_factory()
    open_runs(store, "run")
    sequence(store)
    seen: list[tuple[int, str]] = []
    reader = DirectoryReader(
        store,
        kinds=LEDGER_KINDS,
        keys=None,
        remembered=None,
        remember=lambda *end: seen.append(end),
    )
    assert reader.runs_before(None, 10) == ["run"]
    assert DirectoryReader(store, LEDGER_KINDS, None, seen[0]).runs_before(None, 10) == ["run"]

    with pytest.raises(TamperDetected):
        DirectoryReader(store, LEDGER_KINDS, None, (1, "00" * 32)).runs_before(None, 10)
