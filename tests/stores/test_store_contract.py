"""The promise of a Store, kept by every database in the same way."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Event

import pytest

from forum.engine.context import JoinedContent
from forum.errors import BudgetExceeded, ConcurrentUpdate, IdempotencyKeyUsed, PositionTaken
from forum.ledger import ports
from forum.ledger.body import CHUNK_SIZE, BytesContent, text_content
from forum.ledger.kinds import LEDGER_KINDS
from forum.ledger.ports import (
    NO_LIMIT,
    Amount,
    BudgetAccount,
    BudgetCharge,
    Effect,
    EndedRun,
    EntryWrite,
    IdempotencyRecord,
    InterruptedRun,
    OpenBudgetAccount,
    PendingEntries,
    Position,
    RunClaim,
    RunSummaryRow,
    Store,
    Timer,
    TimerClaim,
    TreeHead,
)
from forum.ledger.sequencer import Sequencer
from forum.stores import postgres_appending, sql_appending, sql_queries
from forum.stores.group_commit import GroupCommitter
from forum.stores.postgres import PostgresStore
from forum.tlog import EMPTY_ROOT, Checkpoint, Hash, Note, Signature, TileId, Tree
from tests.support import (
    Chain,
    Pieces,
    StoreFactory,
    Wrapped,
    data_of,
    entries_of,
    leaves_of,
    wait_until,
)
from tests.tlog.trees import compute_root, list_tiles

CALL = BudgetCharge("run", Amount(calls=1))


def sequence(store: Store, *limits: int) -> None:
    """Give indexes in batches of at most these sizes, and then to what is left."""
    sequencer = Sequencer(store)
    for limit in limits:
        sequencer.sequence_batch(limit)
    sequencer.drain()


def planned(
    store: Store, limit: int = 100
) -> tuple[TreeHead, TreeHead, PendingEntries, dict[TileId, bytes]]:
    """Return what a sequencer would hand to swap now."""
    batch, old = store.pending_entries(limit), store.head()
    tree = Tree.load(old.size, store.read_tile)
    tiles = tree.extend(batch.leaves)
    return old, TreeHead(tree.size, tree.root()), batch, tiles


def state(store: Store) -> tuple[object, ...]:
    """Return all that a swap could change."""
    head = store.head()
    tiles = [store.read_tile(tile, width) for tile, width in list_tiles(head.size)]
    numberses = [store.find_by_prefix(leaf[:8]) for leaf in leaves_of(store)]
    return (
        head,
        tiles,
        numberses,
        list(store.entries(0, head.size + 10)),
        list(store.unsequenced_entries()),
    )


def beside(store: Store, *runs: str) -> tuple[object, ...]:
    """Return all that effects could change."""
    return *(store.account(run) for run in runs), *store.timers(None, 100, due=False)


class TornContent:
    """Content that fails in the middle."""

    size = 2 * CHUNK_SIZE

    def chunks(self) -> Iterator[bytes]:
        """Read the first half."""
        yield bytes(CHUNK_SIZE)
        raise OSError(5, "Input/output error")


def test_a_new_log_is_empty(store_factory: StoreFactory) -> None:
    """And stays so when it is opened again."""
    store_factory()
    store = store_factory()

    assert store.origin == store_factory.origin
    assert store.head() == TreeHead(0, EMPTY_ROOT)
    assert store.pending_entries(10).leaves == []
    assert store.checkpoint() is None
    assert store.last_entry("run", "main") is None
    assert list(store.entries(0, 2)) == [None, None]
    assert [
        *store.read_strand("run", "main"),
        *store.unsequenced_entries(),
        *store.checkpoints(),
    ] == []
    assert store.strands("run") == store.runs("", 10) == []
    assert store.backlog() == 0


def test_what_was_appended_is_there_for_every_process(store_factory: StoreFactory) -> None:
    """An acknowledgement is a promise to everybody, not to the process that heard it."""
    store, chain = store_factory(), Chain(store_factory.origin)
    store.append(chain.take(2))
    store.append(chain.take(1))
    other = store_factory()

    assert list(other.read_strand("run", "main")) == data_of(chain.records)
    assert list(other.unsequenced_entries()) == data_of(chain.records)
    assert other.backlog() == 3


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_a_batch_with_a_taken_position_leaves_nothing(
    store_factory: StoreFactory, taken: int
) -> None:
    """All or none, in all of its strands; half a batch would be a step that nobody took."""
    store, other = store_factory(), store_factory()
    origin = store_factory.origin
    winners = [Chain(origin, "run", name) for name in "abc"]
    losers = [Chain(origin, "run", name) for name in "abc"]
    other.append([winners[taken].next()])
    batch = [chain.next(text=text_content("late")) for chain in losers]

    with pytest.raises(PositionTaken):
        store.append(batch)
    assert list(store.unsequenced_entries()) == data_of(winners[taken].records)
    assert all(store.body(record.position, "text") is None for record in batch)
    assert store.strands("run") == ["abc"[taken]]


def test_an_append_that_fails_on_the_way_leaves_nothing(store_factory: StoreFactory) -> None:
    """A body that cannot be read to its end takes its whole batch with it, and no more."""
    store, torn = store_factory(), Chain(store_factory.origin)
    batch = [torn.next(text=text_content("whole")), torn.next()]
    body = torn.next(text=text_content("torn")).bodies[0]
    broken = EntryWrite(
        torn.records[2].position,
        torn.records[2].data,
        torn.records[2].leaf,
        (type(body)(body.name, body.type, TornContent(), body.salt),),
    )

    with pytest.raises(OSError, match="Input/output"):
        store.append([*batch, broken])
    assert list(store.unsequenced_entries()) == []
    store.append(torn.records)
    assert list(store.read_strand("run", "main")) == data_of(torn.records)


def test_a_position_is_taken_once_whoever_races_for_it(store_factory: StoreFactory) -> None:
    """The position is the fence: of many writers one wins, and the others are told."""
    stores = [store_factory() for _ in range(4)]

    def race(store: Store, n: int) -> bytes | None:
        chain = Chain(store.origin)
        chain.take(n)
        record = chain.next(text=text_content(f"{id(store)}"))
        try:
            store.append([record])
        except PositionTaken:
            return None
        return record.data

    with ThreadPoolExecutor(4) as pool:
        results = [list(pool.map(race, stores, [n] * 4)) for n in range(10)]

    winners = [[data for data in result if data] for result in results]
    assert [len(data) for data in winners] == [1] * 10
    assert list(stores[0].read_strand("run", "main")) == [data for [data] in winners]


@pytest.mark.parametrize("refusal", [PositionTaken, BudgetExceeded])
def test_one_that_is_refused_does_not_cost_the_others_of_its_group(
    store_factory: StoreFactory, refusal: type[Exception]
) -> None:
    """A group is a matter of speed only: what is all or none is one append."""
    store, origin, begun, gate = store_factory(), store_factory.origin, Event(), Event()
    sizes: list[int] = []

    def append(records: Sequence[EntryWrite]) -> None:
        begun.set()
        gate.wait()
        sizes.append(len(records))
        store.append(records)

    refused, early = Chain(origin, strand="refused"), Chain(origin, strand="refused")
    others = [Chain(origin, strand=f"{n}") for n in range(3)]
    store.append([early.next(effects=(OpenBudgetAccount("run", Amount(calls=5)),))])
    if refusal is BudgetExceeded:
        refused.take(1)
    asks = [[chain.next(effects=(CALL,)), *chain.take(1)] for chain in others]
    asks.insert(
        1, [*refused.take(1), refused.next(effects=(BudgetCharge("run", Amount(calls=6)),))]
    )
    committer = GroupCommitter(Wrapped(store, append=append))
    first = committer.submit(Chain(origin, strand="first").take(1))
    begun.wait()
    futures = [committer.submit(records) for records in asks]
    gate.set()
    committer.close()

    assert sizes == [1, 8, 4, 2, 2, 4]
    assert [type(future.exception()) for future in (first, *futures)] == [
        type(None),
        type(None),
        refusal,
        type(None),
        type(None),
    ]
    assert list(store.read_strand("run", "refused")) == data_of(early.records)
    for chain in others:
        assert list(store.read_strand("run", chain.strand)) == data_of(chain.records)
    assert store.account("run") == BudgetAccount(Amount(calls=5), Amount(calls=3))


def test_causes_come_before_effects(store_factory: StoreFactory) -> None:
    """Whoever reads the log in order has read the cause of everything, also while many write."""
    writers, done = 4, Event()
    hashes: list[Hash] = []

    def write(seed: int) -> None:
        store, chance = store_factory(), Random(seed)
        chain = Chain(store.origin, strand=f"{seed}")
        for _ in range(15):
            batch = []
            for _ in range(chance.randint(1, 3)):
                causes = chance.sample(hashes, min(len(hashes), 3))
                batch.append(chain.next(*dict.fromkeys(causes)))
            store.append(batch)
            hashes.extend(record.leaf for record in batch)

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
    assert index.keys() == {leaf.hex() for leaf in hashes}
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


def test_entries_are_read_across_all_borders(
    store_factory: StoreFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From anywhere to anywhere, whatever batches and pages lie between; none behind the end."""
    monkeypatch.setattr(sql_queries, "PAGE_ROWS", 10)
    store = store_factory()
    chains = [Chain(store_factory.origin, strand=name) for name in "ab"]
    for size in (1, 4, 2, 9):
        store.append([record for chain in chains for record in chain.take(size)])
    sequence(store, 1, 7, 3)
    store.append(chains[0].take(1))
    entries = list(store.entries(0, 32))

    assert set(entries) == set(data_of([*chains[0].records[:-1], *chains[1].records]))
    for start in range(34):
        for stop in range(start, 36):
            assert list(store.entries(start, stop)) == [*entries, *[None] * 4][start:stop]


