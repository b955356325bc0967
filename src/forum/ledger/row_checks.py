"""Checks that every reader makes before it trusts a row of the database.

The database may have been edited by an attacker.  So a reader that finds a row by its position
compares the position with the bytes of the entry.  Where this process has the keys, it also
requires evidence that a writer of this log wrote the bytes: the writer's tag, or a signed tree that
contains them.
"""

from collections.abc import Iterable

from forum import errors, tlog
from forum.ledger.control_key import is_allowed, is_control_row
from forum.ledger.database_memory import DatabaseMemory
from forum.ledger.entry import leaf_of, strand_prefix
from forum.ledger.ports import EntryReader, EntryRow, TreeHead, TreeReader
from forum.ledger.write_tags import ReloadKeys, WriteKeys

_MAX_PROOFS = 2_000
"""Number of proofs after which the tree view is replaced, because it caches every tile it reads."""


def has_matching_columns(origin: str, row: EntryRow) -> bool:
    """Return whether the bytes of a row name the log, run, strand and position of its columns."""
    run, strand, n, data, _ = row
    # SQLite accepts any type in any column.  A row with a BLOB in a text column is not found by a
    # query for the text, so it would be hidden from readers.
    if type(run) is not str or type(strand) is not str or type(n) is not int:
        return False
    return data.startswith(strand_prefix(origin, run, strand) + b"%d," % n)


def is_continued(reader: TreeReader, earlier: tlog.Checkpoint, head: TreeHead) -> bool:
    """Return whether the stored tree begins with the tree of a checkpoint."""
    if not earlier.size:
        return True
    if earlier.size > head.size:
        return False
    try:
        view = tlog.TreeView(head.size, reader.read_tile)
        proof = tlog.prove_consistency(view, earlier.size)
        tlog.check_consistency(proof, earlier.size, earlier.root, head.size, new_root=head.root)
    except errors.ProofRejected:
        return False
    return True


def has_tree(read_tile: tlog.ReadTile, tree: tlog.Checkpoint | TreeHead) -> bool:
    """Return whether stored tiles give the root of a tree, whatever the head says."""
    try:
        return tlog.TreeView(tree.size, read_tile).root() == tree.root
    except errors.Malformed:
        return False


class PositionCheck:
    """Accepts every row whose columns agree with its bytes."""

    def __init__(self, origin: str) -> None:
        self._origin = origin

    def check_row(self, row: EntryRow) -> None:
        """Check a row found by its position or index.  Raises `TamperDetected`."""
        if not has_matching_columns(self._origin, row):
            raise errors.TamperDetected(
                f"entry {row.position}", "its bytes are those of another position"
            )

    def is_settled(self, _row: EntryRow) -> bool:
        """Accept every row: without a key nobody can tell who wrote it."""
        return True

    def check_index(self, index: int, leaf: tlog.Hash) -> None:
        """Accept any index: without a key there is no trusted tree to compare with."""


class NoRowCheck:
    """Accepts every row, for verifiers that compare the rows themselves."""

    def check_row(self, row: EntryRow) -> None:
        """Accept any row."""

    def is_settled(self, _row: EntryRow) -> bool:
        """Accept any row."""
        return True

    def check_index(self, index: int, leaf: tlog.Hash) -> None:
        """Accept any index."""


