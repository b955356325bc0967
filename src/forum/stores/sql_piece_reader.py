"""Puts bodies together that are stored as lists of spans."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from forum.errors import Malformed
from forum.ledger.body import CHUNK_SIZE
from forum.ledger.span_files import MAX_LISTED_BYTES
from forum.ledger.spans import (
    MAX_CHAIN,
    ByteSpan,
    SpanList,
    decode_spans,
    resolve_chain,
    skip_spans,
    sum_lengths,
)

_MAX_CACHED_BYTES = 64 << 20
_MAX_CACHED_SPANS = 1 << 18
_MAX_READ_BYTES = 1 << 30
"""How many bytes of pieces are fetched for one body; one that honest writers stored needs fewer."""
_MAX_FETCHED_PIECES = 1000
_MAX_FETCHED_BYTES = 16 << 20
_NEXT_PIECES = 128
"""How many pieces behind the one that is needed are fetched with it."""


class _ListRow(NamedTuple):
    """A list as it is stored."""

    base: int | None
    kept: int
    spans: bytes


class FetchRows(Protocol):
    """A function that runs a named query and returns all rows."""

    def __call__(self, query: str, **parameters: object) -> list[Any]:
        """Run the query."""


class _Segment(NamedTuple):
    """A part of a piece that is stored."""

    start: int
    data: bytes


class PieceReader:
    """Puts bodies of one run together, and keeps for the next one what it has read.

    Whoever can write to the database may have put anything there.  So what is held in memory is
    bounded, and so is what is read for one body.
    """

    def __init__(
        self, fetch: FetchRows, strand: int, list_numbers: Callable[[list[int]], object]
    ) -> None:
        """`strand` is the key of the run's strand `main`."""
        self._fetch, self._strand = fetch, strand
        self._list = list_numbers
        self._lists: dict[int, _ListRow] = {}
        self._resolved: OrderedDict[int, tuple[ByteSpan, ...]] = OrderedDict()
        self._pieces: dict[int, list[_Segment]] = {}
        self._cached_bytes = self._cached_spans = self._chains = 0

    def read(self, number: int) -> Iterator[bytes]:
        """Yield the body of a list in chunks.

        A list that somebody has changed, or bytes that are gone, end it early: then the content is
        not the one that the entry has committed to, and every reader finds that.
        """
        try:
            yield from self.read_from(number, 0)
        except Malformed:
            return

    def read_from(self, number: int, start: int) -> Iterator[bytes]:
        """Yield the body of a list from a byte on, in chunks.

        Only pieces that are needed for it are fetched.  Raises `Malformed`.
        """
        spans = self.resolve(number)
        if sum_lengths(spans) > MAX_LISTED_BYTES:
            raise Malformed("spans", f"a body has more than {MAX_LISTED_BYTES} bytes")
        yield from self._read_chunks(skip_spans(spans, start))

    def resolve(self, number: int) -> tuple[ByteSpan, ...]:
        """Return all spans of a list.  Raises `Malformed` if it leads nowhere."""
        spans = self._resolved.get(number)
        if spans is None:
            spans = resolve_chain(number, self._read_chain(number), self._resolved)
            self._resolved[number] = spans
            self._cached_spans += len(spans)
            while self._cached_spans > _MAX_CACHED_SPANS and len(self._resolved) > 1:
                self._cached_spans -= len(self._resolved.popitem(last=False)[1])
        return spans

    def measure_chain(self, number: int) -> int:
        """Return how many lists a body is read from.  Raises `Malformed` if they are too many."""
        count, at = 0, number if number in self._lists else None
        while at is not None:
            count += 1
            if count > MAX_CHAIN or at not in self._lists:
                raise Malformed("spans", f"list {at} is missing, or one too many")
            at = self._lists[at].base
        return count

    def _read_chain(self, number: int) -> dict[int, SpanList]:
        """Return a list and those that it builds on, as far as they are not resolved."""
        if number not in self._lists:
            self._fetch_lists(number)
        chain: dict[int, SpanList] = {}
        at: int | None = number
        while at is not None and at not in chain and at not in self._resolved:
            row = self._lists.get(at)
            if row is None or len(chain) > MAX_CHAIN:
                break  # `resolve_chain` says what is wrong
            chain[at] = SpanList(row.base, row.kept, decode_spans(row.spans))
            at = row.base
        return chain

    def _fetch_lists(self, number: int) -> None:
        # Who reads a second body of the run reads more of them: one query returns all lists.
        rows = (
            self._fetch("span_lists", strand=self._strand)
            if self._chains
            else self._fetch("list_chain", strand=self._strand, number=number, limit=MAX_CHAIN)
        )
        self._chains += 1
        self._lists.update((row[0], _ListRow(*row[1:])) for row in rows)

    def _read_chunks(self, spans: Sequence[ByteSpan]) -> Iterator[bytes]:
        left = _FetchBudget(_MAX_READ_BYTES)
        parts: list[bytes] = []
        size = 0
        for at, span in enumerate(spans):
            if span.piece not in self._pieces:
                self._fetch_pieces(spans, at, left)
            for part in _slice(self._pieces[span.piece], span):
                parts.append(part)
                size += len(part)
                if size >= CHUNK_SIZE:
                    joined = b"".join(parts)
                    cut = size - size % CHUNK_SIZE
                    yield from (joined[i : i + CHUNK_SIZE] for i in range(0, cut, CHUNK_SIZE))
                    parts, size = [joined[cut:]], size - cut
        if size or not spans:  # as content in memory: nothing is one empty chunk
            yield b"".join(parts)

    def _fetch_pieces(self, spans: Sequence[ByteSpan], at: int, left: "_FetchBudget") -> None:
        """Fetch the piece of a span, and with it pieces that are read next."""
        missing = dict.fromkeys(span.piece for span in spans[at:] if span.piece not in self._pieces)
        wanted = list(missing)[:_MAX_FETCHED_PIECES]
        following = self._guess_following(wanted)
        numbers = self._list([*wanted, *following])
        sizes = dict(self._fetch("piece_sizes", strand=self._strand, numbers=numbers))
        wanted += [n for n in following if 0 < sizes.get(n, 0) <= MAX_LISTED_BYTES]
        page = _take_page(wanted, sizes)
        total = sum(sizes.get(number, 0) for number in page)
        left.take(total)
        if self._cached_bytes + total > _MAX_CACHED_BYTES:
            self._pieces.clear()
            self._cached_bytes = 0
        self._cached_bytes += total
        for number in page:
            self._pieces[number] = []
        rows = self._fetch("pieces", strand=self._strand, numbers=self._list(page))
        for number, start, data in rows:
            self._pieces[number].append(_Segment(start, data))

    def _guess_following(self, wanted: Sequence[int]) -> list[int]:
        """Return pieces that are read next: whoever reads two bodies of a run reads more."""
        if self._chains < 2 or len(wanted) >= _NEXT_PIECES:
            return []
        following = range(wanted[-1] + 1, wanted[-1] + _NEXT_PIECES)
        return [n for n in following if n not in self._pieces and n not in wanted]


