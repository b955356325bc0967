"""Whom the reader trusts, and what the reader remembers.

Keys and policy come from the reader and never from what is being verified.
"""

from collections.abc import Iterator

import msgspec

from forum.errors import Malformed, SignatureRejected
from forum.tlog import (
    Checkpoint,
    Cosignature,
    Note,
    VerifierKey,
    WitnessPolicy,
    open_checkpoint,
    quorum_time,
    verify_cosignatures,
)
from forum.verify.report import Claim, ClaimResult, Findings, Problem, Sighting, State

LOCAL_WITNESS = "forum.local/witness/"
"""The names of witnesses that live on the writer's own machine begin like this."""


class Trust(msgspec.Struct, frozen=True):
    """The reader's own keys, policy and memories."""

    keys: tuple[VerifierKey, ...] = ()
    policy: WitnessPolicy | None = None
    remembered: tuple[bytes, ...] = ()
    """Checkpoints that this reader, or somebody the reader trusts, has seen before."""
    guard: bytes | None = None
    """What the signer remembers that it signed last, where the reader is on its machine."""

    @property
    def log_keys(self) -> tuple[VerifierKey, ...]:
        """The keys that may sign checkpoints."""
        named = self.policy.log_keys if self.policy else ()
        return tuple(dict.fromkeys((*self.keys, *named)))

    def open_checkpoint(self, data: bytes, findings: Findings) -> Checkpoint | None:
        """Return a checkpoint that a trusted key has signed, or take note of why not."""
        try:
            return open_checkpoint(data, self.log_keys)[0]
        except (Malformed, SignatureRejected) as error:
            findings.add(Problem.SIGNATURE_REJECTED, f"checkpoint: {error}")
            return None

    def verify_cosignatures(self, data: bytes, findings: Findings) -> tuple[Cosignature, ...]:
        """Return the cosignatures of the policy's witnesses on a checkpoint."""
        if self.policy is None:
            return ()
        try:
            return verify_cosignatures(Note.parse(data), self.policy.witness_keys)
        except (Malformed, SignatureRejected) as error:
            findings.add(Problem.SIGNATURE_REJECTED, f"cosignature: {error}")
            return ()

    def is_satisfied_by(self, seen: tuple[Cosignature, ...]) -> bool:
        """Tell whether these cosignatures are what the policy asks for, and at least one."""
        if self.policy is None or not seen:
            return False
        return self.policy.is_satisfied_by([cosignature.key for cosignature in seen])

    def quorum_time(self, seen: tuple[Cosignature, ...]) -> int:
        """Return when the policy's quorum had cosigned, in microseconds; 0 if it has not."""
        return quorum_time(seen, self.policy) * 1_000_000 if self.policy else 0

    def guard_checkpoint(self, origin: str) -> Checkpoint | None:
        """Return the checkpoint of this log that its own signer remembers."""
        if self.guard is None:
            return None
        # Whether it holds is told where it is compared with the others.
        checkpoint = self.open_checkpoint(self.guard, Findings())
        return checkpoint if checkpoint is not None and checkpoint.origin == origin else None

    def remembered_checkpoints(self, origin: str, findings: Findings) -> Iterator[Checkpoint]:
        """Yield the remembered checkpoints of this log, each once; of others, none."""
        opened = (self.open_checkpoint(data, findings) for data in self.remembered)
        yield from dict.fromkeys(c for c in opened if c is not None and c.origin == origin)

    def judge_independence(self, seen: tuple[Cosignature, ...], findings: Findings) -> ClaimResult:
        """Answer who outside the writer has seen this."""
        if self.policy is None:
            return ClaimResult(
                State.NOT_CHECKED, "no policy was given: name witnesses with --policy"
            )
        names = sorted({cosignature.key.name for cosignature in seen})
        reason = f"cosigned by {', '.join(names)}"
        if names and all(name.startswith(LOCAL_WITNESS) for name in names):
            reason += ", a witness on the writer's own machine: as strong as that machine's owner"
        if self.policy.min_witnesses == 1:
            reason += "; one witness decides the time"
        return findings.judge_claim(Claim.INDEPENDENT, reason)


def list_sightings(seen: tuple[Cosignature, ...]) -> tuple[Sighting, ...]:
    """Return for the report who has cosigned, and when."""
    return tuple(Sighting(c.key.name, c.time, c.key.name.startswith(LOCAL_WITNESS)) for c in seen)
