"""Bodies that share bytes are held once, and come back as they were."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.errors import Malformed
from forum.ledger.shared_bodies import GatheredBodies
from forum.ledger.span_files import SpanTable, read_span_file
from tests.verify.conversations import prompts

SALT = bytes(32)
PARTS = [bytes([65 + n]) * 700 for n in range(6)] + [b"", b"short", bytes(range(256)) * 5]
bodies = st.lists(st.lists(st.sampled_from(PARTS), max_size=6).map(b"".join), max_size=12)


def share(contents: list[bytes]) -> GatheredBodies:
    """Return bodies, one for each entry."""
    return GatheredBodies(((n, "text"), (SALT, content)) for n, content in enumerate(contents))


def open_table(files: dict[str, bytes]) -> SpanTable:
    """Return the checked lists of some files."""
    table = SpanTable([len(data) for name, data in files.items() if name.startswith("pieces/")])
    for name in sorted(name for name in files if name.startswith("spans/")):
        _, index, body = name.split("/")
        table.add((int(index), body), read_span_file(files[name]))
    return table


@given(bodies)
def test_what_goes_in_comes_out(contents: list[bytes]) -> None:
    """A body is the same whether it is given back or put together from the files."""
    shared = share(contents)
    assert dict(shared) == {(n, "text"): (SALT, content) for n, content in enumerate(contents)}
    files = dict(shared.files())
    table = open_table(files)
    table.finish(0, 1 << 31)
    for place in table:
        parts = [
            files[f"pieces/{piece:016}"][offset : offset + length]
            for piece, offset, length in table.spans(place)
        ]
        assert b"".join(parts) == contents[place[0]]


@given(bodies)
def test_the_same_bodies_give_the_same_files(contents: list[bytes]) -> None:
    """How they were held before does not matter."""
    once = share(contents)
    assert dict(once.files()) == dict(GatheredBodies(once.items()).files())


def test_a_body_that_shares_nothing_has_no_list() -> None:
    """A list would only make it larger."""
    files = dict(share([b"a" * 900, b"b" * 900, b"c"]).files())
    assert list(files) == [f"bodies/{n:016}/text" for n in (2, 0, 1)]


def test_a_body_that_others_share_has_a_list() -> None:
    """What it holds stands in a piece, so that others can name it."""
    assert list(dict(share([b"a" * 900, b"a" * 900 + b"b" * 600]).files())) == [
        "pieces/0000000000000000",
        "pieces/0000000000000001",
        "spans/0000000000000000/text",
        "spans/0000000000000001/text",
    ]


def test_lists_do_not_grow_with_the_number_of_calls() -> None:
    """Each keeps what its base has, but for every 64th, which stands alone."""
    shared = share([prompt.encode() for prompt in prompts(130, 600)])
    lists = [json.loads(d) for name, d in shared.files() if name.startswith("spans/")]
    assert sum(listed["base"] is None for listed in lists) <= 4
    assert sum(len(listed["spans"]) <= 2 for listed in lists) >= 126


@pytest.mark.parametrize(("most", "unit"), [(3_000, "bytes"), (512 * 40, "spans")])
def test_more_than_a_reader_wants_is_refused(most: int, unit: str) -> None:
    """Before a body is put together: a short list can describe a long body."""
    contents = (
        [b"x" * 1000 + bytes([n]) * 600 for n in range(40)]
        if unit == "bytes"
        else [prompt.encode()[:500] * 2 for prompt in prompts(3, 600)]
    )
    table = open_table(dict(share(contents).files()))
    if unit == "spans":
        table.span_count = 41
    with pytest.raises(Malformed, match=f"{unit} together, and at most .*--max-bytes"):
        table.finish(0, most)
