"""The audit of a log by a witness: all of it, each entry once, before a checkpoint is cosigned.

What was audited before is known by its checkpoint and by how far every run had come, which is kept
on disk; memory does not grow with the log.  A finding here is one under Intact or Complete: who
else has seen the log is not for a witness to say.
"""

from collections.abc import Iterator

import msgspec

from forum.errors import Malformed
from forum.ledger import Kinds, Reader, peek_run
from forum.tlog import Checkpoint, Tree
from forum.verify.chronicle import Chronicle
from forum.verify.incremental import KeptState
from forum.verify.live import SEGMENT, STEP, LedgerAudit, check_segment
from forum.verify.report import Bodies, Finding, Problem
from forum.verify.segments import apply, edge_digest, fits
from forum.verify.summary import LastVerified, Segment, SegmentSummary, Step, plan_segments
from forum.verify.times import FOREVER
from forum.verify.trust import Trust


class GrowthReport(msgspec.Struct, frozen=True):
    """What came of the entries that a log has gained."""

    audited: LastVerified
    """The checkpoint up to which there was no finding: the new one, or the old one."""
    entries: int
    bodies: Bodies
    findings: tuple[Finding, ...] = ()
    found: int = 0

    @property
    def holds(self) -> bool:
        """Whether nothing was found."""
        return not self.found


class AuditReport(msgspec.Struct, frozen=True):
    """What an auditing witness found when it was last asked about a log."""

    schema: str
    origin: str
    asked_size: int
    asked_root: str
    held: bool
    audited_size: int
    """Up to which size nothing was found."""
    entries: int
    """How many entries were checked this time."""
    bodies_seen: int
    """How many bodies were there this time, and those that were recorded."""
    bodies_redacted: int
    findings: tuple[Finding, ...]
    found: int
    time: int
    """In microseconds since 1970."""


def audit_growth(
    reader: Reader,
    kinds: Kinds,
    target: Checkpoint,
    now: int,
    *,
    last: LastVerified | None,
    state: KeptState,
) -> GrowthReport:
    """Check all entries of a checkpoint that were not audited before, and change the state.

    The state may be kept only if the report holds.
    """
    begin = last or LastVerified(target.origin, 0, Tree().root().hex(), now)
    return _Growth(reader, kinds, Trust(), now).check(target, begin, state)


class _Growth(LedgerAudit):
    """One audit under way."""

    def check(self, target: Checkpoint, last: LastVerified, state: KeptState) -> GrowthReport:
        """Take in the new entries segment by segment, then what only the end can tell."""
        if self._begin_at(last, target):
            for segment in plan_segments(_steps(last.size, target), SEGMENT):
                if not self._take_over(segment, state):
                    self._name_findings(segment, state)
                    break
        if not self._findings.count:
            for run in self._sessions.runs:
                state.mark_session(run)
                self._sessions.check(run, self._signed_entries(run))
        bodies = self._chronicle.finish()
        findings = self._findings
        audited = LastVerified(target.origin, target.size, target.root.hex(), self._now)
        return GrowthReport(
            audited=last if findings.count else audited,
            entries=self._chronicle.entries,
            bodies=bodies,
            findings=tuple(findings.listed),
            found=findings.count,
        )

    def _begin_at(self, last: LastVerified, target: Checkpoint) -> bool:
        """Take up the tree where it was left; tell whether it is still that tree."""
        if last.size == target.size and last.root != target.root.hex():
            detail = f"another tree of size {last.size} was audited"
            self._findings.add(Problem.ROOT_MISMATCH, detail)
            return False
        try:
            self._tree = Tree.load(last.size, self._reader.read_tile)
        except Malformed as error:
            self._findings.add(Problem.LEAF_MISMATCH, str(error))
            return False
        if self._tree.root().hex() == last.root:
            return True
        detail = f"the tiles do not have the root that was audited for size {last.size}"
        self._findings.add(Problem.ROOT_MISMATCH, detail)
        return False

    def _take_over(self, segment: Segment, state: KeptState) -> bool:
        summary = check_segment(self._reader, self._kinds, self._chronicle.times, segment)
        wrong = summary.found or summary.edge_before != edge_digest(self._tree.edge)
        if wrong or not fits(state, summary):
            return False
        self._adopt_growth(summary, state)
        return True

    def _adopt_growth(self, summary: SegmentSummary, state: KeptState) -> None:
        sessions = {s.run: None for s in summary.touched if state.is_session(s.run)}
        apply(state, summary)
        self._chronicle.adopt(summary)
        self._tree = Tree.resume(summary.stop, summary.edge)
        self._sessions.runs.update({**sessions, **dict.fromkeys(summary.sessions)})

    def _name_findings(self, segment: Segment, state: KeptState) -> None:
        """Check a segment again, knowing of its runs all that is kept, to say what is wrong."""
        runs: set[str] = set()
        for data in self._reader.entries(segment.start, segment.stop):
            runs.add(peek_run(data or b""))
        _seed(self._chronicle, state, runs)
        self._take_segment(segment, lambda _done, _all: None, 0)
        if not self._findings.count:
            detail = f"entries {segment.start} to {segment.stop - 1} could not be checked"
            self._findings.add(Problem.ENTRY_MISSING, detail)


def _seed(chronicle: Chronicle, state: KeptState, runs: set[str]) -> None:
    """Let a chronicle know how far some runs have come."""
    for run in sorted(runs):
        names = state.strands_of(run)
        if names is not None:
            chronicle.open_run(run, state.floor_of(run))
            for name in ("main", *names):
                strand = state.find_strand(run, name)
                if strand is not None:
                    chronicle.put_strand(run, name, strand)
        elif state.is_closed(run):
            chronicle.close_run(run)


def _steps(start: int, target: Checkpoint) -> Iterator[Step]:
    for low in range(start, target.size, STEP):
        high = min(low + STEP, target.size)
        root = bytes(target.root) if high == target.size else b""
        yield Step(low, high, 0, FOREVER, root)
