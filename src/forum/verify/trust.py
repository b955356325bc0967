"""The keys, the witness policy and the remembered checkpoints of the reader.

Keys and policy come from the reader and never from the data that is verified.
"""

from collections.abc import Iterator

import msgspec

from forum import tlog
from forum.errors import Malformed, SignatureRejected
from forum.verify import report

LOCAL_WITNESS = "forum.local/witness/"
"""The name prefix of witnesses on the writer's own machine."""


class Trust(msgspec.Struct, frozen=True):
    """The keys, the policy and the remembered checkpoints that a reader brings along."""

    keys: tuple[tlog.VerifierKey, ...] = ()
    policy: tlog.WitnessPolicy | None = None
    remembered: tuple[bytes, ...] = ()
    """Checkpoints that this reader, or a party that the reader trusts, saw earlier."""
    guard: bytes | None = None
    """The last checkpoint that the signer remembers, if the reader is on the signer's machine."""

    @property
    def log_keys(self) -> tuple[tlog.VerifierKey, ...]:
        """The keys that may sign checkpoints."""
        named = self.policy.log_keys if self.policy else ()
        return tuple(dict.fromkeys((*self.keys, *named)))

    def open_checkpoint(self, data: bytes, findings: report.Findings) -> tlog.Checkpoint | None:
        """Return a checkpoint signed by a trusted key; otherwise add a finding, return None."""
        try:
            return tlog.open_checkpoint(data, self.log_keys)[0]
        except (Malformed, SignatureRejected) as error:
            findings.add(report.Problem.SIGNATURE_REJECTED, f"checkpoint: {error}")
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
            return report.ClaimResult(
                report.State.NOT_CHECKED, "no policy was given: name witnesses with --policy"
            )
        names = sorted({cosignature.key.name for cosignature in cosignatures})
        reason = f"cosigned by {', '.join(names)}"
        if names and all(name.startswith(LOCAL_WITNESS) for name in names):
            reason += ", a witness on the writer's own machine: as strong as that machine's owner"
        if self.policy.min_witnesses == 1:
            reason += "; one witness decides the time"
        return findings.judge_claim(report.Claim.INDEPENDENT, reason)


def list_sightings(cosignatures: tuple[tlog.Cosignature, ...]) -> tuple[report.Sighting, ...]:
    """Return the witness and the time of each cosignature, for the report."""
    return tuple(
        report.Sighting(c.key.name, c.time, c.key.name.startswith(LOCAL_WITNESS))
        for c in cosignatures
    )