def test_an_entry_is_found_by_the_beginning_of_its_id(store_factory: StoreFactory) -> None:
    """Also in the half of all ids whose first bit is set, which databases take for a sign."""
    store, chain = store_factory(), Chain(store_factory.origin)
    store.append(chain.take(600))
    sequence(store, 100)
    leaves = [record.leaf for record in chain.records]

    assert {leaf[0] >> 7 for leaf in leaves} == {0, 1}
    for leaf in leaves[::13]:
        for length in range(1, 9):
            idxes = [idx for idx, other in enumerate(leaves) if other[:length] == leaf[:length]]
            assert store.find_by_prefix(leaf[:length]) == idxes
    assert store.find_by_prefix(b"\x80") == [
        idx for idx, leaf in enumerate(leaves) if leaf[0] == 0x80
    ]


def test_strands_are_read_with_and_without_indexes(
    store_factory: StoreFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that takes up a strand finds all of it, from wherever it asks, page by page."""
    monkeypatch.setattr(sql_queries, "PAGE_ROWS", 3)
    store, origin = store_factory(), store_factory.origin
    chains = [Chain(origin, run, name) for run in ("r1", "r2") for name in ("main", "Z", "a/b")]
    for chain in chains:
        store.append(chain.take(4))
    sequence(store)
    store.append(chains[0].take(3))
    reader = store_factory()

    for chain in chains:
        for start in range(9):
            strand = list(reader.read_strand(chain.run, chain.strand, start))
            assert strand == data_of(chain.records)[start:]
        assert reader.last_entry(chain.run, chain.strand) == chain.records[-1].data
    assert sorted(reader.strands("r1")) == ["Z", "a/b", "main"]
    assert [*reader.strands("r3"), *reader.read_strand("r3", "main")] == []
    assert reader.last_entry("r1", "other") is None


@pytest.mark.parametrize("page", [1, 3, 1000])
def test_a_run_is_read_whole_as_its_strands_are_read_one_by_one(
    store_factory: StoreFactory, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    """Many strands are one look; where pages end, nothing is left out and nothing comes twice."""
    monkeypatch.setattr(sql_queries, "PAGE_ROWS", page)
    monkeypatch.setattr(sql_queries, "MAX_SMALL_BODY_BYTES", 4)
    store, other = store_factory(), Chain(store_factory.origin, "other")
    chains = [Chain(store.origin, "run", f"s{nth}") for nth in range(6)]
    contents = [
        None,
        text_content("tiny"),
        text_content("too large to come along"),
        BytesContent(b""),
        JoinedContent((text_content("two"), text_content("part"))),
    ]
    for nth, chain in enumerate(chains):
        store.append([chain.next(text=contents[n]) for n in range(nth)] or [other.next()])
    records = [record for chain in chains for record in chain.records]
    bodies = {(r.position, body.name): body for r in records for body in r.bodies}

    assert list(store.entries_of_run("run")) == [(r.position, r.data) for r in records]
    assert store.strand_lengths("run") == {f"s{nth}": nth for nth in range(1, 6)}
    ends = store.last_entries([("run", "s3"), ("run", "none"), ("other", "main"), ("run", "s5")])
    assert ends == [
        chains[3].records[-1].data,
        None,
        other.records[-1].data,
        chains[5].records[-1].data,
    ]
    document = {(at, name): body for at, name, body in store.bodies_of_run("run")}
    assert document.keys() == bodies.keys()
    for key, body in document.items():
        assert body.salt == bodies[key].salt
        assert b"".join(body.read()) == b"".join(bodies[key].content.chunks())
    *picked, absent = store.bodies_at([*bodies, (Position("run", "s4", 0), "text")])
    assert absent is None
    for stored, written in zip(picked, bodies.values(), strict=True):
        assert stored is not None
        assert stored.salt == written.salt
        assert b"".join(stored.read()) == b"".join(written.content.chunks())
    places = [("s4", 3), ("s1", 0), ("s1", 1), ("none", 0), ("s4", 0)]
    data = [chains[4].records[3].data, chains[1].records[0].data, None, None]
    assert store.entries_at("run", places) == [*data, chains[4].records[0].data]
    assert [list(store.entries_of_run("none")), store.strand_lengths("none")] == [[], {}]


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


def test_runs_are_listed_in_pages(store_factory: StoreFactory) -> None:
    """Forwards by their names as bytes; backwards by their creation, whatever their names are.

    Ids of runs that programs report need not sort by time.
    """
    store, names = store_factory(), ["0190", "0191", "A", "Z", "a", "log", "~"]
    created = ["a", "0191", "~", "0190", "log", "Z", "A"]
    for name in created:
        for strand in ("main", "side"):
            chain = Chain(store_factory.origin, name, strand)
            if store.last_entry(name, strand) is None:
                store.append(chain.take(1))
    pages, backwards = [store.runs("", 3)], [store.runs_before(None, 3)]
    while pages[-1]:
        pages.append(store.runs(pages[-1][-1], 3))
        backwards.append(store.runs_before(backwards[-1][-1], 3))

    assert pages == [names[:3], names[3:6], names[6:], []]
    assert backwards == [created[:3:-1], created[3:0:-1], created[:1], []]
    assert store.runs_before("none", 3) == []


@pytest.mark.parametrize("size", [0, 1, CHUNK_SIZE, CHUNK_SIZE + 1, 3 * CHUNK_SIZE + 17])
def test_a_body_comes_back_as_it_was(store_factory: StoreFactory, size: int) -> None:
    """Piece by piece and more than once, with the salt that its commitment needs."""
    store, chain = store_factory(), Chain(store_factory.origin)
    record = chain.next(text=Pieces(size) if size else BytesContent(b""))
    store.append([record])
    body = store_factory().body(record.position, "text")
    commitment = record.bodies[0].commitment()

    assert body is not None
    assert list(body.read()) == list(body.read()) == list(record.bodies[0].content.chunks())
    assert body.matches(commitment)
    assert store.body(record.position, "other") is None
    assert store.body(Position("run", "main", 1), "text") is None
    assert store.body(Position("run", "other", 0), "text") is None


def test_a_body_may_hold_any_bytes(store_factory: StoreFactory) -> None:
    """Line separators that broke a ledger of lines, nul bytes, and what is no text at all."""
    store, chain = store_factory(), Chain(store_factory.origin)
    contents = ["\u2028\u2029\u0085\r\n\x0b\x00".encode(), bytes(range(256)), b"\xff\xfe\\x00'%s"]
    records = [chain.next(text=BytesContent(content)) for content in contents]
    store.append(records)
    bodies = [store.body(record.position, "text") for record in records]

    assert [b"".join(body.read()) for body in bodies if body] == contents


def test_an_erased_body_is_gone_and_nothing_else(store_factory: StoreFactory) -> None:
    """Its entry stays provable, its neighbours stay readable, and erasing twice is no error."""
    store, chain = store_factory(), Chain(store_factory.origin)
    records = [chain.next(text=Pieces(2 * CHUNK_SIZE + n)) for n in range(3)]
    store.append(records)
    sequence(store)
    before = state(store)
    for _ in range(2):
        store.erase_bodies([(records[1].position, "text")])
    store.erase_bodies([(Position("run", "nowhere", 0), "text")])
    reader = store_factory()

    assert reader.body(records[1].position, "text") is None
    assert state(reader) == before
    for record in (records[0], records[2]):
        body = reader.body(record.position, "text")
        assert body is not None
        assert body.matches(record.bodies[0].commitment())


def note_of(origin: str, size: int, *names: str) -> bytes:
    """Return a note about a tree of this size, with signatures that nobody checks here."""
    text = str(Checkpoint(origin, size, Hash(bytes(32)) if size else EMPTY_ROOT))
    signatures = [Signature(name, b"keys", b"s" * 64) for name in names or ("own",)]
    return Note(text, tuple(signatures)).encode()


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
    store, other = store_factory(), store_factory()
    store.save_checkpoint(3, Note(text, (own,)).encode())
    store.save_checkpoint(3, Note(text, (own, first)).encode())
    other.save_checkpoint(3, Note(text, (own, second)).encode())
    stored = Note.parse(store.checkpoint() or b"")

    assert set(stored.signatures) == {own, first, second}


def test_a_snapshot_shows_one_moment(store_factory: StoreFactory) -> None:
    """A verification that saw the tree of one moment and the entries of another finds forgeries."""
    store, other = store_factory(), store_factory()
    chain = Chain(store_factory.origin)
    store.append(chain.take(3))
    sequence(store, 2)
    two, six = (note_of(store_factory.origin, size) for size in (2, 6))
    store.save_checkpoint(2, two)
    with store.snapshot() as view:
        moment = view.head()
        other.append(chain.take(2))
        other.append(Chain(store_factory.origin, "later").take(1))
        sequence(other)
        other.save_checkpoint(6, six)

        assert view.origin == store_factory.origin
        assert (
            view.head() == moment == TreeHead(3, compute_root([r.leaf for r in chain.records[:3]]))
        )
        assert list(view.entries(0, 4)) == [*data_of(chain.records[:3]), None]
        assert list(view.read_strand("run", "main")) == data_of(chain.records[:3])
        assert view.runs("", 9) == ["run"]
        assert list(view.checkpoints()) == [two]
        assert view.last_entry("run", "main") == chain.records[2].data
    with store.snapshot() as view:
        assert view.head().size == 6
        assert view.checkpoint() == six


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
    stranger, chain, strange = other(), Chain(store_factory.origin), Chain(other.origin)
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


def test_logs_of_one_database_do_not_see_each_other(store_factory: StoreFactory) -> None:
    """The same run, strand and position in another log is another entry, and another account."""
    factories = [store_factory, store_factory.beside()]
    stores = [factory() for factory in factories]
    chains = [Chain(factory.origin) for factory in factories]
    for _ in range(3):
        for store, chain in zip(stores, chains, strict=True):
            opened = OpenBudgetAccount("run", Amount(calls=3))
            effects = (opened, CALL, Timer("run", store.origin, 1))
            store.append([chain.next(text=text_content(store.origin), effects=effects)])
    for store in stores:
        store.renew_lease(store.origin, -1.0)
        sequence(store, 2)
        store.save_checkpoint(3, store.origin.encode())

    for store, chain in zip(stores, chains, strict=True):
        body = store.body(Position("run", "main", 1), "text")
        assert list(store.entries(0, 4)) == [*data_of(chain.records), None]
        assert list(store.read_strand("run", "main")) == data_of(chain.records)
        assert list(store.checkpoints()) == [store.origin.encode()]
        assert store.account("run") == BudgetAccount(Amount(calls=3), Amount(calls=3))
        assert store.timers(None, 9, due=True) == [Timer("run", store.origin, 1)]
        assert store.expired_workers() == [store.origin]
        assert body is not None
        assert b"".join(body.read()) == store.origin.encode()
    factories[1].close()


def test_effects_are_committed_with_their_entries_or_not_at_all(
    store_factory: StoreFactory,
) -> None:
    """A charge without its entry is for nothing, and an entry without its charge is for free."""
    store, origin = store_factory(), store_factory.origin
    chain, late, poor = Chain(origin), Chain(origin), Chain(origin, strand="poor")
    opened, too_much = (
        OpenBudgetAccount("run", Amount(calls=3)),
        BudgetCharge("run", Amount(calls=3)),
    )
    store.append([chain.next(effects=(CALL, Timer("run", "main", 7), opened))])
    before = beside(store_factory(), "run", "other")
    others = (
        OpenBudgetAccount("other", Amount()),
        Timer("run", "main", None),
        Timer("run", "poor", 8),
    )

    # Who comes too late is told so, rather than how little is left: it may find its own entries.
    with pytest.raises(PositionTaken):
        store.append([late.next(effects=(*others, too_much))])
    with pytest.raises(BudgetExceeded):
        store.append(
            [poor.next(text=text_content("!"), effects=(*others, CALL, CALL, CALL)), poor.next()]
        )
    assert beside(store, "run", "other") == before
    assert before == (
        BudgetAccount(Amount(calls=3), Amount(calls=1)),
        None,
        Timer("run", "main", 7),
    )
    assert list(store.unsequenced_entries()) == data_of(chain.records)
    assert store.strands("run") == ["main"]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (Amount(6, 6, 6), ("usd", 6, 5, 10)),
        (Amount(5, 6, 6), ("tokens", 6, 5, 10)),
        (Amount(5, -9, 6), ("calls", 6, 5, 10)),
    ],
)
def test_a_refusal_names_the_first_limit_that_would_be_passed(
    store_factory: StoreFactory, asked: Amount, told: tuple[object, ...]
) -> None:
    """It ends up in the record as the reason why a run stopped, so it has to be exact."""
    store, chain = store_factory(), Chain(store_factory.origin)
    opened = OpenBudgetAccount("run", Amount(10, 10, 10))
    store.append([chain.next(effects=(opened, BudgetCharge("run", Amount(5, 5, 5))))])
    opened_again = OpenBudgetAccount("run", Amount(99, 99, 99))
    refused = chain.next(effects=(opened_again, BudgetCharge("run", asked)))

    with pytest.raises(BudgetExceeded) as caught:
        store.append([refused])
    assert caught.value.args == ("run", *told)
    store.append([refused._replace(effects=(opened_again, BudgetCharge("run", Amount(5, 5, 5))))])
    assert store.account("run") == BudgetAccount(Amount(10, 10, 10), Amount(10, 10, 10))


@pytest.mark.parametrize("guarded", [True, False])
def test_a_run_without_an_account_spends_nothing(
    store_factory: StoreFactory, *, guarded: bool
) -> None:
    """Whoever forgot to open one would spend without limit, and nobody would count it."""
    store, chain = store_factory(), Chain(store_factory.origin)

    with pytest.raises(BudgetExceeded) as caught:
        store.append([chain.next(effects=(BudgetCharge("run", Amount(usd=1, calls=2), guarded),))])
    assert caught.value.args == ("run", "calls", 2, 0, 0)
    assert store.account("run") is None
    assert list(store.unsequenced_entries()) == []


def test_an_overrun_is_counted_and_stops_only_what_would_add_to_it(
    store_factory: StoreFactory,
) -> None:
    """Money that is gone is counted, whatever the cap says; giving back is never refused."""
    store, chain = store_factory(), Chain(store_factory.origin)
    cap = Amount(10, 10, NO_LIMIT)
    used = []
    for effect in (
        OpenBudgetAccount("run", cap),
        BudgetCharge("run", Amount(usd=10, calls=NO_LIMIT)),
        BudgetCharge("run", Amount(usd=5), guarded=False),
        BudgetCharge("run", Amount(usd=0, tokens=10)),
        BudgetCharge("run", Amount(usd=-8, tokens=-9, calls=-1)),
        BudgetCharge("run", Amount(usd=3, tokens=9, calls=1)),
    ):
        store.append([chain.next(effects=(effect,))])
        account = store.account("run")
        assert account is not None
        used.append(account.used)
        if account.used.usd > cap.usd:
            with pytest.raises(BudgetExceeded):
                store.append(
                    [Chain(store.origin, "more").next(effects=(BudgetCharge("run", Amount(1)),))]
                )

    assert used == [
        Amount(),
        Amount(10, 0, NO_LIMIT),
        Amount(15, 0, NO_LIMIT),
        Amount(15, 10, NO_LIMIT),
        Amount(7, 1, NO_LIMIT - 1),
        Amount(10, 10, NO_LIMIT),
    ]


def test_a_cap_is_never_passed_whoever_races_for_the_rest(store_factory: StoreFactory) -> None:
    """Two processes with many agents each: what they were granted is what was counted."""
    stores = [store_factory() for _ in range(2)]
    committers = [GroupCommitter(store) for store in stores]
    cap, refusals = Amount(usd=200), []
    stores[0].append([Chain(store_factory.origin).next(effects=(OpenBudgetAccount("run", cap),))])

    def spend(agent: int) -> tuple[int, int]:
        """Reserve, and give some of it back; return what was spent, and the most that was seen."""
        committer, store, chance = committers[agent % 2], stores[agent % 2], Random(agent)
        chain, spent, seen = Chain(store.origin, strand=f"{agent}"), 0, 0
        for _ in range(8):
            reserved = chance.randint(1, 9)
            unused = chance.randint(0, reserved)
            record = chain.next(effects=(BudgetCharge("run", Amount(usd=reserved)),))
            try:
                committer.append([record])
            except BudgetExceeded as error:
                refusals.append(error)
                chain.records.pop()
                continue
            settled = BudgetCharge("run", Amount(usd=-unused), guarded=False)
            committer.append([chain.next(effects=(settled,))])
            spent += reserved - unused
            account = store.account("run")
            seen = max(seen, account.used.usd if account else 0)
        assert list(store.read_strand("run", chain.strand)) == data_of(chain.records)
        return spent, seen

    with ThreadPoolExecutor(32) as pool:
        results = list(pool.map(spend, range(32)))
    for committer in committers:
        committer.close()

    assert stores[0].account("run") == BudgetAccount(
        cap, Amount(usd=sum(spent for spent, _ in results))
    )
    assert 0 < max(seen for _, seen in results) <= cap.usd
    assert refusals
    assert all(error.used + error.asked > error.cap for error in refusals)


def test_groups_that_charge_the_same_runs_do_not_stand_in_each_others_way(
    store_factory: StoreFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes come to the same runs in opposite orders; locked as they come: a deadlock."""
    monkeypatch.setattr(postgres_appending, "_MAX_ATTEMPTS", 1)
    stores, runs = [store_factory() for _ in range(2)], [f"{n}" for n in range(8)]
    opened = tuple(OpenBudgetAccount(run, Amount(calls=NO_LIMIT)) for run in runs)
    stores[0].append([Chain(store_factory.origin).next(effects=opened)])

    def work(store: Store, order: int) -> None:
        chains = [Chain(store.origin, run, f"{order}") for run in runs[::order]]
        for n in range(25):
            store.append(
                [
                    chain.next(
                        effects=(Timer(chain.run, "", n), BudgetCharge(chain.run, CALL.amount))
                    )
                    for chain in chains
                ]
            )
            store.reschedule([Timer(run, "", n) for run in runs[::order]], 60.0)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, stores, [1, -1]))

    for run in runs:
        assert stores[0].account(run) == BudgetAccount(Amount(calls=NO_LIMIT), Amount(calls=50))


