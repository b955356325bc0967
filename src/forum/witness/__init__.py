"""Witnesses (C2SP tlog-witness): a client that requests cosignatures, and a witness that cosigns.

`forum.witness.server` needs the extra `server`, so it is not imported here.
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
