"""Trees in memory, the tiles of a tree, and proofs of subtrees: what only tests need."""

from collections.abc import Iterator, Sequence
from struct import unpack_from

from forum.errors import Malformed, ProofRejected
from forum.tlog import EMPTY_ROOT, TILE_WIDTH, Hash, TileId, Tree, TreeView
from forum.tlog.hashing import HASH_SIZE, climb_level, join_hashes
from forum.tlog.proofs import _is_subtree, _is_valid_proof


def compute_root(leaves: Sequence[bytes]) -> Hash:
    """Return the root over a list of leaf hashes."""
    level, tail = join_hashes(leaves), b""
    while level:
        level, tail = climb_level(level, tail)
    return Hash(tail) if tail else EMPTY_ROOT


def view_in_memory(leaves: Sequence[bytes]) -> TreeView:
    """Return a view of a tree whose leaves are in memory."""
    tiles = Tree().extend(leaves)
    return TreeView(len(leaves), lambda tile, width: tiles[tile][: width * HASH_SIZE])


def list_tiles(size: int) -> Iterator[tuple[TileId, int]]:
    """Yield every tile of a tree of this size, with its width."""
    level, hashes = 0, size
    while hashes:
        full, partial = divmod(hashes, TILE_WIDTH)
        for index in range(full):
            yield TileId(level, index), TILE_WIDTH
        if partial:
            yield TileId(level, full), partial
        level, hashes = level + 1, full


def decode_entry_bundle(data: bytes) -> list[bytes]:
    """Return the entries in an entry bundle.  Raises `Malformed`."""
    entries, at = [], 0
    while at < len(data):
        body = at + 2
        at = body + (unpack_from(">H", data, at)[0] if body <= len(data) else 0)
        if at > len(data):
            raise Malformed("entry bundle", "its last entry is cut off")
        entries.append(data[body:at])
    if len(entries) > TILE_WIDTH:
        raise Malformed("entry bundle", f"{len(entries)} entries, more than {TILE_WIDTH}")
    return entries


def check_subtree_inclusion(
    proof: Sequence[bytes], leaf: bytes, index: int, start: int, end: int, root: bytes
) -> None:
    """Check that an entry in a subtree has this leaf hash.  Raises `ProofRejected`."""
    within = index - start
    if not (
        _is_subtree(start, end)
        and _is_valid_proof(proof, within, within + 1, end - start, subtree_root=leaf, root=root)
    ):
        raise ProofRejected(f"entry {index} is not in the subtree [{start}, {end})")


def check_subtree_consistency(
    proof: Sequence[bytes], start: int, end: int, size: int, subtree_root: bytes, root: bytes
) -> None:
    """Check that a subtree is part of a tree.  Raises `ProofRejected`."""
    if not _is_valid_proof(proof, start, end, size, subtree_root=subtree_root, root=root):
        raise ProofRejected(f"the subtree [{start}, {end}) is not in the tree of size {size}")
