"""The objects of the open protocol `symposium` 1.0.0, as types that cannot hold invalid values.

They accept exactly what the protocol's JSON Schemas accept, except for JSON that readers could
interpret differently (see `canonical_json`). `artifact_rules` checks the format of times and the
relations between objects; `decoders` has the entry points.

An optional member that may not be null has a default, or is `UNSET` where its absence matters. A
nullable member is None both when it is null and when it is absent. Neither is written.
"""

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from forum.features.symposium import kinds
from forum.features.symposium.canonical_json import INTEGER_LIMIT
from forum.runs.personas import Persona

VERSION = "1.0.0"
"""Version of every object that Forum writes."""
RUNTIME: Final = "runtime"
"""Speaker of the message that an agent has left the panel."""

Text = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0, lt=INTEGER_LIMIT)]
Positive = Annotated[int, Meta(ge=1, lt=INTEGER_LIMIT)]
Cost = Annotated[float, Meta(ge=0.0)]
Paid = Annotated[float, Meta(ge=0.0, lt=float(INTEGER_LIMIT))]
Confidence = Annotated[float, Meta(ge=0.0, le=1.0)]
Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Version = Annotated[str, Meta(pattern=r"\A[0-9]+\.[0-9]+\.[0-9]+\Z")]
Build = Annotated[str, Meta(pattern=r"\A[0-9]+\.[0-9]+\.[0-9]+(?:[-+][0-9A-Za-z.-]+)?\Z")]
Label = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{1,64}\Z")]
Opaque: TypeAlias = dict[str, object]
"""An object whose content the protocol does not define."""


class ProtocolStruct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An object of the protocol; members that are not declared are rejected."""

    def _check_fields(self, member: str, case: str, *, wanted: bool) -> None:
        """Raise `ValueError` if a required member is missing or a forbidden one is present."""
        if (getattr(self, member) is not UNSET) != wanted:
            raise ValueError(f"{member} {'is missing' if wanted else 'has no place'} with {case}")


class AgentConfig(ProtocolStruct, frozen=True):
    """An agent of the session: its model and its persona."""

    id: Text
    persona_ref: Text | Persona
    provider: Text
    model: Text
    reasoning_effort: str = ""
    tools: tuple[Opaque, ...] = ()
    output_requirements: tuple[Text, ...] = ()
    retry_budget: Count | UnsetType = UNSET


class SelectorBudget(ProtocolStruct, frozen=True):
    """Budget for the selection of a panel."""

    max_tokens: Count | UnsetType = UNSET
    max_cost_usd: Cost | UnsetType = UNSET


class SelectorConfig(ProtocolStruct, frozen=True):
    """How the panel is selected."""

    strategy: kinds.SelectionStrategy
    default_deliberation_panel: Annotated[tuple[Text, ...], Meta(min_length=1)]
    coordinator_agent: Text
    selector_budget: SelectorBudget | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Require a budget if a model selects the panel."""
        if self.strategy is kinds.SelectionStrategy.LLM:
            self._check_fields("selector_budget", "strategy llm", wanted=True)


class SymposiumBudget(ProtocolStruct, frozen=True):
    """The hard caps of a session."""

    max_total_tokens: Positive
    max_total_cost_usd: Cost
    max_rounds: Positive
    max_wallclock_seconds: Positive
    per_agent_token_budget: dict[str, Positive] = {}
    selector_budget: SelectorBudget | UnsetType = UNSET


class RuntimeConfig(ProtocolStruct, frozen=True):
    """Settings of the runtime."""

    max_branch_depth: Positive = 1
    max_deferred_queue_length: Count = 8
    max_deferred_drains_per_round: Count = 1
    on_agent_failure: kinds.AgentFailurePolicy = kinds.AgentFailurePolicy.TERMINATE
    per_agent_retry_budget: Count = 2
    synthesize_on_terminate: bool = False
    on_budget_exceeded: Literal["stop"] = "stop"
    observability_level: Literal["mvp", "verbose"] = "mvp"
    max_tool_iterations: Positive = 8


class SymposiumConfig(ProtocolStruct, frozen=True):
    """The complete configuration of a session."""

    schema_version: Version
    session_id: Text
    originator: Text
    problem_statement: Text
    selector: SelectorConfig
    agents: Annotated[tuple[AgentConfig, ...], Meta(min_length=1)]
    coordinator: AgentConfig
    budget: SymposiumBudget
    runtime: RuntimeConfig


class ExcludedAgent(ProtocolStruct, frozen=True):
    """An agent that was not selected."""

    id: Text
    reason: Text


class MissingCapability(ProtocolStruct, frozen=True):
    """A capability that the problem needs and no agent has."""

    capability: Text
    reason: Text
    suggested_persona: str = ""


