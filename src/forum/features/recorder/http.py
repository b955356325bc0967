"""The endpoint for programs that record their own agents: report runs, steps and gates."""

from typing import Annotated

from msgspec import Meta, Struct

from forum.features.recorder.public import MAX_BATCH_ITEMS, ReportItem, ReportResult, ReportWriter
from forum.features.recorder.report_charges import ReportCharges
from forum.ledger.access import has_scope
from forum.ledger.kinds import Scope
from forum.runs.report_kinds import SESSION_RUN_PREFIX, TRACE_RUN_PREFIX
from forum.surfaces.http.endpoints import Endpoint, RequestContext
from forum.surfaces.http.problems import ProblemType

_RESERVED = (TRACE_RUN_PREFIX, SESSION_RUN_PREFIX)
"""Beginnings of names that the receiver of traces and `forum hook` derive: theirs alone."""


class ReportBatch(Struct, frozen=True, forbid_unknown_fields=True):
    """Items in the order in which they are to be recorded."""

    items: Annotated[tuple[ReportItem, ...], Meta(max_length=MAX_BATCH_ITEMS)]


def create_reports(context: RequestContext) -> ReportResult:
    """Record a batch.  An item that was recorded before is not recorded again."""
    # The name of the key is the reporter: a key cannot add to the runs of another one.
    ledger, by = context.tenant.forum.ledger, context.principal.name
    may_approve = has_scope(context.principal.scopes, {Scope.APPROVE})
    charges = ReportCharges(context.tenant.forum.runs.budgets, by)
    writer = ReportWriter(ledger, by, may_approve=may_approve, reserved=_RESERVED, charges=charges)
    return writer.write(context.body.items)


REPORTS = (
    Endpoint(
        "POST", path="/api/v1/reports", name="create_reports", scopes=frozenset({Scope.REPORT}),
        summary="Report runs and steps of agents that Forum does not drive", handle=create_reports,
        reply=ReportResult, body=ReportBatch, problems=(ProblemType.CONFLICT,), tag="reports",
        example={
            "items": [
                {"type": "start", "run": "support-0001", "name": "support"},
                {"type": "step", "run": "support-0001", "span": "a1", "op": "tool",
                 "name": "lookup", "outcome": "ok", "output": {"stock": 3}},
                {"type": "end", "run": "support-0001", "name": "support", "outcome": "ok",
                 "handed_in": 1},
            ]
        },
    ),
)  # fmt: skip
