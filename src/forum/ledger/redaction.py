"""Redactions: which bodies an entry announces as erased."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from forum import tlog
from forum.ledger import ports
from forum.ledger.entry import LOG_RUN, MAIN_STRAND, Entry, leaf_of, peek_kind
from forum.ledger.kinds import (
    Kinds,
    RedactionBatchFacts,
    RedactionFacts,
    RedactionReason,
    RedactionV3Facts,
)
from forum.ledger.retention_holds import RETENTION_STRAND, BodyName, HoldOrder

REDACTION_STRANDS = (MAIN_STRAND, RETENTION_STRAND)
"""The strands of the log's own run in which redactions are in force."""
MAX_REDACTED_ENTRIES = 15
"""Entries whose bodies one entry redacts.  One more parent leads to the exports of their runs."""
MAX_REDACTED_BODIES = 30
"""Bodies that one entry redacts: with longer names than any kind has, the entry still fits."""
_REDACTION_KINDS = frozenset({b"redact/1", b"redact/2", b"redact/3"})
_match_place = re.compile(r"(0|[1-9][0-9]?)/([a-z][a-z0-9._-]{0,31})").fullmatch


def redacted_bodies(entry: Entry[Any]) -> Iterator[BodyName]:
    """Yield the bodies that an entry redacts; none if it is no redaction, or not in force.

    A redaction in another strand has no effect: otherwise the writer of a run could explain away
    the bodies that are missing in it.
    """
    facts = entry.facts
    if entry.run != LOG_RUN:
        return
    if isinstance(facts, RedactionFacts):
        if entry.strand == MAIN_STRAND and entry.parents[:1] == (facts.entry,):
            yield BodyName(facts.entry, facts.body)
    elif entry.strand != RETENTION_STRAND:
        return
    elif isinstance(facts, RedactionBatchFacts):
        yield from _name_bodies(facts.bodies, entry.parents)
    elif isinstance(facts, RedactionV3Facts):
        yield from _name_bodies(facts.bodies, entry.parents[: len(facts.runs)])


def _name_bodies(places: Sequence[str], parents: Sequence[str]) -> Iterator[BodyName]:
    for place in places:
        match = _match_place(place)
        if match is not None and int(match[1]) < len(parents):
            yield BodyName(parents[int(match[1])], match[2])


def find_redaction_fault(
    entry: Entry[Any], holds: HoldOrder, run_of: Callable[[str], str | None]
) -> tuple[bool, str] | None:
    """Return what is wrong with a redaction at its place in the log, or None.

    The first member says whether it erases what a hold keeps; otherwise it names another run than
    that of its entry.  `run_of` returns the run of an entry by its id, or None if that is unknown.
    """
    named = entry.facts.runs if isinstance(entry.facts, RedactionV3Facts) else ()
    for body in redacted_bodies(entry):
        run = run_of(body.entry)
        if run is None:
            continue
        place = entry.parents.index(body.entry)
        if named and named[place] != run:
            return False, f"its parent {place} is an entry of run {run}, not of {named[place]}"
        if (hold := holds.find_hold(run)) is not None:
            return True, f"it erases body {body.name!r} of run {run}, which hold {hold} keeps"
    return None


def find_rule_fault(entry: Entry[Any], hold_order: HoldOrder) -> str | None:
    """Return what is wrong with the rule that a redaction names at its place in the log, or None.

    Without that rule in the log, whoever made the eraser believe in one could have erased anything.
    """
    facts = entry.facts
    if not isinstance(facts, RedactionV3Facts) or next(redacted_bodies(entry), None) is None:
        return None
    if facts.reason is not RedactionReason.RETENTION or hold_order.has_rule(facts.rule):
        return None
    return f"it erases by the rule for {facts.rule or 'nothing'}, which was not in force"


def is_redaction(data: bytes) -> bool:
    """Return whether these bytes of an entry say that it is a redaction."""
    return peek_kind(data) in _REDACTION_KINDS


class RecordedRedaction(NamedTuple):
    """A redaction, with the id of its entry."""

    leaf: tlog.Hash
    entry: Entry[Any]

    @property
    def position(self) -> ports.Position:
        """Where it is recorded."""
        return ports.Position(self.entry.run, self.entry.strand, self.entry.n)


def find_redaction(
    reader: ports.EntryReader, kinds: Kinds, body: BodyName
) -> RecordedRedaction | None:
    """Return the first redaction of a body, or None if there is none."""
    for strand in REDACTION_STRANDS:
        for data in reader.read_strand(LOG_RUN, strand):
            if is_redaction(data) and body in redacted_bodies(entry := kinds.read(data)):
                return RecordedRedaction(leaf_of(data), entry)
    return None
