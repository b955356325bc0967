"""Describe for all surfaces how Forum knows of a run, its spans, and what is missing in it."""

from collections.abc import Mapping

from forum.app.records import RunView
from forum.ledger.kinds import Outcome
from forum.runs import run_fold
from forum.runs.report_fold import SpanRecord
from forum.runs.report_kinds import GapReason, Operation, Provenance, ReportGapFacts, span_strand

_PROVENANCES: Mapping[Provenance, str] = {
    Provenance.DRIVEN: "the engine recorded each step before it was made",
    Provenance.RELAYED: "calls that did not go through Forum are not in it",
    Provenance.WRAPPED: "calls of the program that were not wrapped are not in it",
    Provenance.REPORTED: "what the program did not tell is not in it",
}
_PASSED_BY = "no call came through Forum, so nothing was capped"
_GAPS: Mapping[GapReason, str] = {
    GapReason.OVERFLOW: "the queue of the recorder was full",
    GapReason.SHUTDOWN: "the program ended before they were recorded",
    GapReason.REFUSED: "they could not be recorded",
    GapReason.UNREACHABLE: "the server could not be reached",
    GapReason.SEQUENCE: "numbers are missing in the sequence of the reporter",
    GapReason.PARENT_UNSEEN: "spans name parents that were never reported",
    GapReason.SAMPLED: "the program reports a sample",
    GapReason.FILTERED: "spans without a meaning for agents were left out",
    GapReason.LIMIT: "the run was full; another run continues it",
}


def describe_provenance(state: run_fold.Run) -> str:
    """Return how Forum knows of a run, and what may be missing in it."""
    text = _PASSED_BY if _was_passed_by(state) else _PROVENANCES[state.provenance]
    return f"{state.provenance}: {text}"


def _was_passed_by(state: run_fold.Run) -> bool:
    """Return whether a relayed run has ended, and made no call of a model or a tool."""
    return (
        state.provenance is Provenance.RELAYED
        and state.outcome is not None
        and all(span.op is Operation.STEP for span in state.report.spans.values())
    )


def describe_gap(gap: ReportGapFacts) -> str:
    """Return how many steps are not recorded, and why."""
    count = f"{gap.steps:,}" if gap.steps else "an unknown number of"
    steps = "step" if gap.steps == 1 else "steps"
    return f"{count} {steps} not recorded ({gap.why}): {_GAPS[gap.why]}"


def describe_gaps(state: run_fold.Run) -> str:
    """Return the number of steps that are known to be missing, by reason; "" without gaps."""
    steps: dict[str, int] = {}
    for gap in state.report.gaps:
        steps[gap.facts.why] = steps.get(gap.facts.why, 0) + gap.facts.steps
    counts = ", ".join(f"{why} {count or '?'}" for why, count in sorted(steps.items()))
    return f"steps known to be missing: {counts}" if counts else ""


def span_name(view: RunView, span: SpanRecord) -> str:
    """Return the name of a span as it was given, or its label if the name was erased."""
    names = view.names.get(span.id)
    return (names.name if names else "") or span.name or span.id


def span_agent(view: RunView, span: SpanRecord) -> str:
    """Return the name of a span's agent as it was given, or its label."""
    names = view.names.get(span.id)
    return (names.agent if names else "") or span.agent


def first_failed_span(state: run_fold.Run) -> SpanRecord | None:
    """Return the first span that did not end well, innermost first."""
    parents = {span.within for span in state.report.spans.values()}
    failed = [
        span
        for span in state.report.spans.values()
        if span.outcome is not None and span.outcome is not Outcome.OK
    ]
    # The error of a span is that of the innermost one, passed on to those around it.
    failed.sort(key=lambda span: (span.id in parents, span.started))
    return failed[0] if failed else None


def explain_reported_failure(view: RunView) -> str:
    """Explain in one sentence why a reported run failed."""
    span = first_failed_span(view.state)
    if span is None or span.ended is None:
        outcome = view.state.outcome.value if view.state.outcome else "failed"
        return f"the program said that it ended: {outcome}"
    code = f" ({span.ended.code})" if span.ended.code else ""
    error = view.errors.get(span_strand(span.id), "").strip()
    why = f": {' '.join(error.split())[:300]}" if error else ""
    return f"{span.op} {span_name(view, span)} ended {span.ended.outcome}{code}{why}"
