"""Content in a file without a name: what may be too long to be held in memory."""

import os
import tempfile
from collections.abc import Iterator
from weakref import finalize

from forum.ledger import CHUNK_SIZE


class FileContent:
    """Content in a file that nobody else can open, and that is gone when nobody knows it any more.

    It grows until it is handed out.  It may be read by several threads at once, for it has no
    position that they could move.
    """

    def __init__(self) -> None:
        # The file object would warn when it is not closed in time; its descriptor does not.
        with tempfile.TemporaryFile(buffering=0) as file:
            self._descriptor = os.dup(file.fileno())
        self._size = 0
        self._close = finalize(self, os.close, self._descriptor)

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self._size

    def append(self, piece: bytes) -> None:
        """Add bytes at the end."""
        rest = memoryview(piece)
        while rest:
            written = os.pwrite(self._descriptor, rest, self._size)
            self._size += written
            rest = rest[written:]

    def chunks(self) -> Iterator[bytes]:
        """Read it piece by piece; empty content is one empty piece."""
        start = 0
        while True:
            piece = os.pread(self._descriptor, min(CHUNK_SIZE, self._size - start), start)
            yield piece
            start += len(piece)
            if not piece or start == self._size:
                return

    def close(self) -> None:
        """Let go of the file now."""
        self._close()