def test_alarms_are_read_in_pages_and_by_their_time(store_factory: StoreFactory) -> None:
    """Nobody holds a million of them at once, and only the store's clock says which ring."""
    store, chain = store_factory(), Chain(store_factory.origin)
    places = [(run, strand) for run in ("A", "a", "b") for strand in ("Z", "main", "~")]
    past, future = 1, store.now() + 3_600_000_000
    alarms = [Timer(*place, future if n % 3 else past) for n, place in enumerate(places)]
    store.append([chain.next(effects=tuple(alarms[::-1]))])
    pages = [store.timers(None, 4, due=False)]
    while pages[-1]:
        pages.append(store.timers(pages[-1][-1], 4, due=False))
    due = store.timers(None, 2, due=True)

    assert pages == [alarms[:4], alarms[4:8], alarms[8:], []]
    assert due == [alarms[0], alarms[3]]
    assert store.timers(due[-1], 2, due=True) == [alarms[6]]
    longest = Timer("z", "main", past - 1)
    store.append([chain.next(effects=(longest,))])
    assert store.timers(None, 2, due=True) == [longest, alarms[0]]
    store.append([chain.next(effects=(Timer("z", "main", None),))])
    store.append([chain.next(effects=(Timer("A", "Z", None), Timer("b", "Z", future)))])
    assert store.timers(None, 9, due=True) == [alarms[3]]
    assert len(store.timers(None, 9, due=False)) == 8


