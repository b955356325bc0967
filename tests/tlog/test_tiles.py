"""Tiles and entry bundles: their names and their bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.errors import Malformed
from forum.tlog import (
    TileId,
    count_tiles,
    encode_entry_bundle,
    entries_path,
    parse_entries_path,
    parse_tile_path,
)
from tests.tlog.trees import decode_entry_bundle, list_tiles

indexes = st.integers(0, 2**63 - 1)
widths = st.integers(1, 256)
bundles = st.lists(st.binary(max_size=40), max_size=256)


def test_the_path_of_the_specification_is_ours() -> None:
    """Index 1234067 is the example of tlog-tiles."""
    assert TileId(0, 1234067).path() == "tile/0/x001/x234/067"
    assert TileId(2, 0).path(17) == "tile/2/000.p/17"
    assert entries_path(1234067, 1) == "tile/entries/x001/x234/067.p/1"


@given(st.integers(0, 63), indexes, widths)
def test_a_tile_path_is_read_back(level: int, index: int, width: int) -> None:
    """A server finds the tile that a client has named."""
    tile = TileId(level, index)

    assert parse_tile_path(tile.path(width)) == (tile, width)
    assert parse_entries_path(entries_path(index, width)) == (index, width)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "tile",
        "tile/0",
        "tile/0/",
        "tile/0/1",
        "tile/0/0001",
        "tile/0/x000/001",
        "tile/0/001/234",
        "tile/0/x001/x234",
        "tile/0/000.p/0",
        "tile/0/000.p/256",
        "tile/0/000.p/01",
        "tile/0/000.p/",
        "tile/0/000/",
        "tile/00/000",
        "tile/64/000",
        "tile/-1/000",
        "tile/entries/000",
        "tile/0/٠٠٠",
        "/tile/0/000",
        "tile/0/../000",
        "tile/0/" + "x999/" * 400 + "999",
    ],
)
def test_a_path_in_another_spelling_is_refused(path: str) -> None:
    """A tile has one name; a second one would be a second file, or a way out of the folder."""
    with pytest.raises(Malformed):
        parse_tile_path(path)
    with pytest.raises(Malformed):
        parse_entries_path(path.replace("tile/0/", "tile/entries/").replace("entries/000", "e"))


@pytest.mark.parametrize(
    ("tile", "width"), [((64, 0), 1), ((0, -1), 1), ((0, 0), 0), ((0, 0), 257)]
)
def test_a_tile_that_cannot_be_has_no_path(tile: tuple[int, int], width: int) -> None:
    """What could not be read back is not written."""
    with pytest.raises(Malformed):
        TileId(*tile).path(width)


def test_a_tree_of_70000_has_the_tiles_of_the_specification() -> None:
    """The example of tlog-tiles, section Partial Tiles."""
    tiles = list(list_tiles(70_000))

    assert len(tiles) == len(set(tiles)) == 273 + 1 + 1 + 1 + 1
    assert [(*tile, width) for tile, width in tiles if width < 256 or tile.level] == [
        (0, 273, 112),
        (1, 0, 256),
        (1, 1, 17),
        (2, 0, 1),
    ]


@given(bundles)
def test_an_entry_bundle_is_read_back(entries: list[bytes]) -> None:
    """Entries of any bytes, also empty ones, keep their borders."""
    assert decode_entry_bundle(encode_entry_bundle(entries)) == entries


@given(bundles, st.binary(min_size=1, max_size=3))
def test_bytes_behind_a_bundle_are_never_dropped(entries: list[bytes], tail: bytes) -> None:
    """A bundle that is read is written again byte by byte: nothing hides in it."""
    data = encode_entry_bundle(entries) + tail
    try:
        read = decode_entry_bundle(data)
    except Malformed:
        return

    assert encode_entry_bundle(read) == data


def test_a_bundle_holds_at_most_a_tile_of_entries_that_fit_their_length() -> None:
    """Two bytes give the length of an entry, and a tile has 256 of them."""
    with pytest.raises(Malformed):
        encode_entry_bundle([bytes(0x10000)])
    with pytest.raises(Malformed):
        encode_entry_bundle([b""] * 257)
    with pytest.raises(Malformed):
        decode_entry_bundle(bytes(2 * 257))


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 65_536, 65_537, 70_000])
def test_tiles_are_counted_without_listing_them(size: int) -> None:
    """The number of tiles is the length of their list."""
    assert count_tiles(size) == len(list(list_tiles(size)))


def test_a_forged_size_is_counted_at_once() -> None:
    """A size from a database may be anything: it must not keep a verifier busy."""
    assert count_tiles(-1) == 0
    assert count_tiles(2**60) > 2**52
