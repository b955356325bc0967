"""Standard input and output as the pipes of an MCP client."""

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StdioPipes:
    """The file descriptors of the client's pipes."""

    heard: int
    said: int


def claim_stdio() -> StdioPipes:
    """Reserve standard input and output for messages.

    Other output of this process goes to standard error, and programs that it starts cannot read the
    messages: both would corrupt the protocol.
    """
    wires = StdioPipes(os.dup(0), os.dup(1))
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    return wires
