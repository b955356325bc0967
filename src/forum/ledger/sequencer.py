"""From durable entries to a signed, witnessed tree.

The order is: read what has no index -> compute -> **in one transaction give out the indexes, store
the tiles and swap (size, root)** -> sign -> remember what was signed -> publish -> ask witnesses.
What a crash leads to is written beside each step.  The swap is a compare-and-set: two sequencers
at once may waste work, but they cannot make two trees.
"""

from collections.abc import Collection, Iterator, Sequence

import msgspec

from forum.errors import (
    ConcurrentUpdate,
    CosignatureRefused,
    GuardMissing,
    LogKeyRetired,
    Malformed,
    ProofRejected,
    RollbackDetected,
    SignatureRejected,
    TamperDetected,
    WitnessRefused,
    WitnessUnreachable,
)
from forum.ledger.ports import (
    CheckpointStore,
    Clock,
    Cosigner,
    EntryRow,
    PendingEntries,
    Store,
    TreeHead,
)
from forum.ledger.row_checks import has_matching_columns
from forum.ledger.write_tags import ReloadKeys, WriteKeys
from forum.tlog import (
    Checkpoint,
    Cosignature,
    Hash,
    Note,
    SigningKey,
    Tree,
    TreeView,
    VerifierKey,
    WitnessPolicy,
    check_consistency,
    is_witnessed,
    parse_checkpoint,
    prove_consistency,
    quorum_time,
    sign_checkpoint,
    verify_cosignatures,
)

MAX_BATCH_ENTRIES = 10_000
"""The most entries that get their indexes in one transaction."""

MAX_CLOCK_SKEW_S = 300
"""How far, in seconds, two clocks may be apart before one of them is called wrong."""

_MAX_LOOKBACK = 16
"""How many checkpoints to go back for a time that is not in the future."""


class Sequencer:
    """Gives indexes to the entries of one log."""

    def __init__(
        self, store: Store, keys: WriteKeys | None = None, reload: ReloadKeys = lambda: None
    ) -> None:
        self._store, self._keys, self._reload = store, keys, reload
        self._tree: Tree | None = None
        self._head: TreeHead | None = None

    def sequence_batch(self, limit: int = MAX_BATCH_ENTRIES) -> int:
        """Give indexes to some waiting entries, and return to how many."""
        batch = self._quarantine_foreign(self._store.pending_entries(limit))
        # Stopped here: nothing has happened, the entries still wait.
        leaves = batch.leaves
        if not leaves:
            return 0
        self._check_no_second_index(batch, leaves, limit)
        old = self._store.head()
        tree = self._load(old)
        # From here the tree in memory is ahead of the store, until the swap tells.
        self._tree = self._head = None
        tiles = tree.extend(leaves)
        new = TreeHead(tree.size, tree.root())
        # Stopped before the commit: nothing has happened.  Stopped after it, even without
        # hearing of it: the entries have their indexes and wait no more, and whoever comes next
        # begins at the new head.
        self._store.advance_head(old, new, batch, tiles)
        self._tree, self._head = tree, new
        return len(leaves)

    def _quarantine_foreign(self, batch: PendingEntries) -> PendingEntries:
        """Return what writers of this log wrote, having set all else aside.

        A row that somebody put into the database is no reason to stop: the rest goes on, and the
        position that it took becomes free.
        """
        own = [at for at, row in enumerate(batch.rows) if self._is_from_writer(row)]
        if len(own) < len(batch.rows) and (keys := self._reload()) is not None:
            # The key may have been rotated since this process started: what another writer was
            # acknowledged must not be set aside.
            self._keys = keys
            own = [at for at, row in enumerate(batch.rows) if self._is_from_writer(row)]
        if len(own) == len(batch.rows):
            return batch
        # Stopped before or after this commit: the next sequencer decides the same.
        self._store.move_to_quarantine(batch.select(set(range(len(batch.rows))).difference(own)))
        return batch.select(own)

    def _check_no_second_index(
        self, batch: PendingEntries, leaves: Sequence[bytes], limit: int
    ) -> None:
        """Refuse to give a second index to an entry: the tree would hold it twice for ever.

        No crash leads to that, since indexes are given in one transaction; an edit of the
        database does.
        """
        indexes = self._store.indexes([Hash(leaf) for leaf in leaves])
        twice = [at for at, index in enumerate(indexes) if index is not None]
        if not twice:
            return
        # Another sequencer may have been faster: then they wait no more.
        waiting = set(self._store.pending_entries(limit).keys)
        for at in twice:
            if batch.keys[at] in waiting:
                why = f"it waits for an index, and has index {indexes[at]} already"
                raise TamperDetected(f"entry {batch.rows[at].position}", why)
        raise ConcurrentUpdate(f"the waiting entries of {self._store.origin}")

    def _is_from_writer(self, row: EntryRow) -> bool:
        if not has_matching_columns(self._store.origin, row):
            return False
        if self._keys is None:
            return True
        if row.tag is None:
            return not self._keys.is_enforced
        return self._keys.accepts_entry(row.data, row.tag)

    def drain(self) -> int:
        """Give an index to every entry that waits now; another sequencer may help.

        What is appended meanwhile is left to others, or this would not end while they append.
        """
        done, span = 0, self._store.pending_span()
        end = span[1] if span else 0
        while span and span[0] <= end:
            before: tuple[int, int] | None = span
            try:
                done += self.sequence_batch()
            except ConcurrentUpdate:
                before = None  # another sequencer goes on, so the look below finds something else
            span = self._store.pending_span()
            if span == before:
                break  # a row that waits without its entry, in a tampered file: no step removes it
        return done

    def _load(self, head: TreeHead) -> Tree:
        if self._tree is None or head != self._head:
            return Tree.load(head.size, self._store.read_tile)
        return self._tree


