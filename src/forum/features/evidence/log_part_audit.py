"""Verification of the log part of a pack: that it is all that a log recorded between two trees."""

from collections.abc import Iterator
from itertools import islice

import msgspec

from forum import tlog
from forum.errors import Malformed, ProofRejected
from forum.features.evidence.log_part import LogPart, start_tree
from forum.features.evidence.report import Arguments
from forum.ledger.entry import MAX_CLOCK_SKEW_US
from forum.ledger.key_rotation import KeyRotation, read_key_rotation
from forum.ledger.kinds import Kinds
from forum.units import format_rfc3339
from forum.verify import report
from forum.verify.log_keys import LogKeys, check_rotation_count
from forum.verify.trust import NO_KEY, Trust

_SECOND = 1_000_000


class LogPartCheck(msgspec.Struct, frozen=True):
    """The three claims about a log part, and what was found."""

    intact: report.ClaimResult
    complete: report.ClaimResult
    independent: report.ClaimResult
    findings: tuple[report.Finding, ...]
    trust: Trust
    """The trust of the reader, with the keys that follow from key rotations in the log part."""
    keys: LogKeys
    is_readable: bool
    """Whether every entry is well-formed, so that figures can be computed."""
    is_signed: bool
    """Whether a key that the reader trusts has signed both trees, and those between them."""
    witnessing: report.WitnessState = report.WitnessState.NONE

    @property
    def ok(self) -> bool:
        """Whether all three claims hold."""
        states = {self.intact.state, self.complete.state, self.independent.state}
        return states == {report.State.HOLDS}


def check_log_part(part: LogPart, kinds: Kinds, trust: Trust, arguments: Arguments) -> LogPartCheck:
    """Check the log part of a pack with the keys and the policy of a reader."""
    return _LogPartAudit(part, kinds, trust, arguments).run()


