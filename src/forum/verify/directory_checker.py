"""Checks the directory of a log: whether it names every run as it was opened.

The checker receives the openings and the entries of the directory in index order.  The openings
that are not named yet form a queue; each name must be that of its first run.  A segment that
another process checks is recorded as a list of events, which are few, and replayed here.
"""

from collections import deque
from typing import Any

from forum.ledger.entry import LOG_RUN, MAIN_STRAND, Entry
from forum.ledger.kinds import RunsOpenedFacts
from forum.ledger.ports import EntryRow
from forum.ledger.strand import RUNS_STRAND
from forum.verify.report import Findings, Problem
from forum.verify.segment_summary import DirectoryEvent

_MAX_LISTED = 20
_DIRECTORY = f"{LOG_RUN}/{RUNS_STRAND}"


class DirectoryRecorder:
    """Records the events of a segment, whose state before it is not known."""

    def __init__(self) -> None:
        self.events: list[DirectoryEvent] = []

    def check_entry(self, index: int, entry: Entry[Any]) -> None:
        """Record an entry if it opens a run, or belongs to the directory."""
        event = _event_of(index, entry)
        if event is not None:
            self.handle(event)

    def pass_unreachable(self, index: int, row: EntryRow) -> None:
        """Record the opening of a run whose archive is away, from the columns of the row.

        Nobody can compare them with the entry, which is reported as not checked.
        """
        if row.strand == MAIN_STRAND and not row.n and row.run != LOG_RUN:
            self.handle(DirectoryEvent(index, (row.run,)))

    def sign(self, size: int) -> None:
        """Record that a tree of this size was signed."""
        self.handle(DirectoryEvent(size))

    def handle(self, event: DirectoryEvent) -> None:
        """Record an event."""
        self.events.append(event)


class DirectoryChecker(DirectoryRecorder):
    """Compares the directory with the openings."""

    def __init__(self, findings: Findings) -> None:
        super().__init__()
        self._findings = findings
        self._unnamed: deque[tuple[str, int]] = deque()
        self._named: int | None = None
        """The number of runs that the directory names so far; None if it has not begun."""
        self._signed = 0
        self._late = 0

    def resume(self, named: int | None, signed: int) -> None:
        """Begin behind entries that were checked before, without a finding."""
        self._named, self._signed = named, signed

    def handle(self, event: DirectoryEvent) -> None:
        """Take the next event of the log."""
        if event.strand:
            self._take_names(event)
        elif event.runs:
            self._unnamed.append((event.runs[0], event.index))
        elif self._named is None:
            # A directory that begins later does not reach back before a signed tree.
            self._unnamed.clear()
        else:
            self._late += sum(index >= self._signed for _, index in self._unnamed)
            self._signed = event.index

    def finish(self) -> tuple[str, ...]:
        """Report the runs that the newest signed tree leaves out, and return notices."""
        if self._named is None:
            return ()
        for run, index in list(self._unnamed)[:_MAX_LISTED]:
            self._add("no entry of the directory names this run", index, f"{run}/{MAIN_STRAND}/0")
        late = self._late - len(self._unnamed)
        if late <= 0:
            return ()
        when = "after a tree that holds them was signed"
        by = "a process of an earlier release, or a stranger, gave them their indexes"
        return (f"{late} runs were named in the directory {when}: {by}",)

    def _take_names(self, event: DirectoryEvent) -> None:
        where = f"{event.strand}/{event.n}"
        if event.strand != _DIRECTORY or event.first is None:
            self._add("this entry does not belong into its strand", event.index, where)
            return
        if self._named is None:
            self._named = 0
            while self._unnamed and self._unnamed[0][1] < event.since:
                self._unnamed.popleft()
        elif event.since:
            self._add("the directory begins a second time", event.index, where)
        if event.first != self._named:
            detail = f"it counts {event.first} runs before it, and there are {self._named}"
            self._add(detail, event.index, where)
        self._named += len(event.runs)
        for run in event.runs:
            self._take_name(run, event.index, where)

    def _take_name(self, run: str, index: int, where: str) -> None:
        if self._unnamed and self._unnamed[0][0] == run:
            self._unnamed.popleft()
            return
        for place, (other, _) in enumerate(self._unnamed):
            if other == run:
                del self._unnamed[place]
                detail = f"it names run {run} before run {self._unnamed[0][0]}, which opened first"
                self._add(detail, index, where)
                return
        detail = f"it names run {run}, which was named before or opened nowhere before it"
        self._add(detail, index, where)

    def _add(self, detail: str, index: int, where: str) -> None:
        self._findings.add(Problem.DIRECTORY_BROKEN, detail, index, where)


def _event_of(index: int, entry: Entry[Any]) -> DirectoryEvent | None:
    facts, strand = entry.facts, f"{entry.run}/{entry.strand}"
    if isinstance(facts, RunsOpenedFacts):
        return DirectoryEvent(
            index, facts.runs, strand, entry.n, first=facts.first, since=facts.since
        )
    if strand == _DIRECTORY:
        return DirectoryEvent(index, (), strand, entry.n)
    if entry.strand == MAIN_STRAND and not entry.n and entry.run != LOG_RUN:
        return DirectoryEvent(index, (entry.run,))
    return None
