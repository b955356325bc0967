"""Read the entries of a run or of the log in log order: as they are sequenced, or in pages.

Within a strand an entry is committed before the next one, so indexes increase along a strand.  A
page of a run is a k-way merge of its strands, each read from the start of the page.  Besides the
search for that start, at most about twice as many entries are read as the page holds.
"""

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import chain, islice

import msgspec

from forum.ledger.entry import leaf_of, peek_run
from forum.ledger.ports import EntryReader

_MAX_LOG_SCAN = 1000
"""Up to this many new entries, the log is scanned instead of every strand of the run."""


_MAX_LOG_EVENTS = 100
"""How many entries of the log a reader returns at once: a client may begin a million behind."""


class SequencedEntry(msgspec.Struct, frozen=True):
    """An entry with its index."""

    index: int
    data: bytes


class RunEventReader(msgspec.Struct):
    """Returns each entry of a run once, by ascending index, starting after the index `after`."""

    reader: EntryReader
    run: str
    after: int = -1
    _size: int = 0
    """The size of the log up to which entries were read."""
    _read: dict[str, int] = {}
    """The number of entries of each strand that were read."""

    def read_new(self) -> list[SequencedEntry]:
        """Return the entries that were sequenced since the last call, by ascending index."""
        # Read the size first: every entry below it is in its strand by now.  Entries sequenced
        # while the strands are read are left to the next call; otherwise an entry of a strand that
        # was read earlier could follow with a smaller index.
        size = self.reader.head().size
        if size == self._size:
            return []
        if not self._size and self.after >= 0:
            # A client that reconnects already has the entries up to `after`.  Searching for the
            # next one in each strand is cheaper than reading a long run from its start.
            self._read = find_strand_starts(self.reader, self.run, self.after)
        is_near = self._size and size - self._size <= _MAX_LOG_SCAN
        entries = self._read_from_log(size) if is_near else self._read_from_strands(size)
        # Set only now: if the store fails in between, the next call reads the same range again.
        self._size = size
        fresh = sorted((e for e in entries if e.index > self.after), key=lambda e: e.index)
        if fresh:
            self.after = fresh[-1].index
        return fresh

    def _read_from_log(self, size: int) -> list[SequencedEntry]:
        numbered = enumerate(self.reader.entries(self._size, size), self._size)
        return [
            SequencedEntry(i, data) for i, data in numbered if data and peek_run(data) == self.run
        ]

    def _read_from_strands(self, size: int) -> list[SequencedEntry]:
        by_strand = {
            name: self._read_new_of_strand(name, size) for name in self.reader.strands(self.run)
        }
        for name, new in by_strand.items():
            self._read[name] = self._read.get(name, 0) + len(new)
        return [entry for new in by_strand.values() for entry in new]

    def _read_new_of_strand(self, strand: str, size: int) -> list[SequencedEntry]:
        entries = list(self.reader.read_strand(self.run, strand, self._read.get(strand, 0)))
        indexes = self.reader.indexes([leaf_of(data) for data in entries])
        pairs = zip(indexes, entries, strict=True)
        return [SequencedEntry(i, data) for i, data in pairs if i is not None and i < size]


class LogEventReader(msgspec.Struct):
    """Returns each entry of the log once, by ascending index, starting after the index `after`."""

    reader: EntryReader
    after: int = -1

    def read_new(self) -> list[SequencedEntry]:
        """Return the next entries that were sequenced; none if there are no others yet."""
        size = self.reader.head().size
        entries: list[SequencedEntry] = []
        while not entries and self.after + 1 < size:
            start, stop = self.after + 1, min(self.after + 1 + _MAX_LOG_EVENTS, size)
            numbered = enumerate(self.reader.entries(start, stop), start)
            entries = [SequencedEntry(index, data) for index, data in numbered if data is not None]
            # Set only now: if the store fails, the next call reads the same range again.
            self.after = stop - 1
        return entries


def find_strand_starts(reader: EntryReader, run: str, after: int) -> dict[str, int]:
    """Return for each strand of a run the position of its first entry after an index.

    This is a binary search in all strands at once, with one query per round.
    """
    lengths = reader.strand_lengths(run)
    low = dict.fromkeys(lengths, 0)
    if after < 0:
        return low
    high = dict(lengths)
    # Probe the last entry first: most strands lie entirely on one side of the index.
    probes = {strand: length - 1 for strand, length in lengths.items() if length}
    while probes:
        entries = _read_sequenced_at(reader, run, list(probes.items()), after + 1)
        for (strand, n), entry in zip(probes.items(), entries, strict=True):
            if entry is not None:
                low[strand] = n + 1
            else:
                high[strand] = n
        unsure = [strand for strand in probes if low[strand] < high[strand]]
        probes = {strand: (low[strand] + high[strand]) // 2 for strand in unsure}
    return low


def read_page(
    reader: EntryReader, run: str, after: int, limit: int
) -> tuple[list[SequencedEntry], bool]:
    """Return the next entries of a run after an index, and whether there are more."""
    # Read the size first, as in `RunEventReader`: entries sequenced meanwhile are left to a later
    # page.
    size = reader.head().size
    starts = list(find_strand_starts(reader, run, after).items())
    # A query per strand would be slow for a run with many strands, many of which have no entry on
    # this page.  So one query reads the first entries of all of them.
    firsts = _read_sequenced_at(reader, run, starts, size)
    strands = (
        chain([first], _read_following(reader, run, strand, n + 1, size=size, limit=limit))
        for (strand, n), first in zip(starts, firsts, strict=True)
        if first is not None
    )
    page = list(islice(merge(*strands, key=lambda entry: entry.index), limit + 1))
    return page[:limit], len(page) > limit


def _read_following(
    reader: EntryReader, run: str, strand: str, n: int, size: int, limit: int
) -> Iterator[SequencedEntry]:
    """Yield the entries of a strand from a position on.

    Batches double in size up to `limit`, so that at most about twice as many entries are read as
    the page takes.
    """
    count = 1
    while True:
        places = [(strand, position) for position in range(n, n + count)]
        for entry in _read_sequenced_at(reader, run, places, size):
            if entry is None:
                return
            yield entry
        n, count = n + count, min(2 * count, limit)


def _read_sequenced_at(
    reader: EntryReader, run: str, places: Sequence[tuple[str, int]], size: int
) -> list[SequencedEntry | None]:
    """Return the entries at these (strand, n) pairs; None for those not in a log of this size."""
    rows = reader.entries_at(run, places)
    indexes = iter(reader.indexes([leaf_of(data) for data in rows if data is not None]))
    numbered = [(data, None if data is None else next(indexes)) for data in rows]
    return [
        SequencedEntry(index, data)
        if data is not None and index is not None and index < size
        else None
        for data, index in numbered
    ]
