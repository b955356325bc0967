"""Refusals, in the form of the provider's own errors.

The official SDKs retry the statuses 408, 409, 429 and all from 500 on, and obey the header
`x-should-retry`.  A refusal has a status that they do not retry, and says so by the header as well:
repeating a refused call cannot succeed, and would only fill the record.
"""

from enum import StrEnum

import msgspec

from forum.features.gateway.routes import ApiProvider
from forum.ledger.ports import Amount


class RefusalReason(StrEnum):
    """Why a call was not made; the code of its step in the record."""

    BUDGET = "budget"
    """Its highest cost would pass a cap."""
    FROZEN = "frozen"
    """The operator has frozen all spending."""
    UNPRICED = "unpriced"
    """It asks for something whose price has no bound."""
    LOOP = "loop"
    """The same request was made too often."""
    STOPPED = "stopped"
    """The run was stopped: its time is over, or a call cost more than its bound."""
    MALFORMED = "malformed"
    """The request cannot be read, or can be read in two ways."""
    CREDENTIAL = "credential"
    """The client did not show the token or key of a run."""
    NOT_LISTED = "not-listed"
    """It has a path, a header or a member of the query that the gateway does not pass on."""
    NO_KEY = "no-key"
    """The ledger has no key for the provider."""


_STATUSES = {
    # 402 means Payment Required.  No SDK retries it.
    RefusalReason.BUDGET: 402,
    RefusalReason.FROZEN: 402,
    RefusalReason.STOPPED: 402,
    RefusalReason.UNPRICED: 403,
    RefusalReason.LOOP: 403,
    RefusalReason.NOT_LISTED: 403,
    RefusalReason.NO_KEY: 403,
    RefusalReason.MALFORMED: 400,
    RefusalReason.CREDENTIAL: 401,
}
_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    502: "api_error",
    504: "timeout_error",
}
_GEMINI_STATES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "FAILED_PRECONDITION",
    403: "PERMISSION_DENIED",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_OPENAI_TYPES = {402: "insufficient_quota", 502: "server_error", 504: "server_error"}
JSON_HEADERS = ((b"content-type", b"application/json"),)
NO_RETRY_HEADER = (b"x-should-retry", b"false")


class CallRefused(Exception):
    """Raised for a call that must not be made."""

    def __init__(self, reason: RefusalReason, message: str, left: Amount | None = None) -> None:
        """Take the reason, and what is left where a lower output limit may be a remedy."""
        super().__init__(message)
        self.reason, self.message = reason, message
        self.left = left

    @property
    def status(self) -> int:
        """The HTTP status of the refusal."""
        return _STATUSES[self.reason]

    def body(self, provider: ApiProvider) -> bytes:
        """Return the body of the refusal, in the provider's form."""
        return error_body(provider, self.status, f"forum_{self.reason}", f"Forum: {self.message}")


def error_body(provider: ApiProvider, status: int, code: str, message: str) -> bytes:
    """Return an error in the form of a provider."""
    if provider is ApiProvider.ANTHROPIC:
        kind = _ANTHROPIC_TYPES.get(status, "api_error")
        error = {"type": kind, "message": message, "code": code}
        return msgspec.json.encode({"type": "error", "error": error})
    if provider is ApiProvider.GEMINI:
        reason = {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": code, "domain": "forum"
        }  # fmt: skip
        state = _GEMINI_STATES.get(status, "INTERNAL")
        status_body = {"code": status, "message": message, "status": state, "details": [reason]}
        return msgspec.json.encode({"error": status_body})
    kind = _OPENAI_TYPES.get(status, "invalid_request_error")
    members = {"message": message, "type": kind, "param": None, "code": code}
    return msgspec.json.encode({"error": members})
