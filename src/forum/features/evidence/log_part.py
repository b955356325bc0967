"""The log part of a pack: the bytes of every entry between two checkpoints, and what proves them.

The tree of the start is known by its partial tiles, so that whoever appends the leaf hashes of the
entries to it gets the root of the end.  An entry that is left out, added or changed gives another
root.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from forum import tlog
from forum.errors import Malformed
from forum.ledger.bundle import PastCheckpoint

_HASH_SIZE = 32

LIFE_KINDS = (
    *(b"log.", b"key.", b"access.grant/", b"access.revoke/", b"redact/", b"tags.enforce/"),
    *(b"config.seen/", b"hold/", b"retention/", b"incident."),
)
"""The beginnings of the kinds of the log's own run that matter beyond the period of their entry."""


class PartEntry(msgspec.Struct, frozen=True, gc=False):
    """The members of an entry from which figures are computed, whatever its kind."""

    run: str
    strand: str
    n: int
    ts: int
    actor: str
    kind: str
    facts: dict[str, Any]
    parents: tuple[str, ...] = ()


class EarlierEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry before the start, with the proof that it is in the tree of the end."""

    index: int
    entry: str
    proof: tuple[str, ...]
    """The hashes of the inclusion proof, in base64."""


class LogPart(msgspec.Struct, frozen=True):
    """The entries between two checkpoints, and entries before them that the report needs."""

    origin: str
    start: bytes | None
    """The signed note of the tree before the entries; None for the empty tree."""
    end: bytes
    """The signed note of the tree that ends with the entries."""
    edge: tuple[bytes, ...]
    """The partial tiles of the tree of the start, lowest level first."""
    consistency: tuple[tlog.Hash, ...]
    """The proof that the tree of the end begins with that of the start."""
    entries: tuple[bytes, ...]
    earlier: tuple[EarlierEntry, ...]
    """The entries before the start of runs that were open then, and of the log's own life."""
    seen: tuple[bytes, ...] = ()
    """Signed notes between the two, smallest first: they bound the times of entries."""
    past: tuple[PastCheckpoint, ...] = ()
    """The checkpoints by which earlier keys of the log signed their own rotation."""

    @property
    def first(self) -> int:
        """The index of the first entry between the checkpoints: the size of the start."""
        return tlog.parse_checkpoint(self.start).size if self.start else 0

    def indexed_entries(self) -> Iterator[tuple[int, bytes]]:
        """Yield all entries with their indexes, in the order of the log."""
        for earlier in self.earlier:
            yield earlier.index, earlier.entry.encode()
        yield from enumerate(self.entries, self.first)


_decoder = msgspec.json.Decoder(PartEntry)


def read_part_entry(data: bytes) -> PartEntry:
    """Return the members of an entry that figures are computed from.  Raises `Malformed`."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Malformed("entry", str(error)) from None


def start_tree(part: LogPart) -> tlog.Tree:
    """Return the tree of the start, from its partial tiles.  Raises `Malformed`."""
    size = remaining = part.first
    widths = []
    while remaining:
        remaining, width = divmod(remaining, tlog.TILE_WIDTH)
        widths.append(width)
    # Tiles of another width could have the same root: a node is the hash of joined children.
    if [len(tile) for tile in part.edge] != [width * _HASH_SIZE for width in widths]:
        raise Malformed("log part", "the partial tiles are not those of a tree of this size")
    return tlog.Tree.resume(size, part.edge)


def encode_lines(hashes: Iterable[bytes]) -> bytes:
    """Return hashes, or joined hashes, as lines of base64."""
    return "".join(f"{tlog.format_base64(data)}\n" for data in hashes).encode()


def decode_lines(data: bytes) -> tuple[bytes, ...]:
    """Return the hashes in lines of base64.  Raises `Malformed`."""
    try:
        *lines, rest = data.decode("ascii").split("\n")
    except UnicodeDecodeError:
        raise Malformed("log part", "a file of hashes is not ASCII") from None
    if rest:
        raise Malformed("log part", "a file of hashes ends within a line")
    return tuple(tlog.parse_base64(line, "hash") if line else b"" for line in lines)
