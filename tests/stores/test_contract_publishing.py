"""The promise of a store about the publisher, kept by every database."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Event

import pytest

from forum.errors import ConcurrentUpdate, IdempotencyKeyUsed, PositionTaken
from forum.ledger.body import text_content
from forum.ledger.kinds import LEDGER_KINDS
from forum.ledger.ports import (
    Amount,
    Effect,
    EndedRun,
    EntryWrite,
    IdempotencyRecord,
    InterruptedRun,
    OpenBudgetAccount,
    PendingEntries,
    Position,
    Store,
    Timer,
    TreeHead,
)
from forum.ledger.sequencer import Sequencer
from forum.stores import sql_appending, sql_queries
from forum.tlog import Checkpoint, Hash, Note, Signature, TileId, Tree
from tests.stores.store_states import note_of, sequence, state
from tests.support import (
    Chain,
    StoreFactory,
    data_of,
    entries_of,
    leaves_of,
    wait_until,
)
from tests.tlog.trees import compute_root, list_tiles


def planned(
    store: Store, limit: int = 100
) -> tuple[TreeHead, TreeHead, PendingEntries, dict[TileId, bytes]]:
    """Return what a sequencer would hand to swap now."""
    batch, old = store.pending_entries(limit), store.head()
    tree = Tree.load(old.size, store.read_tile)
    tiles = tree.extend(batch.leaves)
    return old, TreeHead(tree.size, tree.root()), batch, tiles


def begin(store: Store, run: str, *effects: Effect) -> Chain:
    """Begin a run that has all rows that can stand beside one."""
    chain = Chain(store.origin, run)
    rows = (
        OpenBudgetAccount(run, Amount(9, 9, 9)),
        Timer(run, "main", 1),
        Timer(run, "gate/plan", 2),
        IdempotencyRecord(f"key-{run}", run, "digest"),
        InterruptedRun(run, listed=True),
    )
    store.append([chain.next(text=text_content("x"), effects=(*rows, *effects))])
    return chain


def rows_beside(store: Store) -> tuple[set[str], set[str], set[str], set[str]]:
    """Return the runs that have an account, a timer, an idempotency key, an interruption."""
    return (
        set(store.account_runs("", 100)),
        {timer.run for timer in store.timers(None, 100, due=False)},
        {row.run for row in store.idempotency_rows("", 100)},
        set(store.interrupted_runs("", 100)),
    )


def test_causes_come_before_effects(store_factory: StoreFactory) -> None:
    """Whoever reads the log in order has read the cause of everything, also while many write."""
    writers, done = 4, Event()
    known: list[Hash] = []

    def write(seed: int) -> None:
        store, chance = store_factory(), Random(seed)
        chain = Chain(store.origin, strand=f"{seed}")
        for _ in range(15):
            batch = []
            for _ in range(chance.randint(1, 3)):
                causes = chance.sample(known, min(len(known), 3))
                batch.append(chain.next(*dict.fromkeys(causes)))
            store.append(batch)
            known.extend(record.leaf for record in batch)

    def keep() -> None:
        sequencer = Sequencer(store_factory())
        while not done.is_set():
            sequencer.sequence_batch(5)
        sequencer.drain()

    with ThreadPoolExecutor(writers + 1) as pool:
        keeping = pool.submit(keep)
        list(pool.map(write, range(writers)))
        done.set()
        keeping.result()

    store = store_factory()
    entries = [LEDGER_KINDS.read(data) for data in entries_of(store)]
    index = {leaf.hex(): idx for idx, leaf in enumerate(leaves_of(store))}
    assert index.keys() == {leaf.hex() for leaf in known}
    for idx, entry in enumerate(entries):
        assert all(index[cause] < idx for cause in (*entry.parents, *filter(None, [entry.prev])))


@pytest.mark.parametrize("seed", range(3))
def test_a_batch_is_committed_in_its_order(store_factory: StoreFactory, seed: int) -> None:
    """Whatever runs and strands it spans, old or new, and however the indexes are assigned."""
    store, random = store_factory(), Random(seed)
    chains = [
        Chain(store.origin, run=run, strand=strand)
        for run in "cab"
        for strand in ("main", "z", "a")
    ]
    order: list[EntryWrite] = []
    for size in (1, 5, 20, 2):
        batch = [random.choice(chains).next() for _ in range(size)]
        store.append(batch)
        order += batch
        sequence(store, random.randint(1, 4))
    assert entries_of(store) == data_of(order)


def test_a_swap_moves_the_tree_once(store_factory: StoreFactory) -> None:
    """Two sequencers that saw the same tree: the second is refused, and changes nothing."""
    store, other = store_factory(), store_factory()
    chain = Chain(store_factory.origin)
    store.append(chain.take(3))
    first = planned(store)
    store.append(chain.take(2))
    second = planned(other)
    store.advance_head(*first)
    before = state(store)

    with pytest.raises(ConcurrentUpdate):
        other.advance_head(*second)
    assert state(store) == state(other) == before
    assert leaves_of(store) == [record.leaf for record in chain.records[:3]]


def test_a_swap_does_not_give_an_entry_two_indexes(store_factory: StoreFactory) -> None:
    """A sequencer that saw the entries before, and the tree after, another one's swap."""
    store, other = store_factory(), store_factory()
    store.append(Chain(store_factory.origin).take(3))
    stale = other.pending_entries(100)
    store.advance_head(*planned(store))
    head = other.head()
    tree = Tree.load(head.size, other.read_tile)
    tiles = tree.extend(stale.leaves)
    before = state(store)

    with pytest.raises(ConcurrentUpdate):
        other.advance_head(head, TreeHead(tree.size, tree.root()), stale, tiles)
    assert state(store) == before


