"""The keys that may sign a log, and the tree sizes for which each is valid.

A reader pins a key of a log.  An entry of the log may hand it over to another key
(`key.rotate/2`).  The entry counts if both keys have signed what it says, and if it is in a tree
that the pinned key has signed.  Then the new key may sign too, and the old key is valid only up to
the first tree that the new key signs.  A reader that pins the new key accepts the trees that the
old key signed until then.

Release 0.2 wrote hand-overs without those signatures (`key.rotate/1`), which every writer can do.
They lead to no new key.  They only lead back: what an old key signed then is part of a tree that
the pinned key has signed.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from forum import tlog
from forum.errors import Malformed, ProofRejected, SignatureRejected
from forum.ledger.bundle import BundleReader
from forum.ledger.key_rotation import (
    MAX_ROTATIONS,
    KeyRotation,
    find_key_rotations,
    read_key_rotation,
)
from forum.ledger.kinds import Kinds
from forum.ledger.ports import EntryReader
from forum.verify.report import Findings, Problem
from forum.verify.trust import Trust

HasRotation = Callable[[KeyRotation, tlog.Checkpoint], bool]
"""A function that returns whether the tree of a checkpoint contains a key rotation."""


_NOT_FOLLOWED = "it was not followed, because a signature does not hold, or nothing leads to it"


class _SignedTrees:
    """The checkpoints of a log by size, whose signatures are verified when they decide."""

    def __init__(self, notes: Iterable[bytes]) -> None:
        self._notes: list[tuple[tlog.Checkpoint, tlog.Note]] = []
        for data in notes:
            try:
                note = tlog.Note.parse(data)
                self._notes.append((tlog.Checkpoint.parse(note.text), note))
            except Malformed:
                continue  # reported when the checkpoint is opened
        self._notes.sort(key=lambda pair: pair[0].size)
        self._verified: dict[tuple[tlog.VerifierKey, int], bool] = {}

    def find_first(
        self, key: tlog.VerifierKey, index: int, may_sign: Callable[[tlog.VerifierKey, int], bool]
    ) -> tlog.Checkpoint | None:
        """Return the smallest tree beyond an index that a key has signed when it was allowed to."""
        for number, (checkpoint, note) in enumerate(self._notes):
            if checkpoint.size <= index or not may_sign(key, checkpoint.size):
                continue
            place = (key, number)
            if place not in self._verified:
                self._verified[place] = _has_signed(key, note)
            if self._verified[place]:
                return checkpoint
        return None


class LogKeys:
    """The keys of one log that follow from the pinned keys by its key rotations."""

    def __init__(
        self,
        trust: Trust,
        origin: str,
        hand_overs: Iterable[KeyRotation] = (),
        notes: Iterable[bytes] = (),
        proves: HasRotation = lambda _hand_over, _checkpoint: False,
    ) -> None:
        self._origin = origin
        self._pinned = [
            key for key in trust.log_keys if (key.name, key.algorithm) == (origin, tlog.ED25519)
        ]
        self._accepted = set(self._pinned)
        self._since: dict[tlog.VerifierKey, int] = {}
        """The smallest tree that a key may sign; a key without an item has no lower bound."""
        self._until: dict[tlog.VerifierKey, int] = {}
        """The largest tree that a key may sign; a key without an item has no upper bound."""
        self._followed: set[KeyRotation] = set()
        ordered = sorted(hand_overs, key=lambda h: h.index) if self._pinned else []
        if ordered:
            self._follow_rotations(ordered, _SignedTrees(notes), proves)
        added = sorted(self._accepted.difference(self._pinned), key=str)
        self.trust = replace(trust, keys=(*trust.keys, *added))
        """The trust of the reader, extended by the keys that the rotations add."""
        self.notices = tuple(map(self._describe, ordered))
        """One sentence for each hand-over, followed or not."""

    def _follow_rotations(
        self, hand_overs: Sequence[KeyRotation], trees: _SignedTrees, proves: HasRotation
    ) -> None:
        """Accept the keys after the pinned ones in log order, then those before them in reverse."""
        for hand_over in hand_overs:
            if hand_over.old in self._accepted and self._is_signed(hand_over):
                self._accept_rotation(hand_over, hand_over.old, trees, proves)
        for hand_over in reversed(hand_overs):
            if hand_over.new in self._accepted and (
                self._leads_back(hand_over)
                if hand_over.signatures is None
                else self._is_signed(hand_over)
            ):
                self._accept_rotation(hand_over, hand_over.new, trees, proves)

    def _is_signed(self, hand_over: KeyRotation) -> bool:
        return hand_over in self._followed or (
            hand_over.signatures is not None and hand_over.signatures.is_signed(self._origin)
        )

    def _leads_back(self, hand_over: KeyRotation) -> bool:
        """Return whether an unsigned hand-over may lead from an accepted key to an earlier one.

        Of two keys that the reader pins, the first is the newer: a writer must not turn them round.
        """
        old, new = hand_over.old, hand_over.new
        pinned = self._pinned
        return old not in pinned or (new in pinned and pinned.index(new) < pinned.index(old))

    def _accept_rotation(
        self,
        hand_over: KeyRotation,
        signer: tlog.VerifierKey,
        trees: _SignedTrees,
        proves: HasRotation,
    ) -> None:
        """Accept both keys of a rotation if a tree that the accepted one signed contains it."""
        old, new = hand_over.old, hand_over.new
        index = hand_over.index
        covering = trees.find_first(signer, index, self.may_sign)
        if covering is None or not proves(hand_over, covering):
            return
        self._followed.add(hand_over)
        self._accepted |= {old, new}
        if hand_over.signatures is not None:
            self._since[new] = index + 1
        # The old key ends with the first tree that the new key has signed.  Otherwise a thief of
        # the old key could go on signing.  A reader who pins the new key knows that it is in use:
        # then the old one ends in any case, and leaving out what the new key signed is of no use.
        first = trees.find_first(new, index, self.may_sign)
        if first is not None:
            self._until[old] = min(first.size, self._until.get(old, first.size))
        elif new in self._pinned:
            self._until.setdefault(old, index)

    def may_sign(self, key: tlog.VerifierKey, size: int) -> bool:
        """Return whether a key may sign a tree of this size."""
        if key not in self._accepted:
            return False
        return self._since.get(key, 0) <= size <= self._until.get(key, size)

    def _describe(self, hand_over: KeyRotation) -> str:
        old, new = hand_over.old.key_id.hex(), hand_over.new.key_id.hex()
        text = f"entry {hand_over.index} hands the log over from key {old} to key {new}"
        if hand_over.signatures is not None:
            followed = "both have signed that" if hand_over in self._followed else _NOT_FOLLOWED
            return f"{text}: {followed}"
        followed = (
            "it was read back from the key that you pin"
            if hand_over in self._followed
            else "it was not followed; ask the owner for the newest key, and pin that one"
        )
        return f"{text} without their signatures, as release 0.2 wrote it: {followed}"

    def check_signer(self, data: bytes, findings: Findings) -> bool:
        """Return whether a checkpoint is signed by a key that was valid at its size.

        Adds a finding if it is not.  The signatures themselves must have been verified before.
        """
        note = tlog.Note.parse(data)
        size = tlog.Checkpoint.parse(note.text).size
        retired = {hand_over.old for hand_over in self._followed}
        if len([key for key in self._pinned if key not in retired]) > 1:
            detail = (
                f"checkpoint of size {size}: you pin several keys of this log, and no hand-over "
                "between them is here; pin the newest one only; if this was exported before the "
                "hand-over, ask for a new export"
            )
        elif not self._followed or any(
            self.may_sign(key, size)
            for key in self._accepted
            for signature in note.signatures
            if signature.claims_key(key)
        ):
            return True
        else:
            detail = f"checkpoint of size {size}: signed by a key that was not valid at this size"
        findings.add(Problem.SIGNATURE_REJECTED, detail)
        return False


def read_ledger_log_keys(reader: EntryReader, kinds: Kinds, trust: Trust) -> LogKeys:
    """Return the keys of a log, from the key rotations in the ledger."""
    if not trust.log_keys:
        return LogKeys(trust, reader.origin)
    rotations = [
        hand_over
        for entry in find_key_rotations(reader, kinds)
        if entry.index is not None
        if (hand_over := read_key_rotation(entry.index, entry.data, entry.entry, reader.origin))
    ]
    if not rotations:
        return LogKeys(trust, reader.origin)

    def proves(hand_over: KeyRotation, checkpoint: tlog.Checkpoint) -> bool:
        size, root = checkpoint.size, checkpoint.root
        try:
            proof = tlog.prove_inclusion(
                tlog.TreeView(size, reader.read_tile), hand_over.index, size
            )
            tlog.check_inclusion(proof, tlog.Hash(hand_over.leaf), hand_over.index, size, root=root)
        except (ProofRejected, Malformed):
            return False
        return True

    return LogKeys(
        trust=trust,
        origin=reader.origin,
        hand_overs=rotations,
        notes=reader.checkpoints(),
        proves=proves,
    )


def read_bundle_log_keys(bundle: BundleReader, kinds: Kinds, trust: Trust) -> LogKeys:
    """Return the keys of the log of a bundle, from the key rotations in the bundle."""
    try:
        newest = tlog.parse_checkpoint(bundle.checkpoint)
    except Malformed:
        return LogKeys(trust, bundle.origin)
    named = [i for i in bundle.indexes if b'"key.rotate/' in bundle.entry(i)]
    check_rotation_count(len(named))
    rotations = [
        hand_over
        for index in named
        if (
            hand_over := _read_proven_rotation(
                bundle, kinds, index, bundle.entry(index), newest=newest
            )
        )
    ]
    # Each rotation is proven in the newest tree, and each earlier tree is proven to be a prefix of
    # it.  So an earlier tree beyond the index of a rotation contains it without a further proof.
    earlier = [past.note for past in bundle.past if _is_continued_by(past.note, past.proof, newest)]
    notes = (bundle.checkpoint, *earlier)
    return LogKeys(
        trust=trust,
        origin=bundle.origin,
        hand_overs=rotations,
        notes=notes,
        proves=lambda _hand_over, _checkpoint: True,
    )


def check_rotation_count(count: int) -> None:
    """Raise `Malformed` for more hand-overs of a log than any log needs."""
    if count > MAX_ROTATIONS:
        raise Malformed("bundle", f"more than {MAX_ROTATIONS} hand-overs of the log")


def _read_proven_rotation(
    bundle: BundleReader, kinds: Kinds, index: int, data: bytes, newest: tlog.Checkpoint
) -> KeyRotation | None:
    """Return the key rotation in an entry of a bundle if the entry is proven in its tree."""
    if not is_proven(bundle, index, data, newest):
        return None  # reported when the entry is checked
    try:
        return read_key_rotation(index, data, kinds.read(data), bundle.origin)
    except Malformed:
        return None


def is_proven(bundle: BundleReader, index: int, data: bytes, newest: tlog.Checkpoint) -> bool:
    """Return whether an entry is in the tree, which is checked before it costs more."""
    proof = bundle.proof(index)
    try:
        tlog.check_inclusion(
            proof.hashes, tlog.hash_leaf(data), index, newest.size, root=newest.root
        )
    except (ProofRejected, Malformed):
        return False
    return proof.entry == index


def _is_continued_by(note: bytes, proof: Sequence[tlog.Hash], newest: tlog.Checkpoint) -> bool:
    try:
        old = tlog.parse_checkpoint(note)
        tlog.check_consistency(proof, old.size, old.root, newest.size, new_root=newest.root)
    except (ProofRejected, Malformed):
        return False
    return True


def _has_signed(key: tlog.VerifierKey, note: tlog.Note) -> bool:
    try:
        return bool(tlog.verify_note(note, [key]))
    except SignatureRejected:
        return False
