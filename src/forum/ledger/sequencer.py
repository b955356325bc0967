"""From durable entries to a signed, witnessed tree.

The order is: read what has no index -> compute -> **in one transaction give out the indexes, store
the tiles and swap (size, root)** -> sign -> remember what was signed -> publish -> ask witnesses.
What a crash leads to is written beside each step.  The swap is a compare-and-set: two sequencers
at once may waste work, but they cannot make two trees.
"""

from collections.abc import Sequence

import msgspec

from forum.errors import (
    GuardMissing,
    Malformed,
    Overtaken,
    ProofRejected,
    RolledBack,
    SignatureRejected,
    Unreachable,
    WitnessRefused,
)
from forum.ledger.ports import Cosigner, Head, Memory, Store
from forum.tlog import (
    Checkpoint,
    Hash,
    Note,
    Policy,
    SigningKey,
    Tree,
    TreeView,
    check_consistency,
    checkpoint_of,
    cosignatures,
    is_witnessed,
    prove_consistency,
    sign_checkpoint,
)

BATCH = 10_000
"""The most entries that get their indexes in one transaction."""


class Sequencer:
    """Gives indexes to the entries of one log."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tree: Tree | None = None
        self._head: Head | None = None

    def step(self, limit: int = BATCH) -> int:
        """Give indexes to some waiting entries, and return to how many."""
        batch = self._store.waiting(limit)
        # Stopped here: nothing has happened, the entries still wait.
        if not batch.leaves:
            return 0
        old = self._store.head()
        tree = self._load(old)
        # From here the tree in memory is ahead of the store, until the swap tells.
        self._tree = self._head = None
        tiles = tree.extend(batch.leaves)
        new = Head(tree.size, tree.root())
        # Stopped before the commit: nothing has happened.  Stopped after it, even without
        # hearing of it: the entries have their indexes and wait no more, and whoever comes next
        # begins at the new head.
        self._store.swap(old, new, batch, tiles)
        self._tree, self._head = tree, new
        return len(batch.leaves)

    def drain(self) -> int:
        """Give an index to every entry that waits now; another sequencer may help."""
        done = 0
        while True:
            try:
                count = self.step()
            except Overtaken:
                continue
            if not count:
                return done
            done += count

    def _load(self, head: Head) -> Tree:
        if self._tree is None or head != self._head:
            return Tree.load(head.size, self._store.read_tile)
        return self._tree


class Publication(msgspec.Struct, frozen=True):
    """A checkpoint as it stands now, and what was heard from the witnesses."""

    note: bytes
    checkpoint: Checkpoint
    witnessed: bool
    refused: tuple[WitnessRefused, ...] = ()
    unreachable: tuple[Unreachable, ...] = ()


class Publisher:
    """Signs the trees of one log, never two that contradict each other."""

    def __init__(
        self,
        store: Store,
        key: SigningKey,
        guard: Memory,
        policy: Policy,
        cosigners: Sequence[Cosigner] = (),
    ) -> None:
        self._store, self._key, self._guard = store, key, guard
        self._policy, self._cosigners = policy, cosigners

    def sign(self) -> bytes:
        """Return the signed checkpoint of the tree as it stands."""
        while True:
            try:
                return self._sign()
            except Overtaken:
                continue  # another signer has moved the guard: look again at what it signed

    def publish(self) -> Publication:
        """Sign the tree as it stands and ask every witness for its cosignature."""
        publication = self._publish()
        if publication.refused and self._store.head().size > publication.checkpoint.size:
            # Another process was faster: the witness has seen a larger tree.  Ask about that.
            return self._publish()
        return publication

    def _publish(self) -> Publication:
        note = self.sign()
        refused, unreachable = [], []
        for cosigner in self._cosigners:
            try:
                note = self._ask(cosigner, note)
            except WitnessRefused as error:
                refused.append(error)
            except Unreachable as error:
                unreachable.append(error)
        parsed = Note.parse(note)
        checkpoint = Checkpoint.parse(parsed.text)
        # Stopped before this: the next publication asks the witnesses again.
        self._store.save_checkpoint(checkpoint.size, note)
        witnessed = is_witnessed(parsed, self._policy)
        return Publication(note, checkpoint, witnessed, tuple(refused), tuple(unreachable))

    def _sign(self) -> bytes:
        # In this order.  A note is in the guard before it is in the store, and the tree only grows;
        # read the other way round, what another signer does in between would look like a lost
        # guard, or like a database that was rolled back.
        kept = self._store.checkpoint()
        last = self._guard.latest()
        head = self._store.head()
        if last is None and kept is not None:
            raise GuardMissing(self._store.origin, checkpoint_of(kept).size)
        if last is not None and self._continues(last, head):
            # The same tree as before.  If we were stopped before it was published, it is now.
            if kept is None or checkpoint_of(kept).size != head.size:
                self._store.save_checkpoint(head.size, last)
                return last
            return kept
        checkpoint = Checkpoint(self._store.origin, head.size, head.root)
        note = sign_checkpoint(checkpoint, self._key).encode()
        # Remember first, show second.  Stopped in between: the next signer finds the note in the
        # guard and shows it, or signs a tree that continues it.  The other order could show a
        # note that a restored database later contradicts.
        self._guard.advance(last, note)
        self._store.save_checkpoint(head.size, note)
        return note

    def _continues(self, last: bytes, head: Head) -> bool:
        """Tell whether the tree is the one last signed; raise if it does not continue it."""
        signed = checkpoint_of(last)
        try:
            if signed.size:
                proof = self._prove(signed.size, head.size) if signed.size <= head.size else []
                check_consistency(proof, signed.size, signed.root, head.size, head.root)
        except ProofRejected:
            raise RolledBack(self._store.origin, signed.size, head.size) from None
        return signed.size == head.size

    def _prove(self, old: int, new: int) -> Sequence[Hash]:
        return prove_consistency(TreeView(new, self._store.read_tile), old, new)

    def _ask(self, cosigner: Cosigner, note: bytes) -> bytes:
        """Return the note with what this witness adds to it."""
        parsed = Note.parse(note)
        text, own = parsed.text, parsed.signatures
        if any(signature.name == cosigner.name for signature in own):
            return note  # its first cosignature is the earlier, and so the better, evidence
        try:
            # Malformed is also what it gets that asks for a proof which cannot exist.
            answered = Note.parse(note + cosigner.cosign(note, self._prove).encode())
            cosignatures(answered, self._policy.witness_keys)
        except (Malformed, SignatureRejected, UnicodeEncodeError) as error:
            raise WitnessRefused(cosigner.name, f"its answer does not hold: {error}") from None
        if answered.text != text:
            # An empty line in the answer makes all that stands above it part of the text.
            raise WitnessRefused(cosigner.name, "its answer does not belong below this checkpoint")
        known = {(key.name, key.key_id) for key in self._policy.witness_keys}
        added = [s for s in answered.signatures[len(own) :] if (s.name, s.key_id) in known]
        if not added:
            raise WitnessRefused(cosigner.name, "it answered without its cosignature")
        return Note(text, (*own, *added)).encode()
