"""Ports of the ledger: store, clock, salts, checkpoint store, cosigner, and their row types.

Adapters implement these protocols.  tests/stores/test_store_contract.py is the executable
contract of `Store`; every store must pass it.
"""

from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import msgspec

from forum.ledger.body import Body, StoredBody
from forum.ledger.database_memory import Lineage
from forum.tlog import Hash, TileId, hash_leaves
from forum.units import MAX_AMOUNT

Clock = Callable[[], int]
"""Returns the time in microseconds since 1970, by the clock of this machine."""

Salts = Callable[[], bytes]
"""Returns a fresh random salt on each call."""


class Position(NamedTuple):
    """The address of an entry: run, strand, and the entry's number `n` in the strand, from 0."""

    run: str
    strand: str
    n: int

    def __str__(self) -> str:
        return f"{self.run}/{self.strand}/{self.n}"


NO_LIMIT = MAX_AMOUNT
"""The cap of an account without a limit: the largest integer that an entry can hold."""


class Amount(NamedTuple):
    """What a step of work costs: nano-dollars, tokens, calls."""

    usd: int = 0
    tokens: int = 0
    calls: int = 0

    def plus(self, other: "Amount") -> "Amount":
        """Return the sum, each part capped at `NO_LIMIT`, the largest integer in an entry."""
        return Amount(*(min(a + b, NO_LIMIT) for a, b in zip(self, other, strict=True)))

    def minus(self, other: "Amount") -> "Amount":
        """Return the difference; its parts may be negative."""
        return Amount(*(mine - its for mine, its in zip(self, other, strict=True)))

    def exceeds(self, cap: "Amount") -> bool:
        """Return whether any of the three parts is greater than that of the cap."""
        return any(mine > its for mine, its in zip(self, cap, strict=True))


UNLIMITED = Amount(NO_LIMIT, NO_LIMIT, NO_LIMIT)


class BudgetAccount(NamedTuple):
    """The budget of a run: its cap, and the amount spent or reserved so far."""

    cap: Amount
    used: Amount


class OpenBudgetAccount(NamedTuple):
    """Effect: open the budget account of a run.  An existing account is not changed."""

    run: str
    cap: Amount


class BudgetCharge(NamedTuple):
    """Effect: add an amount to the usage of a run; a negative amount is returned to the budget.

    A guarded charge is refused when it would exceed the cap.  An unguarded charge settles money
    that is already spent, so it is never refused.
    """

    run: str
    amount: Amount
    guarded: bool = True


class Spend(NamedTuple):
    """What counts against a cap over many runs: nano-dollars, tokens, runs."""

    usd: int = 0
    tokens: int = 0
    runs: int = 0


class BudgetSlice(NamedTuple):
    """A part of a shared cap, reserved by one process, which charges it in its own commits."""

    scope: str
    period: str
    """A day (`2026-11-16`) or a month (`2026-11`), in UTC by the database's clock, or `run`."""
    owner: str
    """The process that holds the slice; empty for the usage of processes that have ended."""


class BudgetSliceCharge(NamedTuple):
    """Effect: add an amount to the usage of a slice; a negative amount is returned to it.

    A guarded charge is refused with `BudgetSliceExhausted` when the rest of the slice is too small
    or its period is over.  An unguarded charge settles an amount already spent and is not refused.
    """

    slice: BudgetSlice
    amount: Spend
    guarded: bool = True


class BudgetUse(NamedTuple):
    """The amount used or reserved in one scope and period."""

    scope: str
    period: str
    until: int
    """The end of the period, in microseconds since 1970."""
    used: Spend


class Timer(NamedTuple):
    """A wake-up time of a strand (microseconds since 1970); as an effect, None clears the timer."""

    run: str
    strand: str
    at: int | None


