"""What a process remembers of a run is what the store has, or it remembers nothing."""

import os
from collections.abc import Iterable

import pytest

from forum.engine.run_memory import RunMemory
from forum.errors import ConcurrentUpdate
from forum.ledger.database_memory import Lineage
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.kinds import JoinFacts
from forum.ledger.log import Ledger, read_strand_entries
from forum.ledger.strand import Draft, RecordedEntry
from forum.runs import kinds
from tests.engine.office import KINDS, now
from tests.support import StoreFactory

RUN = "run-1"


def open_ledger(factory: StoreFactory) -> Ledger:
    """Open the ledger as another process would."""
    return Ledger(factory(), KINDS, now, lambda: os.urandom(32))


def draft(step: str) -> Draft:
    """Return an entry that says nothing."""
    return Draft(step, "ann", JoinFacts())


def steps(entries: Iterable[RecordedEntry] | None) -> list[str] | None:
    """Return what entries are called."""
    return None if entries is None else [recorded.entry.step for recorded in entries]


@pytest.fixture
def memory() -> RunMemory:
    """Remember nothing yet."""
    return RunMemory(Lineage())


@pytest.fixture
def ledger(store_factory: StoreFactory, memory: RunMemory) -> Ledger:
    """Return a ledger with a run of two entries, whose process remembers it."""
    plain = open_ledger(store_factory)
    plain.open_run(RUN, "ann", draft("first"))
    remembering = plain.with_memory(memory)
    remembering.remember_run(RUN)
    return remembering


def test_what_is_appended_is_remembered(ledger: Ledger, memory: RunMemory) -> None:
    """By one writer or by several, in any strand of the run."""
    ledger.open_strand_at_end(RUN, MAIN_STRAND).append(draft("second"))
    ledger.open_strand(RUN, "task/a").append(draft("begin"), draft("end"))
    joint = ledger.join_appends()
    joint.add(ledger.new_strand(RUN, "task/b"), draft("begin"))
    joint.commit()

    assert steps(memory.read(RUN, MAIN_STRAND)) == ["run/open", "first", "second"]
    assert steps(memory.read(RUN, "task/a", 1)) == ["end"]
    for strand in (MAIN_STRAND, "task/a", "task/b", "task/none"):
        stored = [ledger.kinds.read(data) for data in ledger.store.read_strand(RUN, strand)]
        assert [entry for _, entry in read_strand_entries(ledger, RUN, strand)] == stored
    assert sorted(memory.strands(RUN) or ()) == [MAIN_STRAND, "task/a", "task/b"]
    assert memory.read("another", MAIN_STRAND) is None


def test_strands_of_clients_are_always_read(
    ledger: Ledger, memory: RunMemory, store_factory: StoreFactory
) -> None:
    """Cancellations and decisions come from other processes while the run is driven."""
    other = open_ledger(store_factory)
    for strand in (kinds.CONTROL, kinds.gate_strand("plan")):
        ledger.open_strand(RUN, strand).append(draft("mine"))
        other.open_strand_at_end(RUN, strand).append(draft("theirs"))

        assert memory.read(RUN, strand) is None
        assert steps(ledger.writer.read_entries(RUN, strand)) == ["mine", "theirs"]


def test_an_entry_of_another_process_makes_the_next_append_read_again(
    ledger: Ledger, memory: RunMemory, store_factory: StoreFactory
) -> None:
    """An exclusive append is refused; another one adopts what is there."""
    open_ledger(store_factory).open_strand_at_end(RUN, MAIN_STRAND).append(draft("theirs"))
    writers = [ledger.open_strand_at_end(RUN, MAIN_STRAND) for _ in range(2)]

    with pytest.raises(ConcurrentUpdate):
        writers[0].append_exclusive(draft("mine"))
    assert memory.read(RUN, MAIN_STRAND) is None
    assert steps(ledger.writer.read_entries(RUN, MAIN_STRAND)) == ["run/open", "first", "theirs"]
    assert steps(writers[1].append(draft("theirs"))) == ["theirs"]


def test_a_close_does_not_leave_out_an_entry_of_another_process(
    ledger: Ledger, store_factory: StoreFactory
) -> None:
    """The close lists the ends of all strands: an end that was remembered may not be the last."""
    ledger.open_strand(RUN, "task/a").append(draft("begin"))
    open_ledger(store_factory).open_strand_at_end(RUN, "task/a").append(draft("theirs"))

    with pytest.raises(ConcurrentUpdate):
        ledger.strand_ends(RUN)
    assert [(end.strand, end.n) for end in ledger.strand_ends(RUN)] == [("task/a", 1)]


def test_what_is_committed_while_a_run_is_read_is_not_lost(
    ledger: Ledger, memory: RunMemory
) -> None:
    """Before the read sees it, or after: each entry is remembered once."""
    strand = ledger.open_strand_at_end(RUN, MAIN_STRAND)
    recorded = list(memory.read(RUN, MAIN_STRAND) or ())

    def read_slowly() -> Iterable[RecordedEntry]:
        yield recorded[0]
        strand.append(draft("second"))
        yield recorded[1]

    memory.load(RUN, read_slowly)

    assert steps(memory.read(RUN, MAIN_STRAND)) == ["run/open", "first", "second"]

    def read_late() -> Iterable[RecordedEntry]:
        written = strand.append(draft("third"))
        yield from (*recorded, *(memory_before or ()), *written)

    memory_before = (memory.read(RUN, MAIN_STRAND) or ())[2:]
    memory.load(RUN, read_late)
    assert steps(memory.read(RUN, MAIN_STRAND)) == ["run/open", "first", "second", "third"]


def test_what_follows_from_an_entry_is_made_once(ledger: Ledger, memory: RunMemory) -> None:
    """As long as its run is remembered."""
    source = (memory.read(RUN, MAIN_STRAND) or ())[0]
    made = iter(range(5))
    first = [memory.derive(source, "policy", lambda: next(made)) for _ in range(2)]
    memory.forget(RUN)

    assert first == [0, 0]
    assert [memory.derive(source, "policy", lambda: next(made)) for _ in range(2)] == [1, 2]
    assert memory.strands(RUN) is None
