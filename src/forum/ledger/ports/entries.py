"""The parts of a store that hold entries and their bodies."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from forum.ledger.body import Body, StoredBody
from forum.ledger.ports.budgets import BudgetCharge, BudgetSliceCharge, OpenBudgetAccount
from forum.ledger.ports.run_tables import EndedRun, IdempotencyRecord, InterruptedRun
from forum.ledger.ports.timers import Timer
from forum.ledger.ports.tree import TreeReader
from forum.tlog import Hash


class Position(NamedTuple):
    """The address of an entry: run, strand, and the entry's number `n` in the strand, from 0."""

    run: str
    strand: str
    n: int

    def __str__(self) -> str:
        return f"{self.run}/{self.strand}/{self.n}"


class TaggedHead(NamedTuple):
    """The last entry of one of the log's own strands, with the tag of the writer that added it.

    A strand that ends before its recorded head has been truncated.
    """

    strand: str
    n: int
    leaf: Hash
    tag: bytes | None = None


Effect = (
    OpenBudgetAccount
    | BudgetCharge
    | Timer
    | IdempotencyRecord
    | TaggedHead
    | BudgetSliceCharge
    | InterruptedRun
    | EndedRun
)
"""A change of a table beside the log, made in the transaction that commits its entry."""


class EntryWrite(NamedTuple):
    """An entry to be stored, with the bodies that it commits to and its effects."""

    position: Position
    data: bytes
    leaf: Hash
    bodies: tuple[Body, ...] = ()
    effects: tuple[Effect, ...] = ()
    tag: bytes | None = None
    """The writer's MAC over the entry, checked by the sequencer (`forum.ledger.write_tags`)."""


Append = Callable[[Sequence[EntryWrite]], None]
"""Commits all entries or none, durably: `Store.append`, or a committer that batches appends."""

AppendAsync = Callable[[Sequence[EntryWrite]], Awaitable[None]]
"""Commits like `Append`, without blocking the event loop."""


class EntryRow(NamedTuple):
    """An entry as stored in the database, with the columns by which readers find it.

    Untrusted until the columns have been compared with the bytes of the entry.
    """

    run: str
    strand: str
    n: int
    data: bytes
    tag: bytes | None

    @property
    def position(self) -> Position:
        """The position according to the columns."""
        return Position(self.run, self.strand, self.n)


class RowCheck(Protocol):
    """Checks that a row read from the database is the one that a writer of this log stored."""

    def check_row(self, row: EntryRow) -> None:
        """Check a row found by its position or index.  Raises `TamperDetected`."""

    def is_settled(self, _row: EntryRow, /) -> bool:
        """Return whether a row counts already.

        One about the log itself does not where nobody can tell yet who wrote it.
        """

    def check_index(self, index: int, leaf: Hash) -> None:
        """Check that the entry with this leaf hash has this index.  Raises `TamperDetected`."""


class ArchivedRun(Protocol):
    """The entries and bodies of a run that are in an archive."""

    def entry(self, strand: str, n: int) -> bytes | None:
        """Return the entry at a position, or None if the copy does not have it."""

    def body(self, strand: str, n: int, name: str) -> StoredBody | None:
        """Return a body of an entry, or None if the copy does not have it."""

    def bodies(self) -> Iterator[tuple[Position, str, StoredBody]]:
        """Yield all bodies, each with the position of its entry and its name."""


class RunArchive(Protocol):
    """Finds runs whose entries and bodies were moved to an archive."""

    def find(self, run: str) -> ArchivedRun | None:
        """Return an archived run; None if it is not archived.

        Raises `ArchiveUnreachable`, `TamperDetected`.
        """


