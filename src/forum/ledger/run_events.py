"""The entries of a run in the order of the log: as they come, or a page of them.

Within a strand an entry is committed before the next one, so its index is the smaller one.  A page
of a run is merged from its strands, each of which is read from where the page begins: that takes
one look at each strand, and no more entries than the page has.
"""

from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace

import msgspec

from forum.ledger.entry import leaf_of, peek_run
from forum.ledger.ports import Reader

_MAX_LOG_SCAN = 1000
"""How much more of the log is rather looked through than every strand of the run."""


class SequencedEntry(msgspec.Struct, frozen=True):
    """An entry that has its index."""

    index: int
    data: bytes


class RunEventReader(msgspec.Struct):
    """Yields each entry of a run once, by rising index, from behind one of them."""

    reader: Reader
    run: str
    after: int = -1
    _size: int = 0
    """How much of the log was looked at."""
    _read: dict[str, int] = {}
    """How much of each strand was yielded."""

    def read_new(self) -> list[SequencedEntry]:
        """Return what has got an index since it was last asked."""
        # The size first: an entry below it is in its strand by now.  Whatever is sequenced while
        # the strands are read waits for the next time, or a smaller index could come after it.
        size = self.reader.head().size
        if size == self._size:
            return []
        if not self._size and self.after >= 0:
            # Somebody who comes back: what it has already had is not read again.
            self._read = find_strand_starts(self.reader, self.run, self.after)
        is_near = self._size and size - self._size <= _MAX_LOG_SCAN
        found = self._read_from_log(size) if is_near else self._read_from_strands(size)
        # Only now: where the store fails half-way, all of it is read again.
        self._size = size
        fresh = sorted((e for e in found if e.index > self.after), key=lambda e: e.index)
        if fresh:
            self.after = fresh[-1].index
        return fresh

    def _read_from_log(self, size: int) -> list[SequencedEntry]:
        numbered = enumerate(self.reader.entries(self._size, size), self._size)
        return [
            SequencedEntry(i, data) for i, data in numbered if data and peek_run(data) == self.run
        ]

    def _read_from_strands(self, size: int) -> list[SequencedEntry]:
        found = {
            name: self._read_new_of_strand(name, size) for name in self.reader.strands(self.run)
        }
        for name, new in found.items():
            self._read[name] = self._read.get(name, 0) + len(new)
        return [entry for new in found.values() for entry in new]

    def _read_new_of_strand(self, strand: str, size: int) -> list[SequencedEntry]:
        entries = list(self.reader.read_strand(self.run, strand, self._read.get(strand, 0)))
        indexes = self.reader.indexes([leaf_of(data) for data in entries])
        pairs = zip(indexes, entries, strict=True)
        return [SequencedEntry(i, data) for i, data in pairs if i is not None and i < size]


def find_strand_starts(reader: Reader, run: str, after: int) -> dict[str, int]:
    """Return for each strand of a run the position of its first entry behind an index."""
    lengths = reader.strand_lengths(run)
    low = dict.fromkeys(lengths, 0)
    if after < 0:
        return low
    high = dict(lengths)
    # The last entry first: of most strands all entries are on one side of the index.
    probes = {strand: length - 1 for strand, length in lengths.items() if length}
    while probes:
        found = _read_sequenced_at(reader, run, list(probes.items()), after + 1)
        for (strand, n), entry in zip(probes.items(), found, strict=True):
            if entry is not None:
                low[strand] = n + 1
            else:
                high[strand] = n
        unsure = [strand for strand in probes if low[strand] < high[strand]]
        probes = {strand: (low[strand] + high[strand]) // 2 for strand in unsure}
    return low


def read_page(
    reader: Reader, run: str, after: int, limit: int
) -> tuple[list[SequencedEntry], bool]:
    """Return the next entries of a run behind an index, and whether there are more."""
    # The size first, as for a feed: whatever is sequenced meanwhile is left to a later page.
    size = reader.head().size
    heads = _open_cursors(reader, run, find_strand_starts(reader, run, after), size, limit)
    page: list[SequencedEntry] = []
    while heads and len(page) < limit:
        head = heads[0]
        page.append(head.entry)
        following = next(head.rest, None)
        if following is None:
            heappop(heads)
        else:
            heapreplace(heads, _StrandCursor(following, head.rest))
    return page, bool(heads)


class _StrandCursor:
    """The next entry of a strand, and those behind it."""

    __slots__ = ("entry", "rest")

    def __init__(self, entry: SequencedEntry, rest: Iterator[SequencedEntry]) -> None:
        self.entry, self.rest = entry, rest

    def __lt__(self, other: "_StrandCursor") -> bool:
        return self.entry.index < other.entry.index


def _open_cursors(
    reader: Reader, run: str, starts: Mapping[str, int], size: int, limit: int
) -> list[_StrandCursor]:
    """Return the strands of a run that go on, by their next entries: a heap."""
    places = list(starts.items())
    heads = []
    for (strand, n), entry in zip(
        places, _read_sequenced_at(reader, run, places, size), strict=True
    ):
        if entry is not None:
            heads.append(
                _StrandCursor(entry, _read_following(reader, run, strand, n + 1, size, limit))
            )
    heapify(heads)
    return heads


def _read_following(
    reader: Reader, run: str, strand: str, n: int, size: int, limit: int
) -> Iterator[SequencedEntry]:
    """Yield the entries of a strand from a position on, at most twice as many as are taken."""
    count = 1
    while True:
        places = [(strand, position) for position in range(n, n + count)]
        for entry in _read_sequenced_at(reader, run, places, size):
            if entry is None:
                return
            yield entry
        n, count = n + count, min(2 * count, limit)


def _read_sequenced_at(
    reader: Reader, run: str, places: Sequence[tuple[str, int]], size: int
) -> list[SequencedEntry | None]:
    """Return the entries at some places, but for those that a log of this size does not have."""
    found = reader.entries_at(run, places)
    indexes = iter(reader.indexes([leaf_of(data) for data in found if data is not None]))
    numbered = [(data, None if data is None else next(indexes)) for data in found]
    return [
        SequencedEntry(index, data)
        if data is not None and index is not None and index < size
        else None
        for data, index in numbered
    ]
