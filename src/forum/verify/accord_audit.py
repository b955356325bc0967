"""Auditing what a run says of the runs within it: their accords, and how many calls they made."""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from forum.errors import ProtocolMissing
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.kinds import Kinds, Outcome
from forum.runs import kinds, record_comparison
from forum.runs.panel_protocol import PanelRecord, find_protocol
from forum.runs.policy import ACCORD_RULES, read_policy
from forum.runs.record_comparison import Breach, IndexedEntry, SessionEntries
from forum.runs.run_fold import fold
from forum.verify.task_audit import RunAudit

ReadRun = Callable[[str], SessionEntries]


def audit_accords(minutes: SessionEntries, known_kinds: Kinds, read_run: ReadRun) -> RunAudit:
    """Compare each accord that a run records with the close of the panel that it names.

    What is not there is reported as not checked, never as a fault.
    """
    comparer = record_comparison.RecordComparer(minutes)
    missing: list[str] = []
    for item in minutes.entries:
        if not isinstance(item.entry.facts, kinds.AccordFacts):
            continue
        try:
            _check_accord(comparer, item, known_kinds, read_run(item.entry.facts.run))
        except (record_comparison.BodyMissing, ProtocolMissing, ValueError) as error:
            missing.append(
                f"what the panel of {item.entry.strand} found in run {minutes.run}: {error}"
            )
    return RunAudit(tuple(comparer.faults), tuple(missing[:1]))


def audit_inner_calls(minutes: SessionEntries, read_run: ReadRun) -> RunAudit:
    """Compare the calls that each run within is said to have made with those that it recorded.

    Before version 3 of the rules a run within counted as one call. What is not there is reported
    as not checked, never as a fault.
    """
    comparer = record_comparison.RecordComparer(minutes)
    missing: list[str] = []
    replies = list(_find_inner_replies(minutes))
    if not replies or not _counts_inner_calls(comparer):
        return RunAudit((), ())
    for item, run in replies:
        inner = read_run(run)
        state = fold((each.leaf, each.entry) for each in inner.entries)
        if state.outcome is None and item.entry.facts.outcome is not Outcome.OK:
            continue  # it was stopped before it began, or its record is not there
        if state.outcome is None:
            missing.append(f"the calls of run {run} within run {minutes.run}: it is not there")
        elif state.spent.calls != item.entry.facts.calls:
            detail = (
                f"{item.entry.step}: {item.entry.facts.calls} calls are recorded of run {run}, "
                f"which made {state.spent.calls}"
            )
            comparer.report_fault(Breach.COURSE, detail, item)
    return RunAudit(tuple(comparer.faults), tuple(missing[:1]))


def audit_children(minutes: SessionEntries, read_run: ReadRun) -> RunAudit:
    """Compare the runs that a run delegates with what they were accepted for, and the reverse.

    The id of a child run can be foreseen, so that another writer could take it first.  What is not
    there is no fault: a child may not have begun, and a bundle has one run.
    """
    comparer = record_comparison.RecordComparer(minutes)
    own = _find_acceptance(minutes.entries)
    is_fork = own is not None and bool(own.fork_run)  # it may name children of the run before it
    for item in minutes.entries:
        if not isinstance(item.entry.facts, kinds.DelegationFacts):
            continue
        child = read_run(item.entry.facts.run)
        accepted = _find_acceptance(child.entries)
        parent = accepted.parent_run if accepted else ""
        if child.entries and parent != minutes.run and not (is_fork and parent):
            detail = f"{item.entry.step}: run {child.run} was not accepted for this run"
            comparer.report_fault(Breach.COURSE, detail, item)
    if own is not None and own.parent_run and not is_fork:
        parent_run = read_run(own.parent_run)
        delegated = {
            item.entry.facts.run
            for item in parent_run.entries
            if isinstance(item.entry.facts, kinds.DelegationFacts)
        }
        if parent_run.entries and minutes.run not in delegated:
            detail = f"accepted: run {parent_run.run} has not delegated this run"
            comparer.report_fault(Breach.COURSE, detail, minutes.entries[0])
    return RunAudit(tuple(comparer.faults), ())


def _find_acceptance(entries: Sequence[IndexedEntry]) -> kinds.AcceptedFacts | None:
    """Return for what a run was accepted; None for a run that Forum does not drive."""
    for item in entries:
        entry = item.entry
        if entry.strand == MAIN_STRAND and isinstance(entry.facts, kinds.AcceptedFacts):
            return entry.facts
    return None


def _counts_inner_calls(comparer: record_comparison.RecordComparer) -> bool:
    for item in comparer.minutes.entries:
        if isinstance(item.entry.facts, kinds.AcceptedFacts):
            try:
                policy = comparer.read_body(item, "policy", MAX_REPORT_BYTES)
            except record_comparison.BodyMissing:  # the audit of the calls says so
                return False
            return read_policy(policy).rules >= ACCORD_RULES
    return False


def _find_inner_replies(minutes: SessionEntries) -> Iterator[tuple[IndexedEntry, str]]:
    """Yield the replies of the runs within, each with its run."""
    inner: dict[str, str] = {}
    asked: dict[str, bool] = {}
    for item in minutes.entries:
        strand = item.entry.strand
        match item.entry.facts:
            case kinds.DelegationFacts(run=run):
                inner[strand] = run
            case kinds.CallFacts(agent=agent, model=model):
                asked[strand] = kinds.is_inner_run(agent, model)
            case kinds.ReplyFacts(source=source) if asked.pop(strand, False):
                # A fork takes the reply from the record of another run, which has paid for it.
                if strand in inner and source is not kinds.ReplyOrigin.RECORDED:
                    yield item, inner[strand]
            case _:
                pass


def _check_accord(
    comparer: record_comparison.RecordComparer,
    item: IndexedEntry,
    known_kinds: Kinds,
    panel: SessionEntries,
) -> None:
    recorded: kinds.AccordFacts = item.entry.facts
    if not panel.entries:
        raise record_comparison.BodyMissing(f"run {recorded.run} is not there")
    bodies = record_comparison.RecordComparer(panel)
    session = PanelRecord(
        recorded.run,
        known_kinds,
        [each for each in panel.entries if each.entry.strand == MAIN_STRAND],
        lambda each, name: bodies.read_body(each, name, MAX_REPORT_BYTES),
    )
    if not session.has_closed:
        _check_protocol(bodies, known_kinds)
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
    findings = comparer.read_body(item, kinds.FINDINGS, MAX_REPORT_BYTES)
    if findings != session.read_text().encode(errors="replace"):
        detail = f"{item.entry.step}: the findings are not those of run {recorded.run}"
        comparer.report_fault(Breach.COURSE, detail, item)


def _check_protocol(panel: record_comparison.RecordComparer, known_kinds: Kinds) -> None:
    """Raise `ProtocolMissing` if a panel may have closed in a way that is not known here."""
    for item in panel.minutes.entries:
        if isinstance(item.entry.facts, kinds.AcceptedFacts):
            policy = panel.read_body_or_skip(item, "policy", MAX_REPORT_BYTES)
            sitting = read_policy(policy).panel if policy else None
            if sitting is not None:
                find_protocol(known_kinds, sitting)


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
