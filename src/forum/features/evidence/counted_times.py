"""The time by which an entry counts: what its writer says, as far as witnesses leave that open.

A witnessed checkpoint without the entry says that it came later, and one with it that it was there.
So whatever its writer says, an entry that witnesses first saw within a period counts in it.  At
each end of a period, the last checkpoint that they saw before that moment and the first one behind
it decide.  Two packs that meet there hold the same two, so that no entry is in neither or in both.
"""

from bisect import bisect_right
from enum import StrEnum
from itertools import accumulate

from forum.errors import SignatureRejected
from forum.features.evidence.log_part import LogPart
from forum.tlog import Note, WitnessPolicy, parse_checkpoint, quorum_time, verify_cosignatures

SECOND = 1_000_000


class CountedBy(StrEnum):
    """What decides, at both ends of a period, which entries are in it."""

    WITNESSED = "witnessed"
    WRITER = "writer"


def is_seen_since(seen: int, moment: int) -> bool:
    """Return whether witnesses saw a checkpoint at a moment or later; never if `seen` is 0.

    They state whole seconds, and may have cosigned up to a second later.
    """
    return seen > 0 and seen + SECOND > moment


def find_seen_time(note: bytes, policy: WitnessPolicy) -> int:
    """Return when the witnesses of a policy saw a checkpoint, in microseconds; 0 if too few have.

    Raises `SignatureRejected` if a cosignature does not hold.
    """
    cosignatures = verify_cosignatures(Note.parse(note), policy.witness_keys)
    return quorum_time(cosignatures, policy) * SECOND


def _read_seen_time(note: bytes, policy: WitnessPolicy | None) -> int:
    """Return when witnesses saw a checkpoint; 0 as well if a cosignature does not hold."""
    try:
        return find_seen_time(note, policy) if policy else 0
    except SignatureRejected:
        return 0


class CountedTimes:
    """The times by which the entries of a log part count."""

    def __init__(self, part: LogPart, policy: WitnessPolicy | None) -> None:
        """Without a policy, every entry counts by the time of its writer."""
        self.start = _read_seen_time(part.start, policy) if part.start else None
        """When witnesses saw the tree of the start, if there is one; 0 if that is unknown."""
        self.seen = tuple(_read_seen_time(note, policy) for note in part.seen)
        self.end = _read_seen_time(part.end, policy)
        sizes = [part.first, *(parse_checkpoint(note).size for note in (*part.seen, part.end))]
        dated = [(size, time) for size, time in zip(sizes, self.all, strict=True) if time]
        self._sizes = [size for size, _ in dated]
        self._times = [time for _, time in dated]
        # A witness whose clock was wrong for a while cannot date an entry before what it follows.
        self._floors = list(accumulate(self._times, max, initial=0))

    @property
    def all(self) -> tuple[int, ...]:
        """When witnesses saw each checkpoint, from the start to the end; 0 where it is unknown."""
        return self.start or 0, *self.seen, self.end

    def time_of(self, index: int, ts: int) -> int:
        """Return the time by which an entry counts whose writer says `ts`."""
        place = bisect_right(self._sizes, index)
        if place < len(self._times):
            ts = min(ts, self._times[place] + SECOND - 1)
        return max(ts, self._floors[place])

    def decide(self, since: int, until: int) -> CountedBy:
        """Return what decides which entries are in a period."""
        is_begun = self.start is None or 0 < self.start <= since - SECOND
        is_decided = is_begun and is_seen_since(self.end, until)
        return CountedBy.WITNESSED if is_decided else CountedBy.WRITER
