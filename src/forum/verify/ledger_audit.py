"""Verification of a whole ledger up to its newest signed checkpoint.

The audit recomputes the tree from the stored entries and compares it with every signed checkpoint,
checks each entry against all entries before it, audits sessions, and compares the tables of the
database with the entries.  Segments of the log can be checked in other processes; the report does
not depend on that.
"""

from binascii import hexlify
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import Any, Protocol

from msgspec.structs import replace

from forum import tlog
from forum.errors import ForumError, Malformed, ProofRejected
from forum.ledger import redaction
from forum.ledger.body import StoredBody
from forum.ledger.entry import LOG_RUN, MAX_CLOCK_SKEW_US, Entry, leaf_of, peek_kind, peek_run
from forum.ledger.kinds import Kinds, RunsOpenedFacts
from forum.ledger.ports import EntryRow, Position, Reader
from forum.ledger.retention_holds import RULE_KINDS, HoldOrder
from forum.ledger.strand import RUNS_STRAND
from forum.ledger.witness_records import WitnessRecords, find_records
from forum.ledger.write_tags import WriteKeys
from forum.runs.kinds import ScoreFacts
from forum.runs.record_comparison import IndexedEntry
from forum.runs.scores import find_score_fault
from forum.verify import entry_checker, segment_checker, segment_summary
from forum.verify.body_pages import BodyPages
from forum.verify.checkpoint_times import CheckpointTimes
from forum.verify.directory_checker import DirectoryChecker, DirectoryRecorder
from forum.verify.log_keys import read_ledger_log_keys
from forum.verify.report import (
    ONLY_RECORDED,
    Claim,
    ClaimResult,
    Problem,
    Report,
    State,
    empty_report,
    foreign_report,
)
from forum.verify.report_checker import ReportChecker, coverage_of
from forum.verify.session_checker import SessionChecker, SessionSummary
from forum.verify.summary_audit import audit_summaries
from forum.verify.table_audit import TableAudit
from forum.verify.trust import NO_KEY, Trust

GRACE_PERIOD_US = 10 * 1_000_000
"""The time, in microseconds, that an entry may lack an index or a cosignature."""

_CHUNK_ENTRIES = 16 * tlog.TILE_WIDTH
_MAX_LOOKUPS = 2_000
"""Number of leaves after which the view of the tree is replaced: it keeps every tile it reads."""
_MAX_LISTED_RUNS = 100
_NOTHING = b""
_NO_LEAF = tlog.hash_leaf(_NOTHING)
"""The leaf hash that stands for a missing entry; no real entry is empty."""

Progress = Callable[[int, int], None]


class SegmentRunner(Protocol):
    """A service that checks segments and sessions in other processes.

    A result is None if it could not be checked there; the caller then checks it itself.
    """

    def run_segments(
        self, segments: Sequence[segment_summary.Segment], times: "CosignedTimes"
    ) -> Iterator[segment_summary.SegmentSummary | None]:
        """Yield the summary of each segment (see `check_segment`), in the given order."""

    def run_sessions(self, runs: Sequence[str], size: int) -> Iterator[SessionSummary | None]:
        """Yield the summary of each session (see `check_session`), in the given order."""


SaveRunProgress = Callable[
    [Iterable[entry_checker.RunSnapshot], segment_summary.VerifiedCheckpoint], None
]
"""A function that stores the progress of all runs of a log, replacing what was stored before."""

CosignedTimes = dict[tuple[int, str], int]
"""The cosignature time of each signed checkpoint by size and root; 0 if it was not cosigned."""

RANGE_ENTRIES = _CHUNK_ENTRIES
SEGMENT_ENTRIES = 8 * _CHUNK_ENTRIES
"""The approximate number of entries in one segment, the unit of work of a process."""


def verify_ledger(  # noqa: PLR0913  the last three have a default
    reader: Reader,
    kinds: Kinds,
    trust: Trust,
    now: int,
    progress: Progress = lambda _done, _all: None,
    *,
    runner: SegmentRunner | None = None,
    keep: SaveRunProgress | None = None,
    write_keys: WriteKeys | None = None,
    heads: Mapping[str, tuple[int, str]] | None = None,
    left: bool = False,
) -> Report:
    """Check everything in one snapshot of a ledger, and return the report.

    With a runner, segments are checked in parallel in other processes, whose snapshots must not be
    older than this one; the report is the same.  If there are no findings, `keep` receives the
    progress of the runs, so that a later verification can check only new entries.  With the write
    keys of the log, also check that entries not yet signed carry the tag of a writer.  With `left`,
    the log was closed in favour of its next epoch and is no longer signed: its pending entries are
    only counted.
    """
    audit = LedgerAudit(reader, kinds, trust, now, write_keys=write_keys, heads=heads)
    audit.left = left
    report = audit.run(progress, runner)
    # What was explained is listed each time, so nothing is remembered as checked.
    if keep is not None and not (report.found or audit.has_explained) and report.size:
        audit.save_progress(keep)
    return report


def check_segment(
    reader: Reader, kinds: Kinds, times: CosignedTimes, segment: segment_summary.Segment
) -> segment_summary.SegmentSummary:
    """Check a segment without the state before it, and return a summary with its assumptions."""
    audit = LedgerAudit(
        reader=reader,
        kinds=kinds,
        trust=Trust(),
        now=0,
        checker_class=segment_checker.SegmentEntryChecker,
    )
    return audit.check_segment(segment, times)


