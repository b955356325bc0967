"""Turn durable entries into a signed and witnessed tree: sequence, sign, publish.

The order is: read the entries without an index -> compute the new tree -> **in one transaction
assign the indexes, store the tiles and swap (size, root)** -> sign -> store the note in the guard
-> store it in the database -> ask the witnesses.  A comment at each step says what a crash there
leads to.  The swap is a compare-and-set: two concurrent sequencers may waste work, but they cannot
make two trees.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from forum import errors, tlog
from forum.ledger import own_entries, ports
from forum.ledger.control_key import is_allowed, is_control_row
from forum.ledger.database_memory import DatabaseMemory
from forum.ledger.entry import LOG_RUN, MAIN_STRAND, MAX_CLOCK_SKEW_S, leaf_of
from forum.ledger.kinds import Kinds, RunsOpenedFacts, WitnessedFacts
from forum.ledger.row_checks import has_matching_columns, has_tree, is_continued
from forum.ledger.strand import RUNS_STRAND, WriterContext
from forum.ledger.witness_records import may_be_recorded, merge_cosignatures
from forum.ledger.write_tags import ReloadKeys, WriteKeys

MAX_BATCH_ENTRIES = 10_000
"""The largest number of entries that get their indexes in one transaction."""

_MAX_LOOKBACK = 16
"""How many checkpoints are searched backwards for a cosignature time that is not in the future."""


_is_root = re.compile(r"[0-9a-f]{64}").fullmatch


class ReadableEntries:
    """Tells which entries can be read, so that nobody is stopped by one later.

    An entry of an unknown kind, of a later release, can be read.  What the sequencer has read, the
    signer of the same process need not read again.
    """

    def __init__(self, kinds: Kinds) -> None:
        self._kinds, self.is_readable = kinds, kinds.is_readable
        self._leaves: set[bytes] = set()

    def read_facts(self, data: bytes) -> object:
        """Return the facts of an entry, or None if it cannot be read."""
        with suppress(errors.Malformed):
            return self._kinds.read(data).facts
        return None

    def remember(self, leaves: Sequence[bytes]) -> None:
        """Remember entries that can be read."""
        if len(self._leaves) > MAX_BATCH_ENTRIES:
            self._leaves = set()
        self._leaves.update(leaves)

    def find_unreadable(
        self, rows: Sequence[ports.EntryRow], leaves: Sequence[bytes]
    ) -> ports.EntryRow | None:
        """Return the first of these entries that cannot be read, or None."""
        own_leaves, pairs = self._leaves, zip(rows, leaves, strict=True)
        unread = (row for row, leaf in pairs if leaf not in own_leaves)
        return next((row for row in unread if not self.is_readable(row.data)), None)


class Sequencer:
    """Assigns indexes to the entries of one log."""

    def __init__(  # noqa: PLR0913  all but the first have a default
        self,
        store: ports.PublisherStore,
        keys: WriteKeys | None = None,
        reload: ReloadKeys = lambda: None,
        control: WriteKeys | None = None,
        *,
        is_signer: bool = True,
        writer: WriterContext | None = None,
        composers: Sequence[own_entries.Composer] = (),
        readable: ReadableEntries | None = None,
    ) -> None:
        """With `control`, set aside control entries that the signing machine has not tagged.

        A sequencer on another machine cannot tell, and leaves them to the machine that signs.  With
        composers, add to each batch the entries that they make for it, in the name of the writer,
        and set aside what others have put into their strands.  With `readable`, set aside what
        nobody can read.
        """
        self._store, self._keys = store, keys
        self._reload, self._control = reload, control
        self._is_signer = is_signer
        self._writer, self._own = writer, own_entries.OwnEntries(composers)
        self._has_own, self._readable = bool(composers), readable
        self._done: DatabaseMemory[tuple[tlog.Tree, ports.TreeHead] | None] = DatabaseMemory(
            store.lineage, lambda: None
        )
        """The tree after the last batch of this sequencer, and its head."""

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
        if self._readable is not None:
            self._readable.remember(leaves)
        old = self._store.head()
        try:
            return self._advance(old, batch, leaves)
        except errors.PositionTaken:
            # Only the sequencer writes to its strands, and this batch did not change.
            self._free_own_positions()
            raise errors.ConcurrentUpdate(f"the tree of {self._store.origin}") from None

    def _advance(
        self, old: ports.TreeHead, batch: ports.PendingEntries, leaves: Sequence[bytes]
    ) -> int:
        done = self._done.value
        is_next = done is not None and old == done[1]
        tree = self._load(old)
        # `extend` changes the cached tree before the store commits.  The cache is dropped first, so
        # that after a failed swap the next call loads the tree, and the ends of own strands, from
        # the store.
        self._done.value = None
        # Composed after the head was read: while it is in place, nobody else adds to own strands.
        try:
            own = self._compose(own_entries.Batch(batch.rows, leaves, old.size, is_next))
        except errors.Malformed as error:
            what = f"the end of a strand that only sequencers of {self._store.origin} write"
            raise errors.SigningRefused(what, str(error)) from None
        tiles = tree.extend([*leaves, *(write.leaf for write in own)])
        new = ports.TreeHead(tree.size, tree.root())
        # A crash before the commit changes nothing.  After the commit, even if the acknowledgement
        # is lost in a crash, the entries have their indexes and are no longer pending, and the next
        # sequencer starts from the new head.
        self._store.advance_head(old, new, batch, tiles, own=own)
        self._done.value = (tree, new)
        return len(leaves)

    def _compose(self, batch: own_entries.Batch) -> list[ports.EntryWrite]:
        """Return the entries that this sequencer adds to a batch."""
        if self._writer is None:
            return []
        # The write key may have been rotated since this process started.
        return self._own.compose(replace(self._writer, tags=self._keys), batch)

    def _free_own_positions(self) -> None:
        """Move waiting rows in own strands to quarantine.  Raises `TamperDetected` without any.

        Such a row in the batch was set aside before.  One behind the batch would stop the log.
        """
        pending = self._store.pending_entries(2**31)
        foreign = [at for at, row in enumerate(pending.rows) if own_entries.is_foreign_to_own(row)]
        if not foreign:
            raise own_entries.stray_row(self._store.origin)
        self._store.move_to_quarantine(pending.select(foreign))

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
        indexes = self._store.indexes(leaves)
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
        if self._has_own and own_entries.is_foreign_to_own(row):
            return False
        if self._keys is not None and not self._keys.accepts_new_entry(row.data, row.tag):
            return False
        # An entry that nobody can read would keep all from reading what follows it, for ever.
        return self._readable is None or self._readable.is_readable(row.data)

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
        done = self._done.value
        if done is None or head != done[1]:
            return tlog.Tree.load(head.size, self._store.read_tile)
        return done[0]


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


class _UnsignedNames:
    """What was read of the entries that the next signature covers for the first time."""

    def __init__(self, signed: int, root: tlog.Hash) -> None:
        self.signed, self.root = signed, root
        """The size and the root of the tree that was signed last."""
        self.opened: set[str] = set()
        """Runs that were opened by these entries."""
        self.named: set[str] = set()
        """Runs that these entries of the directory name."""
        self.floor: int | None = None
        """Runs that were opened at this index or later may have been left to these entries."""
        self.recorded: int | None = None
        """The size of the checkpoint that the last record of cosignatures names."""


class Publisher:
    """Signs the trees of one log, and never two trees that contradict each other.

    The guard, outside the database, holds the last signed note.  A tree is signed only if it is
    consistent with that note, so a database restored from an old backup cannot fork the log.
    """

    def __init__(  # noqa: PLR0913  the last six have a default
        self,
        store: ports.PublisherStore,
        key: tlog.SigningKey,
        guard: ports.CheckpointStore,
        policy: tlog.WitnessPolicy,
        cosigners: Sequence[ports.Cosigner] = (),
        *,
        follows: Collection[tlog.VerifierKey] = (),
        clock: ports.Clock | None = None,
        keys: WriteKeys | None = None,
        reload: ReloadKeys = lambda: None,
        control: WriteKeys | None = None,
        cosigned: ports.CheckpointStore | None = None,
        readable: ReadableEntries | None = None,
        remember: Callable[[Mapping[str, tuple[int, str]]], None] = lambda _ends: None,
    ) -> None:
        """Use `key` to sign; `follows` are the keys that signed for the log before it.

        With `keys`, a tree with an entry that no writer has tagged is refused; with `control`, one
        with a control entry that this machine has not tagged; with `readable`, one with an entry
        that nobody can read, or that no sequencer can have composed.  `cosigned` keeps the last
        note with its cosignatures, until they are recorded.  `remember` is called with the last
        entries (position and id) of those of the log's own strands that decide something.
        """
        self._cosigned, self._readable = cosigned, readable
        self._remember = remember
        self._keys, self._reload = keys, reload
        self._control = control
        self._store, self._key = store, key
        self._guard = guard
        self._policy, self._cosigners = policy, cosigners
        self._clock = clock
        self._own = (key.verifier(), *follows)
        self._signed: DatabaseMemory[tuple[ports.TreeHead, tlog.Tree] | None] = DatabaseMemory(
            store.lineage, lambda: None
        )
        """The tree that was signed here last, with every entry of it checked; never changed."""

    def sign(self) -> bytes:
        """Return the signed checkpoint of the current tree.

        Raises `GuardMissing`, `RollbackDetected`, `LogKeyRetired`.
        """
        while True:
            try:
                return self._sign()
            except errors.ConcurrentUpdate:
                continue  # another signer advanced the guard: read again what it signed

    def publish(self, note: bytes | None = None) -> Publication:
        """Ask every witness for its cosignature of a note that was just signed.

        Without one, sign the current tree.  A witness that refuses or cannot be reached is reported
        in the result, not raised.  Raises `ClockOff` if this machine's clock is off.
        """
        publication = self._publish(note)
        if publication.refused and self._store.head().size > publication.checkpoint.size:
            # Another process may have shown the witness a larger tree.  Ask again with that one.
            return self._publish()
        return publication

    def _publish(self, own: bytes | None = None) -> Publication:
        if self._clock is not None:
            # A witness on this machine has the same clock, and dates a cosignature only once.
            self._clock()
        own = own or self.sign()
        note = signed = self._restore_cosignatures(own)
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
        self._keep_cosigned(note)
        # After a crash before this line, the next publication asks the witnesses again, if it was
        # before the line above, too.
        if note != own:
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

    def _restore_cosignatures(self, note: bytes) -> bytes:
        """Return a note with the cosignatures of it that are kept outside the database."""
        kept = self._cosigned.latest() if self._cosigned is not None else None
        return merge_cosignatures(note, kept, self._policy.witness_keys)

    def _keep_cosigned(self, note: bytes) -> None:
        if self._cosigned is None:
            return
        kept = self._cosigned.latest()
        if kept != note and self._verify_cosignatures(note):
            # If another process keeps a note at the same time, that one is as new.
            with suppress(errors.ConcurrentUpdate):
                self._cosigned.advance(kept, note)

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
        last = self._store.checkpoint(size - 1) if self._policy.witness_keys else None
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
        self._store.check_history()
        stored = self._store.checkpoint()
        last = self._guard.latest()
        head = self._store.head()
        if last is None and stored is not None:
            raise errors.GuardMissing(self._store.origin, tlog.parse_checkpoint(stored).size)
        tree_of_guard = self._find_known(last, stored)
        if last is not None and self._continues(last, head, tree_of_guard):
            # The tree is already signed.  After a crash between guard and store, the note is only
            # in the guard: store it now.
            if stored is None or tlog.parse_checkpoint(stored).size != head.size:
                self._store.save_checkpoint(head.size, last)
                return last
            return stored
        self._check_key(last)
        ends: Mapping[str, tuple[int, str]] = {}
        if self._keys is not None or self._control is not None:
            start = (
                tree_of_guard.size if tree_of_guard else self._find_signed_size(last, stored, head)
            )
            tree = tree_of_guard or tlog.Tree.load(start, self._store.read_tile)
            grown, ends = self._check_rows(tree, head)
            if grown.root() != head.root:
                if last is not None:
                    self._continues(last, head)
                # The tree could hold another entry than the row that was looked at.
                why = f"the entries from {start} on do not give its root"
                raise errors.SigningRefused(f"the tree of size {head.size}", why)
            self._signed.value = (head, grown)
        checkpoint = tlog.Checkpoint(self._store.origin, head.size, head.root)
        note = tlog.sign_checkpoint(checkpoint, self._key).encode()
        # These entries are durable and have their indexes, whatever becomes of this signature.
        self._remember(ends)
        # Guard first, store second.  After a crash in between, the next signer finds the note in
        # the guard and stores it, or signs a tree that continues it.  In the other order a note
        # could be published and, after a restore of the database, be contradicted by the next one.
        self._guard.advance(last, note)
        self._store.save_checkpoint(head.size, note)
        return note

    def _find_known(self, last: bytes | None, stored: bytes | None) -> tlog.Tree | None:
        """Return the tree of the last note, if this process has signed it and nothing since."""
        signed = self._signed.value
        if signed is None or last is None or stored is None:
            return None
        head, tree = signed
        newest, kept = tlog.parse_checkpoint(stored), tlog.parse_checkpoint(last)
        is_last = newest.size <= head.size and (kept.size, kept.root) == (head.size, head.root)
        return tree if is_last else None

    def _find_signed_size(
        self, last: bytes | None, stored: bytes | None, head: ports.TreeHead
    ) -> int:
        """Return the size of the largest tree that this key has signed and this one continues.

        The stored note counts where the guard is older: it was restored from a backup.
        """
        size = tlog.parse_checkpoint(last).size if last else 0
        if stored is not None and tlog.parse_checkpoint(stored).size > size:
            try:
                newest, _ = tlog.open_checkpoint(stored, (self._key.verifier(),))
                if newest.origin == self._store.origin and newest.size <= head.size:
                    self._continues(stored, head)
                    return newest.size
            except (errors.Malformed, errors.SignatureRejected, errors.RollbackDetected):
                pass  # an altered note; the entries behind the guard's note are looked at again
        return size

    def _check_rows(
        self, signed: tlog.Tree, head: ports.TreeHead
    ) -> tuple[tlog.Tree, Mapping[str, tuple[int, str]]]:
        """Return a signed tree grown by the entries up to a head, and the last ones of some.

        These are the last new entries of the remembered strands, by strand.  Raises
        `SigningRefused` for a new entry that no writer of this log wrote.  Whoever can write to the
        database can sequence, too, so the sequencer's check is not enough.
        """
        start, tree = signed.size, tlog.Tree.resume(signed.size, signed.edge)
        rows: list[ports.EntryRow] = []
        ends: dict[str, ports.EntryRow] = {}
        names = _UnsignedNames(start, signed.root())
        for index, row in enumerate(self._store.rows(start, head.size), start):
            if row is None:
                raise errors.SigningRefused(f"entry {index}", "it is missing")
            if why := self._find_fault(index, row):
                raise errors.SigningRefused(f"entry {index} ({row.position})", why)
            rows.append(row)
            if not row.n and row.strand == MAIN_STRAND:
                names.opened.add(row.run)
            if row.run == LOG_RUN and row.strand in own_entries.REMEMBERED_STRANDS:
                ends[row.strand] = row
                self._check_own(index, row, names)
            if len(rows) == MAX_BATCH_ENTRIES:
                self._add_rows(tree, rows)
                rows = []
        self._add_rows(tree, rows)
        return tree, {strand: (row.n, leaf_of(row.data).hex()) for strand, row in ends.items()}

    def _check_own(self, index: int, row: ports.EntryRow, names: "_UnsignedNames") -> None:
        """Raise `SigningRefused` for an entry in an own strand that no sequencer composed."""
        if self._readable is None or not own_entries.is_foreign_to_own(row):
            return
        if why := self._find_own_fault(row, names):
            raise errors.SigningRefused(f"entry {index} ({row.position})", why)

    def _add_rows(self, tree: tlog.Tree, rows: Sequence[ports.EntryRow]) -> None:
        """Extend a tree by entries.  Raises `SigningRefused` for one that nobody can read."""
        leaves = tlog.hash_leaves([row.data for row in rows])
        tree.extend(leaves)
        bad = self._readable.find_unreadable(rows, leaves) if self._readable is not None else None
        if bad is not None:
            raise errors.SigningRefused(f"entry {bad.position}", "nobody can read it")

    def _find_fault(self, index: int, row: ports.EntryRow) -> str:
        """Return why an entry must not be signed, or nothing."""
        if not has_matching_columns(self._store.origin, row):
            return "its bytes are those of another position"
        if not is_allowed(row, self._control):
            return "it was not written on the machine that signs"
        if not self._is_tagged(index, row):
            # The write key may have been rotated since this process started.
            self._keys = self._reload() or self._keys
            if not self._is_tagged(index, row):
                return "no writer of this log wrote it"
        return ""

    def _find_own_fault(self, row: ports.EntryRow, names: "_UnsignedNames") -> str:
        """Return why no sequencer composed an entry in one of its strands, or nothing.

        Every holder of the write key can put one there and give it an index.  One that claims what
        is not so would end what the sequencers of this log record, or be a finding for ever.
        """
        facts = self._readable.read_facts(row.data) if self._readable is not None else None
        if row.strand == RUNS_STRAND and isinstance(facts, RunsOpenedFacts):
            return self._find_names_fault(row, facts, names)
        if row.strand == own_entries.WITNESSED_STRAND and isinstance(facts, WitnessedFacts):
            return self._find_record_fault(row, facts, names)
        return "it does not belong into this strand"

    def _find_names_fault(
        self, row: ports.EntryRow, facts: RunsOpenedFacts, names: "_UnsignedNames"
    ) -> str:
        """Return what is wrong with an entry of the directory, or nothing."""
        before, last = self._read_names_before(row)
        if facts.first != before:
            return "it does not continue the directory of runs"
        if names.floor is None:
            # Runs that were opened before the entry before were named by it, or earlier.
            index = self._store.indexes([last])[0] if last is not None else None
            names.floor = names.signed if index is None else index
        for run in facts.runs:
            if run in names.named or not (
                run in names.opened or self._is_opened_in(run, names.floor, names.signed)
            ):
                return f"it names run {run}, which was not opened since the entry before it"
            names.named.add(run)
        return ""

    def _find_record_fault(
        self, row: ports.EntryRow, facts: WitnessedFacts, names: "_UnsignedNames"
    ) -> str:
        """Return what is wrong with a record of cosignatures, or nothing."""
        root = bytes.fromhex(facts.root) if _is_root(facts.root) else b""
        if not root or facts.size > names.signed:
            return "this log signed no such checkpoint"
        if names.recorded is None:
            names.recorded = self._read_recorded_before(row)
        # A release before may have signed a record of a tree that there is not: it bounds nothing.
        if facts.size < names.recorded <= names.signed:
            return "it follows the record of a larger checkpoint"
        names.recorded = facts.size
        named = tlog.Checkpoint(self._store.origin, facts.size, tlog.Hash(root))
        # Nearly always the tree that was signed last, which no tile has to be read for.
        is_last = (facts.size, root) == (names.signed, names.root)
        if not is_last and not has_tree(self._store.read_tile, named):
            return "it names another tree"
        witnesses = self._policy.witness_keys
        if all(may_be_recorded(named, line, witnesses) for line in facts.cosignatures):
            return ""
        return "a cosignature that it records does not hold"

    def _read_recorded_before(self, row: ports.EntryRow) -> int:
        """Return the size of the checkpoint that the record before a row names, 0 if none does."""
        last = self._read_before(row)
        facts = self._readable.read_facts(last) if last and self._readable else None
        return facts.size if isinstance(facts, WitnessedFacts) else 0

    def _is_opened_in(self, run: str, start: int, stop: int) -> bool:
        """Return whether the opening of a run has one of these indexes."""
        data = self._store.entries_at(run, [(MAIN_STRAND, 0)])[0]
        index = self._store.indexes([leaf_of(data)])[0] if data is not None else None
        return index is not None and start <= index < stop

    def _read_names_before(self, row: ports.EntryRow) -> tuple[int | None, tlog.Hash | None]:
        """Return how many runs the directory names before one of its entries, if that is known.

        The second member is the id of the entry before it.
        """
        if not row.n:
            return 0, None
        before = self._read_before(row)
        facts = self._readable.read_facts(before) if before and self._readable else None
        if before is None or not isinstance(facts, RunsOpenedFacts):
            return None, None
        return facts.first + len(facts.runs), leaf_of(before)

    def _read_before(self, row: ports.EntryRow) -> bytes | None:
        """Return the entry before one of its strand, or None if there is none."""
        return self._store.entries_at(row.run, [(row.strand, row.n - 1)])[0] if row.n else None

    def _is_tagged(self, index: int, row: ports.EntryRow) -> bool:
        keys = self._keys
        # Before the index from which tags are demanded, entries may have none, or have the tag of a
        # key that was lost.
        if keys is None or index < (keys.tagged_from or 0):
            return True
        return keys.accepts_new_entry(row.data, row.tag)

    def _check_key(self, last: bytes | None) -> None:
        """Raise `LogKeyRetired` if the last note is signed by a successor of this key."""
        signatures = tlog.Note.parse(last).signatures if last else ()
        if last and not any(s.claims_key(key) for s in signatures for key in self._own):
            raise errors.LogKeyRetired(self._store.origin)

    def _continues(self, last: bytes, head: ports.TreeHead, tree: tlog.Tree | None = None) -> bool:
        """Return whether the tree is the one last signed.

        Raises `RollbackDetected` if it does not continue the tree last signed.  A larger tree is
        not compared where that one is known: the check of the rows grows it, and shows the same.
        """
        signed = tlog.parse_checkpoint(last)
        is_shown_later = tree is not None and head.size > signed.size
        if not is_shown_later and not is_continued(self._store, signed, head):
            raise errors.RollbackDetected(self._store.origin, signed.size, head.size)
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
