"""The record of one run from any source: its entries in log order, and their bodies."""

from collections.abc import Callable, Iterable
from math import inf

from msgspec import Struct

from forum.ledger.log import LocatedEntry


class RunRecord(Struct, frozen=True):
    """The entries of a run, and what reads their bodies."""

    run: str
    entries: tuple[LocatedEntry, ...]
    """In index order; entries without an index come last, in the order of their times."""
    read: Callable[[LocatedEntry, str], bytes | None]
    """Returns the content of a body; None if it was erased or left out."""


def sort_by_index(entries: Iterable[LocatedEntry]) -> tuple[LocatedEntry, ...]:
    """Return entries in index order; those without an index come last, in the order of times."""
    return tuple(sorted(entries, key=_index_key))


def _index_key(located: LocatedEntry) -> tuple[float, int, str, int]:
    entry = located.entry
    index = inf if located.index is None else located.index
    return index, entry.ts, entry.strand, entry.n
