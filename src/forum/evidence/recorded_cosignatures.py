"""The cosignatures of checkpoints that the log itself recorded, in its strand `witnessed`."""

from collections.abc import Iterable, Iterator

import msgspec

from forum.errors import Malformed
from forum.evidence.log_part import LogPart, read_part_entry
from forum.ledger.entry import LOG_RUN
from forum.ledger.own_entries import WITNESSED_STRAND
from forum.ledger.witness_records import MAX_RECORDED_LINES
from forum.tlog import Note, Signature, WitnessPolicy


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


def make_recorded_note(text: str, lines: Iterable[str]) -> Note | None:
    """Return a checkpoint with its recorded lines, unverified; None if there is none."""
    try:
        signatures = tuple(map(Signature.parse, tuple(lines)[:MAX_RECORDED_LINES]))
        return Note(text, signatures) if signatures else None
    except Malformed:
        return None  # no witness has cosigned that


def names_quorum(note: Note, policy: WitnessPolicy) -> bool:
    """Return whether the signatures of a note, unverified, name a quorum of witnesses."""
    keys = policy.witness_keys
    named = [key for key in keys if any(s.claims_key(key) for s in note.signatures)]
    return bool(named) and policy.is_satisfied_by(named)


def find_quorum_record(
    text: str, lines_by_entry: Iterable[tuple[str, ...]], policy: WitnessPolicy
) -> tuple[int, Note] | None:
    """Return the number of the record by which a quorum of a checkpoint is recorded first.

    Return as well the checkpoint with the lines recorded until then, unverified.  What was recorded
    later does not count, so that nobody chooses by where a log part ends.
    """
    lines: list[str] = []
    for number, recorded in enumerate(lines_by_entry):
        lines += recorded
        note = make_recorded_note(text, lines) if recorded else None
        if note is not None and names_quorum(note, policy):
            return number, note
        if len(lines) >= MAX_RECORDED_LINES:
            break
    return None
