"""What the ledger needs from the world: a store, a clock, salts, memories, cosigners.

Everything here is a promise that adapters keep.  tests/backends/test_store_contract.py is the
promise of `Store` in executable form.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import msgspec

from forum.ledger.body import Body, StoredBody
from forum.tlog import Hash, TileId, hash_leaves

Clock = Callable[[], int]
"""The time in microseconds since 1970, as this process believes it to be."""

Salts = Callable[[], bytes]
"""A fresh random salt for each call."""


class Position(NamedTuple):
    """Where an entry stands: the n-th of one strand of one run."""

    run: str
    strand: str
    n: int

    def __str__(self) -> str:
        return f"{self.run}/{self.strand}/{self.n}"


NO_LIMIT = 2**53 - 1
"""The cap of an account that has none."""


class Amount(NamedTuple):
    """What a step of work costs: nano-dollars, tokens, calls."""

    usd: int = 0
    tokens: int = 0
    calls: int = 0

    def plus(self, other: "Amount") -> "Amount":
        """Return both together; as much as an entry can say where it is more."""
        return Amount(*(min(a + b, NO_LIMIT) for a, b in zip(self, other, strict=True)))

    def minus(self, other: "Amount") -> "Amount":
        """Return what is left of this without the other."""
        return Amount(*(mine - its for mine, its in zip(self, other, strict=True)))

    def exceeds(self, cap: "Amount") -> bool:
        """Tell whether any of the three is more than a cap allows."""
        return any(mine > its for mine, its in zip(self, cap, strict=True))


UNLIMITED = Amount(NO_LIMIT, NO_LIMIT, NO_LIMIT)


class BudgetAccount(NamedTuple):
    """What a run may spend, and what is spent or reserved of it."""

    cap: Amount
    used: Amount


class OpenBudgetAccount(NamedTuple):
    """A run gets an account; one that is there stays as it is."""

    run: str
    cap: Amount


class BudgetCharge(NamedTuple):
    """An amount is added to what a run has used, or, where negative, given back.

    A guarded one is refused when the cap would be passed; one that settles what was already
    spent is not, for the money is gone.
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
    """A part of a shared cap that one process has taken, and spends from in its own commits."""

    scope: str
    period: str
    """A day (`2026-11-16`) or a month (`2026-11`), in UTC by the clock of the database."""
    owner: str
    """The process; empty: what processes have used that have ended."""


class BudgetSliceCharge(NamedTuple):
    """An amount is added to what was used of a slice, or, where negative, given back.

    A guarded one is refused, with `BudgetSliceExhausted`, when the slice does not hold it or its
    period is     over; one that settles what was already spent is not.
    """

    slice: BudgetSlice
    amount: Spend
    guarded: bool = True


class BudgetUse(NamedTuple):
    """What was used, or is reserved, in one scope and period."""

    scope: str
    period: str
    until: int
    """When the period ends, in microseconds since 1970."""
    used: Spend


class Timer(NamedTuple):
    """Somebody must look at a run at a time (in microseconds since 1970), or need not any more."""

    run: str
    strand: str
    at: int | None


def due_now(run: str, strand: str, now: int) -> Timer:
    """Have a run looked at as soon as somebody can.

    The time is long past by every clock, however far two of them are apart, and another one each
    time: whoever snoozes the alarm can tell whether it was set again.
    """
    return Timer(run, strand, now >> 4)


def due_now_limit(now: int) -> int:
    """Return a time after all that `due_now` gives, and before all to which alarms are put off."""
    return now >> 3


def decode_due_time(at: int, now: int) -> int:
    """Return when an alarm became due, where `due_now` may have set it."""
    return at << 4 if at < due_now_limit(now) else at


class TimerClaim(NamedTuple):
    """How many due timers a worker claims at once, and for how long each is put off."""

    worker: str
    """Who claims: timers of runs that another live worker drives are left to that one."""
    limit: int
    anew: int
    """Below this time a timer was set to ring at once: no claimed timer is that early."""
    own: Sequence[str]
    """The runs that this worker drives: their timers are put off for the longest pause."""
    shortest: float
    """Seconds until a timer that was set anew is claimed again."""
    longest: float
    """Seconds until a timer is claimed again at most; each pause is twice the one before."""


class IdempotencyRecord(NamedTuple):
    """The run that a key was used for; another run under that key raises `IdempotencyKeyUsed`."""

    name: str
    run: str
    digest: str
    """Of what is asked for: the same name for something else is a mistake of whoever asks."""
    tag: bytes | None = None


