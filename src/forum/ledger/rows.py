"""Which rows of a database are believed: the checks that every reader makes.

A database may be changed behind the ledger's back.  So whoever finds a row by its position
compares that position with the bytes; and where this process can tell, it asks for evidence that
a writer of this log wrote these bytes: the writer's tag, or a signed tree that holds them.
"""

from collections.abc import Iterable

from forum.errors import Altered, Malformed, ProofRejected, SignatureRejected
from forum.ledger.entry import leaf_of, strand_prefix
from forum.ledger.ports import Reader, Row
from forum.ledger.tags import ReloadKeys, WriteKeys
from forum.tlog import (
    Checkpoint,
    Hash,
    TreeView,
    VerifierKey,
    check_inclusion,
    open_checkpoint,
    prove_inclusion,
)

_MAX_PROOFS = 2_000
"""Proofs taken from one view of a tree, before it is made anew: it keeps every tile it reads."""


def is_at(origin: str, row: Row) -> bool:
    """Tell whether the bytes of a row name the log, run, strand and position of its columns."""
    run, strand, n, data, _ = row
    # SQLite lets any type stand in any column; a reader that asks for text finds no bytes.
    if type(run) is not str or type(strand) is not str or type(n) is not int:
        return False
    return data.startswith(strand_prefix(origin, run, strand) + b"%d," % n)


class PositionCheck:
    """Believes every row whose columns agree with its bytes."""

    def __init__(self, origin: str) -> None:
        self._origin = origin

    def check_row(self, row: Row) -> None:
        """Accept a row that was found by its position or index.  Raises `Altered`."""
        if not is_at(self._origin, row):
            raise Altered(f"entry {row.position}", "its bytes are those of another position")

    def check_index(self, index: int, leaf: Hash) -> None:
        """Accept any index: without a key there is nothing to compare it with."""


class Unchecked:
    """Believes every row, for those who compare rows with each other themselves."""

    def check_row(self, row: Row) -> None:
        """Accept a row."""

    def check_index(self, index: int, leaf: Hash) -> None:
        """Accept an index."""


class SignedTree:
    """The newest tree that a key of the log has signed, as far as the stored tiles lead to it."""

    def __init__(self, reader: Reader, keys: Iterable[VerifierKey]) -> None:
        self._reader, self._keys = reader, tuple(keys)
        self._checkpoint: Checkpoint | None = None
        self._view = TreeView(0, reader.read_tile)
        self._proofs = 0

    def holds(self, leaf: Hash) -> bool:
        """Tell whether a signed tree has this leaf, at any index."""
        candidates = self._reader.find(leaf[:8])
        return any(self.is_at(index, leaf) for index in candidates)

    def is_at(self, index: int, leaf: Hash) -> bool | None:
        """Tell whether the signed tree has this leaf at this index; None if it is not that large.

        An inclusion proof is made from the stored tiles and checked against the signed root: tiles
        that were altered together with the entry do not lead there.
        """
        checkpoint = self._covering(index)
        if checkpoint is None:
            return None
        if self._proofs >= _MAX_PROOFS:
            self._use(checkpoint)
        self._proofs += 1
        try:
            proof = prove_inclusion(self._view, index, checkpoint.size)
            check_inclusion(proof, leaf, index, checkpoint.size, checkpoint.root)
        except (Malformed, ProofRejected):
            return False
        return True

    def may_lack(self, row: Row) -> bool:
        """Tell whether a row waits for its index, or got one behind the newest signed tree."""
        size = self._newest_size()
        behind = self._reader.rows(size, max(size, self._reader.head().size))
        return row in behind or row in self._reader.unsequenced_rows()

    def _newest_size(self) -> int:
        checkpoint = self._newest()
        return checkpoint.size if checkpoint else 0

    def _covering(self, index: int) -> Checkpoint | None:
        """Return a signed checkpoint that covers an index, reading the newest one if need be."""
        known = self._checkpoint
        if known is not None and index < known.size:
            return known
        newest = self._newest()
        if newest is None or index >= newest.size:
            return None
        self._use(newest)
        return newest

    def _newest(self) -> Checkpoint | None:
        """Return the newest checkpoint in the store, if a key of this log has signed it."""
        note = self._reader.checkpoint()
        try:
            newest = open_checkpoint(note, self._keys)[0] if note else None
        except (Malformed, SignatureRejected):
            return None
        return newest if newest and newest.origin == self._reader.origin else None

    def _use(self, checkpoint: Checkpoint) -> None:
        self._checkpoint, self._proofs = checkpoint, 0
        self._view = TreeView(checkpoint.size, self._reader.read_tile)


class WriterCheck:
    """Believes a row that a writer of this log has tagged, or that a signed tree holds."""

    def __init__(
        self,
        reader: Reader,
        write_keys: WriteKeys | None,
        log_keys: Iterable[VerifierKey],
        reload: ReloadKeys = lambda: None,
    ) -> None:
        self._position = PositionCheck(reader.origin)
        self._tree = SignedTree(reader, log_keys)
        self._keys, self._reload = write_keys, reload

    def check_row(self, row: Row) -> None:
        """Accept a row that was found by its position or index.  Raises `Altered`."""
        self._position.check_row(row)
        if self._is_tagged(row):
            return
        if self._keys is not None and not self._keys.enforced and row.tag is None:
            return  # a writer of the release before may have written it
        if self._tree.holds(leaf_of(row.data)):
            return
        # Without the write key only this can be told of a row that no signed tree holds: whether
        # it is so new that none could.
        if self._keys is None and self._tree.may_lack(row):
            return
        why = "no writer of this log wrote it, and no signed tree holds it"
        raise Altered(f"entry {row.position}", why)

    def _is_tagged(self, row: Row) -> bool:
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

    def check_index(self, index: int, leaf: Hash) -> None:
        """Accept that an entry has this index.  Raises `Altered`."""
        if self._tree.is_at(index, leaf) is False:
            raise Altered(f"entry {index}", "the signed tree has another entry at this index")