def test_a_due_timer_is_claimed_by_one_worker_and_put_off(store_factory: StoreFactory) -> None:
    """Workers that claim the same timers hand on the same runs, and cost more the more they are."""
    store, other, chain = store_factory(), store_factory(), Chain(store_factory.origin)
    future = store.now() + 3_600_000_000
    due = [Timer(f"run-{n}", "main", 100 - n) for n in range(7)]
    store.append([chain.next(effects=(*due, Timer("later", "main", future)))])
    claim = TimerClaim(
        worker="me", limit=3, anew=1000, own=("run-5",), shortest=60.0, longest=100.0
    )
    begun = store.now()
    pages = [
        store.claim_due_timers(claim),
        other.claim_due_timers(claim),
        store.claim_due_timers(claim),
    ]

    assert pages == [due[:3:-1], due[3:0:-1], due[:1]]  # the longest due first
    assert store.claim_due_timers(claim) == []
    assert store.timer("later", "main") == Timer("later", "main", future)
    for run, seconds in (("run-6", 60), ("run-5", 100)):
        alarm = store.timer(run, "main")
        assert alarm is not None
        assert begun <= (alarm.at or 0) - seconds * 1_000_000 <= store.now()


def test_a_timer_is_put_off_twice_as_long_each_time_that_it_rings_unchanged(
    store_factory: StoreFactory,
) -> None:
    """A run may wait in a queue for long; one that was told something new is looked at soon."""
    store, chain = store_factory(), Chain(store_factory.origin)
    claim = TimerClaim(worker="me", limit=9, anew=1000, own=(), shortest=40.0, longest=100.0)

    def pause() -> int:
        begun = store.now()
        assert len(store.claim_due_timers(claim)) == 1
        [alarm] = store.timers(None, 9, due=False)
        store.reschedule([alarm], 0)
        return ((alarm.at or 0) - begun) // 1_000_000

    store.append([chain.next(effects=(Timer("run", "main", 1),))])
    unchanged = [pause() for _ in range(4)]
    store.append([chain.next(effects=(Timer("run", "main", 2),))])

    assert unchanged == [40, 80, 100, 100]
    assert pause() == 40


