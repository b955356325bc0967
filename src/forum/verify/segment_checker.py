"""Segments of a log, each checked without knowing what stands before it.

A segment is checked from an assumed state: a strand that goes on in it is taken to have come just
so far, a run that goes on in it to be open.  The summary says what was assumed and what has
become of it.  Whoever knows the state before the segment compares (`fits`), and takes the changes
over (`apply`): that costs time for each strand that crosses the border, and none for the entries
within.  A summary with a finding, or one whose assumptions do not hold, is thrown away, and the
segment is checked again from the true state; so a report does not depend on how a log was cut.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Protocol

from forum.ledger import MAIN_STRAND, Entry
from forum.verify.checkpoint_times import MAX_CLOCK_SKEW_US
from forum.verify.entry_checker import EntryChecker, StrandHead
from forum.verify.report import Problem
from forum.verify.segment_summary import ClosedRun, ContinuedStrand, OpenedRun, SegmentSummary


class RunProgress(Protocol):
    """How far the runs of a log have come: in memory, or on disk."""

    def find_strand(self, run: str, name: str) -> StrandHead | None:
        """Return how far an open strand has come."""
        ...

    def strands_of(self, run: str) -> set[str] | None:
        """Return the strands of an open run but for `main`; None if the run is not open."""
        ...

    def floor_of(self, run: str) -> int:
        """Return the earliest time that the entries of a run can have."""
        ...

    def is_closed(self, run: str) -> bool:
        """Tell whether a run was closed."""
        ...

    def open_run(self, run: str, floor: int) -> None:
        """Keep that a run was opened."""
        ...

    def put_strand(self, run: str, name: str, strand: StrandHead) -> None:
        """Keep how far a strand of an open run has come."""
        ...

    def close_run(self, run: str) -> None:
        """Keep that a run was closed, and forget its strands."""
        ...


def digest_edge(edge: Iterable[bytes]) -> bytes:
    """Return what tells two edges of trees of one size apart."""
    digest = sha256()
    for tile in edge:
        digest.update(len(tile).to_bytes(4, "big") + tile)
    return digest.digest()


def can_apply_segment(state: RunProgress, summary: SegmentSummary) -> bool:
    """Tell whether everything that a segment assumes of the runs before it is so."""
    return (
        all(_can_open(state, run.run) for run in summary.opened)
        and all(_can_touch(state, strand) for strand in summary.touched)
        and all(_can_close(state, run, summary.touched) for run in summary.closed)
    )


def apply_segment(state: RunProgress, summary: SegmentSummary) -> None:
    """Take over what has become of the runs in a segment that fits."""
    for run in summary.opened:
        state.open_run(run.run, run.floor)
        for name, n, head in run.strands:
            state.put_strand(run.run, name, StrandHead(n, head, run.floor - MAX_CLOCK_SKEW_US))
        if not run.open:
            state.close_run(run.run)
    for strand in summary.touched:
        before = state.find_strand(strand.run, strand.name)
        floor = before.floor if before else state.floor_of(strand.run) - MAX_CLOCK_SKEW_US
        after = StrandHead(strand.end_n, strand.end_head, floor)
        state.put_strand(strand.run, strand.name, after)
    for closed in summary.closed:
        state.close_run(closed.run)


def _can_open(state: RunProgress, run: str) -> bool:
    return state.strands_of(run) is None and not state.is_closed(run)


def _can_touch(state: RunProgress, strand: ContinuedStrand) -> bool:
    if state.strands_of(strand.run) is None or state.is_closed(strand.run):
        return False
    before = state.find_strand(strand.run, strand.name)
    if before is None:
        floor = state.floor_of(strand.run) - MAX_CLOCK_SKEW_US
        return strand.n == 0 and floor <= strand.lowest
    known = (before.n, before.head) == (strand.n, strand.head)
    return strand.n > 0 and known and before.floor <= strand.lowest


def _can_close(state: RunProgress, run: ClosedRun, touched: Iterable[ContinuedStrand]) -> bool:
    """Compare the list in a close with the strands of before and of the segment."""
    names = state.strands_of(run.run)
    if names is None:
        return False
    ends: dict[str, tuple[int, str]] = {}
    for name in names:
        strand = state.find_strand(run.run, name)
        if strand is not None:
            ends[name] = (strand.n - 1, strand.head.decode())
    for here in touched:
        if here.run == run.run and here.name != MAIN_STRAND:
            ends[here.name] = (here.end_n - 1, here.end_head.decode())
    return run.count == len(ends) and (run.listed is None or run.listed == ends)


class SegmentEntryChecker(EntryChecker):
    """Takes in the entries of a segment, and notes what it has to assume for that."""

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401  those of a chronicle
        super().__init__(*arguments, **named)
        self._opened: list[str] = []
        self._here: set[str] = set()
        """The runs that were opened here."""
        self._touched: dict[tuple[str, str], tuple[Entry[Any], StrandHead]] = {}
        """The first entry here of a strand of an earlier run, and how far the strand has come."""
        self._closes: list[ClosedRun] = []

    def summary(
        self,
    ) -> tuple[tuple[OpenedRun, ...], tuple[ContinuedStrand, ...], tuple[ClosedRun, ...]]:
        """Return the runs opened here, the strands gone on with, and the runs closed."""
        touched = (
            ContinuedStrand(
                first.run,
                first.strand,
                first.n,
                first.prev.encode(),
                strand.floor,
                strand.n,
                strand.head,
            )
            for first, strand in self._touched.values()
        )
        return tuple(map(self._opened_run, self._opened)), tuple(touched), tuple(self._closes)

    def bodies_absent(self) -> tuple[tuple[str, str, int, str], ...]:
        """Return the bodies that are not there: entry, name, and where the entry stands."""
        return tuple((leaf, name, *place) for (leaf, name), place in self._absent.items())

    def bodies_redacted(self) -> tuple[tuple[str, str], ...]:
        """Return the bodies that entries here say are erased."""
        return tuple(self._redacted)

    def _opened_run(self, run: str) -> OpenedRun:
        names = self._runs.get(run)
        if names is None:
            return OpenedRun(run, self.floor_of(run), open=False)
        heads = ((name, self._strands[run, name]) for name in (MAIN_STRAND, *sorted(names)))
        ends = tuple((name, strand.n, strand.head) for name, strand in heads)
        return OpenedRun(run, self.floor_of(run), open=True, strands=ends)

    def _begin_strand(self, index: int, entry: Entry[Any]) -> StrandHead:
        new = entry.strand == MAIN_STRAND and entry.n == 0 and entry.run not in self._runs
        if entry.run not in self._here and not new and not self.is_closed(entry.run):
            return self._assume_strand(index, entry)
        if new:
            self._here.add(entry.run)
            self._opened.append(entry.run)
        return super()._begin_strand(index, entry)

    def _assume_strand(self, index: int, entry: Entry[Any]) -> StrandHead:
        """Take up a strand of a run that must have been open before."""
        names = self._runs.setdefault(entry.run, set())
        if entry.strand != MAIN_STRAND:
            names.add(entry.strand)
            if not entry.n and not entry.parents:
                self._add_finding(
                    Problem.CAUSE_MISSING, "a strand begins without a cause", index, entry
                )
        strand = StrandHead(entry.n, entry.prev.encode(), entry.ts)
        key = entry.run, entry.strand
        self._strands[key], self._touched[key] = strand, (entry, strand)
        return strand

    def _report_impossible_time(self, index: int, entry: Entry[Any], earliest: int) -> None:
        touched = self._touched.get((entry.run, entry.strand))
        if touched is None or not self._earliest <= entry.ts <= self._latest:
            super()._report_impossible_time(index, entry, earliest)
        else:
            # Only later than what was assumed: that its floor is not above any of its times.
            touched[1].floor = entry.ts

    def _check_close(self, index: int, entry: Entry[Any]) -> None:
        run = entry.run
        if run in self._here:
            super()._check_close(index, entry)
            return
        listed = self._read_ends(index, entry)
        if listed is None:
            self.unlisted.append(run)
        self._closes.append(ClosedRun(run, entry.facts.strands, listed))
        # Its strands are compared by whoever knows those that have no entry here.
        for name in (MAIN_STRAND, *self._runs.pop(run, ())):
            self._strands.pop((run, name), None)
        self._closed.add(run)

    def _check_parents(self, index: int, entry: Entry[Any]) -> None:
        super()._check_parents(index, entry)
        # A cause before the segment is looked up once, however many entries name it.
        self._young.update(parent.encode() for parent in entry.parents)