def check_session(reader: Reader, kinds: Kinds, run: str, size: int) -> SessionSummary:
    """Check the session of a run in the tree of this size."""
    return LedgerAudit(reader, kinds, Trust(), 0).check_session(run, size)


class LedgerAudit:
    """The state of one verification of one snapshot."""

    def __init__(  # noqa: PLR0913  the last three have a default
        self,
        reader: Reader,
        kinds: Kinds,
        trust: Trust,
        now: int,
        checker_class: type[entry_checker.EntryChecker] = entry_checker.EntryChecker,
        *,
        write_keys: WriteKeys | None = None,
        heads: Mapping[str, tuple[int, str]] | None = None,
    ) -> None:
        self._keys = read_ledger_log_keys(reader, kinds, trust)
        self._reader, self._kinds = reader, kinds
        self._now = now
        self._trust, self.left = self._keys.trust, False
        self._findings = trust.collect_findings(reader.origin)
        self._tree = tlog.Tree()
        self._view, self._lookups = tlog.TreeView(0, reader.read_tile), 0
        """The tree as far as it was checked, and how many of its leaves were looked up."""
        self._unknown: Counter[str] = Counter()
        self._unreachable: Counter[str] = Counter()
        """The number of entries of each run that are in an archive that cannot be reached."""
        self._records = WitnessRecords(reader.origin, self._trust.witness_keys)
        self._seen: dict[int, tuple[tlog.Cosignature, ...]] = {}
        self._signed: list[tlog.Checkpoint] = []
        self._times = CheckpointTimes(now)
        self._opened: list[tlog.Checkpoint] = []
        self._notices: list[str] = []
        self._checkpoint_rows = 0
        self._write_keys = write_keys
        self._tables = TableAudit(
            reader=reader, findings=self._findings, now=now, keys=write_keys, heads=heads or {}
        )
        self._uncompared = ""
        """Why the catalogue of the database was not compared with the migrations."""
        self._first_floor = 0
        """The cosignature time of the last checkpoint before the ones that are read."""
        self._bodies = BodyPages(reader)
        self._sessions = SessionChecker(kinds, self._body, self._findings, self._signed_entries)
        self._reports = ReportChecker(self._findings, self._previous_of)
        self._directory: DirectoryRecorder = DirectoryChecker(self._findings)
        self._checker = checker_class(
            reader.origin, self._findings, self._sessions.read_body, self._is_before
        )

    @property
    def has_explained(self) -> bool:
        """Whether the reader has explained an impossible time."""
        return self._findings.has_explained

    def run(self, progress: Progress, runner: SegmentRunner | None = None) -> Report:
        """Read the checkpoints, check everything else against them, and return the report.

        `progress` is called with the number of checked entries and their total.
        """
        if not self._trust.log_keys:
            # Without a trusted key, no checkpoint can be verified, and nothing follows from one.
            unknown = ClaimResult(State.NOT_CHECKED, NO_KEY)
            return empty_report(self._reader.origin, unknown, unknown, self._findings)
        if foreign := self._trust.describe_foreign(self._reader.origin, "ledger"):
            return foreign_report(self._reader.origin, foreign)
        self._check_catalogue()
        self._read_checkpoints()
        size = self._signed[-1].size if self._signed else 0
        self._check_entries(progress, runner)
        self._check_sessions(size, runner)
        self._check_holds()
        self._finish_directory()
        pending = self._check_pending(size)
        self._check_memories()
        return self._report(size, pending)

    def _check_catalogue(self) -> None:
        """Check that the database answers every reader with the rows that it answers this one."""
        check = self._reader.check_catalogue()
        for difference in check.differences:
            detail = (
                f"{difference}. The migrations did not make it so: the database may show others "
                "other rows than are verified here. Undo the change, or restore a backup"
            )
            self._findings.add(Problem.CATALOGUE_MISMATCH, detail)
        self._uncompared = check.not_checked

    def _check_entries(self, progress: Progress, runner: SegmentRunner | None) -> None:
        """Check all entries in this process, or merge the summaries of other processes."""
        segments = list(segment_summary.plan_segments(self._plan_ranges(), SEGMENT_ENTRIES))
        size = segments[-1].stop if segments else 0
        if runner is None:
            for segment in segments:
                self._check_own_segment(segment, progress, size)
            return
        recent = True
        summaries = runner.run_segments(segments, self._checker.times)
        for segment, summary in zip(segments, summaries, strict=True):
            if summary is not None and self._merge_segment(summary, self._checker):
                self._tables.merge(summary.strands, summary.tallies)
                recent = False
                progress(segment.stop, size)
                continue
            # After a merge the set of recent entries is stale: another process has checked the
            # entries of the merged segment.
            if not recent:
                self._restore_recent(segment.start)
            recent = True
            self._check_own_segment(segment, progress, size)
        self._confirm_absent()

    def save_progress(self, keep: SaveRunProgress) -> None:
        """Pass the progress of all runs to `keep`."""
        keep(self._checker.known_runs(self._sessions.runs), self._last_verified())

    def _last_verified(self) -> segment_summary.VerifiedCheckpoint:
        newest = self._signed[-1]
        times = [self._times.time_of(checkpoint.size) for checkpoint in self._signed]
        return segment_summary.VerifiedCheckpoint(
            origin=newest.origin,
            size=newest.size,
            root=newest.root.hex(),
            checked_at=self._now,
            floor=max([self._first_floor, *times]),
            witnessed=max(self._seen, default=0),
        )

    def _plan_ranges(self, start: int = 0) -> Iterator[segment_summary.EntryRange]:
        """Yield ranges of entries to read at once; one ends at each checkpoint, for its root."""
        for checkpoint in self._signed:
            stop = checkpoint.size
            floor, ceiling = self._times.bounds(start)
            bounds = (max(floor, self._first_floor), ceiling)
            witnessed = self._times.time_with(start)
            # The second of two checkpoints of the same size gets an empty range, so that its root
            # is compared too.
            for low in range(start, stop, _CHUNK_ENTRIES) or (stop,):
                high = min(low + _CHUNK_ENTRIES, stop)
                root = bytes(checkpoint.root) if high == stop else b""
                yield segment_summary.EntryRange(low, high, *bounds, root=root, witnessed=witnessed)
            start = stop

    def _check_own_segment(
        self, segment: segment_summary.Segment, progress: Progress, size: int
    ) -> None:
        for step in segment.steps:
            self._checker.set_time_bounds(step.floor, step.ceiling, step.witnessed)
            if step.start < step.stop:
                self._check_chunk(step.start, step.stop)
                progress(step.stop, size)
            if step.root:
                self._compare_root(step.stop, step.root)

    def check_segment(
        self, segment: segment_summary.Segment, times: CosignedTimes
    ) -> segment_summary.SegmentSummary:
        """Check a segment from an assumed state, and return its summary."""
        checker = self._checker
        assert isinstance(checker, segment_checker.SegmentEntryChecker)  # noqa: S101  chosen by the caller
        checker.times = times
        self._directory = DirectoryRecorder()
        try:
            self._tree = tlog.Tree.load(segment.start, self._reader.read_tile)
            before = segment_checker.digest_edge(self._tree.edge)
            self._check_own_segment(segment, lambda _done, _all: None, 0)
        except ForumError:
            # The caller checks this segment again with the state before it, and reports the error.
            return segment_summary.SegmentSummary(segment.start, segment.stop, 1, b"")
        if self._findings.count or self._unreachable:
            # The caller checks the segment again, and may reach archives that this process cannot.
            return segment_summary.SegmentSummary(
                segment.start, segment.stop, max(1, self._findings.count), before
            )
        return replace(
            checker.summarize(segment, before),
            edge=self._tree.edge,
            unknown=dict(self._unknown),
            sessions=tuple(self._sessions.runs),
            unversioned=self._sessions.unversioned,
            strands=self._tables.strands,
            tallies=self._tables.tallies.as_dict(),
            coverage=dict(self._reports.counts),
            directory=tuple(self._directory.events),
        )

    def _merge_segment(
        self, summary: segment_summary.SegmentSummary, state: segment_checker.RunProgress
    ) -> bool:
        """Merge the summary of a segment if its assumptions hold; return whether they do."""
        if summary.found or summary.edge_before != segment_checker.digest_edge(self._tree.edge):
            return False
        if not segment_checker.can_apply_segment(state, summary):
            return False
        if not self._checker.allows_times(summary):
            return False
        segment_checker.apply_segment(state, summary)
        self._checker.merge_summary(summary)
        self._tree = tlog.Tree.resume(summary.stop, summary.edge)
        self._unknown.update(summary.unknown)
        self._sessions.runs.update(dict.fromkeys(summary.sessions))
        self._sessions.unversioned += summary.unversioned
        self._reports.counts.update(summary.coverage)
        for event in summary.directory:
            self._directory.handle(event)
        return True

    def _merge_new_segment(
        self, segment: segment_summary.Segment, state: segment_checker.StoredRunProgress
    ) -> bool:
        """Check a segment and merge it into the stored state; return whether it has no finding."""
        summary = check_segment(self._reader, self._kinds, self._checker.times, segment)
        # Read this before the state changes: a state may drop a run that the segment closes.
        sessions = [strand.run for strand in summary.touched if state.is_session(strand.run)]
        merged = self._merge_segment(summary, state)
        self._sessions.runs.update(dict.fromkeys(sessions if merged else ()))
        return merged

    def _check_new_sessions(self, state: segment_checker.StoredRunProgress) -> None:
        """Check the sessions that have new entries, and mark them in the stored state."""
        for run in self._sessions.runs:
            state.mark_session(run)
            self._sessions.check_session(run, self._signed_entries(run))

    def _restore_recent(self, start: int) -> None:
        """Rebuild the set of recent entries as if this process had checked all before an index."""
        young, old = entry_checker.count_recent(self._checker.entries)
        first = max(0, start - young - old)
        entries = (row.data if row else _NOTHING for row in self._reader.rows(first, start))
        leaves = [hexlify(leaf) for leaf in tlog.hash_leaves(entries)]
        border = max(0, len(leaves) - young)
        self._checker.restore_recent(leaves[:border], leaves[border:])

    def _confirm_absent(self) -> None:
        """Look in this snapshot for bodies that other processes did not find.

        Their snapshots are newer: a body may have been erased in between, by a redaction that the
        checkpoint of this report does not cover.
        """
        for index, leaf, name in self._checker.list_unexplained_bodies():
            with suppress(Malformed):
                entry = self._kinds.read(self._data_at(index))
                self._checker.recheck_body(index, leaf, entry, name)

    def _check_sessions(self, size: int, runner: SegmentRunner | None) -> None:
        runs = list(self._sessions.runs)
        done = runner.run_sessions(runs, size) if runner and runs else (None for _ in runs)
        for run, summary in zip(runs, done, strict=True):
            if summary is None or summary.found > len(summary.findings):
                self._sessions.check_session(run, self._signed_entries(run))
            else:
                self._sessions.merge_summary(summary)

    def check_session(self, run: str, size: int) -> SessionSummary:
        """Check the session of a run, and return its summary."""
        self._tree = tlog.Tree.load(size, self._reader.read_tile)
        self._sessions.check_session(run, self._signed_entries(run))
        return self._sessions.summary()

    def _check_chunk(self, start: int, stop: int) -> None:
        rows = list(self._reader.rows(start, stop))
        leaves = tlog.hash_leaves([row.data if row else _NOTHING for row in rows])
        if any(row is not None and not row.data for row in rows):
            self._skip_unreachable(start, rows, leaves)
        # Compare the leaves first, so that the altered entry is the first finding, before the
        # findings that follow from it.
        self._compare_tiles(leaves)
        self._tables.check_ids(start, rows, leaves)
        self._bodies.expect(row for row in rows if row is not None)
        follow, kinds = self._checker.check_plain_entry, self._kinds
        for index, (row, leaf) in enumerate(zip(rows, leaves, strict=True), start):
            if row is None:
                self._findings.add(Problem.ENTRY_MISSING, "the log has no such entry", index)
            if row is None or not row.data:
                if row is not None:
                    self._directory.pass_unreachable(index, row)
                continue
            name = hexlify(leaf)
            # Nearly all entries take the fast path, which decodes nothing.
            if not follow(name, row, kinds):
                self._tables.check_row(index, row)
                self._check_entry(index, name, row.data)

    def _skip_unreachable(
        self, start: int, rows: list[EntryRow | None], leaves: list[bytes]
    ) -> None:
        """Take the leaves of entries in unreachable archives from the stored tree, and count them.

        The root that follows is compared with the signed one, so these leaves are the signed ones;
        whether anybody still has their entries was not checked.
        """
        for place, row in enumerate(rows):
            if row is not None and not row.data:
                self._unreachable[row.run] += 1
                leaves[place] = self._stored_leaf(start + place)
                self._tables.strands += row.n == 0

    def _stored_leaf(self, index: int) -> bytes:
        tile, place = divmod(index, tlog.TILE_WIDTH)
        hashes = self._reader.read_tile(tlog.TileId(0, tile), place + 1)
        return hashes[32 * place :] or _NO_LEAF

    def _check_entry(self, index: int, leaf: bytes, data: bytes) -> None:
        try:
            entry = self._kinds.read(data)
        except Malformed as error:
            self._findings.add(Problem.ENTRY_MALFORMED, str(error), index)
            return
        self._checker.check_entry(index, leaf, entry)
        if isinstance(entry.facts, ScoreFacts):
            self._check_score(index, entry)
        self._sessions.detect_session(index, entry)
        self._reports.check_entry(index, entry)
        self._directory.check_entry(index, entry)
        self._tables.add_entry(entry)
        if entry.kind not in self._kinds:
            self._unknown[entry.kind] += 1

    def _check_score(self, index: int, entry: Entry[ScoreFacts]) -> None:
        """Compare a score with the entry that it is about."""
        parent = self._parent_of(index, entry)
        # An entry in an archive that cannot be reached is no reason to reject its score.
        fault = None if parent is None and self._unreachable else find_score_fault(entry, parent)
        if fault:
            where = f"{entry.run}/{entry.strand}/{entry.n}"
            self._findings.add(Problem.SCORE_INVALID, fault, index, where)

    def _parent_of(self, index: int, entry: Entry[Any]) -> Entry[Any] | None:
        """Return the first parent of an entry, or None if no earlier entry has that id."""
        leaf = tlog.Hash(bytes.fromhex(entry.parents[0])) if entry.parents else None
        places = self._reader.find_by_prefix(leaf[:8]) if leaf else ()
        for place in places:
            data = self._data_at(place) if place < index else _NOTHING
            if data and leaf_of(data) == leaf:
                with suppress(Malformed):  # reported when that entry was checked
                    return self._kinds.read(data)
        return None

    def _check_holds(self, start: int = 0) -> None:
        """Report the redactions from an index on behind a hold on their run, or without a rule."""
        if not self._checker.has_redactions:
            return
        holds = HoldOrder()
        for index, entry in self._read_redactions():
            holds.add(entry)
            if index >= start and (missing := redaction.find_rule_fault(entry, holds)) is not None:
                where = f"{entry.run}/{entry.strand}/{entry.n}"
                self._findings.add(Problem.RULE_MISSING, missing, index, where)
            # Where nothing was held yet, no entry is looked up.
            if index >= start and holds.has_any:
                fault = redaction.find_redaction_fault(entry, holds, self._run_of)
                self._checker.report_redaction(fault, index, entry)

    def _read_redactions(self) -> list[tuple[int, Entry[Any]]]:
        """Return the signed redactions, rules and holds in the order of the log."""
        rows = chain.from_iterable(
            self._reader.strand_rows(LOG_RUN, strand) for strand in redaction.REDACTION_STRANDS
        )
        entries = [
            row.data
            for row in rows
            if redaction.is_redaction(row.data) or peek_kind(row.data) in RULE_KINDS
        ]
        leaves = [leaf_of(data) for data in entries]
        located = []
        for leaf, index, data in zip(leaves, self._reader.indexes(leaves), entries, strict=True):
            if index is not None and self._is_at(leaf, index):
                with suppress(Malformed):  # reported when the entry was checked
                    located.append((index, self._kinds.read(data)))
        return sorted(located, key=itemgetter(0))

    def _run_of(self, entry: str) -> str | None:
        """Return the run of an entry of the tree by its id, or None if the tree has no such id."""
        leaf = tlog.Hash.from_hex(entry)
        for index in self._reader.find_by_prefix(leaf[:8]):
            data = self._data_at(index) if self._is_at(leaf, index) else _NOTHING
            if data:
                return peek_run(data)
        return None

    def _previous_of(self, entry: Entry[Any]) -> Entry[Any] | None:
        """Return the first entry of a strand for its second; None if the link names another."""
        row = next(self._reader.strand_rows(entry.run, entry.strand), None)
        if row is None or leaf_of(row.data).hex() != entry.prev:
            return None
        with suppress(Malformed):  # reported when that entry was checked
            return self._kinds.read(row.data)
        return None

    def _body(self, _index: int, position: Position, name: str) -> StoredBody | None:
        return self._bodies.read(position, name)

    def _signed_entries(self, run: str) -> Iterator[IndexedEntry]:
        """Yield the entries of a run that are in the signed tree."""
        strands = self._reader.strands(run)
        rows = [row for strand in strands for row in self._reader.strand_rows(run, strand)]
        self._bodies.expect(rows)
        entries = [row.data for row in rows]
        leaves = [leaf_of(data) for data in entries]
        for leaf, index, data in zip(leaves, self._reader.indexes(leaves), entries, strict=True):
            if index is not None and self._is_at(leaf, index):
                with suppress(Malformed):  # reported when the entry was checked
                    yield IndexedEntry(index, leaf, self._kinds.read(data))

    def _compare_tiles(self, leaves: list[bytes]) -> None:
        """Extend the tree by these leaves, and compare its tiles with the stored tiles."""
        for tile, hashes in self._tree.extend(leaves).items():
            stored = self._reader.read_tile(tile, len(hashes) // 32)
            if stored != hashes:
                self._report_tile(tile, hashes, stored)

    def _report_tile(self, tile: tlog.TileId, hashes: bytes, stored: bytes) -> None:
        if tile.level:
            detail = f"stored tile {tile.path(len(hashes) // 32)} is not that of the entries"
            self._findings.add(Problem.LEAF_MISMATCH, detail)
            return
        for place in range(len(hashes) // 32):
            index = tile.index * tlog.TILE_WIDTH + place
            own = hashes[32 * place : 32 * place + 32]
            if own != stored[32 * place : 32 * place + 32] and own != _NO_LEAF:
                detail = "its bytes are not those whose hash is in the tree"
                self._findings.add(Problem.LEAF_MISMATCH, detail, index)

    def _compare_root(self, size: int, root: bytes) -> None:
        self._directory.sign(size)
        if self._tree.root() != root:
            detail = f"the entries do not have the root that was signed for size {size}"
            self._findings.add(Problem.ROOT_MISMATCH, detail)

    def _read_checkpoints(self, start: int = 0) -> None:
        if self._trust.policy is not None:
            for entry in find_records(self._reader, self._kinds, start):
                self._records.add_entry(entry)
        opened = [self._open_row(*row) for row in self._reader.checkpoint_rows(start)]
        self._checkpoint_rows = len(opened)
        self._signed = [checkpoint for checkpoint in opened if checkpoint is not None]
        # The rows are ordered by the size column, which may differ from the size in the note.
        self._signed.sort(key=lambda checkpoint: checkpoint.size)
        self._add_unpublished()
        self._restore_checkpoints()
        self._resolve_times()

    def _restore_checkpoints(self) -> None:
        """Take the times of recorded checkpoints that are not stored, each of which is a finding.

        They count only if the stored tree has the root that was cosigned.
        """
        stored = {(checkpoint.size, checkpoint.root.hex()) for checkpoint in self._opened}
        for size, root in self._records.checkpoints:
            if (size, root) in stored:
                continue
            with suppress(Malformed, ValueError):  # no root: reported by nobody, and no evidence
                checkpoint = tlog.Checkpoint(
                    self._reader.origin, size, tlog.Hash(bytes.fromhex(root))
                )
                if self._has_tree(checkpoint):
                    cosignatures = self._trust.restore_cosignatures(
                        self._records, checkpoint, (), self._findings
                    )
                    self._times.add(size, self._trust.quorum_time(cosignatures))

    def _resolve_times(self) -> None:
        """Determine the cosignature times of the checkpoints opened so far."""
        self._times.drop_inconsistent()
        for checkpoint in self._opened:
            time = self._times.time_of(checkpoint.size)
            self._checker.times[checkpoint.size, checkpoint.root.hex()] = time

    def _open_row(self, size: int, data: bytes) -> tlog.Checkpoint | None:
        checkpoint = self._open_checkpoint(data, f"the checkpoint stored for size {size}")
        if checkpoint is not None and checkpoint.size != size:
            detail = f"a checkpoint of size {checkpoint.size} is stored as one of size {size}"
            self._findings.add(Problem.COLUMN_MISMATCH, detail)
        return checkpoint

    def _open_checkpoint(self, data: bytes, name: str) -> tlog.Checkpoint | None:
        """Return a checkpoint of this log, and record its cosignatures and their time.

        Returns None for an empty tree, and, with a finding, for an invalid or foreign checkpoint.
        """
        checkpoint = self._trust.open_checkpoint(data, self._findings, name)
        if checkpoint is None or not checkpoint.size:
            return None
        if checkpoint.origin != self._reader.origin:
            # A trusted key may have signed it, but for the other log: the database could hold a
            # checkpoint copied from there.
            detail = f"checkpoint: it is of {checkpoint.origin}, another log"
            self._findings.add(Problem.SIGNATURE_REJECTED, detail)
            return None
        if not self._keys.check_signer(data, self._findings):
            return None
        cosignatures = self._trust.verify_cosignatures(data, self._findings)
        if self._trust.policy is not None:
            below = tlog.Note.parse(data).signatures
            recorded = self._records, checkpoint, below, self._findings
            cosignatures += self._trust.restore_cosignatures(*recorded)
        if self._trust.is_satisfied_by(cosignatures):
            self._seen[checkpoint.size] = cosignatures
            self._times.add(checkpoint.size, self._trust.quorum_time(cosignatures))
        self._opened.append(checkpoint)
        return checkpoint

    def _add_unpublished(self) -> None:
        """Add the signer's guard checkpoint if the database lacks it, but has its tree.

        A signer that crashes after it wrote its guard and before it wrote to the database leaves
        this state.  The tree distinguishes it from a truncated log: every signed entry is stored.
        """
        guard = self._trust.guard_checkpoint(self._reader.origin)
        newest = self._signed[-1].size if self._signed else 0
        if guard is not None and guard.size > newest and self._has_tree(guard):
            self._signed.append(guard)
            self._opened.append(guard)
            self._notices.append(
                f"entries {newest} to {guard.size - 1} are signed, and their checkpoint is not "
                "yet published here; the next write repairs it"
            )

    def _has_tree(self, checkpoint: tlog.Checkpoint) -> bool:
        """Return whether the stored tree, at the size of a checkpoint, has the root it signs."""
        try:
            head = self._reader.head()
            if checkpoint.size > min(head.size, self._reader.count_entries()):
                return False
            return tlog.TreeView(head.size, self._reader.read_tile).root(checkpoint.size) == (
                checkpoint.root
            )
        except Malformed:
            return False

    def _check_pending(self, size: int) -> int:
        """Check and count the entries that are not signed yet.

        An unsigned entry is a finding only if later entries were signed.  Entries that a crash left
        behind wait for the next write, however long that takes; but a log that signs later entries
        and leaves an earlier one out hides it.
        """
        if not self._signed:
            self._findings.add(Problem.NOTHING_SIGNED, "there is no checkpoint by a trusted key")
        end, stored = self._stored_beyond(size)
        sequenced = [row for row in self._reader.rows(size, max(size, end)) if row is not None]
        waiting = [*sequenced, *self._reader.unsequenced_rows()]
        idle = sum(self._check_waiting(row.data if row else None) for row in waiting)
        strays = stored - size - len(waiting)
        if idle:
            when = (
                "the next write signs them" if strays <= 0 else "one that is a finding may stop it"
            )
            self._notices.append(f"{idle} entries are recorded and not signed yet; {when}")
        self._tables.check_waiting([row for row in waiting if row], len(sequenced))
        self._compare_head(sequenced)
        self._check_tables([row for row in waiting if row])
        if strays > 0:
            detail = (
                f"{strays} entries are stored that are neither in the tree nor on the way to it"
            )
            if stopping := ", ".join(self._find_stopping({row.position for row in waiting if row})):
                detail += (
                    f". Nothing is written to the strand of {stopping} before that row is deleted "
                    "in the database's own shell"
                )
            self._findings.add(Problem.STRAY_ENTRY, detail)
        return len(waiting)

    def _find_stopping(self, waiting: Collection[Position]) -> Iterator[str]:
        """Yield the positions of stray entries at the ends of the log's own strands."""
        for strand in self._reader.strands(LOG_RUN):
            for last in deque(self._reader.strand_rows(LOG_RUN, strand), maxlen=1):
                (index,) = self._reader.indexes([leaf_of(last.data)])
                if index is None and last.position not in waiting:
                    yield str(last.position)

    def _compare_head(self, sequenced: list[EntryRow]) -> None:
        """Check that the stored head of the log matches the tree of all indexed entries."""
        tree = tlog.Tree.resume(self._tree.size, self._tree.edge)
        tree.extend(tlog.hash_leaves(row.data for row in sequenced))
        with suppress(Malformed):  # reported when its size was read
            head = self._reader.head()
            if (head.size, head.root) != (tree.size, tree.root()):
                detail = f"the head of the log says size {head.size}, and its entries {tree.size}"
                self._findings.add(Problem.ROOT_MISMATCH, detail)

    def _check_tables(self, waiting: list[EntryRow]) -> None:
        """Compare the tables with all entries, including those that are not signed yet."""
        bodies = self._checker.ok + self._checker.mismatch - self._checker.archived
        for row in waiting:
            with suppress(Malformed):
                entry = self._kinds.read(row.data)
                self._tables.add_entry(entry)
                stored = (self._reader.body(row.position, name) for name in entry.bodies)
                bodies += sum(1 for body in stored if body is not None)
        self._tables.finish(bodies, self._checkpoint_rows)
        self._check_summaries()

    def _check_summaries(self) -> None:
        unknown = audit_summaries(self._reader, self._kinds, self._write_keys, self._findings)
        if unknown:
            other = f"{unknown} summaries of runs, by the rules of another release"
            self._tables.not_checked.append(other)

    def _stored_beyond(self, size: int) -> tuple[int, int]:  # noqa: ARG002  used by an override
        """Return the end of the indexed entries, and the number of all stored entries."""
        stored = self._reader.count_entries()
        # The head is a row of the database, and an attacker may have set it to a huge size: there
        # cannot be more indexes than stored entries.
        return min(self._head_size(), stored), stored

    def _head_size(self) -> int:
        try:
            return self._reader.head().size
        except Malformed as error:
            self._findings.add(Problem.ROOT_MISMATCH, f"the head of the log: {error}")
            return 0

    def _check_waiting(self, data: bytes | None) -> bool:
        """Check an entry that is not signed yet.

        Returns True if it has no finding, but has waited longer than the grace period.
        """
        if data is None:
            detail = "an entry that waits for its index is not there"
            self._findings.add(Problem.ENTRY_MISSING, detail)
            return False
        try:
            entry = self._kinds.read(data)
        except Malformed as error:
            self._findings.add(Problem.ENTRY_MALFORMED, f"not signed yet: {error}")
            return False
        if self.left:
            return False
        where = f"{entry.run}/{entry.strand}/{entry.n}"
        if entry.ts > self._now + MAX_CLOCK_SKEW_US:
            detail = (
                f"its time is {(entry.ts - self._now) // 1_000_000} s in the future. "
                "The clock of the machine that wrote it was probably ahead"
            )
            self._findings.add(Problem.TIME_IMPOSSIBLE, detail, None, where)
            return False
        late = self._last_signed - entry.ts
        if late > GRACE_PERIOD_US:
            detail = f"in no signed checkpoint, though {late // 1_000_000} s later others were"
            self._findings.add(Problem.LEFT_UNSEQUENCED, detail, None, where)
            return False
        return not self._is_recent(entry.ts)

    @cached_property
    def _last_signed(self) -> int:
        """The latest time, in microseconds, at which the log is known to have signed entries."""
        size = self._signed[-1].size if self._signed else 0
        written = self._written_time(size - 1) if size else 0
        # A time in the future is no evidence; it is reported as a finding of its own.
        return max(self._times.last, written if written <= self._now + MAX_CLOCK_SKEW_US else 0)

    def _finish_directory(self) -> None:
        """Report the runs that the directory leaves out."""
        assert isinstance(self._directory, DirectoryChecker)  # noqa: S101  of a whole audit
        self._notices += self._directory.finish()

    def _resume_directory(self, state: segment_checker.RunProgress, size: int) -> bool:
        """Continue the directory of a verified tree; return False if its end is not there."""
        strand = state.find_strand(LOG_RUN, RUNS_STRAND)
        named = None
        if strand is not None:
            row = next(self._reader.strand_rows(LOG_RUN, RUNS_STRAND, strand.n - 1), None)
            if row is None or hexlify(leaf_of(row.data)) != strand.head:
                return False
            with suppress(Malformed):
                facts = self._kinds.read(row.data).facts
                named = (
                    facts.first + len(facts.runs) if isinstance(facts, RunsOpenedFacts) else None
                )
            if named is None:
                return False
        assert isinstance(self._directory, DirectoryChecker)  # noqa: S101  of a whole audit
        self._directory.resume(named, size)
        return True

    def _check_memories(self) -> None:
        """Check that the log extends every remembered checkpoint: a log may only grow."""
        if not self._signed:
            return
        newest = self._signed[-1]
        view = tlog.TreeView(newest.size, self._reader.read_tile)
        for memory in self._trust.remembered_checkpoints(self._reader.origin, self._findings):
            if memory.size > newest.size:
                detail = (
                    f"a checkpoint of size {memory.size} was seen before, this is {newest.size}"
                )
                self._findings.add(Problem.TAIL_CUT, detail)
            elif memory.size:
                self._check_memory(memory, newest, view)

    def _check_memory(
        self, memory: tlog.Checkpoint, newest: tlog.Checkpoint, view: tlog.TreeView
    ) -> None:
        try:
            proof = tlog.prove_consistency(view, memory.size)
            tlog.check_consistency(
                proof, memory.size, memory.root, newest.size, new_root=newest.root
            )
        except (ProofRejected, Malformed):
            detail = f"the checkpoint of size {memory.size} that was seen before is not continued"
            self._findings.add(Problem.HISTORY_REPLACED, detail)

    def _is_before(self, parent: str, index: int) -> bool:
        """Return whether a parent, not among the recent entries, has a smaller index."""
        leaf = tlog.Hash(bytes.fromhex(parent))
        return any(self._is_at(leaf, i) for i in self._reader.find_by_prefix(leaf[:8]) if i < index)

    def _is_at(self, leaf: tlog.Hash, index: int) -> bool:
        """Return whether the tree, as far as it was checked, has this leaf at this index."""
        if not 0 <= index < self._tree.size:
            return False
        if self._view.size != self._tree.size or self._lookups >= _MAX_LOOKUPS:
            self._view, self._lookups = tlog.TreeView(self._tree.size, self._reader.read_tile), 0
        self._lookups += 1
        try:
            return self._view.leaf(index) == leaf
        except Malformed:
            return False  # a missing tile was reported when the tiles were compared

    def _is_recent(self, ts: int) -> bool:
        """Return whether an entry of this time is within the grace period.

        The time is the claim of the writer: without the upper bound, an entry dated into the
        future would stay recent.
        """
        return self._now - GRACE_PERIOD_US <= ts <= self._now + MAX_CLOCK_SKEW_US

    def _check_witnessed(self, size: int) -> tuple[tlog.Cosignature, ...]:
        """Return the cosignatures of the newest witnessed checkpoint.

        Adds a finding if entries behind it have waited too long for a cosignature.
        """
        newest = max(self._seen, default=0)
        late = newest < size and not self._is_recent(self._written_time(newest))
        if late and self._is_unfinished(newest):
            self._notices.append(
                f"entries {newest} to {size - 1} are signed and not cosigned yet; "
                "the next write asks the witnesses again"
            )
        elif late or not newest:
            detail = "there is no checkpoint that your trust file accepts"
            if size:
                detail = (
                    f"entries {newest} to {size - 1} are in no checkpoint that your trust file "
                    "accepts"
                )
            self._findings.add(Problem.NOT_WITNESSED, detail)
        return self._seen.get(newest, ())

    def _describe_unwitnessed(self) -> Iterator[str]:
        """Yield a notice about checkpoints that nobody bounds, since cosignatures are recorded.

        No finding: witnesses could not be reached, and the log says so, or a signer was stopped.
        """
        first, last = self._records.first_size, max(self._seen, default=0)
        if first is None:
            return
        sizes = [c.size for c in self._signed if first <= c.size < last]
        bare = sorted(set(sizes).difference(self._seen))
        if bare:
            listed = ", ".join(map(str, bare[:5])) + (", ..." if len(bare) > 5 else "")
            yield (
                f"{len(bare)} checkpoints (of size {listed}) are not cosigned as your trust file "
                "asks, and the log recorded no more of them; they prove no time"
            )

    def _is_unfinished(self, witnessed: int) -> bool:
        """Return whether only the last checkpoint of the signer lacks its cosignatures.

        A crash leaves this state.  With a second checkpoint without cosignatures, the signer
        continued without its witnesses.
        """
        guard = self._trust.guard_checkpoint(self._reader.origin)
        since = [checkpoint for checkpoint in self._signed if checkpoint.size > witnessed]
        return witnessed > 0 and guard is not None and since == [guard]

    def _data_at(self, index: int) -> bytes:
        row = next(self._reader.rows(index, index + 1))
        return row.data if row else _NOTHING

    def _written_time(self, index: int) -> int:
        try:
            return self._kinds.read(self._data_at(index)).ts
        except Malformed:
            return 0

    def _judge_complete(self, holds: str) -> ClaimResult:
        """Return the claim Complete, which is not checked where something cannot be read."""
        result = self._findings.judge_claim(Claim.COMPLETE, holds)
        if result.state is not State.HOLDS:
            return result
        if self._uncompared:
            reason = f"the catalogue of the database was not compared: {self._uncompared}"
            return ClaimResult(State.NOT_CHECKED, reason)
        if not self._unreachable:
            return result
        reason = (
            f"{self._unreachable.total()} entries of {len(self._unreachable)} runs are in an "
            "archive that cannot be reached; make it available and verify again"
        )
        return ClaimResult(State.NOT_CHECKED, reason)

    def _list_unreachable(self) -> Iterator[str]:
        for run, entries in sorted(self._unreachable.items())[:_MAX_LISTED_RUNS]:
            yield f"{entries} entries of run {run}: their archive cannot be reached"
        more = len(self._unreachable) - _MAX_LISTED_RUNS
        if more > 0:
            yield f"the entries of {more} more runs in archives that cannot be reached"

    def _list_uncompared(self) -> Iterator[str]:
        if self._uncompared:
            yield f"the catalogue of the database: {self._uncompared}"

    def _report(self, size: int, pending: int) -> Report:
        bodies = self._checker.finish()
        cosignatures = self._check_witnessed(size) if self._trust.policy else ()
        checker, findings = self._checker, self._findings
        checked = (
            f"{checker.entries} entries, every leaf and link{self._sessions.describe_played()}"
        )
        intact = findings.judge_claim(Claim.INTACT, checked)
        opened = checker.open_runs()
        coverage = coverage_of(self._reports.counts)
        complete = f"no gap in {checker.runs} runs, {len(opened)} of them still open"
        complete += ONLY_RECORDED if coverage.is_told else ""
        not_checked = [
            f"the strands of run {run}: its list is redacted" for run in checker.unlisted
        ]
        independent = self._trust.judge_independence(cosignatures, findings)
        return Report(
            origin=self._reader.origin,
            size=size,
            root=self._signed[-1].root.hex() if self._signed else "",
            intact=intact,
            complete=self._judge_complete(complete),
            independent=independent,
            findings=tuple(findings.listed),
            found=findings.count,
            not_checked=(
                *entry_checker.describe_unknown_kinds(self._unknown.items()),
                *checker.not_checked,
                *not_checked,
                *self._list_unreachable(),
                *self._list_uncompared(),
                *self._sessions.list_not_checked(),
                *self._tables.not_checked,
            ),
            entries=checker.entries,
            runs=checker.runs,
            open_runs=opened,
            bodies=bodies,
            pending=pending,
            sightings=self._trust.list_sightings(cosignatures),
            notices=(
                *self._keys.notices,
                *self._notices,
                *self._times.notices(),
                *self._describe_unwitnessed(),
                *findings.list_explained(),
            ),
            coverage=coverage,
            witnessing=self._trust.judge_witnessing(independent, cosignatures),
        )