def test_the_timer_of_a_driven_run_is_claimed_by_its_driver_while_that_one_lives(
    store_factory: StoreFactory,
) -> None:
    """Nobody else can tell the driver; once it is gone, anybody goes on with the run."""
    store, chain = store_factory(), Chain(store_factory.origin)
    store.append([chain.next(effects=(Timer("run", "main", 1),))])
    store.renew_lease("driver", 60.0)
    assert store.claim_run("run", "driver")
    store.append([chain.next(effects=(Timer("run", "main", 2),))])

    def claimed(worker: str) -> list[Timer]:
        claim = TimerClaim(worker=worker, limit=9, anew=1000, own=(), shortest=0.0, longest=0.0)
        return store.claim_due_timers(claim)

    assert claimed("other") == []
    assert claimed("driver") == [Timer("run", "main", 2)]
    assert claimed("other") == []
    store.renew_lease("driver", 0)
    assert len(claimed("other")) == 1


def test_one_worker_has_a_run_that_a_queue_hands_to_several(store_factory: StoreFactory) -> None:
    """Until it releases the run or its lease expires; a worker without a lease gets nothing."""
    store = store_factory()
    for worker in ("me", "other"):
        store.renew_lease(worker, 60.0)

    assert store.claim_run("run", "me")
    assert store.claim_run("run", "me")
    assert not store.claim_run("run", "other")
    store.renew_lease("me", 0)
    assert not store.claim_run("free", "me")
    assert store.claim_run("run", "other")
    store.release_runs("other", ["run"])
    store.renew_lease("me", 60.0)
    assert store.claim_run("run", "me")


