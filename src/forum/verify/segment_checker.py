"""Checks segments of a log without the state before them.

A segment is checked from an assumed state: a strand that continues in it is assumed to have exactly
the length and the last entry that its first entry here implies, and its run is assumed to be open.
The summary lists the assumptions and the resulting changes.  The process that knows the state
before the segment compares it with the assumptions (`can_apply_segment`) and applies the changes
(`apply_segment`).  Both cost time per strand that crosses the border, not per entry.  A summary
with a finding, or with an assumption that does not hold, is discarded, and the segment is checked
again from the true state.  So the report does not depend on how the log was divided.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Protocol

from forum.ledger.entry import MAIN_STRAND, MAX_CLOCK_SKEW_US, Entry
from forum.verify import segment_summary
from forum.verify.entry_checker import EntryChecker, StrandHead
from forum.verify.report import Problem


class RunProgress(Protocol):
    """The state of the runs of a log, in memory or on disk."""

    def find_strand(self, run: str, name: str) -> StrandHead | None:
        """Return the state of an open strand, or None."""

    def strands_of(self, run: str) -> set[str] | None:
        """Return the strands of an open run except `main`; None if the run is not open."""

    def floor_of(self, run: str) -> int:
        """Return the earliest possible time of the entries of a run, or 0."""

    def is_closed(self, run: str) -> bool:
        """Return whether a run was closed."""

    def open_run(self, run: str, floor: int) -> None:
        """Record that a run was opened."""

    def put_strand(self, run: str, name: str, strand: StrandHead) -> None:
        """Record the state of a strand of an open run."""

    def close_run(self, run: str) -> None:
        """Record that a run was closed, and drop its strands."""


class StoredRunProgress(RunProgress, Protocol):
    """The state of the runs, stored between verifications."""

    def is_session(self, run: str) -> bool:
        """Return whether a run is known to be a session."""

    def mark_session(self, run: str) -> None:
        """Record that a run is a session."""

    def open_runs(self) -> tuple[str, ...]:
        """Return the open runs in the order of their names."""


def digest_edge(edge: Iterable[bytes]) -> bytes:
    """Return a digest of the right edge of a tree, to compare two trees of the same size."""
    digest = sha256()
    for tile in edge:
        digest.update(len(tile).to_bytes(4, "big") + tile)
    return digest.digest()


def can_apply_segment(state: RunProgress, summary: segment_summary.SegmentSummary) -> bool:
    """Return whether all assumptions of a segment hold in the state before it."""
    return (
        all(_can_open(state, run.run) for run in summary.opened)
        and all(_can_touch(state, strand) for strand in summary.touched)
        and all(_can_close(state, run, summary.touched) for run in summary.closed)
    )


def apply_segment(state: RunProgress, summary: segment_summary.SegmentSummary) -> None:
    """Apply the changes of a segment, whose assumptions must hold, to the state of the runs."""
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


def _can_touch(state: RunProgress, strand: segment_summary.ContinuedStrand) -> bool:
    if state.strands_of(strand.run) is None or state.is_closed(strand.run):
        return False
    before = state.find_strand(strand.run, strand.name)
    if before is None:
        floor = state.floor_of(strand.run) - MAX_CLOCK_SKEW_US
        return strand.n == 0 and floor <= strand.lowest
    continues = (before.n, before.head) == (strand.n, strand.head)
    return strand.n > 0 and continues and before.floor <= strand.lowest


def _can_close(
    state: RunProgress,
    run: segment_summary.ClosedRun,
    touched: Iterable[segment_summary.ContinuedStrand],
) -> bool:
    """Compare the list in a close with the strands from before and in the segment."""
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
    """A checker of the entries of one segment that records the assumptions it makes."""

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401  those of EntryChecker
        super().__init__(*arguments, **named)
        self._opened: list[str] = []
        self._here: set[str] = set()
        """The runs that were opened in this segment."""
        self._touched: dict[tuple[str, str], tuple[Entry[Any], StrandHead]] = {}
        """For each strand of an earlier run: its first entry in this segment, and its state."""
        self._closes: list[segment_summary.ClosedRun] = []

    def summarize(
        self, segment: segment_summary.Segment, edge_before: bytes
    ) -> segment_summary.SegmentSummary:
        """Return the assumptions about everything before the segment, and the resulting changes."""
        touched = (
            segment_summary.ContinuedStrand(
                run=first.run,
                name=first.strand,
                n=first.n,
                head=first.prev.encode(),
                lowest=strand.floor,
                end_n=strand.n,
                end_head=strand.head,
            )
            for first, strand in self._touched.values()
        )
        return segment_summary.SegmentSummary(
            start=segment.start,
            stop=segment.stop,
            found=0,
            edge_before=edge_before,
            opened=tuple(map(self._opened_run, self._opened)),
            touched=tuple(touched),
            closed=tuple(self._closes),
            absent=tuple((leaf, name, *place) for (leaf, name), place in self._absent.items()),
            redacted=tuple(self._redacted),
            entries=self.entries,
            bodies=self.ok,
            not_checked=tuple(self.not_checked),
            unlisted=tuple(self.unlisted),
            lowest=self._lowest,
            earliest=self._earliest,
        )

    def _opened_run(self, run: str) -> segment_summary.OpenedRun:
        names = self._runs.get(run)
        if names is None:
            return segment_summary.OpenedRun(run, self.floor_of(run), open=False)
        heads = ((name, self._strands[run, name]) for name in (MAIN_STRAND, *sorted(names)))
        ends = tuple((name, strand.n, strand.head) for name, strand in heads)
        return segment_summary.OpenedRun(run, self.floor_of(run), open=True, strands=ends)

    def _begin_strand(self, index: int, entry: Entry[Any]) -> StrandHead:
        new = entry.strand == MAIN_STRAND and entry.n == 0 and entry.run not in self._runs
        if entry.run not in self._here and not new and not self.is_closed(entry.run):
            return self._assume_strand(index, entry)
        if new:
            self._here.add(entry.run)
            self._opened.append(entry.run)
        return super()._begin_strand(index, entry)

    def _assume_strand(self, index: int, entry: Entry[Any]) -> StrandHead:
        """Assume that the run was open, and that this entry is the next of its strand."""
        names = self._runs.setdefault(entry.run, set())
        if entry.strand != MAIN_STRAND:
            names.add(entry.strand)
            if not entry.n and not entry.parents:
                self._add_finding(
                    Problem.CAUSE_MISSING, "the first entry of a strand has no parent", index, entry
                )
        # The floor is unknown: assume the time of the first entry, and lower it at earlier ones.
        strand = StrandHead(entry.n, entry.prev.encode(), entry.ts)
        key = entry.run, entry.strand
        self._strands[key], self._touched[key] = strand, (entry, strand)
        return strand

    def _report_impossible_time(self, index: int, entry: Entry[Any], earliest: int) -> None:
        touched = self._touched.get((entry.run, entry.strand))
        if touched is None or not self._earliest <= entry.ts <= self._latest:
            super()._report_impossible_time(index, entry, earliest)
        else:
            # The time is possible for the segment, only earlier than the assumed floor.  Lower the
            # floor to the earliest time seen; `_can_touch` compares it with the true floor.
            touched[1].floor = entry.ts

    def _check_close(self, index: int, entry: Entry[Any]) -> None:
        run = entry.run
        if run in self._here:
            super()._check_close(index, entry)
            return
        listed = self._read_ends(index, entry)
        if listed is None:
            self.unlisted.append(run)
        self._closes.append(segment_summary.ClosedRun(run, entry.facts.strands, listed))
        # The list is compared in `_can_close`, which also knows the strands that have no entry in
        # this segment.
        for name in (MAIN_STRAND, *self._runs.pop(run, ())):
            self._strands.pop((run, name), None)
        self._closed.add(run)

    def _check_parents(self, index: int, entry: Entry[Any]) -> None:
        super()._check_parents(index, entry)
        # Look up a parent before the segment only once, however many entries name it.
        self._young.update(parent.encode() for parent in entry.parents)
