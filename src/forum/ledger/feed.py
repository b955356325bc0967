"""The entries of a run in the order of the log, read as they come."""

from dataclasses import dataclass, field

from forum.ledger.entry import leaf_of
from forum.ledger.ports import Reader


@dataclass(frozen=True, slots=True)
class Sequenced:
    """An entry that has its index."""

    index: int
    data: bytes


@dataclass(slots=True)
class Feed:
    """Yields each entry of a run once, by rising index, from behind one of them."""

    reader: Reader
    run: str
    after: int = -1
    _read: dict[str, int] = field(default_factory=dict)
    """How much of each strand was yielded."""

    def read(self) -> list[Sequenced]:
        """Return what has got an index since it was last asked."""
        # The size first: an entry below it is in its strand by now.  Whatever is sequenced while
        # the strands are read waits for the next time, or a smaller index could come after it.
        size = self.reader.head().size
        found = [entry for name in self.reader.strands(self.run) for entry in self._new(name, size)]
        fresh = sorted((e for e in found if e.index > self.after), key=lambda e: e.index)
        if fresh:
            self.after = fresh[-1].index
        return fresh

    def _new(self, strand: str, size: int) -> list[Sequenced]:
        begun = self._read.get(strand, 0)
        entries = list(self.reader.strand(self.run, strand, begun))
        indexes = self.reader.indexes([leaf_of(data) for data in entries])
        pairs = zip(indexes, entries, strict=True)
        ready = [Sequenced(i, data) for i, data in pairs if i is not None and i < size]
        self._read[strand] = begun + len(ready)
        return ready
