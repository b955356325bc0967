"""The SDK: record programs that Forum does not run, and use the engine from Python.

Programs import its names from `forum`, which loads this package when one of them is first used.
"""

from forum.app.extensions import Reply
from forum.features.recorder import events
from forum.features.recorder.adapters import google_adk as google_adk
from forum.features.recorder.adapters import instrument as instrument
from forum.features.recorder.adapters import langchain as langchain
from forum.features.recorder.adapters import pydantic_ai as pydantic_ai
from forum.features.recorder.adapters.claude_code import (
    HookRules,
    deny_tool,
    handle_event,
    parse_event,
)
from forum.features.recorder.api import (
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
from forum.features.recorder.engine_api import (
    DeliberateArguments,
    EngineSession,
    SubmitArguments,
    asubmit,
    deliberate,
    engine_of,
    route,
    submit,
)
from forum.features.recorder.ledger_api import (
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
from forum.features.recorder.named_parts import agent, model, tool
from forum.features.recorder.recorder import Recorder
from forum.features.recorder.report_items import MAX_BATCH_ITEMS, ReportItem, ReportResult
from forum.features.recorder.report_writer import ReportWriter
from forum.features.recorder.run_results import (
    RunResult,
    TaskOutcome,
    TaskVerdict,
)
from forum.features.recorder.run_scope import RunBudgetLeft, RunScope, SpanContext, StepScope
from forum.features.recorder.step_queue import LossPolicy
from forum.features.recorder.submitted_run import SubmittedRun
from forum.runs.panel_outcome import CouncilOutcome, Dissent
from forum.runs.plan import Plan, Task
