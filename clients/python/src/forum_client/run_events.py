"""Events of a run or of the log, as the server streams them.

They are server-sent events (HTML standard, section 9.2), and the id of an event is the index of its
entry in the log.  A follower that lost its connection asks for what comes after the last index that
it has, so it misses no event and gets none twice.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from .problems import ReplyUnreadable

MAX_EVENT_BYTES = 64 * 1024 * 1024
"""Maximum size of one event, so that a broken server cannot fill the memory."""
LAST_EVENT_KIND = "run.close/1"
"""The kind of the entry that ends a run."""


class RunEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the log, in most cases of a run."""

    index: int
    """The index of the entry in the log."""
    id: str
    """The id of the entry: its leaf hash in the tree."""
    kind: str
    """What happened, such as `task.reply/1`."""
    entry: msgspec.Raw
    """The entry as JSON, byte for byte as it is hashed."""

    def decode(self) -> dict[str, Any]:
        """Return the entry with its members: `ts`, `actor`, `strand`, `facts`, `bodies`, ..."""
        entry: dict[str, Any] = msgspec.json.decode(self.entry)
        return entry

    @property
    def is_last(self) -> bool:
        """Whether the run of the entry has ended with it."""
        return self.kind == LAST_EVENT_KIND


class _EventData(msgspec.Struct, frozen=True):
    """The data of an event on the wire."""

    id: str
    index: int
    entry: msgspec.Raw


class EventParser:
    """Takes the bytes of a stream in pieces, and returns the events that are complete.

    Bytes are split at line feeds only.  A text may hold other characters that Python takes for the
    end of a line (U+2028, U+0085), and would be cut there.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._pending = bytearray()

    def feed(self, piece: bytes) -> Iterator[RunEvent]:
        """Yield the events that this piece completes.  Raises `ReplyUnreadable`."""
        # The end of a block may be split between two pieces: look again at the last byte.
        start = max(len(self._pending) - 1, 0)
        self._pending += piece
        while (end := self._pending.find(b"\n\n", start)) >= 0:
            # Copied before the buffer changes: the entry of the event points into the block.
            block, start = bytes(self._pending[:end]), 0
            del self._pending[: end + 2]
            event = self._read(block)
            if event is not None:
                yield event
        if len(self._pending) > MAX_EVENT_BYTES:
            raise ReplyUnreadable(self._address, f"an event of more than {MAX_EVENT_BYTES} bytes")

    def _read(self, block: bytes) -> RunEvent | None:
        """Return the event of a block; None of a comment, or of text that a model streams."""
        # Forum sends each field once, on one line: JSON has no line feed outside of its escapes.
        fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if b": " in line)
        # Without an id it is a piece of a reply that is not recorded yet; its entry will follow.
        if b"id" not in fields:
            return None
        try:
            data = msgspec.json.decode(fields[b"data"], type=_EventData)
            kind = fields[b"event"].decode()
        except (KeyError, msgspec.MsgspecError, UnicodeError) as error:
            raise ReplyUnreadable(self._address, f"an event: {error}") from None
        return RunEvent(index=data.index, id=data.id, kind=kind, entry=data.entry)
