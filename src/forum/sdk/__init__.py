"""The SDK: record programs that Forum does not run, and use the engine from Python.

Programs import its names from `forum`, which loads this package when one of them is first used.
"""

from forum.app.extensions import Reply
from forum.sdk import events
from forum.sdk.adapters import google_adk, instrument, langchain, pydantic_ai
from forum.sdk.adapters.claude_code import HookRules, deny_tool, handle_event, parse_event
from forum.sdk.api import (
    budget,
    close,
    context,
    default_recorder,
    effect,
    flush,
    gate,
    open,  # noqa: A004  the word of the interface, like `gzip.open`
    run,
    span,
    step,
    traceparent,
)
from forum.sdk.engine_api import (
    DeliberateArguments,
    EngineSession,
    SubmitArguments,
    asubmit,
    deliberate,
    engine_of,
    route,
    submit,
)
from forum.sdk.ledger_api import (
    Cause,
    FigureDifference,
    Figures,
    LaneInfo,
    LedgerReader,
    LedgerSummary,
    LogCheckpoint,
    ModelCalls,
    ReplayedRun,
    RunComparison,
    RunFigures,
    RunListing,
    ledger,
)
from forum.sdk.named_parts import agent, model, tool
from forum.sdk.recorder import Recorder
from forum.sdk.report_items import MAX_BATCH_ITEMS, ReportItem, ReportResult
from forum.sdk.report_writer import ReportWriter
from forum.sdk.run_results import CouncilOutcome, Dissent, RunResult, TaskOutcome, TaskVerdict
from forum.sdk.run_scope import RunBudgetLeft, RunScope, SpanContext, StepScope
from forum.sdk.step_queue import LossPolicy
from forum.sdk.submitted_run import SubmittedRun
from forum.work.plan import Plan, Task

__all__ = [
    "MAX_BATCH_ITEMS",
    "Cause",
    "CouncilOutcome",
    "DeliberateArguments",
    "Dissent",
    "EngineSession",
    "FigureDifference",
    "Figures",
    "HookRules",
    "LaneInfo",
    "LedgerReader",
    "LedgerSummary",
    "LogCheckpoint",
    "LossPolicy",
    "ModelCalls",
    "Plan",
    "Recorder",
    "ReplayedRun",
    "Reply",
    "ReportItem",
    "ReportResult",
    "ReportWriter",
    "RunBudgetLeft",
    "RunComparison",
    "RunFigures",
    "RunListing",
    "RunResult",
    "RunScope",
    "SpanContext",
    "StepScope",
    "SubmitArguments",
    "SubmittedRun",
    "Task",
    "TaskOutcome",
    "TaskVerdict",
    "agent",
    "asubmit",
    "budget",
    "close",
    "context",
    "default_recorder",
    "deliberate",
    "deny_tool",
    "effect",
    "engine_of",
    "events",
    "flush",
    "gate",
    "google_adk",
    "handle_event",
    "instrument",
    "langchain",
    "ledger",
    "model",
    "open",
    "parse_event",
    "pydantic_ai",
    "route",
    "run",
    "span",
    "step",
    "submit",
    "tool",
    "traceparent",
]
