"""The publisher: a log signs one tree for each size, and each continues the one before.

Whatever stops it, whoever works beside it, whatever a database was replaced by, and whatever a
witness answers.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import cast

import pytest

from forum.errors import (
    CosignatureRefused,
    ForumError,
    GuardMissing,
    RollbackDetected,
    WitnessRefused,
    WitnessUnreachable,
)
from forum.ledger.ports import Cosigner, PublisherStore
from forum.ledger.sequencer import Publication, Publisher, Sequencer
from forum.ledger.write_tags import WriteKeys
from forum.stores.state_files import FileCheckpointStore
from forum.tlog import (
    ED25519_COSIGNATURE,
    Checkpoint,
    Hash,
    KnownWitness,
    Note,
    SigningKey,
    WitnessPolicy,
    cosign,
    open_checkpoint,
)
from tests.support import Chain, Fuse, Interlude, Stopped, StoreFactory, key_of, leaves_of
from tests.tlog.trees import compute_root

WITNESS = SigningKey(b"w" * 32, "witness.example/honest", ED25519_COSIGNATURE)
LIAR = SigningKey(b"l" * 32, "witness.example/liar", ED25519_COSIGNATURE)
POLICY = WitnessPolicy(
    (),
    (KnownWitness("honest", WITNESS.verifier()), KnownWitness("liar", LIAR.verifier())),
    (),
    "honest",
)

Prove = Callable[[int, int], Sequence[Hash]]
crashes = pytest.mark.parametrize(
    "persisted", [False, True], ids=["failed", "failed but persisted"]
)


@dataclass(frozen=True)
class WatchedKey(SigningKey):
    """A key that remembers what it signed, also what nobody was ever shown."""

    texts: list[str] = field(default_factory=list, compare=False)

    def sign(self, message: bytes) -> bytes:
        """Sign, and remember."""
        self.texts.append(message.decode())
        return super().sign(message)


@dataclass
class Honest:
    """A witness that cosigns what it is shown, and remembers it."""

    name: str = WITNESS.name
    shown: list[str] = field(default_factory=list)

    def cosign(self, note: bytes, prove: Prove) -> str:
        """Return one line."""
        self.shown.append(Note.parse(note).text)
        return f"{cosign(self.shown[-1], WITNESS, 1_700_000_000)}\n"


@dataclass
class Answers:
    """A witness that answers whatever a test wants it to."""

    answer: Callable[[bytes, Prove], str]
    name: str = LIAR.name

    def cosign(self, note: bytes, prove: Prove) -> str:
        """Answer."""
        return self.answer(note, prove)


class World:
    """A log with its store, its guard and its key, and a publisher whenever one is wanted."""

    def __init__(self, factory: StoreFactory, state: Path) -> None:
        self.factory, self.store = factory, factory()
        self.guard = FileCheckpointStore(state / "guard.note")
        self.key = WatchedKey(key_of(factory.origin).seed, factory.origin)
        self.chain = Chain(factory.origin)

    def grow(self, entries: int, run: str = "run") -> None:
        """Append and sequence so many entries."""
        if run != self.chain.run:
            self.chain = Chain(self.factory.origin, run)
        if entries:
            self.store.append(self.chain.take(entries))
        Sequencer(self.store).drain()

    def publisher(self, *cosigners: Cosigner) -> Publisher:
        """Return a publisher as a new process would have it."""
        return Publisher(self.store, self.key, self.guard, policy=POLICY, cosigners=cosigners)

    def check(self) -> None:
        """Check that one tree was signed for each size, and that guard and store agree."""
        leaves, signed = leaves_of(self.store), [Checkpoint.parse(text) for text in self.key.texts]
        for checkpoint in signed:
            assert checkpoint.root == compute_root(leaves[: checkpoint.size])
        newest, remembered = self.store.checkpoint(), self.guard.latest()
        assert newest is not None
        assert remembered is not None
        assert open_checkpoint(newest, [self.key.verifier()])[0] in signed
        assert Note.parse(newest).text == Note.parse(remembered).text
        sizes = [checkpoint_of(note).size for note in self.store.checkpoints()]
        assert sizes == sorted(set(sizes))
        assert set(sizes) <= {checkpoint.size for checkpoint in signed}


def checkpoint_of(note: bytes) -> Checkpoint:
    """Return what a note commits to."""
    return Checkpoint.parse(Note.parse(note).text)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Return a log that has signed a tree of three entries, and has five by now."""
    factory = StoreFactory(tmp_path / "ledger.db")
    world = World(factory, tmp_path / "state")
    world.grow(3)
    world.publisher(Honest()).publish()
    world.grow(2)
    yield world
    factory.close()


