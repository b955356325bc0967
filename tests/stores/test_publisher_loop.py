"""The keeper: a log is sequenced and signed without anybody asking, whatever gets in the way."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest

from forum.errors import GuardMissing, StoreConnectionLost, StoreFailed, WitnessUnreachable
from forum.ledger.ports import Cosigner, PublisherStore, Store
from forum.ledger.sequencer import MAX_BATCH_ENTRIES, Publication, Publisher, Sequencer
from forum.stores import publisher_loop as module
from forum.stores.publisher_loop import PublisherLoop
from forum.stores.state_files import FileCheckpointStore
from forum.tlog import Checkpoint, Note, WitnessPolicy
from tests.support import SOON, Chain, StoreFactory, Wrapped, key_of, wait_until
from tests.tlog.trees import compute_root

NO_WITNESSES = WitnessPolicy((), (), (), "none")


class Log:
    """A log, its writer, and a keeper whenever one is wanted."""

    def __init__(self, folder: Path) -> None:
        self.factory = StoreFactory(folder / "ledger.db")
        self.store, self.chain = self.factory(), Chain(self.factory.origin)
        self.guard = FileCheckpointStore(folder / "guard.note")
        self.heard: list[Publication] = []

    def keeper(self, store: Store | None = None, *cosigners: Cosigner) -> PublisherLoop:
        """Return a keeper of this log."""
        kept = store or self.factory()
        key = key_of(kept.origin)
        publisher = Publisher(kept, key, self.guard, policy=NO_WITNESSES, cosigners=cosigners)
        return PublisherLoop(kept, Sequencer(kept), publisher, self.heard.append)

    def signed(self) -> int:
        """Return the size of the newest signed tree, or -1."""
        note = self.store.checkpoint()
        return Checkpoint.parse(Note.parse(note).text).size if note else -1


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """Return a log whose keepers are in a hurry."""
    monkeypatch.setattr(module, "SEQUENCE_INTERVAL_S", 0.005)
    monkeypatch.setattr(module, "PUBLISH_INTERVAL_S", 0.005)
    log = Log(tmp_path)
    yield log
    log.factory.close()


def test_a_log_is_sequenced_and_signed_by_itself(log: Log) -> None:
    """Entries that wait for an operator would be believed by nobody."""
    keeper = log.keeper()
    for size in (1, 3):
        log.store.append(log.chain.take(size))
        wait_until(lambda: log.signed() == len(log.chain.records))
    keeper.close()

    assert log.store.head().root == compute_root([record.leaf for record in log.chain.records])
    assert [publication.checkpoint.size for publication in log.heard][-1] == 4


class BusySequencer(Sequencer):
    """Finds entries in every batch: first those that a crash left, then those of busy writers."""

    def __init__(self, store: PublisherStore, *first: int) -> None:
        super().__init__(store)
        self.batches, self._first = 0, list(first)

    def sequence_batch(self, limit: int = MAX_BATCH_ENTRIES) -> int:
        """Count the batch."""
        self.batches += 1
        return self._first.pop(0) if self._first else min(limit, 5)


def test_a_tree_that_was_signed_is_published_and_not_signed_again(log: Log) -> None:
    """A signature looks at every new entry, and two threads would both do so."""
    signatures = 0
    keeper = log.keeper()
    sign = keeper._publisher.sign  # noqa: SLF001

    def count() -> bytes:
        nonlocal signatures
        signatures += 1
        return sign()

    keeper._publisher.sign = count  # type: ignore[method-assign]  # noqa: SLF001
    log.store.append(log.chain.take(3))
    wait_until(lambda: any(each.checkpoint.size == 3 for each in log.heard))
    keeper.close()

    sizes = [each.checkpoint.size for each in log.heard]
    assert sizes == sorted(set(sizes))
    # Of the empty tree before, perhaps, and once more when it is caught up.
    assert signatures <= 3


def test_entries_that_arrive_while_a_batch_is_sequenced_wait_for_the_next_round(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the leader of busy writers would make one small batch after the other, without end."""
    monkeypatch.setattr(module, "SEQUENCE_INTERVAL_S", 1000.0)
    store = log.factory()
    sequencer = BusySequencer(store, 7, 3, 0)
    publisher = Publisher(store, key_of(store.origin), log.guard, NO_WITNESSES)
    keeper = PublisherLoop(store, sequencer, publisher)

    wait_until(keeper._caught_up.is_set)  # noqa: SLF001
    assert sequencer.batches == 3  # what was left is sequenced to its end at once
    keeper._sequence()  # noqa: SLF001  a round
    assert sequencer.batches == 4
    sequencer._first += [MAX_BATCH_ENTRIES, MAX_BATCH_ENTRIES, 5]  # noqa: SLF001  more than fits
    keeper._sequence()  # noqa: SLF001
    assert sequencer.batches == 7
    monkeypatch.setattr(sequencer, "drain", lambda: 0)
    keeper.close()


def test_a_keeper_that_is_closed_leaves_nothing_undone(log: Log) -> None:
    """A command that writes and ends has its entries in a signed tree before it ends."""
    keeper = log.keeper()
    log.store.append(log.chain.take(5))
    keeper.close()

    assert log.signed() == 5


def test_a_slow_witness_delays_no_index(log: Log) -> None:
    """Witnesses are other people's machines; appending and sequencing need none of them."""
    asked, answer = Event(), Event()

    def cosign(note: bytes, _: object) -> str:
        asked.set()
        answer.wait(SOON)
        raise WitnessUnreachable("witness.example/slow", "timed out")

    witness = Wrapped(SimpleNamespace(name="witness.example/slow"), cosign=cosign)
    keeper = log.keeper(None, witness)
    asked.wait(SOON)
    log.store.append(log.chain.take(2))
    wait_until(lambda: log.store.head().size == 2)
    answer.set()
    keeper.close()

    assert log.signed() == 2
    assert len(log.heard[-1].unreachable) == 1


@pytest.mark.parametrize("error", [StoreConnectionLost, StoreFailed])
@pytest.mark.parametrize("call", ["pending_entries", "advance_head", "save_checkpoint", "head"])
def test_a_store_that_comes_back_is_kept_on(log: Log, call: str, error: type[StoreFailed]) -> None:
    """A restart of the server, or an hour without space, must not need a restart of the keeper."""
    away, tried = Event(), Event()

    def fail_or_call(*arguments: object, **named: object) -> object:
        if away.is_set():
            tried.set()
            raise error("keeping", "it is gone")
        return getattr(log.store, call)(*arguments, **named)

    keeper = log.keeper(Wrapped(log.store, **{call: fail_or_call}))
    away.set()
    log.store.append(log.chain.take(2))
    tried.wait(SOON)
    wait_until(lambda: keeper.last_error is not None)
    away.clear()
    wait_until(lambda: log.signed() == 2)
    wait_until(lambda: keeper.last_error is None)
    keeper.close()

    assert keeper.failure is None


def test_a_log_that_must_not_be_signed_is_not_kept(log: Log, tmp_path: Path) -> None:
    """And whoever closes the keeper, or looks at it, is told why."""
    log.store.append(log.chain.take(1))
    log.keeper().close()
    (tmp_path / "guard.note").unlink()
    keeper = log.keeper()
    wait_until(lambda: keeper.failure is not None)

    assert isinstance(keeper.failure, GuardMissing)
    with pytest.raises(GuardMissing):
        keeper.close()
