"""A log that is signed by one key after another, and readers who pin any of them."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from forum.features.witness.client import WitnessClient
from forum.features.witness.witness import Witness
from forum.ledger.bundle import Bundle, gather_bundle
from forum.ledger.key_rotation import KEYS_STRAND, sign_rotation
from forum.ledger.kinds import LEDGER_KINDS, KeyAddFacts, KeyRotationFacts, KeyRotationV2Facts
from forum.ledger.sequencer import Publisher, Sequencer
from forum.ledger.strand import Draft
from forum.tlog import (
    Checkpoint,
    KnownLog,
    Note,
    SigningKey,
    Tree,
    VerifierKey,
    WitnessPolicy,
    parse_checkpoint,
    sign_checkpoint,
)
from forum.verify import Problem, Trust
from forum.verify.log_keys import LogKeys
from tests.verify.samples import verify_both
from tests.verify.world import LOCAL, World, problems, witness_key

SEEDS = (b"a" * 32, b"b" * 32, b"c" * 32)


class Rotated(World):
    """A log whose key is rotated."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, LOCAL)
        self.keys = [self.key]
        self.sign_with(self.key)

    def _all(self) -> tuple[VerifierKey, ...]:
        rotated = [SigningKey(seed, self.key.name) for seed in SEEDS]
        return tuple(key.verifier() for key in (self.key, *rotated))

    def sign_with(self, *keys: SigningKey) -> None:
        """Sequence, sign with the last of these keys, and have it cosigned."""
        Sequencer(self.store).drain()
        logs, memory = {self.key.name: self._all()}, self.memory[LOCAL]
        witness = Witness(witness_key(LOCAL), lambda: logs, lambda _: memory, lambda: self.now)
        clients = [WitnessClient(LOCAL, witness.add_checkpoint)]
        follows = [key.verifier() for key in keys]
        args = (self.store, keys[-1], self.guard, self.policy, clients)
        Publisher(*args, follows=follows).publish()

    def hand_over(self, old: SigningKey, new: SigningKey) -> None:
        """Record that one key hands the log over to another."""
        self.record(sign_rotation(self.key.name, self.store.head().size, old, new))

    def record(self, facts: KeyRotationFacts | KeyRotationV2Facts, strand: str = "keys") -> None:
        """Record a hand-over as any writer can."""
        draft = Draft(f"rotate/{facts.vkey[-8:]}/{facts.__class__.__name__}", "operator", facts)
        self.ledger.append_log_entry(draft, strand)

    def rotate(self, seed: bytes, *, signed: bool = True) -> SigningKey:
        """Have the log signed by another key, as `forum keys rotate-log` does, or as in 0.2."""
        old, new = self.keys[-1], SigningKey(seed, self.key.name)
        if signed:
            self.hand_over(old, new)
        else:
            self.record(KeyRotationFacts(str(old.verifier()), str(new.verifier())))
        self.sign_with(*self.keys)
        self.keys.append(new)
        self.ledger.append_log_entry(
            Draft("add", "operator", KeyAddFacts(str(new.verifier()))), KEYS_STRAND
        )
        self.sign_with(*self.keys)
        return new

    def pin(self, *keys: SigningKey) -> Trust:
        """Return what a reader trusts who knows only some keys of the log."""
        logs = tuple(KnownLog(key.verifier()) for key in keys)
        return Trust(policy=WitnessPolicy(logs, self.policy.witnesses, self.policy.groups, "all"))

    def gather(self, run: str) -> Bundle:
        """Return what the bundle of a run holds."""
        with self.store.snapshot() as reader:
            return gather_bundle(reader, LEDGER_KINDS, run, self.policy, verifier=b"")

    def bundle(self, run: str) -> bytes:
        """Return the bundle of a run."""
        return self.gather(run).encode()


@pytest.fixture
def world(tmp_path: Path) -> Rotated:
    """Return a log with a run under each of three keys."""
    world = Rotated(tmp_path)
    world.run("first")
    world.sign_with(*world.keys)
    for seed, run in zip(SEEDS, ("second", "third"), strict=False):
        world.rotate(seed)
        world.now += 1_000_000
        world.run(run)
        world.sign_with(*world.keys)
    return world


