r"""Bodies: content that an entry commits to but does not contain, so that it can be erased.

commitment = SHA-256("forum/body/1\0" || salt || u64be(length) || body), with a fresh random salt
of 32 bytes for each body.  The salt is stored beside the body and erased with it.  Without the
salt, even a one-word body cannot be guessed from its commitment.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Protocol

import msgspec

from forum.errors import Malformed
from forum.ledger.entry import Commitment
from forum.ledger.spans import ByteSpan

SALT_SIZE = 32
CHUNK_SIZE = 1 << 20
"""Bodies are stored, read and hashed in chunks of at most this many bytes."""

_DOMAIN = b"forum/body/1\0"


class Content(Protocol):
    """Bytes of a known length that can be read in chunks, more than once."""

    @property
    def size(self) -> int:
        """The number of bytes."""

    def chunks(self) -> Iterator[bytes]:
        """Yield the content from the beginning, in chunks of at most `CHUNK_SIZE` bytes."""


class BytesContent(msgspec.Struct, frozen=True):
    """Content in memory."""

    data: bytes

    @property
    def size(self) -> int:
        """The number of bytes."""
        return len(self.data)

    def chunks(self) -> Iterator[bytes]:
        """Yield the content in chunks; empty content is one empty chunk."""
        for start in range(0, len(self.data) or 1, CHUNK_SIZE):
            yield self.data[start : start + CHUNK_SIZE]


def text_content(content: str) -> BytesContent:
    """Return text as UTF-8 content.  Raises `Malformed` for a lone surrogate."""
    try:
        return BytesContent(content.encode())
    except UnicodeEncodeError as error:
        raise Malformed("text", f"a lone surrogate at character {error.start}") from None


class Body(msgspec.Struct, frozen=True):
    """A body to be stored, with its name in the entry."""

    name: str
    type: str
    content: Content
    salt: bytes

    def commitment(self) -> Commitment:
        """Return the commitment to this body for its entry."""
        digest = compute_commitment(self.salt, self.content.size, self.content.chunks())
        return Commitment(digest.hex(), self.content.size, self.type)


class SharedBytes(Protocol):
    """Says what a stored body shares with others of its run, and reads only what it does not.

    Both raise `Malformed` if the rows or files lead nowhere.
    """

    def spans(self) -> Sequence[ByteSpan]:
        """Return the spans of the body.  Those of two bodies of a run can be compared."""

    def read_from(self, start: int) -> Iterable[bytes]:
        """Yield the bytes of the body from a place on."""


class StoredBody(msgspec.Struct, frozen=True):
    """A body read from a store or a bundle: untrusted until checked."""

    salt: bytes
    read: Callable[[], Iterable[bytes]]
    archived: bool = False
    """Whether it comes from an archive and is not stored in the database."""
    size: int | None = None
    """The number of bytes, if it is known before they are read."""
    shared: SharedBytes | None = None
    """What it shares with other bodies; None if it is stored as it is."""

    def matches(self, commitment: Commitment) -> bool:
        """Return whether this is the body that an entry committed to."""
        if len(self.salt) != SALT_SIZE or self.size not in (None, commitment.size):
            return False
        measured = _CountedChunks(self.read())
        digest = compute_commitment(self.salt, commitment.size, measured)
        return digest.hex() == commitment.h and measured.size == commitment.size


class _CountedChunks:
    """The chunks of a body; `size` is their total length after the iteration."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks, self.size = chunks, 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.size += len(chunk)
            yield chunk


def compute_commitment(salt: bytes, size: int, chunks: Iterable[bytes]) -> bytes:
    """Return the salted commitment to a body of `size` bytes."""
    if len(salt) != SALT_SIZE:
        raise Malformed("salt", f"{len(salt)} bytes, not {SALT_SIZE}")
    digest = sha256(_DOMAIN + salt + size.to_bytes(8, "big"))
    for chunk in chunks:
        digest.update(chunk)
    return digest.digest()
