"""Auditing what a run says of the panels of its tasks, against the runs of these panels."""

from collections.abc import Callable

from forum.deliberation import record_comparison
from forum.deliberation.council_findings import describe_findings
from forum.deliberation.council_report import read_report
from forum.deliberation.record_comparison import Breach, IndexedEntry, SessionEntries
from forum.deliberation.task_audit import RunAudit
from forum.work import kinds
from forum.work.council_end import CouncilCloseFacts

ReadRun = Callable[[str], SessionEntries]


def audit_accords(minutes: SessionEntries, read_run: ReadRun) -> RunAudit:
    """Compare each accord that a run records with the close of the panel that it names.

    What is not there is reported as not checked, never as a fault.
    """
    comparer = record_comparison.RecordComparer(minutes)
    missing: list[str] = []
    for item in minutes.entries:
        if not isinstance(item.entry.facts, kinds.AccordFacts):
            continue
        try:
            _check_accord(comparer, item, read_run(item.entry.facts.run))
        except (record_comparison.BodyMissing, ValueError) as error:
            missing.append(
                f"what the panel of {item.entry.strand} found in run {minutes.run}: {error}"
            )
    return RunAudit(tuple(comparer.faults), tuple(missing[:1]))


def _check_accord(
    comparer: record_comparison.RecordComparer, item: IndexedEntry, panel: SessionEntries
) -> None:
    recorded: kinds.AccordFacts = item.entry.facts
    closes = [each for each in panel.entries if isinstance(each.entry.facts, CouncilCloseFacts)]
    if not panel.entries:
        raise record_comparison.BodyMissing(f"run {recorded.run} is not there")
    if not closes:
        detail = f"{item.entry.step}: no council has closed in run {recorded.run}"
        comparer.report_fault(Breach.COURSE, detail, item)
        return
    closed: CouncilCloseFacts = closes[0].entry.facts
    expected = kinds.AccordFacts(recorded.run, closed.accord, closed.blockers)
    comparer.compare_facts(Breach.COURSE, item, expected)
    if kinds.FINDINGS not in item.entry.bodies:
        return  # the report was erased before the task was judged
    report = record_comparison.RecordComparer(panel).read_body(
        closes[0], "report", MAX_REPORT_BYTES
    )
    found = comparer.read_body(item, kinds.FINDINGS, MAX_REPORT_BYTES)
    if found != describe_findings(read_report(report)).encode():
        detail = f"{item.entry.step}: the findings are not those of run {recorded.run}"
        comparer.report_fault(Breach.COURSE, detail, item)


MAX_REPORT_BYTES = 1 << 26
"""How much of a report is read."""