@pytest.mark.parametrize("pinned", range(3))
def test_a_reader_may_pin_any_key_of_the_log(world: Rotated, pinned: int) -> None:
    """A rotation must not force all readers to act on one day."""
    trust = world.pin(world.keys[pinned])

    live = world.verify(trust)
    assert live.ok, live.findings
    for run in ("first", "second", "third"):
        report = verify_both(world.bundle(run), trust)
        assert report.ok, report.findings


def test_a_key_that_was_handed_nothing_signs_nothing(world: Rotated) -> None:
    """A stranger's key with the log's name is not the log's."""
    world.run("fourth")
    Sequencer(world.store).drain()
    stranger = SigningKey(SEEDS[2], world.key.name)
    sign_anyway(world, stranger)

    report = world.verify(world.pin(world.keys[0]))
    assert Problem.SIGNATURE_REJECTED in problems(report)


def test_a_retired_key_signs_nothing_any_more(world: Rotated) -> None:
    """Whoever steals the old key after the rotation must not be able to go on with the log."""
    world.run("fourth")
    Sequencer(world.store).drain()
    sign_anyway(world, world.keys[0])

    for keys in (world.keys[:1], world.keys[-1:], world.keys):
        assert Problem.SIGNATURE_REJECTED in problems(world.verify(world.pin(*keys)))
    trust = world.pin(*world.keys)
    forged = verify_both(world.bundle("fourth"), trust)
    assert problems(forged).count(Problem.SIGNATURE_REJECTED) == 1


def test_a_key_signs_nothing_that_is_older_than_its_hand_over(world: Rotated) -> None:
    """Whoever has the log now did not have it then, and cannot say what it was."""
    size = 3
    root = Tree.load(size, world.store.read_tile).root()
    note = sign_checkpoint(Checkpoint(world.key.name, size, root), world.keys[-1]).encode()
    world.store.save_checkpoint(size, note)

    for keys in (world.keys[:1], world.keys):
        assert problems(world.verify(world.pin(*keys))) == [Problem.SIGNATURE_REJECTED]


def test_a_hand_over_that_its_old_key_has_not_signed_counts_for_nothing(tmp_path: Path) -> None:
    """Whoever holds the database can write any entry; the old key must have signed it."""
    world = Rotated(tmp_path)
    world.run("first")
    world.sign_with(*world.keys)
    thief = SigningKey(SEEDS[2], world.key.name)
    world.hand_over(world.key, thief)
    world.run("second")
    Sequencer(world.store).drain()
    sign_anyway(world, thief)

    trust = world.pin(world.key)
    assert Problem.SIGNATURE_REJECTED in problems(world.verify(trust))
    assert Problem.SIGNATURE_REJECTED in problems(verify_both(world.bundle("second"), trust))


@pytest.mark.parametrize(
    ("strand", "old", "new"),
    [
        ("main", "{own}", "{new}"),
        (KEYS_STRAND, "{own}", "{foreign}"),
        (KEYS_STRAND, "{foreign}", "{new}"),
        (KEYS_STRAND, "{new}", "{own}"),
        (KEYS_STRAND, "{own}", "{own}"),
        (KEYS_STRAND, "{own}", "{new}x"),
        (KEYS_STRAND, "", ""),
    ],
)
def test_what_is_not_a_hand_over_counts_for_nothing(
    tmp_path: Path, strand: str, old: str, new: str
) -> None:
    """In its place, from a key of this log, to another key of this log; both verifiers agree."""
    world = Rotated(tmp_path)
    key = SigningKey(SEEDS[0], world.key.name)
    keys = {
        "own": world.key.verifier(),
        "new": key.verifier(),
        "foreign": SigningKey(SEEDS[0], "example.com/other").verifier(),
    }
    signed = sign_rotation(world.key.name, 0, world.key, key)
    facts = replace(signed, old=old.format(**keys), vkey=new.format(**keys))
    world.record(facts, strand)
    world.sign_with(world.key)
    world.run("first")
    world.sign_with(world.key, key)

    trust = world.pin(world.key)
    assert Problem.SIGNATURE_REJECTED in problems(world.verify(trust))
    assert Problem.SIGNATURE_REJECTED in problems(verify_both(world.bundle("first"), trust))