@crashes
@pytest.mark.parametrize("entries", [0, 1], ids=["in the same tree", "in a larger tree"])
def test_a_publisher_that_is_stopped_signs_no_other_tree(
    store_factory: StoreFactory, tmp_path: Path, *, persisted: bool, entries: int
) -> None:
    """At each of its calls: its successor shows what was signed, or signs what continues it."""
    for calls in range(100):
        world, witness = World(store_factory.beside(), tmp_path / f"{calls}"), Honest()
        world.grow(3)
        world.publisher(witness).publish()
        world.grow(2)
        fuse = Fuse(calls, persisted=persisted)
        store, guard, cosigner = map(fuse.port, (world.store, world.guard, witness))
        try:
            Publisher(store, world.key, guard, policy=POLICY, cosigners=[cosigner]).publish()
        except Stopped:
            world.grow(entries)
            published = world.publisher(witness).publish()
            assert published.checkpoint.size == 5 + entries
            assert published.witnessed
            assert published.note == world.store.checkpoint()
            world.check()
        world.factory.close()
        if not fuse.reached:
            break

    assert len(set(witness.shown)) == 2
    # Sign: three reads, the proof, the guard, the store; then the witness, and the store again.
    assert calls >= 8


@pytest.mark.parametrize("signed", [0, 3], ids=["the first checkpoint", "a later one"])
def test_a_publisher_is_not_confused_by_another_one(tmp_path: Path, signed: int) -> None:
    """What another does between any two of its calls is no rollback, and no lost guard."""
    for calls in range(100):
        folder = tmp_path / f"{calls}"
        world, witness = World(StoreFactory(tmp_path / f"{calls}.db"), folder), Honest()
        world.grow(3)
        if signed:
            world.publisher(witness).publish()
        world.grow(2)
        interlude = Interlude(calls, partial(grow_and_publish, world, witness))
        store, guard, cosigner = map(interlude.port, (world.store, world.guard, witness))
        published = Publisher(
            store, world.key, guard, policy=POLICY, cosigners=[cosigner]
        ).publish()
        assert published.checkpoint.size in ((5, 6) if interlude.reached else (5,))
        assert checkpoint_of(world.store.checkpoint() or b"").size == 5 + interlude.reached
        world.check()
        world.factory.close()
        if not interlude.reached:
            break

    assert calls >= 7


def grow_and_publish(world: World, witness: Honest) -> None:
    """Do what another process with the same log and the same key may do at any time."""
    world.grow(1)
    world.publisher(witness).publish()


def test_publishers_at_the_same_time_sign_one_history(
    store_factory: StoreFactory, tmp_path: Path
) -> None:
    """What one of them does between two looks of the other is no rollback, and no lost guard."""
    world, done = World(store_factory, tmp_path), Event()

    def publish(_: int) -> None:
        publisher = Publisher(
            store_factory(), world.key, world.guard, policy=POLICY, cosigners=[Honest()]
        )
        while not done.is_set():
            publisher.publish()

    with ThreadPoolExecutor(3) as pool:
        publishing = pool.map(publish, range(3))
        try:
            for _ in range(40):
                world.grow(1)
        finally:
            done.set()
        list(publishing)
    world.publisher(Honest()).publish()

    assert checkpoint_of(world.store.checkpoint() or b"").size == 40
    world.check()


