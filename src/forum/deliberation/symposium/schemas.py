"""The forms of the open protocol `symposium` 1.0.0: types that cannot hold a wrong value.

They accept what the protocol's JSON Schemas accept, and refuse what these refuse; what not
every reader reads alike is refused as well (see `ijson`).  That times are times, and all that
holds between one form and another, is the business of `laws`; `reading` has the way in.

A member that may be left out but may not be null has a default, or is `UNSET` where it matters
whether it was there.  One that may be null is None both when it is and when it is left out.
Neither is written.
"""

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from forum.deliberation.symposium.canonical_json import INTEGER_LIMIT
from forum.deliberation.symposium.kinds import (
    AgentFailurePolicy,
    ErrorKind,
    NextAction,
    OutcomeKind,
    Reason,
    RunDirectoryStatus,
    SelectionStrategy,
)

VERSION = "1.0.0"
"""Of every form that we write."""
RUNTIME: Final = "runtime"
"""Who speaks when an agent has left the panel."""

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
"""An object that the protocol says nothing about."""


class ProtocolStruct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An object of the protocol: it has no members but those that it is declared with."""

    def _check_fields(self, member: str, case: str, *, wanted: bool) -> None:
        """Refuse a member that is missing where it is wanted, or is there where it is not."""
        if (getattr(self, member) is not UNSET) != wanted:
            raise ValueError(f"{member} {'is missing' if wanted else 'has no place'} with {case}")


# Who takes part, and how far they may go.


class Persona(ProtocolStruct, frozen=True):
    """A way of thinking: one for any subject, or one for some of them."""

    persona_class: Literal["horizontal", "domain"]
    id: Text
    reasoning_scope: Text
    reasoning_style: Text
    behavioral_constraints: Annotated[tuple[Text, ...], Meta(min_length=1)]
    failure_modes: Annotated[tuple[Text, ...], Meta(min_length=1)]
    output_requirements: tuple[Text, ...] = ()
    domain_scope: Annotated[tuple[Text, ...], Meta(min_length=1)] | UnsetType = UNSET
    forbidden_domains: tuple[Text, ...] | UnsetType = UNSET
    must_delegate: dict[str, Text] | UnsetType = UNSET
    status: Literal["experimental", "stable", "deprecated", "archived"] | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Refuse a domain without limits, and limits to what is for any subject."""
        for member in ("domain_scope", "forbidden_domains", "must_delegate"):
            wanted = self.persona_class == "domain"
            self._check_fields(member, f"persona_class {self.persona_class}", wanted=wanted)


class AgentConfig(ProtocolStruct, frozen=True):
    """Who answers, and in whose manner."""

    id: Text
    persona_ref: Text | Persona
    provider: Text
    model: Text
    reasoning_effort: str = ""
    tools: tuple[Opaque, ...] = ()
    output_requirements: tuple[Text, ...] = ()
    retry_budget: Count | UnsetType = UNSET


class SelectorBudget(ProtocolStruct, frozen=True):
    """What the choice of a panel may cost."""

    max_tokens: Count | UnsetType = UNSET
    max_cost_usd: Cost | UnsetType = UNSET


class SelectorConfig(ProtocolStruct, frozen=True):
    """How the panel is chosen."""

    strategy: SelectionStrategy
    default_deliberation_panel: Annotated[tuple[Text, ...], Meta(min_length=1)]
    coordinator_agent: Text
    selector_budget: SelectorBudget | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Refuse to ask a model without a limit to what that costs."""
        if self.strategy is SelectionStrategy.LLM:
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
    """What can be set about the runtime."""

    max_branch_depth: Positive = 1
    max_deferred_queue_length: Count = 8
    max_deferred_drains_per_round: Count = 1
    on_agent_failure: AgentFailurePolicy = AgentFailurePolicy.TERMINATE
    per_agent_retry_budget: Count = 2
    synthesize_on_terminate: bool = False
    on_budget_exceeded: Literal["stop"] = "stop"
    observability_level: Literal["mvp", "verbose"] = "mvp"
    max_tool_iterations: Positive = 8


class SymposiumConfig(ProtocolStruct, frozen=True):
    """All that a session starts from."""

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
    """An agent that was not chosen."""

    id: Text
    reason: Text


class MissingCapability(ProtocolStruct, frozen=True):
    """What the problem would need, and no agent has."""

    capability: Text
    reason: Text
    suggested_persona: str = ""


class SelectorOutput(ProtocolStruct, frozen=True):
    """The panel that was chosen."""

    strategy: SelectionStrategy
    selected_agents: Annotated[tuple[Text, ...], Meta(min_length=1)]
    coordinator_agent: Text
    excluded_agents: tuple[ExcludedAgent, ...] = ()
    missing_capabilities: tuple[MissingCapability, ...] = ()
    reasoning: str = ""


# What they say.


class DirectRequest(ProtocolStruct, frozen=True):
    """A question of one agent to another."""

    target: Text
    type: Text
    content: Text | Opaque


class TurnOutput(ProtocolStruct, frozen=True):
    """What an agent says when it is its turn."""

    text: Text
    direct_requests: tuple[DirectRequest, ...] = ()


class ResolvedDisagreement(ProtocolStruct, frozen=True):
    """A disagreement that was settled."""

    topic: Text
    resolution: Text
    agents_involved: tuple[Text, ...] = ()


class AgentPosition(ProtocolStruct, frozen=True):
    """What an agent holds."""

    agent: Text
    claim: Text


class UnresolvedDisagreement(ProtocolStruct, frozen=True):
    """A disagreement that was not settled."""

    topic: Text
    positions: Annotated[tuple[AgentPosition, ...], Meta(min_length=1)]
    blocker: bool = False


class UserInputRequest(ProtocolStruct, frozen=True):
    """What the originator is asked."""

    question: Text
    context: str = ""
    blocking: bool = False


class ResearchRequest(ProtocolStruct, frozen=True):
    """What somebody should find out."""

    query: Text
    rationale: str = ""
    suggested_sources: tuple[Text, ...] = ()


class CoordinatorVerdict(ProtocolStruct, frozen=True):
    """What the coordinator makes of a round."""

    next_action: NextAction
    rationale: Text
    confidence: Confidence
    focus: Text
    next_agents: tuple[Text, ...]
    resolved_disagreements: tuple[ResolvedDisagreement, ...]
    unresolved_disagreements: tuple[UnresolvedDisagreement, ...]
    user_input_request: UserInputRequest | UnsetType = UNSET
    external_research_request: ResearchRequest | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Refuse a wish that is not spelt out, and one that is nobody's."""
        action, case = self.next_action, f"next_action {self.next_action}"
        asks_user, asks_world = (
            action is NextAction.REQUEST_USER_INPUT,
            action is NextAction.REQUEST_EXTERNAL_RESEARCH,
        )
        self._check_fields("user_input_request", case, wanted=asks_user)
        self._check_fields("external_research_request", case, wanted=asks_world)


