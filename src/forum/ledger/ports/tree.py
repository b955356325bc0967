"""The part of a store that reads the tree of the log and its signed notes."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from forum.ledger.ports.identity import LogIdentity
from forum.tlog import Hash, TileId


class TreeHead(NamedTuple):
    """The tree that the sequencer last committed: its number of leaves and its root."""

    size: int
    root: Hash


class TreeReader(LogIdentity, Protocol):
    """Reads the tree, and the notes that were signed of it."""

    def head(self) -> TreeHead:
        """Return the tree that the sequencer last committed."""

    def read_tile(self, tile: TileId, width: int) -> bytes:
        """Return the first `width` hashes of a tile."""

    def checkpoint(self, most: int | None = None) -> bytes | None:
        """Return the signed note of the largest tree, or of the largest up to size `most`.

        A row of a size that the tree does not have, and one whose note is not that of its size, are
        passed over: the verifier reports them, and one such row must not stop the log.
        """

    def checkpoints(self, start: int = 0) -> Iterator[bytes]:
        """Yield the signed notes of trees of size `start` or more, smallest first."""

    def checkpoint_rows(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the notes of `checkpoints`, each with the size under which it is stored."""