class TaggedHead(NamedTuple):
    """The last entry of one of the log's own strands, with the tag of the writer that added it.

    A strand that ends before its head has been shortened.
    """

    strand: str
    n: int
    leaf: Hash
    tag: bytes | None = None


class InterruptedRun(NamedTuple):
    """A run is listed among those that were interrupted, or is not any more."""

    run: str
    listed: bool


Effect = (
    OpenBudgetAccount
    | BudgetCharge
    | Timer
    | IdempotencyRecord
    | TaggedHead
    | BudgetSliceCharge
    | InterruptedRun
)
"""What is changed beside the log, in the very transaction that commits an entry."""


class EntryWrite(NamedTuple):
    """An entry on its way to the store, with the bodies that it commits to."""

    position: Position
    data: bytes
    leaf: Hash
    bodies: tuple[Body, ...] = ()
    effects: tuple[Effect, ...] = ()
    tag: bytes | None = None
    """The tag of the writer, which the sequencer checks (`forum.ledger.write_tags`)."""


class EntryRow(NamedTuple):
    """An entry as the database holds it, under the columns by which readers find it.

    Nothing in it is believed before the columns were compared with the bytes.
    """

    run: str
    strand: str
    n: int
    data: bytes
    tag: bytes | None

    @property
    def position(self) -> Position:
        """Where the columns say that the entry stands."""
        return Position(self.run, self.strand, self.n)


class RowCheck(Protocol):
    """Decides whether a row that was read is what a writer of this log recorded there."""

    def check_row(self, row: EntryRow) -> None:
        """Accept a row that was found by its position or index.  Raises `TamperDetected`."""
        ...

    def check_index(self, index: int, leaf: Hash) -> None:
        """Accept that an entry has this index.  Raises `TamperDetected`."""
        ...


class TableCounts(NamedTuple):
    """How many rows of this log each table has; `strays` are rows that belong to no log."""

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
    """1 if the sequencer goes on behind the last entry that has an index."""
    strays: int


class QuarantinedRow(NamedTuple):
    """A row that no writer of this log wrote: set aside by the sequencer."""

    id: int
    row: EntryRow
    at: int
    """When it was set aside, in microseconds since 1970, by the clock of the database."""


Append = Callable[[Sequence[EntryWrite]], None]
"""Commits all of these or none, durably: `Store.append`, or a committer that gathers them."""

AppendAsync = Callable[[Sequence[EntryWrite]], Awaitable[None]]
"""Does the same without holding up other tasks."""


class TreeHead(NamedTuple):
    """The tree that the sequencer has committed to: how many leaves, and their root."""

    size: int
    root: Hash


class PendingEntries(msgspec.Struct, frozen=True):
    """Entries that have no index yet, parents before children, as one sequencer saw them."""

    rows: Sequence[EntryRow]
    keys: Sequence[Any]
    """By which the store finds the same rows again, one for each."""

    @property
    def leaves(self) -> Sequence[bytes]:
        """The leaf hashes of the entries."""
        return hash_leaves(row.data for row in self.rows)

    def select(self, places: Iterable[int]) -> "PendingEntries":
        """Return the batch with the rows of these places only."""
        chosen = list(places)
        return PendingEntries([self.rows[at] for at in chosen], [self.keys[at] for at in chosen])


