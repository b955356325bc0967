"""Proofs that our oracle and another implementation (transparency-dev/merkle) made and mutated.

Each vector says whether a verifier must reject it.  We agree with all but a few.
"""

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from forum.errors import ProofRejected
from forum.tlog import check_consistency, check_inclusion
from tests.foreign_data import foreign
from tests.tlog.oracle import Oracle
from tests.tlog.trees import check_subtree_consistency, check_subtree_inclusion

# Accepted by others and rejected here: a root that is not 32 bytes long is not a root.
EMPTY_SUBTREE = "subtreeconsistency/additional/subtree-is-empty-sizes-are-equal"
NOT_32_BYTES = {
    "consistency/additional/sizes-are-equal-one-and-proof-is-empty.json",
    "subtreeconsistency/additional/sizes-are-equal-one-and-proof-is-empty.json",
    f"{EMPTY_SUBTREE}-one-subtree-root-valid-tree-root-random-proof-is-empty.json",
    f"{EMPTY_SUBTREE}-zero-subtree-root-valid-tree-root-random-proof-is-empty.json",
}


def inclusion(v: dict[str, Any]) -> None:
    """Check a vector of the folder inclusion."""
    check_inclusion(v["proof"], v["leafHash"], v["leafIdx"], v["treeSize"], root=v["root"])


def consistency(v: dict[str, Any]) -> None:
    """Check a vector of the folder consistency."""
    check_consistency(v["proof"], v["size1"], v["root1"], v["size2"], new_root=v["root2"])


def subtree_inclusion(v: dict[str, Any]) -> None:
    """Check a vector of the folder subtreeinclusion."""
    check_subtree_inclusion(
        v["proof"], v["leafHash"], v["leafIdx"], v["start"], end=v["end"], root=v["root"]
    )


def subtree_consistency(v: dict[str, Any]) -> None:
    """Check a vector of the folder subtreeconsistency."""
    check_subtree_consistency(
        v["proof"], v["start"], v["end"], v["size"], subtree_root=v["root1"], root=v["root2"]
    )


def load(file: Path) -> dict[str, Any]:
    """Read a vector with its hashes as bytes, of whatever length."""
    vector: dict[str, Any] = json.loads(file.read_text())
    for name in vector.keys() & {"root", "root1", "root2", "leafHash"}:
        vector[name] = b64decode(vector[name] or "")
    vector["proof"] = [b64decode(node) for node in vector["proof"] or []]
    return vector


def rejects(check: Callable[[dict[str, Any]], None], vector: dict[str, Any]) -> bool:
    """Tell whether we reject a vector."""
    try:
        check(vector)
    except ProofRejected:
        return True
    return False


LEAVES = [sha256(bytes([0, number])).digest() for number in range(9)]
GARBAGE = sha256(b"garbage").digest()


def mutations(proof: list[bytes]) -> Iterator[list[bytes]]:
    """Return proofs that differ from one in a single place."""
    yield [*proof, GARBAGE]
    yield [GARBAGE, *proof]
    for number, node in enumerate(proof):
        yield [*proof[:number], *proof[number + 1 :]]
        yield [*proof[:number], bytes([node[0] ^ 16]) + node[1:], *proof[number + 1 :]]


def own_inclusion_vectors() -> Iterator[dict[str, Any]]:
    """Return proofs of each leaf in trees of up to nine leaves, and what must be rejected."""
    oracle = Oracle(LEAVES)
    for size in range(1, len(LEAVES) + 1):
        for index in range(size):
            true: dict[str, Any] = {
                "leafIdx": index,
                "treeSize": size,
                "root": oracle.mth(0, size),
                "leafHash": LEAVES[index],
                "proof": oracle.path(index, 0, size),
                "wantErr": False,
            }
            yield true
            yield true | {"root": GARBAGE, "wantErr": True}
            yield true | {"leafHash": GARBAGE, "wantErr": True}
            yield true | {"leafIdx": size, "wantErr": True}
            for proof in mutations(true["proof"]):
                yield true | {"proof": proof, "wantErr": True}


def own_consistency_vectors() -> Iterator[dict[str, Any]]:
    """Return proofs between all trees of up to nine leaves, and what must be rejected."""
    oracle = Oracle(LEAVES)
    for new in range(1, len(LEAVES) + 1):
        for old in range(1, new + 1):
            true: dict[str, Any] = {
                "size1": old,
                "size2": new,
                "root1": oracle.mth(0, old),
                "root2": oracle.mth(0, new),
                "proof": oracle.consistency(old, new),
                "wantErr": False,
            }
            yield true
            yield true | {"root1": GARBAGE, "wantErr": True}
            yield true | {"root2": GARBAGE, "wantErr": True}
            yield true | {"size1": new + 1, "wantErr": True}
            for proof in mutations(true["proof"]):
                yield true | {"proof": proof, "wantErr": True}


@pytest.mark.parametrize(
    ("vectors", "count", "check"),
    [
        (own_inclusion_vectors, 512, inclusion),
        (own_consistency_vectors, 470, consistency),
    ],
)
def test_we_agree_with_our_oracle(
    vectors: Callable[[], Iterator[dict[str, Any]]],
    count: int,
    check: Callable[[dict[str, Any]], None],
) -> None:
    """It is written after the text of the RFC, and shares nothing with what it judges."""
    made = list(vectors())

    assert [vector for vector in made if rejects(check, vector) != vector["wantErr"]] == []
    assert len(made) == count


@pytest.mark.parametrize(
    ("folder", "count", "check"),
    [
        ("inclusion", 98, inclusion),
        ("consistency", 98, consistency),
        ("subtreeinclusion", 204, subtree_inclusion),
        ("subtreeconsistency", 118, subtree_consistency),
    ],
)
def test_we_agree_with_every_foreign_vector_but_those_we_reject_on_purpose(
    folder: str, count: int, check: Callable[[dict[str, Any]], None]
) -> None:
    """A verifier of our own making is worth as much as its agreement with those of others."""
    root = foreign("vectors/merkle/testdata")
    vectors = {
        file.relative_to(root).as_posix(): load(file) for file in (root / folder).rglob("*.json")
    }

    disagreed = {name for name, v in vectors.items() if rejects(check, v) != v["wantErr"]}

    assert len(vectors) == count
    assert disagreed == {name for name in NOT_32_BYTES if name.startswith(f"{folder}/")}
    for name in disagreed:
        assert {len(vectors[name]["root1"]), len(vectors[name]["root2"])} != {32}
