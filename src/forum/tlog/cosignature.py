"""Cosignatures: timestamped signatures of witnesses on a checkpoint (C2SP tlog-cosignature).

The signed message does not contain the name of the witness.  So two witnesses must never share a
key: a cosignature of one would count for both.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from struct import pack, unpack

from forum.errors import Malformed, SignatureRejected
from forum.tlog.canonical_encoding import MAX_INT, check_number
from forum.tlog.checkpoint import Checkpoint
from forum.tlog.keys import ED25519_COSIGNATURE, SigningKey, VerifierKey
from forum.tlog.note import Note, Signature
from forum.tlog.witness_policy import WitnessPolicy

BLOB_SIZE = 8 + 64


@dataclass(frozen=True)
class Cosignature:
    """A witness, and the time in seconds since 1970 at which it cosigned by its own clock.

    Time 0 means that the cosignature states no time.
    """

    key: VerifierKey
    time: int


def cosign(checkpoint_text: str, key: SigningKey, time: int) -> Signature:
    """Return the cosignature of a checkpoint.  Raises `Malformed` for a key that does not cosign.

    The caller must have checked that the checkpoint is consistent with all it cosigned before.
    """
    if key.algorithm != ED25519_COSIGNATURE:
        raise Malformed("key", f"{key.name} does not cosign")
    Checkpoint.parse(checkpoint_text)
    check_number(time, "cosignature time")
    blob = pack(">Q", time) + key.sign(_signed_message(checkpoint_text, time))
    return Signature(key.name, key.verifier().key_id, blob)


def verify_cosignatures(note: Note, witnesses: Iterable[VerifierKey]) -> tuple[Cosignature, ...]:
    """Return the first cosignature of each known witness; other signatures are ignored.

    Raises `SignatureRejected` if one of these is invalid.
    """
    keys = [key for key in witnesses if key.algorithm == ED25519_COSIGNATURE]
    return tuple(
        _verify_cosignature(note.text, signature.blob, key)
        for key, signature in note.signatures_by(keys)
    )


def _verify_cosignature(text: str, blob: bytes, key: VerifierKey) -> Cosignature:
    if len(blob) != BLOB_SIZE:
        raise SignatureRejected(key.name, f"a cosignature of {len(blob)} bytes, not {BLOB_SIZE}")
    time, signature = unpack(">Q64s", blob)
    if time > MAX_INT:
        raise SignatureRejected(key.name, "cosigned after 2^63 - 1")
    key.verify(_signed_message(text, time), signature)
    return Cosignature(key, time)


def _signed_message(text: str, time: int) -> bytes:
    return f"cosignature/v1\ntime {time}\n{text}".encode()


def is_witnessed(note: Note, policy: WitnessPolicy) -> bool:
    """Return whether the witnesses that a policy requires have cosigned a checkpoint."""
    return policy.is_satisfied_by([c.key for c in verify_cosignatures(note, policy.witness_keys)])


def describe_witnessing(note: Note, policy: WitnessPolicy) -> str:
    """Return how far a checkpoint is witnessed, in the words of all surfaces."""
    keys = [c.key for c in verify_cosignatures(note, policy.witness_keys)]
    # The quorum "none" is reached without any witness, but then nobody has seen it.
    if not keys or not policy.is_satisfied_by(keys):
        return "signed, not witnessed yet"
    is_independent = any(key in policy.independent_keys() for key in keys)
    return "witnessed by another organization" if is_independent else "self-witnessed"


def quorum_time(cosignatures: Iterable[Cosignature], policy: WitnessPolicy) -> int:
    """Return the earliest time by which the policy's quorum had cosigned, or 0 if there is none.

    For k of n witnesses this is the k-th smallest time.  Fewer than k colluding witnesses cannot
    make it earlier than the clocks of the others, and one slow witness cannot make it later.
    """
    keys: set[VerifierKey] = set()
    for cosignature in sorted((c for c in cosignatures if c.time), key=lambda c: c.time):
        keys.add(cosignature.key)
        if policy.is_satisfied_by(keys):
            return cosignature.time
    return 0


def select_consistent_times(times: Sequence[int]) -> list[int]:
    """Return the times of checkpoints in the order of their sizes, with inconsistent ones set to 0.

    A larger tree is cosigned later.  Times that contradict this come from a wrong clock.  The
    largest set of consistent times is kept, which is a longest non-decreasing subsequence, and of
    several such sets the one with the latest checkpoints.  Times that are 0 are ignored.  If no
    clock was wrong, every time is kept; a clock that was wrong for a while does not discard the
    times of the others.
    """
    tails: list[int] = []  # the smallest time that ends a chain of each length
    ends: list[int] = []  # the index of the checkpoint with that time
    before: dict[int, int] = {}
    for index, time in enumerate(times):
        if not time:
            continue
        length = bisect_right(tails, time)
        before[index] = ends[length - 1] if length else -1
        tails[length : length + 1], ends[length : length + 1] = [time], [index]
    selected, index = [0] * len(times), ends[-1] if ends else -1
    while index >= 0:
        selected[index], index = times[index], before[index]
    return selected
