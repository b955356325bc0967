"""Tags: who holds no write key can have nothing sequenced, and nothing adopted."""

import secrets
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.errors import (
    ConcurrentUpdate,
    IdempotencyKeyUsed,
    Malformed,
    SigningRefused,
    TamperDetected,
)
from forum.ledger.entry import leaf_of
from forum.ledger.kinds import LEDGER_KINDS, NoteFacts, Outcome
from forum.ledger.log import Ledger
from forum.ledger.ports import EntryRow, EntryWrite, IdempotencyRecord, Position, Store
from forum.ledger.row_checks import WriterCheck
from forum.ledger.sequencer import Publisher, Sequencer
from forum.ledger.strand import Draft
from forum.ledger.write_tags import WriteKey, WriteKeys
from forum.stores.sqlite import SqliteStore
from forum.stores.state_files import FileCheckpointStore
from forum.tlog import WitnessPolicy, parse_checkpoint
from tests.support import StoreFactory, key_of

KEYS = WriteKeys("test.example/tags", (WriteKey(b"w" * 32),), 0)
OTHER = WriteKeys("test.example/tags", (WriteKey(b"v" * 32),), 0)


@given(st.binary(max_size=600), st.data())
def test_a_tag_holds_for_one_log_and_one_entry_only(data: bytes, draw: st.DataObject) -> None:
    """A flipped bit of the entry or the tag, another log, another key: none of them passes."""
    tag = KEYS.tag_entry(data)
    bit = draw.draw(st.integers(0, 8 * len(tag) - 1))
    flipped = bytes(b ^ (1 << bit % 8) if at == bit // 8 else b for at, b in enumerate(tag))

    assert KEYS.accepts_entry(data, tag)
    assert not KEYS.accepts_entry(data + b"!", tag)
    assert not KEYS.accepts_entry(data, flipped)
    assert not OTHER.accepts_entry(data, tag)
    assert not WriteKeys("test.example/other", KEYS.keys, 0).accepts_entry(data, tag)
    assert not KEYS.accepts_entry(data, None)


def test_a_tag_of_one_purpose_is_none_of_another() -> None:
    """The head of a strand and a row of idempotency cannot be passed off as an entry."""
    tag = KEYS.tag_head("access", 3, bytes(32))

    assert KEYS.accepts_head("access", 3, bytes(32), tag)
    assert not KEYS.accepts_head("access", 2, bytes(32), tag)
    assert not KEYS.accepts_idempotency("access", "3", bytes(32).hex(), tag)


def test_a_rotated_key_checks_old_tags_and_makes_new_ones() -> None:
    """What was written before a rotation is still sequenced."""
    rotated = WriteKeys(KEYS.origin, (WriteKey(b"x" * 32), *KEYS.keys), 0)

    assert rotated.accepts_entry(b"entry", KEYS.tag_entry(b"entry"))
    assert not KEYS.accepts_entry(b"entry", rotated.tag_entry(b"entry"))


@given(st.integers(1, 3), st.none() | st.integers(0, 2**53))
def test_a_write_key_file_has_one_form(count: int, tagged_from: int | None) -> None:
    """What is written is read again, and any other text is refused."""
    keys = WriteKeys("a/b", tuple(WriteKey(bytes([n]) * 32) for n in range(count)), tagged_from)

    assert WriteKeys.parse(keys.encode()) == keys
    for wrong in (b"", keys.encode() + b"\n", keys.encode().replace(b"key ", b"key  ")):
        with pytest.raises(Malformed):
            WriteKeys.parse(wrong)


class Writers:
    """One log with a write key, and somebody who can only write to its database."""

    def __init__(self, factory: StoreFactory, *, enforced: bool = True) -> None:
        self.store: Store = factory()
        key = key_of(self.store.origin)
        self.keys = WriteKeys(
            self.store.origin, (WriteKey(secrets.token_bytes(32)),), 0 if enforced else None
        )
        self.store.check = WriterCheck(self.store, self.keys, [key.verifier()])
        self.ledger = self.ledger_with(self.keys)
        self.ledger.initialize("tests/1", key.verifier())

    def ledger_with(self, keys: WriteKeys | None) -> Ledger:
        """Return a ledger that makes tags with these keys."""
        return Ledger(
            self.store, LEDGER_KINDS, lambda: 7, lambda: secrets.token_bytes(32), tags=keys
        )

    def forge(self, run: str) -> None:
        """Put a row into the database as an insider does: everything right, and no tag."""
        self.ledger_with(None).open_run(run, "agent:friend")

    def drain(self) -> int:
        """Sequence what writers of this log wrote."""
        return Sequencer(self.store, self.keys).drain()


def test_a_row_that_no_writer_wrote_is_set_aside_and_the_rest_goes_on(
    store_factory: StoreFactory,
) -> None:
    """Its position becomes free, and an honest writer takes it."""
    world = Writers(store_factory)
    world.drain()
    world.forge("run")
    world.ledger.open_run("other", "agent:honest")
    sequenced = world.drain()
    honest = world.ledger.open_run("run", "agent:honest")
    world.ledger.close_run(honest, "agent:honest", Outcome.OK)
    rest = world.drain()

    assert (sequenced, rest) == (1, 2)
    assert [quarantined_row.row.position for quarantined_row in world.store.quarantined_rows()] == [
        Position("run", "main", 0)
    ]
    assert world.store.count_quarantined() == 1
    assert b"agent:friend" not in b"".join(world.store.read_strand("run", "main"))


def test_a_sequencer_that_comes_late_sets_aside_no_honest_row(store_factory: StoreFactory) -> None:
    """Between its look and its commit another one did the same, and a writer took the place."""
    world = Writers(store_factory)
    world.drain()
    world.forge("run")
    seen = world.store.pending_entries(10)
    world.drain()
    honest = world.ledger.open_run("run", "agent:honest")

    with pytest.raises(ConcurrentUpdate):
        world.store.move_to_quarantine(seen)
    assert world.drain() == 1
    assert world.store.count_quarantined() == 1
    assert [leaf_of(data) for data in world.store.read_strand("run", "main")] == [honest.head]


def test_a_writer_adopts_nothing_that_no_writer_wrote(store_factory: StoreFactory) -> None:
    """An intent that somebody planted would be carried out in a writer's name."""
    world = Writers(store_factory)
    world.forge("run")

    with pytest.raises(TamperDetected, match="no writer of this log"):
        world.ledger.open_strand("run")


def test_a_row_of_a_release_before_tags_is_sequenced_until_tags_are_enforced(
    store_factory: StoreFactory,
) -> None:
    """During an upgrade both releases write; a wrong tag is refused even then."""
    world = Writers(store_factory, enforced=False)
    world.drain()
    world.forge("run")
    untagged = world.drain()
    (row,) = world.store.strand_rows("run", "main")
    world.store.append([_at(row, "copy", b"forged-tag-of-20-byte")])
    world.drain()

    assert untagged == 1
    assert world.store.count_quarantined() == 1


def test_the_signer_reads_what_it_signs_as_the_sequencer_does(
    store_factory: StoreFactory, tmp_path: Path
) -> None:
    """Whoever has the database sequences too; honest rows of every age are signed."""
    world = Writers(store_factory, enforced=False)
    guard = FileCheckpointStore(tmp_path / "guard")
    current_keys: list[WriteKeys] = [world.keys]
    sequencer = Sequencer(world.store)

    def sign(keys: WriteKeys) -> bytes:
        key, policy = key_of(world.store.origin), WitnessPolicy((), (), (), "none")
        signer = Publisher(
            world.store, key, guard, policy, keys=keys, reload=lambda: current_keys[0]
        )
        return signer.sign()

    # A release before tags wrote it, and tags are not demanded yet.
    world.forge("before-tags")
    sequencer.drain()
    sign(world.keys)
    # It waits for its signature while tags begin to be demanded.
    world.forge("old")
    sequencer.drain()
    enforced = current_keys[0] = WriteKeys(
        world.keys.origin, world.keys.keys, world.store.head().size
    )
    sign(enforced)
    # Another process rotated the write key after this one started.
    rotated = WriteKeys(enforced.origin, (WriteKey(b"r" * 32), *enforced.keys), 0)
    current_keys[0] = rotated
    world.ledger_with(rotated).open_run("rotated", "agent:honest")
    sequencer.drain()
    size = parse_checkpoint(sign(enforced)).size
    assert size == world.store.head().size

    world.ledger_with(WriteKeys(OTHER.origin, OTHER.keys, 0)).open_run("run", "agent:friend")
    sequencer.drain()
    with pytest.raises(SigningRefused, match="no writer of this log wrote it"):
        sign(rotated)
    assert parse_checkpoint(guard.latest() or b"").size == size


def test_a_guard_from_a_backup_is_continued_from_the_newest_signed_tree(
    store_factory: StoreFactory, tmp_path: Path
) -> None:
    """What the same key has signed since need not carry a tag: an archive may hold it."""
    world = Writers(store_factory)
    key, policy = key_of(world.store.origin), WitnessPolicy((), (), (), "none")
    Sequencer(world.store).drain()
    used, restored = (FileCheckpointStore(tmp_path / name) for name in ("used", "restored"))
    restored.advance(None, Publisher(world.store, key, used, policy).sign())
    world.forge("archived")
    Sequencer(world.store).drain()
    Publisher(world.store, key, used, policy).sign()
    world.ledger.open_run("later", "agent:honest")
    Sequencer(world.store).drain()
    note = Publisher(world.store, key, restored, policy, keys=world.keys).sign()
    assert parse_checkpoint(note).size == world.store.head().size


def _at(row: EntryRow, run: str, tag: bytes) -> EntryWrite:
    data = row.data.replace(b'"run":"run"', f'"run":"{run}"'.encode())
    return EntryWrite(Position(run, "main", 0), data, leaf_of(data), tag=tag)


def test_a_writers_own_row_is_not_sequenced_in_another_place(store_factory: StoreFactory) -> None:
    """A tag holds for bytes, and bytes name their place: a copy elsewhere is none of ours."""
    world = Writers(store_factory)
    world.ledger.open_run("run", "agent:honest")
    world.drain()
    row = next(world.store.strand_rows("run", "main"))
    copy = EntryWrite(Position("run", "elsewhere", 0), row.data, leaf_of(row.data), tag=row.tag)
    world.store.append([copy])

    assert world.drain() == 0
    assert world.store.count_quarantined() == 1


def test_an_entry_never_gets_a_second_index(tmp_path: Path) -> None:
    """Whoever sets the sequencer back in the database has nothing signed twice."""
    factory = StoreFactory(tmp_path / "ledger.db")
    world = Writers(factory)
    world.drain()
    store = world.store
    assert isinstance(store, SqliteStore)
    with store._write_transaction("tampering"):  # noqa: SLF001  what an insider does
        store._db.execute("UPDATE log SET last = 0")  # noqa: SLF001
        store._db.execute("INSERT INTO pending SELECT log, entry FROM leaf")  # noqa: SLF001

    with pytest.raises(TamperDetected, match="has index 0 already"):
        world.drain()
    factory.close()


def test_an_idempotency_key_leads_to_the_run_that_a_writer_tied_it_to(
    store_factory: StoreFactory,
) -> None:
    """Whoever changes the row would have a client shown another one's answer."""
    world = Writers(store_factory)
    for run in ("a", "b"):
        strand = world.ledger.open_run(run, "x")
        strand.append(Draft("s", "x", NoteFacts(), effects=(IdempotencyRecord(run, run, "d"),)))
    (own, _) = world.store.idempotency_rows("", 9)

    world.ledger.check_idempotency_row("a", IdempotencyKeyUsed(own.run, own.digest, own.tag))
    for altered in (
        IdempotencyKeyUsed("b", own.digest, own.tag),
        IdempotencyKeyUsed("b", own.digest, None),
    ):
        with pytest.raises(TamperDetected, match="idempotency key"):
            world.ledger.check_idempotency_row("a", altered)
