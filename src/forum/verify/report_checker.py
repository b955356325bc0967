"""Checks the entries of runs that Forum does not drive, and counts how each run is known.

The rules are those that docs/spec/report.md marks as checked.  What a program did not tell cannot
be found here: the counts say how much of a log was only told.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from forum.ledger.entry import MAIN_STRAND, Entry
from forum.ledger.kinds import RunOpenFacts
from forum.runs import report_kinds
from forum.runs.kinds import AcceptedFacts
from forum.verify.report import Coverage, Findings, GapCount, Problem

_OPENED, _DRIVEN = "opened", "driven"


class ReportChecker:
    """A checker that receives the entries of a log in index order."""

    def __init__(
        self, findings: Findings, find_previous: Callable[[Entry[Any]], Entry[Any] | None]
    ) -> None:
        self._findings, self._find_previous = findings, find_previous
        self._begun: dict[tuple[str, str], report_kinds.ReportBeginFacts] = {}
        """The beginnings of spans without an end, by run and strand."""
        self.counts: Counter[str] = Counter()
        """Counts of runs by provenance, and of gaps; those of two parts of a log add up."""

    def check_entry(self, index: int, entry: Entry[Any]) -> None:
        """Check one entry, and count what it says about the coverage of its run."""
        fault = ""
        match entry.facts:
            case RunOpenFacts() if entry.strand == MAIN_STRAND:
                self.counts[_OPENED] += 1
            case AcceptedFacts() if entry.strand == MAIN_STRAND:
                self.counts[_DRIVEN] += 1
            case report_kinds.ReportSourceFacts() as facts:
                fault = self._check_source(entry, facts)
            case report_kinds.ReportGapFacts() as facts:
                self.counts[f"gaps {facts.why}"] += 1
                self.counts[f"steps {facts.why}"] += facts.steps
            case report_kinds.ReportBeginFacts() as facts:
                fault = self._check_begin(entry, facts)
            case report_kinds.ReportStepFacts() as facts:
                fault = self._check_step(entry, facts)
            case _:
                pass
        if fault:
            where = f"{entry.run}/{entry.strand}/{entry.n}"
            self._findings.add(Problem.REPORT_INVALID, fault, index, where)

    def _check_source(self, entry: Entry[Any], facts: report_kinds.ReportSourceFacts) -> str:
        if (entry.strand, entry.n) != (MAIN_STRAND, 1):
            return "the source of a run does not follow its opening"
        self.counts[facts.told] += 1
        return ""

    def _check_begin(self, entry: Entry[Any], facts: report_kinds.ReportBeginFacts) -> str:
        # Also one that breaks a rule is a beginning: its end must not be a second finding.
        self._begun[entry.run, entry.strand] = facts
        if entry.strand != report_kinds.span_strand(facts.span):
            return f"it names the span {facts.span}, which is not that of its strand"
        return "the beginning of a span is not its first entry" if entry.n else ""

    def _check_step(self, entry: Entry[Any], facts: report_kinds.ReportStepFacts) -> str:
        begun = self._begun.pop((entry.run, entry.strand), None)
        if entry.strand != report_kinds.span_strand(facts.span):
            return f"it names the span {facts.span}, which is not that of its strand"
        if entry.n > 1:
            return "a span has more than one beginning and one end"
        if entry.n and begun is None:
            # The beginning is in a part of the log that was checked before this one.
            previous = self._find_previous(entry)
            if previous is not None and isinstance(previous.facts, report_kinds.ReportBeginFacts):
                begun = previous.facts
        if begun is None:
            return "a span has two ends" if entry.n else ""
        if (begun.op, begun.name) != (facts.op, facts.name):
            return f"it ends {facts.op} {facts.name}, and {begun.op} {begun.name} was begun"
        return ""


def coverage_of(counts: Mapping[str, int]) -> Coverage:
    """Return how the runs of a log are known, from the counts of its entries."""
    count_by_word = {word: counts.get(word, 0) for word in report_kinds.ReportProvenance}
    driven = counts.get(_DRIVEN, 0)
    # A run without a request and without a source is reported: nobody says how it came about.
    unsaid = max(0, counts.get(_OPENED, 0) - driven - sum(count_by_word.values()))
    return Coverage(
        driven=driven,
        relayed=count_by_word[report_kinds.ReportProvenance.RELAYED],
        wrapped=count_by_word[report_kinds.ReportProvenance.WRAPPED],
        reported=count_by_word[report_kinds.ReportProvenance.REPORTED] + unsaid,
        gaps=tuple(
            GapCount(why, counts[f"gaps {why}"], counts.get(f"steps {why}", 0))
            for why in sorted(report_kinds.GapReason)
            if counts.get(f"gaps {why}")
        ),
    )
