"""Spans: what a body shares with an earlier body of its run is stored once.

An agent sends its whole conversation with every call, so each prompt repeats the one before it.  A
body is kept as a list of spans, and each span names a range of a piece.  A piece holds the bytes
that were new in one body.  Equality of bytes decides what is shared.  No digest is kept: without a
salt, it would outlive the erasure of the bytes.

The list of a body may begin with the first spans of the list of an earlier body, its base.  Such a
chain has at most `MAX_CHAIN` lists, so a reader follows a bounded number of references.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

from forum.errors import Malformed

MIN_SHARED_BYTES = 512
"""The least number of bytes that are worth a span; a shorter body is stored whole."""

MAX_CHAIN = 64
"""The greatest number of lists that one body is read from, its own included."""

MAX_SPANS = 1 << 16
"""The greatest number of spans of a body: a body that would need more is stored whole."""

_MAX_ANCHORS = 48
"""How many places of the new bytes are looked for in the old ones, which bounds the search."""

_MAX_SCANNED_BYTES = 4 << 20
"""How many old bytes are looked through for them, which bounds the time: in the body that shares
most, and as many in all others."""

_MAX_MATCHES = 256
"""How many parts are found between the common beginning and the common end."""

_ANCHOR_BYTES = 64
_MIN_BLOCK_BYTES, _MAX_BLOCK_BYTES = 256, 1 << 16
_MAX_VARINT_BYTES = 10


class ByteSpan(NamedTuple):
    """A range of a piece."""

    piece: int
    offset: int
    length: int


_length_of = attrgetter("length")
_new_of, _number_of = attrgetter("new"), attrgetter("number")


class SpanList(NamedTuple):
    """The spans of one body: the first `kept` spans of the list `base`, then `tail`."""

    base: int | None
    kept: int
    tail: tuple[ByteSpan, ...]


class KnownBody(NamedTuple):
    """An earlier body of a run, with its content and all of its spans."""

    number: int
    content: bytes
    spans: tuple[ByteSpan, ...]
    depth: int
    """How many lists are read to know all spans, its own included."""
    name: str = ""
    """What the entry calls it; empty if that is not known."""


class SharedBody(NamedTuple):
    """How a body is stored: the piece that holds its new bytes, and its list."""

    piece: bytes
    """The bytes that no known body has; empty if there are none."""
    spans: tuple[ByteSpan, ...]
    list: SpanList
    depth: int
    """How many lists are read to know all spans, its own included."""
    contained: frozenset[int]
    """The known bodies that are contained in it, and are not needed for comparison any more."""


def share_body(number: int, content: bytes, bodies: Sequence[KnownBody]) -> SharedBody:
    """Return how to store a body as what is new in it and what it shares with a known one.

    `number` names its list and its piece.  Of the known bodies, the one with the longest common
    beginning is used first, so that conversations that take turns in one run do not spoil each
    other.  What it does not have is looked for in the others: a prompt repeats the result of a tool
    and an earlier reply.
    """
    best, prefix = None, -1
    for body in bodies:
        length = common_prefix(content, body.content)
        if length > prefix:
            best, prefix = body, length
    matches = list(_find_matches(content, best, prefix)) if best else []
    others = [body for body in bodies if body is not best]
    all_matches = sorted([*matches, *_find_elsewhere(content, matches, others)], key=_new_of)
    if best and all_matches:
        spans, piece = _lay_out(number, content, all_matches)
        if len(spans) <= MAX_SPANS:
            chained = _chain(spans, best)
            depth = 1 if chained.base is None else best.depth + 1
            return SharedBody(piece, spans, chained, depth=depth, contained=_contained(all_matches))
    spans = (ByteSpan(number, 0, len(content)),) if content else ()
    return SharedBody(content, spans, SpanList(None, 0, spans), depth=1, contained=frozenset())


class _Match(NamedTuple):
    """Bytes that stand in a new body and in a known one: where in each, and how many."""

    new: int
    old: int
    length: int
    body: KnownBody

    @property
    def new_end(self) -> int:
        """Where they end in the new body."""
        return self.new + self.length


def _contained(matches: Iterable[_Match]) -> frozenset[int]:
    """Return which known bodies have nothing worth a span besides these matches."""
    left: dict[int, int] = {}
    for match in matches:
        number = match.body.number
        left[number] = left.get(number, len(match.body.content)) - match.length
    return frozenset(number for number, size in left.items() if size < MIN_SHARED_BYTES)


def _find_matches(new: bytes, body: KnownBody, prefix: int) -> Iterator[_Match]:
    """Yield what both bodies have, in order: their beginning, what moved between, their end."""
    old = body.content
    if prefix < MIN_SHARED_BYTES:
        prefix = 0
    limit = min(len(new), len(old)) - prefix
    suffix = count_back(new, old, (len(new), len(old)), limit)
    if suffix < MIN_SHARED_BYTES:
        suffix = 0
    if prefix:
        yield _Match(0, 0, prefix, body)
    new_end, old_end = len(new) - suffix, len(old) - suffix
    # What is compared between is copied: the beginning and the end may be large, the rest is not.
    between = new[prefix:new_end], old[prefix:old_end]
    for at, place, length in _find_between(*between, _Budget(_MAX_SCANNED_BYTES)):
        yield _Match(prefix + at, prefix + place, length, body)
    if suffix:
        yield _Match(new_end, old_end, suffix, body)


class _Budget:
    """How many bytes may still be looked through, about."""

    def __init__(self, left: int) -> None:
        self.left = left


def _find_between(new: bytes, old: bytes, budget: _Budget) -> Iterator[tuple[int, int, int]]:
    """Yield what stands in both, in order: where in the new bytes, where in the old, how many.

    A client that marks its last message for a cache changes a few bytes before the end, and all
    that follows would be stored again.
    """
    at = done = from_old = matches = 0
    gap = max(_ANCHOR_BYTES, len(new) // _MAX_ANCHORS)
    while budget.left > 0 and matches < _MAX_MATCHES:
        if min(len(new) - at, len(old) - from_old) < MIN_SHARED_BYTES:
            return
        place = old.find(new[at : at + _ANCHOR_BYTES], from_old)
        budget.left -= (place if place >= 0 else len(old)) - from_old
        if place >= 0:
            length = common_prefix(new, old, at, place)
            back = count_back(new, old, (at, place), min(at - done, place - from_old))
            if length + back >= MIN_SHARED_BYTES:
                yield at - back, place - back, length + back
                at = done = at + length
                from_old = place + length
                matches += 1
                continue
        at += gap


def _find_elsewhere(
    new: bytes, matches: Sequence[_Match], bodies: Sequence[KnownBody]
) -> Iterator[_Match]:
    """Yield what other bodies have of the parts of a body that no match covers, in any order."""
    gaps = list(_uncovered(0, len(new), matches))
    left = _MAX_SCANNED_BYTES
    # The newest first: what was said last is repeated next.
    for body in sorted(bodies, key=_number_of, reverse=True):
        # Half of what is left: a long body in which nothing is found leaves time for the others.
        budget = _Budget(left // 2)
        rest: list[tuple[int, int]] = []
        for start, stop in gaps:
            parts = [
                _Match(start + at, place, length, body)
                for at, place, length in _find_between(new[start:stop], body.content, budget)
            ]
            yield from parts
            rest += _uncovered(start, stop, parts)
        gaps = rest
        left -= left // 2 - budget.left


def _uncovered(start: int, stop: int, matches: Iterable[_Match]) -> Iterator[tuple[int, int]]:
    """Yield the parts from `start` to `stop` between matches that are long enough to be shared."""
    for match in matches:
        if match.new - start >= MIN_SHARED_BYTES:
            yield start, match.new
        start = match.new_end
    if stop - start >= MIN_SHARED_BYTES:
        yield start, stop


def _lay_out(
    number: int, content: bytes, matches: Sequence[_Match]
) -> tuple[tuple[ByteSpan, ...], bytes]:
    """Return the spans of a body and its piece, given what it shares with known bodies."""
    bodies = {match.body.number: match.body for match in matches}
    starts = {
        other: list(accumulate(map(_length_of, body.spans), initial=0))
        for other, body in bodies.items()
    }
    spans: list[ByteSpan] = []
    literals: list[bytes] = []
    stored = done = 0

    def add_new(stop: int) -> None:
        nonlocal stored
        if stop > done:
            spans.append(ByteSpan(number, stored, stop - done))
            literals.append(content[done:stop])
            stored += stop - done

    for match in matches:
        add_new(match.new)
        body, end = match.body, match.old + match.length
        spans += cut_spans(body.spans, starts[body.number], match.old, end)
        done = match.new_end
    add_new(len(content))
    return tuple(merge_spans(spans)), b"".join(literals)


def _chain(spans: tuple[ByteSpan, ...], base: KnownBody) -> SpanList:
    kept = 0
    for mine, other in zip(spans, base.spans, strict=False):
        if mine is not other and mine != other:
            break
        kept += 1
    if kept < 2 or base.depth >= MAX_CHAIN:
        return SpanList(None, 0, spans)
    return SpanList(base.number, kept, spans[kept:])


def common_prefix(first: bytes, second: bytes, start: int = 0, second_start: int = 0) -> int:
    """Return how many bytes are the same in both, from these places on."""
    limit = min(len(first) - start, len(second) - second_start)

    def is_same(low: int, high: int) -> bool:
        mine = first[start + low : start + high]
        return mine == second[second_start + low : second_start + high]

    return _count_same(limit, is_same)


def count_back(first: bytes, second: bytes, ends: tuple[int, int], limit: int) -> int:
    """Return how many bytes are the same in both before these places, at most `limit`."""

    def is_same(near: int, far: int) -> bool:
        return first[ends[0] - far : ends[0] - near] == second[ends[1] - far : ends[1] - near]

    return _count_same(min(*ends, limit), is_same)


def _count_same(limit: int, is_same: Callable[[int, int], bool]) -> int:
    """Return how many of the first bytes are the same; `is_same` compares those from low to high.

    Blocks grow while they are the same: what differs early costs little, and what is long the same
    is compared in large parts.
    """
    low, block = 0, _MIN_BLOCK_BYTES
    while low < limit and is_same(low, min(low + block, limit)):
        low += block
        block = min(2 * block, _MAX_BLOCK_BYTES)
    low, high = min(low, limit), min(low + block, limit)
    while low < high:
        middle = (low + high + 1) // 2
        if is_same(low, middle):
            low = middle
        else:
            high = middle - 1
    return low


def cut_spans(
    spans: Sequence[ByteSpan], starts: Sequence[int], start: int, stop: int
) -> Iterator[ByteSpan]:
    """Yield the spans of the bytes from `start` to `stop`; the given ones begin at `starts`."""
    if start >= stop:
        return
    first, last = bisect_right(starts, start) - 1, bisect_left(starts, stop)
    for at in range(first, last):
        span, begin = spans[at], starts[at]
        low, high = max(start, begin), min(stop, begin + span.length)
        # A whole span stays the same object: most of a conversation is compared by identity.
        whole = high - low == span.length
        yield span if whole else ByteSpan(span.piece, span.offset + low - begin, high - low)


def skip_spans(spans: Sequence[ByteSpan], start: int) -> Sequence[ByteSpan]:
    """Return the spans of the bytes from `start` on."""
    if not start:
        return spans
    starts = list(accumulate(map(_length_of, spans), initial=0))
    return list(cut_spans(spans, starts, start, starts[-1]))


def common_beginning(
    first: Sequence[ByteSpan], second: Sequence[ByteSpan], second_size: int
) -> int:
    """Return how many bytes at the beginning of two bodies are the same ranges of pieces.

    The second body has `second_size` bytes.
    """
    limit = min(len(first), len(second))

    def is_same(low: int, high: int) -> bool:
        return first[low:high] == second[low:high]

    count = _count_same(limit, is_same)
    # The rest is mostly short: a body goes on where an earlier one ended.
    is_long = 2 * count < len(second)
    size = sum_lengths(second[:count]) if is_long else second_size - sum_lengths(second[count:])
    if count == limit:
        return size
    mine, other = first[count], second[count]
    if (mine.piece, mine.offset) == (other.piece, other.offset):
        size += min(mine.length, other.length)
    return size


def sum_lengths(spans: Iterable[ByteSpan]) -> int:
    """Return the number of bytes of some spans."""
    return sum(map(_length_of, spans))


def common_end(first: Sequence[ByteSpan], second: Sequence[ByteSpan]) -> int:
    """Return how many bytes at the end of two bodies are the same whole ranges of pieces."""
    size = 0
    for mine, other in zip(reversed(first), reversed(second), strict=False):
        if mine != other:
            break
        size += mine.length
    return size


def merge_spans(spans: Iterable[ByteSpan]) -> Iterator[ByteSpan]:
    """Yield the spans, with neighbors that continue each other as one."""
    last: ByteSpan | None = None
    for span in spans:
        if last and last.piece == span.piece and last.offset + last.length == span.offset:
            last = ByteSpan(last.piece, last.offset, last.length + span.length)
            continue
        if last:
            yield last
        last = span
    if last:
        yield last


def covered_ranges(spans: Iterable[ByteSpan]) -> dict[int, list[tuple[int, int]]]:
    """Return which ranges of each piece are needed: (from, to), in order and apart."""
    ranges: dict[int, list[tuple[int, int]]] = {}
    for piece, offset, length in sorted(set(spans)):
        taken = ranges.setdefault(piece, [])
        if taken and offset <= taken[-1][1]:
            taken[-1] = (taken[-1][0], max(taken[-1][1], offset + length))
        else:
            taken.append((offset, offset + length))
    return ranges


def needed_spans(lists: Mapping[int, SpanList], used: Collection[int]) -> dict[int, int]:
    """Return how many of its first spans each list has to give, for the bodies that are used.

    A list that is not returned is not needed.
    """
    needed: dict[int, int] = {}
    # A list has a greater number than its base, so what others need of it is known when it is met.
    for number in sorted(lists, reverse=True):
        step = lists[number]
        count = step.kept + len(step.tail) if number in used else needed.get(number, 0)
        if number in used or number in needed:
            needed[number] = count
            if step.base is not None and step.base < number:
                kept = min(step.kept, count)
                needed[step.base] = max(needed.get(step.base, 0), kept)
    return {number: count for number, count in needed.items() if number in lists}


def encode_spans(spans: Iterable[ByteSpan]) -> bytes:
    """Return spans as bytes: for each, the step to its piece, its offset and its length."""
    encoded = bytearray()
    last = 0
    for piece, offset, length in spans:
        step = piece - last
        # The sign goes to the lowest bit, so that a small step in either direction is short.
        for value in (step << 1 if step >= 0 else (-step << 1) - 1, offset, length):
            _add_varint(encoded, value)
        last = piece
    return bytes(encoded)


def decode_spans(data: bytes) -> tuple[ByteSpan, ...]:
    """Return the spans that `encode_spans` wrote.  Raises `Malformed` for other bytes."""
    if len(data) > 3 * _MAX_VARINT_BYTES * MAX_SPANS:
        raise Malformed("spans", f"more than {MAX_SPANS} spans")
    values = list(_read_varints(data))
    if len(values) % 3:
        raise Malformed("spans", "a span is cut off")
    if len(values) > 3 * MAX_SPANS:
        raise Malformed("spans", f"more than {MAX_SPANS} spans")
    spans: list[ByteSpan] = []
    piece = 0
    for at in range(0, len(values), 3):
        signed, offset, length = values[at : at + 3]
        piece += (signed >> 1) if not signed & 1 else -((signed + 1) >> 1)
        if not length:
            raise Malformed("spans", "an empty span")
        spans.append(ByteSpan(piece, offset, length))
    return tuple(spans)


def resolve_chain(
    number: int, lists: Mapping[int, SpanList], resolved: Mapping[int, tuple[ByteSpan, ...]]
) -> tuple[ByteSpan, ...]:
    """Return all spans of a body, from its list and those that it builds on.

    `resolved` holds the spans of lists that are known already.  Raises `Malformed` if a list is
    missing, keeps more spans than its base has, or is part of a chain that is too long or a circle.
    """
    steps: list[SpanList] = []
    at: int | None = number
    while at is not None and at not in resolved:
        step = lists.get(at)
        if step is None:
            raise Malformed("spans", f"list {at} is missing")
        steps.append(step)
        if len(steps) > MAX_CHAIN:
            raise Malformed("spans", f"a chain of more than {MAX_CHAIN} lists")
        at = step.base
    spans: tuple[ByteSpan, ...] = resolved[at] if at is not None else ()
    for step in reversed(steps):
        if step.kept > len(spans):
            raise Malformed("spans", f"{step.kept} spans kept of {len(spans)}")
        spans = spans[: step.kept] + step.tail
        if len(spans) > MAX_SPANS:
            raise Malformed("spans", f"more than {MAX_SPANS} spans")
    return spans


def _add_varint(encoded: bytearray, value: int) -> None:
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)


def _read_varints(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte & 0x80:
            if shift >= 7 * _MAX_VARINT_BYTES:
                raise Malformed("spans", "a number is too long")
            continue
        yield value
        value = shift = 0
    if shift:
        raise Malformed("spans", "a number is cut off")
