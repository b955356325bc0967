"""Requests to models and their results in the protocol, and scripts that replace a model."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from forum.deliberation.symposium.kinds import ErrorKind, ExpectedOutput
from forum.deliberation.symposium.schemas import (
    Artifact,
    CoordinatorVerdict,
    Count,
    DirectRequest,
    Label,
    Message,
    MessageUsage,
    Opaque,
    Persona,
    Positive,
    ProtocolStruct,
    ResolvedDisagreement,
    SymposiumConfig,
    Text,
    UnresolvedDisagreement,
    Version,
)

# What an agent is shown.


class DisclosedAgent(ProtocolStruct, frozen=True):
    """Another agent on the panel."""

    id: Text
    role_summary: Text


class BranchOrigin(ProtocolStruct, frozen=True):
    """The request that an agent is to answer, and the message that made it."""

    direct_request: DirectRequest
    parent_message: Message


class DeferredSummary(ProtocolStruct, frozen=True):
    """A request that waits for the next round."""

    target: Text
    originator: Text
    type: Text


class Disagreements(ProtocolStruct, frozen=True):
    """The disagreements that were settled so far, and those that were not."""

    resolved: tuple[ResolvedDisagreement, ...] = ()
    unresolved: tuple[UnresolvedDisagreement, ...] = ()


class ContextPacket(ProtocolStruct, frozen=True):
    """Everything that an agent is shown for its turn."""

    problem_statement: Text
    round: Positive
    persona: Persona
    panel_disclosure: tuple[DisclosedAgent, ...]
    current_round_messages: tuple[Message, ...]
    most_recent_verdict: CoordinatorVerdict | None = None
    branch_origin: BranchOrigin | UnsetType = UNSET
    deferred_queue_summary: tuple[DeferredSummary, ...] = ()
    cumulative_disagreements: Disagreements = Disagreements()
    compression_note: str = ""


# Requests to a model and its results.


class ProviderTool(ProtocolStruct, frozen=True):
    """A tool that a model may call."""

    name: Text
    description: Text
    input_schema: Opaque
    metadata: Opaque | UnsetType = UNSET


class RequestMessage(ProtocolStruct, frozen=True):
    """A message to a model."""

    role: Literal["system", "user", "assistant", "tool"]
    content: Text | Opaque
    name: Text | UnsetType = UNSET
    tool_call_id: Text | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Reject a tool message without the id of its call."""
        if self.role == "tool":
            self._check_fields("tool_call_id", "role tool", wanted=True)


class ProviderRequest(ProtocolStruct, frozen=True):
    """A request to a model."""

    agent_id: Text
    provider: Text
    model: Text
    messages: Annotated[tuple[RequestMessage, ...], Meta(min_length=1)]
    tools: tuple[ProviderTool, ...]
    expected_output_schema: ExpectedOutput | None
    reasoning_effort: str = ""
    sampling: Opaque | UnsetType = UNSET
    metadata: Opaque | UnsetType = UNSET


class ProviderError(ProtocolStruct, frozen=True):
    """The error of a failed request."""

    kind: ErrorKind
    message: Text
    retriable: bool
    details: Opaque | None = None


class ReplyMessage(msgspec.Struct, frozen=True):
    """A message of a model as received; unknown members are ignored."""

    role: Text
    content: object


class ToolEvent(ProtocolStruct, frozen=True):
    """A tool call and its result."""

    name: Text
    arguments: Opaque
    error: ProviderError | None
    result: str | Opaque | None = None
    latency_ms: Count | UnsetType = UNSET


class ProviderResult(ProtocolStruct, frozen=True):
    """The result of a request."""

    messages: tuple[ReplyMessage, ...]
    tool_events: tuple[ToolEvent, ...]
    usage: MessageUsage
    finish_reason: Literal["stop", "length", "tool_call", "content_filter", "error"]
    structured_output: Opaque | None
    raw: Opaque | None
    error: ProviderError | None


# Scripts, and golden cases with their expected result.


class ScriptMatch(ProtocolStruct, frozen=True):
    """Conditions that a request must meet for a script entry to apply."""

    agent_id: Text | UnsetType = UNSET
    expected_output_schema: ExpectedOutput | UnsetType = UNSET
    round: Count | UnsetType = UNSET
    turn_index: Count | UnsetType = UNSET


class ScriptEntry(ProtocolStruct, frozen=True):
    """The result for one request."""

    result: ProviderResult
    match: ScriptMatch = ScriptMatch()
    comment: str = ""


class FakeScript(ProtocolStruct, frozen=True):
    """Results of a model, in the order of the requests."""

    schema_version: Version
    entries: Annotated[tuple[ScriptEntry, ...], Meta(min_length=1)]
    description: str = ""
    on_exhaustion: Literal["error", "loop"] = "error"


class GoldenAssertion(ProtocolStruct, frozen=True):
    """A property that a golden case demonstrates."""

    category: Literal[
        "scheduler_invariant", "budget_cap", "failure_kind", "replay", "schema_semantic"
    ]
    name: Text
    note: str = ""


class GoldenCase(ProtocolStruct, frozen=True):
    """A session with its expected artifact."""

    schema_version: Version
    case_id: Label
    problem_statement: Text
    config: SymposiumConfig
    fake_script: FakeScript
    expected_artifact: Artifact
    description: str = ""
    expected_assertions: tuple[GoldenAssertion, ...] = ()
