"""Turn durable entries into a signed and witnessed tree: sequence, sign, publish.

The order is: read the entries without an index -> compute the new tree -> **in one transaction
assign the indexes, store the tiles and swap (size, root)** -> sign -> store the note in the guard
-> store it in the database -> ask the witnesses.  A comment at each step says what a crash there
leads to.  The swap is a compare-and-set: two concurrent sequencers may waste work, but they cannot
make two trees.
"""

from collections.abc import Collection, Iterator, Sequence

import msgspec

from forum import errors, tlog
from forum.ledger import ports
from forum.ledger.control_key import is_allowed, is_control_row
from forum.ledger.row_checks import has_matching_columns
from forum.ledger.write_tags import ReloadKeys, WriteKeys

MAX_BATCH_ENTRIES = 10_000
"""The largest number of entries that get their indexes in one transaction."""

MAX_CLOCK_SKEW_S = 300
"""The largest difference between two clocks, in seconds, that is not reported as an error."""

_MAX_LOOKBACK = 16
"""How many checkpoints are searched backwards for a cosignature time that is not in the future."""


class Sequencer:
    """Assigns indexes to the entries of one log."""

    def __init__(
        self,
        store: ports.Store,
        keys: WriteKeys | None = None,
        reload: ReloadKeys = lambda: None,
        control: WriteKeys | None = None,
        *,
        is_signer: bool = True,
    ) -> None:
        """With `control`, set aside control entries that the signing machine has not tagged.

        A sequencer on another machine cannot tell, and leaves them to the machine that signs.
        """
        self._store, self._keys, self._reload, self._control = store, keys, reload, control
        self._is_signer = is_signer
        self._tree: tlog.Tree | None = None
        self._head: ports.TreeHead | None = None

    def sequence_batch(self, limit: int = MAX_BATCH_ENTRIES) -> int:
        """Assign indexes to up to `limit` pending entries, and return how many got one.

        Raises `ConcurrentUpdate` if another sequencer was faster, `TamperDetected` if an entry has
        an index already.
        """
        pending = self._store.pending_entries(limit)
        if not self._is_signer and any(is_control_row(row) for row in pending.rows):
            return 0
        batch = self._quarantine_foreign(pending)
        # A crash here changes nothing: the entries are still pending.
        leaves = batch.leaves
        if not leaves:
            return 0
        self._check_no_second_index(batch, leaves, limit)
        old = self._store.head()
        tree = self._load(old)
        # `extend` changes the cached tree before the store commits.  The cache is dropped first, so
        # that after a failed swap the next call loads the tree from the store.
        self._tree = self._head = None
        tiles = tree.extend(leaves)
        new = ports.TreeHead(tree.size, tree.root())
        # A crash before the commit changes nothing.  After the commit, even if the acknowledgement
        # is lost in a crash, the entries have their indexes and are no longer pending, and the next
        # sequencer starts from the new head.
        self._store.advance_head(old, new, batch, tiles)
        self._tree, self._head = tree, new
        return len(leaves)

    def _quarantine_foreign(self, batch: ports.PendingEntries) -> ports.PendingEntries:
        """Return the rows that writers of this log wrote, after moving all others to quarantine.

        A foreign row, inserted into the database by an attacker, must not stop the log: the other
        entries are sequenced, and the position that the row took becomes free.
        """
        own = [at for at, row in enumerate(batch.rows) if self._is_from_writer(row)]
        if len(own) < len(batch.rows) and (keys := self._reload()) is not None:
            # The write key may have been rotated since this process started.  Entries that were
            # acknowledged to another writer must not be quarantined.
            self._keys = keys
            own = [at for at, row in enumerate(batch.rows) if self._is_from_writer(row)]
        if len(own) == len(batch.rows):
            return batch
        # A crash before or after this commit is harmless: the next sequencer decides the same.
        self._store.move_to_quarantine(batch.select(set(range(len(batch.rows))).difference(own)))
        return batch.select(own)

    def _check_no_second_index(
        self, batch: ports.PendingEntries, leaves: Sequence[bytes], limit: int
    ) -> None:
        """Raise if a pending entry has an index already: the tree would hold it twice for ever.

        No crash leads to this state, because an index is assigned and the entry removed from the
        queue in one transaction; an edit of the database does.  Raises `TamperDetected`, or
        `ConcurrentUpdate` if another sequencer assigned the indexes meanwhile.
        """
        indexes = self._store.indexes([tlog.Hash(leaf) for leaf in leaves])
        twice = [at for at, index in enumerate(indexes) if index is not None]
        if not twice:
            return
        # If another sequencer was faster, these entries are no longer pending.
        waiting = set(self._store.pending_entries(limit).keys)
        for at in twice:
            if batch.keys[at] in waiting:
                why = f"it is pending, but has index {indexes[at]} already"
                raise errors.TamperDetected(f"entry {batch.rows[at].position}", why)
        raise errors.ConcurrentUpdate(f"the waiting entries of {self._store.origin}")

    def _is_from_writer(self, row: ports.EntryRow) -> bool:
        if not has_matching_columns(self._store.origin, row):
            return False
        if not is_allowed(row, self._control):
            return False
        return self._keys is None or self._keys.accepts_new_entry(row.data, row.tag)

    def drain(self) -> int:
        """Sequence every entry that is pending now, and return how many this process sequenced.

        Another sequencer may do part of the work.  Entries appended meanwhile are left out;
        otherwise this would not end while writers append.
        """
        done, span = 0, self._store.pending_span()
        end = span[1] if span else 0
        while span and span[0] <= end:
            before: tuple[int, int] | None = span
            try:
                done += self.sequence_batch()
            except errors.ConcurrentUpdate:
                before = None  # another sequencer made progress, so the comparison below must fail
            span = self._store.pending_span()
            if span == before:
                break  # no progress: in a tampered database a pending row may lack its entry
        return done

    def _load(self, head: ports.TreeHead) -> tlog.Tree:
        if self._tree is None or head != self._head:
            return tlog.Tree.load(head.size, self._store.read_tile)
        return self._tree


