"""The committer: one thread on which every writer of the process depends, so it must not die."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event

import pytest

from forum.errors import (
    BacklogFull,
    IdempotencyKeyUsed,
    PositionTaken,
    StoreConnectionLost,
    StoreFailed,
)
from forum.ledger.kinds import NoteFacts
from forum.ledger.ports import (
    Amount,
    BudgetAccount,
    BudgetCharge,
    EntryWrite,
    IdempotencyRecord,
    OpenBudgetAccount,
)
from forum.ledger.sequencer import Sequencer
from forum.ledger.strand import Draft
from forum.stores import group_commit as module
from forum.stores.group_commit import GroupCommitter
from tests.support import SOON, Chain, StoreFactory, Wrapped, data_of, ledger_on


@pytest.fixture
def factory(tmp_path: Path) -> Iterator[StoreFactory]:
    """Return what opens a log."""
    factory = StoreFactory(tmp_path / "ledger.db")
    yield factory
    factory.close()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait between attempts, nor between looks at the backlog."""
    monkeypatch.setattr(module, "_RETRY_DELAY_S", 0.001)
    monkeypatch.setattr(module, "_POLL_INTERVAL_S", 0.0)


@pytest.mark.parametrize("persisted", [False, True], ids=["failed", "failed but persisted"])
def test_a_lost_commit_is_found_or_made_again(factory: StoreFactory, *, persisted: bool) -> None:
    """Nobody can know which of the two it was; the position tells: recorded once, charged once."""
    store, lost = factory(), iter([True, True, False, True])
    effects = (OpenBudgetAccount("run", Amount(calls=3)), BudgetCharge("run", Amount(calls=1)))

    def append(records: Sequence[EntryWrite]) -> None:
        losing = next(lost, False)
        if persisted or not losing:
            store.append(records)
        if losing:
            raise StoreConnectionLost("appending", "the connection broke")

    committer = GroupCommitter(Wrapped(store, append=append))
    strand = ledger_on(store, committer.append).open_strand("run")
    drafts = [Draft(f"step/{n}", "tester", NoteFacts(), effects=effects) for n in range(3)]
    recorded = [strand.append(draft)[0] for draft in drafts]
    committer.close()

    assert [entry.leaf for entry in recorded] == store.pending_entries(9).leaves
    assert [strand.head, strand.length] == [recorded[-1].leaf, 3]
    assert store.account("run") == BudgetAccount(Amount(calls=3), Amount(calls=3))