def test_workers_that_claim_at_the_same_time_get_different_timers(
    store_factory: StoreFactory,
) -> None:
    """In both databases, with processes that do not know of each other."""
    stores = [store_factory() for _ in range(4)]
    chain = Chain(store_factory.origin)
    due = [Timer(f"run-{n:03}", "main", n) for n in range(120)]
    stores[0].append([chain.next(effects=tuple(due))])
    claim = TimerClaim(worker="me", limit=7, anew=1000, own=(), shortest=600.0, longest=600.0)

    def claim_all(store: Store) -> list[Timer]:
        found = []
        while store.timers(None, 1, due=True):
            found += store.claim_due_timers(claim)
        return found

    with ThreadPoolExecutor(4) as pool:
        claimed = [alarm for some in pool.map(claim_all, stores) for alarm in some]

    assert sorted(claimed) == due


def claim_of(worker: str, limit: int = 9) -> RunClaim:
    """Return what a worker asks for when it claims runs."""
    return RunClaim(
        worker=worker, limit=limit, own_limit=9, anew=1000, shortest=60.0, longest=100.0
    )


def claim_runs(store: Store, worker: str, limit: int = 9) -> list[str]:
    """Have a worker claim runs, and return them."""
    return [timer.run for timer in store.claim_runs(claim_of(worker, limit))]


