"""The tree against the recursive definition, for every size up to 300 and for a large one."""

from collections.abc import Callable
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.errors import Malformed, NoSuchEntry
from forum.tlog import EMPTY_ROOT, Hash, ReadTile, TileId, Tree, TreeView, hash_children, hash_leaf
from forum.tlog.hashing import hash_pairs
from tests.tlog.oracle import Oracle
from tests.tlog.trees import compute_root, list_tiles, view_in_memory

SIZES = range(301)
LARGE = 70_000
LEAVES: list[bytes] = [hash_leaf(b"entry %d" % n) for n in range(LARGE)]
ORACLE = Oracle(LEAVES)

# Around the borders of tiles of each level, and anywhere.
sizes = st.one_of(st.integers(0, 1000), st.integers(65_530, 65_800), st.integers(0, LARGE))


def reader(tiles: dict[TileId, bytes], reads: list[TileId] | None = None) -> ReadTile:
    """Read from a store that holds the widest tiles only."""

    def read(tile: TileId, width: int) -> bytes:
        if reads is not None:
            reads.append(tile)
        return tiles[tile][: 32 * width]

    return read


@pytest.fixture(scope="module")
def large() -> dict[TileId, bytes]:
    """Return the tiles of the large tree, made at once."""
    return Tree().extend(LEAVES)


def test_leaves_and_nodes_are_hashed_as_the_standard_says() -> None:
    """The prefixes are what keeps a node from passing for an entry (RFC 6962 section 2.1)."""
    assert sha256(b"").digest() == EMPTY_ROOT
    assert hash_leaf(b"x") == sha256(b"\x00x").digest()
    assert hash_children(LEAVES[0], LEAVES[1]) == sha256(b"\x01" + LEAVES[0] + LEAVES[1]).digest()


@pytest.mark.parametrize("raw", [b"", bytes(31), bytes(33), bytes(64)])
def test_a_hash_of_another_length_cannot_be_made(raw: bytes) -> None:
    """Of two hashes side by side, nobody could tell where the first ends."""
    with pytest.raises(Malformed):
        Hash(raw)


@given(st.binary(min_size=32, max_size=32))
def test_a_hash_is_read_back_from_text(raw: bytes) -> None:
    """Both texts of a hash stand for it."""
    made = Hash(raw)

    assert Hash.from_hex(made.hex()) == Hash.from_base64(made.base64()) == made


@pytest.mark.parametrize(
    "text", ["", "ff", "FF" * 32, "0" * 63, " " + "00" * 32, "0x" + "00" * 31, "gg" * 32]
)
def test_a_hash_in_another_spelling_is_refused(text: str) -> None:
    """Two spellings of one hash would be two files with one meaning."""
    with pytest.raises(Malformed):
        Hash.from_hex(text)


@pytest.mark.parametrize(
    "text",
    [
        "A" * 43,
        "A" * 42 + "B=",
        "A" * 43 + "=\n",
        "A" * 43 + "==",
        " " + "A" * 43 + "=",
        "A" * 42 + "-=",
        "é" * 44,
    ],
)
def test_base64_in_another_spelling_is_refused(text: str) -> None:
    """Stray bits behind the last byte are invisible to a lenient reader."""
    with pytest.raises(Malformed):
        Hash.from_base64(text)


def test_a_tree_is_the_one_that_the_standard_defines() -> None:
    """Roots and tiles, however they are computed, follow the recursive definition."""
    for size in SIZES:
        tree, leaves = Tree(), LEAVES[:size]
        root = ORACLE.mth(0, size)
        tiles = tree.extend(leaves)

        assert tree.size == size
        assert tree.root() == compute_root(leaves) == view_in_memory(leaves).root() == root
        assert tiles == {tile: ORACLE.tile(*tile, width) for tile, width in list_tiles(size)}


def test_a_tree_with_several_levels_of_tiles_is_the_one_of_the_standard(
    large: dict[TileId, bytes],
) -> None:
    """Above 65,536 entries there are three levels, of which the middle one is full once."""
    assert large == {tile: ORACLE.tile(*tile, width) for tile, width in list_tiles(LARGE)}


def test_a_view_sees_every_smaller_tree_and_every_leaf(large: dict[TileId, bytes]) -> None:
    """One set of tiles serves all the trees that the log ever was."""
    view = TreeView(LARGE, reader(large))

    for size in [*SIZES, 65_535, 65_536, 65_537, 69_999, LARGE]:
        assert view.root(size) == ORACLE.mth(0, size)
    assert [view.leaf(n) for n in range(0, LARGE, 997)] == LEAVES[::997]
    assert view.root() == ORACLE.mth(0, LARGE)


