"""The lists of spans in a bundle: as files, and as a table that is followed without copying them.

A bundle is untrusted, and a short list can describe a long body.  `SpanTable` therefore refuses a
list before any byte of a body is read, in time that grows with the lists as they are written: it
never writes out what a list keeps of its base.  See docs/spec/bundle.md, Bodies in spans.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from forum.errors import Malformed
from forum.ledger.spans import MAX_CHAIN, MAX_SPANS, ByteSpan

Place = tuple[int, str]
"""The index of an entry and the name of its body."""

MAX_LISTED_BYTES = 16 << 20
"""The greatest size of a body that has a list, and of a piece: a reader may hold one in memory."""

MAX_BODY_BYTES = 2 << 30
"""How many bytes all bodies of a bundle may have together, unless its reader raises it."""

NO_LIMIT = (1 << 63) - 1
"""For a file whose digest is on record: whoever wrote it knows what is in it."""

BYTES_PER_SPAN = 512
"""All lists of a bundle may have one span for each so many bytes that all bodies may have."""


MAX_LIST_BYTES = 4 << 20
"""The greatest length of a list; one with as many spans as allowed is shorter."""


class SpanFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The list of one body: the first `kept` spans of the list of `base`, then `spans`."""

    size: int
    base: Place | None
    kept: int
    spans: tuple[ByteSpan, ...]


_DECODER = msgspec.json.Decoder(SpanFile)


def read_span_file(data: bytes) -> SpanFile:
    """Parse a list.  Raises `Malformed` for anything not in its canonical form."""
    if len(data) > MAX_LIST_BYTES:
        raise Malformed("bundle", f"a list of spans is longer than {MAX_LIST_BYTES} bytes")
    try:
        listed = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeError):
        listed = None
    if listed is None or msgspec.json.encode(listed) != data:
        raise Malformed("bundle", "a list of spans is not in canonical form")
    return listed


class _Row(NamedTuple):
    """One list: what it keeps of its base, and where the spans that it adds are."""

    place: Place
    base: "_Row | None"
    kept: int
    start: int
    length: int
    """How many spans the body has, with those that are kept."""
    depth: int
    size: int


class SpanTable:
    """The lists of a bundle, added in the order of their bodies.  Raises `Malformed`."""

    def __init__(self, pieces: Sequence[int]) -> None:
        """Begin a table over pieces of these sizes."""
        self._pieces = pieces
        self._used = [0] * len(pieces)
        """How many bytes of each piece the lists so far have used, from its beginning."""
        self._begun = 0
        self._rows: dict[Place, _Row] = {}
        # Of all spans as they are written, not as they are kept: packed, because a hostile file
        # can hold very many.
        self._numbers, self._offsets = array("Q"), array("Q")
        self._lengths, self._ends = array("Q"), array("Q")
        self.body_bytes = self.span_count = 0

    def __contains__(self, place: Place) -> bool:
        return place in self._rows

    def __iter__(self) -> Iterator[Place]:
        return iter(self._rows)

    def size(self, place: Place) -> int:
        """Return the size of a body.  Raises `KeyError`."""
        return self._rows[place].size

    def add(self, place: Place, listed: SpanFile) -> None:
        """Add the list of a body, which may keep spans of one that was added before."""
        _require(0 < listed.size <= MAX_LISTED_BYTES, "a body in spans is empty or too large")
        base = None
        if listed.base is not None:
            base = self._rows.get(listed.base)
            _require(base is not None, "a list of spans refers to one that is not before it")
        depth = base.depth + 1 if base else 1
        _require(depth <= MAX_CHAIN, f"a chain of more than {MAX_CHAIN} lists of spans")
        fits = 1 <= listed.kept <= base.length if base else listed.kept == 0
        _require(fits, "a list of spans keeps other spans than its base has")
        count = listed.kept + len(listed.spans)
        _require(count <= MAX_SPANS, f"a body has more than {MAX_SPANS} spans")
        row = _Row(
            place,
            base,
            kept=listed.kept,
            start=len(self._numbers),
            length=count,
            depth=depth,
            size=listed.size,
        )
        self._write(row, listed.spans)
        self._rows[place] = row
        self.body_bytes += listed.size
        self.span_count += count

    def finish(self, inline_bytes: int, max_bytes: int) -> None:
        """Refuse bytes that no list uses, and more than a reader wants to put together."""
        _require(self._used == list(self._pieces), "a piece has bytes that no body uses")
        self.body_bytes += inline_bytes
        for count, most, unit in (
            (self.body_bytes, max_bytes, "bytes"),
            (self.span_count, max_bytes // BYTES_PER_SPAN, "spans"),
        ):
            _require(
                count <= most,
                f"its bodies have {count} {unit} together, and at most {most} are read; "
                "the limit can be raised (--max-bytes)",
            )

    def base(self, place: Place) -> tuple[Place | None, int, int]:
        """Return the base of a list, and how many spans and bytes it keeps.  Raises `KeyError`."""
        row = self._rows[place]
        return row.base and row.base.place, row.kept, self._end_of_kept(row)[0]

    def spans(self, place: Place, first: int = 0) -> Iterator[tuple[int, int, int]]:
        """Yield piece, offset and length of the spans of a body.  Raises `KeyError`.

        `first` is 0, or the number of spans that the list keeps, which are then left out.
        """
        row = self._rows[place]
        parts = _parts(row, row.length)
        chosen = [next(parts)] if first and row.length > first else [] if first else list(parts)
        for start, stop in reversed(chosen):
            numbers, offsets = self._numbers[start:stop], self._offsets[start:stop]
            yield from zip(numbers, offsets, self._lengths[start:stop], strict=True)

    def _write(self, row: _Row, spans: tuple[ByteSpan, ...]) -> None:
        """Check the spans that a list adds to what it keeps, and take them into the table."""
        done, last = self._end_of_kept(row)
        for piece, offset, length in spans:
            # In this order no byte of a piece can be left out, and each list has one form.
            has_begun = 0 <= piece <= self._begun and piece < len(self._pieces)
            _require(has_begun and 0 <= offset <= self._used[piece], "a span out of order")
            stop = offset + length
            inside = length > 0 and stop <= self._pieces[piece]
            _require(inside, "a span is empty or lies outside its piece")
            _require((piece, offset) != last, "two spans that continue each other")
            if stop > self._used[piece]:
                self._begun += piece == self._begun
                self._used[piece] = stop
            last = piece, stop
            done += length
            self._numbers.append(piece)
            self._offsets.append(offset)
            self._lengths.append(length)
            self._ends.append(done)
        _require(done == row.size, "the spans of a body have another length than the body")

    def _end_of_kept(self, row: _Row) -> tuple[int, tuple[int, int] | None]:
        """Return how many bytes a list keeps, and at which place of a piece they end."""
        if row.base is None:
            return 0, None
        _, stop = next(_parts(row.base, row.kept))
        at = stop - 1
        # What is kept lies in both bodies at the same places, so the end in the base is the end.
        return self._ends[at], (self._numbers[at], self._offsets[at] + self._lengths[at])


def _parts(row: _Row | None, count: int) -> Iterator[tuple[int, int]]:
    """Yield where the first spans of a list are written, from their end to their beginning."""
    while row is not None and count:
        if count > row.kept:
            yield row.start, row.start + count - row.kept
            count = row.kept
        row = row.base


def _require(condition: bool, why: str) -> None:  # noqa: FBT001  reads as a sentence
    if not condition:
        raise Malformed("bundle", why)
