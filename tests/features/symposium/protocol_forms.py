"""Forms of the protocol that Forum neither reads nor writes: only its cases are made of them."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from forum.features.symposium import provider_calls, schemas
from forum.features.symposium.decoders import make_decoder
from forum.features.symposium.kinds import ExpectedOutput
from forum.runs.personas import Persona


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
    persona: Persona
    panel_disclosure: tuple[DisclosedAgent, ...]
    current_round_messages: tuple[schemas.Message, ...]
    most_recent_verdict: schemas.CoordinatorVerdict | None = None
    branch_origin: BranchOrigin | UnsetType = UNSET
    deferred_queue_summary: tuple[DeferredSummary, ...] = ()
    cumulative_disagreements: Disagreements = Disagreements()
    compression_note: str = ""


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
    fake_script: provider_calls.FakeScript
    expected_artifact: schemas.Artifact
    description: str = ""
    expected_assertions: tuple[GoldenAssertion, ...] = ()


read_golden_case = make_decoder(GoldenCase, "golden case")
read_packet = make_decoder(ContextPacket, "context packet")
read_provider_request = make_decoder(ProviderRequest, "provider request")
read_provider_result = make_decoder(provider_calls.ProviderResult, "provider result")
read_usage = make_decoder(schemas.MessageUsage, "usage")
