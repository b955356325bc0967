"""Proofs against the recursive definition, and against those who tamper with them."""

from collections.abc import Iterator
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.errors import Malformed, NoSuchEntry, ProofRejected
from forum.tlog import (
    EMPTY_ROOT,
    Hash,
    check_consistency,
    check_inclusion,
    hash_leaf,
    prove_consistency,
    prove_inclusion,
)
from tests.tlog.oracle import Oracle
from tests.tlog.trees import check_subtree_consistency, check_subtree_inclusion, view_in_memory

SIZE = 300
EVERY_INDEX = {1, 2, 3, 7, 8, 9, 31, 33, 64, 255, 256, 257, 300}
LEAVES: list[bytes] = [hash_leaf(b"entry %d" % n) for n in range(SIZE)]
ORACLE = Oracle(LEAVES)
VIEW = view_in_memory(LEAVES)


def root(size: int) -> bytes:
    """Return the root of the tree of a size."""
    return ORACLE.mth(0, size)


def test_the_inclusion_proof_is_that_of_the_standard() -> None:
    """Proofs are exchanged with tools of others, which know one proof only."""
    for size in range(1, SIZE + 1):
        telling = {0, size // 3, size // 2, size - 1}
        for index in range(size) if size in EVERY_INDEX else telling:
            proof = prove_inclusion(VIEW, index, size)

            assert proof == ORACLE.path(index, 0, size)
            check_inclusion(proof, LEAVES[index], index, size, root=root(size))


def test_the_consistency_proof_is_that_of_the_standard() -> None:
    """From every older size of a small tree, and from the telling ones of a larger tree."""
    for new in range(SIZE + 1):
        telling = {0, 1, new // 3, new // 2, 64, 128, 256, new - 1, new} & set(range(new + 1))
        for old in range(new + 1) if new <= 66 else telling:
            proof = prove_consistency(VIEW, old, new)

            assert proof == ORACLE.consistency(old, new)
            check_consistency(proof, old, root(old), new, new_root=root(new))


def subtrees(size: int) -> Iterator[tuple[int, int]]:
    """List the subtrees of a tree: they start at a multiple of the next power of two."""
    for start, end in combinations(range(size + 1), 2):
        if start % (1 << (end - start - 1).bit_length()) == 0:
            yield start, end


def test_every_subtree_of_a_tree_is_accepted() -> None:
    """Neither proof depends on where the subtree lies, nor on how ragged it is."""
    for size in range(1, 41):
        for start, end in subtrees(size):
            subtree = ORACLE.mth(start, end)
            proof = ORACLE.subproof(start, end, 0, size, is_known=True)
            check_subtree_consistency(
                proof, start, end, size, subtree_root=subtree, root=root(size)
            )
            for index in {start, (start + end) // 2, end - 1}:
                path = ORACLE.path(index, start, end)
                check_subtree_inclusion(path, LEAVES[index], index, start, end=end, root=subtree)


def test_a_range_that_is_no_subtree_is_rejected() -> None:
    """No node of any tree stands for it, whatever the proof."""
    for start, end in set(combinations(range(21), 2)) - set(subtrees(20)):
        path, over = ORACLE.path(start, start, end), ORACLE.mth(start, end)

        with pytest.raises(ProofRejected):
            check_subtree_consistency([], start, end, end, subtree_root=LEAVES[0], root=LEAVES[0])
        with pytest.raises(ProofRejected):
            check_subtree_inclusion(path, LEAVES[start], start, start, end=end, root=over)


def test_the_whole_view_is_meant_where_no_size_is_given() -> None:
    """Most proofs are about the newest tree."""
    assert prove_inclusion(VIEW, 3) == prove_inclusion(VIEW, 3, SIZE)
    assert prove_consistency(VIEW, 3) == prove_consistency(VIEW, 3, SIZE)


def test_what_is_not_in_the_tree_cannot_be_proven() -> None:
    """The question is refused; there is no proof to give."""
    for index, size in ((7, 7), (-1, 7), (0, 0)):
        with pytest.raises(NoSuchEntry):
            prove_inclusion(VIEW, index, size)
    for old, new in ((8, 7), (-1, 7), (7, SIZE + 1)):
        with pytest.raises(Malformed):
            prove_consistency(VIEW, old, new)
    with pytest.raises(Malformed):
        prove_inclusion(VIEW, 0, SIZE + 1)


def test_a_shortened_proof_is_rejected() -> None:
    """A proof without its last hash stops below the root, and must not pass."""
    proof = prove_inclusion(VIEW, 3, 7)

    with pytest.raises(ProofRejected, match="entry 3 is not in the tree of size 7"):
        check_inclusion(proof[:-1], LEAVES[3], 3, 7, root=root(7))


@given(st.data())
def test_no_bit_of_an_inclusion_proof_can_be_changed(data: st.DataObject) -> None:
    """Neither in the hashes, nor in the leaf, nor in the root, nor in the index."""
    size = data.draw(st.integers(1, SIZE))
    index = data.draw(st.integers(0, size - 1))
    claim: list[bytes] = [*prove_inclusion(VIEW, index, size), LEAVES[index], root(size)]
    nth, bit = data.draw(st.integers(0, len(claim) - 1)), data.draw(st.integers(0, 255))
    other = data.draw(st.integers(-1, size).filter(lambda n: n != index))

    with pytest.raises(ProofRejected):
        check_inclusion(claim[:-2], claim[-2], other, size, root=claim[-1])
    claim[nth] = (int.from_bytes(claim[nth]) ^ 1 << bit).to_bytes(32)
    with pytest.raises(ProofRejected):
        check_inclusion(claim[:-2], claim[-2], index, size, root=claim[-1])


@given(st.data())
def test_no_bit_of_a_consistency_proof_can_be_changed(data: st.DataObject) -> None:
    """A log that could bend one of them could rewrite what it once signed."""
    new = data.draw(st.integers(1, SIZE))
    old = data.draw(st.integers(1, new))
    claim: list[bytes] = [*prove_consistency(VIEW, old, new), root(old), root(new)]
    nth, bit = data.draw(st.integers(0, len(claim) - 1)), data.draw(st.integers(0, 255))

    with pytest.raises(ProofRejected):
        check_consistency([*claim[:-2], LEAVES[0]], old, claim[-2], new, new_root=claim[-1])
    claim[nth] = (int.from_bytes(claim[nth]) ^ 1 << bit).to_bytes(32)
    with pytest.raises(ProofRejected):
        check_consistency(claim[:-2], old, claim[-2], new, new_root=claim[-1])


@given(st.data())
def test_nothing_that_is_not_32_bytes_long_is_taken_for_a_hash(data: st.DataObject) -> None:
    """Bytes moved from a hash to its neighbour would leave the hashed bytes as they were."""
    proof = list[bytes](prove_inclusion(VIEW, 3, 8))
    nth = data.draw(st.integers(0, len(proof) - 1))
    moved = data.draw(st.binary(max_size=80).filter(lambda raw: len(raw) != 32))

    with pytest.raises(ProofRejected):
        check_inclusion([*proof[:nth], moved, *proof[nth + 1 :]], LEAVES[3], 3, 8, root=root(8))
    with pytest.raises(ProofRejected):
        check_inclusion(proof, moved, 3, 8, root=root(8))
    with pytest.raises(ProofRejected):
        check_inclusion([], moved, 0, 1, root=moved)
    with pytest.raises(ProofRejected):
        check_consistency([], 3, moved, 3, new_root=moved)


def test_every_tree_begins_with_the_empty_one() -> None:
    """A witness starts from size 0, with an empty proof and the root of the empty tree."""
    check_consistency([], 0, EMPTY_ROOT, 7, new_root=root(7))
    check_consistency([], 0, EMPTY_ROOT, 0, new_root=EMPTY_ROOT)
    for proof, old_root, size, new_root in [
        ([LEAVES[0]], EMPTY_ROOT, 7, root(7)),
        ([], root(7), 7, root(7)),
        ([], EMPTY_ROOT, 0, root(7)),
        ([], root(7), 0, root(7)),
    ]:
        with pytest.raises(ProofRejected):
            check_consistency(proof, 0, old_root, size, new_root=new_root)


def test_numbers_out_of_range_are_rejected() -> None:
    """They may come from a stranger's file."""
    one = Hash(LEAVES[0])
    for index, size in ((-1, 1), (1, 1), (0, 0), (0, -1), (2**64, 1)):
        with pytest.raises(ProofRejected):
            check_inclusion([], one, index, size, root=one)
    for old, new in ((2, 1), (-1, 1), (1, -1), (-1, -1)):
        with pytest.raises(ProofRejected):
            check_consistency([], old, one, new, new_root=one)
    for index, start, end in ((0, 1, 2), (2, 1, 2), (3, 3, 5), (1, 1, 1), (0, -1, 1)):
        with pytest.raises(ProofRejected):
            check_subtree_inclusion([], one, index, start, end=end, root=one)
