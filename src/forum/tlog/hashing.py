"""RFC 6962 hashing of leaves and nodes.

A leaf is hashed with the prefix 0x00 and a node with 0x01, so that neither can pass for the other.
"""

from collections.abc import Iterable
from hashlib import sha256
from struct import iter_unpack
from typing import Self

from forum.errors import Malformed
from forum.tlog.canonical_encoding import format_base64, parse_base64

HASH_SIZE = 32
LEAF_PREFIX = b"\x00"
NODE_PREFIX = b"\x01"


class Hash(bytes):
    """A SHA-256 hash in a tree.  One that is not 32 bytes long cannot be made."""

    __slots__ = ()

    def __new__(cls, raw: bytes) -> Self:
        """Return 32 bytes as a hash.  Raises `Malformed` for any other length."""
        if len(raw) != HASH_SIZE:
            raise Malformed("hash", f"{len(raw)} bytes, not {HASH_SIZE}")
        return super().__new__(cls, raw)

    @classmethod
    def from_hex(cls, text: str) -> Self:
        """Parse 64 lowercase hexadecimal digits.  Raises `Malformed`."""
        try:
            digest = cls(bytes.fromhex(text))
        except ValueError as error:
            raise Malformed("hash", "not hexadecimal") from error
        if digest.hex() != text:
            raise Malformed("hash", "not canonical hexadecimal")
        return digest

    @classmethod
    def from_base64(cls, text: str) -> Self:
        """Parse the base64 form used in notes and proofs.  Raises `Malformed`."""
        return cls(parse_base64(text, "hash"))

    def base64(self) -> str:
        """Return the base64 form used in notes and proofs."""
        return format_base64(self)


EMPTY_ROOT = Hash(sha256(b"").digest())


def hash_leaf(data: bytes) -> Hash:
    """Return the leaf hash of one entry."""
    # Skips the length check of Hash(): a digest has 32 bytes, and this runs for every entry.
    return bytes.__new__(Hash, sha256(LEAF_PREFIX + data).digest())


def hash_leaves(entries: Iterable[bytes]) -> list[bytes]:
    """Return the leaf hashes of many entries, as plain bytes for speed."""
    return [sha256(LEAF_PREFIX + data).digest() for data in entries]


def hash_children(left: bytes, right: bytes) -> Hash:
    """Return the hash of the node above two neighbours."""
    return Hash(sha256(NODE_PREFIX + left + right).digest())


def join_hashes(hashes: Iterable[bytes]) -> bytes:
    """Concatenate hashes: the form of a tile, and of each tree level in this package."""
    hashes = list(hashes)
    # Check each length, not the sum: 31 and 33 bytes would shift the boundary between two hashes.
    if set(map(len, hashes)) - {HASH_SIZE}:
        raise Malformed("hash", f"one of {len(hashes)} is not {HASH_SIZE} bytes long")
    return b"".join(hashes)


def climb_level(level: bytes, tail: bytes) -> tuple[bytes, bytes]:
    """Return the level above and the new tail, going up along the right edge of a tree.

    The tail is the root over everything to the right of the level.  A last node without a sibling
    cannot be paired, so it becomes the left sibling of the tail.
    """
    if len(level) % (2 * HASH_SIZE):
        last = level[-HASH_SIZE:]
        tail = hash_children(last, tail) if tail else last
    return hash_pairs(level), tail


def hash_pairs(level: bytes) -> bytes:
    """Return the hashes of each pair of one level; a last node without a sibling is left out."""
    # The inner loop of every append: local names, and no Python function call per node.
    digest, prefix = sha256, NODE_PREFIX
    pairs = level[: len(level) - len(level) % (2 * HASH_SIZE)]
    return b"".join([digest(prefix + pair).digest() for (pair,) in iter_unpack("64s", pairs)])