@given(st.integers(0, 700), st.integers(0, 700))
def test_a_view_computes_the_root_over_any_range(one: int, other: int) -> None:
    """Also over a range which no tree has as a subtree."""
    lo, hi = sorted((one, other))

    assert view_in_memory(LEAVES[:700]).range_hash(lo, hi) == ORACLE.mth(lo, hi)


@given(st.lists(st.one_of(st.integers(0, 3), st.integers(0, 700)), max_size=6))
def test_a_tree_grown_in_pieces_is_the_tree_made_at_once(chunks: list[int]) -> None:
    """When entries arrive is not recorded: only their order is."""
    tree, stored = Tree(), dict[TileId, bytes]()
    size = 0
    for chunk in chunks:
        stored |= tree.extend(LEAVES[size : size + chunk])
        size += chunk

    assert tree.root() == ORACLE.mth(0, size)
    assert stored == Tree().extend(LEAVES[:size])


@given(sizes, st.integers(0, 600))
def test_a_tree_is_taken_up_again_where_it_was_left(
    large: dict[TileId, bytes], size: int, more: int
) -> None:
    """After a restart the log goes on as if it had never stopped."""
    end = min(size + more, LARGE)
    tree = Tree.load(size, reader(large))
    root = tree.root()
    changed = tree.extend(LEAVES[size:end])

    assert (tree.size, root, tree.root()) == (end, ORACLE.mth(0, size), ORACLE.mth(0, end))
    before = dict(list_tiles(size))
    grown = {tile: width for tile, width in list_tiles(end) if before.get(tile) != width}
    assert changed == {tile: large[tile][: 32 * width] for tile, width in grown.items()}


def test_taking_up_a_tree_reads_one_tile_of_each_level(large: dict[TileId, bytes]) -> None:
    """A restart takes as long for a large log as for a small one."""
    reads: list[TileId] = []
    Tree.load(LARGE, reader(large, reads))

    assert reads == [TileId(0, 273), TileId(1, 1), TileId(2, 0)]


def test_a_view_reads_a_tile_once(large: dict[TileId, bytes]) -> None:
    """Tiles may come over a network."""
    reads: list[TileId] = []
    view = TreeView(LARGE, reader(large, reads))
    for index in range(0, LARGE, 9973):
        view.leaf(index)
        view.root(index)

    assert len(reads) == len(set(reads))


def test_a_leaf_of_another_length_is_refused_and_nothing_has_changed() -> None:
    """31 and 33 bytes are as long as two hashes, and would shift every hash behind them."""
    tree = Tree()
    tree.extend(LEAVES[:5])

    with pytest.raises(Malformed):
        tree.extend([LEAVES[5], bytes(31), bytes(33)])
    assert (tree.size, tree.root()) == (5, ORACLE.mth(0, 5))


@pytest.mark.parametrize("cut", [lambda data: data[:-1], lambda data: data + bytes(32)])
def test_a_tile_of_another_length_is_refused(
    large: dict[TileId, bytes], cut: Callable[[bytes], bytes]
) -> None:
    """A store that lost the end of a file must not change a root."""
    read = reader(large)

    with pytest.raises(Malformed, match=r"tile/0/273\.p/112"):
        Tree.load(LARGE, lambda tile, width: cut(read(tile, width)))
    with pytest.raises(Malformed, match="tile/0/000"):
        TreeView(LARGE, lambda tile, width: cut(read(tile, width))).leaf(0)


def test_what_is_not_in_a_tree_is_not_answered() -> None:
    """A question beyond the tree is an error of its own, not a hash."""
    view = view_in_memory(LEAVES[:7])

    for index in (-1, 7):
        with pytest.raises(NoSuchEntry):
            view.leaf(index)
    for lo, hi in ((0, 8), (-1, 3), (5, 4)):
        with pytest.raises(Malformed):
            view.range_hash(lo, hi)
    with pytest.raises(Malformed):
        Tree.load(-1, reader({}))


def test_threads_share_a_view(large: dict[TileId, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """While one thread computes the second level of a tile, another one does the same."""
    view = TreeView(LARGE, reader(large))
    compute, others = hash_pairs, ["another thread"]

    def compute_slowly(hashes: bytes) -> bytes:
        if others:
            others.clear()
            view.range_hash(0, 2)
        return compute(hashes)

    monkeypatch.setattr("forum.tlog.hashing.hash_pairs", compute_slowly)
    first = view.range_hash(0, 128)

    assert others == []
    assert [first, view.range_hash(0, 256)] == [ORACLE.mth(0, 128), ORACLE.mth(0, 256)]
