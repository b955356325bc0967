"""Signed notes: text with signatures below it (C2SP signed-note).

The text of a note is untrusted until `verify_note` has returned.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from forum.errors import Malformed, SignatureRejected
from forum.tlog.canonical_encoding import check_text, format_base64, parse_base64
from forum.tlog.keys import ED25519, SigningKey, VerifierKey, check_key_name

MAX_SIGNATURES = 64
MAX_NOTE_BYTES = 1 << 20

DASH = "\u2014 "
KEY_ID_SIZE = 4


@dataclass(frozen=True)
class Signature:
    """One signature line; `str()` returns it without the final newline."""

    name: str
    key_id: bytes
    blob: bytes

    def __post_init__(self) -> None:
        check_key_name(self.name)
        if len(self.key_id) != KEY_ID_SIZE or not self.blob:
            raise Malformed("signature line", "no key id, or no signature behind it")

    @classmethod
    def parse(cls, line: str) -> Self:
        """Parse one line without the final newline.  Raises `Malformed`."""
        name, space, encoded = line.removeprefix(DASH).partition(" ")
        if not (line.startswith(DASH) and space):
            raise Malformed("signature line", "not of the form dash, name, signature")
        raw = parse_base64(encoded, "signature line")
        return cls(name, raw[:KEY_ID_SIZE], raw[KEY_ID_SIZE:])

    def __str__(self) -> str:
        return f"{DASH}{self.name} {format_base64(self.key_id + self.blob)}"

    def claims_key(self, key: VerifierKey) -> bool:
        """Return whether this signature names a key; it may still be invalid."""
        return (self.name, self.key_id) == (key.name, key.key_id)


@dataclass(frozen=True)
class Note:
    """Text that ends in a newline, and at least one signature."""

    text: str
    signatures: tuple[Signature, ...]

    def __post_init__(self) -> None:
        if not self.text.endswith("\n"):
            raise Malformed("note", "its text does not end in a newline")
        check_text(self.text.replace("\n", ""), "note")
        if not 1 <= len(self.signatures) <= MAX_SIGNATURES:
            raise Malformed("note", f"{len(self.signatures)} signatures")

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Parse a note without verifying its signatures.  Raises `Malformed`."""
        if len(data) > MAX_NOTE_BYTES:
            raise Malformed("note", f"longer than {MAX_NOTE_BYTES} bytes")
        try:
            whole = data.decode()
        except UnicodeDecodeError as error:
            raise Malformed("note", "not UTF-8") from error
        # The last empty line separates text and signatures: the text may contain empty lines.
        text, blank, below = whole.rpartition("\n\n")
        if not (blank and below.endswith("\n")):
            raise Malformed("note", "no signatures below an empty line")
        lines = below[:-1].split("\n")
        if len(lines) > MAX_SIGNATURES:
            raise Malformed("note", f"{len(lines)} signatures")
        return cls(text + "\n", tuple(Signature.parse(line) for line in lines))

    def signatures_by(self, keys: Iterable[VerifierKey]) -> list[tuple[VerifierKey, Signature]]:
        """Return the first signature that names each of these keys; it may still be invalid.

        Others by the same key say nothing more, and verifying each would be costly: whoever has a
        key can make as many valid signatures of one text as fit into a note.
        """
        first: dict[VerifierKey, Signature] = {}
        known_keys = tuple(keys)
        for signature in self.signatures:
            for key in known_keys:
                if signature.claims_key(key):
                    first.setdefault(key, signature)
        return list(first.items())

    def encode(self) -> bytes:
        """Return the bytes of the note."""
        lines = "".join(f"{signature}\n" for signature in self.signatures)
        return f"{self.text}\n{lines}".encode()


def add_signatures(data: bytes, other: bytes) -> bytes:
    """Return a note with the signatures of another one of the same text by keys that it lacks.

    Returns the note as it is if one of the two is malformed, or if the other is of another text.
    """
    try:
        note, more = Note.parse(data), Note.parse(other)
    except Malformed:
        return data
    keys = {(signature.name, signature.key_id) for signature in note.signatures}
    added = [s for s in more.signatures if (s.name, s.key_id) not in keys]
    if not added or note.text != more.text:
        return data
    return Note(note.text, (*note.signatures, *added)[:MAX_SIGNATURES]).encode()


def sign_note(text: str, key: SigningKey) -> Signature:
    """Return the signature of a note with this text.  Raises `Malformed` for a cosigner's key."""
    # A cosigner's key signs messages of another form.  If it signed notes too, such a message could
    # be passed in as text, and the signature could be used in a cosignature.
    if key.algorithm != ED25519:
        raise Malformed("key", f"{key.name} does not sign notes")
    return Signature(key.name, key.verifier().key_id, key.sign(text.encode()))


def verify_note(note: Note, keys: Iterable[VerifierKey]) -> tuple[VerifierKey, ...]:
    """Return the keys that signed a note, each once.  Raises `SignatureRejected`.

    Signatures by unknown keys are ignored.  An invalid first signature by a known key rejects the
    whole note, because the note was altered.
    """
    trusted = [key for key in keys if key.algorithm == ED25519]
    signatures = note.signatures_by(trusted)
    for key, signature in signatures:
        key.verify(note.text.encode(), signature.blob)
    if not signatures:
        names = ", ".join(key.name for key in trusted) or "no key"
        raise SignatureRejected(names, "the note is not signed by a key that the reader trusts")
    return tuple(key for key, _ in signatures)
