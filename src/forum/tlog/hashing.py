"""RFC 6962 hashing: the one place where bytes become leaves and nodes.

A leaf is hashed behind 0x00 and a node behind 0x01, so that neither can pass for the other.
"""

from collections.abc import Iterable, Sequence
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
        """Take 32 bytes as a hash."""
        if len(raw) != HASH_SIZE:
            raise Malformed("hash", f"{len(raw)} bytes, not {HASH_SIZE}")
        return super().__new__(cls, raw)

    @classmethod
    def from_hex(cls, text: str) -> Self:
        """Read 64 lowercase hexadecimal digits."""
        try:
            made = cls(bytes.fromhex(text))
        except ValueError as error:
            raise Malformed("hash", "not hexadecimal") from error
        if made.hex() != text:
            raise Malformed("hash", "not canonical hexadecimal")
        return made

    @classmethod
    def from_base64(cls, text: str) -> Self:
        """Read the form that notes and proofs hold."""
        return cls(parse_base64(text, "hash"))

    def base64(self) -> str:
        """Write the form that notes and proofs hold."""
        return format_base64(self)


EMPTY_ROOT = Hash(sha256(b"").digest())


def hash_leaf(data: bytes) -> Hash:
    """Hash one entry."""
    # Not through Hash(): a digest is 32 bytes long, and this runs for every entry.
    return bytes.__new__(Hash, sha256(LEAF_PREFIX + data).digest())


def hash_leaves(entries: Iterable[bytes]) -> list[bytes]:
    """Hash very many entries: the same as hash_leaf, as plain bytes."""
    return [sha256(LEAF_PREFIX + data).digest() for data in entries]


def hash_children(left: bytes, right: bytes) -> Hash:
    """Hash two neighbours into the node above them."""
    return Hash(sha256(NODE_PREFIX + left + right).digest())


def compute_root(leaves: Sequence[bytes]) -> Hash:
    """Compute the root over a list of leaf hashes."""
    level, tail = join_hashes(leaves), b""
    while level:
        level, tail = climb_level(level, tail)
    return Hash(tail) if tail else EMPTY_ROOT


def join_hashes(hashes: Iterable[bytes]) -> bytes:
    """Lay hashes side by side: the form of a tile, and of each level of a tree here."""
    hashes = list(hashes)
    # Each length, not their sum: 31 and 33 bytes would shift every hash that follows.
    if set(map(len, hashes)) - {HASH_SIZE}:
        raise Malformed("hash", f"one of {len(hashes)} is not {HASH_SIZE} bytes long")
    return b"".join(hashes)


def climb_level(level: bytes, tail: bytes) -> tuple[bytes, bytes]:
    """Go up one level along the right edge of a tree.

    A last node without a sibling cannot be paired: it becomes the left child of the tail,
    which is the root of all that hangs to the right of it.
    """
    if len(level) % (2 * HASH_SIZE):
        last = level[-HASH_SIZE:]
        tail = hash_children(last, tail) if tail else last
    return hash_pairs(level), tail


def hash_pairs(level: bytes) -> bytes:
    """Hash each pair of neighbours of one level; leave out a last node without a sibling."""
    # The inner loop of every append: plain names and no call of our own per node.
    digest, prefix = sha256, NODE_PREFIX
    pairs = level[: len(level) - len(level) % (2 * HASH_SIZE)]
    return b"".join([digest(prefix + pair).digest() for (pair,) in iter_unpack("64s", pairs)])
