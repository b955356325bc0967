"""Bodies of a bundle that are put together from spans, within bounds of memory."""

from collections.abc import Iterator
from typing import NamedTuple

from forum.errors import Malformed
from forum.ledger.body import CHUNK_SIZE
from forum.ledger.span_files import MAX_LISTED_BYTES, Place, SpanTable
from forum.ledger.spans import ByteSpan, skip_spans
from forum.ledger.zip_archive import Archive

_MAX_PIECE_BYTES = 64 << 20
"""How many bytes of pieces are kept; the spans of others are read one by one."""

_MAX_RECENT_BYTES = 32 << 20
_MAX_RECENT = 8


class ListedBodies:
    """Reads the bodies that have a list.  Raises `Malformed` if a piece is too large."""

    def __init__(self, archive: Archive, names: list[str]) -> None:
        """Read from the pieces of these names, in order; `table` takes their lists."""
        self._archive, self._names = archive, names
        self._sizes = [archive.members[name].size for name in names]
        if max(self._sizes, default=0) > MAX_LISTED_BYTES:
            raise Malformed("bundle", "a piece is too large")
        self.table = SpanTable(self._sizes)
        self._pieces: dict[int, bytes] = {}
        self._room = _MAX_PIECE_BYTES
        self._recent: dict[Place, bytes] = {}

    def chunks(self, place: Place) -> Iterator[bytes]:
        """Yield a body in chunks.  Raises `KeyError`."""
        content = self._recent.get(place)
        if content is None:
            content = self._put_together(place)
            self._remember(place, content)
        if len(content) <= CHUNK_SIZE:
            yield content
            return
        for at in range(0, len(content), CHUNK_SIZE):
            yield content[at : at + CHUNK_SIZE]

    def spans(self, place: Place) -> tuple[ByteSpan, ...]:
        """Return all spans of a body.  Raises `KeyError`."""
        return tuple(ByteSpan(*span) for span in self.table.spans(place))

    def read_from(self, place: Place, start: int) -> Iterator[bytes]:
        """Yield the bytes of a body from a place on.  Raises `KeyError`."""
        for span in skip_spans(self.spans(place), start):
            yield self._pieces_range(*span)

    def _put_together(self, place: Place) -> bytes:
        base, kept, end = self.table.base(place)
        base_body = None if base is None else self._recent.get(base)
        parts = [] if base_body is None else [base_body[:end]]
        spans = self.table.spans(place, 0 if base_body is None else kept)
        parts += [self._pieces_range(*span) for span in spans]
        return b"".join(parts)

    def _pieces_range(self, number: int, offset: int, length: int) -> bytes:
        """Return a range of a piece."""
        piece = self._pieces.get(number)
        if piece is None:
            return self._read_span(number, offset, length)
        return piece[offset : offset + length]

    def _read_span(self, number: int, offset: int, length: int) -> bytes:
        """Return a range of a piece that is not kept yet."""
        if self._sizes[number] > self._room:
            # Nothing is dropped for it: a hostile file would have it read again and again.
            return self._archive.read_range(self._names[number], offset, length)
        self._room -= self._sizes[number]
        piece = self._pieces[number] = self._archive.read(self._names[number])
        return piece[offset : offset + length]

    def _remember(self, place: Place, content: bytes) -> None:
        """Keep a body for the next ones, which mostly begin with all of it."""
        self._recent[place] = content
        while (
            len(self._recent) > _MAX_RECENT
            or sum(map(len, self._recent.values())) > _MAX_RECENT_BYTES
        ):
            del self._recent[next(iter(self._recent))]


class ListedBody(NamedTuple):
    """One body that has a list."""

    bodies: ListedBodies
    place: Place

    def spans(self) -> tuple[ByteSpan, ...]:
        """Return the spans of the body."""
        return self.bodies.spans(self.place)

    def read_from(self, start: int) -> Iterator[bytes]:
        """Yield the bytes of the body from a place on."""
        return self.bodies.read_from(self.place, start)