def due_now(run: str, strand: str, now: int) -> Timer:
    """Return a timer that any worker may claim immediately.

    Its time is decades in the past, so it is due by every clock despite clock skew.  It still grows
    with `now`, so that `reschedule` can tell whether the timer was set again since it was read.
    """
    # A sixteenth of the current time is in the 1970s.
    return Timer(run, strand, now >> 4)


def due_now_limit(now: int) -> int:
    """Return a time after every `due_now` time, and before every time of a rescheduled timer."""
    return now >> 3


def decode_due_time(at: int, now: int) -> int:
    """Return the time at which a timer became due, undoing the encoding of `due_now`."""
    return at << 4 if at < due_now_limit(now) else at


class TimerClaim(NamedTuple):
    """Parameters of `Store.claim_due_timers`: batch size, and the delay until the next claim."""

    worker: str
    """The claiming worker.  Timers of runs that another live worker has are not claimed."""
    limit: int
    anew: int
    """A timer below this time comes from `due_now`: it was set since it was last claimed."""
    own: Sequence[str]
    """The runs that this worker drives; their timers are rescheduled by `longest`."""
    shortest: float
    """Seconds until the next claim of a timer claimed for the first time or set by `due_now`."""
    longest: float
    """Upper bound, in seconds, of the delay, which doubles with each claim."""


class RunClaim(NamedTuple):
    """Parameters of `Store.claim_runs`: how many runs, and the delay until a timer is due again."""

    worker: str
    limit: int
    """The number of due timers of unclaimed runs to claim; with 0, only this worker's own."""
    own_limit: int
    """The number of due timers of runs that this worker has claimed already."""
    anew: int
    """A timer below this time comes from `due_now`: it was set since it was last claimed."""
    shortest: float
    """Seconds until the next claim of a timer claimed for the first time or set by `due_now`."""
    longest: float
    """Upper bound, in seconds, of the delay, which doubles with each claim."""


class IdempotencyRecord(NamedTuple):
    """Effect: bind an idempotency key to a run.  Raises `IdempotencyKeyUsed` for a bound key."""

    name: str
    run: str
    digest: str
    """Digest of the request: a client that reuses a key for another request made an error."""
    tag: bytes | None = None


class TaggedHead(NamedTuple):
    """The last entry of one of the log's own strands, with the tag of the writer that added it.

    A strand that ends before its recorded head has been truncated.
    """

    strand: str
    n: int
    leaf: Hash
    tag: bytes | None = None


class RunSummaryRow(NamedTuple):
    """The stored summary of a closed run, from which lists are made."""

    run: str
    version: int
    """The version of the rules by which `data` follows from the entries."""
    ended: int
    """The time of the entry that closes the run, in microseconds since 1970."""
    data: bytes
    """The encoded summary; it holds facts of entries and never the content of a body."""
    tag: bytes | None = None


class InterruptedRun(NamedTuple):
    """Effect: add a run to the list of interrupted runs, or remove it."""

    run: str
    listed: bool


class EndedRun(NamedTuple):
    """Effect: list a run that ends in this commit, so that `Store.clean_up` finds it later."""

    run: str
    parent: str = ""
    """The run that delegated it, which still reads its account; empty if there is none."""
    ends_sums: bool = False
    """Whether its sums of tool uses end with it. Those of a reported session go on if it does."""


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


MAX_LEASE_S = 300
"""The longest lease of a worker that others wait for, by the store's clock: no worker takes more.

A later end was written by somebody else, and must not keep the runs of that worker from others.
"""


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


Append = Callable[[Sequence[EntryWrite]], None]
"""Commits all entries or none, durably: `Store.append`, or a committer that batches appends."""

AppendAsync = Callable[[Sequence[EntryWrite]], Awaitable[None]]
"""Commits like `Append`, without blocking the event loop."""


class TreeHead(NamedTuple):
    """The tree that the sequencer last committed: its number of leaves and its root."""

    size: int
    root: Hash


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


