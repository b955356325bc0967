"""Parse server-sent events, by which providers stream replies."""

from collections.abc import Iterator
from typing import Final, NamedTuple

MAX_EVENT_BYTES: Final = 1 << 23


class SseEvent(NamedTuple):
    """A server-sent event."""

    name: str
    data: bytes


class ReplyTooLarge(Exception):
    """Raised when a response exceeds a size limit."""


class SseParser:
    """Incremental parser for server-sent events, fed with chunks of any size.

    A line ends with LF or CR LF.  A lone CR, which the standard also allows, is not supported
    because no provider sends it.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        """Bytes since the last complete event."""
        self._name, self._data = "", list[bytes]()
        self._mark = b"\xef\xbb\xbf"
        """The byte order mark that may precede the first line; empty afterwards."""

    def feed(self, chunk: bytes) -> Iterator[SseEvent]:
        """Add a chunk and yield the events that it completes.  Raises `ReplyTooLarge`."""
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            self._count(line)
            self._pieces.append(line)
            whole = b"".join(self._pieces).removesuffix(b"\r").removeprefix(self._mark)
            self._pieces.clear()
            self._mark = b""
            if whole:
                self._read_field(whole)
                continue
            # An event without data is not dispatched (HTML, section 9.2.6).
            if self._data:
                yield SseEvent(self._name, b"\n".join(self._data))
            self._name, self._data = "", []
            self._size = 0
        if rest:
            self._count(rest)
            self._pieces.append(rest)

    def _count(self, piece: bytes) -> None:
        # Plus one for the line feed, so that a stream of empty fields is limited as well.
        self._size += len(piece) + 1
        if self._size > MAX_EVENT_BYTES:
            raise ReplyTooLarge

    def _read_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value.decode(errors="replace")
