"""Enumerations of the protocol, and the entry kinds of its sessions.

Messages are in bodies, which can be erased; their position and how a session ended are in facts.
"""

from enum import StrEnum

from forum.ledger.entry import Count, Facts
from forum.ledger.kinds import Kind, Kinds
from forum.runs.symposium_end import (
    MessageType,
    OutcomeKind,
    Reason,
    SymposiumClose,
    SymposiumCloseFacts,
    SymposiumCloseV2Facts,
)

__all__ = [
    "NO_DIGEST",
    "SYMPOSIUM_KINDS",
    "AgentFailurePolicy",
    "ErrorKind",
    "ExpectedOutput",
    "MessageFacts",
    "MessageType",
    "NextAction",
    "OutcomeKind",
    "PanelFacts",
    "Reason",
    "ReplayPin",
    "RequestVoidFacts",
    "RunDirectoryStatus",
    "SelectionStrategy",
    "SymposiumClose",
    "SymposiumCloseFacts",
    "SymposiumCloseV2Facts",
]


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
