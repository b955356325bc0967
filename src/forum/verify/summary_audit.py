"""Recomputes the stored summaries of runs from the entries of these runs.

This is a step of its own, after all entries were checked: it reads only the runs that have a
summary, and leaves the check of all other entries as fast as it is without them.
"""

from collections.abc import Iterator

from forum.errors import ArchiveUnreachable, Malformed, TamperDetected
from forum.ledger.kinds import Kinds
from forum.ledger.ports import EntryReader, Reader, RunSummaryRow, SummaryReader
from forum.ledger.write_tags import WriteKeys
from forum.runs.run_summary import SUMMARY_VERSION, summary_row, tally_entries
from forum.verify.report import Findings, Problem

_PAGE_ROWS = 1000


def audit_summaries(
    reader: Reader, kinds: Kinds, keys: WriteKeys | None, findings: Findings
) -> int:
    """Compare all stored summaries with the entries of their runs; a run may have none.

    A list reads the entries of a run without a summary, so nothing is hidden by its absence.
    Returns the number of summaries by the rules of another release, which are not recomputed.
    """
    unknown = 0
    for row in _read_rows(reader):
        why = ""
        if keys is not None and not keys.accepts_summary(*row):
            why = "no writer of this log has tagged it"
        elif row.version != SUMMARY_VERSION:
            unknown += 1
        else:
            why = _explain_difference(reader, kinds, row)
        if why:
            findings.add(Problem.TABLE_MISMATCH, f"the summary of run {row.run}: {why}")
    return unknown


def _read_rows(reader: SummaryReader) -> Iterator[RunSummaryRow]:
    last = ""
    while runs := reader.summary_runs(last, _PAGE_ROWS):
        yield from reader.summaries(runs).values()
        last = runs[-1]


def _explain_difference(reader: EntryReader, kinds: Kinds, row: RunSummaryRow) -> str:
    """Return how a stored summary differs from the entries; empty if it does not."""
    try:
        tally = tally_entries(kinds.read(data) for _, data in reader.entries_of_run(row.run))
    except ArchiveUnreachable:
        return ""  # the report says that the entries of the run were not checked
    except (Malformed, TamperDetected):
        return "the entries of the run cannot be read"
    if tally.outcome is None:
        return "the log has not closed this run"
    expected = summary_row(row.run, tally)
    return "" if row[:4] == expected[:4] else "it says something else than the entries"
