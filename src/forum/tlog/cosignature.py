"""Cosignatures: a witness says when it saw a checkpoint (C2SP tlog-cosignature).

The signed message does not hold the witness's name.  So one key must never serve two
witnesses, or the word of one would count for both.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from struct import pack, unpack

from forum.errors import Malformed, SignatureRejected
from forum.tlog.canonical import MAX_INT, check_number
from forum.tlog.checkpoint import Checkpoint
from forum.tlog.keys import ED25519_COSIGNATURE, SigningKey, VerifierKey
from forum.tlog.note import Note, Signature
from forum.tlog.policy import Policy

BLOB_SIZE = 8 + 64


@dataclass(frozen=True)
class Cosignature:
    """A witness, and the time in seconds since 1970 at which it cosigned by its own clock."""

    key: VerifierKey
    time: int


def cosign(checkpoint_text: str, key: SigningKey, time: int) -> Signature:
    """Cosign a checkpoint that was found consistent with all that this witness saw before."""
    if key.algorithm != ED25519_COSIGNATURE:
        raise Malformed("key", f"{key.name} does not cosign")
    Checkpoint.parse(checkpoint_text)
    check_number(time, "cosignature time")
    blob = pack(">Q", time) + key.sign(_message(checkpoint_text, time))
    return Signature(key.name, key.verifier().key_id, blob)


def cosignatures(note: Note, witnesses: Iterable[VerifierKey]) -> tuple[Cosignature, ...]:
    """Return the cosignatures by known witnesses, verified; others are passed over.

    One by a known witness that does not hold raises SignatureRejected.
    """
    known = [key for key in witnesses if key.algorithm == ED25519_COSIGNATURE]
    return tuple(
        _verified(note.text, signature.blob, key)
        for signature in note.signatures
        for key in known
        if signature.names(key)
    )


def _verified(text: str, blob: bytes, key: VerifierKey) -> Cosignature:
    if len(blob) != BLOB_SIZE:
        raise SignatureRejected(key.name, f"a cosignature of {len(blob)} bytes, not {BLOB_SIZE}")
    time, signature = unpack(">Q64s", blob)
    if time > MAX_INT:
        raise SignatureRejected(key.name, "cosigned after 2^63 - 1")
    key.verify(_message(text, time), signature)
    return Cosignature(key, time)


def _message(text: str, time: int) -> bytes:
    return f"cosignature/v1\ntime {time}\n{text}".encode()


def is_witnessed(note: Note, policy: Policy) -> bool:
    """Tell whether the witnesses that a policy asks for have cosigned a checkpoint."""
    return policy.satisfied_by([c.key for c in cosignatures(note, policy.witness_keys)])