class Reader(Protocol):
    """One log as it can be read.

    Nothing below takes longer because the log is longer, but for `stored`
    and `count_rows`.  What is yielded
    as bytes was checked with `check`; rows are yielded as they are stored, for verification.
    """

    check: RowCheck
    """Decides which rows are believed; by default those whose columns agree with their bytes."""

    @property
    def origin(self) -> str:
        """The log's name."""
        ...

    def head(self) -> TreeHead:
        """Return the tree that was last committed to."""
        ...

    def read_tile(self, tile: TileId, width: int) -> bytes:
        """Return the first `width` hashes of a tile."""
        ...

    def entries(self, start: int, stop: int) -> Iterator[bytes | None]:
        """Yield the entry of each of these indexes, in order; nothing where one is not there."""
        ...

    def find_by_prefix(self, prefix: bytes) -> list[int]:
        """Return the indexes of the leaves whose first eight bytes begin with this prefix."""
        ...

    def indexes(self, leaves: Sequence[Hash]) -> list[int | None]:
        """Return the index of each of these entries, or nothing for one that has none yet."""
        ...

    def find_misplaced(self, start: int, leaves: Sequence[bytes]) -> list[int]:
        """Return the indexes of those consecutive leaves that are not found by their ids."""
        ...

    def read_strand(self, run: str, strand: str, start: int = 0) -> Iterator[bytes]:
        """Yield the entries of a strand from position `start`, sequenced or not."""
        ...

    def last_entry(self, run: str, strand: str) -> bytes | None:
        """Return the last entry of a strand."""
        ...

    def strands(self, run: str) -> list[str]:
        """Return the names of a run's strands."""
        ...

    def strand_lengths(self, run: str) -> dict[str, int]:
        """Return how many entries each strand of a run has, by the names of the strands."""
        ...

    def entries_of_run(self, run: str) -> Iterator[tuple[Position, bytes]]:
        """Yield all entries of a run where they stand, strand by strand, sequenced or not."""
        ...

    def entries_at(self, run: str, places: Sequence[tuple[str, int]]) -> list[bytes | None]:
        """Return the entries at these strands and positions of a run; nothing where none is."""
        ...

    def bodies_of_run(self, run: str) -> Iterator[tuple[Position, str, StoredBody]]:
        """Yield the bodies of a run that are there, with where their entries stand."""
        ...

    def runs(self, after: str, limit: int) -> list[str]:
        """Return the next runs in the order of their names."""
        ...

    def runs_before(self, before: str | None, limit: int) -> list[str]:
        """Return runs in the opposite order, beginning before one of them, or with the last."""
        ...

    def body(self, position: Position, name: str) -> StoredBody | None:
        """Return a body, or nothing when it is not there."""
        ...

    def checkpoints(self, start: int = 0) -> Iterator[bytes]:
        """Yield the signed notes of trees of at least this size, smallest first."""
        ...

    def checkpoint_rows(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the same, each with the size under which it is found."""
        ...

    def checkpoint(self, most: int | None = None) -> bytes | None:
        """Return the signed note of the largest tree, or of the largest up to a size."""
        ...

    def unsequenced_entries(self) -> Iterator[bytes | None]:
        """Yield the entries that have no index yet; nothing where one is not there."""
        ...

    def count_entries(self) -> int:
        """Count the entries that are stored, whether or not the log knows them."""
        ...

    def unsequenced_rows(self) -> Iterator[EntryRow | None]:
        """Yield the rows that have no index yet, unchecked; nothing where one is not there."""
        ...

    def rows(self, start: int, stop: int) -> Iterator[EntryRow | None]:
        """Yield the row of each of these indexes, unchecked; nothing where one is not there."""
        ...

    def strand_rows(self, run: str, strand: str) -> Iterator[EntryRow]:
        """Yield the rows of a strand, unchecked."""
        ...

    def strand_head(self, strand: str) -> TaggedHead | None:
        """Return what is stored as the head of one of the log's own strands."""
        ...

    def count_rows(self) -> TableCounts:
        """Count the rows of every table, whether or not the log knows them."""
        ...

    def accounts(self, runs: Sequence[str]) -> dict[str, BudgetAccount]:
        """Return the accounts that these runs have."""
        ...

    def account_runs(self, after: str, limit: int) -> list[str]:
        """Return the next runs that have an account, in the order of their names."""
        ...

    def timers(self, after: Timer | None, limit: int, *, due: bool) -> list[Timer]:
        """Return alarms in the order of run and strand, beginning behind one of them.

        With `due` only those whose time has come by the store's own clock, the longest due first.
        """
        ...

    def interrupted_runs(self, after: str, limit: int) -> list[str]:
        """Return the next runs that are listed as interrupted, in the order of their names."""
        ...

    def idempotency_rows(self, after: str, limit: int) -> list[IdempotencyRecord]:
        """Return what was asked for under names, in the order of the names."""
        ...

    def budget_use(self) -> list[BudgetUse]:
        """Return what was used of shared caps in the day and the month that it is now."""
        ...

    def count_quarantined(self) -> int:
        """Count the rows that were set aside."""
        ...

    def quarantined_rows(self) -> list[QuarantinedRow]:
        """Return the rows that were set aside, oldest first."""
        ...


class Store(Reader, Protocol):
    """One log as it can be written."""

    def append(self, records: Sequence[EntryWrite]) -> None:
        """Commit all of these or none, durably.

        Raises `PositionTaken`, `BudgetExceeded`, `IdempotencyKeyUsed`, `BudgetSliceExhausted`.
        """
        ...

    def account(self, run: str) -> BudgetAccount | None:
        """Return what a run may spend and has used."""
        ...

    def timer(self, run: str, strand: str) -> Timer | None:
        """Return one alarm."""
        ...

    def take_slice(self, scope: str, per: str, owner: str, need: Spend, cap: Spend) -> BudgetSlice:
        """Take enough of a shared cap that a process can spend so much now, in its own commit.

        `per` is `day` or `month`.  What other processes hold and have not spent is taken back
        where the cap has no more to give, whether they live or not.  Raises `CapReached`.
        """
        ...

    def return_slice(self, taken: BudgetSlice) -> None:
        """Give back what a process has not spent of a slice; what it has spent stays counted."""
        ...

    def count_pending_gates(self, limit: int) -> int:
        """Count the gates that wait for a decision, up to a limit."""
        ...

    def now(self) -> int:
        """Return the time by the store's own clock, in microseconds since 1970."""
        ...

    def claim_due_timers(self, claim: "TimerClaim") -> list[Timer]:
        """Return timers whose time has come by the store's own clock, longest due first.

        Each is put off in the same transaction, so that no other worker gets it meanwhile.  Who
        dies with a claim delays a run by one pause: the timer stays until its run clears it.
        """
        ...

    def mark_driver(self, run: str, worker: str) -> None:
        """Leave the timer of a run to the worker that drives it, for as long as that one lives."""
        ...

    def reschedule(self, alarms: Sequence[Timer], seconds: float | None) -> None:
        """Let these ring after some seconds, or never, unless they were changed since then.

        The entries tell what happened; an alarm only tells when to look.
        """
        ...

    def renew_lease(self, worker: str, seconds: float) -> None:
        """Let others know, for some seconds, that this worker lives."""
        ...

    def release_lease(self, worker: str) -> None:
        """Let others know that this worker is gone."""
        ...

    def expired_workers(self) -> list[str]:
        """Return those whose lease has run out, by the store's own clock, and was not dropped."""
        ...

    def workers(self) -> list[str]:
        """Return those who have a lease, run out or not."""
        ...

    def pending_entries(self, limit: int) -> PendingEntries:
        """Return some entries without an index, in an order that keeps parents first."""
        ...

    def pending_span(self) -> tuple[int, int] | None:
        """Return the first and the last place in the order in which entries wait for an index.

        Nothing where no entry waits.  Whatever is appended later has a later place.
        """
        ...

    def advance_head(
        self, old: TreeHead, new: TreeHead, batch: PendingEntries, tiles: Mapping[TileId, bytes]
    ) -> None:
        """Give the batch its indexes, store the tiles, replace old by new: all or nothing.

        Raises `ConcurrentUpdate` when the tree is not the old one any more.
        """
        ...

    def move_to_quarantine(self, batch: PendingEntries) -> None:
        """Move these waiting entries, with their bodies, to the quarantine: all or nothing.

        Their positions become free.  Raises `ConcurrentUpdate` when one of them waits no more.
        """
        ...

    def discard_quarantine(self, ids: Sequence[int]) -> None:
        """Delete rows that were set aside."""
        ...

    def tag_idempotency(self, row: IdempotencyRecord) -> None:
        """Give a row that ties a name to a run the tag of its writer."""
        ...

    def save_strand_head(self, head: TaggedHead) -> None:
        """Keep the head of one of the log's own strands."""
        ...

    def save_checkpoint(self, size: int, note: bytes) -> None:
        """Keep a signed note; one with more cosignatures replaces the one of that size."""
        ...

    def erase_body(self, position: Position, name: str) -> None:
        """Erase a body and its salt, so that neither can be read from the files again."""
        ...

    def backlog(self) -> int:
        """Return about how many entries wait for an index."""
        ...

    def try_lead(self) -> bool:
        """Tell whether this process may sequence now.  For liveness only, never for safety."""
        ...

    def snapshot(self) -> AbstractContextManager[Reader]:
        """Read everything as of one moment."""
        ...

    def close(self) -> None:
        """Let go of connections and files."""
        ...


class CheckpointStore(Protocol):
    """One signed note, kept outside the database and never replaced by accident.

    The signer's guard, a witness's record and a reader's last sight are such memories.
    """

    def latest(self) -> bytes | None:
        """Return the note, or nothing when there never was one."""
        ...

    def advance(self, old: bytes | None, new: bytes) -> None:
        """Replace old by new durably.  Raises `ConcurrentUpdate` when old is not what is kept."""
        ...


class Cosigner(Protocol):
    """Somebody who cosigns checkpoints that are consistent with what it saw before."""

    @property
    def name(self) -> str:
        """The name of its key."""
        ...

    def cosign(self, note: bytes, prove: Callable[[int, int], Sequence[Hash]]) -> str:
        """Return the cosignature lines for a checkpoint.

        Raises `WitnessRefused`, `WitnessUnreachable`.

        `prove(old, new)` makes the consistency proof that the witness asks for.
        """
        ...
