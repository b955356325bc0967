"""Bodies: a commitment binds to every bit, tells nothing, and needs no memory."""

import tracemalloc
from collections.abc import Iterator
from hashlib import sha256
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.errors import Malformed
from forum.ledger.body import (
    CHUNK_SIZE,
    Body,
    BytesContent,
    StoredBody,
    compute_commitment,
    text_content,
)
from forum.ledger.entry import Commitment

salts = st.binary(min_size=32, max_size=32)


def flipped(data: bytes, bit: int) -> bytes:
    """Return these bytes with one bit turned."""
    at = bit // 8 % len(data)
    return data[:at] + bytes([data[at] ^ 1 << bit % 8]) + data[at + 1 :]


class Zeros:
    """So many megabytes of zeros, of which one is in memory."""

    def __init__(self, megabytes: int) -> None:
        self.size = megabytes * CHUNK_SIZE

    def chunks(self) -> Iterator[bytes]:
        """Read it piece by piece."""
        for _ in range(self.size // CHUNK_SIZE):
            yield bytes(CHUNK_SIZE)


@given(salts, st.binary(max_size=100), st.lists(st.integers(0, 100), max_size=4))
def test_a_commitment_is_the_hash_that_the_specification_names(
    salt: bytes, body: bytes, cuts: list[int]
) -> None:
    """Others compute it from the whole body; in which pieces we read it makes no difference."""
    borders = [0, *sorted(cuts), len(body)]
    pieces = [body[start:stop] for start, stop in pairwise(borders)]
    whole = b"forum/body/1\0" + salt + len(body).to_bytes(8, "big") + body

    assert compute_commitment(salt, len(body), pieces) == sha256(whole).digest()


@given(salts, st.binary(min_size=1, max_size=100), st.integers(0))
def test_a_commitment_binds_salt_length_and_every_bit(salt: bytes, body: bytes, bit: int) -> None:
    """One other bit anywhere, and the body is not the one that was committed to."""
    commitment = Body("text", "text/plain", BytesContent(body), salt).commitment()
    longer = Commitment(commitment.h, commitment.size + 1, commitment.type)

    assert StoredBody(salt, lambda: [body]).matches(commitment)
    assert not StoredBody(flipped(salt, bit), lambda: [body]).matches(commitment)
    assert not StoredBody(salt, lambda: [flipped(body, bit)]).matches(commitment)
    assert not StoredBody(salt, lambda: [body]).matches(longer)
    assert not StoredBody(salt, lambda: [body, b"\0"]).matches(commitment)


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_salt_of_another_length_is_refused(length: int) -> None:
    """A missing salt would make a short body guessable, and a long one could hide its beginning."""
    with pytest.raises(Malformed, match="salt"):
        compute_commitment(bytes(length), 0, [])


@pytest.mark.parametrize("size", [0, 1, CHUNK_SIZE, CHUNK_SIZE + 1, 2 * CHUNK_SIZE])
def test_content_is_read_in_pieces_and_again(size: int) -> None:
    """It is read twice, to be hashed and to be stored; even empty content is one piece."""
    content = BytesContent(bytes(size))

    assert b"".join(content.chunks()) == b"".join(content.chunks()) == bytes(size)
    assert len(list(content.chunks())) == max(1, -(-size // CHUNK_SIZE))
    assert content.size == size


def test_text_that_is_none_is_refused() -> None:
    """A lone surrogate cannot be stored; to replace it would record what nobody wrote."""
    assert text_content("\u2028\u0085é").data.decode() == "\u2028\u0085é"
    with pytest.raises(Malformed, match="character 1"):
        text_content("a\ud800")


def test_a_large_body_is_hashed_in_little_memory() -> None:
    """100 MB of output must not need 100 MB of a server that has a thousand such writers."""
    tracemalloc.start()
    try:
        commitment = Body("text", "text/plain", Zeros(100), bytes(32)).commitment()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert commitment.size == 100 * CHUNK_SIZE
    assert peak < 4 * CHUNK_SIZE