class Publication(msgspec.Struct, frozen=True):
    """A checkpoint as it stands now, and what was heard from the witnesses."""

    note: bytes
    checkpoint: Checkpoint
    witnessed: bool
    refused: tuple[WitnessRefused, ...] = ()
    unreachable: tuple[WitnessUnreachable, ...] = ()
    clock_warnings: tuple[str, ...] = ()
    """Why the clock of this machine seems to be wrong, if it does."""


class Publisher:
    """Signs the trees of one log, never two that contradict each other."""

    def __init__(  # noqa: PLR0913  the last three have a default
        self,
        store: Store,
        key: SigningKey,
        guard: CheckpointStore,
        policy: WitnessPolicy,
        cosigners: Sequence[Cosigner] = (),
        *,
        follows: Collection[VerifierKey] = (),
        clock: Clock | None = None,
    ) -> None:
        """Sign with a key, which follows others that the log had before."""
        self._store, self._key, self._guard = store, key, guard
        self._policy, self._cosigners, self._clock = policy, cosigners, clock
        self._own = (key.verifier(), *follows)

    def sign(self) -> bytes:
        """Return the signed checkpoint of the tree as it stands."""
        while True:
            try:
                return self._sign()
            except ConcurrentUpdate:
                continue  # another signer has moved the guard: look again at what it signed

    def publish(self) -> Publication:
        """Sign the tree as it stands and ask every witness for its cosignature."""
        publication = self._publish()
        if publication.refused and self._store.head().size > publication.checkpoint.size:
            # Another process was faster: the witness has seen a larger tree.  Ask about that.
            return self._publish()
        return publication

    def _publish(self) -> Publication:
        note = signed = self.sign()
        refused, unreachable = [], []
        for cosigner in self._cosigners:
            try:
                note = self._ask_witness(cosigner, note)
            except WitnessRefused as error:
                refused.append(error)
            except WitnessUnreachable as error:
                unreachable.append(error)
        parsed = Note.parse(note)
        checkpoint = Checkpoint.parse(parsed.text)
        # Stopped before this: the next publication asks the witnesses again.
        self._store.save_checkpoint(checkpoint.size, note)
        witnessed = is_witnessed(parsed, self._policy)
        return Publication(
            note,
            checkpoint,
            witnessed,
            tuple(refused),
            tuple(unreachable),
            tuple(self._check_clock(parsed, Note.parse(signed), checkpoint.size)),
        )

    def _check_clock(self, note: Note, before: Note, size: int) -> Iterator[str]:
        """Yield where the clock of this machine disagrees with other clocks.

        Entries are given their times by this clock; what it gets wrong stays wrong for ever.
        """
        if self._clock is None:
            return
        now = self._clock()
        others = {"the database's": self._store.now() // 1_000_000}
        # Only who has cosigned just now says what time it is.
        fresh = tuple(s for s in note.signatures if s not in before.signatures)
        for seen in self._verify_cosignatures(Note(note.text, fresh)) if fresh else ():
            others[f"that of witness {seen.key.name}"] = seen.time
        last = self._store.checkpoint(size - 1)
        past = quorum_time(self._verify_cosignatures(last), self._policy) if last else 0
        if past > now // 1_000_000 + MAX_CLOCK_SKEW_S:
            # The other way round says nothing: a log may rest for as long as it likes.
            others["the last checkpoint's"] = past
        for name, time in others.items():
            skew = now // 1_000_000 - time
            if time and abs(skew) > MAX_CLOCK_SKEW_S:
                relation = "ahead of" if skew > 0 else "behind"
                yield (
                    f"the clock of this machine is {abs(skew)} s {relation} {name}; entries are "
                    "recorded with its time: set it right"
                )

    def _sign(self) -> bytes:
        # In this order.  A note is in the guard before it is in the store, and the tree only grows;
        # read the other way round, what another signer does in between would look like a lost
        # guard, or like a database that was rolled back.
        kept = self._store.checkpoint()
        last = self._guard.latest()
        head = self._store.head()
        if last is None and kept is not None:
            raise GuardMissing(self._store.origin, parse_checkpoint(kept).size)
        if last is not None and self._continues(last, head):
            # The same tree as before.  If we were stopped before it was published, it is now.
            if kept is None or parse_checkpoint(kept).size != head.size:
                self._store.save_checkpoint(head.size, last)
                return last
            return kept
        self._check_key(last)
        checkpoint = Checkpoint(self._store.origin, head.size, head.root)
        note = sign_checkpoint(checkpoint, self._key).encode()
        # Remember first, show second.  Stopped in between: the next signer finds the note in the
        # guard and shows it, or signs a tree that continues it.  The other order could show a
        # note that a restored database later contradicts.
        self._guard.advance(last, note)
        self._store.save_checkpoint(head.size, note)
        return note

    def _check_key(self, last: bytes | None) -> None:
        """Refuse to sign behind a key that has taken the log over from this one."""
        signatures = Note.parse(last).signatures if last else ()
        if last and not any(s.claims_key(key) for s in signatures for key in self._own):
            raise LogKeyRetired(self._store.origin)

    def _continues(self, last: bytes, head: TreeHead) -> bool:
        """Tell whether the tree is the one last signed; raise if it does not continue it."""
        signed = parse_checkpoint(last)
        try:
            if signed.size:
                proof = self._prove(signed.size, head.size) if signed.size <= head.size else []
                check_consistency(proof, signed.size, signed.root, head.size, head.root)
        except ProofRejected:
            raise RollbackDetected(self._store.origin, signed.size, head.size) from None
        return signed.size == head.size

    def _prove(self, old: int, new: int) -> Sequence[Hash]:
        return prove_consistency(TreeView(new, self._store.read_tile), old, new)

    def _ask_witness(self, cosigner: Cosigner, note: bytes) -> bytes:
        """Return the note with what this witness adds to it."""
        parsed = Note.parse(note)
        text, own = parsed.text, parsed.signatures
        if any(signature.name == cosigner.name for signature in own):
            return note  # its first cosignature is the earlier, and so the better, evidence
        try:
            # Malformed is also what it gets that asks for a proof which cannot exist.
            answered = Note.parse(note + cosigner.cosign(note, self._prove).encode())
            verify_cosignatures(answered, self._policy.witness_keys)
        except (Malformed, SignatureRejected, UnicodeEncodeError) as error:
            raise WitnessRefused(cosigner.name, f"its answer does not hold: {error}") from None
        if answered.text != text:
            # An empty line in the answer makes all that stands above it part of the text.
            raise WitnessRefused(cosigner.name, "its answer does not belong below this checkpoint")
        known = {(key.name, key.key_id) for key in self._policy.witness_keys}
        added = [s for s in answered.signatures[len(own) :] if (s.name, s.key_id) in known]
        if not added:
            raise WitnessRefused(cosigner.name, "it answered without its cosignature")
        completed = Note(text, (*own, *added))
        self._check_times(cosigner.name, Note(text, tuple(added)))
        return completed.encode()

    def _check_times(self, witness: str, added: Note) -> None:
        """Refuse cosignatures whose times cannot be right: what is stored bounds every entry.

        A larger tree is cosigned later: by the same witness, and by the quorum.
        """
        now = self._clock() // 1_000_000 if self._clock else None
        size = Checkpoint.parse(added.text).size
        for cosignature in self._verify_cosignatures(added):
            time = cosignature.time
            if not time:
                raise CosignatureRefused(witness, "it does not say when it cosigned")
            if now is not None and time > now + MAX_CLOCK_SKEW_S:
                why = f"it cosigned {time - now} s in the future, by the clock of this machine"
                raise CosignatureRefused(witness, f"{why}; one of the two clocks is wrong")
            earlier = self._last_cosigned_time(cosignature.key, size, now)
            if time < earlier - MAX_CLOCK_SKEW_S:
                why = f"it cosigned {earlier - time} s before an earlier checkpoint was cosigned"
                raise CosignatureRefused(witness, f"{why}; its clock is wrong")

    def _last_cosigned_time(self, witness: VerifierKey, size: int, now: int | None) -> int:
        """Return when a tree smaller than this one was last cosigned, by a witness or the quorum.

        A time that has not come yet is passed over: then it was that clock which was wrong, and
        refusing all others until then would leave the log without witnesses.
        """
        for _ in range(_MAX_LOOKBACK):
            note = self._store.checkpoint(size - 1) if size else None
            if note is None:
                return 0
            seen = self._verify_cosignatures(note)
            own = (c.time for c in seen if c.key == witness)
            latest = max([quorum_time(seen, self._policy), *own])
            if latest and (now is None or latest <= now + MAX_CLOCK_SKEW_S):
                return latest
            try:
                size = parse_checkpoint(note).size
            except Malformed:
                return 0  # somebody has written into the database; whoever verifies finds it
        return 0

    def _verify_cosignatures(self, note: Note | bytes) -> tuple[Cosignature, ...]:
        """Return the cosignatures of a note; of one that does not hold, none."""
        try:
            parsed = note if isinstance(note, Note) else Note.parse(note)
            return verify_cosignatures(parsed, self._policy.witness_keys)
        except (Malformed, SignatureRejected):
            return ()