def test_own_entries_are_stored_with_the_swap_or_not_at_all(store_factory: StoreFactory) -> None:
    """They come behind the batch and never wait; a taken position leaves everything as it was."""
    store, chain = store_factory(), Chain(store_factory.origin)
    own, taken = Chain(store.origin, "log", "runs"), Chain(store.origin, "log", "other")
    store.append([*chain.take(2), *taken.take(1)])

    def swap(*added: EntryWrite) -> None:
        batch, old = store.pending_entries(100), store.head()
        tree = Tree.load(old.size, store.read_tile)
        tiles = tree.extend([*batch.leaves, *(write.leaf for write in added)])
        store.advance_head(old, TreeHead(tree.size, tree.root()), batch, tiles, own=added)

    before, writes = state(store), own.take(2)
    with pytest.raises(PositionTaken):
        swap(*writes, taken.records[0])
    assert state(store) == before
    assert list(store.read_strand("log", "runs")) == []

    swap(*writes)
    assert entries_of(store) == data_of([*chain.records, *taken.records, *own.records])
    assert store.last_entry("log", "runs") == own.records[-1].data
    assert (store.backlog(), store.pending_span()) == (0, None)
    store.append(chain.take(1))
    swap(own.next())
    assert leaves_of(store)[-2:] == [chain.records[-1].leaf, own.records[-1].leaf]


def test_the_tiles_are_those_of_the_tree_over_all_entries(store_factory: StoreFactory) -> None:
    """However the entries came into batches; smaller trees are read from the same tiles."""
    store, chain = store_factory(), Chain(store_factory.origin)
    for size in (1, 255, 1, 300, 60):
        store.append(chain.take(size))
    sequence(store, 1, 3, 251, 256, 2)
    leaves = [record.leaf for record in chain.records]
    tiles = Tree().extend(leaves)

    assert store.head() == TreeHead(617, compute_root(leaves))
    for size in (1, 2, 255, 256, 257, 512, 617):
        for tile, width in list_tiles(size):
            assert store.read_tile(tile, width) == tiles[tile][: 32 * width]
    assert store.read_tile(TileId(5, 0), 1) == b""


