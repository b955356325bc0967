"""Witnesses: asking others to cosign our checkpoints, and cosigning theirs (C2SP tlog-witness).

`forum.witness.server` needs the extra `server` and is imported by its own name.
"""

from forum.witness.client import WitnessClient, over_http
from forum.witness.core import Audit, Refusal, Reply, Witness, read_request, write_request

__all__ = [
    "Audit",
    "Refusal",
    "Reply",
    "Witness",
    "WitnessClient",
    "over_http",
    "read_request",
    "write_request",
]