def test_due_runs_are_claimed_in_their_order_and_not_more_than_asked_for(
    store_factory: StoreFactory,
) -> None:
    """The longest due come first; what one worker has no room for is left to the others."""
    store, other, chain = store_factory(), store_factory(), Chain(store_factory.origin)
    for worker in ("me", "other"):
        store.renew_lease(worker, 60.0)
    due = [Timer(f"run-{n}", "main", 100 - n) for n in range(7)]
    later = Timer("later", "main", store.now() + 3_600_000_000)
    store.append([chain.next(effects=(*due, later))])
    begun = store.now()
    claimed = [
        store.claim_runs(claim_of("me", 3)),
        other.claim_runs(claim_of("other", 0)),
        other.claim_runs(claim_of("other", 3)),
        store.claim_runs(claim_of("me", 9)),
    ]
    put_off = store.timer("run-6", "main")

    assert claimed == [due[:3:-1], [], due[3:0:-1], due[:1]]
    assert put_off is not None
    assert begun <= (put_off.at or 0) - 60_000_000 <= store.now()
    assert store.claim_runs(claim_of("me")) == []
    assert store.timer("later", "main") == later


def test_a_claimed_run_rings_for_the_worker_that_has_it(store_factory: StoreFactory) -> None:
    """Only that worker can tell the driver; it hears of it even if it has no room for more."""
    store, chain = store_factory(), Chain(store_factory.origin)
    for worker in ("me", "other"):
        store.renew_lease(worker, 60.0)
    gate = Timer("run", "gate/plan", 3)
    store.append([chain.next(effects=(Timer("run", "main", 1),))])
    first = store.claim_runs(claim_of("me"))
    store.append([chain.next(effects=(Timer("run", "main", 2), gate, Timer("new", "main", 4)))])

    assert first == [Timer("run", "main", 1)]
    assert claim_runs(store, "other") == ["new"]
    assert store.claim_runs(claim_of("me", 0)) == [Timer("run", "main", 2), gate]
    assert store.claim_runs(claim_of("me", 0)) == []


def test_a_run_that_was_released_may_be_claimed_by_others(store_factory: StoreFactory) -> None:
    """Whoever comes first; and nobody releases what another worker has."""
    store, chain = store_factory(), Chain(store_factory.origin)
    for worker in ("me", "other"):
        store.renew_lease(worker, 60.0)
    store.append([chain.next(effects=(Timer("a", "main", 1), Timer("b", "main", 1)))])
    assert claim_runs(store, "me") == ["a", "b"]
    store.append([chain.next(effects=(Timer("a", "main", 2), Timer("b", "main", 2)))])

    store.release_runs("other", ["a", "b"])
    assert claim_runs(store, "other") == []
    store.release_runs("me", ["a"])
    assert claim_runs(store, "other") == ["a"]
    assert claim_runs(store, "me") == ["b"]


def test_the_runs_of_a_lost_worker_are_due_at_once_and_free(store_factory: StoreFactory) -> None:
    """Their timers are put off, and nobody waits for that when the driver is dead."""
    store, chain = store_factory(), Chain(store_factory.origin)
    for worker in ("lost", "heir"):
        store.renew_lease(worker, 60.0)
    store.append([chain.next(effects=(Timer("a", "main", 1), Timer("b", "main", 1)))])
    assert claim_runs(store, "lost") == ["a", "b"]

    assert store.take_over("lost") == 0  # it lives
    assert claim_runs(store, "heir") == []
    store.renew_lease("lost", 0.0)
    assert claim_runs(store, "heir") == []  # not due yet
    assert store.take_over("lost") == 2
    assert store.take_over("lost") == 0
    assert store.workers() == ["heir"]
    assert claim_runs(store, "heir") == ["a", "b"]
    store.renew_lease("lost", 60.0)
    assert claim_runs(store, "lost") == []


def test_a_worker_without_a_lease_claims_nothing(store_factory: StoreFactory) -> None:
    """A worker that wakes up late may die before it beats, and nobody would look for its claims."""
    store, chain = store_factory(), Chain(store_factory.origin)
    store.append([chain.next(effects=(Timer("run", "main", 1),))])

    assert claim_runs(store, "me") == []
    store.renew_lease("me", 0.0)
    assert claim_runs(store, "me") == []
    store.renew_lease("me", 60.0)
    assert claim_runs(store, "me") == ["run"]


def test_a_signal_tells_of_timers_that_are_due(store_factory: StoreFactory) -> None:
    """A worker that waits is woken by the commit of another process."""
    store, other, chain = store_factory(), store_factory(), Chain(store_factory.origin)
    signal = store.open_signal("me")
    try:
        quiet = signal.wait(0.2)
        other.append([chain.next(effects=(Timer("run", "main", 1),))])
        assert (quiet, signal.wait(10.0)) == (False, True)
        other.add_timers([Timer("run", "main", 2), Timer("run/task", "main", 1)])
        assert signal.wait(10.0)
        assert store.timer("run", "main") == Timer("run", "main", 1), "it was set"
        other.set_timers([Timer("run/task", "main", 2)])
        assert signal.wait(10.0)
    finally:
        signal.close()
    store.renew_lease("me", 60.0)
    assert claim_runs(store, "me") == ["run", "run/task"]


