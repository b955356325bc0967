"""Redactions: which bodies an entry announces as erased, and their erasure from the store.

A body is erased only after its redaction is in a signed checkpoint: a missing body without a
redaction in a signed tree is a finding of the verifier.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

import msgspec

from forum import errors, tlog
from forum.ledger import ports
from forum.ledger.entry import LOG_RUN, MAIN_STRAND, Entry, leaf_of, peek_kind
from forum.ledger.kinds import (
    Kinds,
    RedactionBatchFacts,
    RedactionFacts,
    RedactionReason,
    RedactionV3Facts,
)
from forum.ledger.retention_holds import (
    RETENTION_STRAND,
    BodyName,
    HoldOrder,
    RetentionState,
    read_retention,
)

REDACTION_STRANDS = (MAIN_STRAND, RETENTION_STRAND)
"""The strands of the log's own run in which redactions are in force."""
MAX_REDACTED_ENTRIES = 15
"""Entries whose bodies one entry redacts.  One more parent leads to the exports of their runs."""
MAX_REDACTED_BODIES = 30
"""Bodies that one entry redacts: with longer names than any kind has, the entry still fits."""
_PAGE_ENTRIES = 100
"""Redactions whose bodies are erased in one transaction."""
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


class PendingRedaction(msgspec.Struct, frozen=True):
    """A recorded redaction whose bodies may still be stored."""

    leaf: tlog.Hash
    bodies: tuple[BodyName, ...]


class ArchiveEraser(Protocol):
    """Erases bodies from the copies of archived runs."""

    def erase_body(self, position: ports.Position, name: str) -> bool:
        """Replace the copy of a run by one without this body; return whether it had the body."""

    def skip(self, error: errors.ArchiveUnreachable) -> None:
        """Note that a redacted entry could not be looked up."""


class BodyEraser:
    """Erases the bodies of signed redactions; each call goes on where the last one ended."""

    def __init__(
        self, store: ports.ContentStore, kinds: Kinds, archive: ArchiveEraser | None = None
    ) -> None:
        self._store, self._kinds = store, kinds
        self._archive = archive
        self._read = dict.fromkeys(REDACTION_STRANDS, 0)
        self._pending: list[PendingRedaction] = []
        self._retention = RetentionState()

    @property
    def pending(self) -> frozenset[BodyName]:
        """The bodies with a recorded redaction that the last call of `erase` left in place."""
        return frozenset(body for redaction in self._pending for body in redaction.bodies)

    def erase(self) -> list[ports.Position]:
        """Erase every body whose redaction is in a signed checkpoint and whose run is not held.

        Return the positions of their entries.  After an error, call it again.
        """
        self._retention = read_retention(self._store, self._kinds, self._retention)
        erased, self._pending = self._erase_signed(self._pending)
        for strand in REDACTION_STRANDS:
            while page := self._read_page(strand):
                redactions = [
                    PendingRedaction(leaf_of(data), tuple(redacted_bodies(self._kinds.read(data))))
                    for data in page
                    if is_redaction(data)  # most others are exports: they are not parsed
                ]
                more, waiting = self._erase_signed(redactions)
                erased += more
                self._pending += waiting
                self._read[strand] += len(page)
        return erased

    def _read_page(self, strand: str) -> list[bytes]:
        entries = self._store.read_strand(LOG_RUN, strand, self._read[strand])
        return list(islice(entries, _PAGE_ENTRIES))

    def _erase_signed(
        self, redactions: Sequence[PendingRedaction]
    ) -> tuple[list[ports.Position], list[PendingRedaction]]:
        """Erase what may be erased; return its positions, and what has to wait."""
        note = self._store.checkpoint()
        size = tlog.parse_checkpoint(note).size if note else 0
        indexes = self._store.indexes([redaction.leaf for redaction in redactions])
        waiting, places = [], []
        for redaction, index in zip(redactions, indexes, strict=True):
            if index is None or index >= size:
                waiting.append(redaction)
                continue
            try:
                located = list(self._locate(redaction.bodies))
                stored = self._store.bodies_at([(at, body.name) for body, at in located])
            except errors.ArchiveUnreachable as error:
                if self._archive is None:
                    raise
                self._archive.skip(error)
                waiting.append(redaction)
                continue
            held = [body for body, at in located if self._retention.is_held(at.run)]
            places += [
                (at, body.name, copy)
                for (body, at), copy in zip(located, stored, strict=True)
                if body not in held
            ]
            if held:
                waiting.append(PendingRedaction(redaction.leaf, tuple(held)))
        own = [(at, name) for at, name, copy in places if copy is not None and not copy.archived]
        if own:
            self._store.erase_bodies(own)
        erased = [position for position, _ in own]
        if self._archive is not None:
            # Also after the erasure here: a run may have been copied and not removed yet.  One new
            # copy leaves out all redacted bodies of its run.
            replaced = {at.run for at, name, _ in places if self._archive.erase_body(at, name)}
            erased += [
                at for at, _, copy in places if copy and copy.archived and at.run in replaced
            ]
        return erased, waiting

    def _locate(self, bodies: Sequence[BodyName]) -> Iterator[tuple[BodyName, ports.Position]]:
        """Yield bodies with the positions of their entries, if these have an index."""
        indexes = self._store.indexes([tlog.Hash.from_hex(body.entry) for body in bodies])
        for body, index in zip(bodies, indexes, strict=True):
            data = None if index is None else next(self._store.entries(index, index + 1))
            if data is not None:
                entry = self._kinds.read(data)
                yield body, ports.Position(entry.run, entry.strand, entry.n)