class SelectorOutput(ProtocolStruct, frozen=True):
    """The selected panel."""

    strategy: kinds.SelectionStrategy
    selected_agents: Annotated[tuple[Text, ...], Meta(min_length=1)]
    coordinator_agent: Text
    excluded_agents: tuple[ExcludedAgent, ...] = ()
    missing_capabilities: tuple[MissingCapability, ...] = ()
    reasoning: str = ""


class DirectRequest(ProtocolStruct, frozen=True):
    """A request of one agent to another."""

    target: Text
    type: Text
    content: Text | Opaque


class TurnOutput(ProtocolStruct, frozen=True):
    """The output of an agent's turn."""

    text: Text
    direct_requests: tuple[DirectRequest, ...] = ()


class ResolvedDisagreement(ProtocolStruct, frozen=True):
    """A disagreement that was settled."""

    topic: Text
    resolution: Text
    agents_involved: tuple[Text, ...] = ()


class AgentPosition(ProtocolStruct, frozen=True):
    """An agent's claim in a disagreement."""

    agent: Text
    claim: Text


class UnresolvedDisagreement(ProtocolStruct, frozen=True):
    """A disagreement that was not settled."""

    topic: Text
    positions: Annotated[tuple[AgentPosition, ...], Meta(min_length=1)]
    blocker: bool = False


class UserInputRequest(ProtocolStruct, frozen=True):
    """A question to the originator."""

    question: Text
    context: str = ""
    blocking: bool = False


class ResearchRequest(ProtocolStruct, frozen=True):
    """A request for external research."""

    query: Text
    rationale: str = ""
    suggested_sources: tuple[Text, ...] = ()


class CoordinatorVerdict(ProtocolStruct, frozen=True):
    """The coordinator's verdict on a round."""

    next_action: kinds.NextAction
    rationale: Text
    confidence: Confidence
    focus: Text
    next_agents: tuple[Text, ...]
    resolved_disagreements: tuple[ResolvedDisagreement, ...]
    unresolved_disagreements: tuple[UnresolvedDisagreement, ...]
    user_input_request: UserInputRequest | UnsetType = UNSET
    external_research_request: ResearchRequest | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Require the request that the action names, and reject any other."""
        action, case = self.next_action, f"next_action {self.next_action}"
        asks_user, asks_world = (
            action is kinds.NextAction.REQUEST_USER_INPUT,
            action is kinds.NextAction.REQUEST_EXTERNAL_RESEARCH,
        )
        self._check_fields("user_input_request", case, wanted=asks_user)
        self._check_fields("external_research_request", case, wanted=asks_world)


class SynthesisContent(ProtocolStruct, frozen=True):
    """The content of the panel's answer."""

    integrated_answer: Text
    resolved_disagreements: tuple[ResolvedDisagreement, ...]
    unresolved_disagreements: tuple[UnresolvedDisagreement, ...]
    confidence: Confidence | UnsetType = UNSET
    open_questions: tuple[Text, ...] = ()


class Contraction(ProtocolStruct, frozen=True):
    """The agent that left the panel, and why."""

    agent_id: Text
    reason: Literal["provider_unrecoverable", "schema_error"]


# The transcript.


class MessageUsage(ProtocolStruct, frozen=True, omit_defaults=False):
    """Tokens and cost. Always written in full: other programs hash transcripts with `estimated`."""

    prompt_tokens: Count
    completion_tokens: Count
    total_tokens: Count
    cost_usd: Paid
    estimated: bool = False


class SchemaFailure(ProtocolStruct, frozen=True):
    """A request that could not be routed."""

    offending_request: Opaque
    reason: Text


class TranscriptMessage(ProtocolStruct, frozen=True, kw_only=True, tag_field="type"):
    """Members that every message has."""

    id: Text
    speaker: Text
    turn_index: Count
    timestamp: str
    usage: MessageUsage
    target: str | None = None
    suggested_followups: tuple[DirectRequest, ...] = ()
    dropped_deferred: tuple[DirectRequest, ...] = ()
    schema_failure: tuple[SchemaFailure, ...] = ()


class ProblemStatement(TranscriptMessage, frozen=True, kw_only=True, tag="problem_statement"):
    """What the originator has asked."""

    content: Text
    round: Literal[0]
    turn_index: Literal[0]
    branch_depth: Literal[0]
    parent_id: None = None


class PrimaryTurn(TranscriptMessage, frozen=True, kw_only=True, tag="primary_turn"):
    """An agent's primary turn."""

    content: TurnOutput
    round: Positive
    branch_depth: Literal[0]
    parent_id: None = None