def test_a_hand_over_of_a_retired_key_counts_for_nothing(world: Rotated) -> None:
    """The first key has given the log away, and cannot give it away again."""
    thief = SigningKey(SEEDS[2], world.key.name)
    world.hand_over(world.keys[0], thief)
    world.sign_with(*world.keys)
    world.run("fourth")
    Sequencer(world.store).drain()
    sign_anyway(world, thief)

    assert Problem.SIGNATURE_REJECTED in problems(world.verify(world.pin(*world.keys)))


def test_without_its_hand_over_a_bundle_of_the_new_key_is_refused(world: Rotated) -> None:
    """The evidence is in the bundle; whoever leaves it out is not believed."""
    whole = world.gather("third")
    rotations = [i for i, data in whole.entries.items() if b'"key.rotate/2"' in data]
    assert len(rotations) == 2
    for index in rotations:
        rest = {i: data for i, data in whole.entries.items() if i != index}
        proofs = {i: proof for i, proof in whole.proofs.items() if i != index}
        cut = replace(whole, entries=rest, proofs=proofs)
        report = verify_both(cut.encode(), world.pin(world.keys[0]))
        assert Problem.SIGNATURE_REJECTED in problems(report)


def test_a_log_without_hand_overs_trusts_what_its_reader_trusts(world: Rotated) -> None:
    """The common case changes nothing."""
    trust = world.pin(world.keys[0])

    assert LogKeys(trust, world.key.name).trust == trust


FORGED = ("unsigned", "by the new key", "by the old key", "of another log", "from later on")


def forge_hand_over(
    world: Rotated, how: str, thief: SigningKey
) -> KeyRotationFacts | KeyRotationV2Facts:
    """Return a hand-over to a thief, who has not both keys, or not for this place."""
    old, own = world.key, world.key.name
    size = world.store.head().size
    honest = sign_rotation(own, size, old, thief)
    keys = (honest.old, honest.vkey)
    by_thief = sign_rotation(own, size, SigningKey(thief.seed, own), thief)
    match how:
        case "unsigned":
            return KeyRotationFacts(*keys)
        case "by the new key":
            return replace(by_thief, old=honest.old)
        case "by the old key":
            return replace(honest, proof=honest.signed)
        case "of another log":
            return sign_rotation("example.com/other", size, old, thief)
        case _:
            return sign_rotation(own, size + 100, old, thief)


@pytest.mark.parametrize("how", FORGED)
def test_a_writer_cannot_make_itself_the_key_of_the_log(tmp_path: Path, how: str) -> None:
    """The honest signer signs what writers write; only both keys hand a log over."""
    world = Rotated(tmp_path)
    world.run("first")
    thief = SigningKey(SEEDS[2], world.key.name)
    world.record(forge_hand_over(world, how, thief))
    world.sign_with(world.key)
    trust = world.pin(world.key)
    honest = world.verify(trust)
    assert honest.ok, honest.findings
    if how not in ("of another log", "from later on"):
        assert "hands the log over from key" in honest.notices[0]
        assert "not followed" in honest.notices[0]

    world.run("second")
    Sequencer(world.store).drain()
    sign_anyway(world, thief)
    assert Problem.SIGNATURE_REJECTED in problems(world.verify(trust))
    assert Problem.SIGNATURE_REJECTED in problems(verify_both(world.bundle("second"), trust))


@pytest.mark.parametrize("how", FORGED)
def test_a_writer_cannot_retire_the_key_of_the_log(tmp_path: Path, how: str) -> None:
    """One more signature on the newest checkpoint would end the true key for ever."""
    world = Rotated(tmp_path)
    world.run("first")
    thief = SigningKey(SEEDS[2], world.key.name)
    world.record(forge_hand_over(world, how, thief))
    world.sign_with(world.key)
    stored = world.store.checkpoint()
    assert stored is not None
    by_thief = sign_checkpoint(parse_checkpoint(stored), thief)
    both = Note(by_thief.text, (*Note.parse(stored).signatures, *by_thief.signatures))
    world.store.save_checkpoint(parse_checkpoint(stored).size, both.encode())
    world.run("second")
    world.sign_with(world.key)

    trust = world.pin(world.key)
    assert world.verify(trust).ok
    assert verify_both(world.bundle("second"), trust).ok


