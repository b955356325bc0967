"""The entries of a run in the order of the log, read as they come."""

import msgspec

from forum.ledger.entry import leaf_of, peek_run
from forum.ledger.ports import Reader

_NEAR = 1000
"""How much more of the log is rather looked through than every strand of the run."""


class Sequenced(msgspec.Struct, frozen=True):
    """An entry that has its index."""

    index: int
    data: bytes


class Feed(msgspec.Struct):
    """Yields each entry of a run once, by rising index, from behind one of them."""

    reader: Reader
    run: str
    after: int = -1
    _size: int = 0
    """How much of the log was looked at."""
    _read: dict[str, int] = {}
    """How much of each strand was yielded."""

    def read(self) -> list[Sequenced]:
        """Return what has got an index since it was last asked."""
        # The size first: an entry below it is in its strand by now.  Whatever is sequenced while
        # the strands are read waits for the next time, or a smaller index could come after it.
        size = self.reader.head().size
        if size == self._size:
            return []
        is_near = self._size and size - self._size <= _NEAR
        found = self._in_log(size) if is_near else self._in_strands(size)
        # Only now: where the store fails half-way, all of it is read again.
        self._size = size
        fresh = sorted((e for e in found if e.index > self.after), key=lambda e: e.index)
        if fresh:
            self.after = fresh[-1].index
        return fresh

    def _in_log(self, size: int) -> list[Sequenced]:
        numbered = enumerate(self.reader.entries(self._size, size), self._size)
        return [Sequenced(i, data) for i, data in numbered if data and peek_run(data) == self.run]

    def _in_strands(self, size: int) -> list[Sequenced]:
        found = {name: self._new(name, size) for name in self.reader.strands(self.run)}
        for name, new in found.items():
            self._read[name] = self._read.get(name, 0) + len(new)
        return [entry for new in found.values() for entry in new]

    def _new(self, strand: str, size: int) -> list[Sequenced]:
        entries = list(self.reader.strand(self.run, strand, self._read.get(strand, 0)))
        indexes = self.reader.indexes([leaf_of(data) for data in entries])
        pairs = zip(indexes, entries, strict=True)
        return [Sequenced(i, data) for i, data in pairs if i is not None and i < size]
