"""The keys, the trust file and the remembered checkpoints of the reader.

Keys and trust file come from the reader and never from the data that is verified.
"""

from collections.abc import Iterator, Sequence

import msgspec

from forum import tlog
from forum.errors import Malformed, SignatureRejected
from forum.ledger.span_files import MAX_BODY_BYTES
from forum.ledger.witness_records import WitnessRecords
from forum.verify import report

NO_KEY = "you named no key of the log: nothing was checked"
NO_TRUST_FILE = "you named no trust file: whether witnesses have seen it was not checked"

_MAX_WHOLE_NAME = 20
"""A longer name of a log is shown by its end, which differs between logs."""
_SHOWN_END = 8


class Trust(msgspec.Struct, frozen=True):
    """The keys, the trust file and the remembered checkpoints that a reader brings along."""

    keys: tuple[tlog.VerifierKey, ...] = ()
    policy: tlog.WitnessPolicy | None = None
    remembered: tuple[bytes, ...] = ()
    """Checkpoints that this reader, or a party that the reader trusts, saw earlier."""
    guard: bytes | None = None
    """The last checkpoint that the signer remembers, if the reader is on the signer's machine."""
    explained: tuple[report.ExplainedTimes, ...] = ()
    """Entries of which the reader knows that a clock was off when they were written."""
    max_bytes: int = MAX_BODY_BYTES
    """How many bytes the bodies of one file may have that share bytes."""

    def collect_findings(self, origin: str) -> report.Findings:
        """Return an empty collection for a log, which knows what the reader has explained."""
        return report.Findings([times for times in self.explained if times.log == origin])

    @property
    def log_keys(self) -> tuple[tlog.VerifierKey, ...]:
        """The keys that may sign checkpoints."""
        named = self.policy.log_keys if self.policy else ()
        return tuple(dict.fromkeys((*self.keys, *named)))

    @property
    def witness_keys(self) -> tuple[tlog.VerifierKey, ...]:
        """The keys of all witnesses of the trust file."""
        return self.policy.witness_keys if self.policy else ()

    def describe_foreign(self, origin: str, what: str) -> str:
        """Return one sentence if all trusted keys are of other logs than `origin`, or nothing."""
        names = sorted({key.name for key in self.log_keys})
        if not names or origin in names:
            return ""
        short = dict(zip([*names, origin], _shorten([*names, origin]), strict=True))
        listed = " and ".join(short[name] for name in names)
        yours = "trust file is for" if self.policy else "key is of"
        logs = "log" if len(names) == 1 else "logs"
        return f"Your {yours} the {logs} {listed}; this {what} is of {short[origin]}."

    def open_checkpoint(
        self, data: bytes, findings: report.Findings, name: str = "checkpoint"
    ) -> tlog.Checkpoint | None:
        """Return a checkpoint signed by a trusted key; otherwise add a finding, return None."""
        try:
            return tlog.open_checkpoint(data, self.log_keys)[0]
        except (Malformed, SignatureRejected) as error:
            findings.add(report.Problem.SIGNATURE_REJECTED, f"{name}: {error}")
            return None

    def verify_cosignatures(
        self, data: bytes, findings: report.Findings
    ) -> tuple[tlog.Cosignature, ...]:
        """Return the valid cosignatures of the policy's witnesses on a checkpoint.

        Adds a finding and returns none if a cosignature is malformed or invalid.
        """
        if self.policy is None:
            return ()
        try:
            return tlog.verify_cosignatures(tlog.Note.parse(data), self.policy.witness_keys)
        except (Malformed, SignatureRejected) as error:
            findings.add(report.Problem.SIGNATURE_REJECTED, f"cosignature: {error}")
            return ()

    def restore_cosignatures(
        self,
        records: WitnessRecords,
        checkpoint: tlog.Checkpoint,
        signatures: Sequence[tlog.Signature],
        findings: report.Findings,
    ) -> tuple[tlog.Cosignature, ...]:
        """Return the cosignatures that the log recorded and that are not among the signatures.

        Adds a finding for each that was taken away, and for each that does not hold.
        """
        restored = []
        for restored_one in records.restore(checkpoint, signatures):
            place = (restored_one.record.index, restored_one.record.where)
            if restored_one.cosignature is None:
                detail = f"the recorded cosignature of {restored_one.witness} does not hold"
                findings.add(report.Problem.SIGNATURE_REJECTED, detail, *place)
                continue
            restored.append(restored_one.cosignature)
            if restored_one.is_missing:
                detail = (
                    f"the checkpoint of size {checkpoint.size} lacks the cosignature of "
                    f"{restored_one.witness} that the log recorded"
                )
                findings.add(report.Problem.COSIGNATURE_MISSING, detail, *place)
        return tuple(restored)

    def is_satisfied_by(self, cosignatures: tuple[tlog.Cosignature, ...]) -> bool:
        """Return whether there is a cosignature, and the policy accepts the set of them."""
        if self.policy is None or not cosignatures:
            return False
        return self.policy.is_satisfied_by([cosignature.key for cosignature in cosignatures])

    def quorum_time(self, cosignatures: tuple[tlog.Cosignature, ...]) -> int:
        """Return the time, in microseconds, at which the quorum was reached; 0 if it was not."""
        return tlog.quorum_time(cosignatures, self.policy) * 1_000_000 if self.policy else 0

    def guard_checkpoint(self, origin: str) -> tlog.Checkpoint | None:
        """Return the checkpoint of this log that its signer remembers, or None."""
        if self.guard is None:
            return None
        # Findings are discarded: a guard only excuses what a crash leaves, so that an invalid guard
        # excuses nothing and needs no finding of its own.
        checkpoint = self.open_checkpoint(self.guard, report.Findings())
        return checkpoint if checkpoint is not None and checkpoint.origin == origin else None

    def remembered_checkpoints(
        self, origin: str, findings: report.Findings
    ) -> Iterator[tlog.Checkpoint]:
        """Yield each distinct remembered checkpoint of this log."""
        opened = (self.open_checkpoint(data, findings) for data in self.remembered)
        yield from dict.fromkeys(c for c in opened if c is not None and c.origin == origin)

    def judge_independence(
        self, cosignatures: tuple[tlog.Cosignature, ...], findings: report.Findings
    ) -> report.ClaimResult:
        """Return the result of the claim Independent, with the witnesses as its reason."""
        if self.policy is None:
            return report.ClaimResult(report.State.NOT_CHECKED, NO_TRUST_FILE)
        names = sorted({cosignature.key.name for cosignature in cosignatures})
        reason = f"cosigned by {', '.join(names)}"
        if names and all(map(tlog.is_local_witness, names)):
            reason += ", a witness on the writer's own machine: as strong as that machine's owner"
        if self.policy.min_witnesses == 1:
            reason += "; one witness decides the time"
        if findings.has_explained:
            reason += "; some times are wrong, as you say, and prove nothing"
        return findings.judge_claim(report.Claim.INDEPENDENT, reason)

    def judge_witnessing(
        self, claim: report.ClaimResult, cosignatures: tuple[tlog.Cosignature, ...]
    ) -> report.WitnessState:
        """Return who has seen it: only the reader's own mark makes a witness independent."""
        if claim.state is not report.State.HOLDS or self.policy is None:
            return report.WitnessState.NONE
        marked = self.policy.independent_keys(self.keys)
        if any(cosignature.key in marked for cosignature in cosignatures):
            return report.WitnessState.INDEPENDENT
        return report.WitnessState.SELF_WITNESSED

    def list_sightings(
        self, cosignatures: tuple[tlog.Cosignature, ...]
    ) -> tuple[report.Sighting, ...]:
        """Return the witness and the time of each cosignature, for the report."""
        marked = self.policy.independent_keys(self.keys) if self.policy else ()
        return tuple(
            report.Sighting(
                witness=c.key.name,
                time=c.time,
                same_machine=tlog.is_local_witness(c.key.name),
                independent=c.key in marked,
            )
            for c in cosignatures
        )


def _shorten(names: list[str]) -> list[str]:
    """Return the names of logs by their ends, or as they are where the ends do not differ."""
    ends = [n if len(n) <= _MAX_WHOLE_NAME else f"…{n[-_SHOWN_END:]}" for n in names]
    return ends if len(set(ends)) == len(ends) else names
