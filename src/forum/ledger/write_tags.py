"""Tags: MACs with which writers of a log authenticate their entries to the sequencer.

A tag is the id of a write key and a MAC under that key over the log's origin and the exact bytes
of the entry.  It prevents an attacker who can only write to the database from getting rows
sequenced and signed.  A tag proves nothing to third parties, because every holder of the write key
can make tags; so bundles do not contain tags and readers of bundles do not require them.
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
"""Returns the write keys of a log, read again after a rotation, or None if there are none."""

_KEY_ID_SIZE = 4
_MAC_SIZE = 16
"""HMAC-SHA-256 truncated to half (RFC 2104 section 5).

That suffices, because an attacker can test a guess only with a row that the sequencer reads.
"""
WRITE_KEY_HEADER = "forum/write-key/1"


class WriteKey(msgspec.Struct, frozen=True):
    """A secret key that the writers of a log share."""

    secret: bytes

    def __post_init__(self) -> None:
        if len(self.secret) != KEY_SIZE:
            raise Malformed("write key", f"{len(self.secret)} bytes, not {KEY_SIZE}")

    @property
    def id(self) -> bytes:
        """The id of this key in each tag: a hash that does not reveal the secret."""
        return _key_id(self.secret)


class WriteKeys(msgspec.Struct, frozen=True):
    """The write keys of one log: the first key makes tags, every key verifies tags."""

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
        """Return whether this is a tag, by one of the keys, of an entry with these bytes."""
        return self._accepts(b"entry", data, tag)

    def accepts_new_entry(self, data: bytes, tag: bytes | None) -> bool:
        """Return whether a writer of this log may have appended these bytes with this tag.

        Until tags are enforced, writers of the previous release append without them.
        """
        return not self.is_enforced if tag is None else self.accepts_entry(data, tag)

    def tag_head(self, strand: str, n: int, leaf: bytes) -> bytes:
        """Return the tag of the head of one of the log's own strands."""
        return self._tag(b"head", _head_message(strand, n, leaf))

    def accepts_head(self, strand: str, n: int, leaf: bytes, tag: bytes | None) -> bool:
        """Return whether this is a tag, by one of the keys, of this head."""
        return self._accepts(b"head", _head_message(strand, n, leaf), tag)

    def tag_idempotency(self, name: str, run: str, digest: str) -> bytes:
        """Return the tag of a row that binds an idempotency key to a run."""
        return self._tag(b"once", _join_with_lengths(name, run, digest))

    def accepts_idempotency(self, name: str, run: str, digest: str, tag: bytes | None) -> bool:
        """Return whether this is a tag, by one of the keys, of an idempotency row."""
        return self._accepts(b"once", _join_with_lengths(name, run, digest), tag)

    def tag_summary(self, run: str, version: int, ended: int, data: bytes) -> bytes:
        """Return the tag of the summary of a run."""
        return self._tag(b"summary", _summary_message(run, version, ended, data))

    def accepts_summary(
        self, run: str, version: int, ended: int, data: bytes, tag: bytes | None
    ) -> bool:
        """Return whether this is a tag, by one of the keys, of the summary of a run."""
        return self._accepts(b"summary", _summary_message(run, version, ended, data), tag)

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
        # Not `hmac.digest`, which releases the interpreter lock for every message: with other busy
        # threads, each tag would wait for a time slice.
        mac = _started_mac(key.secret, domain, self.origin).copy()
        mac.update(message)
        return mac.digest()[:_MAC_SIZE]

    def encode(self) -> bytes:
        """Return the contents of a write key file."""
        lines = [WRITE_KEY_HEADER, f"origin {self.origin}"]
        lines += [f"key {key.id.hex()} {b64encode(key.secret).decode()}" for key in self.keys]
        lines += [] if self.tagged_from is None else [f"tagged-from {self.tagged_from}"]
        return "".join(f"{line}\n" for line in lines).encode()

    @classmethod
    def parse(cls, data: bytes) -> "WriteKeys":
        """Parse a write key file.  Raises `Malformed`, without quoting a secret in the message."""
        try:
            header, origin, *rest = data.decode().splitlines()
            last = rest[-1].removeprefix("tagged-from ") if rest else ""
            tagged_from = int(last) if rest and last != rest[-1] else None
            named = rest if tagged_from is None else rest[:-1]
            secrets = [b64decode(line.split(" ")[2], validate=True) for line in named]
            keys = cls(origin.removeprefix("origin "), tuple(map(WriteKey, secrets)), tagged_from)
        except (ValueError, IndexError, Malformed):
            raise Malformed("write key", "not a file that `forum init` writes") from None
        if header != WRITE_KEY_HEADER or not keys.keys or keys.encode() != data:
            raise Malformed("write key", "not a file that `forum init` writes")
        return keys


@lru_cache(maxsize=64)
def _key_id(secret: bytes) -> bytes:
    return sha256(b"forum/write-key-id/1\0" + secret).digest()[:_KEY_ID_SIZE]


@lru_cache(maxsize=64)
def _started_mac(secret: bytes, domain: bytes, origin: str) -> hmac.HMAC:
    """Return a MAC that has read the prefix of all messages; copy it for each message."""
    # A zero byte, which neither can contain, ends the domain and the origin.  So two different
    # pairs never give the same prefix, and a tag of one domain is not valid in another.
    return hmac.new(secret, b"forum/tag/1\0" + domain + b"\0" + origin.encode() + b"\0", "sha256")


def _head_message(strand: str, n: int, leaf: bytes) -> bytes:
    return _join_with_lengths(strand, str(n), leaf.hex())


def _summary_message(run: str, version: int, ended: int, data: bytes) -> bytes:
    return _join_with_lengths(run, str(version), str(ended)) + data


def _join_with_lengths(*parts: str) -> bytes:
    # Length prefixes keep the parts apart: a name that contains a separator cannot imitate two.
    return b"".join(len(p.encode()).to_bytes(4, "big") + p.encode() for p in parts)
