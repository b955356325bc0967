"""The directory of a log: one strand that names every run in the order of the openings.

The sequencer writes it in the commit that gives the openings their indexes, so lists of runs need
not rely on the tables of the database: a run that is missing there leaves a gap in the positions.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from forum import errors
from forum.ledger import ports
from forum.ledger.entry import LOG_RUN, MAIN_STRAND, leaf_of
from forum.ledger.kinds import Kinds, RunsOpenedFacts
from forum.ledger.log import check_strand_head, prove_entry
from forum.ledger.own_entries import Batch
from forum.ledger.strand import RUNS_STRAND, Draft, RecordedEntry
from forum.ledger.write_tags import WriteKeys
from forum.tlog import Hash, parse_checkpoint

_SEQUENCER = "system"
_PLACE = f"the directory of runs ({LOG_RUN}/{RUNS_STRAND})"
_NO_LEAF = bytes(32)
_PAGE_RUNS = 500
"""Runs from before the directory that are read at once."""
_PAGE_ENTRIES = 64
"""Entries of the directory that are read at once."""
_BORDER_RUNS = 256
"""Runs around the beginning of a directory, whose rows may have been added in another order."""
_MAX_NAMES_SIZE = 3000
"""Bytes of names in one entry; with three labels of full length the rest fits the limit, too."""


class RunDirectory:
    """Composes the entries that name the runs which a batch opens."""

    strand = RUNS_STRAND

    def __init__(self, reader: ports.EntryReader) -> None:
        self._reader = reader

    def compose(self, batch: Batch, last: RecordedEntry | None) -> Sequence[Draft]:
        """Return drafts that name the runs opened in a batch; several if they are many."""
        opened = list(_openings(zip(batch.rows, batch.leaves, strict=True)))
        if not batch.is_next and last is not None:
            opened = [*self._unnamed_before(batch.first, last), *opened]
        if not opened:
            return ()
        first = _count_named(last)
        drafts: list[Draft] = []
        for names in _split([run for run, _ in opened]):
            since = 0 if last or drafts else batch.first
            # The opening of the last run: an entry behind all that it names.
            parent = opened[len(names) - 1][1]
            opened = opened[len(names) :]
            step = f"runs/{first}"
            named = RunsOpenedFacts(first, tuple(names), since)
            drafts.append(Draft(step, _SEQUENCER, named, (parent,)))
            first += len(names)
        return drafts

    def _unnamed_before(self, size: int, last: RecordedEntry) -> list[tuple[str, Hash]]:
        """Return the runs opened after the last entry of the directory and before a batch.

        There are none unless a sequencer of an earlier release, which names no runs, was at work.
        """
        index = self._reader.indexes([last.leaf])[0]
        start = size if index is None else index + 1
        rows = (row for row in self._reader.rows(start, size) if row is not None)
        return list(_openings((row, leaf_of(row.data)) for row in rows))


class RunListProof(msgspec.Struct, frozen=True):
    """Consecutive entries of a directory, and what proves them to a stranger."""

    first: int
    """The position of the first of them."""
    entries: tuple[bytes, ...]
    proof: bytes
    """The C2SP tlog-proof of the last entry, which names those before it."""


def prove_run_list(reader: ports.EntryReader, first: int, limit: int) -> RunListProof:
    """Return at most `limit` entries of a directory from a position on, with their proof.

    A negative position is counted from the end of what was signed.

    Raises `NoSuchEntry` for a position behind the last one, `NotYetSigned`, `TamperDetected`.
    """
    end = reader.strand_lengths(LOG_RUN).get(RUNS_STRAND, 0)
    if first < 0:
        end = _count_signed(reader, end)
    start = max(0, end + first) if first < 0 else first
    stop = start + limit
    if not start < min(stop, end):
        raise errors.NoSuchEntry(f"{LOG_RUN}/{RUNS_STRAND}/{start} (the directory has {end})")
    places = [(RUNS_STRAND, n) for n in range(start, min(stop, end))]
    entries = [data for data in reader.entries_at(LOG_RUN, places) if data is not None]
    if len(entries) < len(places):
        raise errors.TamperDetected(_PLACE, "its positions have a gap")
    index = reader.indexes([leaf_of(entries[-1])])[0]
    if index is None:
        raise errors.NotYetSigned(f"{LOG_RUN}/{RUNS_STRAND}/{places[-1][1]}")
    return RunListProof(start, tuple(entries), prove_entry(reader, index).encode())


def _count_signed(reader: ports.EntryReader, end: int) -> int:
    """Return how many of the first entries of a directory are in the signed tree.

    The last few may not be, as long as runs are opened faster than trees are signed.
    """
    note = reader.checkpoint()
    size = parse_checkpoint(note).size if note is not None else 0

    def is_unsigned(n: int) -> bool:
        data = reader.entries_at(LOG_RUN, [(RUNS_STRAND, n)])[0]
        index = reader.indexes([leaf_of(data)])[0] if data is not None else None
        # A gap is found by whoever reads the entries.
        return data is not None and (index is None or index >= size)

    if not end or not is_unsigned(end - 1):
        return end
    # Indexes rise along a strand.  While nobody signs, very many of them may wait.
    return bisect_left(range(end), x=True, key=is_unsigned)


class DirectoryReader:
    """Lists the runs of a log, the newest first, by the positions of its directory.

    Runs that wait for their index come first.  The runs that a log has from before its directory
    come last, in the order of the tables: nothing proves that they are all.
    """

    def __init__(
        self,
        reader: ports.EntryReader,
        kinds: Kinds,
        keys: WriteKeys | None,
        remembered: tuple[int, str] | None = None,
        remember: Callable[[int, str], None] = lambda _n, _leaf: None,
    ) -> None:
        """Use `remembered`, the last entry (position and id) that this machine has seen.

        `remember` is called with the last one that is there now.
        """
        self._reader, self._kinds = reader, kinds
        self._keys, self._remembered = keys, remembered
        self._remember = remember
        self._walk: Iterator[str] = iter(())
        self._last: str | None = None
        self._end: RecordedEntry | None = None
        """The last entry of the directory; None if it has not begun."""

    def runs_before(self, before: str | None, limit: int) -> list[str]:
        """Return up to `limit` runs, from before a run or from the last.

        A run that the log does not have has none before it.  Raises `TamperDetected` at a gap in
        the directory, and if its end is not there.
        """
        if before is None or before != self._last:
            # The queue is read first: a run that gets its index meanwhile is in both, not in none.
            waiting = self._waiting_runs()
            if before is None:
                self._walk = self._from_waiting(waiting)
            else:
                self._walk = self._from_run(before, waiting)
        page = list(islice(self._walk, limit))
        self._last = page[-1] if page else None
        return page

    def _from_waiting(self, waiting: Sequence[str]) -> Iterator[str]:
        """Yield runs that wait for their index, and then the others."""
        self._read_end()
        if self._end is None:
            # No entry of the log says how many runs it has: it is of an earlier release.
            yield from self._unnamed_from(None)
            return
        yield from waiting
        seen = frozenset(waiting)
        for run in self._named_until(self._end.entry.n, None):
            if run not in seen:
                yield run

    def _from_run(self, before: str, waiting: Sequence[str]) -> Iterator[str]:
        """Yield the runs before a run."""
        if before in waiting:
            yield from self._from_waiting(waiting[waiting.index(before) + 1 :])
            return
        data = self._reader.entries_at(before, [(MAIN_STRAND, 0)])[0]
        if data is None:
            return
        self._read_end()
        index = self._reader.indexes([leaf_of(data)])[0]
        if self._end is None or index is None or index < self._first().since:
            yield from self._unnamed_from(before)
            return
        n = self._find(index)
        while n <= self._end.entry.n:
            if before in self._facts_at(n, n + 1)[0].runs:
                yield from self._named_until(n, before)
                return
            n += 1
        # A process of an earlier release gave it its index: the next batch names it.
        yield from self._named_until(self._end.entry.n, None)

    def _waiting_runs(self) -> list[str]:
        rows = [row for row in self._reader.unsequenced_rows() if row is not None]
        return [run for run, _ in _openings((row, _NO_LEAF) for row in reversed(rows))]

    def _read_end(self) -> None:
        """Read the last entry of the directory, and check that it is the last."""
        check_strand_head(self._reader, self._keys, RUNS_STRAND, self._remembered)
        data = self._reader.last_entry(LOG_RUN, RUNS_STRAND)
        self._end = RecordedEntry(leaf_of(data), self._kinds.read(data)) if data else None
        if self._end is not None:
            self._remember(self._end.entry.n, self._end.leaf.hex())

    def _named_until(self, n: int, before: str | None) -> Iterator[str]:
        """Yield the named runs backwards, from an entry or from before a run in it."""
        following: int | None = None
        for stop in range(n + 1, 0, -_PAGE_ENTRIES):
            for facts in reversed(self._facts_at(max(0, stop - _PAGE_ENTRIES), stop)):
                if following is not None and facts.first + len(facts.runs) != following:
                    raise errors.TamperDetected(_PLACE, "its positions have a gap")
                following = facts.first
                runs = facts.runs if before is None else facts.runs[: facts.runs.index(before)]
                before = None
                yield from reversed(runs)
        if following:
            raise errors.TamperDetected(_PLACE, "its positions do not begin with 0")
        yield from self._unnamed_from(None)

    def _unnamed_from(self, before: str | None) -> Iterator[str]:
        """Yield the runs from before the directory, from before one of them or from the last."""
        border: frozenset[str] = frozenset()
        if self._end is not None:
            if not self._first().since:
                return
            first = self._first_runs()
            border = frozenset(first)
            # The rows of runs that were opened at the same time may be in another order.
            before = before or first[-1]
        while page := self._reader.runs_before(before, _PAGE_RUNS):
            yield from (run for run in page if run not in border and run != LOG_RUN)
            before = page[-1]

    def _first(self) -> RunsOpenedFacts:
        return self._facts_at(0, 1)[0]

    def _first_runs(self) -> list[str]:
        """Return the runs that were named first."""
        assert self._end is not None  # noqa: S101  asked by the callers
        entries = self._facts_at(0, min(self._end.entry.n + 1, _BORDER_RUNS))
        return [run for facts in entries for run in facts.runs][:_BORDER_RUNS]

    def _facts_at(self, start: int, stop: int) -> list[RunsOpenedFacts]:
        """Return the facts of consecutive entries.  Raises `TamperDetected`."""
        places = [(RUNS_STRAND, n) for n in range(start, stop)]
        listed = []
        for data in self._reader.entries_at(LOG_RUN, places):
            facts = self._kinds.read(data).facts if data is not None else None
            if not isinstance(facts, RunsOpenedFacts):
                raise errors.TamperDetected(_PLACE, "an entry is missing, or of another kind")
            listed.append(facts)
        return listed

    def _find(self, index: int) -> int:
        """Return the position of the first entry behind an index; past the end if there is none."""
        assert self._end is not None  # noqa: S101  asked by the callers
        low, high = 0, self._end.entry.n + 1
        while low < high:
            middle = (low + high) // 2
            data = self._reader.entries_at(LOG_RUN, [(RUNS_STRAND, middle)])[0]
            place = self._reader.indexes([leaf_of(data)])[0] if data is not None else None
            if place is None:
                raise errors.TamperDetected(_PLACE, f"its entry {middle} is missing")
            low, high = (low, middle) if place > index else (middle + 1, high)
        return low


def _count_named(last: RecordedEntry | None) -> int:
    """Return how many runs a directory names.  Raises `TamperDetected`."""
    if last is None:
        return 0
    facts = last.entry.facts
    if not isinstance(facts, RunsOpenedFacts):
        where = f"entry {LOG_RUN}/{RUNS_STRAND}/{last.entry.n}"
        raise errors.SigningRefused(where, f"{last.entry.kind} does not belong into this strand")
    return facts.first + len(facts.runs)


def _openings(rows: Iterable[tuple[ports.EntryRow, bytes]]) -> Iterator[tuple[str, Hash]]:
    """Yield the runs whose first entries are among these, with the ids of those entries."""
    for row, leaf in rows:
        if not row.n and row.strand == MAIN_STRAND and row.run != LOG_RUN:
            yield row.run, Hash(leaf)


def _split(runs: Sequence[str]) -> Iterator[list[str]]:
    """Yield the runs in groups that fit into one entry."""
    group: list[str] = []
    size = 0
    for run in runs:
        if group and size + len(run) + 3 > _MAX_NAMES_SIZE:
            yield group
            group, size = [], 0
        group.append(run)
        size += len(run) + 3
    if group:
        yield group
