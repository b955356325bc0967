"""The engine: drives runs through its ports, and records each step before the next begins."""

from forum.engine.accept import (
    AnswerReference,
    IdempotencyKey,
    RouteDecision,
    RunRequest,
    accept_run,
    accept_run_async,
    cancel_run,
    read_answer_reference,
)
from forum.engine.context import ENGINE, RunContext, read_body, read_run, read_run_context
from forum.engine.engine import MAX_CLAIMED_TIMERS, Engine
from forum.engine.gates import DecisionTexts, decide_gate, edit_gate, expire_gate, find_gate
from forum.engine.interruption import interrupt_run, resume_run
from forum.engine.local_runner import LocalRunner
from forum.engine.ports import (
    EMPTY_CONTENT,
    MAX_TOOL_CALLS,
    NO_COST,
    AnswerEncoder,
    CallReply,
    DeltaCallback,
    DeltaSink,
    Model,
    ModelCall,
    ModelFactory,
    RecordedReply,
    ReplySource,
    Runner,
    TaskHalted,
    ToolFactory,
    ToolInvocation,
    ToolOffer,
    ToolOpener,
    ToolPort,
    ignore_delta,
)
from forum.engine.recorded_runs import check_forkable, read_run_request, read_steps
from forum.engine.replay import replay_run
from forum.engine.shared_budgets import SharedBudgets
from forum.engine.streaming import MAX_STREAMED_BYTES_PER_S, RedactingStream
from forum.engine.tools import DIGEST_TOOL

__all__ = [
    "DIGEST_TOOL",
    "EMPTY_CONTENT",
    "ENGINE",
    "MAX_CLAIMED_TIMERS",
    "MAX_STREAMED_BYTES_PER_S",
    "MAX_TOOL_CALLS",
    "NO_COST",
    "AnswerEncoder",
    "AnswerReference",
    "CallReply",
    "DecisionTexts",
    "DeltaCallback",
    "DeltaSink",
    "Engine",
    "IdempotencyKey",
    "LocalRunner",
    "Model",
    "ModelCall",
    "ModelFactory",
    "RecordedReply",
    "RedactingStream",
    "ReplySource",
    "RouteDecision",
    "RunContext",
    "RunRequest",
    "Runner",
    "SharedBudgets",
    "TaskHalted",
    "ToolFactory",
    "ToolInvocation",
    "ToolOffer",
    "ToolOpener",
    "ToolPort",
    "accept_run",
    "accept_run_async",
    "cancel_run",
    "check_forkable",
    "decide_gate",
    "edit_gate",
    "expire_gate",
    "find_gate",
    "ignore_delta",
    "interrupt_run",
    "read_answer_reference",
    "read_body",
    "read_run",
    "read_run_context",
    "read_run_request",
    "read_steps",
    "replay_run",
    "resume_run",
]
