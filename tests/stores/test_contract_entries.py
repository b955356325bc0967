"""The promise of a store about entries and bodies, kept by every database."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from forum.engine.context import JoinedContent
from forum.errors import BudgetExceeded, PositionTaken
from forum.ledger.body import CHUNK_SIZE, BytesContent, text_content
from forum.ledger.ports import (
    Amount,
    BudgetAccount,
    BudgetCharge,
    EntryWrite,
    OpenBudgetAccount,
    Position,
    Store,
    Timer,
    TreeHead,
)
from forum.stores import sql_queries
from forum.stores.group_commit import GroupCommitter
from forum.tlog import EMPTY_ROOT
from tests.stores.store_states import CALL, note_of, sequence, state
from tests.support import (
    Chain,
    Pieces,
    StoreFactory,
    Wrapped,
    data_of,
)
from tests.tlog.trees import compute_root


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
    store, origin = store_factory(), store_factory.origin
    begun, gate = Event(), Event()
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
            found = [idx for idx, other in enumerate(leaves) if other[:length] == leaf[:length]]
            assert store.find_by_prefix(leaf[:length]) == found
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
            found = list(reader.read_strand(chain.run, chain.strand, start))
            assert found == data_of(chain.records)[start:]
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
    found = {(at, name): body for at, name, body in store.bodies_of_run("run")}
    assert found.keys() == bodies.keys()
    for key, body in found.items():
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
