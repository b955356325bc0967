"""Content in an anonymous file, for output that may be too large for memory."""

import os
import tempfile
from collections.abc import Iterator
from weakref import finalize

from forum.ledger.body import CHUNK_SIZE


class FileContent:
    """Content in an anonymous temporary file, deleted when the object is collected.

    It may grow until it is handed out.  Several threads may read it at once, because reads use
    explicit offsets and no shared file position.
    """

    def __init__(self) -> None:
        # A file object warns when it is not closed explicitly; a duplicated descriptor does not.
        with tempfile.TemporaryFile(buffering=0) as file:
            self._descriptor = os.dup(file.fileno())
        self._size = 0
        self._close = finalize(self, os.close, self._descriptor)

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self._size

    def append(self, piece: bytes) -> None:
        """Append bytes."""
        rest = memoryview(piece)
        while rest:
            written = os.pwrite(self._descriptor, rest, self._size)
            self._size += written
            rest = rest[written:]

    def chunks(self) -> Iterator[bytes]:
        """Yield the content in chunks; empty content is one empty chunk."""
        start = 0
        while True:
            piece = os.pread(self._descriptor, min(CHUNK_SIZE, self._size - start), start)
            yield piece
            start += len(piece)
            if not piece or start == self._size:
                return

    def close(self) -> None:
        """Close the file now."""
        self._close()
