"""The record of one run from any source: its entries in log order, and their bodies."""

from collections.abc import Callable, Iterable, Sequence
from math import inf

from msgspec import Struct

from forum.ledger.body import StoredBody
from forum.ledger.log import LocatedEntry, read_stored

ReadBodies = Callable[[Sequence[tuple[LocatedEntry, str]]], Sequence[StoredBody | None]]
"""Returns the bodies of these entries and names, unchecked; None if erased or left out."""


class RunRecord(Struct, frozen=True):
    """The entries of a run, and what reads their bodies."""

    run: str
    entries: tuple[LocatedEntry, ...]
    """In index order; entries without an index come last, in the order of their times."""
    bodies_at: ReadBodies

    def read(self, located: LocatedEntry, name: str) -> bytes | None:
        """Return the content of a body; None if it was erased or left out.

        Raises `TamperDetected`.
        """
        body = self.bodies_at([(located, name)])[0]
        return None if body is None else read_stored(located.entry, name, body)


def sort_by_index(entries: Iterable[LocatedEntry]) -> tuple[LocatedEntry, ...]:
    """Return entries in index order; those without an index come last, in the order of times."""
    return tuple(sorted(entries, key=_index_key))


def _index_key(located: LocatedEntry) -> tuple[float, int, str, int]:
    entry = located.entry
    index = inf if located.index is None else located.index
    return index, entry.ts, entry.strand, entry.n
