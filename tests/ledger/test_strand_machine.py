"""Writers that crash, hesitate and come back, on a real store: a strand is still written once.

The machine plays several writers on two strands, and two sequencers.  A writer may fail before
its commit or after it without hearing of it, be overtaken and go on as if nothing had happened,
or be replaced by a new one that plays the record.  After each step the whole log is read through
another connection, and must be one history.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from forum.errors import ConcurrentUpdate, PositionTaken, StepMismatch, StoreConnectionLost
from forum.ledger.entry import leaf_of
from forum.ledger.kinds import LEDGER_KINDS, NoteFacts
from forum.ledger.ports import EntryWrite, PendingEntries, Store, TreeHead
from forum.ledger.sequencer import Sequencer
from forum.ledger.strand import Draft, RecordedEntry, Strand
from forum.tlog import Hash, TileId, Tree
from tests.support import StoreFactory, data_of, entries_of, ledger_on
from tests.tlog.trees import compute_root

RUN = "run"
STRANDS = ["main", "side"]
FATES = ["commits", "fails", "fails but persists"]

Plan = tuple[TreeHead, TreeHead, PendingEntries, dict[TileId, bytes]]


@dataclass
class Writer:
    """A process that holds a strand: what it has done, and what becomes of its next commit."""

    name: str
    strand: Strand
    done: int = 0
    fate: str = "commits"

    def record(self, steps: Sequence[str]) -> list[RecordedEntry]:
        """Do these steps: play those that are recorded, and record the others all at once."""
        played: list[RecordedEntry] = []
        for step in steps:
            found = self.strand.replay_step(step)
            if found is None:
                break
            played.append(found)
        self.done += len(played)
        drafts = [Draft(step, self.name, NoteFacts()) for step in steps[len(played) :]]
        recorded = self.strand.append(*drafts) if drafts else ()
        self.done += len(recorded)
        return [*played, *recorded]


def expected_error(recorded: list[str], loaded: int, steps: list[str]) -> type[Exception] | None:
    """Return what a writer must be told that wants these steps where others are recorded.

    So many of the recorded it knows of already; the rest it finds when its position is taken.
    """
    if any(text != asked for text, asked in zip(recorded, steps, strict=False)):
        return StepMismatch
    return ConcurrentUpdate if loaded < len(recorded) < len(steps) else None


class StrandMachine(RuleBasedStateMachine):
    """A small world of writers and sequencers over one log."""

    writers = Bundle("writers")

    def __init__(self, open_factory: Callable[[], StoreFactory]) -> None:
        super().__init__()
        self.factory = open_factory()
        self.stores = [self.factory() for _ in range(2)]
        self.reader = self.factory()
        self.sequencers = [Sequencer(store) for store in self.stores]
        self.acknowledged: dict[tuple[str, int], Hash] = {}
        self.fenced_off: set[bytes] = set()
        self.seen: PendingEntries | None = None
        self.plan: Plan | None = None
        self.names = count()

    def teardown(self) -> None:
        """Close every connection."""
        self.factory.close()

    def stored(self, strand: str) -> list[bytes]:
        """Return what is recorded in a strand."""
        return list(self.reader.read_strand(RUN, strand))

    def started(self, strand: str, process: int) -> Writer:
        """Return a writer that has just read the record of its strand."""
        store = self.stores[process]

        def append(records: Sequence[EntryWrite]) -> None:
            self.commit(writer, store, records)

        writer = Writer(f"w{next(self.names)}", ledger_on(store, append).open_strand(RUN, strand))
        return writer

    @initialize(target=writers, strand=st.sampled_from(STRANDS))
    def begin(self, strand: str) -> Writer:
        """Have a writer from the start."""
        return self.started(strand, 0)

    @rule(target=writers, strand=st.sampled_from(STRANDS), process=st.integers(0, 1))
    def arrive(self, strand: str, process: int) -> Writer:
        """Let somebody else take up a strand where its record ends, having played all of it."""
        writer = self.started(strand, process)
        steps = [LEDGER_KINDS.read(data).step for data in self.stored(strand)]
        for n, recorded in enumerate(writer.record(steps)):
            self.acknowledge(strand, n, recorded)
        return writer

    def commit(self, writer: Writer, store: Store, records: Sequence[EntryWrite]) -> None:
        """Commit for a writer, or fail as its fate has it."""
        if writer.fate == "fails":
            raise StoreConnectionLost("appending", "the connection broke before the commit")
        try:
            store.append(records)
        except PositionTaken:
            self.fenced_off.update(data_of(records))
            raise
        if writer.fate == "fails but persists":
            raise StoreConnectionLost("appending", "the connection broke after the commit")

    @rule(
        writer=writers,
        names=st.lists(st.sampled_from(["step", "step", "step", "odd"]), min_size=1, max_size=3),
        fate=st.sampled_from(FATES),
    )
    def write(self, writer: Writer, names: list[str], fate: str) -> None:
        """Let a writer go on from where it believes to be, however long ago that was true."""
        strand, at = writer.strand, writer.done
        loaded = writer.strand.length - writer.done
        steps = [f"{name}/{n}" for n, name in enumerate(names, at)]
        before = self.stored(strand.name)
        ahead = [LEDGER_KINDS.read(data).step for data in before[at:]]
        writer.fate, error = fate, None
        try:
            for n, recorded in enumerate(writer.record(steps), at):
                self.acknowledge(strand.name, n, recorded)
        except StoreConnectionLost:
            persisted = max(0, len(steps) - loaded) if fate == "fails but persists" else 0
            assert fate != "commits"
            assert len(self.stored(strand.name)) == len(before) + persisted
            return
        except (ConcurrentUpdate, StepMismatch) as concurrent_update:
            # It stops, and is started again.
            error = type(concurrent_update)
            writer.strand, writer.done = self.started(strand.name, 0).strand, 0

        assert error is expected_error(ahead, loaded, steps)
        if error is not None:
            assert self.stored(strand.name) == before

    def acknowledge(self, strand: str, n: int, recorded: RecordedEntry) -> None:
        """Remember what a writer was told; it may be told the same again, and nothing else."""
        assert recorded.entry.n == n
        assert self.acknowledged.setdefault((strand, n), recorded.leaf) == recorded.leaf

    @rule(process=st.integers(0, 1), limit=st.integers(1, 5))
    def sequence(self, process: int, limit: int) -> None:
        """Let a sequencer do one step."""
        self.sequencers[process].sequence_batch(limit)

    @rule(limit=st.integers(1, 5))
    def look(self, limit: int) -> None:
        """Let a slow sequencer see what waits ..."""
        self.seen, self.plan = self.stores[1].pending_entries(limit), None

    @precondition(lambda self: self.seen is not None and self.seen.leaves)
    @rule()
    def compute(self) -> None:
        """... then, some time later, what the tree is ..."""
        assert self.seen is not None
        old = self.stores[1].head()
        tree = Tree.load(old.size, self.stores[1].read_tile)
        tiles = tree.extend(self.seen.leaves)
        self.plan = (old, TreeHead(tree.size, tree.root()), self.seen, tiles)

    @precondition(lambda self: self.plan is not None)
    @rule()
    def swap(self) -> None:
        """... and then swap, if it is still allowed to."""
        assert self.plan is not None
        old, new, batch, _ = self.plan
        before = self.reader.head(), [data for data in self.reader.unsequenced_entries() if data]
        first = [leaf_of(data) for data in before[1][: len(batch.leaves)]]
        try:
            self.stores[1].advance_head(*self.plan)
        except ConcurrentUpdate:
            assert (before[0], first) != (old, list(batch.leaves))
            assert (self.reader.head(), list(self.reader.unsequenced_entries())) == before
        else:
            assert (before[0], first) == (old, list(batch.leaves))
            assert self.reader.head() == new
        self.seen = self.plan = None

    @invariant()
    def each_strand_is_one_chain(self) -> None:
        """No gap, no fork, every link to the entry before."""
        for name in STRANDS:
            prev = ""
            for n, data in enumerate(self.stored(name)):
                entry = LEDGER_KINDS.read(data)
                assert (entry.n, entry.prev) == (n, prev)
                prev = leaf_of(data).hex()

    @invariant()
    def what_was_acknowledged_is_there_once(self) -> None:
        """At the position for which it was acknowledged, and nowhere else."""
        stored = {name: [leaf_of(data) for data in self.stored(name)] for name in STRANDS}
        for (strand, n), leaf in self.acknowledged.items():
            assert stored[strand][n] == leaf
            assert sum(leaves.count(leaf) for leaves in stored.values()) == 1

    @invariant()
    def the_tree_is_over_the_entries(self) -> None:
        """Every entry has one index or waits; the root is that of the leaves in their order."""
        sequenced = entries_of(self.reader)
        waiting = [data for data in self.reader.unsequenced_entries() if data]
        stored = [data for name in STRANDS for data in self.stored(name)]
        document: dict[str, list[bytes]] = {name: [] for name in STRANDS}
        for data in (*sequenced, *waiting):
            document[LEDGER_KINDS.read(data).strand].append(data)

        assert self.reader.head().root == compute_root([leaf_of(data) for data in sequenced])
        assert sorted([*sequenced, *waiting]) == sorted(stored)
        assert all(document[name] == self.stored(name) for name in STRANDS)

    @invariant()
    def nobody_writes_behind_a_successor(self) -> None:
        """Refused once is refused for ever: the bytes of a zombie are in no log."""
        stored = {data for name in STRANDS for data in self.stored(name)}

        assert not stored & self.fenced_off


def play(open_factory: Callable[[], StoreFactory], examples: int) -> None:
    """Let the machine run."""
    run_state_machine_as_test(
        lambda: StrandMachine(open_factory),  # type: ignore[arg-type]  # any maker of one will do
        settings=settings(
            max_examples=examples, stateful_step_count=30, report_multiple_bugs=False
        ),
    )


def test_a_strand_is_written_once_in_sqlite(tmp_path: Path) -> None:
    """The position is the fence: no crash and no zombie makes two histories of one strand."""
    numbers = count()

    play(lambda: StoreFactory(tmp_path / f"{next(numbers)}.db"), examples=40)


@pytest.mark.postgres
def test_a_strand_is_written_once_in_postgres(postgres_url: str) -> None:
    """The same where many processes write, and indexes are given to what others committed."""
    play(lambda: StoreFactory(postgres_url), examples=6)
