"""The keys that may sign a log, and the tree sizes for which each is valid.

A reader pins a key of a log.  An entry of the log may rotate that key to another one
(`key.rotate/1`).  The entry counts if it is in a tree that the pinned key has signed.  Then the new
key may sign too, and the old key is valid only up to the first tree that the new key signs.  A
reader that pins the new key accepts the trees that the old key signed until then.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from forum import tlog
from forum.errors import Malformed, ProofRejected, SignatureRejected
from forum.ledger.bundle import BundleReader
from forum.ledger.key_rotation import KeyRotation, find_key_rotations, read_key_rotation
from forum.ledger.kinds import Kinds
from forum.ledger.ports import Reader
from forum.verify.report import Findings, Problem
from forum.verify.trust import Trust

HasRotation = Callable[[KeyRotation, tlog.Checkpoint], bool]
"""A function that returns whether the tree of a checkpoint contains a key rotation."""


_Signers = dict[tlog.Checkpoint, set[tlog.VerifierKey]]
"""The log keys whose signatures on each checkpoint are valid."""


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
        self._accepted = {
            key for key in trust.log_keys if (key.name, key.algorithm) == (origin, tlog.ED25519)
        }
        self._since: dict[tlog.VerifierKey, int] = {}
        """The smallest tree that a key may sign; a key without an item has no lower bound."""
        self._until: dict[tlog.VerifierKey, int] = {}
        """The largest tree that a key may sign; a key without an item has no upper bound."""
        pinned, ordered = frozenset(self._accepted), sorted(hand_overs, key=lambda h: h.index)
        if pinned and ordered:
            named = {key for hand_over in ordered for key in (hand_over.old, hand_over.new)}
            self._follow_rotations(ordered, _read_signers(notes, named | pinned), proves)
        added = sorted(self._accepted - pinned, key=str)
        self.trust = replace(trust, keys=(*trust.keys, *added))
        """The trust of the reader, extended by the keys that the rotations add."""

    def _follow_rotations(
        self, hand_overs: Sequence[KeyRotation], trees: _Signers, proves: HasRotation
    ) -> None:
        """Accept the keys after the pinned ones in log order, then those before them in reverse."""
        for hand_over in hand_overs:
            if hand_over.old in self._accepted:
                self._accept_rotation(hand_over, hand_over.old, trees, proves)
        for hand_over in reversed(hand_overs):
            if hand_over.new in self._accepted:
                self._accept_rotation(hand_over, hand_over.new, trees, proves)

    def _accept_rotation(
        self,
        hand_over: KeyRotation,
        signer: tlog.VerifierKey,
        trees: _Signers,
        proves: HasRotation,
    ) -> None:
        """Accept both keys of a rotation if a tree that the accepted one signed contains it."""
        covering = [
            tree
            for tree, signers in trees.items()
            if signer in signers and self._may_sign(signer, tree.size)
            if tree.size > hand_over.index
        ]
        if not covering or not proves(hand_over, min(covering, key=lambda tree: tree.size)):
            return
        self._accepted |= {hand_over.old, hand_over.new}
        self._since[hand_over.new] = hand_over.index + 1
        # The old key ends with the first tree that the new key has signed.  Otherwise a thief of
        # the old key could go on signing.
        first = [
            tree.size
            for tree, signers in trees.items()
            if hand_over.new in signers and tree.size > hand_over.index
        ]
        if first:
            until = self._until.get(hand_over.old, min(first))
            self._until[hand_over.old] = min(until, *first)

    def _may_sign(self, key: tlog.VerifierKey, size: int) -> bool:
        return self._since.get(key, 0) <= size <= self._until.get(key, size)

    def check_signer(self, data: bytes, findings: Findings) -> bool:
        """Return whether a checkpoint is signed by a key that was valid at its size.

        Adds a finding if it is not.  The signatures themselves must have been verified before.
        """
        if not self._since:
            return True
        note = tlog.Note.parse(data)
        size = tlog.Checkpoint.parse(note.text).size
        signers = [k for k in self._accepted for s in note.signatures if s.claims_key(k)]
        if any(self._may_sign(key, size) for key in signers):
            return True
        detail = f"checkpoint of size {size}: signed by a key that was not valid at this size"
        findings.add(Problem.SIGNATURE_REJECTED, detail)
        return False


def read_ledger_log_keys(reader: Reader, kinds: Kinds, trust: Trust) -> LogKeys:
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
            tlog.check_inclusion(proof, tlog.Hash(hand_over.leaf), hand_over.index, size, root)
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
    rotations = [
        hand_over
        for index in bundle.indexes
        if b'"key.rotate/1"' in (data := bundle.entry(index))
        if (hand_over := _read_proven_rotation(bundle, kinds, index, data, newest))
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


def _read_proven_rotation(
    bundle: BundleReader, kinds: Kinds, index: int, data: bytes, newest: tlog.Checkpoint
) -> KeyRotation | None:
    """Return the key rotation in an entry of a bundle if the entry is proven in its tree."""
    proof = bundle.proof(index)
    try:
        entry = kinds.read(data)
        tlog.check_inclusion(proof.hashes, tlog.hash_leaf(data), index, newest.size, newest.root)
    except (ProofRejected, Malformed):
        return None  # reported when the entry is checked
    return read_key_rotation(index, data, entry, bundle.origin) if proof.index == index else None


def _is_continued_by(note: bytes, proof: Sequence[tlog.Hash], newest: tlog.Checkpoint) -> bool:
    try:
        old = tlog.parse_checkpoint(note)
        tlog.check_consistency(proof, old.size, old.root, newest.size, newest.root)
    except (ProofRejected, Malformed):
        return False
    return True


def _read_signers(notes: Iterable[bytes], keys: Iterable[tlog.VerifierKey]) -> _Signers:
    """Return the checkpoints with the keys, of these, that have signed each."""
    candidates, trees = list(keys), _Signers()
    for data in notes:
        try:
            note = tlog.Note.parse(data)
            checkpoint = tlog.Checkpoint.parse(note.text)
        except Malformed:
            continue  # reported when the checkpoint is opened
        signers = {key for key in candidates if _has_signed(key, note)}
        trees.setdefault(checkpoint, set()).update(signers)
    return trees


def _has_signed(key: tlog.VerifierKey, note: tlog.Note) -> bool:
    claimed = next((s for s in note.signatures if s.claims_key(key)), None)
    if claimed is None:
        return False
    try:
        key.verify(note.text.encode(), claimed.blob)
    except SignatureRejected:
        return False
    return True
