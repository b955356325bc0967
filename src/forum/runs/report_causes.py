"""Find the span that a span is part of, as a cause of its entries."""

from collections.abc import Callable

from forum.errors import NoSuchEntry
from forum.ledger.kinds import Kinds
from forum.ledger.log import LocatedEntry, find_entry
from forum.ledger.ports import EntryReader
from forum.runs.report_kinds import ReportBeginFacts, ReportStepFacts, span_strand


def within_finder(
    reader: EntryReader, kinds: Kinds
) -> Callable[[LocatedEntry], tuple[LocatedEntry, ...]]:
    """Return a function that finds the first entry of the span that an entry is `within`."""

    def find(located: LocatedEntry) -> tuple[LocatedEntry, ...]:
        entry = located.entry
        # The end of a span follows its beginning, which names the same parent: the walk gets there.
        if entry.n or not isinstance(entry.facts, ReportBeginFacts | ReportStepFacts):
            return ()
        if not entry.facts.within:
            return ()
        try:
            place = f"{entry.run}/{span_strand(entry.facts.within)}/0"
            return (find_entry(reader, kinds, place),)
        except NoSuchEntry:
            return ()  # the parent was never reported

    return find
