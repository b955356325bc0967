"""The audit of a log by a witness before it cosigns a checkpoint: every entry is checked once.

The state of the previous audit (its checkpoint and the progress of every run) is on disk, so memory
does not grow with the log.  Findings refute only the claims Intact and Complete: a witness does not
judge which other witnesses have seen the log.
"""

from collections.abc import Iterator

import msgspec

from forum.errors import Malformed
from forum.ledger.entry import peek_run
from forum.ledger.kinds import Kinds
from forum.ledger.ports import Reader
from forum.tlog import Checkpoint, Tree
from forum.verify import ledger_audit, segment_summary
from forum.verify.checkpoint_times import MAX_TIME_US
from forum.verify.entry_checker import EntryChecker
from forum.verify.report import Bodies, Finding, Problem
from forum.verify.segment_checker import StoredRunProgress
from forum.verify.trust import Trust


class GrowthReport(msgspec.Struct, frozen=True):
    """The result of auditing the entries that were added to a log."""

    audited: segment_summary.VerifiedCheckpoint
    """The checkpoint up to which there is no finding: the new one, or else the previous one."""
    entries: int
    bodies: Bodies
    findings: tuple[Finding, ...] = ()
    found: int = 0

    @property
    def holds(self) -> bool:
        """Whether there are no findings."""
        return not self.found


class AuditReport(msgspec.Struct, frozen=True):
    """The last report of an auditing witness about a log, stored as JSON."""

    schema: str
    origin: str
    asked_size: int
    asked_root: str
    held: bool
    audited_size: int
    """The size of the tree up to which there is no finding."""
    entries: int
    """The number of entries checked in this audit."""
    bodies_seen: int
    """The number of bodies in this audit that are stored and match their commitments."""
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
    last: segment_summary.VerifiedCheckpoint | None,
    state: StoredRunProgress,
) -> GrowthReport:
    """Check all entries up to a checkpoint that were not audited before, and update the state.

    The caller may store the state only if the report has no findings.
    """
    begin = last or segment_summary.VerifiedCheckpoint(target.origin, 0, Tree().root().hex(), now)
    return _GrowthAudit(reader, kinds, Trust(), now).check(target, begin, state)


class _GrowthAudit(ledger_audit.LedgerAudit):
    """The state of one audit of new entries."""

    def check(
        self, target: Checkpoint, last: segment_summary.VerifiedCheckpoint, state: StoredRunProgress
    ) -> GrowthReport:
        """Check the new entries segment by segment, then the sessions; return the report."""
        self._check_catalogue()
        if self._resume_tree(last, target) and self._resume(state, last.size):
            for segment in segment_summary.plan_segments(
                _plan_ranges(last.size, target), ledger_audit.SEGMENT_ENTRIES
            ):
                if not self._merge_new_segment(segment, state):
                    self._find_in_segment(segment, state)
                    break
        if not self._findings.count:
            self._check_new_sessions(state)
            self._check_holds(last.size)
            self._finish_directory()
        bodies = self._checker.finish()
        findings = self._findings
        audited = segment_summary.VerifiedCheckpoint(
            target.origin, target.size, target.root.hex(), self._now
        )
        return GrowthReport(
            audited=last if findings.count else audited,
            entries=self._checker.entries,
            bodies=bodies,
            findings=tuple(findings.listed),
            found=findings.count,
        )

    def _resume(self, state: StoredRunProgress, size: int) -> bool:
        """Continue the audited directory; add a finding if its end is not there."""
        if self._resume_directory(state, size):
            return True
        self._findings.add(Problem.DIRECTORY_BROKEN, "its last audited entry is not there")
        return False

    def _resume_tree(self, last: segment_summary.VerifiedCheckpoint, target: Checkpoint) -> bool:
        """Load the tree at the last checkpoint, and return whether it still has the same root.

        Adds a finding if it does not.
        """
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

    def _find_in_segment(self, segment: segment_summary.Segment, state: StoredRunProgress) -> None:
        """Check a segment again from the stored state of its runs, to produce the findings."""
        runs: set[str] = set()
        for data in self._reader.entries(segment.start, segment.stop):
            runs.add(peek_run(data or b""))
        _seed_checker(self._checker, state, runs)
        self._check_own_segment(segment, lambda _done, _all: None, 0)
        # The segment was refused for a reason, so the audit must not end without a finding.
        if not self._findings.count:
            detail = f"entries {segment.start} to {segment.stop - 1} could not be checked"
            self._findings.add(Problem.ENTRY_MISSING, detail)


def _seed_checker(checker: EntryChecker, state: StoredRunProgress, runs: set[str]) -> None:
    """Copy the stored progress of some runs into a checker."""
    for run in sorted(runs):
        names = state.strands_of(run)
        if names is not None:
            checker.open_run(run, state.floor_of(run))
            for name in ("main", *names):
                strand = state.find_strand(run, name)
                if strand is not None:
                    checker.put_strand(run, name, strand)
        elif state.is_closed(run):
            checker.close_run(run)


def _plan_ranges(start: int, target: Checkpoint) -> Iterator[segment_summary.EntryRange]:
    for low in range(start, target.size, ledger_audit.RANGE_ENTRIES):
        high = min(low + ledger_audit.RANGE_ENTRIES, target.size)
        root = bytes(target.root) if high == target.size else b""
        yield segment_summary.EntryRange(
            start=low, stop=high, floor=0, ceiling=MAX_TIME_US, root=root
        )
