"""Tiles: the tree as files of up to 256 hashes each (C2SP tlog-tiles).

A tile of level 0 holds leaf hashes; a tile of level n + 1 holds one hash for each full tile
of level n.  A full tile never changes.  Only the last tile of a level can be partial, and the tile
that replaces it begins with the same bytes.
"""

from collections.abc import Callable, Iterable
from struct import pack
from typing import NamedTuple

from forum.errors import Malformed
from forum.tlog.canonical_encoding import check_number, parse_decimal

TILE_HEIGHT = 8
TILE_WIDTH = 1 << TILE_HEIGHT
MAX_LEVEL = 63
MAX_ENTRY_BYTES = 0xFFFF


class TileId(NamedTuple):
    """The address of a tile: its level, and its index within the level."""

    level: int
    index: int  # type: ignore[assignment]  # tuple.index() is not for ids

    def path(self, width: int = TILE_WIDTH) -> str:
        """Return the path of the file that holds this tile at this width."""
        if not 0 <= self.level <= MAX_LEVEL:
            raise Malformed("tile", f"level {self.level} is not between 0 and {MAX_LEVEL}")
        return f"tile/{self.level}/{_format_index(self.index, width)}"


# Returns exactly 32 * width bytes.  A store may keep only the widest version of a tile and cut it.
ReadTile = Callable[[TileId, int], bytes]


def parse_tile_path(path: str) -> tuple[TileId, int]:
    """Return the tile and the width that a path names.  Raises `Malformed`."""
    match path.split("/", 2):
        case ["tile", level, rest]:
            index, width = _parse_index(rest)
            tile = TileId(parse_decimal(level, "tile path"), index)
        case _:
            raise Malformed("tile path", path)
    if tile.path(width) != path:
        raise Malformed("tile path", path)
    return tile, width


def entries_path(index: int, width: int = TILE_WIDTH) -> str:
    """Return the path of the entry bundle under a tile of level 0."""
    return f"tile/entries/{_format_index(index, width)}"


def parse_entries_path(path: str) -> tuple[int, int]:
    """Return the index and the width that the path of an entry bundle names."""
    index, width = _parse_index(path.removeprefix("tile/entries/"))
    if entries_path(index, width) != path:
        raise Malformed("entries path", path)
    return index, width


def count_tiles(size: int) -> int:
    """Return the number of tiles of a tree of this size.

    They are not enumerated, because the size may be forged and huge.
    """
    tiles = 0
    while size > 0:
        tiles += -(-size // TILE_WIDTH)
        size //= TILE_WIDTH
    return tiles


def encode_entry_bundle(entries: Iterable[bytes]) -> bytes:
    """Return the entry bundle of one tile: each entry prefixed with its length."""
    entries = list(entries)
    if len(entries) > TILE_WIDTH:
        raise Malformed("entry bundle", f"{len(entries)} entries, more than {TILE_WIDTH}")
    if any(len(entry) > MAX_ENTRY_BYTES for entry in entries):
        raise Malformed("entry bundle", f"an entry is longer than {MAX_ENTRY_BYTES} bytes")
    return b"".join(pack(">H", len(entry)) + entry for entry in entries)


def _format_index(index: int, width: int) -> str:
    """Return 1234067 as x001/x234/067, with the width appended for a partial tile."""
    check_number(index, "tile index")
    if not 1 <= width <= TILE_WIDTH:
        raise Malformed("tile", f"width {width} is not between 1 and {TILE_WIDTH}")
    *parents, name = f"{index:,}".split(",")
    folders = "".join(f"x{parent:0>3}/" for parent in parents)
    return f"{folders}{name:0>3}" + (f".p/{width}" if width < TILE_WIDTH else "")


def _parse_index(text: str) -> tuple[int, int]:
    """Parse an index and a width leniently; the caller formats them again and compares."""
    number, partial, width = text.partition(".p/")
    digits = number.replace("x", "").replace("/", "").lstrip("0") or "0"
    return (
        parse_decimal(digits, "tile path"),
        parse_decimal(width, "tile path") if partial else TILE_WIDTH,
    )
