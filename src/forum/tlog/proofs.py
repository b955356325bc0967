"""Merkle proofs: that an entry is in a tree, and that a tree is a continuation of an older one.

All proofs are instances of one: that the leaves in [start, end), whose root the reader knows, are
in a tree of some size.  An entry is a subtree of one leaf; an older tree is a subtree that starts
at 0 (RFC 9162 sections 2.1.3 and 2.1.4, and draft-ietf-plants-merkle-tree-certs section 4).
"""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from forum.errors import Malformed, NoSuchEntry, ProofRejected
from forum.tlog import hashing
from forum.tlog.tree import TreeView, left_subtree_size


def prove_inclusion(view: TreeView, index: int, size: int | None = None) -> list[hashing.Hash]:
    """Return the proof that the entry at an index is in the tree of a size.

    Raises `NoSuchEntry` if the tree is too small.
    """
    size = view.size if size is None else size
    if not 0 <= index < size:
        raise NoSuchEntry(f"{index} in a tree of size {size}")
    return _prove(view, index, index + 1, size)


def check_inclusion(
    proof: Sequence[bytes], leaf: bytes, index: int, size: int, root: bytes
) -> None:
    """Check that the entry at an index has this leaf hash.  Raises `ProofRejected`."""
    if not _is_valid_proof(proof, index, index + 1, size, subtree_root=leaf, root=root):
        raise ProofRejected(f"entry {index} is not in the tree of size {size}")


def prove_consistency(
    view: TreeView, old_size: int, new_size: int | None = None
) -> list[hashing.Hash]:
    """Return the proof that the tree of the new size begins with the tree of the old size."""
    new_size = view.size if new_size is None else new_size
    if not 0 <= old_size <= new_size:
        raise Malformed("size", f"{old_size} within a tree of size {new_size}")
    return _prove(view, 0, old_size, new_size)


def check_consistency(
    proof: Sequence[bytes], old_size: int, old_root: bytes, new_size: int, new_root: bytes
) -> None:
    """Check that the new tree begins with the old tree.  Raises `ProofRejected`.

    Every tree begins with the empty tree, so the proof from size 0 is empty.
    """
    if not _is_valid_proof(proof, 0, old_size, new_size, subtree_root=old_root, root=new_root):
        raise ProofRejected(f"the tree of size {new_size} does not begin with that of {old_size}")


class _ProofStep(NamedTuple):
    """A range of leaves whose root is one hash of a proof, and how that hash is combined.

    left, right  a sibling outside the subtree
    within       a left sibling inside the subtree: it contributes to the subtree's root too
    base         the right end of a subtree that is not a node of the tree: both roots, the
                 subtree's and the tree's, are computed upwards from it
    """

    lo: int
    hi: int
    joined: Literal["left", "right", "within", "base"]


def _walk_to_subtree(start: int, end: int, size: int) -> Iterator[_ProofStep]:
    """Yield the steps from the root of a tree down to a subtree."""
    lo, hi = 0, size
    base = start
    while (lo, hi) != (base, end):
        middle = lo + left_subtree_size(hi - lo)
        if end <= middle:
            yield _ProofStep(middle, hi, "right")
            hi = middle
        else:
            yield _ProofStep(lo, middle, "left" if middle <= base else "within")
            lo, base = middle, max(middle, base)
    if base > start:
        yield _ProofStep(base, end, "base")


def _prove(view: TreeView, start: int, end: int, size: int) -> list[hashing.Hash]:
    if size > view.size:
        raise Malformed("size", f"{size} in a tree of size {view.size}")
    steps = list(_walk_to_subtree(start, end, size)) if start < end else []
    return [view.range_hash(step.lo, step.hi) for step in reversed(steps)]


def _is_valid_proof(
    proof: Sequence[bytes], start: int, end: int, size: int, subtree_root: bytes, root: bytes
) -> bool:
    """Return whether a proof leads from the known root of [start, end) to the root of the tree."""
    # Check the lengths first.  A node is the hash of its concatenated children, so a shorter left
    # and a longer right "hash" could have the same parent as a valid pair.
    if any(len(node) != hashing.HASH_SIZE for node in (subtree_root, root, *proof)):
        return False
    if not (0 <= start <= end <= size) or (size == 0 and root != hashing.EMPTY_ROOT):
        return False
    if start == end:
        return subtree_root == hashing.EMPTY_ROOT and not proof
    return _is_subtree(start, end) and _compute_roots(
        proof, start, end, size, subtree_root=subtree_root
    ) == (
        subtree_root,
        root,
    )


def _is_subtree(start: int, end: int) -> bool:
    """Return whether [start, end) is below one node in every tree that is large enough.

    This holds if `start` is a multiple of the smallest power of two that is at least the width.
    """
    return 0 <= start < end and start % (1 << (end - start - 1).bit_length()) == 0


def _compute_roots(
    proof: Sequence[bytes], start: int, end: int, size: int, subtree_root: bytes
) -> tuple[bytes, bytes] | None:
    """Return the roots of the subtree and of the tree, or None if the proof's length is wrong."""
    steps = list(_walk_to_subtree(start, end, size))
    if len(steps) != len(proof):
        return None
    inner = outer = subtree_root
    for node, step in zip(proof, reversed(steps), strict=True):
        match step.joined:
            case "base":
                inner = outer = node
            case "within":
                inner, outer = (
                    hashing.hash_children(node, inner),
                    hashing.hash_children(node, outer),
                )
            case "left":
                outer = hashing.hash_children(node, outer)
            case "right":
                outer = hashing.hash_children(outer, node)
    return inner, outer
