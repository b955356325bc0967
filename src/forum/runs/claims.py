"""Statements in a text that something was done, and the entries that support them.

A model that writes "all tests pass" may be right; the record shows whether a program ran that
counted them. A claim is linked to the outcome that supports it, or it is *unverified*, which does
not mean that it is wrong.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum

import msgspec


class ClaimedAction(StrEnum):
    """What kind of thing is said to have been done."""

    TESTS = "tests"
    FILE = "file"
    COMMAND = "command"
    SENT = "sent"
    CHECKED = "checked"
    """Something was looked at: read, searched, compared, looked up."""


class Receipt(msgspec.Struct, frozen=True):
    """The outcome of a tool use, as evidence that something was done."""

    entry: str
    tool: str
    arguments: str
    result: str


class ActionClaim(msgspec.Struct, frozen=True):
    """A sentence that says that something was done."""

    deed: ClaimedAction
    text: str
    receipt: str = ""
    """The entry that supports the claim; empty if it is unverified."""


ClaimFinder = Callable[[bytes, Sequence[Receipt]], tuple[ActionClaim, ...]]
"""Returns the claims in a text, each with the entry that supports it, if there is one."""


def read_claims(data: bytes) -> tuple[ActionClaim, ...]:
    """Return the claims of a body; none if it is empty or cannot be read."""
    try:
        return _claims.decode(data) if data else ()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ()


# Created at import: two threads in which msgspec inspects a type at the same time crash the
# process.
_claims = msgspec.json.Decoder(tuple[ActionClaim, ...])


def count_unverified(claims: Sequence[ActionClaim]) -> int:
    """Count the claims that no entry supports."""
    return sum(1 for claim in claims if not claim.receipt)