def test_every_hand_over_is_a_notice(world: Rotated) -> None:
    """A reader sees that the key changed, and from which entry on."""
    for trust in (world.pin(world.keys[0]), world.pin(world.keys[-1])):
        for report in (world.verify(trust), verify_both(world.bundle("third"), trust)):
            assert len(report.notices) == 2
            for notice, key in zip(report.notices, world.keys[1:], strict=True):
                assert f"to key {key.verifier().key_id.hex()}: both have signed" in notice


def test_a_log_that_release_0_2_rotated_is_read_with_its_new_key(tmp_path: Path) -> None:
    """Its hand-over carries no signature, so that only the reader can say which key is the next."""
    world = Rotated(tmp_path)
    world.run("first")
    world.sign_with(world.key)
    world.rotate(SEEDS[0], signed=False)
    world.run("second")
    world.sign_with(*world.keys)
    old, new = world.keys

    for trust in (world.pin(new), world.pin(new, old)):
        for report in (world.verify(trust), verify_both(world.bundle("second"), trust)):
            assert report.ok, report.findings
            assert "as release 0.2 wrote it: it was read back" in report.notices[0]
    for trust in (world.pin(old), world.pin(old, new)):
        for report in (world.verify(trust), verify_both(world.bundle("second"), trust)):
            assert Problem.SIGNATURE_REJECTED in problems(report)
            assert "not followed; ask the owner for the newest key" in report.notices[0]


def test_a_hand_over_of_release_0_2_does_not_limit_the_key_that_the_reader_pins(
    tmp_path: Path,
) -> None:
    """A writer could name any key as the earlier one."""
    world = Rotated(tmp_path)
    world.run("first")
    world.sign_with(world.key)
    thief = SigningKey(SEEDS[2], world.key.name)
    world.record(KeyRotationFacts(str(thief.verifier()), str(world.key.verifier())))
    world.run("second")
    world.sign_with(world.key)
    trust = world.pin(world.key)
    assert world.verify(trust).ok

    world.run("third")
    Sequencer(world.store).drain()
    sign_anyway(world, thief)
    assert Problem.SIGNATURE_REJECTED in problems(world.verify(trust))
    assert Problem.SIGNATURE_REJECTED in problems(verify_both(world.bundle("third"), trust))


def test_a_reader_with_two_keys_needs_their_hand_over(tmp_path: Path) -> None:
    """Otherwise the thief of a retired key leaves the hand-over out, and is believed."""
    world = Rotated(tmp_path)
    world.run("first")
    world.sign_with(world.key)
    old, new = world.key, SigningKey(SEEDS[0], world.key.name)
    both = (world.pin(old, new), world.pin(new, old))
    assert verify_both(world.bundle("first"), world.pin(old)).ok
    for trust in both:
        assert Problem.SIGNATURE_REJECTED in problems(verify_both(world.bundle("first"), trust))

    # With the hand-over, and without anything that the new key has signed.
    world.hand_over(old, new)
    world.run("second")
    world.sign_with(old)
    assert verify_both(world.bundle("second"), world.pin(old)).ok
    for trust in both:
        assert Problem.SIGNATURE_REJECTED in problems(verify_both(world.bundle("second"), trust))

    world.run("third")
    world.sign_with(old, new)
    for trust in both:
        report = verify_both(world.bundle("third"), trust)
        assert report.ok, report.findings


def sign_anyway(world: Rotated, key: SigningKey) -> None:
    """Sign the tree with a stolen or foreign key, asking neither guard nor witness."""
    head = world.store.head()
    note = sign_checkpoint(Checkpoint(key.name, head.size, head.root), key).encode()
    world.store.save_checkpoint(head.size, note)
