"""Auditing what a run says of the panels of its tasks, against the runs of these panels."""

from collections.abc import Callable

import msgspec

from forum.deliberation import record_comparison
from forum.deliberation.panel_findings import PanelRecord
from forum.deliberation.record_comparison import Breach, IndexedEntry, SessionEntries
from forum.deliberation.task_audit import RunAudit
from forum.ledger.entry import MAIN_STRAND
from forum.work import kinds

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
    if not panel.entries:
        raise record_comparison.BodyMissing(f"run {recorded.run} is not there")
    bodies = record_comparison.RecordComparer(panel)
    session = PanelRecord(
        recorded.run,
        [each for each in panel.entries if each.entry.strand == MAIN_STRAND],
        lambda each, name: bodies.read_body(each, name, MAX_REPORT_BYTES),
    )
    if not session.has_closed:
        detail = f"{item.entry.step}: no panel has closed in run {recorded.run}"
        comparer.report_fault(Breach.COURSE, detail, item)
        return
    accord = session.read_accord()
    if accord is None:
        detail = f"{item.entry.step}: the panel of run {recorded.run} came to no answer"
        comparer.report_fault(Breach.COURSE, detail, item)
        return
    expected = msgspec.structs.replace(accord, role=recorded.role)
    comparer.compare_facts(Breach.COURSE, item, expected)
    _check_parent(comparer, item, panel)
    if kinds.FINDINGS not in item.entry.bodies:
        return  # the report was erased before the task was judged
    found = comparer.read_body(item, kinds.FINDINGS, MAX_REPORT_BYTES)
    if found != session.read_text().encode(errors="replace"):
        detail = f"{item.entry.step}: the findings are not those of run {recorded.run}"
        comparer.report_fault(Breach.COURSE, detail, item)


def _check_parent(
    comparer: record_comparison.RecordComparer, item: IndexedEntry, panel: SessionEntries
) -> None:
    """Check that the panel sat for this task. A fork reuses what the forked run asked for."""
    own = _accepted_facts(comparer.minutes)
    asked = _accepted_facts(panel)
    task = kinds.task_of_strand(item.entry.strand)
    is_fork = own is not None and own.fork_run
    if asked is None or is_fork or (asked.parent_run, asked.parent_task) == (item.entry.run, task):
        return
    detail = f"{item.entry.step}: run {panel.run} deliberated for another task"
    comparer.report_fault(Breach.COURSE, detail, item)


def _accepted_facts(minutes: SessionEntries) -> kinds.AcceptedFacts | None:
    facts = (item.entry.facts for item in minutes.entries)
    return next((each for each in facts if isinstance(each, kinds.AcceptedFacts)), None)


MAX_REPORT_BYTES = 1 << 26
"""How much of a report is read."""