@pytest.fixture
def restored(tmp_path: Path) -> Iterator[World]:
    """Return a log that was put back to three entries, after it had signed a tree of five."""
    path, copy = tmp_path / "ledger.db", tmp_path / "backup.db"
    factory = StoreFactory(path)
    world = World(factory, tmp_path / "state")
    world.grow(3)
    world.publisher().publish()
    factory.close()
    shutil.copy(path, copy)
    world.store = factory()
    world.grow(2)
    world.publisher().publish()
    factory.close()
    shutil.copy(copy, path)
    world.store = factory()
    yield world
    factory.close()


@pytest.mark.parametrize("entries", [0, 1, 2, 3, 300])
def test_a_restored_database_is_not_signed(restored: World, entries: int) -> None:
    """Not while it is shorter, and not when it has grown to the same size, or beyond it, again."""
    restored.grow(entries, "another")
    signed = list(restored.key.texts)
    before = list(restored.store.checkpoints())

    for call in (restored.publisher(Honest()).publish, restored.publisher().sign):
        with pytest.raises(RollbackDetected, match="forum ledger epoch") as info:
            call()
        assert (info.value.signed, info.value.found) == (5, 3 + entries)
    assert restored.key.texts == signed
    assert list(restored.store.checkpoints()) == before


@pytest.mark.parametrize("entries", [0, 2, 3, 300])
def test_a_publisher_compares_what_it_signed_with_a_database_that_was_replaced(
    tmp_path: Path, entries: int
) -> None:
    """It remembers the tree that it signed, reads no tile of it, and signs none beside it."""
    path, copy = tmp_path / "ledger.db", tmp_path / "backup.db"
    factory = StoreFactory(path)
    other = StoreFactory(copy, factory.origin)
    world, tiles = World(factory, tmp_path / "state"), 0
    keys = WriteKeys(factory.origin, ())

    class Replaced:
        """The store of the world, whichever that is."""

        def __getattr__(self, name: str) -> object:
            nonlocal tiles
            tiles += name == "read_tile"
            return getattr(world.store, name)

    publisher = Publisher(
        cast("PublisherStore", Replaced()), world.key, world.guard, POLICY, control=keys
    )
    world.grow(3)
    publisher.sign()
    factory.close()
    shutil.copy(path, copy)
    world.store = factory()
    world.grow(2)
    tiles = 0
    assert checkpoint_of(publisher.sign()).size == 5
    assert not tiles
    world.check()
    signed, world.store = list(world.key.texts), other()
    world.grow(entries, "another")

    with pytest.raises(RollbackDetected) as info:
        publisher.sign()

    assert (info.value.signed, info.value.found) == (5, 3 + entries)
    assert world.key.texts == signed
    factory.close()
    other.close()


def test_a_restored_database_that_lost_nothing_goes_on(restored: World) -> None:
    """The same entries again are the same tree: what was promised is kept."""
    restored.store.append(restored.chain.records[3:])
    Sequencer(restored.store).drain()

    assert checkpoint_of(restored.publisher().sign()).size == 5
    restored.check()


def test_a_signer_that_remembers_nothing_does_not_sign(world: World, tmp_path: Path) -> None:
    """Who signed before, and what, is not known: the database could be any copy."""
    signed = list(world.key.texts)
    (tmp_path / "state" / "guard.note").unlink()

    with pytest.raises(GuardMissing, match="size 3"):
        world.publisher().sign()
    assert world.key.texts == signed


def test_the_same_tree_is_signed_once(world: World) -> None:
    """And a witness that has cosigned it is not asked again: its first word is the earliest."""
    witness = Honest()
    first, second = (world.publisher(witness).publish() for _ in range(2))
    signed = world.publisher().sign()

    assert first == second
    assert signed == first.note == world.store.checkpoint()
    assert len(witness.shown) == 1
    assert [Checkpoint.parse(text).size for text in world.key.texts] == [3, 5]


