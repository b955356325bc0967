"""Key rotation: a log's signing key names its successor, in an entry that the old key signs.

The rotations are in the strand `keys` of the run `log`.  A reader that trusts one key of the log
finds there the keys before and after it; see docs/spec/entry.md, section Keys of a log.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from forum.errors import Malformed, NoSuchEntry
from forum.ledger.entry import LOG_RUN, Entry, leaf_of
from forum.ledger.kinds import KeyRotationFacts, Kinds
from forum.ledger.log import LocatedEntry, find_entry
from forum.ledger.ports import Reader
from forum.tlog import ED25519, Note, VerifierKey

KEYS_STRAND = "keys"
"""The strand of the run `log` that records key rotations."""


class KeyRotation(msgspec.Struct, frozen=True):
    """A rotation from one signing key to the next, recorded by the entry with this index."""

    index: int
    leaf: bytes
    old: VerifierKey
    new: VerifierKey


def read_key_rotation(
    index: int, data: bytes, entry: Entry[Any], origin: str
) -> KeyRotation | None:
    """Return the rotation that an entry records, or None if it records none for this log."""
    facts = entry.facts
    if not isinstance(facts, KeyRotationFacts) or (entry.log, entry.run, entry.strand) != (
        origin,
        LOG_RUN,
        KEYS_STRAND,
    ):
        return None
    try:
        old, new = VerifierKey.parse(facts.old), VerifierKey.parse(facts.vkey)
    except Malformed:
        return None
    if old == new or any((k.name, k.algorithm) != (origin, ED25519) for k in (old, new)):
        return None
    return KeyRotation(index, bytes(leaf_of(data)), old, new)


def find_key_rotations(reader: Reader, kinds: Kinds) -> Iterator[LocatedEntry]:
    """Yield the sequenced entries of a log that record key rotations."""
    for data in reader.read_strand(LOG_RUN, KEYS_STRAND):
        with suppress(Malformed, NoSuchEntry):  # altered, or without an index yet
            located = find_entry(reader, kinds, leaf_of(data).hex())
            if isinstance(located.entry.facts, KeyRotationFacts):
                yield located


def find_rotation_checkpoints(reader: Reader, entries: Iterable[LocatedEntry]) -> Iterator[bytes]:
    """Yield, for each rotation, the first checkpoint signed by the old key that includes it."""
    for entry in entries:
        hand_over = read_key_rotation(entry.index or 0, entry.data, entry.entry, reader.origin)
        if hand_over is None:
            continue
        for note in reader.checkpoints(hand_over.index + 1):
            if any(
                signature.claims_key(hand_over.old) for signature in Note.parse(note).signatures
            ):
                yield note
                break
