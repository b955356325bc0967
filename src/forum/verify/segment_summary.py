"""Messages between the processes that check segments of a log and the one that merges them.

All are plain values, because they are sent from one process to another.
"""

from collections.abc import Iterable, Iterator

import msgspec

from forum.units import format_moment
from forum.verify.run_tally import RunTally


class EntryRange(msgspec.Struct, frozen=True, array_like=True):
    """A range of entries that is read at once, with its time bounds and its signed root."""

    start: int
    stop: int
    floor: int
    """The cosignature time of the last checkpoint before the range."""
    ceiling: int
    """The cosignature time of the first checkpoint after the range."""
    root: bytes = b""
    """The root that was signed for a tree of size `stop`; empty if there is none."""
    witnessed: int = 0
    """The ceiling if it is a cosignature time, and 0 if it is not."""


class Segment(msgspec.Struct, frozen=True, array_like=True):
    """Consecutive ranges that one process checks in order."""

    steps: tuple[EntryRange, ...]

    @property
    def start(self) -> int:
        """The index of the first entry."""
        return self.steps[0].start

    @property
    def stop(self) -> int:
        """The index after the last entry."""
        return self.steps[-1].stop


def plan_segments(steps: Iterable[EntryRange], entries: int) -> Iterator[Segment]:
    """Yield segments of consecutive ranges with at least `entries` entries; the last has fewer."""
    gathered: list[EntryRange] = []
    for step in steps:
        gathered.append(step)
        if step.stop - gathered[0].start >= entries:
            yield Segment(tuple(gathered))
            gathered = []
    if gathered:
        yield Segment(tuple(gathered))


class ContinuedStrand(msgspec.Struct, frozen=True, array_like=True):
    """A strand of a run that was open before the segment: its first and last entry here."""

    run: str
    name: str
    n: int
    """The first position in this segment; 0 if the strand begins here."""
    head: bytes
    """The id of the previous entry, as the first entry in this segment names it."""
    lowest: int
    """The earliest time of an entry of the strand in this segment."""
    end_n: int
    end_head: bytes


class OpenedRun(msgspec.Struct, frozen=True, array_like=True):
    """A run that is opened in the segment; it has its strands if it is still open at the end."""

    run: str
    floor: int
    open: bool
    strands: tuple[tuple[str, int, bytes], ...] = ()


class ClosedRun(msgspec.Struct, frozen=True, array_like=True):
    """A run that was open before the segment and is closed in it."""

    run: str
    count: int
    """The number of strands that the close states."""
    listed: dict[str, tuple[int, str]] | None
    """The ends of the strands that the close lists; None if the list is not stored."""


class DirectoryEvent(msgspec.Struct, frozen=True, array_like=True):
    """An opening, an entry of the directory, or, without runs and strand, a signed tree."""

    index: int
    """The index of the entry, or the size of the tree."""
    runs: tuple[str, ...] = ()
    """The run that is opened, or the runs that are named."""
    strand: str = ""
    """The run and the strand of an entry that names runs, or should."""
    n: int = 0
    first: int | None = None
    """How many runs it says are named before it; None if it is of another kind."""
    since: int = 0


class SegmentSummary(msgspec.Struct, frozen=True, array_like=True):
    """The result of checking a segment, with the assumptions about everything before it."""

    start: int
    stop: int
    found: int
    """The number of findings.  If there are any, the other fields are not used."""
    edge_before: bytes
    """The digest of the right edge of the tree before the segment, from the stored tiles."""
    edge: tuple[bytes, ...] = ()
    opened: tuple[OpenedRun, ...] = ()
    touched: tuple[ContinuedStrand, ...] = ()
    closed: tuple[ClosedRun, ...] = ()
    absent: tuple[tuple[str, str, int, str], ...] = ()
    redacted: tuple[tuple[str, str], ...] = ()
    entries: int = 0
    bodies: int = 0
    """The number of bodies that match their commitments."""
    unknown: dict[str, int] = {}
    sessions: tuple[str, ...] = ()
    """The runs that are replayed: sessions, and runs that name the rules of their calls."""
    not_checked: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    """The runs whose closing list of strands is no longer stored."""
    strands: int = 0
    """The number of strands that begin in the segment."""
    tallies: dict[str, RunTally] = {}
    """The tallies of the segment, from which accounts and timers follow, keyed by run."""
    unversioned: int = 0
    """The number of runs accepted in the segment that name no version of the call rules."""
    lowest: int = 0
    """The earliest time of an entry in the segment."""
    earliest: int = 0
    """The earliest time that an entry behind the segment can have, by the order of the log."""
    directory: tuple[DirectoryEvent, ...] = ()
    """The openings, entries of the directory and signed trees of the segment, in their order."""
    coverage: dict[str, int] = {}
    """How runs are known, see `report_checker.ReportChecker.counts`."""


class VerifiedCheckpoint(msgspec.Struct, frozen=True):
    """The checkpoint of a verification without findings, with what the next one needs."""

    origin: str
    size: int
    root: str
    checked_at: int
    """In microseconds since 1970."""
    floor: int = 0
    """The latest cosignature time of a checkpoint so far."""

    witnessed: int = 0
    """The size of the newest checkpoint that the reader's policy accepted."""

    @property
    def checked_at_text(self) -> str:
        """The time of the check as text, in UTC."""
        return format_moment(self.checked_at)
