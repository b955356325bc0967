"""Key rotation: a log's signing key hands the log over to its successor, and both keys sign that.

The hand-overs are in the strand `keys` of the run `log`.  A reader that trusts one key of the log
finds there the keys before and after it; see docs/spec/entry.md, section Keys of a log.  An entry
alone gives no key any authority: every writer can make entries.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from forum.errors import Malformed, NoSuchEntry, SignatureRejected
from forum.ledger.entry import LOG_RUN, Entry, leaf_of
from forum.ledger.kinds import KeyAddV2Facts, KeyRotationFacts, KeyRotationV2Facts, Kinds
from forum.ledger.log import LocatedEntry, find_entry
from forum.ledger.ports import EntryReader, TreeReader
from forum.tlog import (
    ED25519,
    Note,
    SigningKey,
    VerifierKey,
    format_base64,
    parse_base64,
    parse_checkpoint,
)

KEYS_STRAND = "keys"
"""The strand of the run `log` that records key rotations."""

MAX_ROTATIONS = 64
"""How many hand-overs of a bundle or a pack are followed: each may cost signatures.

Bundles hold all hand-overs of their log, so no more are recorded.
"""

ROTATION = "key.rotate/2"
KEY_ADDITION = "key.add/2"


class KeyPair(msgspec.Struct, frozen=True):
    """What two keys have signed: one lends its authority, the other proves its possession."""

    kind: str
    since: int
    signer: VerifierKey
    key: VerifierKey
    signed: str
    proof: str

    def is_signed(self, origin: str) -> bool:
        """Return whether the signatures of both keys hold."""
        message = key_statement(self.kind, origin, self.since, self.signer, key=self.key)
        try:
            self.signer.verify(message, parse_base64(self.signed, "signature"))
            self.key.verify(message, parse_base64(self.proof, "signature"))
        except (Malformed, SignatureRejected):
            return False
        return True


class KeyRotation(msgspec.Struct, frozen=True):
    """A rotation from one signing key to the next, recorded by the entry with this index."""

    index: int
    leaf: bytes
    old: VerifierKey
    new: VerifierKey
    signatures: KeyPair | None = None
    """What both keys have signed; None in an entry of release 0.2."""


def key_statement(
    kind: str, origin: str, since: int, signer: VerifierKey, key: VerifierKey
) -> bytes:
    """Return the bytes that both keys sign.

    The first line is not the origin of any log, so that no checkpoint has the same bytes.
    """
    return f"forum/{kind}\n{origin}\n{since}\n{signer}\n{key}\n".encode()


def sign_rotation(origin: str, since: int, old: SigningKey, new: SigningKey) -> KeyRotationV2Facts:
    """Return the facts of a hand-over, signed by both keys."""
    keys = (old.verifier(), new.verifier())
    message = key_statement(ROTATION, origin, since, *keys)
    return KeyRotationV2Facts(
        old=str(keys[0]),
        vkey=str(keys[1]),
        since=since,
        signed=format_base64(old.sign(message)),
        proof=format_base64(new.sign(message)),
    )


def sign_key_addition(origin: str, since: int, by: SigningKey, key: SigningKey) -> KeyAddV2Facts:
    """Return the facts that publish a key for attestations, signed by a key of the log."""
    message = key_statement(KEY_ADDITION, origin, since, by.verifier(), key=key.verifier())
    return KeyAddV2Facts(
        vkey=str(key.verifier()),
        by=str(by.verifier()),
        since=since,
        signed=format_base64(by.sign(message)),
        proof=format_base64(key.sign(message)),
    )


def read_key_rotation(
    index: int, data: bytes, entry: Entry[Any], origin: str
) -> KeyRotation | None:
    """Return the rotation that an entry records, or None if it records none for this log."""
    facts = entry.facts
    if not isinstance(facts, KeyRotationFacts | KeyRotationV2Facts) or (
        entry.log,
        entry.run,
        entry.strand,
    ) != (origin, LOG_RUN, KEYS_STRAND):
        return None
    try:
        old, new = VerifierKey.parse(facts.old), VerifierKey.parse(facts.vkey)
    except Malformed:
        return None
    if old == new or any((k.name, k.algorithm) != (origin, ED25519) for k in (old, new)):
        return None
    signatures = None
    if isinstance(facts, KeyRotationV2Facts):
        if index < facts.since:
            return None
        signatures = KeyPair(
            ROTATION, facts.since, signer=old, key=new, signed=facts.signed, proof=facts.proof
        )
    return KeyRotation(index, leaf=bytes(leaf_of(data)), old=old, new=new, signatures=signatures)


def read_key_addition(facts: KeyAddV2Facts) -> KeyPair:
    """Return the key that an entry publishes, with its signatures.  Raises `Malformed`."""
    signer, key = VerifierKey.parse(facts.by), VerifierKey.parse(facts.vkey)
    return KeyPair(KEY_ADDITION, facts.since, signer, key, signed=facts.signed, proof=facts.proof)


def find_key_rotations(reader: EntryReader, kinds: Kinds) -> Iterator[LocatedEntry]:
    """Yield the sequenced entries of a log that record key rotations.

    A gap in the strand, which the verifier reports, takes nothing from those that are there: what
    follows from each is signed.
    """
    for row in reader.strand_rows(LOG_RUN, KEYS_STRAND):
        if not reader.check.is_settled(row):
            continue
        with suppress(Malformed, NoSuchEntry):  # altered, or without an index yet
            located = find_entry(reader, kinds, leaf_of(row.data).hex())
            if isinstance(located.entry.facts, KeyRotationFacts | KeyRotationV2Facts):
                yield located


def find_retired_keys(reader: EntryReader, kinds: Kinds) -> Iterator[tuple[VerifierKey, int]]:
    """Yield each key that handed the log over, with the size of its last checkpoint."""
    for located in find_key_rotations(reader, kinds):
        index = located.index or 0
        hand_over = read_key_rotation(index, located.data, located.entry, reader.origin)
        if hand_over is None:
            continue
        last = index
        for data in reader.checkpoints(index + 1):
            note = Note.parse(data)
            if any(signature.claims_key(hand_over.new) for signature in note.signatures):
                yield hand_over.old, last
                break
            last = parse_checkpoint(data).size


def find_rotation_checkpoints(
    reader: TreeReader, entries: Iterable[LocatedEntry]
) -> Iterator[bytes]:
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
