"""Puts bodies together that are stored as lists of spans."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from forum.errors import Malformed
from forum.ledger.body import CHUNK_SIZE
from forum.ledger.spans import MAX_CHAIN, ByteSpan, SpanList, decode_spans, resolve_chain

MAX_BODY_BYTES = 16 << 20
"""The greatest size of a body that is stored as a list: to compare it, it is held in memory."""

_MAX_CACHED_BYTES = 64 << 20
_MAX_FETCHED_PIECES = 1000
_MAX_FETCHED_BYTES = 16 << 20


class FetchRows(Protocol):
    """A function that runs a named query and returns all rows."""

    def __call__(self, query: str, **parameters: object) -> list[Any]:
        """Run the query."""


class _Segment(NamedTuple):
    """A part of a piece that is stored."""

    start: int
    data: bytes


class PieceReader:
    """Puts bodies of one run together, and keeps for the next one what it has read."""

    def __init__(
        self, fetch: FetchRows, strand: int, list_numbers: Callable[[list[int]], object]
    ) -> None:
        """`strand` is the key of the run's strand `main`."""
        self._fetch, self._strand = fetch, strand
        self._list = list_numbers
        self._lists: dict[int, SpanList] = {}
        self._resolved: dict[int, tuple[ByteSpan, ...]] = {}
        self._pieces: dict[int, list[_Segment]] = {}
        self._sizes: dict[int, int] | None = None
        self._cached_bytes = self._chains = 0

    def read(self, number: int) -> Iterator[bytes]:
        """Yield the body of a list in chunks.

        A list that somebody has changed, or bytes that are gone, end it early: then the content is
        not the one that the entry has committed to, and every reader finds that.
        """
        try:
            spans = self.resolve(number)
            if sum(span.length for span in spans) > MAX_BODY_BYTES:
                return
            yield from self._read_chunks(spans)
        except Malformed:
            return

    def resolve(self, number: int) -> tuple[ByteSpan, ...]:
        """Return all spans of a list.  Raises `Malformed` if it leads nowhere."""
        if number not in self._resolved:
            if number not in self._lists:
                self._fetch_lists(number)
            self._resolved[number] = resolve_chain(number, self._lists, self._resolved)
        return self._resolved[number]

    def _fetch_lists(self, number: int) -> None:
        # Who reads a second body of the run reads more of them: one query returns all lists.
        rows = (
            self._fetch("span_lists", strand=self._strand)
            if self._chains
            else self._fetch("list_chain", strand=self._strand, number=number, limit=MAX_CHAIN)
        )
        self._chains += 1
        self._lists.update((row[0], read_list(row)) for row in rows)

    def _read_chunks(self, spans: Sequence[ByteSpan]) -> Iterator[bytes]:
        parts: list[bytes] = []
        size = 0
        for at, span in enumerate(spans):
            for part in self._slice(span, spans, at):
                parts.append(part)
                size += len(part)
                if size >= CHUNK_SIZE:
                    joined = b"".join(parts)
                    cut = size - size % CHUNK_SIZE
                    yield from (joined[i : i + CHUNK_SIZE] for i in range(0, cut, CHUNK_SIZE))
                    parts, size = [joined[cut:]], size - cut
        if size or not spans:  # as content in memory: nothing is one empty chunk
            yield b"".join(parts)

    def _slice(self, span: ByteSpan, spans: Sequence[ByteSpan], at: int) -> Iterator[bytes]:
        """Yield the bytes of a span; `spans` from `at` on are those that are read next."""
        if span.piece not in self._pieces:
            self._fetch_pieces(spans, at)
        segments = self._pieces[span.piece]
        offset, left = span.offset, span.length
        number = bisect_right(segments, offset, key=lambda segment: segment.start) - 1
        while left:
            segment = segments[number] if 0 <= number < len(segments) else _Segment(0, b"")
            part = segment.data[offset - segment.start : offset - segment.start + left]
            if offset < segment.start or not part:
                raise Malformed("spans", f"bytes of piece {span.piece} are missing")
            yield part
            offset += len(part)
            left -= len(part)
            number += 1

    def _fetch_pieces(self, spans: Sequence[ByteSpan], at: int) -> None:
        """Fetch the piece of a span, and with it pieces that are read next."""
        numbers = dict.fromkeys(span.piece for span in spans[at:] if span.piece not in self._pieces)
        wanted = self._take_page(list(numbers))
        if self._cached_bytes + self._size_of(wanted) > _MAX_CACHED_BYTES:
            self._pieces.clear()
            self._cached_bytes = 0
        self._cached_bytes += self._size_of(wanted)
        for number in wanted:
            self._pieces[number] = []
        rows = self._fetch("pieces", strand=self._strand, numbers=self._list(wanted))
        for number, start, data in rows:
            self._pieces[number].append(_Segment(start, data))

    def _take_page(self, numbers: list[int]) -> list[int]:
        """Return the first of these pieces, and as many more as may be held in memory with it."""
        page, total = numbers[:1], self._size_of(numbers[:1])
        for number in numbers[1:_MAX_FETCHED_PIECES]:
            total += self._size_of([number])
            if total > _MAX_FETCHED_BYTES:
                break
            page.append(number)
        return page

    def _size_of(self, pieces: Sequence[int]) -> int:
        """Return the number of bytes that are stored of some pieces."""
        if self._sizes is None:
            self._sizes = {}
            for number, _, size in self._fetch("piece_ranges", strand=self._strand):
                self._sizes[number] = self._sizes.get(number, 0) + size
        return sum(self._sizes.get(piece, 0) for piece in pieces)


def read_list(row: Sequence[Any]) -> SpanList:
    """Return the list of a row.  Raises `Malformed`."""
    _, base, kept, depth, spans = row
    return SpanList(base, kept, decode_spans(bytes(spans)), depth)