class SynthesisContent(ProtocolStruct, frozen=True):
    """What the panel's answer comes to."""

    integrated_answer: Text
    resolved_disagreements: tuple[ResolvedDisagreement, ...]
    unresolved_disagreements: tuple[UnresolvedDisagreement, ...]
    confidence: Confidence | UnsetType = UNSET
    open_questions: tuple[Text, ...] = ()


class Contraction(ProtocolStruct, frozen=True):
    """Who has left the panel, and why."""

    agent_id: Text
    reason: Literal["provider_unrecoverable", "schema_error"]


# The transcript.


class MessageUsage(ProtocolStruct, frozen=True, omit_defaults=False):
    """What was spent.  It is written whole: others hash a transcript with `estimated` in it."""

    prompt_tokens: Count
    completion_tokens: Count
    total_tokens: Count
    cost_usd: Paid
    estimated: bool = False


class SchemaFailure(ProtocolStruct, frozen=True):
    """A request that could not be put to anybody."""

    offending_request: Opaque
    reason: Text


class TranscriptMessage(ProtocolStruct, frozen=True, kw_only=True, tag_field="type"):
    """What every message has."""

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
    """What an agent has said in its turn."""

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
    """What an agent has answered another."""

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


# How a session ends, and what is kept of it.


class ProviderFailure(ProtocolStruct, frozen=True):
    """The last error before a session was given up."""

    agent_id: Text
    provider: Text
    kind: ErrorKind
    message: Text
    model: str | None = None
    details: Opaque | None = None


class TerminationArtifact(ProtocolStruct, frozen=True):
    """Why there is no synthesis."""

    schema_version: Version
    reason: Reason
    final_round: Count
    cumulative_usage: MessageUsage
    unresolved_disagreements: tuple[UnresolvedDisagreement, ...]
    transcript_digest: Digest
    most_recent_verdict: CoordinatorVerdict | None = None
    pending_user_input_request: UserInputRequest | UnsetType = UNSET
    pending_external_research_request: ResearchRequest | UnsetType = UNSET
    last_provider_failure: ProviderFailure | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Refuse a session that waits for nothing, and one that is over and waits."""
        reason, case = self.reason, f"reason {self.reason}"
        if reason is Reason.NONE:
            raise ValueError("the reason is empty")
        waits_user, waits_world = (
            reason is Reason.USER_INPUT_REQUIRED,
            reason is Reason.EXTERNAL_RESEARCH_REQUIRED,
        )
        self._check_fields("pending_user_input_request", case, wanted=waits_user)
        self._check_fields("pending_external_research_request", case, wanted=waits_world)


class SynthesisOutcome(ProtocolStruct, frozen=True, tag_field="kind", tag="synthesis"):
    """The session has an answer."""

    synthesis_message_id: Text


class TerminationOutcome(ProtocolStruct, frozen=True, tag_field="kind", tag="termination"):
    """The session has none."""

    termination_artifact: TerminationArtifact


class Artifact(ProtocolStruct, frozen=True):
    """A session as it is kept."""

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
    """The software that has written a run."""

    name: Text
    version: Build


class RunManifest(ProtocolStruct, frozen=True):
    """What lies in the folder of a run."""

    schema_version: Version
    manifest_version: Version
    session_id: Label
    status: RunDirectoryStatus
    producer: Producer
    created_at: str
    artifact_path: Text
    config_path: Text
    updated_at: str | UnsetType = UNSET
    journal_path: Text | UnsetType = UNSET
    observability_log_path: Text | UnsetType = UNSET
    transcript_digest: Digest | UnsetType = UNSET
    outcome_kind: OutcomeKind | UnsetType = UNSET
    notes: str = ""

    def __post_init__(self) -> None:
        """Refuse a run that is over and does not say how, and one that is not and does."""
        ends = {
            RunDirectoryStatus.COMPLETE: OutcomeKind.SYNTHESIS,
            RunDirectoryStatus.TERMINATED: OutcomeKind.TERMINATION,
        }
        end, case = ends.get(self.status), f"status {self.status}"
        for member in ("transcript_digest", "outcome_kind"):
            self._check_fields(member, case, wanted=end is not None)
        if end is None:
            self._check_fields("updated_at", case, wanted=True)
        elif self.outcome_kind is not end:
            raise ValueError(f"outcome_kind has to be {end} with {case}")
