"""Messages of MCP that are too large for the library, which reads them on the event loop.

The arguments of a tool are taken out, and handed to the tool apart; the library gets the rest.
"""

import msgspec

from forum.limits.json_values import MAX_LARGE_BODY_VALUES, has_more_values
from forum.limits.off_loop import MAX_INLINE_BYTES, MAX_THREAD_BYTES, read_by_size

_UNREADABLE = b"{"
"""Makes the library answer that a message cannot be read, in its own form."""


class SplitMessage(msgspec.Struct, frozen=True):
    """A message without the arguments of its tool, and these."""

    head: bytes
    arguments: bytes = b""


async def split_large_message(body: bytes) -> SplitMessage:
    """Return a message that the library may read.  Raises `BodyTooExpensive`, `WorkerLost`."""
    if len(body) <= MAX_INLINE_BYTES:
        return SplitMessage(body)
    return await read_by_size(split_message, body, MAX_INLINE_BYTES)


def split_message(body: bytes, max_head: int) -> SplitMessage:
    """Return a message and its arguments; what remains must be small."""
    if len(body) > MAX_THREAD_BYTES and has_more_values(body, MAX_LARGE_BODY_VALUES):
        return SplitMessage(_UNREADABLE)
    try:
        message = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return SplitMessage(_UNREADABLE)
    arguments = b""
    params = message.get("params") if isinstance(message, dict) else None
    if isinstance(params, dict) and isinstance(params.get("arguments"), dict):
        arguments = msgspec.json.encode(params["arguments"])
        params["arguments"] = {}
    head = msgspec.json.encode(message)
    return SplitMessage(head, arguments) if len(head) <= max_head else SplitMessage(_UNREADABLE)