def test_the_empty_tree_can_be_signed(tmp_path: Path) -> None:
    """A log may be announced before its first entry; all that follows continues it."""
    factory = StoreFactory(tmp_path / "ledger.db")
    world = World(factory, tmp_path)
    sizes = [world.publisher(Honest()).publish().checkpoint.size]
    world.grow(2)
    sizes.append(world.publisher(Honest()).publish().checkpoint.size)
    world.check()
    factory.close()

    assert sizes == [0, 2]


def refuse(note: bytes, prove: Prove) -> str:
    """Refuse to cosign."""
    raise WitnessRefused(LIAR.name, "409: another tree of this size was seen")


def vanish(note: bytes, prove: Prove) -> str:
    """Do not answer."""
    raise WitnessUnreachable(LIAR.name, "timed out")


def claim_a_larger_tree(note: bytes, prove: Prove) -> str:
    """Ask for a proof from a tree that never was."""
    prove(10**9, checkpoint_of(note).size)
    return ""


def ask_beyond_the_tree(note: bytes, prove: Prove) -> str:
    """Ask for a proof to a tree that is not yet."""
    prove(1, 10**9)
    return ""


def cosign_another_tree(note: bytes, prove: Prove) -> str:
    """Cosign what was not asked for."""
    other = Checkpoint(checkpoint_of(note).origin, 5, Hash(b"o" * 32))
    return f"{cosign(str(other), LIAR, 1)}\n"


def forge_for_another(note: bytes, prove: Prove) -> str:
    """Sign under the name and the key id of a witness that is honest."""
    line = cosign(Note.parse(note).text, LIAR, 1)
    forged = type(line)(WITNESS.name, WITNESS.verifier().key_id, line.blob)
    return f"{forged}\n"


def replace_the_text(note: bytes, prove: Prove) -> str:
    """Answer so that note and answer together are a note with another text, well cosigned."""
    text = f"{note.decode()}\nsomething else\n"
    time, message = 1, f"cosignature/v1\ntime 1\n{text}".encode()
    blob = time.to_bytes(8, "big") + LIAR.sign(message)
    line = type(Note.parse(note).signatures[0])(LIAR.name, LIAR.verifier().key_id, blob)
    return f"\nsomething else\n\n{line}\n{line}\n"


def say(words: str) -> Callable[[bytes, Prove], str]:
    """Say this, whatever was asked."""

    def answer(note: bytes, prove: Prove) -> str:
        return words

    return answer


LIES = [
    refuse,
    claim_a_larger_tree,
    ask_beyond_the_tree,
    cosign_another_tree,
    forge_for_another,
    replace_the_text,
    *(say(words) for words in ("no signature", "\n", "\n\n", "— x\n", "— x y\n" * 100, "\ud800")),
]


@pytest.mark.parametrize("answer", [*LIES, vanish], ids=lambda answer: answer.__name__)
def test_no_witness_keeps_a_log_from_signing(
    world: World, answer: Callable[[bytes, Prove], str]
) -> None:
    """Whatever it answers, the tree is signed, the others are asked, and it is named."""
    published = world.publisher(Answers(answer), Honest()).publish()
    failures: tuple[ForumError, ...] = (*published.refused, *published.unreachable)

    assert published.checkpoint == Checkpoint(
        world.store.origin, 5, compute_root(leaves_of(world.store))
    )
    assert published.witnessed
    assert [s.name for s in Note.parse(published.note).signatures] == [world.key.name, WITNESS.name]
    assert published.note == world.store.checkpoint()
    assert [type(failure) for failure in failures] == [
        WitnessUnreachable if answer is vanish else WitnessRefused
    ]
    assert LIAR.name in str(failures[0])
    world.check()


