"""The tree: its right edge, to which leaves are appended, and a view of the whole through tiles.

Neither verifies anything.  Tiles are untrusted input: the caller must compare the root computed
from them with a signed root.
"""

from collections.abc import Iterable

from forum.errors import Malformed, NoSuchEntry
from forum.tlog import hashing
from forum.tlog.canonical_encoding import check_number
from forum.tlog.tiles import TILE_HEIGHT, TILE_WIDTH, ReadTile, TileId

TILE_BYTES = TILE_WIDTH * hashing.HASH_SIZE


class Tree:
    """The right edge of a tree: the state needed to append leaves and to compute the root.

    It holds the partial tile of each level, lowest first, at most 8 KiB per level.
    """

    def __init__(self) -> None:
        self._size = 0
        self._edge: list[bytes] = []

    @classmethod
    def load(cls, size: int, read: ReadTile) -> "Tree":
        """Return the edge of a stored tree, reading only the partial tile of each level."""
        tree = cls()
        tree._size = check_number(size, "tree size")
        while size:
            size, width = divmod(size, TILE_WIDTH)
            tile = TileId(len(tree._edge), size)
            tree._edge.append(_read_tile(read, tile, width) if width else b"")
        return tree

    @classmethod
    def resume(cls, size: int, edge: Iterable[bytes]) -> "Tree":
        """Return a tree with this size and these partial tiles, as `edge` returned them."""
        tree = cls()
        tree._size, tree._edge = check_number(size, "tree size"), list(edge)
        return tree

    @property
    def size(self) -> int:
        """Number of leaves."""
        return self._size

    @property
    def edge(self) -> tuple[bytes, ...]:
        """The partial tiles, lowest level first, from which `resume` restores the tree."""
        return tuple(self._edge)

    def root(self) -> hashing.Hash:
        """Return the root over all leaves."""
        tail = b""
        for tile in self._edge:
            level = tile
            for _ in range(TILE_HEIGHT):
                level, tail = hashing.climb_level(level, tail)
        return hashing.Hash(tail) if tail else hashing.EMPTY_ROOT

    def extend(self, leaves: Iterable[bytes]) -> dict[TileId, bytes]:
        """Append leaf hashes, and return every changed tile with its new content.

        One call for many leaves is far cheaper than many calls: whole levels are hashed at once.
        """
        added = hashing.join_hashes(leaves)
        size, self._size = self._size, self._size + len(added) // hashing.HASH_SIZE
        changed: dict[TileId, bytes] = {}
        level = 0
        while added:
            if level == len(self._edge):
                self._edge.append(b"")
            hashes = self._edge[level] + added
            first = size >> TILE_HEIGHT * (level + 1)
            for nth, at in enumerate(range(0, len(hashes), TILE_BYTES)):
                changed[TileId(level, first + nth)] = hashes[at : at + TILE_BYTES]
            full = len(hashes) - len(hashes) % TILE_BYTES
            self._edge[level] = hashes[full:]
            # Hashing up eight levels (2^8 = 256 hashes) leaves one hash for each full tile.
            added = hashes[:full]
            for _ in range(TILE_HEIGHT):
                added = hashing.hash_pairs(added)
            level += 1
        return changed


class TreeView:
    """A tree of one size, read through its tiles on demand; every tile read is cached."""

    def __init__(self, size: int, read: ReadTile) -> None:
        self._size = check_number(size, "tree size")
        self._read = read
        # A tile stores only its lowest level.  The levels above it are kept once they are computed,
        # because many proofs share them.
        self._levels: dict[TileId, list[bytes]] = {}
        # Ranges at the right edge of the tree are not nodes of a tile.  Their hashes are kept,
        # because every proof needs them.
        self._joined: dict[tuple[int, int], hashing.Hash] = {}

    @property
    def size(self) -> int:
        """Number of leaves."""
        return self._size

    def leaf(self, index: int) -> hashing.Hash:
        """Return one leaf hash.  Raises `NoSuchEntry`."""
        if not 0 <= index < self._size:
            raise NoSuchEntry(f"{index} in a tree of size {self._size}")
        return self._node(0, index)

    def root(self, size: int | None = None) -> hashing.Hash:
        """Return the root of this tree, or of the tree when it had a smaller size."""
        return self.range_hash(0, self._size if size is None else size)

    def range_hash(self, lo: int, hi: int) -> hashing.Hash:
        """Return the root over the leaves in [lo, hi)."""
        if not 0 <= lo <= hi <= self._size:
            raise Malformed("range", f"[{lo}, {hi}) in a tree of size {self._size}")
        return self._hash(lo, hi) if lo < hi else hashing.EMPTY_ROOT

    def _hash(self, lo: int, hi: int) -> hashing.Hash:
        height = (hi - lo - 1).bit_length()
        if hi - lo == 1 << height and lo % (hi - lo) == 0:
            return self._node(height, lo >> height)
        joined = self._joined.get((lo, hi))
        if joined is None:
            middle = lo + left_subtree_size(hi - lo)
            joined = hashing.hash_children(self._hash(lo, middle), self._hash(middle, hi))
            self._joined[lo, hi] = joined
        return joined

    def _node(self, height: int, index: int) -> hashing.Hash:
        """Return the root of a perfect subtree, given its height and its index at that height."""
        level, above = divmod(height, TILE_HEIGHT)
        tile, nth = divmod(index, TILE_WIDTH >> above)
        tile_id = TileId(level, tile)
        levels = self._tile(tile_id)
        while len(levels) <= above:
            # Threads share a view.  A copy is extended: if two threads appended to the same list,
            # a level would be in it twice, and every later proof would be rejected.
            levels = self._levels[tile_id] = [*levels, hashing.hash_pairs(levels[-1])]
        return hashing.Hash(levels[above][nth * hashing.HASH_SIZE : (nth + 1) * hashing.HASH_SIZE])

    def _tile(self, tile: TileId) -> list[bytes]:
        if tile not in self._levels:
            hashes = self._size >> TILE_HEIGHT * tile.level
            width = min(TILE_WIDTH, hashes - tile.index * TILE_WIDTH)
            self._levels[tile] = [_read_tile(self._read, tile, width)]
        return self._levels[tile]


def left_subtree_size(width: int) -> int:
    """Return the number of leaves in the left subtree: k in RFC 6962 section 2.1."""
    return 1 << (width - 1).bit_length() - 1


def _read_tile(read: ReadTile, tile: TileId, width: int) -> bytes:
    data = read(tile, width)
    if len(data) != width * hashing.HASH_SIZE:
        raise Malformed(tile.path(width), f"{len(data)} bytes, not {width * hashing.HASH_SIZE}")
    return data