def test_a_store_that_stays_away_is_given_up(
    factory: StoreFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that waits for ever cannot tell anybody that something is wrong."""
    monkeypatch.setattr(module, "_RETRY_TIMEOUT_S", 0.01)

    def append(_: Sequence[EntryWrite]) -> None:
        raise StoreConnectionLost("appending", "no route to host")

    committer = GroupCommitter(Wrapped(factory(), append=append))

    with pytest.raises(StoreConnectionLost, match="no route"):
        committer.submit(Chain(factory.origin).take(1)).result(SOON)
    committer.close()


def test_writers_are_pushed_back_and_let_in_again(factory: StoreFactory) -> None:
    """When too much waits for an index nothing is recorded; when less does, all goes on."""
    store, chain = factory(), Chain(factory.origin)
    committer = GroupCommitter(store, backlog_limit=2)

    def write_on() -> None:
        for _ in range(100):  # it looks between two commits, not in them
            committer.append(chain.take(1))

    with pytest.raises(BacklogFull, match="limit 2"):
        write_on()
    recorded = list(store.read_strand("run", "main"))
    Sequencer(store).drain()
    committer.append([chain.records[-1]])
    committer.close()

    assert recorded == data_of(chain.records[:-1])
    assert list(store.read_strand("run", "main")) == data_of(chain.records)


def test_no_more_may_wait_than_memory_holds(
    factory: StoreFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a database is away clients go on asking, and all of it would be kept for its return."""
    monkeypatch.setattr(module, "_MAX_QUEUED", 2)
    store, begun = factory(), Event()
    gate = Event()

    def append(records: Sequence[EntryWrite]) -> None:
        begun.set()
        gate.wait(SOON)
        store.append(records)

    committer = GroupCommitter(Wrapped(store, append=append))
    taken = [committer.submit(Chain(factory.origin, "0").take(1))]
    begun.wait(SOON)
    taken += [committer.submit(Chain(factory.origin, f"{n}").take(1)) for n in (1, 2, 3)]
    late = Chain(factory.origin, "4").take(1)
    with pytest.raises(BacklogFull, match="limit 2"):
        committer.submit(late)
    gate.set()
    for future in taken:
        future.result(SOON)
    committer.append(late)
    committer.close()

    assert store.runs("", 9) == ["0", "1", "2", "3", "4"]


def test_one_who_asks_again_does_not_cost_the_others_their_common_commit(
    factory: StoreFactory,
) -> None:
    """Anybody can repeat an Idempotency-Key all day; each time, all would be committed singly."""
    store, begun = factory(), Event()
    gate = Event()
    commits = 0

    def append(records: Sequence[EntryWrite]) -> None:
        nonlocal commits
        commits += 1
        begun.set()
        gate.wait(SOON)
        store.append(records)

    asked = (IdempotencyRecord("key", "first", "digest"),)
    asks = [[Chain(factory.origin, f"{n}").next()] for n in range(256)]
    asks[40] = [Chain(factory.origin, "again").next(effects=asked)]
    committer = GroupCommitter(Wrapped(store, append=append))
    committer.submit([Chain(factory.origin, "first").next(effects=asked)])
    begun.wait(SOON)
    futures = [committer.submit(records) for records in asks]
    gate.set()
    committer.close()

    refused = {n: error for n, future in enumerate(futures) if (error := future.exception())}
    assert list(refused) == [40]
    assert isinstance(refused[40], IdempotencyKeyUsed)
    assert len(store.runs("", 1000)) == 256
    assert commits < 25


@pytest.mark.parametrize("error", [StoreConnectionLost, StoreFailed])
def test_a_backlog_that_cannot_be_read_stops_nobody(
    factory: StoreFactory, error: type[StoreFailed]
) -> None:
    """The committer looks at it between commits; to die of that would hang every later writer."""
    store, chain = factory(), Chain(factory.origin)

    def backlog() -> int:
        raise error("reading (backlog)", "it is gone")

    committer = GroupCommitter(Wrapped(store, backlog=backlog))
    for _ in range(3):
        committer.submit(chain.take(1)).result(SOON)
    committer.close()

    assert list(store.read_strand("run", "main")) == data_of(chain.records)


def test_an_error_of_the_program_in_a_look_at_the_backlog_is_raised_and_ends_nothing(
    factory: StoreFactory,
) -> None:
    """The committer's thread is never started again: without it, every later writer would hang."""
    store, chain = factory(), Chain(factory.origin)

    def backlog() -> int:
        raise TypeError("no number")

    committer = GroupCommitter(Wrapped(store, backlog=backlog))
    first, refused = chain.take(1), chain.take(1)
    committer.submit(first).result(SOON)

    with pytest.raises(TypeError):
        committer.submit(refused).result(SOON)
    with pytest.raises(TypeError):
        committer.submit(refused).result(SOON)
    committer.close()

    assert list(store.read_strand("run", "main")) == data_of(first)


def test_a_writer_that_gives_up_waiting_stops_nobody(factory: StoreFactory) -> None:
    """A cancelled request must not take the committer of all others with it."""
    store, begun = factory(), Event()
    gate = Event()

    def append(records: Sequence[EntryWrite]) -> None:
        begun.set()
        gate.wait(SOON)
        store.append(records)

    committer = GroupCommitter(Wrapped(store, append=append))
    chains = [Chain(factory.origin, f"{n}") for n in range(3)]
    first = committer.submit(chains[0].take(1))
    begun.wait(SOON)
    waiting = [committer.submit(chain.take(1)) for chain in chains[1:]]
    given_up = [first.cancel(), waiting[0].cancel()]
    gate.set()
    waiting[1].result(SOON)
    committer.close()

    # What was handed in is recorded: only that can be known without asking the store.
    assert given_up == [False, False]
    assert store.runs("", 9) == ["0", "1", "2"]


def test_a_task_that_gives_up_waiting_stops_nobody(factory: StoreFactory) -> None:
    """Nor one whose whole loop is gone when its commit is done."""
    store, gate = factory(), Event()

    def append(records: Sequence[EntryWrite]) -> None:
        gate.wait(SOON)
        store.append(records)

    async def give_up(committer: GroupCommitter, chain: Chain) -> None:
        await asyncio.wait_for(committer.append_async(chain.take(1)), 0.01)

    committer = GroupCommitter(Wrapped(store, append=append))
    for n in range(2):
        with pytest.raises(TimeoutError):
            asyncio.run(give_up(committer, Chain(factory.origin, f"{n}")))
    gate.set()
    asyncio.run(committer.append_async(Chain(factory.origin, "2").take(1)))
    with pytest.raises(PositionTaken):
        asyncio.run(committer.append_async(Chain(factory.origin, "2").take(1)))
    committer.close()

    assert store.runs("", 9) == ["0", "1", "2"]


def test_any_other_failure_reaches_those_it_belongs_to(factory: StoreFactory) -> None:
    """An error of the program in one group is theirs to see, and the next group's not to suffer."""
    store, chain = factory(), Chain(factory.origin)
    torn = chain.next()
    wrong = EntryWrite(torn.position, "no bytes", torn.leaf)  # type: ignore[arg-type]
    committer = GroupCommitter(
        Wrapped(store, append=lambda records: store.append(data_checked(records)))
    )

    with pytest.raises(TypeError):
        committer.submit([wrong]).result(SOON)
    committer.submit([torn]).result(SOON)
    with pytest.raises(PositionTaken):
        committer.submit([torn]).result(SOON)
    committer.close()


def data_checked(records: Sequence[EntryWrite]) -> Sequence[EntryWrite]:
    """Return the same records, unless one is no record at all."""
    if not all(isinstance(record.data, bytes) for record in records):
        raise TypeError("bytes are wanted")
    return records


def test_what_was_handed_in_is_committed_before_the_end(factory: StoreFactory) -> None:
    """And what is handed in later is refused, rather than left to wait for nobody."""
    store, chain = factory(), Chain(factory.origin)
    committer = GroupCommitter(store)
    futures = [committer.submit(chain.take(1)) for _ in range(20)]
    committer.close()
    committer.close()

    assert all(future.done() and future.exception() is None for future in futures)
    assert list(store.read_strand("run", "main")) == data_of(chain.records)
    with pytest.raises(StoreFailed, match="closed"):
        committer.submit(chain.take(1))
