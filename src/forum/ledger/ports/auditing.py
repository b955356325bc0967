"""The part of a store that only verification and monitoring read."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from forum.ledger.ports.entries import EntryRow
from forum.ledger.ports.tree import TreeReader


class CatalogueCheck(NamedTuple):
    """How the catalogue of the database differs from what the migrations of this release make."""

    differences: tuple[str, ...] = ()
    """A sentence for each object that differs."""
    not_checked: str = ""
    """Why it was not compared; empty if it was."""


class TableCounts(NamedTuple):
    """The number of rows of this log in each table; `strays` counts rows that belong to no log."""

    strands: int
    entries: int
    leaves: int
    pending: int
    tiles: int
    checkpoints: int
    bodies: int
    heads: int
    accounts: int
    edge: int
    """1 if the sequencer continues after the last entry that has an index."""
    strays: int


class QuarantinedRow(NamedTuple):
    """A row that no writer of this log wrote: set aside by the sequencer."""

    id: int
    row: EntryRow
    at: int
    """The time of the quarantine, in microseconds since 1970, by the clock of the database."""


class StoreState(NamedTuple):
    """What a monitor reads of a log and its database at once."""

    size: int
    """Of the tree; 0 if the database does not have the log any more."""
    oldest_pending: int | None
    """The place of the oldest entry without an index in its queue."""
    signed: int
    """The size of the newest signed tree; 0 if none was signed."""
    now: int
    """The time by the store's own clock, in microseconds since 1970."""
    is_standby: bool = False
    is_read_only: bool = False


class SequencerSession(NamedTuple):
    """The session of a database that holds the lock of the sequencer of a log."""

    process: int
    client: str
    """The address of its machine, or `this machine`."""


class AuditReader(TreeReader, Protocol):
    """Reads what shows that the tables hold the log and nothing else."""

    def find_misplaced(self, start: int, leaves: Sequence[bytes]) -> list[int]:
        """Return each index, from `start` on, whose leaf is not found there by its id."""

    def count_entries(self) -> int:
        """Count the stored entries, whether or not the log refers to them."""

    def count_rows(self) -> TableCounts:
        """Count the rows of every table, whether or not the log refers to them."""

    def count_quarantined(self) -> int:
        """Count the rows in quarantine."""

    def quarantined_rows(self) -> list[QuarantinedRow]:
        """Return the rows in quarantine, oldest first."""

    def check_catalogue(self) -> CatalogueCheck:
        """Compare what the database consists of with what the migrations of this release make.

        A view, rule, trigger or policy answers each statement as it likes: rows that verification
        reads say nothing then of the rows that others read.
        """


class StoreProbe(Protocol):
    """Tells a monitor whether the database can be read and written."""

    def read_state(self) -> StoreState:
        """Return what a monitor looks at, in one statement that ends within seconds."""

    def try_writing(self) -> None:
        """Find out whether the database can be written, without a change of the log.

        Raises the `StoreFailed` of the cause, within seconds, whoever waits for the database in
        this process; and what `check_history` raises.  It shows that a lock for writers is
        free, that the disk takes some more pages, and, in Postgres, that a commit ends.  It cannot
        show the next fault: a quota, or a disk with room for less than the next append.
        """

    def find_sequencer(self) -> SequencerSession | None:
        """Return the session that holds the lock of the sequencer, if one does."""
