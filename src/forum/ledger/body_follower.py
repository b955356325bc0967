"""Read bodies of a run one after the other, and of each only what the ones before do not have."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from forum.errors import Malformed
from forum.ledger.body import BytesContent, StoredBody
from forum.ledger.entry import Entry
from forum.ledger.log import check_body, read_stored
from forum.ledger.spans import MIN_SHARED_BYTES, ByteSpan, common_beginning

_MAX_RECENT = 8
_MAX_RECENT_BYTES = 32 << 20


class ReadBody(NamedTuple):
    """The content of a body."""

    content: bytes
    kept: int
    """How many bytes at its beginning are those of a body that was read before."""
    base: bytes = b""
    """The content of that body."""


class _RecentBody(NamedTuple):
    content: bytes
    spans: Sequence[ByteSpan]


class BodyFollower:
    """Reads bodies in the order in which they were recorded; it holds the last few in memory."""

    def __init__(self) -> None:
        self._recent: list[_RecentBody] = []

    def read(self, entry: Entry[Any], name: str, body: StoredBody) -> ReadBody:
        """Return the content of a body.  Raises `TamperDetected`."""
        try:
            spans = body.shared.spans() if body.shared else None
        except Malformed:
            spans = None  # its bytes are not those that were recorded
        if spans is None:
            return ReadBody(read_stored(entry, name, body), 0)
        base, kept = b"", 0
        for recent in self._recent:
            length = common_beginning(spans, recent.spans, len(recent.content))
            if length > kept:
                base, kept = recent.content, length
        content = read_after(entry, name, body, base, kept=kept)
        self._remember(_RecentBody(content, spans), base, kept)
        return ReadBody(content, kept, base)

    def _remember(self, body: _RecentBody, base: bytes, kept: int) -> None:
        """Keep a body for the next ones, in place of the one that it goes on from."""
        goes_on = len(base) - kept < MIN_SHARED_BYTES
        others = [r for r in self._recent if not (goes_on and r.content is base)]
        self._recent = [*others[1 - _MAX_RECENT :], body]
        while len(self._recent) > 1 and self._size > _MAX_RECENT_BYTES:
            del self._recent[0]

    @property
    def _size(self) -> int:
        return sum(len(recent.content) for recent in self._recent)


def read_after(entry: Entry[Any], name: str, body: StoredBody, base: bytes, kept: int) -> bytes:
    """Return a body whose first bytes are those of another one.  Raises `TamperDetected`."""
    if body.shared is None or not kept:
        return read_stored(entry, name, body)
    try:
        content = b"".join([memoryview(base)[:kept], *body.shared.read_from(kept)])
    except Malformed:
        content = b""
    check_body(entry, name, StoredBody(body.salt, BytesContent(content).chunks))
    return content
