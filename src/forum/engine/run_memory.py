"""What a process remembers of the runs that it drives alone.

A driver writes nearly all entries of its run itself, so reading them again tells it nothing.  A run
is read once when its driver begins, and forgotten when the driver leaves.  Positions keep this
safe: if another process has written to a remembered strand after all, the next append to it is
refused, the run is forgotten, and its entries are read from the store again.
"""

from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import TypeVar, cast

from forum.ledger.database_memory import DatabaseMemory, Lineage
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.strand import RecordedEntry
from forum.runs import kinds
from forum.tlog import Hash

T = TypeVar("T")

_SHARED_STRANDS = (kinds.CONTROL, kinds.gate_strand(""))
"""Prefixes of the strands to which clients append while a run is driven."""

_MAX_ENTRIES = 20_000
"""The number of entries of one run from which on it is not remembered."""


class _RememberedRun:
    def __init__(self) -> None:
        self.strands: dict[str, list[RecordedEntry]] = {}
        self.is_loaded = self.has_shared_tasks = False
        self.derived: dict[tuple[Hash, str], object] = {}

    def add(self, entries: Iterable[RecordedEntry]) -> bool:
        """Add entries that follow those of their strands; return False if one does not."""
        for recorded in entries:
            entries_of_strand = self.strands.setdefault(recorded.entry.strand, [])
            n = recorded.entry.n
            if n == len(entries_of_strand):
                entries_of_strand.append(recorded)
            elif n > len(entries_of_strand) or entries_of_strand[n].leaf != recorded.leaf:
                return False
        return True


class RunMemory:
    """The entries of the runs that are driven in this process, by run and strand."""

    def __init__(self, lineage: Lineage) -> None:
        self._remembered: DatabaseMemory[dict[str, _RememberedRun]] = DatabaseMemory(lineage, dict)
        self._lock = Lock()

    def load(self, run: str, read: Callable[[], Iterable[RecordedEntry]]) -> None:
        """Remember a run from now on; `read` reads its entries, strand by strand."""
        loading = _RememberedRun()
        with self._lock:
            self._runs[run] = loading
        stored = _RememberedRun()
        complete = stored.add(read())
        with self._lock:
            # What was committed while the entries were read was added to `loading`.
            late = [recorded for strand in loading.strands.values() for recorded in strand]
            if self._runs.get(run) is not loading:
                return
            count = sum(map(len, stored.strands.values()))
            if not complete or count > _MAX_ENTRIES or not stored.add(late):
                del self._runs[run]
                return
            stored.is_loaded = True
            self._runs[run] = stored

    @property
    def _runs(self) -> dict[str, _RememberedRun]:
        return self._remembered.value

    def share_tasks(self, run: str) -> None:
        """Remember no more than `main` of a run: other processes drive tasks of it, too."""
        with self._lock:
            remembered = self._runs.get(run)
            if remembered is not None:
                remembered.has_shared_tasks = True

    def strands(self, run: str) -> list[str] | None:
        """Return the names of the strands of a remembered run, or None."""
        with self._lock:
            remembered = self._runs.get(run)
            is_whole = (
                remembered is not None and remembered.is_loaded and not remembered.has_shared_tasks
            )
            return list(remembered.strands) if remembered is not None and is_whole else None

    def read(self, run: str, strand: str, start: int = 0) -> Sequence[RecordedEntry] | None:
        """Return the entries of a strand from a position on, or None if they must be read."""
        if strand.startswith(_SHARED_STRANDS):
            return None
        with self._lock:
            remembered = self._runs.get(run)
            if remembered is None or not remembered.is_loaded:
                return None
            if remembered.has_shared_tasks and strand != MAIN_STRAND:
                return None
            return remembered.strands.get(strand, [])[start:]

    def add(self, entries: Sequence[RecordedEntry]) -> None:
        """Remember entries of one strand that were just committed, if their run is remembered."""
        run, strand = entries[0].entry.run, entries[0].entry.strand
        with self._lock:
            remembered = self._runs.get(run)
            if remembered is None:
                return
            if strand.startswith(_SHARED_STRANDS):
                remembered.strands.setdefault(strand, [])  # only its name
            elif remembered.is_loaded:
                if not remembered.add(entries):
                    del self._runs[run]
            else:
                remembered.strands.setdefault(strand, []).extend(entries)

    def forget(self, run: str) -> None:
        """Remember nothing of a run any more."""
        with self._lock:
            self._runs.pop(run, None)

    def derive(self, source: RecordedEntry, what: str, make: Callable[[], T]) -> T:
        """Return what follows from an entry of a remembered run, made once."""
        with self._lock:
            remembered = self._runs.get(source.entry.run)
        if remembered is None:
            return make()
        key = (source.leaf, what)
        if key not in remembered.derived:
            remembered.derived[key] = make()
        return cast("T", remembered.derived[key])