def test_checkpoints_are_kept_by_size(
    store_factory: StoreFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for each size; more cosignatures replace fewer, never the other way round."""
    monkeypatch.setattr(sql_queries, "PAGE_ROWS", 2)
    store = store_factory()
    store.append(Chain(store_factory.origin).take(9))
    sequence(store)
    notes = {size: note_of(store_factory.origin, size) for size in (0, 3, 5, 7, 9)}
    longer = note_of(store_factory.origin, 3, "own", "w/1")
    for size, note in [*notes.items(), (3, longer), (3, b"!")]:
        store.save_checkpoint(size, note)
    notes[3] = longer
    # Of another size, and beyond the tree: the verifier reports them.
    store.save_checkpoint(8, notes[7])
    store.save_checkpoint(12, note_of(store_factory.origin, 12))
    reader = store_factory()

    assert list(reader.checkpoints(0))[:3] == [notes[0], notes[3], notes[5]]
    assert list(reader.checkpoints(4))[:2] == [notes[5], notes[7]]
    assert reader.checkpoint() == notes[9]
    assert [reader.checkpoint(most) for most in (0, 2, 3, 8, 9, 10)] == [
        notes[size] for size in (0, 0, 3, 7, 9, 9)
    ]


def test_what_two_processes_heard_of_the_witnesses_is_stored_together(
    store_factory: StoreFactory,
) -> None:
    """A recorded cosignature is missed from then on, so no process may overwrite another's."""
    text = str(Checkpoint(store_factory.origin, 3, Hash(bytes(32))))
    writer = store_factory()
    writer.append(Chain(store_factory.origin).take(3))
    sequence(writer)
    own, first, second = (
        Signature(name, b"keys", b"s" * 64) for name in ("own", "w/1", "w/longer")
    )
    one, other = store_factory(), store_factory()
    one.save_checkpoint(3, Note(text, (own,)).encode())
    one.save_checkpoint(3, Note(text, (own, first)).encode())
    other.save_checkpoint(3, Note(text, (own, second)).encode())
    stored = Note.parse(one.checkpoint() or b"")

    assert set(stored.signatures) == {own, first, second}


def test_entries_wait_until_they_have_an_index(store_factory: StoreFactory) -> None:
    """The backlog is what pushes writers back; it must count what waits and nothing else."""
    store, other = store_factory(), store_factory.beside()
    stranger = other()
    chain = Chain(store_factory.origin)
    sizes = []
    for size in (3, 2, 4):
        store.append(chain.take(size))
        stranger.append(Chain(other.origin, f"{size}").take(50))
        sizes.append(store.backlog())
    Sequencer(store).sequence_batch(5)
    sizes.append(store.backlog())
    unsequenced = list(store.unsequenced_entries())
    sequence(store)
    sizes.append(store.backlog())
    other.close()

    assert sizes == [3, 5, 9, 4, 0]
    assert unsequenced == data_of(chain.records[5:])
    assert list(store.unsequenced_entries()) == []


def test_a_long_backlog_is_estimated_from_its_ends(
    store_factory: StoreFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked at four times a second: with the sequencer away, that must not take longer."""
    monkeypatch.setattr(sql_appending, "_SAMPLE_ROWS", 10)
    store, other = store_factory(), store_factory.beside()
    stranger, chain = other(), Chain(store_factory.origin)
    strange = Chain(other.origin)
    estimates = []
    for waiting in range(1, 61):
        store.append(chain.take(2))
        if waiting % 3 == 0:
            stranger.append(strange.take(2))
        if waiting % 10 == 0:
            estimates.append(store.backlog() / (2 * waiting))
    other.close()

    assert all(0.7 < estimate < 1.4 for estimate in estimates)


def test_a_long_backlog_may_go_while_it_is_estimated(
    store_factory: StoreFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The estimate reads twice, and a sequencer commits at any time: also between the two."""
    monkeypatch.setattr(sql_appending, "_SAMPLE_ROWS", 10)
    store, chain = store_factory(), Chain(store_factory.origin)
    for _ in range(30):
        store.append(chain.take(1))
    # Another process acts between two statements.
    fetch_rows: Callable[..., object] = getattr(store, "_fetch_rows")  # noqa: B009

    def fetch_late(query: str, **parameters: object) -> object:
        if query == "newest_pending":
            sequence(store)
        return fetch_rows(query, **parameters)

    monkeypatch.setattr(store, "_fetch_rows", fetch_late)

    assert store.backlog() == 0


def test_batches_are_no_larger_than_asked_but_by_one_commit(store_factory: StoreFactory) -> None:
    """A sequencer that could be made to take everything at once would hold everything at once."""
    store, chain = store_factory(), Chain(store_factory.origin)
    for _ in range(10):
        store.append(chain.take(3))
    lengths = [len(store.pending_entries(limit).leaves) for limit in (1, 3, 4, 30, 100)]

    assert all(limit <= n < limit + 3 for limit, n in zip((1, 3, 4, 30), lengths, strict=False))
    assert lengths[-1] == 30


def test_some_process_may_always_lead(store_factory: StoreFactory) -> None:
    """And when it is gone, another one: entries must not wait for a process that is dead."""
    store, other = store_factory(), store_factory()
    held = store.try_lead()
    store.close()

    assert held
    wait_until(other.try_lead)  # a database notices some time later that a process has gone
    assert other.try_lead()


def test_what_stands_beside_an_ended_run_is_deleted_after_a_time(
    store_factory: StoreFactory,
) -> None:
    """And nothing else: neither what is recorded, nor what stands beside runs that go on."""
    store, beside = store_factory(), store_factory.beside()()
    ended, _ = begin(store, "ended"), begin(store, "open")
    store.append([ended.next(effects=(EndedRun("ended"),))])
    other = begin(beside, "ended")
    beside.append([other.next(effects=(EndedRun("ended"),))])
    before = rows_beside(store)
    early = store.clean_up(3600, 100)
    kept = rows_beside(store)
    cleaned = [store.clean_up(0, 100), store.clean_up(0, 100)]

    assert before == kept == ({"ended", "open"},) * 4
    assert (early, cleaned) == (0, [1, 0])
    assert rows_beside(store) == ({"open"},) * 4
    assert rows_beside(beside) == ({"ended"},) * 4
    assert list(store.read_strand("ended", "main")) == data_of(ended.records)
    assert store.body(Position("ended", "main", 0), "text") is not None


def test_a_clean_up_is_done_in_small_batches(store_factory: StoreFactory) -> None:
    """The longest ended come first, and a transaction never deletes the rows of very many."""
    store = store_factory()
    for number in range(5):
        run = f"run-{number}"
        store.append([begin(store, run).next(effects=(EndedRun(run),))])
    counts: list[int] = []
    while not counts or counts[-1]:
        counts.append(store.clean_up(0, 2))

    assert counts == [2, 2, 1, 0]
    assert rows_beside(store) == (set(),) * 4


def test_a_child_keeps_its_account_until_its_parent_has_ended(
    store_factory: StoreFactory,
) -> None:
    """The parent pays what the account of the child says, however late it comes to read it."""
    store = store_factory()
    parent, child = begin(store, "parent"), begin(store, "child")
    store.append([child.next(effects=(EndedRun("child", "parent"),))])
    while_open = store.clean_up(0, 100), store.account("child") is not None
    store.append([parent.next(effects=(EndedRun("parent"),))])
    after = store.clean_up(0, 100)

    assert while_open == (1, True)
    assert after == 2
    assert rows_beside(store) == (set(),) * 4


def test_a_child_is_cleaned_up_after_its_parent(store_factory: StoreFactory) -> None:
    """A parent of which nothing is left has ended."""
    store = store_factory()
    parent, child = begin(store, "parent"), begin(store, "child")
    store.append([parent.next(effects=(EndedRun("parent"),))])
    store.clean_up(0, 100)
    store.append([child.next(effects=(EndedRun("child", "parent"),))])

    assert store.clean_up(0, 100) == 1
    assert rows_beside(store) == (set(),) * 4


def test_a_key_can_be_used_again_after_the_clean_up(store_factory: StoreFactory) -> None:
    """However many ask for it at that moment, one of them gets it."""
    stores = [store_factory() for _ in range(3)]
    store = stores[0]
    store.append([begin(store, "old").next(effects=(EndedRun("old"),))])

    def ask(number: int) -> str:
        if number == 3:
            store.clean_up(0, 100)
        run = f"new-{number}"
        record = Chain(store.origin, run).next(effects=(IdempotencyRecord("key-old", run, "d"),))
        try:
            stores[number % len(stores)].append([record])
        except IdempotencyKeyUsed as asked:
            return asked.run
        return run

    with ThreadPoolExecutor(6) as threads:
        told = set(threads.map(ask, range(12)))

    (row,) = store.idempotency_rows("", 10)
    assert told <= {"old", row.run}
    assert row.run != "old"


def test_two_clean_ups_at_once_delete_everything_once(store_factory: StoreFactory) -> None:
    """Two processes may both believe that they lead."""
    stores = [store_factory() for _ in range(3)]
    for number in range(30):
        run = f"run-{number}"
        stores[0].append([begin(stores[0], run).next(effects=(EndedRun(run),))])

    def clean(store: Store) -> int:
        done = 0
        while count := store.clean_up(0, 4):
            done += count
        return done

    with ThreadPoolExecutor(3) as threads:
        counts = list(threads.map(clean, stores))
    while stores[0].clean_up(0, 100):  # rows that another one had locked were skipped
        pass

    assert sum(counts) <= 30
    assert rows_beside(stores[0]) == (set(),) * 4


def test_a_run_that_was_not_committed_has_not_ended(store_factory: StoreFactory) -> None:
    """The end is listed in the commit of the entry that closes the run, or not at all."""
    store = store_factory()
    chain, late = begin(store, "run"), Chain(store.origin, "run")
    late.records = chain.records[:1]
    store.append([chain.next()])
    with pytest.raises(PositionTaken):
        store.append([late.next(effects=(EndedRun("run"),))])

    assert store.clean_up(0, 100) == 0
    assert rows_beside(store) == ({"run"},) * 4
