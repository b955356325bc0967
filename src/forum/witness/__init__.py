"""Witnesses: asking others to cosign our checkpoints, and cosigning theirs (C2SP tlog-witness).

`forum.witness.server` needs the extra `server` and is imported by its own name.
"""

from forum.witness.client import WitnessClient, http_sender
from forum.witness.witness import (
    AuditCheckpoint,
    AuditRefusal,
    Witness,
    WitnessReply,
    encode_request,
    parse_request,
)

__all__ = [
    "AuditCheckpoint",
    "AuditRefusal",
    "Witness",
    "WitnessClient",
    "WitnessReply",
    "encode_request",
    "http_sender",
    "parse_request",
]
