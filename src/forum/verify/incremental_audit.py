"""Verification of the entries added since an earlier verification without findings.

The earlier verification has stored its checkpoint and the progress of every run.  New entries are
checked as segments, from that state and from the tree of that checkpoint, which must be a prefix of
the current tree.  If anything looks wrong, there is no report, and the caller verifies everything.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from forum.errors import Malformed
from forum.ledger.kinds import Kinds
from forum.ledger.ports import EntryRow, Reader
from forum.ledger.write_tags import WriteKeys
from forum.tlog import Tree
from forum.verify import ledger_audit, segment_checker
from forum.verify.report import ONLY_RECORDED, ClaimResult, Report, State
from forum.verify.segment_summary import VerifiedCheckpoint, plan_segments
from forum.verify.trust import Trust

MAX_PENDING_ENTRIES = 1_000_000
"""The maximum number of unsigned entries to read, whatever size the head of the log claims."""


def verify_since(  # noqa: PLR0913  independent parameters
    reader: Reader,
    kinds: Kinds,
    trust: Trust,
    now: int,
    *,
    last: VerifiedCheckpoint,
    state: segment_checker.StoredRunProgress,
    progress: ledger_audit.Progress = lambda _done, _all: None,
    write_keys: WriteKeys | None = None,
) -> tuple[Report, VerifiedCheckpoint] | None:
    """Check the entries since the last verification without findings, and update the state.

    Returns the report and the checkpoint for the next verification, or None if everything has to be
    verified.  The caller may store the state only if the report has no findings.
    """
    audit = _IncrementalAudit(reader, kinds, trust, now, write_keys=write_keys)
    return audit.check(last, state, progress)


class PastCheckpointTimes(dict[tuple[int, str], int]):
    """Cosignature times of checkpoints; an earlier one is read when a run names it."""

    def __init__(self, audit: "_IncrementalAudit") -> None:
        super().__init__()
        self._audit = audit

    def get(self, key: tuple[int, str], default: int | None = None) -> int | None:  # type: ignore[override]
        """Return the cosignature time of a signed checkpoint, and open the checkpoint if needed."""
        if key not in self:
            self._audit.open_past(key[0])
        return super().get(key, default)


class _IncrementalAudit(ledger_audit.LedgerAudit):
    """The state of one verification of new entries."""

    def check(
        self,
        last: VerifiedCheckpoint,
        state: segment_checker.StoredRunProgress,
        progress: ledger_audit.Progress,
    ) -> tuple[Report, VerifiedCheckpoint] | None:
        """Check new entries by segments, then sessions, pending entries and past checkpoints.

        Returns None if everything has to be verified.
        """
        if not self._trust.log_keys or last.origin != self._reader.origin:
            return None
        self._checker.times = PastCheckpointTimes(self)
        self._first_floor = last.floor
        self._check_catalogue()
        self._read_checkpoints(last.size)
        self.open_past(last.witnessed)
        if not self._resume_tree(last) or not self._resume_directory(state, last.size):
            return None
        if not self._check_segments(last, state, progress):
            return None
        size = self._signed[-1].size
        self._check_new_sessions(state)
        self._check_holds(last.size)
        self._finish_directory()
        if self._findings.count or self._checker.list_unexplained_bodies():
            return None
        pending = self._check_pending(size)
        self._check_memories()
        report = self._describe(self._report(size, pending), last, state)
        # Keep the time of the last full verification: the older entries were not checked now.
        return report, replace(self._last_verified(), checked_at=last.checked_at)

    def open_past(self, size: int) -> None:
        """Open the newest checkpoint of at most this size, if the log has one."""
        data = self._reader.checkpoint(size)
        if data is not None:
            self._open_checkpoint(data, "checkpoint")
            self._resolve_times()

    def _resume_tree(self, last: VerifiedCheckpoint) -> bool:
        """Load the tree at the last checkpoint, and return whether it still has the same root."""
        # A note in these rows that names a smaller size does not extend the last checkpoint.
        if self._findings.count or not self._signed or self._signed[0].size < last.size:
            return False
        try:
            self._tree = Tree.load(last.size, self._reader.read_tile)
        except Malformed:
            return False
        return self._tree.root().hex() == last.root

    def _check_segments(
        self,
        last: VerifiedCheckpoint,
        state: segment_checker.StoredRunProgress,
        progress: ledger_audit.Progress,
    ) -> bool:
        end = self._signed[-1].size
        for segment in plan_segments(self._plan_ranges(last.size), ledger_audit.SEGMENT_ENTRIES):
            if not self._merge_new_segment(segment, state):
                return False
            progress(segment.stop - last.size, end - last.size)
        return True

    def _stored_beyond(self, size: int) -> tuple[int, int]:
        # Do not count all rows: that takes time in proportion to the whole log.  The report lists
        # this as not checked.  The limit guards against a forged size in the head.
        return min(self._head_size(), size + MAX_PENDING_ENTRIES), 0

    def _check_tables(self, waiting: list[EntryRow]) -> None:
        """Skip the tables: their expected content follows from all entries of the log."""

    def _describe(
        self, report: Report, last: VerifiedCheckpoint, state: segment_checker.StoredRunProgress
    ) -> Report:
        """Return the report with reasons that name the range of entries that was checked."""
        opened = state.open_runs()
        new = f"{report.entries} entries since entry {last.size}"
        intact = f"{new}, every leaf and link{self._sessions.describe_played()}"
        complete = f"no gap in the runs that went on or began since, {len(opened)} runs still open"
        complete += ONLY_RECORDED if report.coverage.is_told else ""
        return replace(
            report,
            intact=_with_reason(report.intact, intact),
            complete=_with_reason(report.complete, complete),
            open_runs=opened,
            not_checked=(*_list_not_checked(last), *report.not_checked),
        )


def _with_reason(answer: ClaimResult, reason: str) -> ClaimResult:
    return ClaimResult(answer.state, reason) if answer.state is State.HOLDS else answer


def _list_not_checked(last: VerifiedCheckpoint) -> Iterator[str]:
    if last.size:
        checked_at = last.checked_at_text
        yield f"entries 0 to {last.size - 1} were checked at {checked_at} or later, not now"
    yield "whether rows are stored that are not in the log: they were not counted"
    yield "accounts, timers and idempotency keys: they were not recomputed"
    yield "rows that were set aside, and the heads of strands: they were not looked at"
