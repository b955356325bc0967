"""Enumerations of the protocol, and the entry kinds of its sessions.

Messages are in bodies, which can be erased; their position and how a session ended are in facts.
"""

from enum import StrEnum

from forum.ledger.entry import Count, Facts
from forum.ledger.kinds import Kind, Kinds


class MessageType(StrEnum):
    """What a message of the transcript is."""

    PROBLEM = "problem_statement"
    PRIMARY = "primary_turn"
    COORDINATION = "coordination_turn"
    BRANCH = "branch_turn"
    SYNTHESIS = "synthesis"
    CONTRACTION = "panel_contraction"


class OutcomeKind(StrEnum):
    """How a session can end."""

    SYNTHESIS = "synthesis"
    TERMINATION = "termination"


class Reason(StrEnum):
    """Why a session ended without a synthesis."""

    BUDGET_EXCEEDED = "budget_exceeded"
    SCHEMA_ERROR = "schema_error"
    PROVIDER_UNRECOVERABLE = "provider_unrecoverable"
    USER_CANCEL = "user_cancel"
    TIMEOUT = "timeout"
    USER_INPUT_REQUIRED = "user_input_required"
    EXTERNAL_RESEARCH_REQUIRED = "external_research_required"
    NONE = ""
    """The session ended with a synthesis."""


class ErrorKind(StrEnum):
    """Why a call did not lead to a turn."""

    TIMEOUT = "timeout"
    NETWORK = "network"
    RATE_LIMIT = "rate_limit"
    QUOTA_EXHAUSTED = "quota_exhausted"
    AUTH_FAILURE = "auth_failure"
    MODEL_UNAVAILABLE = "model_unavailable"
    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    CONTENT_FILTER = "content_filter"
    INVALID_REQUEST = "invalid_request"
    MALFORMED_RESPONSE = "malformed_response"
    TOOL_FAILURE = "tool_failure"
    INTERNAL = "internal"


class SelectionStrategy(StrEnum):
    """How the panel is chosen."""

    FIXED = "fixed"
    RULES = "rules"
    LLM = "llm"


class NextAction(StrEnum):
    """What a coordinator wants to happen."""

    CONTINUE = "continue"
    FINALIZE = "finalize"
    REQUEST_USER_INPUT = "request_user_input"
    REQUEST_EXTERNAL_RESEARCH = "request_external_research"


class AgentFailurePolicy(StrEnum):
    """What follows when an agent cannot be heard."""

    TERMINATE = "terminate"
    CONTINUE_WITHOUT = "continue_without"


class ExpectedOutput(StrEnum):
    """The form that a reply has to have."""

    TURN = "turn_structured_output"
    VERDICT = "verdict"
    SYNTHESIS = "synthesis_content"


class ReplayPin(StrEnum):
    """What has to be the same for a session to be carried out again with the same result."""

    RUNTIME = "runtime"
    ADAPTER = "adapter"
    PROVIDER = "provider"
    MODEL = "model"
    SAMPLING = "sampling"
    CACHE = "cache"
    TOOL_ENV = "tool_env"
    WALLCLOCK = "wallclock"
    PERSONA = "persona"
    TRANSCRIPT_PREFIX = "transcript_prefix"


class RunDirectoryStatus(StrEnum):
    """What has become of a run directory."""

    IN_PROGRESS = "in_progress"
    COMPLETE = "complete"
    TERMINATED = "terminated"
    CRASHED = "crashed"


class PanelFacts(Facts, frozen=True):
    """The panel was chosen; what that cost is in no message.  Body: who was chosen, and why."""

    strategy: SelectionStrategy
    agents: Count
    usd: Count = 0
    tokens: Count = 0


class MessageFacts(Facts, frozen=True):
    """A message of the transcript.  Body: the message, in the one form that has its digest."""

    round: Count
    turn: Count
    type: MessageType


class RequestVoidFacts(Facts, frozen=True):
    """A deferred request was dropped because its target has left the panel.

    Body: the request.
    """

    message: str
    """Id of the message that made the request."""


class SymposiumCloseFacts(Facts, frozen=True):
    """How a session ended.  Body: why there is no synthesis, where there is none."""

    outcome: OutcomeKind
    rounds: Count
    messages: Count
    digest: str
    """SHA-256 of the canonical form of the transcript."""
    ended: Count
    """In microseconds since 1970."""
    usd: Count
    """Cost of all calls, including those that led to no message."""
    tokens: Count
    reason: Reason = Reason.NONE


# Without a digest of the transcript: with it, one message that was erased could be guessed from the
# others.  Every message is committed to by its own entry.
class SymposiumCloseV2Facts(Facts, frozen=True):
    """How a session ended.  Body: why there is no synthesis, where there is none."""

    outcome: OutcomeKind
    rounds: Count
    messages: Count
    ended: Count
    """In microseconds since 1970."""
    usd: Count
    """Cost of all calls, including those that led to no message."""
    tokens: Count
    reason: Reason = Reason.NONE


SymposiumClose = SymposiumCloseFacts | SymposiumCloseV2Facts
"""The entry that ends a session."""

NO_DIGEST = "0" * 64
"""What stands in the recorded termination artifact in place of the digest of the transcript."""


SYMPOSIUM_KINDS = Kinds(
    [
        Kind("panel/1", PanelFacts, frozenset({"panel"})),
        Kind("message/1", MessageFacts, frozenset({"message"})),
        Kind("request.void/1", RequestVoidFacts, frozenset({"request"})),
        Kind("symposium.close/1", SymposiumCloseFacts, frozenset({"termination"})),
        Kind("symposium.close/2", SymposiumCloseV2Facts, frozenset({"termination"})),
    ]
)
