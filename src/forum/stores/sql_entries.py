"""Entries in SQL: the tree, the strands and the runs, read through named queries."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from forum import errors
from forum.ledger import ports
from forum.ledger.database_memory import DatabaseMemory
from forum.ledger.entry import LOG_RUN, MAIN_STRAND
from forum.ledger.row_checks import PositionCheck
from forum.stores import sql_queries
from forum.stores.sql_queries import SqlQueries, leaf_prefixes
from forum.tlog import Hash, TileId, hash_leaf, parse_checkpoint

_WITHOUT_INDEX = itemgetter(slice(1, None))


class StrandRow(NamedTuple):
    """A strand of a run: its database key, its name and its number of entries."""

    key: int
    name: str
    length: int


def group_into_pages(strands: Sequence[StrandRow]) -> Iterator[list[StrandRow]]:
    """Yield groups of strands with at most a page of entries; a longer strand forms its own."""
    page: list[StrandRow] = []
    entries = 0
    for strand in strands:
        if page and (
            entries + strand.length > sql_queries.PAGE_ROWS or len(page) == sql_queries.PAGE_ROWS
        ):
            yield page
            page, entries = [], 0
        page.append(strand)
        entries += strand.length
    if page:
        yield page


class ArchivedRows:
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


def _emptied(place: str) -> errors.TamperDetected:
    return errors.TamperDetected(
        f"entry {place}", "its bytes were removed, and no archive has them"
    )


class SqlTreeReader(SqlQueries, ports.TreeReader):
    """Reads the tree and its signed notes."""

    def head(self) -> ports.TreeHead:
        size, root = self._fetch_rows("head")[0]
        if type(size) is not int:  # SQLite accepts any type in any column
            raise errors.Malformed("the head of the log", "its size is not a number")
        return ports.TreeHead(size, Hash(root))

    def read_tile(self, tile: TileId, width: int) -> bytes:
        hashes: bytes | None = self._fetch_one(
            "tile", level=tile.level, idx=tile.index, length=32 * width
        )
        return hashes or b""

    def checkpoint(self, most: int | None = None) -> bytes | None:
        size = 2**62 if most is None else most
        while rows := self._fetch_rows("checkpoint", size=size):
            note, stored = rows[0]
            if _find_noted_size(note) == stored:
                return bytes(note)
            size = stored - 1
        return None

    def checkpoints(self, start: int = 0) -> Iterator[bytes]:
        yield from (note for _, note in self.checkpoint_rows(start))

    def checkpoint_rows(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        yield from self._fetch_pages("checkpoints", "size", start)


@lru_cache(maxsize=64)
def _find_noted_size(note: bytes) -> int | None:
    """Return the size of the tree that a note is about, or None for anything but a checkpoint."""
    try:
        return parse_checkpoint(note).size
    except errors.Malformed:
        return None


class SqlEntryReader(SqlTreeReader, ports.EntryReader):
    """Reads entries, and checks what it returns as bytes."""

    def __init__(self, origin: str) -> None:
        super().__init__(origin)
        self._strand_ids: DatabaseMemory[dict[tuple[str, str], int]] = DatabaseMemory(
            self.lineage, dict
        )
        self.check: ports.RowCheck = PositionCheck(origin)
        self.archive: ports.RunArchive | None = None

    def entries(self, start: int, stop: int) -> Iterator[bytes | None]:
        archived = ArchivedRows(self.archive)
        for row in self._stored_rows(start, stop):
            if row is None:
                yield None
                continue
            whole = archived.restore(row)
            self.check.check_row(whole)
            yield whole.data

    def rows(self, start: int, stop: int) -> Iterator[ports.EntryRow | None]:
        archived = ArchivedRows(self.archive)
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
        for low in range(start, stop, sql_queries.PAGE_ROWS):
            high = min(low + sql_queries.PAGE_ROWS, stop)
            page = self._fetch_rows("entries", start=low, stop=high)
            # Verification reads millions of rows.  A page without gaps, the usual case, needs no
            # lookup for each index.
            if len(page) == high - low and all(row[4] and row[1] for row in page):
                yield from map(ports.EntryRow._make, map(_WITHOUT_INDEX, page))
            else:
                by_index = {row[0]: _row(row[1:]) for row in page}
                yield from (by_index.get(index) for index in range(low, high))

    def find_by_prefix(self, prefix: bytes) -> list[int]:
        # All leaves with one prefix share the sign bit, so the signed keys keep their order and
        # one range query finds them.
        low, high = leaf_prefixes([prefix[:8].ljust(8, end) for end in (b"\0", b"\xff")])
        return self._fetch_column("find", low=low, high=high)

    def indexes(self, leaves: Sequence[bytes]) -> list[int | None]:
        by_prefix: dict[int, list[int]] = {}
        prefixes = leaf_prefixes(leaves)
        for low in range(0, len(leaves), sql_queries.PAGE_ROWS):
            page = self._list(list(prefixes[low : low + sql_queries.PAGE_ROWS]))
            for prefix, index in self._fetch_rows("indexes", prefixes=page):
                by_prefix.setdefault(prefix, []).append(index)
        places = map(by_prefix.get, prefixes)
        return [
            None if indexes_of_prefix is None else self._match_leaf(leaf, indexes_of_prefix)
            for leaf, indexes_of_prefix in zip(leaves, places, strict=True)
        ]

    def _match_leaf(self, leaf: bytes, indexes: list[int]) -> int | None:
        """Return the index of a leaf among the indexes that share its eight-byte prefix.

        A single candidate is returned without reading its entry; several are told apart by hashing.
        """
        if len(indexes) < 2:
            return indexes[0]
        same = (i for i in indexes if hash_leaf(next(self.entries(i, i + 1)) or b"") == leaf)
        return next(same, None)

    def read_strand(self, run: str, strand: str, start: int = 0) -> Iterator[bytes]:
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
        key = self._strand_key(run, strand)
        if key is not None:
            archived = ArchivedRows(self.archive)
            for columns in self._fetch_pages("strand_entries", "n", start, strand=key):
                yield archived.restore(ports.EntryRow(run, strand, *columns))

    def last_entry(self, run: str, strand: str) -> bytes | None:
        key = self._strand_key(run, strand)
        for columns in [] if key is None else self._fetch_rows("last", strand=key):
            row = ArchivedRows(self.archive).restore(ports.EntryRow(run, strand, *columns))
            self.check.check_row(row)
            self._check_settled(row)
            return row.data
        return None

    def last_entries(self, places: Sequence[tuple[str, str]]) -> list[bytes | None]:
        ends: list[bytes | None] = []
        archived = ArchivedRows(self.archive)
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
        return self._fetch_column("strands", run=run)

    def strand_lengths(self, run: str) -> dict[str, int]:
        return {strand.name: strand.length for strand in self._strands_of(run)}

    def entries_of_run(self, run: str) -> Iterator[tuple[ports.Position, bytes]]:
        cached = self._strand_ids.value
        first = self._fetch_rows("first_entries", run=run, limit=sql_queries.PAGE_ROWS)
        if len(first) < sql_queries.PAGE_ROWS:
            self._cache_strand_keys({(run, row[1]): row[0] for row in first}, cached)
            yield from self._check_whole_run(run, first)
            return
        for strands in group_into_pages(self._strands_of(run)):
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
        expected, archived = ("", 0), ArchivedRows(self.archive)
        for _, strand, *columns in rows:
            row = archived.restore(ports.EntryRow(run, strand, *columns))
            self.check.check_row(row)
            if row.n != (expected[1] if strand == expected[0] else 0):
                raise errors.TamperDetected(
                    f"strand {run}/{strand}", "some of its entries are not there"
                )
            expected = (strand, row.n + 1)
            yield row.position, row.data

    def _rows_of_strands(self, run: str, strands: Sequence[StrandRow]) -> Iterator[ports.EntryRow]:
        keys = self._list([strand.key for strand in strands])
        rows: dict[int, list[ports.EntryRow]] = {strand.key: [] for strand in strands}
        names = {strand.key: strand.name for strand in strands}
        archived = ArchivedRows(self.archive)
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
        keyed = [(self._strand_key(run, strand), n) for strand, n in places]
        rows: list[Any] = []
        for low in range(0, len(keyed), sql_queries.PAGE_ROWS):
            rows += self._entries_at(keyed[low : low + sql_queries.PAGE_ROWS])
        entries: list[bytes | None] = []
        archived = ArchivedRows(self.archive)
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

    def _strands_of(self, run: str) -> list[StrandRow]:
        cached = self._strand_ids.value
        strands = [StrandRow(*row) for row in self._fetch_rows("strand_lengths", run=run)]
        self._cache_strand_keys({(run, strand.name): strand.key for strand in strands}, cached)
        return strands

    def runs(self, after: str, limit: int) -> list[str]:
        return self._fetch_column("runs", run=after, limit=limit)

    def runs_before(self, before: str | None, limit: int) -> list[str]:
        query = "last_runs" if before is None else "runs_before"
        return self._fetch_column(query, run=before, limit=limit)

    def unsequenced_entries(self) -> Iterator[bytes | None]:
        yield from (row.data if row else None for row in self.unsequenced_rows())

    def unsequenced_rows(self) -> Iterator[ports.EntryRow | None]:
        yield from (_row(row) for row in self._fetch_rows("unsequenced"))

    def strand_head(self, strand: str) -> ports.TaggedHead | None:
        rows = self._fetch_rows("strand_head", strand=strand)
        return ports.TaggedHead(strand, rows[0][0], Hash(rows[0][1]), rows[0][2]) if rows else None

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
        if len(cached) > sql_queries.MAX_CACHED_STRANDS:
            cached.clear()
        cached.update(strands)


def _row(columns: Sequence[Any]) -> ports.EntryRow | None:
    """Return a row, or None if the join found no entry."""
    run, strand, n, data, tag = columns
    # An entry whose strand row is missing gets the empty name, which no run and no strand has.
    return (
        None
        if data is None
        else ports.EntryRow(run=run or "", strand=strand or "", n=n, data=data, tag=tag)
    )