def test_a_beat_finds_lost_workers(store_factory: StoreFactory) -> None:
    """By their leases; with a database that can tell also by their sessions, if they have runs."""
    store, chain = store_factory(), Chain(store_factory.origin)
    names = ("gone", "listening", "without runs")
    for worker in names:
        store.renew_lease(worker, 60.0)
    signal = store.open_signal("listening")
    for worker in names[:2]:
        store.append([chain.next(effects=(Timer(worker, "main", 1),))])
        assert claim_runs(store, worker) == [worker]

    try:
        assert store.beat("me", 60.0, 0.0) == []
        early = store.beat("me", 60.0, 60.0)
        assert early == (["gone"] if isinstance(store, PostgresStore) else [])
        assert [store.take_over(worker, 60.0) for worker in names[1:]] == [0, 0]
        assert store.take_over("gone", 60.0) == len(early)
        store.renew_lease("without runs", 0.0)
        store.renew_lease("me", 0.0)
        assert sorted(store.beat("me", 60.0, 0.0)) == ["me", "without runs"]
        assert "me" not in store.beat("me", 60.0, 0.0)
    finally:
        signal.close()


def test_a_lease_that_never_ends_is_cut(
    store_factory: StoreFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever can write to the database could keep a run from all workers for ever."""
    store = store_factory()
    store.renew_lease("forger", 6e9)
    assert store.beat("me", 60.0, 0.0) == []
    monkeypatch.setattr(ports, "MAX_LEASE_S", 0)
    assert store.beat("me", 60.0, 0.0) == []
    assert store.beat("me", 60.0, 0.0) == ["forger"]


def test_a_claim_without_a_valid_lease_keeps_nobody_away(store_factory: StoreFactory) -> None:
    """Its run may be claimed by others as soon as it is due."""
    store, chain = store_factory(), Chain(store_factory.origin)
    for worker in ("heir", "lost"):
        store.renew_lease(worker, 60.0)
    store.append([chain.next(effects=(Timer("run", "main", 1),))])
    assert claim_runs(store, "lost") == ["run"]
    store.renew_lease("lost", 0.0)
    store.append([chain.next(effects=(Timer("run", "main", 2),))])
    assert claim_runs(store, "heir") == ["run"]
    store.append([chain.next(effects=(Timer("run", "main", 3),))])

    assert claim_runs(store, "lost") == []
    assert claim_runs(store, "heir") == ["run"]


def test_workers_that_claim_at_the_same_time_get_different_runs(
    store_factory: StoreFactory,
) -> None:
    """Also where a run has several timers, of which each worker sees another one first."""
    stores = {f"worker-{n}": store_factory() for n in range(4)}
    store, chain = stores["worker-0"], Chain(store_factory.origin)
    for worker in stores:
        store.renew_lease(worker, 600.0)
    due = [Timer(f"run-{n:03}", strand, n) for n in range(60) for strand in ("gate/a", "main")]
    store.append([chain.next(effects=tuple(due))])

    def claim_all(worker: str) -> list[str]:
        runs: list[str] = []
        while stores[worker].timers(None, 1, due=True):
            runs += claim_runs(stores[worker], worker, 7)
        return runs

    with ThreadPoolExecutor(4) as pool:
        claimed = dict(zip(stores, pool.map(claim_all, stores), strict=True))
    owners = [(run, worker) for worker, runs in claimed.items() for run in set(runs)]

    assert sorted(run for run, _ in owners) == sorted({timer.run for timer in due})
    assert sum(map(len, claimed.values())) == len(due)


def test_an_alarm_is_snoozed_unless_it_was_changed(store_factory: StoreFactory) -> None:
    """Whoever looked at a run puts off its own alarm only, never the one of what came after."""
    store, worker, chain = store_factory(), store_factory(), Chain(store_factory.origin)
    store.append([chain.next(effects=tuple(Timer("run", name, 1) for name in "abc"))])
    read = worker.timers(None, 9, due=True)
    store.append([chain.next(effects=(Timer("run", "b", 2), Timer("run", "c", None)))])
    begun = store.now()
    worker.reschedule(read, 3600.0)
    found = [store.timer("run", name) for name in "abc"]
    ringing = store.timers(None, 9, due=True)
    [put_off] = [alarm for alarm in found if alarm and alarm.strand == "a"]

    assert found == [put_off, Timer("run", "b", 2), None]
    assert ringing == [Timer("run", "b", 2)]
    assert begun <= (put_off.at or 0) - 3_600_000_000 <= store.now()
    worker.reschedule([put_off], 0.05)
    wait_until(lambda: len(store.timers(None, 9, due=True)) == 2)
    worker.reschedule([*read, *ringing], None)
    assert [store.timer("run", name) is None for name in "abc"] == [False, True, True]


def test_a_worker_is_lost_when_its_lease_runs_out(store_factory: StoreFactory) -> None:
    """One that is killed says nothing any more; the work that it held must not wait for it."""
    store, other = store_factory(), store_factory()
    for worker in ("killed", "stopped", "working"):
        store.renew_lease(worker, 60.0)
    lost = other.expired_workers()
    store.renew_lease("stopped", 0.0)
    store.release_lease("stopped")
    store.renew_lease("killed", 0.05)

    assert lost == []
    wait_until(lambda: other.expired_workers() == ["killed"])
    assert sorted(other.workers()) == ["killed", "working"]
    store.renew_lease("killed", 60.0)
    assert other.expired_workers() == []


def test_some_process_may_always_lead(store_factory: StoreFactory) -> None:
    """And when it is gone, another one: entries must not wait for a process that is dead."""
    store, other = store_factory(), store_factory()
    held = store.try_lead()
    store.close()

    assert held
    wait_until(other.try_lead)  # a database notices some time later that a process has gone
    assert other.try_lead()


# Asking once


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


# Cleaning up


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
        texts = set(threads.map(ask, range(12)))

    (row,) = store.idempotency_rows("", 10)
    assert texts <= {"old", row.run}
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