class PieceBody(NamedTuple):
    """A body that is stored as a list of spans."""

    reader: PieceReader
    number: int

    def spans(self) -> Sequence[ByteSpan]:
        """Return the spans of the body.  Raises `Malformed`."""
        return self.reader.resolve(self.number)

    def read_from(self, start: int) -> Iterator[bytes]:
        """Yield the bytes of the body from a place on.  Raises `Malformed`."""
        return self.reader.read_from(self.number, start)


class _FetchBudget:
    """What may still be fetched for one body."""

    def __init__(self, size: int) -> None:
        self._left = size

    def take(self, size: int) -> None:
        """Count bytes that are fetched.  Raises `Malformed` if they are too many."""
        self._left -= size
        if self._left < 0:
            raise Malformed("spans", f"a body needs more than {_MAX_READ_BYTES} bytes of pieces")


def _take_page(numbers: Sequence[int], sizes: Mapping[int, int]) -> list[int]:
    """Return the first of these pieces, and as many more as may be held in memory with it."""
    page: list[int] = []
    total = 0
    for number in numbers:
        size = sizes.get(number, 0)
        if size > MAX_LISTED_BYTES:
            raise Malformed("spans", f"piece {number} is longer than any body")
        total += size
        if page and total > _MAX_FETCHED_BYTES:
            break
        page.append(number)
    return page


def _slice(segments: Sequence[_Segment], span: ByteSpan) -> Iterator[bytes]:
    """Yield the bytes of a span of a piece.  Raises `Malformed` if some are missing."""
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


def read_list(row: Sequence[Any]) -> SpanList:
    """Return the list of a row.  Raises `Malformed`."""
    _, base, kept, spans = row
    return SpanList(base, kept, decode_spans(bytes(spans)))
