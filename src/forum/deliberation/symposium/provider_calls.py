"""What passes between a runtime and a model, and the scripts that stand in for one."""

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
    """Who else sits on the panel."""

    id: Text
    role_summary: Text


class BranchOrigin(ProtocolStruct, frozen=True):
    """What an agent is asked to answer."""

    direct_request: DirectRequest
    parent_message: Message


class DeferredSummary(ProtocolStruct, frozen=True):
    """A request that waits for the next round."""

    target: Text
    originator: Text
    type: Text


class Disagreements(ProtocolStruct, frozen=True):
    """What has been settled so far, and what has not."""

    resolved: tuple[ResolvedDisagreement, ...] = ()
    unresolved: tuple[UnresolvedDisagreement, ...] = ()


class ContextPacket(ProtocolStruct, frozen=True):
    """All that an agent is shown when it is its turn."""

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


# What a model is asked, and what it replies.


class ProviderTool(ProtocolStruct, frozen=True):
    """Something that a model may call."""

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
        """Refuse what a tool says to no call."""
        if self.role == "tool":
            self._check_fields("tool_call_id", "role tool", wanted=True)


class ProviderRequest(ProtocolStruct, frozen=True):
    """A question to a model."""

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
    """Why there is no reply."""

    kind: ErrorKind
    message: Text
    retriable: bool
    details: Opaque | None = None


class ReplyMessage(msgspec.Struct, frozen=True):
    """A message of a model, as it came: it may have other members, which are not looked at."""

    role: Text
    content: object


class ToolEvent(ProtocolStruct, frozen=True):
    """A call of a tool, and what came of it."""

    name: Text
    arguments: Opaque
    error: ProviderError | None
    result: str | Opaque | None = None
    latency_ms: Count | UnsetType = UNSET


class ProviderResult(ProtocolStruct, frozen=True):
    """What came of a question."""

    messages: tuple[ReplyMessage, ...]
    tool_events: tuple[ToolEvent, ...]
    usage: MessageUsage
    finish_reason: Literal["stop", "length", "tool_call", "content_filter", "error"]
    structured_output: Opaque | None
    raw: Opaque | None
    error: ProviderError | None


# Scripts, and sessions that have to come out as they say.


class ScriptMatch(ProtocolStruct, frozen=True):
    """What has to hold of a question for a script to go on."""

    agent_id: Text | UnsetType = UNSET
    expected_output_schema: ExpectedOutput | UnsetType = UNSET
    round: Count | UnsetType = UNSET
    turn_index: Count | UnsetType = UNSET


class ScriptEntry(ProtocolStruct, frozen=True):
    """The reply to one question."""

    result: ProviderResult
    match: ScriptMatch = ScriptMatch()
    comment: str = ""


class FakeScript(ProtocolStruct, frozen=True):
    """What a model would have replied, in the order of the questions."""

    schema_version: Version
    entries: Annotated[tuple[ScriptEntry, ...], Meta(min_length=1)]
    description: str = ""
    on_exhaustion: Literal["error", "loop"] = "error"


class GoldenAssertion(ProtocolStruct, frozen=True):
    """Something that a golden case is there to show."""

    category: Literal[
        "scheduler_invariant", "budget_cap", "failure_kind", "replay", "schema_semantic"
    ]
    name: Text
    note: str = ""


class GoldenCase(ProtocolStruct, frozen=True):
    """A session that has to come out as it says."""

    schema_version: Version
    case_id: Label
    problem_statement: Text
    config: SymposiumConfig
    fake_script: FakeScript
    expected_artifact: Artifact
    description: str = ""
    expected_assertions: tuple[GoldenAssertion, ...] = ()
