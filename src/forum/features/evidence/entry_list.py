"""The list of entries of a period, for spreadsheets: one line for each, without bodies."""

from forum.features.evidence.counted_times import CountedTimes
from forum.features.evidence.log_part import LogPart, read_part_entry
from forum.features.evidence.report import Arguments
from forum.tlog import hash_leaf
from forum.units import format_rfc3339

_HEAD = "index,id,time,run,strand,n,kind,actor,outcome\r\n"
_FORMULA = ("=", "+", "-", "@", "\t")


def _quote(value: str) -> str:
    # A spreadsheet takes such a text for a formula, and actors and runs are named by others.
    text = f"'{value}" if value.startswith(_FORMULA) else value
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if any(c in text for c in ',"\r\n') else text


def list_entries(part: LogPart, arguments: Arguments, times: CountedTimes) -> bytes:
    """Return the entries of the period as CSV (RFC 4180)."""
    lines = [_HEAD]
    for index, data in enumerate(part.entries, part.first):
        entry = read_part_entry(data)
        if not arguments.since <= times.time_of(index, entry.ts) < arguments.until:
            continue
        cells = (
            str(index),
            hash_leaf(data).hex(),
            format_rfc3339(entry.ts),
            entry.run,
            entry.strand,
            str(entry.n),
            entry.kind,
            entry.actor,
            str(entry.facts.get("outcome", "")),
        )
        lines.append(",".join(map(_quote, cells)) + "\r\n")
    return "".join(lines).encode()