class SignedTree:
    """The newest tree signed by a key of the log, read through the stored, untrusted tiles."""

    def __init__(self, reader: EntryReader, keys: Iterable[tlog.VerifierKey]) -> None:
        self._reader, self._keys = reader, tuple(keys)
        # Together, because threads share them: a checkpoint with the view of another size would
        # reject every entry between the two.
        self._signed: DatabaseMemory[tuple[tlog.Checkpoint, tlog.TreeView] | None] = DatabaseMemory(
            reader.lineage, lambda: None
        )
        self._proofs = 0

    def has_leaf(self, leaf: tlog.Hash) -> bool:
        """Return whether the signed tree has this leaf at any index."""
        candidates = self._reader.find_by_prefix(leaf[:8])
        return any(self.has_leaf_at(index, leaf) for index in candidates)

    def has_leaf_at(self, index: int, leaf: tlog.Hash) -> bool | None:
        """Return whether the signed tree has this leaf at this index; None if it is too small.

        An inclusion proof is made from the stored tiles and checked against the signed root.  Tiles
        that were altered to match an altered entry do not lead to that root.
        """
        signed = self._tree_covering(index)
        if signed is None:
            return None
        checkpoint, view = signed
        if self._proofs >= _MAX_PROOFS:
            checkpoint, view = self._use_checkpoint(checkpoint)
        self._proofs += 1
        try:
            proof = tlog.prove_inclusion(view, index, checkpoint.size)
            tlog.check_inclusion(proof, leaf, index, checkpoint.size, root=checkpoint.root)
        except (errors.Malformed, errors.ProofRejected):
            return False
        return True

    def is_newer_than_tree(self, row: EntryRow) -> bool:
        """Return whether a row is pending, or was sequenced after the newest signed tree."""
        checkpoint = self._newest_checkpoint()
        size = checkpoint.size if checkpoint else 0
        behind = self._reader.rows(size, max(size, self._reader.head().size))
        return row in behind or row in self._reader.unsequenced_rows()

    def _tree_covering(self, index: int) -> tuple[tlog.Checkpoint, tlog.TreeView] | None:
        """Return a signed tree that covers an index, or None if the newest does not."""
        signed = self._signed.value
        if signed is not None and index < signed[0].size:
            return signed
        newest = self._newest_checkpoint()
        if newest is None or index >= newest.size:
            return None
        return self._use_checkpoint(newest)

    def _newest_checkpoint(self) -> tlog.Checkpoint | None:
        """Return the newest checkpoint in the store, or None if no key of this log signed it."""
        note = self._reader.checkpoint()
        try:
            newest = tlog.open_checkpoint(note, self._keys)[0] if note else None
        except (errors.Malformed, errors.SignatureRejected):
            return None
        return newest if newest and newest.origin == self._reader.origin else None

    def _use_checkpoint(self, checkpoint: tlog.Checkpoint) -> tuple[tlog.Checkpoint, tlog.TreeView]:
        signed = (checkpoint, tlog.TreeView(checkpoint.size, self._reader.read_tile))
        self._signed.value, self._proofs = signed, 0
        return signed


class WriterCheck:
    """Accepts a row that a writer of this log has tagged, or that a signed tree contains.

    Of an entry about the log itself the writer is the machine that signs.  There, such an entry
    needs the second tag.  Elsewhere nobody can check that, so it counts when a signed tree has it.
    """

    def __init__(
        self,
        reader: EntryReader,
        write_keys: WriteKeys | None,
        log_keys: Iterable[tlog.VerifierKey],
        reload: ReloadKeys = lambda: None,
        control: WriteKeys | None = None,
    ) -> None:
        self._control = control
        self._position = PositionCheck(reader.origin)
        self._tree = SignedTree(reader, log_keys)
        self._keys, self._reload = write_keys, reload

    def check_row(self, row: EntryRow) -> None:
        """Check a row found by its position or index.  Raises `TamperDetected`."""
        self._position.check_row(row)
        if self._control is None and is_control_row(row):
            self._check_control_row(row)
        if is_allowed(row, self._control):
            if self._is_tagged(row):
                return
            if self._keys is not None and not self._keys.is_enforced and row.tag is None:
                return  # written by a process of the previous release, which makes no tags
        if self._tree.has_leaf(leaf_of(row.data)):
            return
        # Without the write key a tag cannot be verified.  A row outside every signed tree is then
        # accepted only if it is too new to be in one.
        if self._keys is None and self._tree.is_newer_than_tree(row):
            return
        why = "no writer of this log wrote it, and no signed tree holds it"
        raise errors.TamperDetected(f"entry {row.position}", why)

    def _check_control_row(self, row: EntryRow) -> None:
        """Check a control entry where no tag tells who wrote it.  Raises `TamperDetected`.

        One that waits for its signature does not count yet.  One in the place of a signed entry
        never will: what follows it must not seem to wait with it.
        """
        if not self._tree.has_leaf(leaf_of(row.data)) and not self._tree.is_newer_than_tree(row):
            why = "the signed tree has another entry in its place"
            raise errors.TamperDetected(f"entry {row.position}", why)

    def is_settled(self, row: EntryRow) -> bool:
        """Return whether a checked row counts: see the class."""
        if self._control is not None or not is_control_row(row):
            return True
        return self._tree.has_leaf(leaf_of(row.data))

    def _is_tagged(self, row: EntryRow) -> bool:
        if self._keys is None:
            return False
        if self._keys.accepts_entry(row.data, row.tag):
            return True
        # The key may have been rotated since this process started.
        keys = self._reload() if row.tag else None
        if keys is None or keys == self._keys:
            return False
        self._keys = keys
        return keys.accepts_entry(row.data, row.tag)

    def check_index(self, index: int, leaf: tlog.Hash) -> None:
        """Check that the entry with this leaf hash has this index.  Raises `TamperDetected`."""
        if self._tree.has_leaf_at(index, leaf) is False:
            raise errors.TamperDetected(
                f"entry {index}", "the signed tree has another entry at this index"
            )
