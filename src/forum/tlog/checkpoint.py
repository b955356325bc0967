"""Checkpoints: origin, size and root of a log, in three lines (C2SP tlog-checkpoint)."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from forum.errors import Malformed, SignatureRejected
from forum.tlog.canonical_encoding import check_number, check_text, parse_decimal
from forum.tlog.hashing import EMPTY_ROOT, Hash
from forum.tlog.keys import SigningKey, VerifierKey
from forum.tlog.note import Note, sign_note, verify_note


@dataclass(frozen=True)
class Checkpoint:
    """The size and the root of a log at one moment; str() writes the text of the note."""

    origin: str
    size: int
    root: Hash

    def __post_init__(self) -> None:
        if not self.origin:
            raise Malformed("checkpoint", "no origin")
        check_text(self.origin, "origin")
        check_number(self.size, "tree size")
        if Hash(self.root) != EMPTY_ROOT and self.size == 0:
            raise Malformed("checkpoint", "the empty tree has another root")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of a note.  Raises `Malformed`.

        Extension lines are refused, because no witness audits them.
        """
        match text.split("\n"):
            case [origin, size, root, ""]:
                return cls(origin, parse_decimal(size, "tree size"), Hash.from_base64(root))
            case _:
                raise Malformed("checkpoint", "not exactly three lines")

    def __str__(self) -> str:
        return f"{self.origin}\n{self.size}\n{self.root.base64()}\n"


@lru_cache(maxsize=16)
def parse_checkpoint(data: bytes) -> Checkpoint:
    """Return the checkpoint in a note, without verifying any signature."""
    return Checkpoint.parse(Note.parse(data).text)


def sign_checkpoint(checkpoint: Checkpoint, key: SigningKey) -> Note:
    """Return the checkpoint signed with the log's own key."""
    if key.name != checkpoint.origin:
        raise Malformed("key", f"{key.name} does not sign for {checkpoint.origin}")
    text = str(checkpoint)
    return Note(text, (sign_note(text, key),))


def open_checkpoint(data: bytes | Note, keys: Iterable[VerifierKey]) -> tuple[Checkpoint, Note]:
    """Return a checkpoint signed by a key of its own log.  Raises `SignatureRejected`."""
    note = data if isinstance(data, Note) else Note.parse(data)
    signers = verify_note(note, keys)
    checkpoint = Checkpoint.parse(note.text)
    # A reader may trust several logs; none of them may sign a checkpoint of another.
    if all(key.name != checkpoint.origin for key in signers):
        raise SignatureRejected(checkpoint.origin, "signed by the key of another log only")
    return checkpoint, note