class Reader(Protocol):
    """Read access to one log.

    The cost of a call does not grow with the length of the log, except for `count_entries` and
    `count_rows`.  Entries returned as bytes have passed `check`; rows are returned unchecked, for
    verification.  The entries and bodies of an archived run are read from its archive; that raises
    `ArchiveUnreachable` where it cannot be reached.
    """

    archive: RunArchive | None
    """Where archived runs are; None if this process has no access to archives."""

    lineage: Lineage
    """The identity of the database: what is remembered of it hangs on this."""

    check: RowCheck
    """The check of every row read as bytes; by default, columns must agree with the bytes."""

    @property
    def origin(self) -> str:
        """The log's name."""

    def head(self) -> TreeHead:
        """Return the tree that the sequencer last committed."""

    def read_tile(self, tile: TileId, width: int) -> bytes:
        """Return the first `width` hashes of a tile."""

    def entries(self, start: int, stop: int) -> Iterator[bytes | None]:
        """Yield the entry at each of these indexes, in order; None where it is missing."""

    def find_by_prefix(self, prefix: bytes) -> list[int]:
        """Return the indexes of the leaves that begin with this prefix of up to eight bytes."""

    def indexes(self, leaves: Sequence[bytes]) -> list[int | None]:
        """Return the index of the entry with each leaf hash, or None if it has none yet."""

    def find_misplaced(self, start: int, leaves: Sequence[bytes]) -> list[int]:
        """Return each index, from `start` on, whose leaf is not found there by its id."""

    def read_strand(self, run: str, strand: str, start: int = 0) -> Iterator[bytes]:
        """Yield the entries of a strand from position `start`, sequenced or not."""

    def last_entry(self, run: str, strand: str) -> bytes | None:
        """Return the last entry of a strand, or None if the strand is empty."""

    def last_entries(self, places: Sequence[tuple[str, str]]) -> list[bytes | None]:
        """Return the last entry of each (run, strand), in one query; None for an empty strand."""

    def strands(self, run: str) -> list[str]:
        """Return the names of a run's strands."""

    def strand_lengths(self, run: str) -> dict[str, int]:
        """Return the number of entries of each strand of a run, keyed by strand name."""

    def entries_of_run(self, run: str) -> Iterator[tuple[Position, bytes]]:
        """Yield all entries of a run with their positions, by strand, sequenced or not."""

    def entries_at(self, run: str, places: Sequence[tuple[str, int]]) -> list[bytes | None]:
        """Return the entries of a run at these (strand, n) pairs; None where there is none."""

    def bodies_of_run(self, run: str) -> Iterator[tuple[Position, str, StoredBody]]:
        """Yield the stored bodies of a run: position of the entry, name of the body, body."""

    def runs(self, after: str, limit: int) -> list[str]:
        """Return the names of the next runs after a name, in ascending order."""

    def runs_before(self, before: str | None, limit: int) -> list[str]:
        """Return runs in the reverse order of their creation, from before a run or from the last.

        A run that the log does not have has none before it.
        """

    def summaries(self, runs: Sequence[str]) -> dict[str, RunSummaryRow]:
        """Return the stored summaries of these runs, unchecked; runs without one are left out."""

    def summary_runs(self, after: str, limit: int) -> list[str]:
        """Return the next runs after a name that have a summary, in ascending order."""

    def body(self, position: Position, name: str) -> StoredBody | None:
        """Return a body, or None if it is not stored (for example erased)."""

    def bodies_at(self, places: Sequence[tuple[Position, str]]) -> list[StoredBody | None]:
        """Return the body of each name at each position; None where it is not stored."""

    def checkpoints(self, start: int = 0) -> Iterator[bytes]:
        """Yield the signed notes of trees of size `start` or more, smallest first."""

    def checkpoint_rows(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the notes of `checkpoints`, each with the size under which it is stored."""

    def checkpoint(self, most: int | None = None) -> bytes | None:
        """Return the signed note of the largest tree, or of the largest up to size `most`."""

    def unsequenced_entries(self) -> Iterator[bytes | None]:
        """Yield the entries that have no index yet; None where a pending entry is missing."""

    def count_entries(self) -> int:
        """Count the stored entries, whether or not the log refers to them."""

    def unsequenced_rows(self) -> Iterator[EntryRow | None]:
        """Yield the rows that have no index yet, unchecked; None where a row is missing."""

    def rows(self, start: int, stop: int) -> Iterator[EntryRow | None]:
        """Yield the row at each of these indexes, unchecked; None where it is missing.

        A row without bytes is in an archive that cannot be reached.
        """

    def strand_rows(self, run: str, strand: str, start: int = 0) -> Iterator[EntryRow]:
        """Yield the rows of a strand from position `start`, unchecked."""

    def strand_head(self, strand: str) -> TaggedHead | None:
        """Return the stored head of one of the log's own strands, unchecked."""

    def count_rows(self) -> TableCounts:
        """Count the rows of every table, whether or not the log refers to them."""

    def accounts(self, runs: Sequence[str]) -> dict[str, BudgetAccount]:
        """Return the budget accounts of these runs; runs without an account are left out."""

    def account_runs(self, after: str, limit: int) -> list[str]:
        """Return the next runs after a name that have an account, in ascending order."""

    def timers(self, after: Timer | None, limit: int, *, due: bool) -> list[Timer]:
        """Return timers ordered by run and strand, starting after one of them.

        With `due`, return only timers that are due by the store's clock, longest overdue first.
        """

    def interrupted_runs(self, after: str, limit: int) -> list[str]:
        """Return the next runs after a name that are listed as interrupted, in ascending order."""

    def idempotency_rows(self, after: str, limit: int) -> list[IdempotencyRecord]:
        """Return the next idempotency records after a name, ordered by name."""

    def budget_use(self) -> list[BudgetUse]:
        """Return the usage of shared caps in the current day and the current month."""

    def run_budget_use(self, runs: Container[str]) -> list[BudgetUse]:
        """Return what was added up for these runs, each of which counts by itself."""

    def count_quarantined(self) -> int:
        """Count the rows in quarantine."""

    def quarantined_rows(self) -> list[QuarantinedRow]:
        """Return the rows in quarantine, oldest first."""

    def check_catalogue(self) -> CatalogueCheck:
        """Compare what the database consists of with what the migrations of this release make.

        A view, rule, trigger or policy answers each statement as it likes: rows that verification
        reads say nothing then of the rows that others read.
        """


class WorkSignal(Protocol):
    """Wakes a worker when a timer was set to be due, by any process."""

    def wait(self, seconds: float) -> bool:
        """Wait for news; return False after some seconds without any.  Raises `StoreFailed`.

        News may be lost with a connection, so a worker also looks without them from time to time.
        """

    def close(self) -> None:
        """End the signal; others no longer see this worker live by it."""


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


class Store(Reader, Protocol):
    """Read and write access to one log."""

    def find_sequencer(self) -> SequencerSession | None:
        """Return the session that holds the lock of the sequencer, if one does."""

    def read_state(self) -> StoreState:
        """Return what a monitor looks at, in one statement that ends within seconds."""

    def try_writing(self) -> None:
        """Find out whether the database can be written, without a change of the log.

        Raises the `StoreFailed` of the cause, within seconds, whoever waits for the database in
        this process; and what `check_history` raises.  It shows that a lock for writers is
        free, that the disk takes some more pages, and, in Postgres, that a commit ends.  It cannot
        show the next fault: a quota, or a disk with room for less than the next append.
        """

    def append(self, records: Sequence[EntryWrite]) -> None:
        """Commit all of these entries with their bodies and effects, or none, durably.

        Raises `PositionTaken`, `BudgetExceeded`, `IdempotencyKeyUsed`, `BudgetSliceExhausted`.
        """

    def account(self, run: str) -> BudgetAccount | None:
        """Return the budget account of a run, or None if it has none."""

    def timer(self, run: str, strand: str) -> Timer | None:
        """Return the timer of a strand, or None if none is set."""

    def take_slice(self, scope: str, per: str, owner: str, need: Spend, cap: Spend) -> BudgetSlice:
        """Reserve a slice of a shared cap, at least `need`, for one process to charge.

        `per` is `day` or `month`.  When nothing else is left of the cap, the unspent parts of other
        processes' slices are taken back, whether those processes live or not.  Raises `CapReached`.
        """

    def return_slice(self, budget_slice: BudgetSlice) -> None:
        """Return the unspent part of a slice to the cap; the spent part stays counted."""

    def report_overrun(self, slices: Sequence[BudgetSlice]) -> None:
        """Take back what other processes hold of these caps, and count an overrun of each."""

    def overruns(self) -> dict[str, int]:
        """Return how often calls under shared caps were billed above their bound, by scope."""

    def count_open_runs(self, limit: int) -> int:
        """Count the runs that were accepted and have not ended, but at most `limit`."""

    def count_pending_gates(self, limit: int) -> int:
        """Count the gates without a decision, up to a limit."""

    def now(self) -> int:
        """Return the time by the store's own clock, in microseconds since 1970."""

    def claim_due_timers(self, claim: "TimerClaim") -> list[Timer]:
        """Claim timers that are due by the store's own clock; return them, longest overdue first.

        Each timer is rescheduled in the same transaction, so that no other worker claims it
        meanwhile.  A worker that dies with a claim only delays the run until the timer is due
        again, because a timer stays until the driver of its run clears it.
        """

    def claim_runs(self, claim: "RunClaim") -> list[Timer]:
        """Claim runs that are due and unclaimed, longest overdue first, for one worker.

        Return their due timers, and those of runs that the worker has claimed before.  No other
        worker claims these runs until they are released, or the lease of the worker expires.  The
        timers are rescheduled in the same transaction, as by `claim_due_timers`.
        """

    def release_runs(self, worker: str, runs: Sequence[str]) -> None:
        """Give up the claims of a worker to these runs; claims of other workers stay."""

    def take_over(self, worker: str, early_s: float = 0.0) -> int:
        """Release the runs of a worker that is lost (see `beat`), and make them due now.

        The lease is deleted in the same transaction.  Return the number of runs; 0 if the worker
        has renewed its lease meanwhile, or another worker was first.
        """

    def open_signal(self, worker: str) -> "WorkSignal":
        """Return a signal that tells a worker when something may be due.

        While it is open, other workers see that this one lives, if the database can tell.
        """

    def beat(self, worker: str, lease_s: float, early_s: float) -> list[str]:
        """Renew the lease of a worker, and return the workers that are lost, by their last beats.

        Leases of others that end after more than `MAX_LEASE_S` are cut to that.

        Lost is a worker whose lease has expired; or has less than `early_s` left while its signal
        is closed, if it has claimed runs.  The worker itself is among them if it was away.
        """

    def claim_run(self, run: str, worker: str) -> bool:
        """Claim one run, due or not, as by `claim_runs`; return whether the worker has it now."""

    def set_timers(self, timers: Sequence[Timer]) -> None:
        """Set or clear timers without an entry, and tell the workers that wait."""

    def add_timers(self, timers: Sequence[Timer]) -> None:
        """Set those of these timers that are not set, and tell the workers that wait."""

    def reschedule(self, alarms: Sequence[Timer], seconds: float | None) -> None:
        """Set these timers to some seconds from now, or clear them, unless they changed meanwhile.

        No state is lost: the entries are the record, and a timer only says when to read them.
        """

    def renew_lease(self, worker: str, seconds: float) -> None:
        """Renew the lease of a worker for some seconds: others take it to be alive so long."""

    def release_lease(self, worker: str) -> None:
        """Delete the lease of a worker that stops, or whose tasks were taken over by another."""

    def expired_workers(self) -> list[str]:
        """Return the workers whose lease has expired by the store's clock and was not released."""

    def live_workers(self) -> list[str]:
        """Return the workers whose lease has not expired by the store's clock."""

    def workers(self) -> list[str]:
        """Return the workers that have a lease, expired or not."""

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

    def move_to_quarantine(self, batch: PendingEntries) -> None:
        """Move these pending entries and their bodies to the quarantine: all or nothing.

        Their positions become free.  Raises `ConcurrentUpdate` when one is no longer pending.
        """

    def discard_quarantine(self, ids: Sequence[int]) -> None:
        """Delete rows from the quarantine."""

    def tag_idempotency(self, row: IdempotencyRecord) -> None:
        """Store the writer's tag of an existing idempotency record."""

    def unarchived_runs(self, after: str, limit: int) -> list[str]:
        """Return the next runs after a name whose entries are stored here, in ascending order."""

    def remove_archived(self, run: str, lengths: Mapping[str, int]) -> None:
        """Remove the bytes of the entries of an archived run, and its bodies.

        `lengths` are the numbers of entries of its strands in the archive; later entries stay.  The
        positions stay taken.  After a crash, a second call removes the rest.
        """

    def clean_up(self, seconds: float, limit: int) -> int:
        """Delete the rows beside up to `limit` runs that ended more than `seconds` ago.

        These are account, timers, idempotency keys and the mark of an interruption; entries and
        bodies stay.  The rows of a run whose parent is open stay as well.  Return the number of
        runs that were looked at: fewer than `limit` if no more are due.
        """

    def save_strand_head(self, head: TaggedHead) -> None:
        """Store the head of one of the log's own strands."""

    def save_summaries(self, rows: Sequence[RunSummaryRow]) -> None:
        """Store summaries of closed runs, in place of those that they may have."""

    def save_checkpoint(self, size: int, note: bytes) -> None:
        """Store a signed note; signatures by other keys below the stored one of this size stay.

        Of two notes with the same signers, or with different texts, the longer one is stored.
        """

    def erase_bodies(self, places: Sequence[tuple[Position, str]]) -> None:
        """Erase bodies and their salts: all or none.

        With SQLite they cannot be recovered from the database files afterwards.
        """

    def backlog(self) -> int:
        """Return the approximate number of entries without an index."""

    def restore_budget_use(self, uses: Sequence[BudgetUse]) -> None:
        """Count what was used of shared caps in the earlier epoch of the log."""

    def require_history(self, head: TreeHead) -> None:
        """Write nothing unless the tree continues this one, which was seen before."""

    def check_history(self) -> None:
        """Raise `CommitsLost` if the database lacks commits that were seen before.

        Raises `LogEnded` if the next epoch has begun.
        """

    def try_lead(self) -> bool:
        """Return whether this process is the leader that sequences.  For liveness, not for safety.

        Two leaders at once are safe, because `advance_head` compares and swaps.
        """

    def snapshot(self) -> AbstractContextManager[Reader]:
        """Return a context whose reader sees the log as of one moment."""

    def close(self) -> None:
        """Close connections and files."""


class CheckpointStore(Protocol):
    """Durable storage of one signed note, outside the database, replaced by compare-and-swap.

    Used for the signer's guard, the last note that a witness cosigned, and the last checkpoint
    that a reader saw.
    """

    def latest(self) -> bytes | None:
        """Return the stored note, or None if there never was one."""

    def advance(self, old: bytes | None, new: bytes) -> None:
        """Replace `old` by `new` durably.  Raises `ConcurrentUpdate` when `old` is not stored."""


class Cosigner(Protocol):
    """A witness that cosigns checkpoints consistent with those that it cosigned before."""

    @property
    def name(self) -> str:
        """The name of the witness's key."""

    def cosign(self, note: bytes, prove: Callable[[int, int], Sequence[Hash]]) -> str:
        """Return the cosignature lines for a checkpoint.

        Raises `WitnessRefused`, `WitnessUnreachable`.

        `prove(old, new)` returns the consistency proof that the witness asks for.
        """
