"""Whether a pack holds the checkpoints that decide which entries are in its period.

A maker who leaves one out, or takes another, moves entries over an end of the period.  The log
records the cosignatures of its checkpoints, so that one of which a record is in the log part cannot
be left out.
"""

from collections.abc import Collection, Iterator
from contextlib import suppress

from forum import tlog
from forum.errors import Malformed, SignatureRejected
from forum.features.evidence.counted_times import SECOND, CountedTimes, is_seen_since
from forum.features.evidence.log_part import LogPart
from forum.features.evidence.recorded_cosignatures import add_first_lines, read_records
from forum.features.evidence.report import Arguments
from forum.ledger.witness_records import keys_by_claim

_DOES_NOT_HOLD = "the log recorded a cosignature of a checkpoint of size {} that does not hold"


def find_period_problem(
    part: LogPart, times: CountedTimes, policy: tlog.WitnessPolicy, arguments: Arguments
) -> str:
    """Return what shows that other checkpoints decide, by the witnesses of a policy, or nothing.

    `times` are those of the policy.
    """
    inner = [time for time in times.seen if not is_seen_since(time, arguments.until)]
    if times.start is not None and not 0 < times.start <= arguments.since - SECOND:
        return "witnesses did not see log/start.note before the period"
    if not all(times.seen):
        return "witnesses have not cosigned a checkpoint in log/seen"
    is_sorted = times.seen[: len(inner)] == tuple(inner)
    if not is_sorted or len(inner) > 2 or len(times.seen) > len(inner) + 1:
        return "log/seen has others than the first and the last checkpoint of the period"
    if inner and not is_seen_since(inner[0], arguments.since):
        return "witnesses saw the first checkpoint in log/seen before the period"
    sizes = [part.first, *(tlog.parse_checkpoint(note).size for note in (*part.seen, part.end))]
    # Between these, witnesses saw no checkpoint: it would have been the one that decides.
    is_cut = times.end > 0 and not is_seen_since(times.end, arguments.until)
    numbers = (0,) if is_cut else (0, len(inner))
    gaps = [(sizes[number], sizes[number + 1]) for number in numbers]
    return _judge_records(part, gaps, policy)


def _judge_records(part: LogPart, gaps: list[tuple[int, int]], policy: tlog.WitnessPolicy) -> str:
    """Return what the records of cosignatures show to be missing in a pack, or nothing."""
    notes = [tlog.Note.parse(note) for note in (part.start, *part.seen, part.end) if note]
    enclosed = {note.text: note for note in notes}
    for note, named in _read_records(part, policy):
        size = tlog.Checkpoint.parse(note.text).size
        problem = ""
        if note.text in enclosed:
            problem = _find_missing_line(enclosed[note.text], note, policy)
        elif any(low < size < high for low, high in gaps):
            problem = _judge_record(note, named, policy)
        if problem:
            return problem
    return ""


def _find_missing_line(enclosed: tlog.Note, recorded: tlog.Note, policy: tlog.WitnessPolicy) -> str:
    """Return which recorded cosignature an enclosed checkpoint lacks, or nothing."""
    size = tlog.Checkpoint.parse(enclosed.text).size
    for key in policy.witness_keys:
        # A witness that was asked twice has two cosignatures, and the note one of them.
        if any(signature.claims_key(key) for signature in enclosed.signatures):
            continue
        lines = tuple(s for s in recorded.signatures if s.claims_key(key))
        try:
            missing = lines and tlog.verify_cosignatures(tlog.Note(recorded.text, lines), [key])
        except SignatureRejected:
            return _DOES_NOT_HOLD.format(size)
        if missing:
            return f"the checkpoint of size {size} lacks a cosignature that the log recorded"
    return ""


def _judge_record(
    note: tlog.Note, named: Collection[tlog.VerifierKey], policy: tlog.WitnessPolicy
) -> str:
    """Return what is wrong if witnesses saw a checkpoint that the log recorded, or nothing.

    Signatures are checked only if they are of a quorum: an honest pack has no such record, and any
    other is refused with the first one.
    """
    size = tlog.Checkpoint.parse(note.text).size
    if not policy.is_satisfied_by(named):
        return ""
    try:
        cosignatures = tlog.verify_cosignatures(note, named)
    except SignatureRejected:
        return _DOES_NOT_HOLD.format(size)
    if tlog.quorum_time(cosignatures, policy):
        return f"the log recorded that witnesses saw a checkpoint of size {size}: it is missing"
    return ""


def _read_records(
    part: LogPart, policy: tlog.WitnessPolicy
) -> Iterator[tuple[tlog.Note, Collection[tlog.VerifierKey]]]:
    """Yield the checkpoints of which the log recorded lines of a policy, with these witnesses."""
    witnesses = keys_by_claim(policy.witness_keys)
    recorded: dict[tuple[int, str], dict[tlog.VerifierKey, tlog.Signature]] = {}
    for record in read_records(part):
        first = recorded.setdefault((record.size, record.root), {})
        add_first_lines(first, record.lines, witnesses)
    for size, root in sorted(recorded):
        with suppress(Malformed):  # no witness has cosigned what is no checkpoint, or no line
            text = str(tlog.Checkpoint(part.origin, size, tlog.Hash.from_hex(root)))
            first = recorded[size, root]
            yield tlog.Note(text, tuple(first.values())), first.keys()
