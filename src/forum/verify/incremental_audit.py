"""Verification of what is new since an earlier one that held, without reading the rest again.

The earlier one has left its checkpoint, and how far every run had come.  What is new is checked
as segments are: from that state, and from the tree of that checkpoint, which must be the tree that
the log has now.  Nothing is decided here that looks wrong: then there is no report, and whoever
asked verifies everything.
"""

from collections.abc import Iterator
from typing import Protocol

from msgspec.structs import replace

from forum.errors import Malformed
from forum.ledger import EntryRow, Kinds, Reader, WriteKeys
from forum.tlog import Tree
from forum.verify.ledger_audit import SEGMENT_ENTRIES, LedgerAudit, Progress, check_segment
from forum.verify.report import ClaimResult, Report, State
from forum.verify.segment_checker import RunProgress, apply_segment, can_apply_segment, digest_edge
from forum.verify.segment_summary import SegmentSummary, VerifiedCheckpoint, plan_segments
from forum.verify.trust import Trust

MAX_PENDING_ENTRIES = 1_000_000
"""How many entries behind the checkpoint are looked at, whatever the log says that it has."""


class StoredRunProgress(RunProgress, Protocol):
    """The state of runs as it is kept from one verification to the next."""

    def is_session(self, run: str) -> bool:
        """Tell whether a run is known to hold a deliberation."""
        ...

    def mark_session(self, run: str) -> None:
        """Keep that a run holds a deliberation."""
        ...

    def open_runs(self) -> tuple[str, ...]:
        """Return the runs that are open, in the order of their names."""
        ...


def verify_since(  # noqa: PLR0913  each is another part of what is asked
    reader: Reader,
    kinds: Kinds,
    trust: Trust,
    now: int,
    *,
    last: VerifiedCheckpoint,
    state: StoredRunProgress,
    progress: Progress = lambda _done, _all: None,
    write_keys: WriteKeys | None = None,
) -> tuple[Report, VerifiedCheckpoint] | None:
    """Check what is new since a verification that held, and change the state accordingly.

    Return the report and what the next verification needs; nothing if everything has to be
    checked.  The state may be kept only if the report holds.
    """
    audit = _IncrementalAudit(reader, kinds, trust, now, write_keys=write_keys)
    return audit.check(last, state, progress)


class PastCheckpointTimes(dict[tuple[int, str], int]):
    """When checkpoints were cosigned; earlier ones are read when a run names them."""

    def __init__(self, audit: "_IncrementalAudit") -> None:
        super().__init__()
        self._audit = audit

    def get(self, key: tuple[int, str], default: int | None = None) -> int | None:  # type: ignore[override]
        """Return the time of a signed checkpoint."""
        if key not in self:
            self._audit.open_past(key[0])
        return super().get(key, default)


class _IncrementalAudit(LedgerAudit):
    """One verification of new entries under way."""

    def check(
        self, last: VerifiedCheckpoint, state: StoredRunProgress, progress: Progress
    ) -> tuple[Report, VerifiedCheckpoint] | None:
        """Check the new entries segment by segment, then what only the end can tell."""
        if not self._trust.log_keys or last.origin != self._reader.origin:
            return None
        self._chronicle.times = PastCheckpointTimes(self)
        self._first_floor = last.floor
        self._read_checkpoints(last.size)
        self.open_past(last.witnessed)
        if not self._resume_tree(last) or not self._check_segments(last, state, progress):
            return None
        size = self._signed[-1].size
        for run in self._sessions.runs:
            state.mark_session(run)
            self._sessions.check_session(run, self._signed_entries(run))
        if self._findings.count or self._chronicle.list_unexplained_bodies():
            return None
        pending = self._check_pending(size)
        self._check_memories()
        report = self._describe(self._report(size, pending), last, state)
        # What was there before was checked then, and not now.
        return report, replace(self._last_verified(), checked_at=last.checked_at)

    def open_past(self, size: int) -> None:
        """Open the checkpoint of a size, if the log has it."""
        data = self._reader.checkpoint(size)
        if data is not None:
            self._open_checkpoint(data)
            self._resolve_times()

    def _resume_tree(self, last: VerifiedCheckpoint) -> bool:
        """Take up the tree where it was left; tell whether it is still that tree."""
        # What is signed for an earlier size is no continuation of that checkpoint.
        if self._findings.count or not self._signed or self._signed[0].size < last.size:
            return False
        try:
            self._tree = Tree.load(last.size, self._reader.read_tile)
        except Malformed:
            return False
        return self._tree.root().hex() == last.root

    def _check_segments(
        self, last: VerifiedCheckpoint, state: StoredRunProgress, progress: Progress
    ) -> bool:
        end = self._signed[-1].size
        for segment in plan_segments(self._plan_ranges(last.size), SEGMENT_ENTRIES):
            summary = check_segment(self._reader, self._kinds, self._chronicle.times, segment)
            wrong = summary.found or summary.edge_before != digest_edge(self._tree.edge)
            if wrong or not can_apply_segment(state, summary):
                return False
            self._merge_into_state(summary, state)
            progress(segment.stop - last.size, end - last.size)
        return True

    def _merge_into_state(self, summary: SegmentSummary, state: StoredRunProgress) -> None:
        # Before the state changes: a run that is closed here is forgotten with its strands.
        sessions = {s.run: None for s in summary.touched if state.is_session(s.run)}
        apply_segment(state, summary)
        self._chronicle.merge_summary(summary)
        self._tree = Tree.resume(summary.stop, summary.edge)
        self._unknown.update(summary.unknown)
        self._sessions.runs.update({**sessions, **dict.fromkeys(summary.sessions)})

    def _stored_beyond(self, size: int) -> tuple[int, int]:
        # Counting all rows takes longer the longer the log is: it is said that nobody did.
        return min(self._head_size(), size + MAX_PENDING_ENTRIES), 0

    def _check_tables(self, waiting: list[EntryRow]) -> None:
        """Compare nothing: what the tables must say follows from all entries."""

    def _describe(
        self, report: Report, last: VerifiedCheckpoint, state: StoredRunProgress
    ) -> Report:
        """Say of what the answers are, and of what not."""
        opened = state.open_runs()
        new = f"{report.entries} entries since entry {last.size}"
        intact = f"{new}, every leaf and link{self._sessions.describe_played()}"
        complete = f"no gap in the runs that went on or began since, {len(opened)} runs still open"
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
