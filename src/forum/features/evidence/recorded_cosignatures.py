"""The cosignatures of checkpoints that the log itself recorded, in its strand `witnessed`."""

from collections.abc import Iterable, Iterator

import msgspec

from forum.features.evidence.log_part import LogPart, read_part_entry
from forum.ledger.entry import LOG_RUN
from forum.ledger.own_entries import WITNESSED_STRAND
from forum.ledger.witness_records import KeysByClaim, keys_by_claim, read_lines
from forum.tlog import Note, Signature, VerifierKey, WitnessPolicy

_MAX_LINES = 64
"""How many lines of one checkpoint count: as many as a note may have."""


class CheckpointRecord(msgspec.Struct, frozen=True):
    """What one entry records of a checkpoint: lines of cosignatures."""

    size: int
    root: str
    lines: tuple[str, ...]


def read_records(part: LogPart) -> Iterator[CheckpointRecord]:
    """Yield the records in a log part, in the order of the log."""
    for data in part.entries:
        if b'"witnessed/1"' not in data:
            continue
        entry = read_part_entry(data)
        if (entry.run, entry.strand, entry.kind) == (LOG_RUN, WITNESSED_STRAND, "witnessed/1"):
            lines = tuple(entry.facts.get("cosignatures", ()))
            yield CheckpointRecord(entry.facts["size"], entry.facts["root"], lines)


def add_first_lines(
    first: dict[VerifierKey, Signature], lines: Iterable[str], witnesses: KeysByClaim
) -> None:
    """Add the first line of each of these witnesses, unverified, of as many as a note may have.

    Whoever may write to the log can have other lines recorded, as many as he likes: they are left
    aside before they count.
    """
    for key, signature in read_lines(lines, witnesses):
        if len(first) < _MAX_LINES:
            first.setdefault(key, signature)


def find_quorum_record(
    text: str, lines_by_entry: Iterable[tuple[str, ...]], policy: WitnessPolicy
) -> tuple[int, Note] | None:
    """Return the number of the record by which a quorum of a checkpoint is recorded first.

    Return as well the checkpoint with the first lines of the witnesses that are recorded until
    then, unverified.  What was recorded later does not count, so that nobody chooses by where a log
    part ends.
    """
    witnesses, first = keys_by_claim(policy.witness_keys), dict[VerifierKey, Signature]()
    for number, lines in enumerate(lines_by_entry):
        before = len(first)
        add_first_lines(first, lines, witnesses)
        if len(first) > before and policy.is_satisfied_by(first):
            return number, Note(text, tuple(first.values()))
    return None
