"""Requests to models and their results in the protocol, and scripts that replace a model."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from forum.deliberation.symposium import schemas
from forum.deliberation.symposium.kinds import ErrorKind, ExpectedOutput

# What an agent is shown.


class DisclosedAgent(schemas.ProtocolStruct, frozen=True):
    """Another agent on the panel."""

    id: schemas.Text
    role_summary: schemas.Text


class BranchOrigin(schemas.ProtocolStruct, frozen=True):
    """The request that an agent is to answer, and the message that made it."""

    direct_request: schemas.DirectRequest
    parent_message: schemas.Message


class DeferredSummary(schemas.ProtocolStruct, frozen=True):
    """A request that waits for the next round."""

    target: schemas.Text
    originator: schemas.Text
    type: schemas.Text


class Disagreements(schemas.ProtocolStruct, frozen=True):
    """The disagreements that were settled so far, and those that were not."""

    resolved: tuple[schemas.ResolvedDisagreement, ...] = ()
    unresolved: tuple[schemas.UnresolvedDisagreement, ...] = ()


class ContextPacket(schemas.ProtocolStruct, frozen=True):
    """Everything that an agent is shown for its turn."""

    problem_statement: schemas.Text
    round: schemas.Positive
    persona: schemas.Persona
    panel_disclosure: tuple[DisclosedAgent, ...]
    current_round_messages: tuple[schemas.Message, ...]
    most_recent_verdict: schemas.CoordinatorVerdict | None = None
    branch_origin: BranchOrigin | UnsetType = UNSET
    deferred_queue_summary: tuple[DeferredSummary, ...] = ()
    cumulative_disagreements: Disagreements = Disagreements()
    compression_note: str = ""


# Requests to a model and its results.


class ProviderTool(schemas.ProtocolStruct, frozen=True):
    """A tool that a model may call."""

    name: schemas.Text
    description: schemas.Text
    input_schema: schemas.Opaque
    metadata: schemas.Opaque | UnsetType = UNSET


class RequestMessage(schemas.ProtocolStruct, frozen=True):
    """A message to a model."""

    role: Literal["system", "user", "assistant", "tool"]
    content: schemas.Text | schemas.Opaque
    name: schemas.Text | UnsetType = UNSET
    tool_call_id: schemas.Text | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Reject a tool message without the id of its call."""
        if self.role == "tool":
            self._check_fields("tool_call_id", "role tool", wanted=True)


class ProviderRequest(schemas.ProtocolStruct, frozen=True):
    """A request to a model."""

    agent_id: schemas.Text
    provider: schemas.Text
    model: schemas.Text
    messages: Annotated[tuple[RequestMessage, ...], Meta(min_length=1)]
    tools: tuple[ProviderTool, ...]
    expected_output_schema: ExpectedOutput | None
    reasoning_effort: str = ""
    sampling: schemas.Opaque | UnsetType = UNSET
    metadata: schemas.Opaque | UnsetType = UNSET


class ProviderError(schemas.ProtocolStruct, frozen=True):
    """The error of a failed request."""

    kind: ErrorKind
    message: schemas.Text
    retriable: bool
    details: schemas.Opaque | None = None


class ReplyMessage(msgspec.Struct, frozen=True):
    """A message of a model as received; unknown members are ignored."""

    role: schemas.Text
    content: object


class ToolEvent(schemas.ProtocolStruct, frozen=True):
    """A tool call and its result."""

    name: schemas.Text
    arguments: schemas.Opaque
    error: ProviderError | None
    result: str | schemas.Opaque | None = None
    latency_ms: schemas.Count | UnsetType = UNSET


class ProviderResult(schemas.ProtocolStruct, frozen=True):
    """The result of a request."""

    messages: tuple[ReplyMessage, ...]
    tool_events: tuple[ToolEvent, ...]
    usage: schemas.MessageUsage
    finish_reason: Literal["stop", "length", "tool_call", "content_filter", "error"]
    structured_output: schemas.Opaque | None
    raw: schemas.Opaque | None
    error: ProviderError | None


# Scripts, and golden cases with their expected result.


class ScriptMatch(schemas.ProtocolStruct, frozen=True):
    """Conditions that a request must meet for a script entry to apply."""

    agent_id: schemas.Text | UnsetType = UNSET
    expected_output_schema: ExpectedOutput | UnsetType = UNSET
    round: schemas.Count | UnsetType = UNSET
    turn_index: schemas.Count | UnsetType = UNSET


class ScriptEntry(schemas.ProtocolStruct, frozen=True):
    """The result for one request."""

    result: ProviderResult
    match: ScriptMatch = ScriptMatch()
    comment: str = ""


class FakeScript(schemas.ProtocolStruct, frozen=True):
    """Results of a model, in the order of the requests."""

    schema_version: schemas.Version
    entries: Annotated[tuple[ScriptEntry, ...], Meta(min_length=1)]
    description: str = ""
    on_exhaustion: Literal["error", "loop"] = "error"


class GoldenAssertion(schemas.ProtocolStruct, frozen=True):
    """A property that a golden case demonstrates."""

    category: Literal[
        "scheduler_invariant", "budget_cap", "failure_kind", "replay", "schema_semantic"
    ]
    name: schemas.Text
    note: str = ""


class GoldenCase(schemas.ProtocolStruct, frozen=True):
    """A session with its expected artifact."""

    schema_version: schemas.Version
    case_id: schemas.Label
    problem_statement: schemas.Text
    config: schemas.SymposiumConfig
    fake_script: FakeScript
    expected_artifact: schemas.Artifact
    description: str = ""
    expected_assertions: tuple[GoldenAssertion, ...] = ()
