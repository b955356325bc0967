"""What the SQL backends share: SQL lives in files, and what is done with it is the same in both.

Each database has numbered migrations, applied once and never edited after their release, and one
file of named queries.  The queries have the same names and parameters everywhere.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from importlib.resources import files
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from forum.errors import (
    BudgetExceeded,
    BudgetSliceExhausted,
    CapReached,
    IdempotencyKeyUsed,
    SchemaTooNew,
    StoreFailed,
    TamperDetected,
)
from forum.ledger import (
    MAIN_STRAND,
    NO_LIMIT,
    Amount,
    BudgetAccount,
    BudgetCharge,
    BudgetSlice,
    BudgetSliceCharge,
    BudgetUse,
    Effect,
    EntryRow,
    EntryWrite,
    IdempotencyRecord,
    InterruptedRun,
    OpenBudgetAccount,
    Position,
    PositionCheck,
    QuarantinedRow,
    RowCheck,
    Spend,
    StoredBody,
    TableCounts,
    TaggedHead,
    Timer,
    TimerClaim,
    TreeHead,
)
from forum.tlog import Hash, TileId, hash_leaf

PAGE_ROWS = 1000
"""How many rows are read at a time."""

MAX_CACHED_STRANDS = 100_000
"""How many strands a store knows without asking."""

_EARLIEST_TIME = -(2**62)
"""A time before every alarm."""

_MAX_SMALL_BODY_BYTES = 8192
"""Up to how many bytes a body is read together with others."""

_SAMPLE_ROWS = 1000
"""How many waiting commits are counted at each end: between them, a backlog is estimated."""

_SLICE_DIVISOR = 8
"""A process takes what it needs of a shared cap, and up to one of so many parts of the rest."""

_MAX_CHARGE_ATTEMPTS = 5
"""How often a charge is tried while others give back what it needs."""


BASE_SCHEMA_VERSION = 3
"""The schema of release 0.1.0.  What is added to it later is recorded beside its version."""


class Migration(NamedTuple):
    """One step of a schema."""

    number: int
    sql: str
    is_additive: bool
    """Whether processes of the release before can go on beside it."""


def load_queries(database: str, name: str = "queries") -> dict[str, str]:
    """Return the queries of a database by their names."""
    text = (files("forum.backends") / "sql" / database / f"{name}.sql").read_text()
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)[1:]
    return {name: sql.strip() for name, sql in zip(parts[::2], parts[1::2], strict=True)}


def load_migrations(database: str) -> list[Migration]:
    """Return every step of a schema, in order."""
    folder = files("forum.backends") / "sql" / database
    names = sorted(f.name for f in folder.iterdir() if f.name[:4].isdecimal())
    return [Migration(int(n[:4]), (folder / n).read_text(), "_post_" not in n) for n in names]


def missing_migrations(database: str, version: int) -> list[Migration]:
    """Return what lies behind a version; a schema newer than this release is refused."""
    known = load_migrations(database)
    if version > known[-1].number:
        raise SchemaTooNew(version, known[-1].number)
    return [migration for migration in known if migration.number > version]


def leaf_prefix(leaf: bytes) -> int:
    """Return the number under which a leaf can be found: its first eight bytes, signed."""
    return int.from_bytes(leaf[:8], "big", signed=True)


class _PendingSample(NamedTuple):
    """Some neighbouring rows of what waits for an index: how many, and from where to where."""

    rows: int
    entries: int
    first: int
    last: int


def _estimate_pending(oldest: _PendingSample, newest: _PendingSample) -> int:
    """Return about how many entries wait, from both ends of them.

    Numbers are given out to all logs of a database in turn: how many of them are this log's, the
    ends show.  The committer asks four times a second, so counting all would cost more the later
    the sequencer is.
    """
    sampled = oldest.entries + newest.entries
    span = oldest.last - oldest.first + newest.last - newest.first + 2
    return max(oldest.entries, sampled * (newest.last - oldest.first + 1) // span)


class _Periods(NamedTuple):
    """The day and the month that it is in UTC, by the clock of the database."""

    day: str
    month: str
    day_until: int
    month_until: int
    now: int

    def find(self, per: str) -> tuple[str, int]:
        """Return the period that it is now, and when it ends."""
        return (self.day, self.day_until) if per == "day" else (self.month, self.month_until)


class _SliceRow(NamedTuple):
    """A slice as it is stored."""

    owner: str
    held: Spend
    used: Spend


class _StrandRow(NamedTuple):
    """A strand of a run, by its key and its name, and how many entries it has."""

    key: int
    name: str
    length: int


def _group_into_pages(strands: Sequence[_StrandRow]) -> Iterator[list[_StrandRow]]:
    """Yield strands in groups of at most a page of entries; a longer strand stands alone."""
    page: list[_StrandRow] = []
    entries = 0
    for strand in strands:
        if page and (entries + strand.length > PAGE_ROWS or len(page) == PAGE_ROWS):
            yield page
            page, entries = [], 0
        page.append(strand)
        entries += strand.length
    if page:
        yield page


def _single_chunk(data: bytes) -> Iterator[bytes]:
    yield data


class SqlReader(ABC):
    """One log, read with the named queries of some database."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._log = 0
        self._strand_ids: dict[tuple[str, str], int] = {}
        self.check: RowCheck = PositionCheck(origin)

    @abstractmethod
    def _fetch_rows(self, query: str, **parameters: object) -> list[Any]:
        """Run a query and return all of its rows."""

    def _fetch_one(self, query: str, **parameters: object) -> Any:  # noqa: ANN401  a column of any type
        rows = self._fetch_rows(query, **parameters)
        return rows[0][0] if rows else None

    @property
    def origin(self) -> str:
        """The log's name."""
        return self._origin

    def head(self) -> TreeHead:
        """Return the tree that was last committed to."""
        size, root = self._fetch_rows("head", log=self._log)[0]
        return TreeHead(size, Hash(root))

    def read_tile(self, tile: TileId, width: int) -> bytes:
        """Return the first `width` hashes of a tile."""
        hashes: bytes | None = self._fetch_one(
            "tile", log=self._log, level=tile.level, idx=tile.index, length=32 * width
        )
        return hashes or b""

    def entries(self, start: int, stop: int) -> Iterator[bytes | None]:
        """Yield the entry of each of these indexes, in order; nothing where one is not there."""
        for row in self.rows(start, stop):
            if row is not None:
                self.check.check_row(row)
            yield None if row is None else row.data

    def rows(self, start: int, stop: int) -> Iterator[EntryRow | None]:
        """Yield the row of each of these indexes, unchecked; nothing where one is not there."""
        for low in range(start, stop, PAGE_ROWS):
            high = min(low + PAGE_ROWS, stop)
            page = self._fetch_rows("entries", log=self._log, start=low, stop=high)
            if len(page) == high - low and all(row[4] and row[1] for row in page):
                yield from map(EntryRow._make, map(_WITHOUT_INDEX, page))
            else:
                found = {row[0]: _row(row[1:]) for row in page}
                yield from (found.get(index) for index in range(low, high))

    def find_by_prefix(self, prefix: bytes) -> list[int]:
        """Return the indexes of the leaves whose first eight bytes begin with this prefix."""
        # Big-endian and signed keeps the order within one prefix: its first bit is the same.
        low, high = (leaf_prefix(prefix[:8].ljust(8, end)) for end in (b"\0", b"\xff"))
        return [row[0] for row in self._fetch_rows("find", log=self._log, low=low, high=high)]

    def indexes(self, leaves: Sequence[Hash]) -> list[int | None]:
        """Return the index of each of these entries, or nothing for one that has none yet."""
        found: dict[int, list[int]] = {}
        for low in range(0, len(leaves), PAGE_ROWS):
            prefixes = [leaf_prefix(leaf) for leaf in leaves[low : low + PAGE_ROWS]]
            for prefix, index in self._fetch_rows(
                "indexes", log=self._log, prefixes=self._list(prefixes)
            ):
                found.setdefault(prefix, []).append(index)
        return [self._match_leaf(leaf, found.get(leaf_prefix(leaf), [])) for leaf in leaves]

    def find_misplaced(self, start: int, leaves: Sequence[bytes]) -> list[int]:
        """Return the indexes of those consecutive leaves that are not found by their ids."""
        found = self.indexes([Hash(leaf) for leaf in leaves])
        return [index for index, other in enumerate(found, start) if index != other]

    def _match_leaf(self, leaf: Hash, indexes: list[int]) -> int | None:
        """Return the index of a leaf among those that begin alike: nearly always the only one."""
        if len(indexes) < 2:
            return indexes[0] if indexes else None
        same = (i for i in indexes if hash_leaf(next(self.entries(i, i + 1)) or b"") == leaf)
        return next(same, None)

    @abstractmethod
    def _list(self, values: list[int] | list[str]) -> object:
        """Return numbers or names as a parameter of a query."""

    def read_strand(self, run: str, strand: str, start: int = 0) -> Iterator[bytes]:
        """Yield the entries of a strand from position `start`, sequenced or not."""
        for row in self._strand_rows(run, strand, start):
            self.check.check_row(row)
            if row.n != start:
                raise TamperDetected(
                    f"entry {run}/{strand}/{start}", "it is not there, and later ones are"
                )
            start += 1
            yield row.data

    def strand_rows(self, run: str, strand: str) -> Iterator[EntryRow]:
        """Yield the rows of a strand, unchecked."""
        return self._strand_rows(run, strand, 0)

    def last_entry(self, run: str, strand: str) -> bytes | None:
        """Return the last entry of a strand."""
        key = self._strand_key(run, strand)
        found = [] if key is None else self._fetch_rows("last", log=self._log, strand=key)
        if not found:
            return None
        row = EntryRow(run, strand, *found[0])
        self.check.check_row(row)
        return row.data

    def _strand_rows(self, run: str, strand: str, start: int) -> Iterator[EntryRow]:
        key = self._strand_key(run, strand)
        if key is not None:
            place = {"log": self._log, "strand": key}
            for found in self._fetch_pages("strand_entries", "n", start, **place):
                yield EntryRow(run, strand, *found)

    def strands(self, run: str) -> list[str]:
        """Return the names of a run's strands."""
        return [row[0] for row in self._fetch_rows("strands", log=self._log, run=run)]

    def strand_lengths(self, run: str) -> dict[str, int]:
        """Return how many entries each strand of a run has, by the names of the strands."""
        return {strand.name: strand.length for strand in self._strands_of(run)}

    def entries_of_run(self, run: str) -> Iterator[tuple[Position, bytes]]:
        """Yield all entries of a run where they stand, strand by strand, sequenced or not."""
        for strands in _group_into_pages(self._strands_of(run)):
            if len(strands) == 1:
                name = strands[0].name
                for n, data in enumerate(self.read_strand(run, name)):
                    yield Position(run, name, n), data
            else:
                for row in self._rows_of_strands(run, strands):
                    self.check.check_row(row)
                    yield row.position, row.data

    def _rows_of_strands(self, run: str, strands: Sequence[_StrandRow]) -> Iterator[EntryRow]:
        keys = self._list([strand.key for strand in strands])
        rows: dict[int, list[EntryRow]] = {strand.key: [] for strand in strands}
        names = {strand.key: strand.name for strand in strands}
        for key, *found in self._fetch_rows("entries_of_strands", log=self._log, strands=keys):
            rows[key].append(EntryRow(run, names[key], *found))
        for strand in strands:
            if len(rows[strand.key]) < strand.length:
                raise TamperDetected(
                    f"strand {run}/{strand.name}", "some of its entries are not there"
                )
            yield from rows[strand.key]

    def entries_at(self, run: str, places: Sequence[tuple[str, int]]) -> list[bytes | None]:
        """Return the entries at these strands and positions of a run; nothing where none is."""
        keyed = [(self._strand_key(run, strand), n) for strand, n in places]
        found: list[Any] = []
        for low in range(0, len(keyed), PAGE_ROWS):
            found += self._entries_at(keyed[low : low + PAGE_ROWS])
        entries: list[bytes | None] = []
        for (strand, n), (data, tag) in zip(places, found, strict=True):
            if data is not None:
                self.check.check_row(EntryRow(run, strand, n, data, tag))
            entries.append(data)
        return entries

    @abstractmethod
    def _entries_at(self, places: list[tuple[int | None, int]]) -> list[Any]:
        """Return bytes and tag for each of these keys of strands and positions, in their order."""

    def bodies_of_run(self, run: str) -> Iterator[tuple[Position, str, StoredBody]]:
        """Yield the bodies of a run that are there, with where their entries stand."""
        for strands in _group_into_pages(self._strands_of(run)):
            names = {strand.key: strand.name for strand in strands}
            keys = self._list(list(names))
            # The small ones come along, so that many of them are one look; a large one is read
            # by whoever wants it, piece by piece.
            for key, n, name, salt, data in self._fetch_rows(
                "bodies_of_strands", log=self._log, strands=keys, size=_MAX_SMALL_BODY_BYTES
            ):
                place = {"log": self._log, "strand": key, "n": n, "name": name}
                read = (
                    partial(self._read_body_chunks, place)
                    if data is None
                    else partial(_single_chunk, data)
                )
                yield Position(run, names[key], n), name, StoredBody(salt, read)

    def _strands_of(self, run: str) -> list[_StrandRow]:
        strands = [
            _StrandRow(*row) for row in self._fetch_rows("strand_lengths", log=self._log, run=run)
        ]
        self._cache_strand_keys({(run, strand.name): strand.key for strand in strands})
        return strands

    def runs(self, after: str, limit: int) -> list[str]:
        """Return the next runs in the order of their names."""
        return [row[0] for row in self._fetch_rows("runs", log=self._log, run=after, limit=limit)]

    def runs_before(self, before: str | None, limit: int) -> list[str]:
        """Return runs in the opposite order, beginning before one of them, or with the last."""
        query = "last_runs" if before is None else "runs_before"
        return [row[0] for row in self._fetch_rows(query, log=self._log, run=before, limit=limit)]

    def body(self, position: Position, name: str) -> StoredBody | None:
        """Return a body, or nothing when it is not there."""
        key = self._body_key(position, name)
        salt = self._fetch_one("body_salt", **key)
        return None if salt is None else StoredBody(salt, lambda: self._read_body_chunks(key))

    def checkpoints(self, start: int = 0) -> Iterator[bytes]:
        """Yield the signed notes of trees of at least this size, smallest first."""
        yield from (note for _, note in self.checkpoint_rows(start))

    def checkpoint_rows(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the same, each with the size under which it is found."""
        yield from self._fetch_pages("checkpoints", "size", start, log=self._log)

    def checkpoint(self, most: int | None = None) -> bytes | None:
        """Return the signed note of the largest tree, or of the largest up to a size."""
        size = 2**62 if most is None else most
        found: bytes | None = self._fetch_one("checkpoint", log=self._log, size=size)
        return found

    def unsequenced_entries(self) -> Iterator[bytes | None]:
        """Yield the entries that have no index yet; nothing where one is not there."""
        yield from (row.data if row else None for row in self.unsequenced_rows())

    def unsequenced_rows(self) -> Iterator[EntryRow | None]:
        """Yield the rows that have no index yet, unchecked; nothing where one is not there."""
        yield from (_row(row) for row in self._fetch_rows("unsequenced", log=self._log))

    def count_entries(self) -> int:
        """Count the entries that are stored, whether or not the log knows them."""
        return int(self._fetch_one("stored", log=self._log))

    def strand_head(self, strand: str) -> TaggedHead | None:
        """Return what is stored as the head of one of the log's own strands."""
        rows = self._fetch_rows("strand_head", log=self._log, strand=strand)
        return TaggedHead(strand, rows[0][0], Hash(rows[0][1]), rows[0][2]) if rows else None

    def count_rows(self) -> TableCounts:
        """Count the rows of every table, whether or not the log knows them."""
        return TableCounts(*self._fetch_rows("count_rows", log=self._log)[0])

    def accounts(self, runs: Sequence[str]) -> dict[str, BudgetAccount]:
        """Return the accounts that these runs have."""
        rows = self._fetch_rows("accounts", log=self._log, runs=self._list(list(runs)))
        return {row[0]: _account(row[1:]) for row in rows}

    def account_runs(self, after: str, limit: int) -> list[str]:
        """Return the next runs that have an account, in the order of their names."""
        return [
            row[0]
            for row in self._fetch_rows("account_runs", log=self._log, run=after, limit=limit)
        ]

    def timers(self, after: Timer | None, limit: int, *, due: bool) -> list[Timer]:
        """Return alarms, beginning behind one of them: by run and strand, or the longest due."""
        run, strand, at = after or Timer("", "", None)
        place = {"run": run, "strand": strand, "limit": limit}
        if due:
            rows = self._fetch_rows(
                "due_alarms", log=self._log, at=_EARLIEST_TIME if at is None else at, **place
            )
        else:
            rows = self._fetch_rows("alarms", log=self._log, **place)
        return [Timer(*row) for row in rows]

    def interrupted_runs(self, after: str, limit: int) -> list[str]:
        """Return the next runs that are listed as interrupted, in the order of their names."""
        rows = self._fetch_rows("interrupted_runs", log=self._log, run=after, limit=limit)
        return [row[0] for row in rows]

    def idempotency_rows(self, after: str, limit: int) -> list[IdempotencyRecord]:
        """Return what was asked for under names, in the order of the names."""
        rows = self._fetch_rows("idempotency_rows", log=self._log, name=after, limit=limit)
        return [IdempotencyRecord(*row) for row in rows]

    def budget_use(self) -> list[BudgetUse]:
        """Return what was used of shared caps in the day and the month that it is now."""
        clock = _Periods(*self._fetch_rows("periods")[0])
        rows = [
            row
            for period in (clock.day, clock.month)
            for row in self._fetch_rows("budget_use", log=self._log, period=period)
        ]
        return [
            BudgetUse(scope, period, until, Spend(*used)) for scope, period, until, *used in rows
        ]

    def count_quarantined(self) -> int:
        """Count the rows that were set aside."""
        return int(self._fetch_one("quarantined", log=self._log))

    def quarantined_rows(self) -> list[QuarantinedRow]:
        """Return the rows that were set aside, oldest first."""
        rows = self._fetch_rows("quarantine", log=self._log)
        return [QuarantinedRow(row[0], EntryRow(*row[1:6]), row[6]) for row in rows]

    def backlog(self) -> int:
        """Return how many entries wait for an index: about, where they are many."""
        oldest = _PendingSample(
            *self._fetch_rows("oldest_pending", log=self._log, limit=_SAMPLE_ROWS)[0]
        )
        if oldest.rows < _SAMPLE_ROWS:
            return oldest.entries
        newest = _PendingSample(
            *self._fetch_rows("newest_pending", log=self._log, limit=_SAMPLE_ROWS)[0]
        )
        return _estimate_pending(oldest, newest)

    def _fetch_pages(self, query: str, name: str, start: int, **place: object) -> Iterator[Any]:
        """Yield what a query finds from a number on, page by page."""
        while page := self._fetch_rows(query, **place, **{name: start}, limit=PAGE_ROWS):
            yield from page
            if page[-1][0] < start:
                return  # a row that lies about its number would be found for ever
            start = page[-1][0] + 1

    def _strand_key(self, run: str, name: str) -> int | None:
        known = self._strand_ids.get((run, name))
        return (
            known
            if known is not None
            else self._fetch_one("strand", log=self._log, run=run, name=name)
        )

    def _cache_strand_keys(self, strands: dict[tuple[str, str], int]) -> None:
        """Remember the keys of strands that were committed; a process may see very many."""
        if len(self._strand_ids) > MAX_CACHED_STRANDS:
            self._strand_ids.clear()
        self._strand_ids.update(strands)

    def _body_key(self, position: Position, name: str) -> dict[str, Any]:
        strand = self._strand_key(position.run, position.strand)
        return {"log": self._log, "strand": strand, "n": position.n, "name": name}

    def _read_body_chunks(self, key: dict[str, Any]) -> Iterator[bytes]:
        part = 0
        while (data := self._fetch_one("body_part", **key, part=part)) is not None:
            yield data
            part += 1


class QueryResult(Protocol):
    """What a statement found or changed."""

    @property
    def rowcount(self) -> int:
        """How many rows."""
        ...

    def fetchall(self) -> list[Any]:
        """Return the rows."""
        ...


class QueryExecutor(Protocol):
    """Runs a named query in a transaction that is under way."""

    def __call__(self, query: str, **parameters: object) -> QueryResult:
        """Run it and return what came of it."""
        ...


class SqlStore(SqlReader):
    """What stands beside a log, kept with the named queries of some database."""

    @abstractmethod
    def _write_transaction(self, doing: str) -> AbstractContextManager[QueryExecutor]:
        """Begin a transaction; it is committed at the end, unless something was raised."""

    def account(self, run: str) -> BudgetAccount | None:
        """Return what a run may spend and has used."""
        return _first_account(self._fetch_rows("account", log=self._log, run=run))

    def take_slice(self, scope: str, per: str, owner: str, need: Spend, cap: Spend) -> BudgetSlice:
        """Take enough of a shared cap that a process can spend so much now, in its own commit."""
        with self._write_transaction("taking a slice") as execute:
            clock = _Periods(*execute("periods").fetchall()[0])
            period, until = clock.find(per)
            place = {"log": self._log, "period": period, "scope": scope}
            for name in ("", owner):
                execute("add_slice", **place, owner=name, until=until)
            execute("lock_budget", **place)
            held = _allocate_slice(_read_slices(execute, place), owner, need, cap)
            if held is None:
                # Nothing is left to give.  What others hold and have not spent is taken back: a
                # process that is gone leaves it behind, and one that lives takes another slice.
                execute("take_back", **place, owner=owner)
                rows = _read_slices(execute, place)
                held = _allocate_slice(rows, owner, need, cap)
                if held is None:
                    raise _cap_reached(scope, per, need, cap, rows, until - clock.now)
            execute("hold_slice", **place, owner=owner, **held._asdict())
        return BudgetSlice(scope, period, owner)

    def return_slice(self, taken: BudgetSlice) -> None:
        """Give back what a process has not spent of a slice; what it has spent stays counted."""
        with self._write_transaction("returning a slice") as execute:
            place = {"log": self._log, "period": taken.period, "scope": taken.scope}
            execute("lock_budget", **place)
            for row in execute("remove_slice", **place, owner=taken.owner).fetchall():
                used = Spend(*row)._asdict()
                execute("charge_slice", **place, owner="", guarded=False, **used)

    def timer(self, run: str, strand: str) -> Timer | None:
        """Return one alarm."""
        rows = self._fetch_rows("alarm", log=self._log, run=run, strand=strand)
        return Timer(*rows[0]) if rows else None

    def count_pending_gates(self, limit: int) -> int:
        """Count the gates that wait for a decision, up to a limit."""
        return int(self._fetch_one("gates_waiting", log=self._log, limit=limit))

    def now(self) -> int:
        """Return the time by the store's own clock, in microseconds since 1970."""
        return int(self._fetch_one("now"))

    def pending_span(self) -> tuple[int, int] | None:
        """Return the first and the last place in the order in which entries wait for an index."""
        first, last = self._fetch_rows("pending_span", log=self._log)[0]
        return None if first is None else (first, last)

    def claim_due_timers(self, claim: TimerClaim) -> list[Timer]:
        """Return timers whose time has come, longest due first, each put off for a while."""
        # Where nothing is due nothing is locked: idle workers look ten times a second.
        pauses = {"shortest": _micros(claim.shortest), "longest": _micros(claim.longest)}
        claimed = self._claim_due_timers(claim, pauses)
        return sorted(claimed, key=lambda alarm: (alarm.at or 0, alarm.run, alarm.strand))

    @abstractmethod
    def _claim_due_timers(self, claim: TimerClaim, pauses: dict[str, int]) -> list[Timer]:
        """Claim timers with these pauses, in any order."""

    def mark_driver(self, run: str, worker: str) -> None:
        """Leave the timer of a run to the worker that drives it, for as long as that one lives."""
        with self._write_transaction("marking a driver") as execute:
            execute("mark_driver", log=self._log, run=run, strand=MAIN_STRAND, worker=worker)

    def reschedule(self, alarms: Sequence[Timer], seconds: float | None) -> None:
        """Let these ring after some seconds, or never, unless they were changed since then."""
        micros = None if seconds is None else _micros(seconds)
        query = "silence" if micros is None else "snooze"
        with self._write_transaction("snoozing") as execute:
            for alarm in sorted(alarms, key=_effect_order):
                execute(query, log=self._log, micros=micros, **alarm._asdict())

    def renew_lease(self, worker: str, seconds: float) -> None:
        """Let others know, for some seconds, that this worker lives."""
        with self._write_transaction("holding a lease") as execute:
            execute("hold_lease", log=self._log, worker=worker, micros=_micros(seconds))

    def release_lease(self, worker: str) -> None:
        """Let others know that this worker is gone."""
        with self._write_transaction("dropping a lease") as execute:
            execute("drop_lease", log=self._log, worker=worker)

    def expired_workers(self) -> list[str]:
        """Return those whose lease has run out, by the store's own clock, and was not dropped."""
        return [row[0] for row in self._fetch_rows("lost_workers", log=self._log)]

    def workers(self) -> list[str]:
        """Return those who have a lease, run out or not."""
        return [row[0] for row in self._fetch_rows("workers", log=self._log)]

    def tag_idempotency(self, row: IdempotencyRecord) -> None:
        """Give a row that ties a name to a run the tag of its writer."""
        with self._write_transaction("tagging") as execute:
            execute("tag_idempotency", log=self._log, name=row.name, tag=row.tag)

    def save_strand_head(self, head: TaggedHead) -> None:
        """Keep the head of one of the log's own strands."""
        with self._write_transaction("keeping a head") as execute:
            execute("set_strand_head", log=self._log, **head._asdict())

    def _apply_effects(self, execute: QueryExecutor, records: Sequence[EntryWrite]) -> None:
        # After the entries: a commit that is made again, because nobody knows what became of it,
        # finds its positions taken before it could charge twice.
        effects = [effect for record in records for effect in record.effects]
        # In one order for all, accounts before alarms, each by run and strand: two transactions
        # that change the same rows cannot deadlock.
        for kind, alike in groupby(sorted(effects, key=_effect_order), type):
            if kind is OpenBudgetAccount:
                self._open_accounts(execute, [e for e in alike if isinstance(e, OpenBudgetAccount)])
            elif kind is Timer:
                self._set_timers(execute, [e for e in alike if isinstance(e, Timer)])
            else:
                for effect in alike:
                    self._apply_effect(execute, effect)

    @abstractmethod
    def _open_accounts(self, execute: QueryExecutor, accounts: Sequence[OpenBudgetAccount]) -> None:
        """Give runs their accounts, where they have none."""

    @abstractmethod
    def _set_timers(self, execute: QueryExecutor, alarms: Sequence[Timer]) -> None:
        """Set these alarms, or put them out, in this order."""

    def _apply_effect(self, execute: QueryExecutor, effect: Effect) -> None:
        if isinstance(effect, BudgetCharge):
            self._charge(execute, effect)
        elif isinstance(effect, IdempotencyRecord):
            self._record_idempotency(execute, effect)
        elif isinstance(effect, BudgetSliceCharge):
            self._charge_slice(execute, effect)
        elif isinstance(effect, TaggedHead):
            execute("set_strand_head", log=self._log, **effect._asdict())
        elif isinstance(effect, InterruptedRun):
            query = "list_interrupted" if effect.listed else "unlist_interrupted"
            execute(query, log=self._log, run=effect.run)

    def _charge(self, execute: QueryExecutor, charge: BudgetCharge) -> None:
        account = {"log": self._log, "run": charge.run}
        amount = charge.amount._asdict()
        for _ in range(_MAX_CHARGE_ATTEMPTS):
            if execute("charge", **account, **amount, guarded=charge.guarded).rowcount == 1:
                return
            # Where the refusal took no lock, others may have given back what was missing.
            _check_within_cap(_first_account(execute("account", **account).fetchall()), charge)
        raise StoreFailed("charging", f"the account of run {charge.run} does not hold still")

    def _charge_slice(self, execute: QueryExecutor, charge: BudgetSliceCharge) -> None:
        parameters = {"log": self._log, **charge.slice._asdict(), **charge.amount._asdict()}
        if execute("charge_slice", **parameters, guarded=charge.guarded).rowcount == 1:
            return
        if charge.guarded:
            raise BudgetSliceExhausted(charge.slice.scope, charge.slice.period)
        # Its process has given the slice back meanwhile: it is counted where that is counted.
        execute("charge_slice", **(parameters | {"owner": ""}), guarded=False)

    def _record_idempotency(self, execute: QueryExecutor, once: IdempotencyRecord) -> None:
        if execute("ask_once", log=self._log, **once._asdict()).rowcount == 1:
            return
        run, digest, tag = execute("asked", log=self._log, name=once.name).fetchall()[0]
        raise IdempotencyKeyUsed(run, digest, tag)


def _effect_order(effect: Effect) -> tuple[int, str, str, bool]:
    """Return where an effect stands among others; charges of one account stay as they came."""
    match effect:
        case OpenBudgetAccount(run, _) | BudgetCharge(run, _, _):
            return 0, run, "", isinstance(effect, BudgetCharge)
        case IdempotencyRecord(name, _, _, _) | TaggedHead(name, _, _, _):
            return 1, name, "", True
        case InterruptedRun(run, _):
            return 1, run, "", True
        case Timer(run, strand, _):
            return 1, run, strand, False
        case BudgetSliceCharge(taken, _, _):
            return 2, taken.scope, taken.period, False


def _read_slices(execute: QueryExecutor, place: dict[str, object]) -> list[_SliceRow]:
    rows = execute("slices", **place).fetchall()
    return [_SliceRow(row[0], Spend(*row[1:4]), Spend(*row[4:])) for row in rows]


def _allocate_slice(rows: list[_SliceRow], owner: str, need: Spend, cap: Spend) -> Spend | None:
    """Return what a process holds when it has taken enough, or nothing where that is too much.

    All slices together never hold more than the cap; an overrun counts as if it were held.
    """
    own = next(row for row in rows if row.owner == owner)
    held = []
    for at, (wanted, most) in enumerate(zip(need, cap, strict=True)):
        mine, least = own.held[at], own.used[at] + wanted
        left = most - sum(max(row.held[at], row.used[at]) for row in rows if row is not own)
        if most == NO_LIMIT:
            held.append(NO_LIMIT)
        elif not wanted or mine >= least:
            held.append(mine)
        elif least <= left:
            held.append(least + (left - least) // _SLICE_DIVISOR)
        else:
            return None
    return Spend(*held)


def _cap_reached(
    scope: str, per: str, need: Spend, cap: Spend, rows: list[_SliceRow], micros: int
) -> CapReached:
    """Name the first limit that would be passed."""
    seconds = max(1, -(-micros // 1_000_000))
    totals = [sum(row.used[at] for row in rows) for at in range(len(need))]
    asked = [part for part in zip(Spend._fields, need, totals, cap, strict=True) if part[1]]
    # What was given back a moment ago may leave room by now: then whatever was asked for is named.
    limit, more, used, most = next((a for a in asked if a[1] + a[2] > a[3]), asked[0])
    return CapReached(scope, per, limit, (more, used, most), seconds)


_WITHOUT_INDEX = itemgetter(slice(1, None))


def _row(columns: Sequence[Any]) -> EntryRow | None:
    """Return a row, or nothing where the join found no entry."""
    run, strand, n, data, tag = columns
    # A strand without its own row belongs to no run: it stands under a name that none has.
    return None if data is None else EntryRow(run or "", strand or "", n, data, tag)


def _first_account(rows: list[Any]) -> BudgetAccount | None:
    return _account(rows[0]) if rows else None


def _account(columns: Sequence[int]) -> BudgetAccount:
    return BudgetAccount(Amount(*columns[:3]), Amount(*columns[3:]))


def _check_within_cap(account: BudgetAccount | None, charge: BudgetCharge) -> None:
    """Name the first limit that a refused charge would pass, or let it try again."""
    if account is None:
        raise BudgetExceeded(charge.run, "calls", charge.amount.calls, 0, 0)
    limits = zip(Amount._fields, charge.amount, account.used, account.cap, strict=True)
    for limit, asked, used, cap in limits:
        # What is given back must not be refused because of an overrun.
        if asked > 0 and used + asked > cap:
            raise BudgetExceeded(charge.run, limit, asked, used, cap)


def _micros(seconds: float) -> int:
    return round(seconds * 1_000_000)
