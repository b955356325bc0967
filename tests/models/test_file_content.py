"""Content in files: as good as content in memory."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from forum.ledger.body import CHUNK_SIZE, BytesContent
from forum.models.file_content import FileContent
from tests.support import open_files


@pytest.mark.parametrize("size", [0, 1, CHUNK_SIZE - 1, CHUNK_SIZE, 2 * CHUNK_SIZE + 1])
def test_content_is_read_in_the_pieces_in_which_content_in_memory_is(size: int) -> None:
    """A store keeps the pieces as they come: not one too many, and one even of nothing."""
    data, content = os.urandom(size), FileContent()
    for start in range(0, size, 700_000):
        content.append(data[start : start + 700_000])

    assert content.size == size
    assert list(content.chunks()) == list(BytesContent(data).chunks())


def test_content_is_read_by_many_at_once() -> None:
    """It is hashed, stored and judged, and nobody may move the place where another one reads."""
    data, content = os.urandom(3 * CHUNK_SIZE), FileContent()
    content.append(data)
    with ThreadPoolExecutor() as threads:
        read = list(threads.map(lambda _: b"".join(content.chunks()), range(8)))

    assert all(one == data for one in read)


def test_a_file_is_closed_with_its_content() -> None:
    """Nobody closes a reply; it is closed when nobody knows it any more, and without a warning."""
    before = open_files()
    dropped, closed = FileContent(), FileContent()
    closed.close()
    closed.close()
    del dropped

    assert open_files() <= before
