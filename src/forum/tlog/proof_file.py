"""The proof file: an inclusion proof of one entry for offline verification (C2SP tlog-proof)."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from forum.errors import Malformed
from forum.tlog import canonical_encoding
from forum.tlog.hashing import Hash
from forum.tlog.note import Note

HEADER = "c2sp.org/tlog-proof@v1"

# An inclusion proof has at most one hash per level, and a tree of fewer than 2^63 leaves has at
# most 63 levels.
MAX_HASHES = 63

# The proofs of one bundle all end with the same checkpoint.
_parse_note = lru_cache(maxsize=1)(Note.parse)


@dataclass(frozen=True)
class TlogProof:
    """An index, the inclusion proof of the entry there, and the checkpoint that it leads to.

    The extra data is not covered by any signature, and must not be trusted.
    """

    index: int
    hashes: tuple[Hash, ...]
    note: Note
    extra: bytes | None = None

    def __post_init__(self) -> None:
        canonical_encoding.check_number(self.index, "index")
        if len(self.hashes) > MAX_HASHES:
            raise Malformed("proof file", f"{len(self.hashes)} hashes")

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Parse a proof file without checking its proof or its signatures.  Raises `Malformed`."""
        head, _, note = data.partition(b"\n\n")
        try:
            header, *lines = head.decode("ascii").split("\n")
        except UnicodeDecodeError as error:
            raise Malformed("proof file", "not ASCII above the checkpoint") from error
        if header != HEADER:
            raise Malformed("proof file", f"does not begin with {HEADER}")
        extra = None
        if lines and lines[0].startswith("extra "):
            extra = canonical_encoding.parse_base64(
                lines.pop(0).removeprefix("extra "), "extra data"
            )
        if not (lines and lines[0].startswith("index ")):
            raise Malformed("proof file", "no index")
        index = canonical_encoding.parse_decimal(lines.pop(0).removeprefix("index "), "index")
        return cls(index, tuple(map(Hash.from_base64, lines)), _parse_note(note), extra)

    def encode(self) -> bytes:
        """Return the bytes of the proof file."""
        extra = (
            [] if self.extra is None else [f"extra {canonical_encoding.format_base64(self.extra)}"]
        )
        hashes = [node.base64() for node in self.hashes]
        lines = [HEADER, *extra, f"index {self.index}", *hashes, "", ""]
        return "\n".join(lines).encode() + self.note.encode()
