"""How bodies share bytes: whatever two bodies have in common, the spans give the body back."""

from random import Random
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.errors import Malformed
from forum.ledger.spans import (
    MAX_SPANS,
    ByteSpan,
    KnownBody,
    SpanList,
    decode_spans,
    encode_spans,
    needed_spans,
    resolve_chain,
    share_body,
)

SPANS = st.lists(
    st.builds(
        ByteSpan,
        st.integers(0, 2**62),
        st.integers(0, 2**40),
        st.integers(min_value=1, max_value=9),
    ),
    max_size=20,
)


def known(number: int, content: bytes) -> KnownBody:
    """Return a body that shares nothing, as a writer remembers it."""
    return KnownBody(number, content, (ByteSpan(number, 0, len(content)),), 1)


@given(
    parts=st.lists(st.integers(0, 5), min_size=1, max_size=8),
    others=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=8), max_size=3),
)
def test_a_body_is_what_its_spans_say(parts: list[int], others: list[list[int]]) -> None:
    """Made of the same blocks in any order, so that each kind of match occurs."""
    blocks = [Random(number).randbytes(300 * number + 1) for number in range(6)]
    content = b"".join(blocks[part] for part in parts)
    bodies = [
        known(number, b"".join(blocks[part] for part in other))
        for number, other in enumerate(others)
    ]
    shared = share_body(9, content, bodies)
    pieces = {body.number: body.content for body in bodies} | {9: shared.piece}
    lists = {body.number: SpanList(base=None, kept=0, tail=body.spans) for body in bodies} | {
        9: shared.list
    }
    spans = resolve_chain(9, lists, {})

    assert spans == shared.spans
    assert b"".join(pieces[p][at : at + size] for p, at, size in spans) == content
    assert len(shared.piece) <= len(content)


def test_what_one_body_does_not_have_is_found_in_the_others() -> None:
    """A prompt goes on with results, in any order; those are not compared with again."""
    system, *results, new = (Random(number).randbytes(600 * number) for number in range(1, 6))
    bodies = [known(number, content) for number, content in enumerate([system, *results])]
    shared = share_body(9, system + b"a".join([results[2], new, results[0]]), bodies)

    assert shared.piece == b"a" + new + b"a"
    assert shared.contained == {0, 1, 3}


def test_long_bodies_that_have_nothing_of_it_cost_no_seconds() -> None:
    """The prompts of other agents are looked through in part only."""
    bodies = [known(number, Random(number).randbytes(4 << 20)) for number in range(16)]
    new = Random(99).randbytes(1 << 16)
    start = process_time()
    shared = share_body(99, new, bodies)

    assert process_time() - start < 0.5
    assert shared.piece == new


@given(SPANS)
def test_spans_are_read_as_they_were_written(spans: list[ByteSpan]) -> None:
    """In the least bytes, and no other bytes are spans."""
    assert decode_spans(encode_spans(spans)) == tuple(spans)


@pytest.mark.parametrize(
    "data", [b"\x80", b"\x00", b"\x00\x00", b"\x00\x00\x00", b"\xff" * 20, bytes(31 * MAX_SPANS)]
)
def test_other_bytes_are_no_spans(data: bytes) -> None:
    """A number that is cut off or too long, a span without bytes, and more than are allowed."""
    with pytest.raises(Malformed):
        decode_spans(data)


def test_bodies_that_differ_everywhere_a_little_cost_no_minutes() -> None:
    """An agent chooses what it sends: blocks with a byte between them, and without it."""
    random = Random(1)
    blocks = [b"a" + random.randbytes(513) for _ in range(8000)]
    old, new = b"z".join(blocks), b"".join(blocks)
    start = process_time()
    shared = share_body(1, new, [known(0, old)])

    assert process_time() - start < 1
    assert sum(span.length for span in shared.spans) == len(new)


def test_a_list_is_kept_as_far_as_others_begin_with_it() -> None:
    """The body of the first was erased; of what it said, the second needs the beginning."""
    spans = tuple(ByteSpan(number, 0, 9) for number in range(4))
    lists = {
        0: SpanList(base=None, kept=0, tail=spans),
        1: SpanList(base=0, kept=3, tail=(ByteSpan(1, 0, 5),)),
        2: SpanList(base=1, kept=2, tail=()),
        3: SpanList(base=None, kept=0, tail=spans),
    }

    assert needed_spans(lists, {1}) == {0: 3, 1: 4}
    assert needed_spans(lists, {2}) == {0: 2, 1: 2, 2: 2}
    assert needed_spans(lists, set()) == {}