def test_a_witness_that_nobody_trusts_changes_nothing(world: World) -> None:
    """Only the keys of the policy speak; a stranger's line is not published as if it did."""
    stranger = SigningKey(b"s" * 32, "witness.example/stranger", ED25519_COSIGNATURE)
    answers = Answers(lambda note, _: f"{cosign(Note.parse(note).text, stranger, 1)}\n")
    published = world.publisher(answers).publish()

    assert not published.witnessed
    assert len(Note.parse(published.note).signatures) == 1


def test_a_late_cosignature_completes_the_checkpoint(world: World) -> None:
    """An unreachable witness is asked again, for the same tree."""
    first = world.publisher(Answers(vanish, WITNESS.name)).publish()
    second = world.publisher(Honest()).publish()

    assert not first.witnessed
    assert second.witnessed
    assert second.note.startswith(first.note)
    assert world.store.checkpoint() == second.note


# Times

T0 = 1_700_000_000
DAY = 86_400


@dataclass
class Clocked:
    """A witness that cosigns whatever it is shown, at the time of a clock of its own."""

    time: int
    key: SigningKey = WITNESS

    @property
    def name(self) -> str:
        """The name of its key."""
        return self.key.name

    def cosign(self, note: bytes, prove: Prove) -> str:
        """Return one line."""
        return f"{cosign(Note.parse(note).text, self.key, self.time)}\n"


def publish_at(world: World, now: int, *witnesses: Clocked) -> Publication:
    """Add an entry and publish, at a time of this machine's clock."""
    world.grow(1)
    return Publisher(
        world.store,
        world.key,
        world.guard,
        policy=POLICY,
        cosigners=witnesses,
        clock=lambda: now * 1_000_000,
    ).publish()


@pytest.mark.parametrize("time", [0, 1, T0 - 301, T0 + 361])
def test_a_cosignature_whose_time_cannot_be_right_is_refused(world: World, time: int) -> None:
    """No time at all, one before its own earlier one, and one that has not come yet.

    What is stored bounds the times of all entries; one such answer would refute them for ever.
    """
    assert publish_at(world, T0, Clocked(T0)).witnessed
    refused = publish_at(world, T0 + 60, Clocked(time))
    after = publish_at(world, T0 + 120, Clocked(T0 + 120))

    assert not refused.witnessed
    assert isinstance(refused.refused[0], CosignatureRefused)
    assert after.witnessed


def test_a_cosignature_before_the_log_s_last_checkpoint_is_refused(world: World) -> None:
    """A witness that is new to the log has no earlier times; the log has."""
    publish_at(world, T0, Clocked(T0))
    late = publish_at(world, T0 + 60, Clocked(T0 - 301, LIAR), Clocked(T0 + 60))

    assert late.witnessed
    assert [error.witness for error in late.refused] == [LIAR.name]


def test_a_witness_goes_on_after_its_clock_was_set_right(world: World) -> None:
    """A clock that was a day ahead, with this machine's, must not cost a day without witnesses."""
    publish_at(world, T0, Clocked(T0))
    assert publish_at(world, T0 + DAY, Clocked(T0 + DAY)).witnessed

    assert publish_at(world, T0 + 60, Clocked(T0 + 60)).witnessed
    # What was right before the error still counts.
    assert not publish_at(world, T0 + 120, Clocked(T0 - 301)).witnessed


@pytest.mark.parametrize(
    ("now", "witness", "names"),
    [
        (T0 + DAY, T0 + 60, ["witness.example/honest"]),
        (T0 - DAY, T0 - DAY, ["last checkpoint"]),
    ],
)
def test_a_clock_that_disagrees_with_others_is_named_when_something_is_written(
    world: World, now: int, witness: int, names: list[str]
) -> None:
    """What is recorded with a wrong time keeps it; whoever writes should hear of it at once."""
    publish_at(world, T0, Clocked(T0))
    clock_warnings = publish_at(world, now, Clocked(witness)).clock_warnings

    # The databases of these tests have the time of today.
    assert any("the database's" in warning for warning in clock_warnings)
    for name in names:
        assert any(name in warning for warning in clock_warnings)