class Publication(msgspec.Struct, frozen=True):
    """A checkpoint as it stands now, and what was heard from the witnesses."""

    note: bytes
    checkpoint: tlog.Checkpoint
    witnessed: bool
    refused: tuple[errors.WitnessRefused, ...] = ()
    unreachable: tuple[errors.WitnessUnreachable, ...] = ()
    clock_warnings: tuple[str, ...] = ()
    """Warnings that the clock of this machine disagrees with other clocks."""
    witnessing: str = ""
    """How far it is witnessed, in words."""


class Publisher:
    """Signs the trees of one log, and never two trees that contradict each other.

    The guard, outside the database, holds the last signed note.  A tree is signed only if it is
    consistent with that note, so a database restored from an old backup cannot fork the log.
    """

    def __init__(  # noqa: PLR0913  the last three have a default
        self,
        store: ports.Store,
        key: tlog.SigningKey,
        guard: ports.CheckpointStore,
        policy: tlog.WitnessPolicy,
        cosigners: Sequence[ports.Cosigner] = (),
        *,
        follows: Collection[tlog.VerifierKey] = (),
        clock: ports.Clock | None = None,
        control: WriteKeys | None = None,
    ) -> None:
        """Use `key` to sign; `follows` are the keys that signed for the log before it.

        With `control`, a tree with a control entry that this machine has not tagged is refused.
        """
        self._control = control
        self._store, self._key, self._guard = store, key, guard
        self._policy, self._cosigners, self._clock = policy, cosigners, clock
        self._own = (key.verifier(), *follows)

    def sign(self) -> bytes:
        """Return the signed checkpoint of the current tree.

        Raises `GuardMissing`, `RollbackDetected`, `LogKeyRetired`.
        """
        while True:
            try:
                return self._sign()
            except errors.ConcurrentUpdate:
                continue  # another signer advanced the guard: read again what it signed

    def publish(self) -> Publication:
        """Sign the current tree and ask every witness for its cosignature.

        A witness that refuses or cannot be reached is reported in the result, not raised.
        """
        publication = self._publish()
        if publication.refused and self._store.head().size > publication.checkpoint.size:
            # Another process may have shown the witness a larger tree.  Ask again with that one.
            return self._publish()
        return publication

    def _publish(self) -> Publication:
        note = signed = self.sign()
        refused, unreachable = [], []
        for cosigner in self._cosigners:
            try:
                note = self._ask_witness(cosigner, note)
            except errors.WitnessRefused as error:
                refused.append(error)
            except errors.WitnessUnreachable as error:
                unreachable.append(error)
        parsed = tlog.Note.parse(note)
        checkpoint = tlog.Checkpoint.parse(parsed.text)
        # After a crash before this line, the next publication asks the witnesses again.
        self._store.save_checkpoint(checkpoint.size, note)
        witnessed = tlog.is_witnessed(parsed, self._policy)
        return Publication(
            note=note,
            checkpoint=checkpoint,
            witnessed=witnessed,
            refused=tuple(refused),
            unreachable=tuple(unreachable),
            clock_warnings=tuple(
                self._check_clock(parsed, tlog.Note.parse(signed), checkpoint.size)
            ),
            witnessing=tlog.describe_witnessing(parsed, self._policy),
        )

    def _check_clock(self, note: tlog.Note, before: tlog.Note, size: int) -> Iterator[str]:
        """Yield a warning for each clock that disagrees with the clock of this machine.

        Entries get their times from this machine's clock, and a wrong time cannot be corrected.
        """
        if self._clock is None:
            return
        now = self._clock()
        others = {"the database's": self._store.now() // 1_000_000}
        # Only new cosignatures show the current time; earlier ones show when they were made.
        fresh = tuple(s for s in note.signatures if s not in before.signatures)
        for cosignature in self._verify_cosignatures(tlog.Note(note.text, fresh)) if fresh else ():
            others[f"that of witness {cosignature.key.name}"] = cosignature.time
        last = self._store.checkpoint(size - 1)
        past = tlog.quorum_time(self._verify_cosignatures(last), self._policy) if last else 0
        if past > now // 1_000_000 + MAX_CLOCK_SKEW_S:
            # Compared only if it is in the future.  A checkpoint that was cosigned long ago does
            # not show a wrong clock: the log may have been idle.
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
        # The order of these reads matters.  A note is in the guard before it is in the store, and
        # the tree only grows.  In another order, a concurrent signer's progress between two reads
        # would look like a lost guard, or like a database that was rolled back.
        stored = self._store.checkpoint()
        last = self._guard.latest()
        head = self._store.head()
        if last is None and stored is not None:
            raise errors.GuardMissing(self._store.origin, tlog.parse_checkpoint(stored).size)
        if last is not None and self._continues(last, head):
            # The tree is already signed.  After a crash between guard and store, the note is only
            # in the guard: store it now.
            if stored is None or tlog.parse_checkpoint(stored).size != head.size:
                self._store.save_checkpoint(head.size, last)
                return last
            return stored
        self._check_key(last)
        if self._control is not None:
            self._check_control(tlog.parse_checkpoint(last).size if last else 0, head)
        checkpoint = tlog.Checkpoint(self._store.origin, head.size, head.root)
        note = tlog.sign_checkpoint(checkpoint, self._key).encode()
        # Guard first, store second.  After a crash in between, the next signer finds the note in
        # the guard and stores it, or signs a tree that continues it.  In the other order a note
        # could be published and, after a restore of the database, be contradicted by the next one.
        self._guard.advance(last, note)
        self._store.save_checkpoint(head.size, note)
        return note

    def _check_control(self, start: int, head: ports.TreeHead) -> None:
        """Raise `TamperDetected` for a control entry that this machine has not tagged.

        Whoever can write to the database can sequence, too, so the sequencer's check is not enough.
        """
        tree = tlog.Tree.load(start, self._store.read_tile)
        leaves: list[tlog.Hash] = []
        for index, row in enumerate(self._store.rows(start, head.size), start):
            if row is None:
                raise errors.TamperDetected(f"entry {index}", "it is missing")
            if not is_allowed(row, self._control):
                why = "it was not written on the machine that signs"
                raise errors.TamperDetected(f"entry {index} ({row.position})", why)
            leaves.append(tlog.hash_leaf(row.data))
            if len(leaves) == MAX_BATCH_ENTRIES:
                tree.extend(leaves)
                leaves = []
        tree.extend(leaves)
        # Otherwise the tree could hold another entry than the row that was looked at.
        if tree.root() != head.root:
            why = f"the entries from {start} on do not give its root"
            raise errors.TamperDetected(f"the tree of size {head.size}", why)

    def _check_key(self, last: bytes | None) -> None:
        """Raise `LogKeyRetired` if the last note is signed by a successor of this key."""
        signatures = tlog.Note.parse(last).signatures if last else ()
        if last and not any(s.claims_key(key) for s in signatures for key in self._own):
            raise errors.LogKeyRetired(self._store.origin)

    def _continues(self, last: bytes, head: ports.TreeHead) -> bool:
        """Return whether the tree is the one last signed.

        Raises `RollbackDetected` if it does not continue the tree last signed.
        """
        signed = tlog.parse_checkpoint(last)
        try:
            if signed.size:
                proof = self._prove(signed.size, head.size) if signed.size <= head.size else []
                tlog.check_consistency(proof, signed.size, signed.root, head.size, head.root)
        except errors.ProofRejected:
            raise errors.RollbackDetected(self._store.origin, signed.size, head.size) from None
        return signed.size == head.size

    def _prove(self, old: int, new: int) -> Sequence[tlog.Hash]:
        return tlog.prove_consistency(tlog.TreeView(new, self._store.read_tile), old, new)

    def _ask_witness(self, cosigner: ports.Cosigner, note: bytes) -> bytes:
        """Return the note with the cosignatures of this witness added.

        Raises `WitnessRefused`, `WitnessUnreachable`, `CosignatureRefused`.
        """
        parsed = tlog.Note.parse(note)
        text, own = parsed.text, parsed.signatures
        if any(signature.name == cosigner.name for signature in own):
            return note  # the first cosignature has the earlier time, so it is better evidence
        try:
            # `_prove` raises Malformed too, for a witness that asks for an impossible proof.
            answered = tlog.Note.parse(note + cosigner.cosign(note, self._prove).encode())
            tlog.verify_cosignatures(answered, self._policy.witness_keys)
        except (errors.Malformed, errors.SignatureRejected, UnicodeEncodeError) as error:
            raise errors.WitnessRefused(
                cosigner.name, f"its answer does not hold: {error}"
            ) from None
        if answered.text != text:
            # A reply with an empty line would turn everything above that line into signed text.
            raise errors.WitnessRefused(
                cosigner.name, "its answer does not belong below this checkpoint"
            )
        witnesses = {(key.name, key.key_id) for key in self._policy.witness_keys}
        added = [s for s in answered.signatures[len(own) :] if (s.name, s.key_id) in witnesses]
        if not added:
            raise errors.WitnessRefused(cosigner.name, "it answered without its cosignature")
        completed = tlog.Note(text, (*own, *added))
        self._check_times(cosigner.name, tlog.Note(text, tuple(added)))
        return completed.encode()

    def _check_times(self, witness: str, added: tlog.Note) -> None:
        """Raise `CosignatureRefused` for cosignature times that cannot be right.

        Stored times bound the times of entries, so a wrong one would refute honest entries.  Times
        must not decrease as the tree grows, neither those of one witness nor those of the quorum.
        """
        now = self._clock() // 1_000_000 if self._clock else None
        size = tlog.Checkpoint.parse(added.text).size
        for cosignature in self._verify_cosignatures(added):
            time = cosignature.time
            if not time:
                raise errors.CosignatureRefused(witness, "it does not say when it cosigned")
            if now is not None and time > now + MAX_CLOCK_SKEW_S:
                why = f"it cosigned {time - now} s in the future, by the clock of this machine"
                raise errors.CosignatureRefused(witness, f"{why}; one of the two clocks is wrong")
            earlier = self._last_cosigned_time(cosignature.key, size, now)
            if time < earlier - MAX_CLOCK_SKEW_S:
                why = f"it cosigned {earlier - time} s before an earlier checkpoint was cosigned"
                raise errors.CosignatureRefused(witness, f"{why}; its clock is wrong")

    def _last_cosigned_time(self, witness: tlog.VerifierKey, size: int, now: int | None) -> int:
        """Return when a tree smaller than `size` was last cosigned, by a witness or the quorum.

        A time in the future is skipped: the clock that made it was wrong, and refusing every
        cosignature until that time would leave the log without witnesses.  Return 0 if there is no
        usable time.
        """
        for _ in range(_MAX_LOOKBACK):
            note = self._store.checkpoint(size - 1) if size else None
            if note is None:
                return 0
            cosignatures = self._verify_cosignatures(note)
            own = (c.time for c in cosignatures if c.key == witness)
            latest = max([tlog.quorum_time(cosignatures, self._policy), *own])
            if latest and (now is None or latest <= now + MAX_CLOCK_SKEW_S):
                return latest
            try:
                size = tlog.parse_checkpoint(note).size
            except errors.Malformed:
                return 0  # the database was edited, which the verifier reports
        return 0

    def _verify_cosignatures(self, note: tlog.Note | bytes) -> tuple[tlog.Cosignature, ...]:
        """Return the verified cosignatures of a note, or none if the note is invalid."""
        try:
            parsed = note if isinstance(note, tlog.Note) else tlog.Note.parse(note)
            return tlog.verify_cosignatures(parsed, self._policy.witness_keys)
        except (errors.Malformed, errors.SignatureRejected):
            return ()
