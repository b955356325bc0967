"""Verification of a bundle: no network, no database, nothing but the file and the reader's keys."""

from collections import Counter

from forum.deliberation import Indexed
from forum.errors import Malformed, ProofRejected
from forum.ledger import Bundle, Bytes, Kinds, Position, StoredBody
from forum.tlog import Checkpoint, Cosignature, check_consistency, check_inclusion, hash_leaf
from forum.verify.chronicle import FOREVER, Chronicle, unknown_kinds
from forum.verify.report import Answer, Claim, Findings, Problem, Report, State, empty_report
from forum.verify.sessions import Sessions
from forum.verify.trust import Trust, sightings


def verify_bundle(data: bytes, kinds: Kinds, trust: Trust) -> Report:
    """Check one bundle.  Whatever cannot be read is a finding, never an exception."""
    findings = Findings()
    try:
        bundle = Bundle.parse(data)
    except Malformed as error:
        findings.add(Problem.BUNDLE_ALTERED, str(error))
        unknown = Answer(State.NOT_CHECKED, "the bundle could not be read")
        return empty_report("", findings.answer(Claim.INTACT, ""), unknown, findings)
    return _Check(bundle, kinds, trust, findings).run()


class _Check:
    """One verification of a bundle under way."""

    def __init__(self, bundle: Bundle, kinds: Kinds, trust: Trust, findings: Findings) -> None:
        self._bundle, self._kinds, self._trust, self._findings = bundle, kinds, trust, findings
        self._unknown: Counter[str] = Counter()
        self._times: dict[int, int] = {}
        """When the checkpoint of a size was cosigned, in microseconds."""
        self._chronicle = Chronicle(bundle.origin, findings, self._body, whole=bundle.run)
        self._sessions = Sessions(self._body, findings)
        self._own: list[Indexed] = []
        """The entries of the run."""
        self._checkpoint = trust.open(bundle.checkpoint, findings) if trust.log_keys else None

    def run(self) -> Report:
        """Check the checkpoints, then each entry with its proof, then what is missing."""
        seen = self._trust.seen_by(self._bundle.checkpoint, self._findings)
        if self._checkpoint is not None:
            if self._checkpoint.origin != self._bundle.origin:
                self._findings.add(Problem.BUNDLE_ALTERED, "its checkpoint is of another log")
            self._check_times(seen, self._checkpoint)
            self._check_memories(self._checkpoint)
        for index in sorted(self._bundle.entries):
            self._check_entry(index)
        for run in self._sessions.runs:
            self._sessions.check(run, self._own)
        if self._trust.policy is not None and not self._trust.satisfied_by(seen):
            self._findings.add(Problem.NOT_WITNESSED, "the policy's witnesses have not cosigned it")
        return self._report(seen)

    def _check_entry(self, index: int) -> None:
        data, proof = self._bundle.entries[index], self._bundle.proofs[index]
        leaf = hash_leaf(data)
        if proof.index != index or proof.note.encode() != self._bundle.checkpoint:
            self._findings.add(Problem.PROOF_REJECTED, "a proof of something else", index)
        elif self._checkpoint is not None:
            try:
                tree = (self._checkpoint.size, self._checkpoint.root)
                check_inclusion(proof.hashes, leaf, index, *tree)
            except ProofRejected as error:
                self._findings.add(Problem.PROOF_REJECTED, str(error), index)
        try:
            entry = self._kinds.read(data)
        except Malformed as error:
            self._findings.add(Problem.ENTRY_MALFORMED, str(error), index)
            return
        if entry.kind not in self._kinds:
            self._unknown[entry.kind] += 1
        self._bound(index)
        self._chronicle.take(index, leaf.hex().encode(), entry)
        if entry.run == self._bundle.run:
            self._own.append(Indexed(index, leaf, entry))
            self._sessions.notice(index, entry)

    def _check_times(self, seen: tuple[Cosignature, ...], newest: Checkpoint) -> None:
        """Take from the checkpoints when the entries before and behind them were written."""
        self._witness(newest, seen)
        for past in self._bundle.past:
            checkpoint = self._trust.open(past.note, self._findings)
            if checkpoint is None:
                continue
            try:
                roots = (checkpoint.size, checkpoint.root, newest.size, newest.root)
                check_consistency(past.proof, *roots)
            except ProofRejected as error:
                self._findings.add(Problem.HISTORY_REPLACED, f"an earlier checkpoint: {error}")
                continue
            self._witness(checkpoint, self._trust.seen_by(past.note, self._findings))

    def _witness(self, checkpoint: Checkpoint, seen: tuple[Cosignature, ...]) -> None:
        time = 0
        if self._trust.satisfied_by(seen):
            time = min(cosignature.time for cosignature in seen) * 1_000_000
            self._times[checkpoint.size] = time
        self._chronicle.times[checkpoint.size, checkpoint.root.hex()] = time

    def _bound(self, index: int) -> None:
        """Tell the chronicle between which cosigned checkpoints an entry got its index."""
        before = (time for size, time in self._times.items() if size <= index)
        behind = (time for size, time in self._times.items() if size > index)
        self._chronicle.bound(max(before, default=0), min(behind, default=FOREVER))

    def _check_memories(self, newest: Checkpoint) -> None:
        """Compare with what the reader saw before, where a bundle can tell: at the same size."""
        for memory in self._trust.memories(newest.origin, self._findings):
            if memory.size == newest.size and memory.root != newest.root:
                detail = f"another tree of size {memory.size} was seen before"
                self._findings.add(Problem.HISTORY_REPLACED, detail)

    def _body(self, index: int, _position: Position, name: str) -> StoredBody | None:
        found = self._bundle.bodies.get((index, name))
        if found is None:
            return None
        salt, content = found
        return StoredBody(salt, Bytes(content).chunks)

    def _report(self, seen: tuple[Cosignature, ...]) -> Report:
        chronicle, findings, checkpoint = self._chronicle, self._findings, self._checkpoint
        if not chronicle.runs:
            detail = f"there is no entry of run {self._bundle.run}"
            findings.add(Problem.RUN_UNOPENED, detail)
        bodies = chronicle.finish()
        self._check_strays()
        count = len(self._bundle.entries)
        proven = f"{count} entries, each proven in the signed tree{self._sessions.played()}"
        intact = findings.answer(Claim.INTACT, proven)
        complete = findings.answer(Claim.COMPLETE, "the run is closed, and no strand has a gap")
        if not self._trust.log_keys:
            reason = "no key was given: name the log's key with --key"
            intact = complete = Answer(State.NOT_CHECKED, reason)
        if complete.state is State.HOLDS and not chronicle.closed(self._bundle.run):
            reason = "the run was open, or its list of strands redacted, when this was exported"
            complete = Answer(State.NOT_CHECKED, reason)
        return Report(
            origin=self._bundle.origin,
            size=checkpoint.size if checkpoint else 0,
            root=checkpoint.root.hex() if checkpoint else "",
            intact=intact,
            complete=complete,
            independent=self._trust.independence(seen, findings),
            findings=tuple(findings.listed),
            found=findings.count,
            not_checked=(*unknown_kinds(self._unknown.items()), *self._sessions.not_checked),
            entries=count,
            runs=chronicle.runs,
            open_runs=chronicle.open_runs(),
            bodies=bodies,
            pending=0,
            sightings=sightings(seen),
        )

    def _check_strays(self) -> None:
        """Refuse bodies that no entry of the run commits to."""
        for index, name in self._bundle.bodies:
            try:
                entry = self._kinds.read(self._bundle.entries.get(index, b""))
            except Malformed:
                entry = None
            if entry is None or entry.run != self._bundle.run or name not in entry.bodies:
                self._findings.add(Problem.BUNDLE_ALTERED, f"body {name!r} of no entry", index)
