"""How a symposium ended, and what its messages are.

The facts are here and not with the other kinds of a symposium, because the exit status of a run
follows from them.
"""

from enum import StrEnum

from forum.ledger.entry import Count, Facts


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
