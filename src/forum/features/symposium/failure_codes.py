"""Maps the error of a failed turn to the protocol's error kinds and termination reasons."""

from collections.abc import Mapping

from forum.features.symposium.kinds import ErrorKind, Reason
from forum.features.symposium.schemas import AgentConfig, ProviderFailure
from forum.features.symposium.transcript import to_json_object, turn_usage
from forum.ledger.kinds import Outcome
from forum.runs.kinds import StopReason, Why
from forum.runs.session_steps import TurnResult

RETRIABLE = frozenset(
    {ErrorKind.TIMEOUT, ErrorKind.NETWORK, ErrorKind.RATE_LIMIT, ErrorKind.MALFORMED_RESPONSE}
)
RETRY_HINT, FINAL_HINT = "again", "final"
"""Suffix of a code by which an adapter overrides whether its error kind is retriable."""

_BY_STATUS: Mapping[str, ErrorKind] = {
    "400": ErrorKind.INVALID_REQUEST,
    "401": ErrorKind.AUTH_FAILURE,
    "402": ErrorKind.QUOTA_EXHAUSTED,
    "403": ErrorKind.AUTH_FAILURE,
    "404": ErrorKind.MODEL_UNAVAILABLE,
    "408": ErrorKind.TIMEOUT,
    "410": ErrorKind.MODEL_UNAVAILABLE,
    "413": ErrorKind.CONTEXT_LENGTH_EXCEEDED,
    "422": ErrorKind.INVALID_REQUEST,
    "429": ErrorKind.RATE_LIMIT,
    "500": ErrorKind.NETWORK,
    "502": ErrorKind.NETWORK,
    "503": ErrorKind.RATE_LIMIT,
    "504": ErrorKind.TIMEOUT,
    "529": ErrorKind.RATE_LIMIT,
}
_BY_CODE: Mapping[str, ErrorKind] = {
    "bad-request": ErrorKind.INVALID_REQUEST,
    "connect": ErrorKind.NETWORK,
    "early": ErrorKind.NETWORK,
    "late": ErrorKind.TIMEOUT,
    "length": ErrorKind.MALFORMED_RESPONSE,
    "malformed": ErrorKind.MALFORMED_RESPONSE,
    "no-key": ErrorKind.AUTH_FAILURE,
    "not-configured": ErrorKind.AUTH_FAILURE,
    "overloaded": ErrorKind.RATE_LIMIT,
    "oversize": ErrorKind.MALFORMED_RESPONSE,
    "refused": ErrorKind.CONTENT_FILTER,
    "tool-error": ErrorKind.TOOL_FAILURE,
}
_BY_WHY: Mapping[Why, ErrorKind] = {
    Why.DEADLINE: ErrorKind.TIMEOUT,
    Why.LOST: ErrorKind.NETWORK,
    Why.CUT: ErrorKind.NETWORK,
    Why.OVERSIZE: ErrorKind.MALFORMED_RESPONSE,
    Why.THROTTLED: ErrorKind.RATE_LIMIT,
}
_BY_WORDS: Mapping[bytes, ErrorKind] = {
    b"insufficient_quota": ErrorKind.QUOTA_EXHAUSTED,
    b"credit balance": ErrorKind.QUOTA_EXHAUSTED,
    b"context_length": ErrorKind.CONTEXT_LENGTH_EXCEEDED,
    b"context length": ErrorKind.CONTEXT_LENGTH_EXCEEDED,
    b"prompt is too long": ErrorKind.CONTEXT_LENGTH_EXCEEDED,
}
"""Texts in provider errors whose HTTP status is also used for other errors."""
_BY_STOP: Mapping[StopReason, Reason] = {
    StopReason.DEADLINE: Reason.TIMEOUT,
    StopReason.CANCELLED: Reason.USER_CANCEL,
    StopReason.REJECTED: Reason.USER_CANCEL,
    StopReason.BUDGET: Reason.BUDGET_EXCEEDED,
    StopReason.DEPTH: Reason.BUDGET_EXCEEDED,
    StopReason.TURNS: Reason.BUDGET_EXCEEDED,
}
_KINDS = frozenset(kind.value for kind in ErrorKind)


def classify_error(result: TurnResult) -> ErrorKind:
    """Return the kind of error that a failed turn ended with."""
    # A reply came, so the turn failed because the reply was invalid.
    if result.outcome is Outcome.OK:
        return ErrorKind.MALFORMED_RESPONSE
    named, _, rest = result.code.partition(" ")
    if named in _KINDS:
        return ErrorKind(named)
    status = _BY_STATUS.get(rest) if named == "http" else None
    late = ErrorKind.TIMEOUT if result.outcome is Outcome.TIMEOUT else None
    # The code and the text are more specific than the HTTP status, which providers share between
    # errors.
    by_text = next((kind for words, kind in _BY_WORDS.items() if words in result.error), None)
    kind = _BY_CODE.get(result.code) or late or by_text or status or _BY_WHY.get(result.why)
    return kind or ErrorKind.INTERNAL


def is_permanent_failure(result: TurnResult) -> bool:
    """Return whether asking again after this failure is useless."""
    hint = result.code.rpartition(" ")[2]
    if hint in (RETRY_HINT, FINAL_HINT):
        return hint == FINAL_HINT
    return classify_error(result) not in RETRIABLE


def scripted_error_code(kind: ErrorKind, *, retriable: bool) -> str:
    """Return the code with which a scripted agent fails in this way."""
    if retriable == (kind in RETRIABLE):
        return kind.value
    return f"{kind.value} {RETRY_HINT if retriable else FINAL_HINT}"


def termination_reason(kind: ErrorKind) -> Reason:
    """Return the termination reason of a session that cannot continue without this turn."""
    malformed = kind is ErrorKind.MALFORMED_RESPONSE
    return Reason.SCHEMA_ERROR if malformed else Reason.PROVIDER_UNRECOVERABLE


def termination_reason_of_stop(stopped: StopReason) -> Reason:
    """Return the termination reason of a session that was stopped from outside."""
    return _BY_STOP.get(stopped, Reason.PROVIDER_UNRECOVERABLE)


def build_provider_failure(agent: AgentConfig, result: TurnResult) -> ProviderFailure:
    """Return the record of the failure that ended a session.

    Failed calls have no message, so their cost is recorded here and in no sum of messages.
    """
    return ProviderFailure(
        agent_id=agent.id,
        provider=agent.provider,
        kind=classify_error(result),
        message=describe_failure(result),
        model=agent.model,
        details={"calls": result.spent.calls, "usage": to_json_object(turn_usage(result))},
    )


def describe_failure(result: TurnResult) -> str:
    """Return a description of a failure.

    It contains no text from the provider, because such a text may repeat the API key.
    """
    kind = classify_error(result)
    code = result.code if result.code != kind.value else ""
    return f"{kind.value}: {code}" if code else kind.value