class _LogPartAudit:
    """The state of one verification of a log part."""

    def __init__(self, part: LogPart, kinds: Kinds, trust: Trust, arguments: Arguments) -> None:
        self._part, self._kinds = part, kinds
        self._arguments = arguments
        self._findings = report.Findings()
        self._rotations: list[KeyRotation] = []
        self._times: list[tuple[int, int]] = []
        """The time and the index of the earliest and of the latest entry between the trees."""
        self._is_readable = self._read_entries()
        notes = [n for n in (part.start, *part.seen, part.end, *self._past_notes()) if n]
        # A rotation counts only if a tree that the pinned key has signed contains it.  The trees
        # contain what is here if the roots agree, which `_check_trees` finds out.
        proves = self._check_trees()
        self._keys = LogKeys(
            trust,
            part.origin,
            hand_overs=self._rotations,
            notes=notes,
            proves=lambda _rotation, _tree: proves,
        )
        self._trust = self._keys.trust

    def run(self) -> LogPartCheck:
        """Check signatures and times, and return the claims."""
        findings, trust = self._findings, self._trust
        part = self._part
        end = self._open(part.end)
        # Each is opened, so that what is wrong with it is found.
        others = [self._open(note) for note in (part.start, *part.seen) if note]
        is_signed = None not in (end, *others)
        cosignatures = trust.verify_cosignatures(part.end, findings)
        if trust.policy is not None and not trust.is_satisfied_by(cosignatures):
            findings.add(
                report.Problem.NOT_WITNESSED,
                # The report of a pack holds this sentence, so it stays as it is.
                "log/end.note: the witnesses of the policy have not cosigned it",
            )
        for note in trust.remembered_checkpoints(part.origin, findings):
            if end and note.size == end.size and note.root != end.root:
                detail = f"another tree of size {note.size} was seen before"
                findings.add(report.Problem.HISTORY_REPLACED, detail)
        bounded = self._check_times(trust.quorum_time(cosignatures))
        count = len(part.entries)
        intact = findings.judge_claim(
            report.Claim.INTACT, f"{count} entries lead to the root that the log signed"
        )
        complete = findings.judge_claim(
            report.Claim.COMPLETE,
            "every entry between the two trees is here; witnesses saw the first tree before the "
            "period and the second after it"
            if part.start
            else "every entry from the beginning of the log is here; witnesses saw its last tree "
            "after the period",
        )
        if not bounded and complete.state is report.State.HOLDS:
            reason = "no witness of a policy says when the two trees were made"
            complete = report.ClaimResult(report.State.NOT_CHECKED, reason)
        if not is_signed and complete.state is report.State.HOLDS:
            # What is between two trees says nothing if the log has not signed them.
            reason = "no key that you trust has signed both trees"
            complete = report.ClaimResult(report.State.NOT_CHECKED, reason)
        if not trust.log_keys:
            intact = complete = report.ClaimResult(report.State.NOT_CHECKED, NO_KEY)
        independent = trust.judge_independence(cosignatures, findings)
        return LogPartCheck(
            intact=intact,
            complete=complete,
            independent=independent,
            findings=tuple(findings.listed),
            trust=trust,
            keys=self._keys,
            is_readable=self._is_readable,
            is_signed=is_signed,
            witnessing=trust.judge_witnessing(independent, cosignatures),
        )

    def _open(self, note: bytes) -> tlog.Checkpoint | None:
        if not self._trust.log_keys:
            return None
        checkpoint = self._trust.open_checkpoint(note, self._findings)
        if checkpoint is None or not self._keys.check_signer(note, self._findings):
            return None
        if checkpoint.origin != self._part.origin:
            self._findings.add(report.Problem.BUNDLE_ALTERED, "a checkpoint is of another log")
        return checkpoint

    def _read_entries(self) -> bool:
        """Check the form of every entry, and return whether all of them have it."""
        is_readable = True
        for index, data in self._part.indexed_entries():
            try:
                entry = self._kinds.read(data)
            except Malformed as error:
                self._findings.add(report.Problem.ENTRY_MALFORMED, str(error), index)
                is_readable = False
                continue
            if entry.log != self._part.origin:
                self._findings.add(
                    report.Problem.FOREIGN_ENTRY, f"it belongs to the log {entry.log}", index
                )
            if index >= self._part.first:
                at = (entry.ts, index)
                self._times = [min([at, *self._times[:1]]), max([at, *self._times[1:]])]
            rotation = read_key_rotation(index, data, entry, self._part.origin)
            if rotation is not None:
                self._rotations.append(rotation)
                check_rotation_count(len(self._rotations))
        return is_readable

    def _check_trees(self) -> bool:
        """Compare the entries with the roots of both trees, and return whether they agree."""
        part = self._part
        before = self._findings.count
        try:
            end = tlog.parse_checkpoint(part.end)
            start = tlog.parse_checkpoint(part.start) if part.start else None
            tree = start_tree(part)
        except Malformed as error:
            self._findings.add(report.Problem.ROOT_MISMATCH, str(error))
            return False
        size, root = (start.size, start.root) if start else (0, tlog.EMPTY_ROOT)
        if tree.root() != root:
            self._findings.add(
                report.Problem.ROOT_MISMATCH, "log/edge does not lead to the root of log/start.note"
            )
        count = end.size - size
        if len(part.entries) != count:
            detail = f"log/entries.jsonl has {len(part.entries)} entries, and not {count}"
            self._findings.add(report.Problem.ENTRY_MISSING, detail)
        self._extend_tree(tree)
        if tree.root() != end.root:
            self._findings.add(
                report.Problem.ROOT_MISMATCH,
                "log/entries.jsonl does not lead to the root of log/end.note: an entry was left "
                "out, added or changed",
            )
        try:
            tlog.check_consistency(part.consistency, size, root, end.size, new_root=end.root)
        except ProofRejected as error:
            self._findings.add(report.Problem.PROOF_REJECTED, f"log/consistency: {error}")
        for detail, index in self._check_earlier(end):
            self._findings.add(report.Problem.PROOF_REJECTED, detail, index)
        return self._findings.count == before

    def _extend_tree(self, tree: tlog.Tree) -> None:
        """Append the entries to the tree of the start, and compare the checkpoints on the way."""
        leaves = map(tlog.hash_leaf, self._part.entries)
        for note in self._part.seen:
            checkpoint, before = tlog.parse_checkpoint(note), tree.size
            tree.extend(islice(leaves, max(0, checkpoint.size - before)))
            is_later = before < checkpoint.size == tree.size
            if not is_later or tree.root() != checkpoint.root:
                detail = (
                    f"the checkpoint of size {checkpoint.size} in log/seen is not of this log part"
                )
                self._findings.add(report.Problem.ROOT_MISMATCH, detail)
        tree.extend(leaves)

    def _past_notes(self) -> Iterator[bytes]:
        """Yield the earlier checkpoints with which the tree of the end begins."""
        for earlier in self._part.past:
            try:
                old, end = map(tlog.parse_checkpoint, (earlier.note, self._part.end))
                tlog.check_consistency(
                    earlier.proof, old.size, old.root, end.size, new_root=end.root
                )
            except (Malformed, ProofRejected) as error:
                detail = f"log/past: {error}"
                self._findings.add(report.Problem.HISTORY_REPLACED, detail)
            else:
                yield earlier.note

    def _check_earlier(self, end: tlog.Checkpoint) -> Iterator[tuple[str, int]]:
        """Yield what is wrong with the entries before the start, with their indexes."""
        last = -1
        for earlier in self._part.earlier:
            if not last < earlier.index < self._part.first:
                yield "log/earlier.jsonl is not in the order of the log", earlier.index
            last = earlier.index
            try:
                proof = tuple(tlog.Hash.from_base64(line) for line in earlier.proof)
                leaf = tlog.hash_leaf(earlier.entry.encode())
                tlog.check_inclusion(proof, leaf, earlier.index, end.size, root=end.root)
            except (ProofRejected, Malformed) as error:
                yield f"log/earlier.jsonl: {error}", earlier.index

    def _check_times(self, seen: int) -> bool:
        """Compare the times of the witnesses with the period; return whether they bound it.

        Without that, the maker could end the log part before the period ends, and cut entries off.
        """
        if not seen:
            return False
        if seen < self._arguments.until:
            self._add_cut(f"the last tree at {format_rfc3339(seen)}, before the period ends")
        for at, index in self._times:
            if at > seen + MAX_CLOCK_SKEW_US:
                detail = "its time is later than the tree that holds it was seen"
                self._findings.add(report.Problem.TIME_IMPOSSIBLE, detail, index)
        return self._part.start is None or self._check_start_time(self._part.start)

    def _check_start_time(self, start: bytes) -> bool:
        """Compare the time of the first tree with the period; return whether there is one."""
        cosignatures = self._trust.verify_cosignatures(start, self._findings)
        seen = self._trust.quorum_time(cosignatures)
        if not self._trust.is_satisfied_by(cosignatures):
            detail = "log/start.note: the witnesses of the policy have not cosigned it"
            self._findings.add(report.Problem.NOT_WITNESSED, detail)
        if not seen:
            return False
        # Witnesses state whole seconds, and may have cosigned up to a second later.
        if seen + _SECOND > self._arguments.since:
            self._add_cut(f"the first tree at {format_rfc3339(seen)}, after the period begins")
        # Otherwise the maker could date an entry back, out of the period, so that no figure
        # counts it.
        for at, index in self._times:
            if at < seen - MAX_CLOCK_SKEW_US:
                detail = "its time is earlier than a tree without it was seen"
                self._findings.add(report.Problem.TIME_IMPOSSIBLE, detail, index)
        return True

    def _add_cut(self, what: str) -> None:
        detail = f"witnesses saw {what}: entries of the period may be missing"
        self._findings.add(report.Problem.TAIL_CUT, detail)
