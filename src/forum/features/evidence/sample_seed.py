"""The seed of the sample that follows from cosignatures.

The owner of a log can choose a later tree, and which cosignatures he hands on.  So the seed comes
from the first tree that witnesses saw behind the period, and from what the log recorded of it, as
far as the log part holds that record.
"""

from collections.abc import Sequence
from enum import StrEnum
from hashlib import sha256

import msgspec

from forum.errors import SignatureRejected
from forum.features.evidence.counted_times import CountedTimes, is_seen_since
from forum.features.evidence.log_part import LogPart
from forum.features.evidence.recorded_cosignatures import find_quorum_record, read_records
from forum.tlog import (
    Checkpoint,
    Note,
    VerifierKey,
    WitnessPolicy,
    format_base64,
    is_local_witness,
    parse_checkpoint,
    verify_cosignatures,
)


class SeedSource(StrEnum):
    """Where the seed of a sample comes from."""

    AUDITOR = "auditor"
    RECORDED = "recorded"
    """Cosignatures of the first tree behind the period, as the log recorded them."""
    WITNESSES = "witnesses"
    """Cosignatures of which the log part has no record, so that its maker can choose some."""
    CHECKPOINT = "checkpoint"
    """The root of the tree, which the maker of the log can influence."""


class WitnessSeed(msgspec.Struct, frozen=True):
    """A seed that follows from cosignatures."""

    seed: str
    source: SeedSource
    keys: tuple[VerifierKey, ...]
    """The witnesses whose cosignatures give the seed."""


def find_witness_seed(part: LogPart, until: int, policy: WitnessPolicy) -> WitnessSeed | None:
    """Return the seed that follows from cosignatures by the witnesses of a policy, or None.

    There is one if the quorum has cosigned.  A witness on the machine of the log does not count:
    its owner can have as many cosignatures as he likes.
    """
    note, source = _find_cosigned_note(part, until, policy)
    try:
        cosigned = verify_cosignatures(note, policy.witness_keys)
    except SignatureRejected:
        return None
    keys = {cosignature.key for cosignature in cosigned}
    if not keys or not policy.is_satisfied_by(keys):
        return None
    others = tuple(sorted((key for key in keys if not is_local_witness(key.name)), key=str))
    return WitnessSeed(_make_seed(note, others), source, others) if others else None


def find_root_seed(part: LogPart, until: int, policy: WitnessPolicy | None) -> str:
    """Return the seed where no cosignature gives one: the root of the tree behind the period."""
    behind = _find_behind(part, until, policy) if policy else None
    return parse_checkpoint(behind or part.end).root.hex()


def _find_behind(part: LogPart, until: int, policy: WitnessPolicy) -> bytes | None:
    """Return the first checkpoint in `log/seen` that witnesses saw behind the period.

    Whether an earlier one decides is checked only where they saw the end behind it, too.
    """
    times = CountedTimes(part, policy)
    seen = zip(part.seen, times.seen, strict=True) if is_seen_since(times.end, until) else ()
    return next((note for note, time in seen if is_seen_since(time, until)), None)


def _find_cosigned_note(
    part: LogPart, until: int, policy: WitnessPolicy
) -> tuple[Note, SeedSource]:
    """Return the checkpoint whose signatures give the seed."""
    behind = _find_behind(part, until, policy)
    note = Note.parse(behind or part.end)
    checkpoint = Checkpoint.parse(note.text)
    place = (checkpoint.size, checkpoint.root.hex())
    records = (r.lines for r in read_records(part) if (r.size, r.root) == place)
    recorded = find_quorum_record(note.text, records, policy) if behind else None
    return (recorded[1], SeedSource.RECORDED) if recorded else (note, SeedSource.WITNESSES)


def _make_seed(note: Note, keys: Sequence[VerifierKey]) -> str:
    """Return the seed that follows from the first cosignature of each of these witnesses."""
    # These are the signatures that were verified.
    first = dict(note.signatures_by(keys))
    lines = [f"{key} {format_base64(first[key].blob)}\n" for key in keys]
    return sha256("".join(["forum/sample/1\n", *lines]).encode()).hexdigest()
