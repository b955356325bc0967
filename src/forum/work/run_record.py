"""The record of one run, wherever it is kept: its entries in the order of the log, and bodies."""

from collections.abc import Callable, Iterable
from math import inf

from msgspec import Struct

from forum.ledger import LocatedEntry


class RunRecord(Struct, frozen=True):
    """The entries of a run, and what reads their bodies."""

    run: str
    entries: tuple[LocatedEntry, ...]
    """In the order of their indexes; those that have none yet come last, by their times."""
    read: Callable[[LocatedEntry, str], bytes | None]
    """Returns the content of a body; nothing where it was erased or left out."""


def sort_by_index(entries: Iterable[LocatedEntry]) -> tuple[LocatedEntry, ...]:
    """Return entries as the log has them; those that wait for an index by time."""
    return tuple(sorted(entries, key=_index_key))


def _index_key(located: LocatedEntry) -> tuple[float, int, str, int]:
    entry = located.entry
    index = inf if located.index is None else located.index
    return index, entry.ts, entry.strand, entry.n
