"""Shared implementation of the SQLite and Postgres stores, on top of named queries.

Each database has numbered migrations, applied once and never edited after their release, and one
file of named queries.  The shared code runs the same query names with the same parameters on both
databases; only the SQL text differs.
"""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache, partial
from importlib.resources import files
from itertools import groupby
from operator import itemgetter
from struct import unpack
from typing import Any, NamedTuple, Protocol

from forum import errors
from forum.ledger import ports
from forum.ledger.body import StoredBody
from forum.ledger.database_memory import DatabaseMemory, Lineage
from forum.ledger.entry import LOG_RUN, MAIN_STRAND
from forum.ledger.row_checks import PositionCheck
from forum.tlog import Hash, TileId, add_signatures, hash_leaf, parse_checkpoint

PAGE_ROWS = 1000
"""The maximum number of rows per query page."""

MAX_CACHED_STRANDS = 100_000
"""The maximum number of strand keys that a store caches in memory."""

_EARLIEST_TIME = -(2**62)
"""A time before the due time of every timer."""

MAX_SMALL_BODY_BYTES = 8192
"""The largest body, in bytes, that a batch query returns inline."""

_SAMPLE_ROWS = 1000
"""The number of pending rows counted at each end of the queue; the rest is extrapolated."""

_SLICE_DIVISOR = 8
"""A process takes what it needs of a shared cap, plus the remainder divided by this number."""

_MAX_CHARGE_ATTEMPTS = 5
"""The number of attempts of a guarded charge while concurrent refunds change the account."""

_CLEAN_UP_QUERIES = (
    *("remove_accounts", "remove_idempotency", "remove_interrupted", "remove_timers"),
    "remove_ended",
)


_OVERRUNS = "overrun"
"""The period under which overruns are counted: one row for each cap, whatever its period."""
_RUN_PERIOD = "run"
"""The period of what counts as long as a run lasts, which the scope names."""

BASE_SCHEMA_VERSION = 3
"""The schema of release 0.1.0.  Later additive migrations are recorded in a separate table."""


class Migration(NamedTuple):
    """A numbered SQL script that brings a schema one version forward."""

    number: int
    sql: str
    is_additive: bool
    """Whether processes of the previous release keep working after this migration."""


def load_queries(
    database: str, name: str = "queries", package: str = "forum.stores"
) -> dict[str, str]:
    """Return the SQL text of each query of a database, keyed by query name."""
    text = (files(package) / "sql" / database / f"{name}.sql").read_text()
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)[1:]
    return {name: sql.strip() for name, sql in zip(parts[::2], parts[1::2], strict=True)}


def load_migrations(database: str) -> list[Migration]:
    """Return all migrations of a database in numerical order."""
    folder = files("forum.stores") / "sql" / database
    names = sorted(f.name for f in folder.iterdir() if f.name[:4].isdecimal())
    return [Migration(int(n[:4]), (folder / n).read_text(), "_post_" not in n) for n in names]


def missing_migrations(
    database: str, version: int, applied: Collection[int] = (), *, post: bool = False
) -> list[Migration]:
    """Return the migrations after a version that were not applied.

    With `post`, include those with which processes of the previous release cannot work.  Raises
    `SchemaTooNew` if the version is newer than this release knows.
    """
    migrations = load_migrations(database)
    if version > migrations[-1].number:
        raise errors.SchemaTooNew(version, migrations[-1].number)
    behind = (m for m in migrations if m.number > version and m.number not in applied)
    return [migration for migration in behind if migration.is_additive or post]


def check_not_forked(process: int) -> None:
    """Raise `StoreFailed` in a child of the process that opened a snapshot."""
    if process != os.getpid():
        raise errors.StoreFailed(
            "reading", "this snapshot was opened before a fork; open a new one"
        )


def leaf_prefixes(leaves: Sequence[bytes]) -> tuple[int, ...]:
    """Return the lookup keys of leaves: the first eight bytes of each as a signed integer."""
    return unpack(f">{len(leaves)}q", b"".join([leaf[:8] for leaf in leaves]))


class _PendingSample(NamedTuple):
    """A sample of consecutive pending rows: counts of rows and entries, first and last number."""

    rows: int
    entries: int
    first: int
    last: int


