"""Control entries: what is decided about a log itself, and not about a run.

Every server and worker has the write key.  Entries that rotate or publish keys, that keep or erase
bodies, and that end a log need a second tag, under a key that stays on the machine that signs.
"""

from forum.ledger.entry import LOG_RUN, MAIN_STRAND, peek_kind
from forum.ledger.ports import EntryRow
from forum.ledger.write_tags import WriteKeys

CONTROL_STRANDS = frozenset({"keys", "evidence", "retention", "carried", "budgets"})
"""Strands of the log's own run that the signing machine alone writes."""

ARCHIVE_STRANDS = "archive/"
"""How the strands of that run begin that say where a run is archived; it writes them, too."""

REQUESTS_STRAND = "requests"
"""The strand of the log's own run in which other processes ask for control entries."""

_MAIN_KINDS = (b"log.epoch/", b"log.seal/", b"redact/")
"""The beginnings of the kinds that it alone writes in the strand `main`."""


def is_control_entry(run: str, strand: str, data: bytes) -> bool:
    """Return whether only the machine that signs may write an entry."""
    if run != LOG_RUN:
        return False
    if strand == MAIN_STRAND:
        return peek_kind(data).startswith(_MAIN_KINDS)
    return strand in CONTROL_STRANDS or strand.startswith(ARCHIVE_STRANDS)


def is_control_row(row: EntryRow) -> bool:
    """Return whether a row holds a control entry, by its own bytes or by its columns."""
    return is_control_entry(row.run, row.strand, row.data)


def is_allowed(row: EntryRow, control: WriteKeys | None) -> bool:
    """Return whether a row is no control entry, or carries the tag of the signing machine."""
    if control is None or not is_control_row(row):
        return True
    return control.accepts_control(row.data, row.tag)
