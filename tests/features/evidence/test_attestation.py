"""The attestation: by the vector of DSSE, and as other tools read it."""

import base64
import json
from pathlib import Path

import pytest

from forum.errors import Malformed, SignatureRejected
from forum.features.evidence.attestation import (
    ResultVerifier,
    Statement,
    StatementSubject,
    VerificationResult,
    encode_pae,
    open_envelope,
    sign_statement,
)
from forum.features.evidence.pack_file import report_schema
from forum.tlog import SigningKey

ROOT = Path(__file__).parent.parent.parent.parent
KEY = SigningKey(b"k" * 32, "log.example/evidence")
STATEMENT = Statement(
    type="https://in-toto.io/Statement/v1",
    subject=(StatementSubject("manifest.json", {"sha256": "ab" * 32}),),
    predicate_type="https://in-toto.io/attestation/svr/v0.1",
    predicate=VerificationResult(
        ResultVerifier("log.example"), "2026-11-01T00:00:00Z", ("FORUM_INTACT_HOLDS",)
    ),
)


def test_the_signed_bytes_are_those_of_the_specification() -> None:
    """The test vector of the DSSE protocol, version 1."""
    encoded = encode_pae("http://example.com/HelloWorld", b"hello world")

    assert encoded == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert encode_pae("", "é".encode()) == b"DSSEv1 0  2 \xc3\xa9"


def test_an_envelope_is_opened_by_its_key_only() -> None:
    """Another key, another payload or a second signature is refused."""
    data = sign_statement(STATEMENT, KEY)
    envelope = json.loads(data)

    assert open_envelope(data, KEY.verifier()) == STATEMENT
    other = SigningKey(b"o" * 32, KEY.name)
    with pytest.raises(SignatureRejected):
        open_envelope(data, other.verifier())
    payload = json.loads(base64.b64decode(envelope["payload"]))
    payload["predicate"]["properties"] = ["FORUM_ALL_HOLDS"]
    changed = base64.b64encode(json.dumps(payload).encode()).decode()
    with pytest.raises(SignatureRejected):
        open_envelope(json.dumps(envelope | {"payload": changed}).encode(), KEY.verifier())
    changes: list[dict[str, object]] = [
        {"signatures": []},
        {"payloadType": "text/plain"},
        {"payload": "?"},
    ]
    for broken in changes:
        with pytest.raises(Malformed):
            open_envelope(json.dumps(envelope | broken).encode(), KEY.verifier())


def test_tools_for_attestations_read_it() -> None:
    """The envelope by securesystemslib, the statement by the library of in-toto."""
    dsse = pytest.importorskip("securesystemslib.dsse")
    signer = pytest.importorskip("securesystemslib.signer")
    statements = pytest.importorskip("in_toto_attestation.v1.statement_pb2")
    statement = pytest.importorskip("in_toto_attestation.v1.statement")
    json_format = pytest.importorskip("google.protobuf.json_format")
    envelope = json.loads(sign_statement(STATEMENT, KEY))
    public = {"public": KEY.verifier().public.hex()}
    key = signer.SSlibKey(KEY.verifier().key_id.hex(), "ed25519", "ed25519", public)

    opened = dsse.Envelope.from_dict(json.loads(json.dumps(envelope)))
    assert opened.verify([key], 1)

    parsed = json_format.Parse(opened.payload, statements.Statement())
    read = statement.Statement.copy_from_pb(parsed)
    read.validate()
    assert read.pb.predicate_type == "https://in-toto.io/attestation/svr/v0.1"
    assert [subject.name for subject in read.pb.subject] == ["manifest.json"]


def test_the_published_schema_is_that_of_the_report() -> None:
    """To write it: python -m tests.docs.evidence_schema."""
    assert (ROOT / "docs/spec/evidence.schema.json").read_bytes() == report_schema()