def _estimate_pending(oldest: _PendingSample, newest: _PendingSample) -> int:
    """Estimate the number of pending entries from samples of the oldest and newest rows.

    All logs of a database draw their sequence numbers from one counter, so the distance between
    two numbers says little about one log; the samples give this log's share of them.  The
    committer asks up to four times a second, and an exact count would become slower the further
    the sequencer falls behind.
    """
    sampled = oldest.entries + newest.entries
    span = oldest.last - oldest.first + newest.last - newest.first + 2
    return max(oldest.entries, sampled * (newest.last - oldest.first + 1) // span)


class _Periods(NamedTuple):
    """The current minute, day and month in UTC, and their ends, by the clock of the database."""

    day: str
    month: str
    day_until: int
    month_until: int
    now: int
    minute: str
    minute_until: int

    def find(self, per: str) -> tuple[str, int]:
        """Return the name of the current period, and the time at which it ends."""
        match per:
            case "minute":
                return self.minute, self.minute_until
            case "day":
                return self.day, self.day_until
            case "month":
                return self.month, self.month_until
            case _:
                return _RUN_PERIOD, ports.NO_LIMIT


class _SliceRow(NamedTuple):
    """A budget slice as stored: its owner, the amount it holds and the amount used of it."""

    owner: str
    held: ports.Spend
    used: ports.Spend


class _StrandRow(NamedTuple):
    """A strand of a run: its database key, its name and its number of entries."""

    key: int
    name: str
    length: int


def _group_into_pages(strands: Sequence[_StrandRow]) -> Iterator[list[_StrandRow]]:
    """Yield groups of strands with at most a page of entries; a longer strand forms its own."""
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


class _ArchivedRows:
    """The rows of archived runs, during one call of a reader: each run is looked up once."""

    def __init__(self, archive: ports.RunArchive | None) -> None:
        self._archive = archive
        self._runs: dict[str, ports.ArchivedRun | None] = {}

    def restore(self, row: ports.EntryRow) -> ports.EntryRow:
        """Return a row with its bytes, from the archive if the database has none.

        Raises `ArchiveUnreachable`, and `TamperDetected` if no archive has them.
        """
        if row.data:
            return row
        data = self.find(row.run).entry(row.strand, row.n)
        if data is None:
            raise _emptied(str(row.position))
        # With a tag that no writer made: only the signed tree can vouch for the bytes.
        return row._replace(data=data, tag=b"")

    def find(self, run: str) -> ports.ArchivedRun:
        """Return an archived run.  Raises as `restore` does."""
        if self._archive is None:
            raise errors.ArchiveUnreachable(f"of run {run}", "this process does not read archives")
        if run not in self._runs:
            self._runs[run] = self._archive.find(run)
        archived = self._runs[run]
        if archived is None:
            raise _emptied(run)
        return archived


@lru_cache(maxsize=64)
def _find_noted_size(note: bytes) -> int | None:
    """Return the size of the tree that a note is about, or None for anything but a checkpoint."""
    try:
        return parse_checkpoint(note).size
    except errors.Malformed:
        return None


def _emptied(place: str) -> errors.TamperDetected:
    return errors.TamperDetected(
        f"entry {place}", "its bytes were removed, and no archive has them"
    )


class SqlReader(ABC):
    """A reader of one log that runs the named queries of a database."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._log = 0
        self.lineage = Lineage()
        self._strand_ids: DatabaseMemory[dict[tuple[str, str], int]] = DatabaseMemory(
            self.lineage, dict
        )
        self.check: ports.RowCheck = PositionCheck(origin)
        self.archive: ports.RunArchive | None = None

    @abstractmethod
    def _fetch(self, query: str, parameters: dict[str, object]) -> list[Any]:
        """Run a query and return all of its rows."""

    def _fetch_rows(self, query: str, **parameters: object) -> list[Any]:
        """Run a query with the id of this log as the parameter `log`, and return all rows."""
        return self._fetch(query, {"log": self._log, **parameters})

    def _fetch_column(self, query: str, **parameters: object) -> list[Any]:
        """Return the first column of all rows."""
        return [row[0] for row in self._fetch_rows(query, **parameters)]

    def _fetch_one(self, query: str, **parameters: object) -> Any:  # noqa: ANN401  a column may have any type
        """Return the first column of the first row, or None."""
        return next(iter(self._fetch_column(query, **parameters)), None)

    @property
    def origin(self) -> str:
        """The log's name."""
        return self._origin

    def head(self) -> ports.TreeHead:
        """Return the size and the root of the tree that the sequencer committed last."""
        size, root = self._fetch_rows("head")[0]
        if type(size) is not int:  # SQLite accepts any type in any column
            raise errors.Malformed("the head of the log", "its size is not a number")
        return ports.TreeHead(size, Hash(root))

    def read_tile(self, tile: TileId, width: int) -> bytes:
        """Return the first `width` hashes of a tile."""
        hashes: bytes | None = self._fetch_one(
            "tile", level=tile.level, idx=tile.index, length=32 * width
        )
        return hashes or b""

    def entries(self, start: int, stop: int) -> Iterator[bytes | None]:
        """Yield the checked entry at each index from `start` to `stop`; None if it is missing."""
        archived = _ArchivedRows(self.archive)
        for row in self._stored_rows(start, stop):
            if row is None:
                yield None
                continue
            whole = archived.restore(row)
            self.check.check_row(whole)
            yield whole.data

    def rows(self, start: int, stop: int) -> Iterator[ports.EntryRow | None]:
        """Yield the unchecked row at each index from `start` to `stop`; None if it is missing.

        A row without bytes is in an archive that cannot be reached.
        """
        archived = _ArchivedRows(self.archive)
        for row in self._stored_rows(start, stop):
            if row is None or row.data:
                yield row
                continue
            try:
                yield archived.restore(row)
            except errors.ArchiveUnreachable:
                yield row
            except errors.TamperDetected:
                yield None

    def _stored_rows(self, start: int, stop: int) -> Iterator[ports.EntryRow | None]:
        """Yield the row at each index; those of archived runs have no bytes."""
        for low in range(start, stop, PAGE_ROWS):
            high = min(low + PAGE_ROWS, stop)
            page = self._fetch_rows("entries", start=low, stop=high)
            # Verification reads millions of rows.  A page without gaps, the usual case, needs no
            # lookup for each index.
            if len(page) == high - low and all(row[4] and row[1] for row in page):
                yield from map(ports.EntryRow._make, map(_WITHOUT_INDEX, page))
            else:
                by_index = {row[0]: _row(row[1:]) for row in page}
                yield from (by_index.get(index) for index in range(low, high))

    def find_by_prefix(self, prefix: bytes) -> list[int]:
        """Return the indexes of the leaves whose first eight bytes begin with this prefix."""
        # All leaves with one prefix share the sign bit, so the signed keys keep their order and
        # one range query finds them.
        low, high = leaf_prefixes([prefix[:8].ljust(8, end) for end in (b"\0", b"\xff")])
        return self._fetch_column("find", low=low, high=high)

    def indexes(self, leaves: Sequence[bytes]) -> list[int | None]:
        """Return the index of each leaf, or None for a leaf that has no index yet."""
        by_prefix: dict[int, list[int]] = {}
        prefixes = leaf_prefixes(leaves)
        for low in range(0, len(leaves), PAGE_ROWS):
            page = self._list(list(prefixes[low : low + PAGE_ROWS]))
            for prefix, index in self._fetch_rows("indexes", prefixes=page):
                by_prefix.setdefault(prefix, []).append(index)
        places = map(by_prefix.get, prefixes)
        return [
            None if found is None else self._match_leaf(leaf, found)
            for leaf, found in zip(leaves, places, strict=True)
        ]

    def find_misplaced(self, start: int, leaves: Sequence[bytes]) -> list[int]:
        """Return those indexes, from `start` on, whose leaf the id lookup does not find there."""
        indexes = self.indexes(leaves)
        return [index for index, other in enumerate(indexes, start) if index != other]

    def _match_leaf(self, leaf: bytes, indexes: list[int]) -> int | None:
        """Return the index of a leaf among the indexes that share its eight-byte prefix.

        A single candidate is returned without reading its entry; several are told apart by hashing.
        """
        if len(indexes) < 2:
            return indexes[0]
        same = (i for i in indexes if hash_leaf(next(self.entries(i, i + 1)) or b"") == leaf)
        return next(same, None)

    @abstractmethod
    def _list(self, values: list[int] | list[str]) -> object:
        """Return a list of integers or strings in the form that a query parameter needs."""

    def read_strand(self, run: str, strand: str, start: int = 0) -> Iterator[bytes]:
        """Yield the checked entries of a strand from position `start`, sequenced or not.

        A strand of control entries ends before the first one that nobody can tell yet to be
        genuine: it counts when it is signed.  Raises `TamperDetected` at a gap in the positions,
        and `NotYetSigned` for such an entry in another strand.
        """
        for row in self.strand_rows(run, strand, start):
            self.check.check_row(row)
            if strand != MAIN_STRAND and not self.check.is_settled(row):
                return
            self._check_settled(row)
            if row.n != start:
                why = "it is not there, and later ones are"
                if run == LOG_RUN:
                    why += ". Restore a backup, or try a new epoch: forum ledger epoch"
                raise errors.TamperDetected(f"entry {run}/{strand}/{start}", why)
            start += 1
            yield row.data

    def _check_settled(self, row: ports.EntryRow) -> None:
        if not self.check.is_settled(row):
            raise errors.NotYetSigned(str(row.position))

    def strand_rows(self, run: str, strand: str, start: int = 0) -> Iterator[ports.EntryRow]:
        """Yield the rows of a strand from position `start`, without checking them."""
        key = self._strand_key(run, strand)
        if key is not None:
            archived = _ArchivedRows(self.archive)
            for columns in self._fetch_pages("strand_entries", "n", start, strand=key):
                yield archived.restore(ports.EntryRow(run, strand, *columns))

    def last_entry(self, run: str, strand: str) -> bytes | None:
        """Return the last entry of a strand, or None if the strand has no entries."""
        key = self._strand_key(run, strand)
        for columns in [] if key is None else self._fetch_rows("last", strand=key):
            row = _ArchivedRows(self.archive).restore(ports.EntryRow(run, strand, *columns))
            self.check.check_row(row)
            self._check_settled(row)
            return row.data
        return None

    def last_entries(self, places: Sequence[tuple[str, str]]) -> list[bytes | None]:
        """Return the last entry of each (run, strand), in one query; None for an empty strand."""
        ends: list[bytes | None] = []
        archived = _ArchivedRows(self.archive)
        for (run, strand), columns in zip(places, self._last_entries(places), strict=True):
            if columns[0] is None:
                ends.append(None)
                continue
            row = archived.restore(ports.EntryRow(run, strand, *columns))
            self.check.check_row(row)
            self._check_settled(row)
            ends.append(row.data)
        return ends

    @abstractmethod
    def _last_entries(self, places: Sequence[tuple[str, str]]) -> list[Any]:
        """Return position, bytes and tag of the last entry of each (run, strand), or nulls."""

    def strands(self, run: str) -> list[str]:
        """Return the names of a run's strands."""
        return self._fetch_column("strands", run=run)

    def strand_lengths(self, run: str) -> dict[str, int]:
        """Return the number of entries of each strand of a run, keyed by strand name."""
        return {strand.name: strand.length for strand in self._strands_of(run)}

    def entries_of_run(self, run: str) -> Iterator[tuple[ports.Position, bytes]]:
        """Yield all entries of a run with their positions, strand by strand, sequenced or not.

        Raises `TamperDetected` if an entry of a strand is missing.
        """
        cached = self._strand_ids.value
        first = self._fetch_rows("first_entries", run=run, limit=PAGE_ROWS)
        if len(first) < PAGE_ROWS:
            self._cache_strand_keys({(run, row[1]): row[0] for row in first}, cached)
            yield from self._check_whole_run(run, first)
            return
        for strands in _group_into_pages(self._strands_of(run)):
            if len(strands) == 1:
                name = strands[0].name
                for n, data in enumerate(self.read_strand(run, name)):
                    yield ports.Position(run, name, n), data
            else:
                for row in self._rows_of_strands(run, strands):
                    self.check.check_row(row)
                    yield row.position, row.data

    def _check_whole_run(
        self, run: str, rows: Sequence[Any]
    ) -> Iterator[tuple[ports.Position, bytes]]:
        """Yield all entries of a run from their rows, ordered by strand and position."""
        expected, archived = ("", 0), _ArchivedRows(self.archive)
        for _, strand, *columns in rows:
            row = archived.restore(ports.EntryRow(run, strand, *columns))
            self.check.check_row(row)
            if row.n != (expected[1] if strand == expected[0] else 0):
                raise errors.TamperDetected(
                    f"strand {run}/{strand}", "some of its entries are not there"
                )
            expected = (strand, row.n + 1)
            yield row.position, row.data

    def _rows_of_strands(self, run: str, strands: Sequence[_StrandRow]) -> Iterator[ports.EntryRow]:
        keys = self._list([strand.key for strand in strands])
        rows: dict[int, list[ports.EntryRow]] = {strand.key: [] for strand in strands}
        names = {strand.key: strand.name for strand in strands}
        archived = _ArchivedRows(self.archive)
        bounds = {"low": min(rows), "high": max(rows)}
        for key, *values in self._fetch_rows("entries_of_strands", strands=keys, **bounds):
            rows[key].append(ports.EntryRow(run, names[key], *values))
        for strand in strands:
            # The length is the highest position plus one: fewer rows mean a gap.
            if len(rows[strand.key]) < strand.length:
                raise errors.TamperDetected(
                    f"strand {run}/{strand.name}", "some of its entries are not there"
                )
            yield from map(archived.restore, rows[strand.key])

    def entries_at(self, run: str, places: Sequence[tuple[str, int]]) -> list[bytes | None]:
        """Return the checked entry at each (strand, position) of a run; None if it is missing."""
        keyed = [(self._strand_key(run, strand), n) for strand, n in places]
        rows: list[Any] = []
        for low in range(0, len(keyed), PAGE_ROWS):
            rows += self._entries_at(keyed[low : low + PAGE_ROWS])
        entries: list[bytes | None] = []
        archived = _ArchivedRows(self.archive)
        for (strand, n), (data, tag) in zip(places, rows, strict=True):
            if data is None:
                entries.append(None)
                continue
            row = ports.EntryRow(run=run, strand=strand, n=n, data=data, tag=tag)
            whole = archived.restore(row)
            self.check.check_row(whole)
            self._check_settled(whole)
            entries.append(whole.data)
        return entries

    @abstractmethod
    def _entries_at(self, places: list[tuple[int | None, int]]) -> list[Any]:
        """Return bytes and tag for each (strand key, position), in the order of the request."""

    def bodies_of_run(self, run: str) -> Iterator[tuple[ports.Position, str, StoredBody]]:
        """Yield the bodies of a run, each with the position of its entry and its name."""
        emptied: set[str] = set()
        for strands in _group_into_pages(self._strands_of(run)):
            are_emptied = self._are_emptied([(s.key, s.length - 1) for s in strands])
            emptied.update(s.name for s, gone in zip(strands, are_emptied, strict=True) if gone)
            names = {strand.key: strand.name for strand in strands}
            keys = self._list(list(names))
            # One query returns all small bodies of the page.  A large body is read part by part,
            # and only when its reader asks for it.
            for key, n, name, salt, data in self._fetch_rows(
                "bodies_of_strands", strands=keys, size=MAX_SMALL_BODY_BYTES
            ):
                place = {"strand": key, "n": n, "name": name}
                read = (
                    partial(self._read_body_chunks, place)
                    if data is None
                    else partial(iter, [data])
                )
                yield ports.Position(run, names[key], n), name, StoredBody(salt, read)
        # A strand is emptied in one transaction, so its last entry decides.
        for position, name, body in self._find_archived(run).bodies() if emptied else ():
            if position.strand in emptied:
                yield position, name, body

    def _find_archived(self, run: str) -> ports.ArchivedRun:
        return _ArchivedRows(self.archive).find(run)

    def _are_emptied(self, places: list[tuple[int | None, int]]) -> list[bool]:
        """Return for each position whether its entry was moved to an archive."""
        return [data == b"" for data, _ in self._entries_at(places)] if places else []

    def _strands_of(self, run: str) -> list[_StrandRow]:
        cached = self._strand_ids.value
        strands = [_StrandRow(*row) for row in self._fetch_rows("strand_lengths", run=run)]
        self._cache_strand_keys({(run, strand.name): strand.key for strand in strands}, cached)
        return strands

    def runs(self, after: str, limit: int) -> list[str]:
        """Return up to `limit` runs after `after`, in the order of their names."""
        return self._fetch_column("runs", run=after, limit=limit)

    def runs_before(self, before: str | None, limit: int) -> list[str]:
        """Return up to `limit` runs, the newest first, begun before `before` or up to now.

        The order is that of their creation in this database, not that of their ids.
        """
        query = "last_runs" if before is None else "runs_before"
        return self._fetch_column(query, run=before, limit=limit)

    def summaries(self, runs: Sequence[str]) -> dict[str, ports.RunSummaryRow]:
        """Return the summaries of these runs, unchecked; a run without one is left out."""
        rows = self._fetch_rows("summaries", runs=self._list(list(runs)))
        return {row[0]: ports.RunSummaryRow(*row) for row in rows}

    def summary_runs(self, after: str, limit: int) -> list[str]:
        """Return up to `limit` runs after `after` that have a summary, in name order."""
        return self._fetch_column("summary_runs", run=after, limit=limit)

    def bodies_at(self, places: Sequence[tuple[ports.Position, str]]) -> list[StoredBody | None]:
        """Return the body of each name at each position; None where it is not stored."""
        bodies: list[StoredBody | None] = []
        for low in range(0, len(places), PAGE_ROWS):
            page = places[low : low + PAGE_ROWS]
            found: list[StoredBody | None] = []
            rows = self._bodies_at([(*position, name) for position, name in page])
            for (position, name), (strand, salt, data) in zip(page, rows, strict=True):
                place = {"strand": strand, "n": position.n, "name": name}
                read = (
                    partial(self._read_body_chunks, place)
                    if data is None
                    else partial(iter, [data])
                )
                found.append(None if salt is None else StoredBody(salt, read))
            bodies += self._add_archived(page, found)
        return bodies

    def _add_archived(
        self, places: Sequence[tuple[ports.Position, str]], bodies: list[StoredBody | None]
    ) -> list[StoredBody | None]:
        """Return the bodies with those that are in an archive in place of None."""
        archived = _ArchivedRows(self.archive)
        missing = [at for at, body in enumerate(bodies) if body is None]
        keys = [(self._strand_key(*places[at][0][:2]), places[at][0].n) for at in missing]
        for at, is_emptied in zip(missing, self._are_emptied(keys), strict=True):
            if is_emptied:
                (run, strand, n), name = places[at]
                bodies[at] = archived.find(run).body(strand, n, name)
        return bodies

    @abstractmethod
    def _bodies_at(self, places: list[tuple[str, str, int, str]]) -> list[Any]:
        """Return strand key, salt, and data of a small body, for each (run, strand, n, name)."""

    def body(self, position: ports.Position, name: str) -> StoredBody | None:
        """Return a body of an entry, or None if it is not stored."""
        return self.bodies_at([(position, name)])[0]

    def checkpoints(self, start: int = 0) -> Iterator[bytes]:
        """Yield the signed notes of trees of at least this size, smallest first."""
        yield from (note for _, note in self.checkpoint_rows(start))

    def checkpoint_rows(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the signed notes like `checkpoints`, each with the tree size it is stored under."""
        yield from self._fetch_pages("checkpoints", "size", start)

    def checkpoint(self, most: int | None = None) -> bytes | None:
        """Return the signed note of the largest tree of at most `most` leaves, or None.

        A row of a size that the tree does not have, and one whose note is not that of its size, are
        passed over: the verifier reports them, and one such row must not stop the log.
        """
        size = 2**62 if most is None else most
        while rows := self._fetch_rows("checkpoint", size=size):
            note, stored = rows[0]
            if _find_noted_size(note) == stored:
                return bytes(note)
            size = stored - 1
        return None

    def unsequenced_entries(self) -> Iterator[bytes | None]:
        """Yield the entries that have no index yet, unchecked; None for a missing entry."""
        yield from (row.data if row else None for row in self.unsequenced_rows())

    def unsequenced_rows(self) -> Iterator[ports.EntryRow | None]:
        """Yield the rows that have no index yet, unchecked; None for a missing entry."""
        yield from (_row(row) for row in self._fetch_rows("unsequenced"))

    def count_entries(self) -> int:
        """Count the stored entries, whether or not they are sequenced or pending."""
        return int(self._fetch_one("stored"))

    def strand_head(self, strand: str) -> ports.TaggedHead | None:
        """Return the stored head of one of the log's own strands, unchecked, or None."""
        rows = self._fetch_rows("strand_head", strand=strand)
        return ports.TaggedHead(strand, rows[0][0], Hash(rows[0][1]), rows[0][2]) if rows else None

    def count_rows(self) -> ports.TableCounts:
        """Count the rows of this log in every table, including rows that the log does not use."""
        return ports.TableCounts(*self._fetch_rows("count_rows")[0])

    def accounts(self, runs: Sequence[str]) -> dict[str, ports.BudgetAccount]:
        """Return the budget accounts of these runs; a run without an account is left out."""
        rows = self._fetch_rows("accounts", runs=self._list(list(runs)))
        return {row[0]: _account(row[1:]) for row in rows}

    def account_runs(self, after: str, limit: int) -> list[str]:
        """Return up to `limit` runs after `after` that have an account, in name order."""
        return self._fetch_column("account_runs", run=after, limit=limit)

    def timers(self, after: ports.Timer | None, limit: int, *, due: bool) -> list[ports.Timer]:
        """Return up to `limit` timers after `after`, ordered by run and strand.

        With `due`, return only due timers, the longest due first.
        """
        run, strand, at = after or ports.Timer("", "", None)
        place: dict[str, object] = {"run": run, "strand": strand, "limit": limit}
        if due:
            place["at"] = _EARLIEST_TIME if at is None else at
        rows = self._fetch_rows("due_alarms" if due else "alarms", **place)
        return [ports.Timer(*row) for row in rows]

    def interrupted_runs(self, after: str, limit: int) -> list[str]:
        """Return up to `limit` interrupted runs after `after`, in the order of their names."""
        return self._fetch_column("interrupted_runs", run=after, limit=limit)

    def idempotency_rows(self, after: str, limit: int) -> list[ports.IdempotencyRecord]:
        """Return up to `limit` idempotency records after the key `after`, in key order."""
        rows = self._fetch_rows("idempotency_rows", name=after, limit=limit)
        return [ports.IdempotencyRecord(*row) for row in rows]

    def budget_use(self) -> list[ports.BudgetUse]:
        """Return the use of each shared cap in the current minute, day and month."""
        clock = _Periods(*self._fetch_rows("periods")[0])
        return [
            ports.BudgetUse(scope, name, until, ports.Spend(*used))
            for period in (clock.minute, clock.day, clock.month)
            for scope, name, until, *used in self._fetch_rows("budget_use", period=period)
        ]

    def run_budget_use(self, runs: Container[str]) -> list[ports.BudgetUse]:
        """Return what was added up for these runs, each of which counts by itself."""
        rows = self._fetch_rows("budget_use", period=_RUN_PERIOD)
        uses = (
            ports.BudgetUse(scope, name, until, ports.Spend(*used))
            for scope, name, until, *used in rows
        )
        # The sums of a run are named by it.
        return [use for use in uses if use.scope.rpartition("/")[2] in runs]

    @abstractmethod
    def check_catalogue(self) -> ports.CatalogueCheck:
        """Compare the catalogue of the database with the migrations of this release."""

    def count_quarantined(self) -> int:
        """Count the rows in the quarantine."""
        return int(self._fetch_one("quarantined"))

    def quarantined_rows(self) -> list[ports.QuarantinedRow]:
        """Return the rows in the quarantine, oldest first."""
        rows = self._fetch_rows("quarantine")
        return [ports.QuarantinedRow(row[0], ports.EntryRow(*row[1:6]), row[6]) for row in rows]

    def backlog(self) -> int:
        """Return the number of entries without an index; an estimate if there are many."""
        oldest = _PendingSample(*self._fetch_rows("oldest_pending", limit=_SAMPLE_ROWS)[0])
        if oldest.rows < _SAMPLE_ROWS:
            return oldest.entries
        newest = _PendingSample(*self._fetch_rows("newest_pending", limit=_SAMPLE_ROWS)[0])
        if newest.rows < _SAMPLE_ROWS:
            return newest.entries  # a sequencer has taken the others since the first query
        return _estimate_pending(oldest, newest)

    def _fetch_pages(self, query: str, name: str, start: int, **place: object) -> Iterator[Any]:
        """Yield the rows of a query from the number `start` on, fetched page by page."""
        while page := self._fetch_rows(query, **place, **{name: start}, limit=PAGE_ROWS):
            yield from page
            # A tampered row whose number is too small would make this loop endless.
            if len(page) < PAGE_ROWS or page[-1][0] < start:
                return
            start = page[-1][0] + 1

    def _strand_key(self, run: str, name: str) -> int | None:
        key = self._strand_ids.value.get((run, name))
        return self._fetch_one("strand", run=run, name=name) if key is None else key

    def _cache_strand_keys(
        self, strands: dict[tuple[str, str], int], cached: dict[tuple[str, str], int]
    ) -> None:
        """Cache the keys of committed strands, and clear the cache when it grows too large.

        The cache was taken before the keys were read: if the database has changed since, it is
        one that nobody uses any more.
        """
        if len(cached) > MAX_CACHED_STRANDS:
            cached.clear()
        cached.update(strands)

    def _body_key(self, position: ports.Position, name: str) -> dict[str, Any]:
        strand = self._strand_key(position.run, position.strand)
        return {"strand": strand, "n": position.n, "name": name}

    def _read_body_chunks(self, key: dict[str, Any]) -> Iterator[bytes]:
        part = 0
        while (data := self._fetch_one("body_part", **key, part=part)) is not None:
            yield data
            part += 1


class QueryResult(Protocol):
    """The result of a statement: a database cursor."""

    @property
    def rowcount(self) -> int:
        """The number of rows found or changed."""

    def fetchall(self) -> list[Any]:
        """Return all rows of the result."""


class QueryExecutor(Protocol):
    """A function that runs a named query in an open transaction."""

    def __call__(self, query: str, **parameters: object) -> QueryResult:
        """Run the query and return its result."""


class SqlStore(SqlReader):
    """The writable state beside a log: accounts, budget slices, timers, leases, idempotency keys.

    Effects of entries are applied in the transaction that commits the entries.
    """

    def require_history(self, head: ports.TreeHead) -> None:
        """Write nothing unless the tree continues this one, which was seen before."""

    def check_history(self) -> None:
        """Raise `CommitsLost` if the database lacks commits that were seen before."""

    @abstractmethod
    def _write_transaction(self, doing: str) -> AbstractContextManager[QueryExecutor]:
        """Open a transaction: commit at the end of the block, roll back if the block raises."""

    def _check_not_moving(self, execute: QueryExecutor) -> None:
        """Raise `LogPaused` while the log is copied to another database."""

    def _change(self, doing: str, query: str, **parameters: object) -> None:
        """Run one statement in a transaction of its own."""
        with self._write_transaction(doing) as execute:
            execute(query, **parameters)

    def account(self, run: str) -> ports.BudgetAccount | None:
        """Return the budget account of a run, or None."""
        return _first_account(self._fetch_rows("account", run=run))

    def take_slice(
        self, scope: str, per: str, owner: str, need: ports.Spend, cap: ports.Spend
    ) -> ports.BudgetSlice:
        """Allocate at least `need` of a shared cap to a process, and commit the allocation.

        Raises `CapReached` if the cap has too little left, even after the unused part of all
        other slices has been reclaimed.
        """
        with self._write_transaction("taking a slice") as execute:
            clock = _Periods(*execute("periods").fetchall()[0])
            period, until = clock.find(per)
            place = {"period": period, "scope": scope}
            if per == "minute":  # unlike days and months, they are too many to keep
                execute("drop_past_slices", **place)
            for name in ("", owner):
                execute("add_slice", **place, owner=name, until=until)
            # From here on, slices of this scope and period are allocated one at a time: two
            # processes cannot both be given the same remainder of the cap.
            execute("lock_budget", **place)
            held = _allocate_slice(_read_slices(execute, place), owner, need, cap)
            if held is None:
                # The cap is fully allocated.  Reclaim the unused part of all other slices: a
                # crashed process cannot return its own, and a live one takes another slice.
                execute("take_back", **place, owner=owner)
                rows = _read_slices(execute, place)
                held = _allocate_slice(rows, owner, need, cap)
                if held is None:
                    raise _cap_reached(scope, per, need, cap, rows, until - clock.now)
            execute("hold_slice", **place, owner=owner, **held._asdict())
        return ports.BudgetSlice(scope, period, owner)

    def return_slice(self, budget_slice: ports.BudgetSlice) -> None:
        """Return the unused part of a slice; the used part stays counted against the cap."""
        with self._write_transaction("returning a slice") as execute:
            place = {"period": budget_slice.period, "scope": budget_slice.scope}
            execute("lock_budget", **place)
            for row in execute("remove_slice", **place, owner=budget_slice.owner).fetchall():
                # The row with the empty owner counts the use of slices that were returned.
                used = ports.Spend(*row)._asdict()
                execute("charge_slice", **place, owner="", guarded=False, **used)

    def restore_budget_use(self, uses: Sequence[ports.BudgetUse]) -> None:
        """Count what was used of shared caps in the earlier epoch of the log."""
        with self._write_transaction("restoring the use of caps") as execute:
            for use in uses:
                place = {"period": use.period, "scope": use.scope, "owner": ""}
                execute("add_slice", **place, until=use.until)
                execute("charge_slice", **place, guarded=False, **use.used._asdict())

    def report_overrun(self, slices: Sequence[ports.BudgetSlice]) -> None:
        """Take back what other processes hold of these caps, and tell them of an overrun."""
        for scope, period, owner in sorted(slices):
            # Not in the commit of a charge: that holds the row of a slice, for which a process may
            # wait that has locked the cap.
            with self._write_transaction("reporting an overrun") as execute:
                execute("lock_budget", period=period, scope=scope)
                execute("take_back", period=period, scope=scope, owner=owner)
                told = {"period": _OVERRUNS, "scope": scope, "owner": ""}
                execute("add_slice", **told, until=ports.NO_LIMIT)
                count = ports.Spend(runs=1)._asdict()
                execute("charge_slice", **told, **count, guarded=False)

    def overruns(self) -> dict[str, int]:
        """Return how often calls under shared caps were billed above their bound, by scope."""
        return dict(self._fetch_rows("overruns"))

    def timer(self, run: str, strand: str) -> ports.Timer | None:
        """Return the timer of a strand, or None if none is set."""
        rows = self._fetch_rows("alarm", run=run, strand=strand)
        return ports.Timer(*rows[0]) if rows else None

    def count_open_runs(self, limit: int) -> int:
        """Count the runs that were accepted and have not ended, but at most `limit`."""
        return int(self._fetch_one("open_runs", strand=MAIN_STRAND, limit=limit))

    def count_pending_gates(self, limit: int) -> int:
        """Count the gates that wait for a decision, but at most `limit`."""
        return int(self._fetch_one("gates_waiting", limit=limit))

    def now(self) -> int:
        """Return the time by the store's own clock, in microseconds since 1970."""
        return int(self._fetch_one("now"))

    def pending_span(self) -> tuple[int, int] | None:
        """Return the sequence numbers of the oldest and the newest pending entry, or None."""
        first, last = self._fetch_rows("pending_span")[0]
        return None if first is None else (first, last)

    def claim_due_timers(self, claim: ports.TimerClaim) -> list[ports.Timer]:
        """Claim due timers: postpone each, so that no other worker gets it, and return them.

        The longest due timer comes first.
        """
        # If no timer is due, nothing is locked: idle workers poll up to ten times a second.
        pauses = {"shortest": _micros(claim.shortest), "longest": _micros(claim.longest)}
        claimed = self._claim_due_timers(claim, pauses)
        return sorted(claimed, key=lambda alarm: (alarm.at or 0, alarm.run, alarm.strand))

    @abstractmethod
    def _claim_due_timers(
        self, claim: ports.TimerClaim, pauses: dict[str, int]
    ) -> list[ports.Timer]:
        """Claim due timers, postpone each within these pauses (in microseconds), in any order."""

    def claim_runs(self, claim: ports.RunClaim) -> list[ports.Timer]:
        """Claim due runs for a worker; return their timers and those of its own due runs.

        The longest due timer comes first.
        """
        pauses = {"shortest": _micros(claim.shortest), "longest": _micros(claim.longest)}
        claimed = self._claim_runs(claim, pauses)
        return sorted(claimed, key=lambda alarm: (alarm.at or 0, alarm.run, alarm.strand))

    @abstractmethod
    def _claim_runs(self, claim: ports.RunClaim, pauses: dict[str, int]) -> list[ports.Timer]:
        """Claim due runs, postpone their timers by these pauses (in microseconds), in any order."""

    def release_runs(self, worker: str, runs: Sequence[str]) -> None:
        """Give up the claims of a worker to these runs; claims of other workers stay."""
        self._change("releasing runs", "release_runs", worker=worker, runs=self._list(sorted(runs)))

    def take_over(self, worker: str, early_s: float = 0.0) -> int:
        """Release the runs of a worker that is lost, make them due, and count them."""
        # As with `due_now`: due by every clock, and in turn with runs that were accepted.
        at = ports.due_now("", MAIN_STRAND, self.now()).at
        with self._write_transaction("taking over") as execute:
            # The row lock of the lease makes a worker that returns just now wait: it then renews a
            # lease without claims, and its drivers are refused at their next positions.
            lost = execute("drop_lost_lease", worker=worker, early=_micros(early_s))
            if lost.rowcount == 0:
                return 0
            execute("make_claimed_due", worker=worker, strand=MAIN_STRAND, at=at)
            return execute("drop_claims", worker=worker).rowcount

    def claim_run(self, run: str, worker: str) -> bool:
        """Claim one run for a worker; return False if another has it, or this one has no lease."""
        with self._write_transaction("claiming a run") as execute:
            return execute("claim_run", run=run, worker=worker).rowcount > 0

    def set_timers(self, timers: Sequence[ports.Timer]) -> None:
        """Set or clear timers without an entry, and tell the workers that wait."""
        with self._write_transaction("setting timers") as execute:
            self._set_timers(execute, timers)

    def add_timers(self, timers: Sequence[ports.Timer]) -> None:
        """Set those of these timers that are not set, and tell the workers that wait."""
        with self._write_transaction("adding timers") as execute:
            self._add_timers(execute, timers)

    @abstractmethod
    def _add_timers(self, execute: QueryExecutor, timers: Sequence[ports.Timer]) -> None:
        """Set those of these timers that are not set."""

    def reschedule(self, alarms: Sequence[ports.Timer], seconds: float | None) -> None:
        """Make timers due after some seconds, or delete them if `seconds` is None.

        A timer that was set to another time since it was read is left unchanged.
        """
        micros = None if seconds is None else _micros(seconds)
        query = "silence" if micros is None else "snooze"
        with self._write_transaction("snoozing") as execute:
            for alarm in sorted(alarms, key=_effect_order):
                execute(query, micros=micros, **alarm._asdict())

    def renew_lease(self, worker: str, seconds: float) -> None:
        """Renew the lease of a worker for some seconds from now, by the store's own clock."""
        self._change("holding a lease", "hold_lease", worker=worker, micros=_micros(seconds))

    def release_lease(self, worker: str) -> None:
        """Delete the lease of a worker."""
        self._change("dropping a lease", "drop_lease", worker=worker)

    def expired_workers(self) -> list[str]:
        """Return the workers with an expired lease (by the store's clock) not yet released."""
        return self._fetch_column("lost_workers")

    def live_workers(self) -> list[str]:
        """Return the workers whose lease has not expired by the clock of the database."""
        return self._fetch_column("present_workers")

    def workers(self) -> list[str]:
        """Return the workers that have a lease, expired or not."""
        return self._fetch_column("workers")

    def _save_checkpoint(self, execute: QueryExecutor, size: int, note: bytes) -> QueryResult:
        # The log may record a cosignature as soon as it is stored: from then on it is missed.
        for (stored,) in execute("lock_checkpoint", size=size).fetchall():
            note = add_signatures(note, bytes(stored))
        return execute("save_checkpoint", size=size, note=note)

    def erase_bodies(self, places: Sequence[tuple[ports.Position, str]]) -> None:
        """Erase bodies and their salts: all or none."""
        keys = [self._body_key(position, name) for position, name in places]
        with self._write_transaction("erasing") as execute:
            self._check_not_moving(execute)
            for key in keys:
                execute("erase", **key)
            # The digest in the idempotency record is not salted: with it, an attacker could
            # confirm guesses of the erased request.
            for run in sorted({position.run for position, _ in places}):
                execute("forget_asked", run=run)

    def discard_quarantine(self, ids: Sequence[int]) -> None:
        """Delete rows and their bodies from the quarantine."""
        with self._write_transaction("discarding rows") as execute:
            self._check_not_moving(execute)
            for row in ids:
                execute("discard_quarantine_bodies", id=row)
                execute("discard_quarantine", id=row)

    def tag_idempotency(self, row: ports.IdempotencyRecord) -> None:
        """Store the writer's tag of an idempotency record."""
        self._change("tagging", "tag_idempotency", name=row.name, tag=row.tag)

    def unarchived_runs(self, after: str, limit: int) -> list[str]:
        """Return up to `limit` runs after `after` whose entries are stored here, in name order."""
        return self._fetch_column("unarchived_runs", run=after, limit=limit)

    def remove_archived(self, run: str, lengths: Mapping[str, int]) -> None:
        """Remove the bytes of the entries of an archived run, and its bodies, strand by strand.

        The rows stay without their bytes: a position that was taken can never be taken again.
        """
        # `main` comes last.  After a crash before it, the run is still listed as one that is
        # stored here, and the next call removes the rest.
        for strand in sorted(self._strands_of(run), key=lambda row: row.name == MAIN_STRAND):
            place = {"strand": strand.key, "length": lengths.get(strand.name, 0)}
            with self._write_transaction("removing an archived run") as execute:
                self._check_not_moving(execute)
                execute("remove_archived_bodies", **place)
                execute("empty_entries", **place)

    def clean_up(self, seconds: float, limit: int) -> int:
        """Delete the rows beside up to `limit` runs that ended more than `seconds` ago."""
        # If no run is due, nothing is locked.
        due = {"before": self.now() - _micros(seconds), "limit": limit}
        if not self._fetch_rows("due_ended", **due):
            return 0
        # One transaction: after a crash either all rows beside a run are there, and the run is
        # still listed, or none of them is.
        with self._write_transaction("cleaning up") as execute:
            runs = [row[0] for row in execute("due_ended", **due).fetchall()]
            postponed = execute("postpone_ended", runs=self._list(runs)).fetchall()
            ended = self._list(sorted(set(runs).difference(row[0] for row in postponed)))
            for query in _CLEAN_UP_QUERIES:
                execute(query, runs=ended)
        return len(runs)

    def save_strand_head(self, head: ports.TaggedHead) -> None:
        """Store the head of one of the log's own strands."""
        self._change("keeping a head", "set_strand_head", **head._asdict())

    def save_summaries(self, rows: Sequence[ports.RunSummaryRow]) -> None:
        """Store summaries of runs, in place of those that they may have."""
        with self._write_transaction("keeping summaries") as execute:
            for row in sorted(rows):
                execute("set_summary", **row._asdict())

    def _apply_effects(self, execute: QueryExecutor, records: Sequence[ports.EntryWrite]) -> None:
        # Called after the entries are inserted: when a commit with an unknown outcome is retried,
        # it fails on the taken positions before it can charge an account twice.
        effects = [effect for record in records for effect in record.effects]
        # All transactions lock in the same order (accounts before timers, each by run and strand),
        # so two transactions that change the same rows cannot deadlock.
        for kind, alike in groupby(sorted(effects, key=_effect_order), type):
            if kind is ports.OpenBudgetAccount:
                self._open_accounts(
                    execute, [e for e in alike if isinstance(e, ports.OpenBudgetAccount)]
                )
            elif kind is ports.Timer:
                self._set_timers(execute, [e for e in alike if isinstance(e, ports.Timer)])
            elif kind is ports.EndedRun:
                ends = [e for e in alike if isinstance(e, ports.EndedRun)]
                self._add_ended(execute, ends)
                # With the end itself: whatever crashes, a run has both or neither.
                if done := [end.run for end in ends if end.ends_sums]:
                    execute("remove_sums", runs=self._list(done))
            else:
                for effect in alike:
                    self._apply_effect(execute, effect)

    @abstractmethod
    def _open_accounts(
        self, execute: QueryExecutor, accounts: Sequence[ports.OpenBudgetAccount]
    ) -> None:
        """Open accounts for runs; an account that exists stays unchanged."""

    @abstractmethod
    def _set_timers(self, execute: QueryExecutor, alarms: Sequence[ports.Timer]) -> None:
        """Set these timers, or clear those without a time, in the given order."""

    @abstractmethod
    def _add_ended(self, execute: QueryExecutor, ends: Sequence[ports.EndedRun]) -> None:
        """List runs that end in this transaction, in the given order."""

    def _apply_effect(self, execute: QueryExecutor, effect: ports.Effect) -> None:
        if isinstance(effect, ports.BudgetCharge):
            self._charge(execute, effect)
        elif isinstance(effect, ports.IdempotencyRecord):
            self._record_idempotency(execute, effect)
        elif isinstance(effect, ports.BudgetSliceCharge):
            self._charge_slice(execute, effect)
        elif isinstance(effect, ports.TaggedHead):
            execute("set_strand_head", **effect._asdict())
        elif isinstance(effect, ports.InterruptedRun):
            query = "list_interrupted" if effect.listed else "unlist_interrupted"
            execute(query, run=effect.run)

    def _charge(self, execute: QueryExecutor, charge: ports.BudgetCharge) -> None:
        account = {"run": charge.run}
        amount = charge.amount._asdict()
        for _ in range(_MAX_CHARGE_ATTEMPTS):
            if execute("charge", **account, **amount, guarded=charge.guarded).rowcount == 1:
                return
            # On Postgres a refused update holds no row lock.  A concurrent refund may have made
            # room since then: if the account now has enough, try again.
            _check_within_cap(_first_account(execute("account", **account).fetchall()), charge)
        raise errors.StoreFailed("charging", f"the account of run {charge.run} does not hold still")

    def _charge_slice(self, execute: QueryExecutor, charge: ports.BudgetSliceCharge) -> None:
        parameters = {**charge.slice._asdict(), **charge.amount._asdict()}
        if execute("charge_slice", **parameters, guarded=charge.guarded).rowcount == 1:
            return
        if charge.guarded:
            raise errors.BudgetSliceExhausted(charge.slice.scope, charge.slice.period)
        # The slice was returned in the meantime.  Count the amount in the row with the empty
        # owner, where the use of returned slices is counted.
        execute("charge_slice", **(parameters | {"owner": ""}), guarded=False)

    def _record_idempotency(self, execute: QueryExecutor, once: ports.IdempotencyRecord) -> None:
        while execute("ask_once", **once._asdict()).rowcount != 1:
            # Without a row, the clean-up has deleted it since: then the key is free.
            for run, digest, tag in execute("asked", name=once.name).fetchall():
                raise errors.IdempotencyKeyUsed(run, digest, tag)


def _effect_order(effect: ports.Effect) -> tuple[int, str, str, bool]:
    """Return the sort key of an effect; charges of one account keep their order."""
    match effect:
        case ports.OpenBudgetAccount(run, _) | ports.BudgetCharge(run, _, _):
            return 0, run, "", isinstance(effect, ports.BudgetCharge)
        case ports.IdempotencyRecord(name, _, _, _) | ports.TaggedHead(name, _, _, _):
            return 1, name, "", True
        case ports.InterruptedRun(run, _):
            return 1, run, "", True
        case ports.Timer(run, strand, _):
            return 1, run, strand, False
        case ports.BudgetSliceCharge(budget_slice, _, _):
            return 2, budget_slice.scope, budget_slice.period, False
        case ports.EndedRun(run, _, _):
            return 3, run, "", False


def _read_slices(execute: QueryExecutor, place: Mapping[str, object]) -> list[_SliceRow]:
    rows = execute("slices", **place).fetchall()
    return [_SliceRow(row[0], ports.Spend(*row[1:4]), ports.Spend(*row[4:])) for row in rows]


def _allocate_slice(
    rows: list[_SliceRow], owner: str, need: ports.Spend, cap: ports.Spend
) -> ports.Spend | None:
    """Return the new amount held by a process, or None if the cap has too little left.

    All slices together never hold more than the cap.  A slice that has used more than it holds
    counts with what it has used.
    """
    own = next(row for row in rows if row.owner == owner)
    held = []
    for at, (wanted, most) in enumerate(zip(need, cap, strict=True)):
        mine, least = own.held[at], own.used[at] + wanted
        left = most - sum(max(row.held[at], row.used[at]) for row in rows if row is not own)
        if most == ports.NO_LIMIT:
            held.append(ports.NO_LIMIT)
        elif not wanted or mine >= least:
            held.append(mine)
        elif least <= left:
            # More than requested, so that the next charges need no new allocation.
            held.append(least + (left - least) // _SLICE_DIVISOR)
        else:
            return None
    return ports.Spend(*held)


def _cap_reached(
    scope: str, per: str, need: ports.Spend, cap: ports.Spend, rows: list[_SliceRow], micros: int
) -> errors.CapReached:
    """Return the error that names the first limit that the request would exceed."""
    seconds = max(1, -(-micros // 1_000_000))
    totals = [sum(row.used[at] for row in rows) for at in range(len(need))]
    parts = [part for part in zip(ports.Spend._fields, need, totals, cap, strict=True) if part[1]]
    # A concurrent refund lowers what is used, but not what is held.  Then the use alone may exceed
    # no limit, and the first limit that was requested is named.
    limit, more, used, most = next((a for a in parts if a[1] + a[2] > a[3]), parts[0])
    return errors.CapReached(scope, per, limit, (more, used, most), seconds)


_WITHOUT_INDEX = itemgetter(slice(1, None))


def _row(columns: Sequence[Any]) -> ports.EntryRow | None:
    """Return a row, or None if the join found no entry."""
    run, strand, n, data, tag = columns
    # An entry whose strand row is missing gets the empty name, which no run and no strand has.
    return (
        None
        if data is None
        else ports.EntryRow(run=run or "", strand=strand or "", n=n, data=data, tag=tag)
    )


def _first_account(rows: list[Any]) -> ports.BudgetAccount | None:
    return _account(rows[0]) if rows else None


def _account(columns: Sequence[int]) -> ports.BudgetAccount:
    return ports.BudgetAccount(ports.Amount(*columns[:3]), ports.Amount(*columns[3:]))


def _check_within_cap(account: ports.BudgetAccount | None, charge: ports.BudgetCharge) -> None:
    """Raise `BudgetExceeded` for the first limit that a charge would exceed.

    Returns if no limit would be exceeded: then the refused charge can be tried again.
    """
    if account is None:
        raise errors.BudgetExceeded(charge.run, "calls", charge.amount.calls, 0, 0)
    limits = zip(ports.Amount._fields, charge.amount, account.used, account.cap, strict=True)
    for limit, more, used, cap in limits:
        # A refund (zero or less) must not be refused because the account is overdrawn.
        if more > 0 and used + more > cap:
            raise errors.BudgetExceeded(charge.run, limit, more, used, cap)


def _micros(seconds: float) -> int:
    return round(seconds * 1_000_000)
