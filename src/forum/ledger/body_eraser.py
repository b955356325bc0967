"""The erasure of redacted bodies from the store.

A body is erased only after its redaction is in a signed checkpoint: a missing body without a
redaction in a signed tree is a finding of the verifier.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol

import msgspec

from forum import errors, tlog
from forum.ledger import ports
from forum.ledger.entry import LOG_RUN, leaf_of
from forum.ledger.kinds import Kinds
from forum.ledger.redaction import REDACTION_STRANDS, is_redaction, redacted_bodies
from forum.ledger.retention_holds import BodyName, RetentionState, read_retention

_PAGE_ENTRIES = 100
"""Redactions whose bodies are erased in one transaction."""


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
