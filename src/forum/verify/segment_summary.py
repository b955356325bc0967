"""What is said between those who check segments of a log and whoever puts them together.

Plain values: they go from one process to another.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from forum.verify.run_tally import RunTally


class EntryRange(msgspec.Struct, frozen=True, array_like=True):
    """Entries that are read at once, and what the checkpoints say of them."""

    start: int
    stop: int
    floor: int
    """When the last checkpoint before them was cosigned."""
    ceiling: int
    """When the first checkpoint behind them was cosigned."""
    root: bytes = b""
    """The root that was signed for `stop`; empty if none was."""


class Segment(msgspec.Struct, frozen=True, array_like=True):
    """Steps that one process takes in one after another."""

    steps: tuple[EntryRange, ...]

    @property
    def start(self) -> int:
        """The index of its first entry."""
        return self.steps[0].start

    @property
    def stop(self) -> int:
        """The index behind its last entry."""
        return self.steps[-1].stop


def plan_segments(steps: Iterable[EntryRange], entries: int) -> Iterator[Segment]:
    """Put steps together to segments of about so many entries."""
    gathered: list[EntryRange] = []
    for step in steps:
        gathered.append(step)
        if step.stop - gathered[0].start >= entries:
            yield Segment(tuple(gathered))
            gathered = []
    if gathered:
        yield Segment(tuple(gathered))


class ContinuedStrand(msgspec.Struct, frozen=True, array_like=True):
    """A strand of a run that was open before the segment: where it is taken up, how it ends."""

    run: str
    name: str
    n: int
    """The first position in this segment: 0 if the strand begins here."""
    head: bytes
    """What the first entry here names as the one before it."""
    lowest: int
    """The earliest time that an entry here has."""
    end_n: int
    end_head: bytes


class OpenedRun(msgspec.Struct, frozen=True, array_like=True):
    """A run that begins in the segment, with its strands if it is open at the end."""

    run: str
    floor: int
    open: bool
    strands: tuple[tuple[str, int, bytes], ...] = ()


class ClosedRun(msgspec.Struct, frozen=True, array_like=True):
    """A run that was open before the segment and is closed in it."""

    run: str
    count: int
    """How many strands its close says that it has."""
    listed: dict[str, tuple[int, str]] | None
    """How these ended, as the close lists them; None if the list is gone."""


class SegmentSummary(msgspec.Struct, frozen=True, array_like=True):
    """What came of a segment under what was assumed of everything before it."""

    start: int
    stop: int
    found: int
    """How many findings there were.  With any, nothing else here counts."""
    edge_before: bytes
    """Digest of the edge of the tree before the segment, as the stored tiles have it."""
    edge: tuple[bytes, ...] = ()
    opened: tuple[OpenedRun, ...] = ()
    touched: tuple[ContinuedStrand, ...] = ()
    closed: tuple[ClosedRun, ...] = ()
    absent: tuple[tuple[str, str, int, str], ...] = ()
    redacted: tuple[tuple[str, str], ...] = ()
    entries: int = 0
    bodies: int = 0
    """How many bodies were found as they were recorded."""
    unknown: dict[str, int] = {}
    sessions: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    """The runs whose list of strands is gone."""
    strands: int = 0
    """How many strands begin in the segment."""
    tallies: dict[str, RunTally] = {}
    """What the segment says of the accounts and timers of runs."""


class VerifiedCheckpoint(msgspec.Struct, frozen=True):
    """The checkpoint of a verification that held, and what the next one needs of it."""

    origin: str
    size: int
    root: str
    checked_at: int
    """In microseconds since 1970."""
    floor: int = 0
    """When the last cosigned checkpoint so far was cosigned."""

    witnessed: int = 0
    """The size of the newest checkpoint that the reader's policy accepted."""

    @property
    def checked_at_text(self) -> str:
        """When it was, as people write it."""
        return datetime.fromtimestamp(self.checked_at / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
