"""The part of a store that the publisher uses: it sequences, signs, and cleans up."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import msgspec

from forum.ledger.ports.entries import EntryReader, EntryRow, EntryWrite
from forum.ledger.ports.timers import StoreClock
from forum.ledger.ports.tree import TreeHead
from forum.tlog import TileId, hash_leaves


class PendingEntries(msgspec.Struct, frozen=True, dict=True):
    """A batch of entries without an index, parents before children, as one sequencer read them."""

    rows: Sequence[EntryRow]
    keys: Sequence[Any]
    """One key per row, by which the store finds the row again."""

    @cached_property
    def leaves(self) -> Sequence[bytes]:
        """The leaf hashes of the entries, computed once."""
        return hash_leaves(row.data for row in self.rows)

    def select(self, places: Iterable[int]) -> "PendingEntries":
        """Return a batch with only the rows at these offsets."""
        chosen = list(places)
        return PendingEntries([self.rows[at] for at in chosen], [self.keys[at] for at in chosen])


class PublisherStore(EntryReader, StoreClock, Protocol):
    """Gives entries their indexes, and stores signed notes of the tree."""

    def try_lead(self) -> bool:
        """Return whether this process is the leader that sequences.  For liveness, not for safety.

        Two leaders at once are safe, because `advance_head` compares and swaps.
        """

    def pending_entries(self, limit: int) -> PendingEntries:
        """Return up to `limit` entries without an index, parents before children."""

    def pending_span(self) -> tuple[int, int] | None:
        """Return the first and the last place in the queue of entries without an index.

        Return None if the queue is empty.  Entries appended later get later places.
        """

    def advance_head(
        self,
        old: TreeHead,
        new: TreeHead,
        batch: PendingEntries,
        tiles: Mapping[TileId, bytes],
        own: Sequence[EntryWrite] = (),
    ) -> None:
        """Assign indexes to the batch, store the tiles, replace `old` by `new`: all or nothing.

        `own` are entries without bodies that the sequencer adds; they are stored in the same
        transaction, get the indexes after the batch, and are never pending.  Raises
        `ConcurrentUpdate` when the stored head is no longer `old`, and `PositionTaken` when another
        row has the position of one of them.
        """

    def save_checkpoint(self, size: int, note: bytes) -> None:
        """Store a signed note; signatures by other keys below the stored one of this size stay.

        Of two notes with the same signers, or with different texts, the longer one is stored.
        """

    def move_to_quarantine(self, batch: PendingEntries) -> None:
        """Move these pending entries and their bodies to the quarantine: all or nothing.

        Their positions become free.  Raises `ConcurrentUpdate` when one is no longer pending.
        """

    def discard_quarantine(self, ids: Sequence[int]) -> None:
        """Delete rows and their bodies from the quarantine."""

    def clean_up(self, seconds: float, limit: int) -> int:
        """Delete the rows beside up to `limit` runs that ended more than `seconds` ago.

        These are account, timers, idempotency keys and the mark of an interruption; entries and
        bodies stay.  The rows of a run whose parent is open stay as well.  Return the number of
        runs that were looked at: fewer than `limit` if no more are due.
        """

    def require_history(self, head: TreeHead) -> None:
        """Write nothing unless the tree continues this one, which was seen before."""

    def check_history(self) -> None:
        """Raise `CommitsLost` if the database lacks commits that were seen before.

        Raises `LogEnded` if the next epoch has begun.
        """