class CoordinationTurn(TranscriptMessage, frozen=True, kw_only=True, tag="coordination_turn"):
    """What the coordinator has made of the round."""

    content: CoordinatorVerdict
    round: Positive
    branch_depth: Literal[0]
    parent_id: None = None


class BranchTurn(TranscriptMessage, frozen=True, kw_only=True, tag="branch_turn"):
    """An agent's answer to another agent's request."""

    content: TurnOutput
    round: Positive
    branch_depth: Literal[1]
    parent_id: Text


class Synthesis(TranscriptMessage, frozen=True, kw_only=True, tag="synthesis"):
    """The answer of the session."""

    content: SynthesisContent
    round: Positive
    branch_depth: Literal[0]
    parent_id: None = None


class PanelContraction(TranscriptMessage, frozen=True, kw_only=True, tag="panel_contraction"):
    """An agent has left the panel."""

    speaker: Literal["runtime"]
    content: Contraction
    round: Positive
    branch_depth: Literal[0, 1]
    parent_id: str | None = None


Message: TypeAlias = (
    ProblemStatement | PrimaryTurn | CoordinationTurn | BranchTurn | Synthesis | PanelContraction
)


class ProviderFailure(ProtocolStruct, frozen=True):
    """The last error before a session was ended."""

    agent_id: Text
    provider: Text
    kind: kinds.ErrorKind
    message: Text
    model: str | None = None
    details: Opaque | None = None


class TerminationArtifact(ProtocolStruct, frozen=True):
    """Why there is no synthesis."""

    schema_version: Version
    reason: kinds.Reason
    final_round: Count
    cumulative_usage: MessageUsage
    unresolved_disagreements: tuple[UnresolvedDisagreement, ...]
    transcript_digest: Digest
    most_recent_verdict: CoordinatorVerdict | None = None
    pending_user_input_request: UserInputRequest | UnsetType = UNSET
    pending_external_research_request: ResearchRequest | UnsetType = UNSET
    last_provider_failure: ProviderFailure | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Require the pending request that the reason names, and reject any other."""
        reason, case = self.reason, f"reason {self.reason}"
        if reason is kinds.Reason.NONE:
            raise ValueError("the reason is empty")
        waits_user, waits_world = (
            reason is kinds.Reason.USER_INPUT_REQUIRED,
            reason is kinds.Reason.EXTERNAL_RESEARCH_REQUIRED,
        )
        self._check_fields("pending_user_input_request", case, wanted=waits_user)
        self._check_fields("pending_external_research_request", case, wanted=waits_world)


class SynthesisOutcome(ProtocolStruct, frozen=True, tag_field="kind", tag="synthesis"):
    """The session has an answer."""

    synthesis_message_id: Text


class TerminationOutcome(ProtocolStruct, frozen=True, tag_field="kind", tag="termination"):
    """The session has no answer."""

    termination_artifact: TerminationArtifact


class Artifact(ProtocolStruct, frozen=True):
    """The complete record of a session."""

    schema_version: Version
    session_id: Text
    config: SymposiumConfig
    canonical_transcript: Annotated[tuple[Message, ...], Meta(min_length=1)]
    outcome: SynthesisOutcome | TerminationOutcome
    cumulative_usage: MessageUsage
    cumulative_unresolved: tuple[UnresolvedDisagreement, ...]
    transcript_digest: Digest
    started_at: str
    ended_at: str


class Producer(ProtocolStruct, frozen=True):
    """The software that wrote a run directory."""

    name: Text
    version: Build


class RunManifest(ProtocolStruct, frozen=True):
    """The manifest of a run directory."""

    schema_version: Version
    manifest_version: Version
    session_id: Label
    status: kinds.RunDirectoryStatus
    producer: Producer
    created_at: str
    artifact_path: Text
    config_path: Text
    updated_at: str | UnsetType = UNSET
    journal_path: Text | UnsetType = UNSET
    observability_log_path: Text | UnsetType = UNSET
    transcript_digest: Digest | UnsetType = UNSET
    outcome_kind: kinds.OutcomeKind | UnsetType = UNSET
    notes: str = ""

    def __post_init__(self) -> None:
        """Require digest and outcome of a run that is over, and reject them for one that is not."""
        ends = {
            kinds.RunDirectoryStatus.COMPLETE: kinds.OutcomeKind.SYNTHESIS,
            kinds.RunDirectoryStatus.TERMINATED: kinds.OutcomeKind.TERMINATION,
        }
        end, case = ends.get(self.status), f"status {self.status}"
        for member in ("transcript_digest", "outcome_kind"):
            self._check_fields(member, case, wanted=end is not None)
        if end is None:
            self._check_fields("updated_at", case, wanted=True)
        elif self.outcome_kind is not end:
            raise ValueError(f"outcome_kind has to be {end} with {case}")
