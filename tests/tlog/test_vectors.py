"""Proofs that another implementation made and mutated (transparency-dev/merkle).

Each vector says whether a verifier must reject it.  We agree with all but a few.
"""

import json
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forum.errors import ProofRejected
from forum.tlog import check_consistency, check_inclusion
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
    check_inclusion(v["proof"], v["leafHash"], v["leafIdx"], v["treeSize"], v["root"])


def consistency(v: dict[str, Any]) -> None:
    """Check a vector of the folder consistency."""
    check_consistency(v["proof"], v["size1"], v["root1"], v["size2"], v["root2"])


def subtree_inclusion(v: dict[str, Any]) -> None:
    """Check a vector of the folder subtreeinclusion."""
    check_subtree_inclusion(
        v["proof"], v["leafHash"], v["leafIdx"], v["start"], v["end"], v["root"]
    )


def subtree_consistency(v: dict[str, Any]) -> None:
    """Check a vector of the folder subtreeconsistency."""
    check_subtree_consistency(v["proof"], v["start"], v["end"], v["size"], v["root1"], v["root2"])


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
    shared: Path, folder: str, count: int, check: Callable[[dict[str, Any]], None]
) -> None:
    """A verifier of our own making is worth as much as its agreement with those of others."""
    root = shared / "vectors/merkle/testdata"
    vectors = {
        file.relative_to(root).as_posix(): load(file) for file in (root / folder).rglob("*.json")
    }

    disagreed = {name for name, v in vectors.items() if rejects(check, v) != v["wantErr"]}

    assert len(vectors) == count
    assert disagreed == {name for name in NOT_32_BYTES if name.startswith(f"{folder}/")}
    for name in disagreed:
        assert {len(vectors[name]["root1"]), len(vectors[name]["root2"])} != {32}
