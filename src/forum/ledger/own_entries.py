"""Entries that the sequencer writes itself, in the commit that gives a batch its indexes.

They say something about the batch or about the tree before it, such as which runs it opens.  They
follow the batch in the tree, and nobody else may write to their strands: the sequencer moves such a
row to the quarantine.  They are composed only for a batch, so an idle log stays idle.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from forum import errors
from forum.ledger import ports
from forum.ledger.control_key import CONTROL_STRANDS, REQUESTS_STRAND
from forum.ledger.entry import LOG_RUN
from forum.ledger.strand import (
    RUNS_STRAND,
    TAGGED_STRANDS,
    Draft,
    RecordedEntry,
    Strand,
    WriterContext,
)

WITNESSED_STRAND = "witnessed"
"""The strand of the log's own run that records the cosignatures of checkpoints."""

OWN_STRANDS = frozenset({RUNS_STRAND, WITNESSED_STRAND})
"""Strands of the log's own run that the sequencer alone writes."""

REMEMBERED_STRANDS = OWN_STRANDS | TAGGED_STRANDS | CONTROL_STRANDS | {REQUESTS_STRAND}
"""Strands of the log's own run whose last signed entry the machine that signs remembers.

Each decides something, or proves that something is all: without its newest entries a hold, a
revocation or a run would never have been.
"""


class Batch(msgspec.Struct, frozen=True):
    """Entries that get their indexes in one commit, for which own entries are composed."""

    rows: Sequence[ports.EntryRow]
    leaves: Sequence[bytes]
    first: int
    """The index of the first of them, which is the size of the tree before them."""
    is_next: bool
    """Whether the batch before this one was sequenced by the same sequencer."""


class Composer(Protocol):
    """Composes the entries of one own strand."""

    strand: str
    """The strand, one of `OWN_STRANDS`."""

    def compose(self, batch: Batch, last: RecordedEntry | None) -> Sequence[Draft]:
        """Return the drafts that follow the last entry of the strand; none most of the time.

        The first entry of the strand needs a parent.  An earlier entry or one of the batch will do.
        It may be called again for the same batch: then the earlier drafts were not recorded.
        """


class OwnEntries:
    """Composes the own entries of batches; the ends of their strands are read once."""

    def __init__(self, composers: Sequence[Composer]) -> None:
        self._composers = composers
        self._ends: dict[str, RecordedEntry | None] = {}
        """The last entry of each own strand behind the batch before."""

    def compose(self, writer: WriterContext, batch: Batch) -> list[ports.EntryWrite]:
        """Return the own entries of a batch, in the order of the composers.

        The caller reads the head of the tree before, and commits the entries only while it is in
        place: then the ends of the strands cannot have changed, and for a batch that is next they
        are those of the batch before.  Raises `PositionTaken` if somebody else has appended to one
        of the strands.
        """
        ends = dict(self._ends) if batch.is_next else {}
        writes: list[ports.EntryWrite] = []
        for composer in self._composers:
            name = composer.strand
            last = ends[name] if name in ends else _read_end(writer, name)
            ends[name] = last
            drafts = composer.compose(batch, last)
            if drafts:
                strand = Strand.following(writer, LOG_RUN, name, last)
                added, written = strand.prepare_next(drafts)
                writes += added
                ends[name] = written[-1]
        self._ends = ends
        return writes


def _read_end(writer: WriterContext, strand: str) -> RecordedEntry | None:
    last = writer.last_entry(LOG_RUN, strand)
    if last is not None and writer.store.indexes([last.leaf])[0] is None:
        raise errors.PositionTaken(f"{LOG_RUN}/{strand}/{last.entry.n}")
    return last


def is_foreign_to_own(row: ports.EntryRow) -> bool:
    """Return whether a row that waits for its index stands in a strand of the sequencer."""
    return row.run == LOG_RUN and row.strand in OWN_STRANDS


def stray_row(origin: str) -> errors.TamperDetected:
    """Return the error for a row in an own strand that has no index and waits for none."""
    why = "the sequencer alone writes there, and a row has neither an index nor waits for one"
    return errors.TamperDetected(f"a strand of the log {origin}", why)