class EntryReader(TreeReader, Protocol):
    """Reads entries by index, by leaf hash, by strand and by run.

    Entries returned as bytes have passed `check`; rows are returned unchecked, for verification.
    """

    check: RowCheck
    """The check of every row read as bytes; by default, columns must agree with the bytes."""

    def entries(self, start: int, stop: int) -> Iterator[bytes | None]:
        """Yield the entry at each of these indexes, in order; None where it is missing."""

    def find_by_prefix(self, prefix: bytes) -> list[int]:
        """Return the indexes of the leaves that begin with this prefix of up to eight bytes."""

    def indexes(self, leaves: Sequence[bytes]) -> list[int | None]:
        """Return the index of the entry with each leaf hash, or None if it has none yet."""

    def read_strand(self, run: str, strand: str, start: int = 0) -> Iterator[bytes]:
        """Yield the entries of a strand from position `start`, sequenced or not.

        A strand of control entries ends before the first one that nobody can tell yet to be
        genuine: it counts when it is signed.  Raises `TamperDetected` at a gap in the positions,
        and `NotYetSigned` for such an entry in another strand.
        """

    def last_entry(self, run: str, strand: str) -> bytes | None:
        """Return the last entry of a strand, or None if the strand is empty."""

    def last_entries(self, places: Sequence[tuple[str, str]]) -> list[bytes | None]:
        """Return the last entry of each (run, strand), in one query; None for an empty strand."""

    def strands(self, run: str) -> list[str]:
        """Return the names of a run's strands."""

    def strand_lengths(self, run: str) -> dict[str, int]:
        """Return the number of entries of each strand of a run, keyed by strand name."""

    def entries_of_run(self, run: str) -> Iterator[tuple[Position, bytes]]:
        """Yield all entries of a run with their positions, by strand, sequenced or not.

        Raises `TamperDetected` if an entry of a strand is missing.
        """

    def entries_at(self, run: str, places: Sequence[tuple[str, int]]) -> list[bytes | None]:
        """Return the entries of a run at these (strand, n) pairs; None where there is none."""

    def runs(self, after: str, limit: int) -> list[str]:
        """Return the names of the next runs after a name, in ascending order."""

    def runs_before(self, before: str | None, limit: int) -> list[str]:
        """Return runs, the newest first, from before a run or from the last.

        The order is that of their creation in this database, not that of their ids.  A run that
        the log does not have has none before it.
        """

    def unsequenced_entries(self) -> Iterator[bytes | None]:
        """Yield the entries that have no index yet; None where a pending entry is missing."""

    def rows(self, start: int, stop: int) -> Iterator[EntryRow | None]:
        """Yield the row at each of these indexes, unchecked; None where it is missing.

        A row without bytes is in an archive that cannot be reached.
        """

    def strand_rows(self, run: str, strand: str, start: int = 0) -> Iterator[EntryRow]:
        """Yield the rows of a strand from position `start`, unchecked."""

    def unsequenced_rows(self) -> Iterator[EntryRow | None]:
        """Yield the rows that have no index yet, unchecked; None where a row is missing."""

    def strand_head(self, strand: str) -> TaggedHead | None:
        """Return the stored head of one of the log's own strands, unchecked."""


class BodyReader(Protocol):
    """Reads the bodies of entries."""

    def body(self, position: Position, name: str) -> StoredBody | None:
        """Return a body, or None if it is not stored (for example erased)."""

    def bodies_at(self, places: Sequence[tuple[Position, str]]) -> list[StoredBody | None]:
        """Return the body of each name at each position; None where it is not stored."""

    def bodies_of_run(self, run: str) -> Iterator[tuple[Position, str, StoredBody]]:
        """Yield the stored bodies of a run: position of the entry, name of the body, body."""


class LogReader(EntryReader, BodyReader, Protocol):
    """Reads entries with their bodies.

    Those of an archived run are read from its archive; that raises `ArchiveUnreachable` where it
    cannot be reached.
    """

    archive: RunArchive | None
    """Where archived runs are; None if this process has no access to archives."""


class EntryStore(Protocol):
    """Adds entries to the log."""

    def append(self, records: Sequence[EntryWrite]) -> None:
        """Commit all of these entries with their bodies and effects, or none, durably.

        Raises `PositionTaken`, `BudgetExceeded`, `IdempotencyKeyUsed`, `BudgetSliceExhausted`.
        """

    def backlog(self) -> int:
        """Return the number of entries without an index; an estimate if there are many."""

    def save_strand_head(self, head: TaggedHead) -> None:
        """Store the head of one of the log's own strands."""


class ContentStore(LogReader, Protocol):
    """Removes content that the log only commits to, and what an archive holds."""

    def erase_bodies(self, places: Sequence[tuple[Position, str]]) -> None:
        """Erase bodies and their salts: all or none.

        With SQLite they cannot be recovered from the database files afterwards.
        """

    def unarchived_runs(self, after: str, limit: int) -> list[str]:
        """Return the next runs after a name whose entries are stored here, in ascending order."""

    def remove_archived(self, run: str, lengths: Mapping[str, int]) -> None:
        """Remove the bytes of the entries of an archived run, and its bodies.

        `lengths` are the numbers of entries of its strands in the archive; later entries stay.  The
        positions stay taken.  After a crash, a second call removes the rest.
        """
