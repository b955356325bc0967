"""The attestation of a pack: an in-toto statement about its manifest, in a DSSE envelope.

The statement is a Simple Verification Result without a property: it says who made the pack, and not
that anything holds.  That of release 0.2 names the claims that its maker found to hold.  The key
that signs it is published by the log itself, with `key.add/2`.
"""

from base64 import b64decode, b64encode
from typing import Literal

import msgspec
from msgspec.structs import asdict

from forum.errors import Malformed
from forum.features.evidence.report import PackReport
from forum.tlog import SigningKey, VerifierKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://in-toto.io/attestation/svr/v0.1"
EVIDENCE_STRAND = "evidence"
"""The strand of the run `log` that publishes the keys of attestations."""


class EnvelopeSignature(msgspec.Struct, frozen=True):
    """A signature of a DSSE envelope."""

    keyid: str
    sig: str


class Envelope(msgspec.Struct, frozen=True):
    """A DSSE envelope."""

    payload: str
    payloadType: str  # noqa: N815  the name in the format
    signatures: tuple[EnvelopeSignature, ...]


class StatementSubject(msgspec.Struct, frozen=True):
    """A file that a statement is about."""

    name: str
    digest: dict[Literal["sha256"], str]


class ResultVerifier(msgspec.Struct, frozen=True):
    """Who verified."""

    id: str


class VerificationResult(msgspec.Struct, frozen=True, rename="camel"):
    """The predicate: what was found to hold, when."""

    verifier: ResultVerifier
    time_created: str
    properties: tuple[str, ...]


class Statement(msgspec.Struct, frozen=True):
    """An in-toto statement."""

    type: str = msgspec.field(name="_type")
    subject: tuple[StatementSubject, ...]
    predicate_type: str = msgspec.field(name="predicateType")
    predicate: VerificationResult


def attestation_key_name(origin: str) -> str:
    """Return the name of the key that signs the attestations of a log's packs.

    It is not the name of the log, so that the key cannot sign checkpoints.
    """
    return f"{origin}/evidence"


def encode_pae(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that a DSSE signature is made over (its pre-authentication encoding)."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def make_statement(manifest_digest: str, report: PackReport) -> Statement:
    """Return the statement about a pack; its time is the end of the period."""
    check = asdict(report.check) if report.check else {}
    properties = tuple(
        f"FORUM_{name}_{claim.state}".upper().replace(" ", "_") for name, claim in check.items()
    )
    return Statement(
        type=STATEMENT_TYPE,
        subject=(StatementSubject("manifest.json", {"sha256": manifest_digest}),),
        predicate_type=PREDICATE_TYPE,
        predicate=VerificationResult(ResultVerifier(report.origin), report.until, properties),
    )


def sign_statement(statement: Statement, key: SigningKey) -> bytes:
    """Return the signed statement, as it is enclosed in a pack."""
    payload = msgspec.json.encode(statement)
    signature = key.sign(encode_pae(PAYLOAD_TYPE, payload))
    envelope = Envelope(
        b64encode(payload).decode(),
        PAYLOAD_TYPE,
        (EnvelopeSignature(key.verifier().key_id.hex(), b64encode(signature).decode()),),
    )
    return msgspec.json.encode(envelope) + b"\n"


def open_envelope(data: bytes, key: VerifierKey) -> Statement:
    """Return the statement in an envelope that this key signed.

    Raises `Malformed` and `SignatureRejected`.
    """
    try:
        envelope = msgspec.json.decode(data, type=Envelope)
        payload = b64decode(envelope.payload, validate=True)
        signatures = [b64decode(s.sig, validate=True) for s in envelope.signatures]
    except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
        raise Malformed("attestation", str(error)) from None
    if envelope.payloadType != PAYLOAD_TYPE or len(signatures) != 1:
        raise Malformed("attestation", "it is no in-toto statement with one signature")
    key.verify(encode_pae(envelope.payloadType, payload), signatures[0])
    try:
        return msgspec.json.decode(payload, type=Statement)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Malformed("attestation", str(error)) from None
