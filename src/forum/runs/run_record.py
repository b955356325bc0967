"""The record of one run from any source: its entries in log order, and their bodies."""

from collections.abc import Callable, Iterable, Sequence
from math import inf

from msgspec import Struct

from forum.ledger.body import StoredBody
from forum.ledger.body_follower import BodyFollower
from forum.ledger.log import LocatedEntry, read_stored

_PAGE_ENTRIES = 200

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


class EntryBodies:
    """Reads the bodies of a run's entries in their order, with few queries.

    What a body shares with one before it is not read again.
    """

    def __init__(self, record: RunRecord) -> None:
        self._record = record
        self._follower = BodyFollower()
        self._places = {located.leaf: n for n, located in enumerate(record.entries)}
        self._page: dict[tuple[int, str], StoredBody | None] = {}

    def read(self, located: LocatedEntry, name: str) -> bytes | None:
        """Return the content of a body; None if it was erased.  Raises `TamperDetected`."""
        place = self._places[located.leaf]
        if (place, name) not in self._page:
            self._open_page(place)
        body = self._page[place, name]
        return None if body is None else self._follower.read(located.entry, name, body).content

    def _open_page(self, first: int) -> None:
        entries = self._record.entries[first : first + _PAGE_ENTRIES]
        keys = [(n, name) for n, at in enumerate(entries, first) for name in at.entry.bodies]
        bodies = self._record.bodies_at([(self._record.entries[n], name) for n, name in keys])
        self._page = dict(zip(keys, bodies, strict=True))


def sort_by_index(entries: Iterable[LocatedEntry]) -> tuple[LocatedEntry, ...]:
    """Return entries in index order; those without an index come last, in the order of times."""
    return tuple(sorted(entries, key=_index_key))


def _index_key(located: LocatedEntry) -> tuple[float, int, str, int]:
    entry = located.entry
    index = inf if located.index is None else located.index
    return index, entry.ts, entry.strand, entry.n
