"""Verification of a bundle with nothing but its file and the keys of the reader.

No network and no database are used.  The file is untrusted input: anything unreadable in it is a
finding.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from forum import tlog
from forum.errors import Malformed, ProofRejected
from forum.ledger.body import StoredBody
from forum.ledger.bundle import BundleReader
from forum.ledger.entry import Entry
from forum.ledger.kinds import Kinds
from forum.ledger.ports import Position
from forum.ledger.witness_records import WitnessRecords
from forum.ledger.zip_archive import ByteSource
from forum.runs.record_comparison import IndexedEntry
from forum.verify import report
from forum.verify.checkpoint_times import CheckpointTimes
from forum.verify.entry_checker import EntryChecker, describe_unknown_kinds
from forum.verify.log_keys import is_proven, read_bundle_log_keys
from forum.verify.report_checker import ReportChecker, coverage_of
from forum.verify.run_tally import RunTallies
from forum.verify.session_checker import SessionChecker
from forum.verify.trust import NO_KEY, Trust

Progress = Callable[[int, int], None]
FindBundle = Callable[[str], BundleReader | None]
"""Finds the bundle of another run.  Raises `Malformed`."""

_COMPLETE_REASON = (
    "the run is closed, and no strand has a gap; "
    "whether the log holds another version of this run was not checked"
)
"""The owner of a log can record a run twice, and hand out a bundle of each version.  Only a reader
of the whole log can detect that."""


def verify_bundle(
    source: ByteSource,
    kinds: Kinds,
    trust: Trust,
    progress: Progress = lambda _done, _all: None,
    find_bundle: FindBundle = lambda _run: None,
) -> report.Report:
    """Check one bundle, and return the report; unreadable content is a finding, not an exception.

    The bundle is read piece by piece, never into memory as a whole. What its run says of another
    one, such as the accord of a panel, is compared with the bundle that `find_bundle` returns,
    which the caller has to check by itself. Nothing is hashed of a bundle whose bodies, put
    together, have more than the reader wants.
    """
    try:
        bundle = BundleReader(source, max_bytes=trust.max_bytes)
        if foreign := trust.describe_foreign(bundle.origin, "bundle"):
            return report.foreign_report(bundle.origin, foreign)
        return _BundleAudit(bundle, kinds, trust, find_bundle).run(progress)
    except Malformed as error:
        findings = report.Findings()
        findings.add(report.Problem.BUNDLE_ALTERED, error.why)
        unknown = report.ClaimResult(report.State.NOT_CHECKED, "the bundle could not be read")
        return report.empty_report(
            "", findings.judge_claim(report.Claim.INTACT, ""), unknown, findings
        )


class _BundleAudit:
    """The state of one verification of a bundle."""

    def __init__(
        self, bundle: BundleReader, kinds: Kinds, trust: Trust, find_bundle: FindBundle
    ) -> None:
        self._find_bundle = find_bundle
        self._other_bodies: dict[tuple[int, str], BundleReader] = {}
        """The bundle of each body of the other runs that were read."""
        self._keys = read_bundle_log_keys(bundle, kinds, trust)
        trust = self._keys.trust
        self._bundle, self._kinds = bundle, kinds
        self._trust = trust
        self._findings = findings = trust.collect_findings(bundle.origin)
        self._unknown: Counter[str] = Counter()
        # Without the reader's clock: the report on a bundle must not depend on when it is checked.
        self._times = CheckpointTimes()
        self._leaves: set[bytes] = set()
        """The leaf hashes of all entries so far, among which parents are looked up."""
        self._bodies = set(bundle.bodies)
        self._unread: set[tuple[int, str]] = set()
        """The bodies in spans of entries that no signed tree is known to hold."""
        self._committed: set[tuple[int, str]] = set()
        """The index and name of each body that entries of the run commit to."""
        self._checker = EntryChecker(
            bundle.origin, findings, self._body, self._is_before, whole=bundle.run
        )
        self._sessions = SessionChecker(kinds, self._session_body, findings, self._other_entries)
        # The beginning of a span is in the bundle, before its end.
        self._reports = ReportChecker(findings, lambda _entry: None)
        self._tallies = RunTallies()
        self._own: list[int] = []
        """The indexes of the entries of the run."""
        self._checkpoint = self._open(bundle.checkpoint) if trust.log_keys else None

    def run(self, progress: Progress) -> report.Report:
        """Check the checkpoints, then each entry with its proof, then sessions and cosignatures."""
        cosignatures = self._trust.verify_cosignatures(self._bundle.checkpoint, self._findings)
        if self._checkpoint is not None:
            if self._checkpoint.origin != self._bundle.origin:
                self._findings.add(
                    report.Problem.BUNDLE_ALTERED, "the checkpoint is of another log"
                )
            self._check_times(cosignatures, self._checkpoint)
            self._check_memories(self._checkpoint)
        indexes = self._bundle.indexes
        for number, index in enumerate(indexes, 1):
            self._check_entry(index)
            progress(number, len(indexes))
        # Without all bodies, an honest session would seem to break its rules.
        for run in self._sessions.runs if not self._unread else ():
            self._sessions.check_session(run, self._own_entries())
        if self._trust.policy is not None and not self._trust.is_satisfied_by(cosignatures):
            self._findings.add(
                report.Problem.NOT_WITNESSED,
                "the witnesses of your trust file have not cosigned it",
            )
        return self._report(cosignatures)

    def _open(self, note: bytes) -> tlog.Checkpoint | None:
        """Return a checkpoint signed by a log key that was valid at its size, or None."""
        checkpoint = self._trust.open_checkpoint(note, self._findings)
        return checkpoint if checkpoint and self._keys.check_signer(note, self._findings) else None

    def _check_entry(self, index: int) -> None:
        data, proof = self._bundle.entry(index), self._bundle.proof(index)
        leaf = tlog.hash_leaf(data)
        is_proven = False
        if proof.entry != index or proof.note != self._bundle.checkpoint:
            self._findings.add(
                report.Problem.PROOF_REJECTED, "the proof is for another entry or checkpoint", index
            )
        elif self._checkpoint is not None:
            try:
                tree = (self._checkpoint.size, self._checkpoint.root)
                tlog.check_inclusion(proof.hashes, leaf, index, *tree)
                is_proven = True
            except ProofRejected as error:
                self._findings.add(report.Problem.PROOF_REJECTED, str(error), index)
        try:
            entry = self._kinds.read(data)
        except Malformed as error:
            self._findings.add(report.Problem.ENTRY_MALFORMED, str(error), index)
            return
        if entry.kind not in self._kinds:
            self._unknown[entry.kind] += 1
        self._checker.set_time_bounds(*self._times.bounds(index))
        checked = entry if is_proven else self._without_spans(index, entry)
        self._checker.check_entry(index, leaf.hex().encode(), checked)
        if entry.run == self._bundle.run:
            self._own.append(index)
            self._committed.update((index, name) for name in entry.bodies)
            self._sessions.detect_session(index, entry)
            self._reports.check_entry(index, entry)
            self._tallies.add_entry(entry)
        self._leaves.add(leaf)

    def _without_spans(self, index: int, entry: Entry[Any]) -> Entry[Any]:
        """Return an entry without its bodies in spans, and let none of them be put together.

        A short list describes a long body: whoever made up the entry must not have it hashed.
        """
        bodies = {n: b for n, b in entry.bodies.items() if not self._bundle.is_shared(index, n)}
        self._unread |= {(index, name) for name in entry.bodies.keys() - bodies.keys()}
        return replace(entry, bodies=bodies) if len(bodies) < len(entry.bodies) else entry

    def _own_entries(self) -> Iterator[IndexedEntry]:
        """Yield the entries of the run, read from the bundle again."""
        for index in self._own:
            data = self._bundle.entry(index)
            yield IndexedEntry(index, tlog.hash_leaf(data), self._kinds.read(data))

    def _is_before(self, parent: str, _index: int) -> bool:
        return bytes.fromhex(parent) in self._leaves

    def _check_times(
        self, cosignatures: tuple[tlog.Cosignature, ...], newest: tlog.Checkpoint
    ) -> None:
        """Collect the cosignature times of the checkpoints, which bound the times of entries.

        An earlier checkpoint counts only if the newest one is consistent with it.
        """
        checkpoints, records = [newest], self._read_records(newest)
        self._times.add(newest.size, self._trust.quorum_time(cosignatures))
        for past in self._bundle.past:
            checkpoint = self._open(past.note)
            if checkpoint is None:
                continue
            try:
                roots = (checkpoint.size, checkpoint.root, newest.size, newest.root)
                tlog.check_consistency(past.proof, *roots)
            except ProofRejected as error:
                self._findings.add(
                    report.Problem.HISTORY_REPLACED, f"an earlier checkpoint: {error}"
                )
                continue
            checkpoints.append(checkpoint)
            cosigned = self._trust.verify_cosignatures(past.note, self._findings)
            below = tlog.Note.parse(past.note).signatures
            recorded = records, checkpoint, below, self._findings
            cosigned += self._trust.restore_cosignatures(*recorded)
            self._times.add(checkpoint.size, self._trust.quorum_time(cosigned))
        self._times.drop_inconsistent()
        for checkpoint in checkpoints:
            time = self._times.time_of(checkpoint.size)
            self._checker.times[checkpoint.size, checkpoint.root.hex()] = time

    def _read_records(self, newest: tlog.Checkpoint) -> WitnessRecords:
        """Return the cosignatures that proven entries of the bundle record."""
        records = WitnessRecords(self._bundle.origin, self._trust.witness_keys)
        for index in self._bundle.indexes:
            data = self._bundle.entry(index)
            if b'"witnessed/1"' in data and is_proven(self._bundle, index, data, newest):
                with suppress(Malformed):  # reported when the entry is checked
                    records.add_entry(self._kinds.read(data), index)
        return records

    def _check_memories(self, newest: tlog.Checkpoint) -> None:
        """Compare the newest checkpoint with remembered checkpoints of the same size.

        For other sizes, a bundle has no consistency proof.
        """
        for memory in self._trust.remembered_checkpoints(newest.origin, self._findings):
            if memory.size == newest.size and memory.root != newest.root:
                detail = f"another tree of size {memory.size} was seen before"
                self._findings.add(report.Problem.HISTORY_REPLACED, detail)

    def _body(self, index: int, _position: Position, name: str) -> StoredBody | None:
        is_readable = (index, name) in self._bodies and (index, name) not in self._unread
        return self._bundle.body(index, name) if is_readable else None

    def _session_body(self, index: int, position: Position, name: str) -> StoredBody | None:
        """Return a body of this run, or of another one that it was compared with."""
        other = self._other_bodies.get((index, name))
        return other.body(index, name) if other else self._body(index, position, name)

    def _other_entries(self, run: str) -> Iterator[IndexedEntry]:
        """Yield the entries of another run, if its bundle is at hand."""
        other = self._find_bundle(run)
        if other is None:
            return
        self._other_bodies |= dict.fromkeys(other.bodies, other)
        for index in other.indexes:
            data = other.entry(index)
            if (entry := self._kinds.read(data)).run == run:
                yield IndexedEntry(index, tlog.hash_leaf(data), entry)

    def _report(self, cosignatures: tuple[tlog.Cosignature, ...]) -> report.Report:
        checker, findings = self._checker, self._findings
        checkpoint = self._checkpoint
        if not checker.runs:
            detail = f"there is no entry of run {self._bundle.run}"
            findings.add(report.Problem.RUN_UNOPENED, detail)
        bodies = checker.finish()
        self._check_strays()
        self._check_spending()
        count = len(self._bundle.indexes)
        proven = (
            f"{count} entries, each proven in the signed tree{self._sessions.describe_played()}"
        )
        intact = findings.judge_claim(report.Claim.INTACT, proven)
        coverage = coverage_of(self._reports.counts)
        reason = _COMPLETE_REASON + (report.ONLY_RECORDED if coverage.is_told else "")
        complete = findings.judge_claim(report.Claim.COMPLETE, reason)
        if not self._trust.log_keys:
            intact = complete = report.ClaimResult(report.State.NOT_CHECKED, NO_KEY)
        if complete.state is report.State.HOLDS and not checker.is_closed_with_list(
            self._bundle.run
        ):
            reason = "the run was open, or its list of strands redacted, when this was exported"
            complete = report.ClaimResult(report.State.NOT_CHECKED, reason)
        independent = self._trust.judge_independence(cosignatures, findings)
        interval = self._interval()
        unbounded = interval.list_not_checked() if self._trust.policy and self._own else ()
        return report.Report(
            origin=self._bundle.origin,
            size=checkpoint.size if checkpoint else 0,
            root=checkpoint.root.hex() if checkpoint else "",
            intact=intact,
            complete=complete,
            independent=independent,
            findings=tuple(findings.listed),
            found=findings.count,
            not_checked=(
                *describe_unknown_kinds(self._unknown.items()),
                *self._sessions.list_not_checked(),
                *(f"the session of run {run}" for run in self._sessions.runs if self._unread),
                *unbounded,
            ),
            entries=count,
            runs=checker.runs,
            open_runs=checker.open_runs(),
            bodies=bodies,
            sightings=self._trust.list_sightings(cosignatures),
            notices=(*self._keys.notices, *self._times.notices(), *findings.list_explained()),
            coverage=coverage,
            witnessing=self._trust.judge_witnessing(independent, cosignatures),
            interval=interval,
        )

    def _interval(self) -> report.Interval:
        """Return when the run was written, as far as witnessed checkpoints prove it."""
        if not self._own:
            return report.Interval()
        # The root that the opening names cannot be known before its tree is there.
        named = self._checker.floor_of(self._bundle.run)
        after = max(named, self._times.time_before(self._own[0]))
        before = self._times.time_with(self._own[-1])
        return report.Interval(after // 1_000_000 or None, before // 1_000_000 or None)

    def _check_spending(self) -> None:
        """Compare what a closed run has spent with its cap.

        While a run is open, a settlement may be missing in the bundle: entries of several strands
        need not be in the order in which the account was charged.
        """
        for run, tally in self._tallies.pop_closed(0).items():
            if fault := tally.describe_overspending():
                self._findings.add(report.Problem.REPORT_INVALID, f"run {run} {fault}")

    def _check_strays(self) -> None:
        """Add a finding for each body that no entry of the run commits to."""
        for index, name in self._bundle.bodies:
            if (index, name) not in self._committed:
                self._findings.add(
                    report.Problem.BUNDLE_ALTERED, f"no entry commits to body {name!r}", index
                )
