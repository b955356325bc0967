"""Tags: the mark by which a writer of this log shows the sequencer that an entry is its own.

A tag is the id of a write key and a MAC under that key over the log's origin and the exact bytes
of the entry.  It keeps somebody who can only write to the database from having rows of his own
sequenced and signed.  It proves nothing to strangers: whoever holds the write key can make tags,
so bundles do not carry them and readers of bundles do not ask for them.
"""

import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256

import msgspec

from forum.errors import Malformed

KEY_SIZE = 32

ReloadKeys = Callable[[], "WriteKeys | None"]
"""Reads the write keys of a log again, for a process that meets a tag which it does not know."""

_KEY_ID_SIZE = 4
_MAC_SIZE = 16
"""Half of HMAC-SHA-256 (RFC 2104 section 5): every guess needs a row that the sequencer reads."""
_HEADER = "forum/write-key/1"


class WriteKey(msgspec.Struct, frozen=True):
    """One secret that writers of a log share."""

    secret: bytes

    def __post_init__(self) -> None:
        if len(self.secret) != KEY_SIZE:
            raise Malformed("write key", f"{len(self.secret)} bytes, not {KEY_SIZE}")

    @property
    def id(self) -> bytes:
        """What names this key beside each tag: it tells nothing of the secret."""
        return _key_id(self.secret)


class WriteKeys(msgspec.Struct, frozen=True):
    """The write keys of one log: the first one makes tags, all of them check tags."""

    origin: str
    keys: tuple[WriteKey, ...]
    tagged_from: int | None = None
    """The index from which every entry must carry a tag; None while old writers may be running."""

    @property
    def is_enforced(self) -> bool:
        """Whether an entry without a tag is refused."""
        return self.tagged_from is not None

    @property
    def current(self) -> WriteKey:
        """The key that makes tags."""
        return self.keys[0]

    def tag_entry(self, data: bytes) -> bytes:
        """Return the tag of an entry with these bytes."""
        return self._tag(b"entry", data)

    def accepts_entry(self, data: bytes, tag: bytes | None) -> bool:
        """Tell whether this is a tag of one of the keys for an entry with these bytes."""
        return self._accepts(b"entry", data, tag)

    def tag_head(self, strand: str, n: int, leaf: bytes) -> bytes:
        """Return the tag of the head of one of the log's own strands."""
        return self._tag(b"head", _head_message(strand, n, leaf))

    def accepts_head(self, strand: str, n: int, leaf: bytes, tag: bytes | None) -> bool:
        """Tell whether this is a tag of one of the keys for this head."""
        return self._accepts(b"head", _head_message(strand, n, leaf), tag)

    def tag_idempotency(self, name: str, run: str, digest: str) -> bytes:
        """Return the tag of a row that ties a client's name for a request to its run."""
        return self._tag(b"once", _join_with_lengths(name, run, digest))

    def accepts_idempotency(self, name: str, run: str, digest: str, tag: bytes | None) -> bool:
        """Tell whether this is a tag of one of the keys for such a row."""
        return self._accepts(b"once", _join_with_lengths(name, run, digest), tag)

    def _tag(self, domain: bytes, message: bytes) -> bytes:
        return self.current.id + self._compute_mac(self.current, domain, message)

    def _accepts(self, domain: bytes, message: bytes, tag: bytes | None) -> bool:
        if tag is None or len(tag) != _KEY_ID_SIZE + _MAC_SIZE:
            return False
        key_id, mac = tag[:_KEY_ID_SIZE], tag[_KEY_ID_SIZE:]
        return any(
            hmac.compare_digest(mac, self._compute_mac(key, domain, message))
            for key in self.keys
            if key.id == key_id
        )

    def _compute_mac(self, key: WriteKey, domain: bytes, message: bytes) -> bytes:
        message = _message_prefix(domain, self.origin) + message
        return hmac.digest(key.secret, message, "sha256")[:_MAC_SIZE]

    def encode(self) -> bytes:
        """Return the text of a write key file."""
        lines = [_HEADER, f"origin {self.origin}"]
        lines += [f"key {key.id.hex()} {b64encode(key.secret).decode()}" for key in self.keys]
        lines += [] if self.tagged_from is None else [f"tagged-from {self.tagged_from}"]
        return "".join(f"{line}\n" for line in lines).encode()

    @classmethod
    def parse(cls, data: bytes) -> "WriteKeys":
        """Read a write key file; the secrets in it are never quoted in an error."""
        try:
            header, origin, *rest = data.decode().splitlines()
            last = rest[-1].removeprefix("tagged-from ") if rest else ""
            tagged_from = int(last) if rest and last != rest[-1] else None
            named = rest if tagged_from is None else rest[:-1]
            secrets = [b64decode(line.split(" ")[2], validate=True) for line in named]
            keys = cls(origin.removeprefix("origin "), tuple(map(WriteKey, secrets)), tagged_from)
        except (ValueError, IndexError, Malformed):
            raise Malformed("write key", "not a file that `forum init` writes") from None
        if header != _HEADER or not keys.keys or keys.encode() != data:
            raise Malformed("write key", "not a file that `forum init` writes")
        return keys


@lru_cache(maxsize=64)
def _key_id(secret: bytes) -> bytes:
    return sha256(b"forum/write-key-id/1\0" + secret).digest()[:_KEY_ID_SIZE]


@lru_cache(maxsize=64)
def _message_prefix(domain: bytes, origin: str) -> bytes:
    # The domain and the origin end in a byte that neither can hold, so that no two pairs of them
    # run together to the same message.
    return b"forum/tag/1\0" + domain + b"\0" + origin.encode() + b"\0"


def _head_message(strand: str, n: int, leaf: bytes) -> bytes:
    return _join_with_lengths(strand, str(n), leaf.hex())


def _join_with_lengths(*parts: str) -> bytes:
    # Each part behind its length: a name that holds a separator cannot pose as two parts.
    return b"".join(len(p.encode()).to_bytes(4, "big") + p.encode() for p in parts)
