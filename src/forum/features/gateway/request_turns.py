"""Divide a request into its messages, so that a later call can be compared with it.

Everything is compared as it is spelled: a number or an escape that is written in another way may
have other tokens.  Only marks for the cache are left out, which are no input.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

_CACHE_MARK: Final = "cache_control"
_OUTPUT_MEMBERS: Final = frozenset(
    {
        "max_completion_tokens", "max_output_tokens", "max_tokens", "metadata", "n", "seed",
        "stop", "stop_sequences", "stream", "stream_options", "temperature", "top_p", "user",
    }
)  # fmt: skip
"""Members that do not change the input.  With any other one that differs, the input is another."""


class RequestTurn(NamedTuple):
    """One message of a request, with all that is before it."""

    digest: bytes
    """Of everything that can change the input, up to and with this message."""
    later_tokens: int
    """The bound of the messages after it."""


class RawTurns(NamedTuple):
    """The messages of a request, as they are spelled, and all else that can change the input."""

    rest: bytes
    messages: Sequence[bytes]


def split_turns(data: bytes, name: str) -> RawTurns:
    """Return the messages that the member `name` of a composed request has."""
    members = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    messages = bytes(members.pop(name, msgspec.Raw(b"[]")))
    if not messages.startswith(b"["):
        return RawTurns(b"", ())
    rest = {
        each: msgspec.Raw(_strip(bytes(raw)))
        for each, raw in members.items()
        if each not in _OUTPUT_MEMBERS
    }
    raws = msgspec.json.decode(messages, type=list[msgspec.Raw])
    return RawTurns(msgspec.json.encode(rest), [bytes(raw) for raw in raws])


def digest_turns(raw: RawTurns, tokens: Sequence[int]) -> tuple[RequestTurn, ...]:
    """Return the messages of a request, of which each has at most so many tokens."""
    turns, later = [], sum(tokens)
    state = sha256(len(raw.rest).to_bytes(8) + raw.rest)
    for message, count in zip(raw.messages, tokens, strict=True):
        spelled = _strip(message)
        state.update(len(spelled).to_bytes(8) + spelled)
        later -= count
        turns.append(RequestTurn(state.digest(), later))
    return tuple(turns)


def _strip(data: bytes) -> bytes:
    """Return the JSON of a message, a part or a list of those, without marks for the cache.

    They are looked for where the APIs have them, and not in what a tool is given.
    """
    if b'"' + _CACHE_MARK.encode() + b'"' not in data:
        return data
    if data.startswith(b"["):
        parts = msgspec.json.decode(data, type=list[msgspec.Raw])
        return msgspec.json.encode([msgspec.Raw(_strip(bytes(part))) for part in parts])
    if not data.startswith(b"{"):
        return data
    members = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    members.pop(_CACHE_MARK, None)
    if "content" in members:
        members["content"] = msgspec.Raw(_strip(bytes(members["content"])))
    return msgspec.json.encode(members)
