"""The problems of the HTTP API.

Generated from the declared endpoints by `just client`; do not edit.
"""

from enum import Enum


class ProblemType(Enum):
    """A problem: the name of its type, the status, the title."""

    BAD_REQUEST = ("bad-request", 400, "The request cannot be read")
    NO_KEY = ("no-key", 401, "A valid key or token is required")
    FORBIDDEN = ("forbidden", 403, "This key does not permit this request")
    WRONG_HOST = ("wrong-host", 403, "The request is for another host, or comes from another site")
    NOT_FOUND = ("not-found", 404, "Not found")
    NO_METHOD = ("method-not-allowed", 405, "This address does not support that method")
    CONFLICT = ("conflict", 409, "What the request is about is not in the state that it needs")
    ENDED = ("run-ended", 409, "The run has ended")
    DECIDED = ("gate-decided", 409, "The gate was decided already")
    MOVED = ("gate-moved", 409, "The content of the gate has changed since it was read")
    REUSED_KEY = (
        "idempotency-key-reused",
        409,
        "This Idempotency-Key was used for another request",
    )
    NOT_SIGNED = ("not-signed-yet", 409, "No signed checkpoint covers this yet")
    GONE = ("body-gone", 410, "The body was erased, or is missing")
    TOO_LARGE = ("too-large", 413, "The request is larger than this server accepts")
    WRONG_TYPE = ("unsupported-media-type", 415, "The body is not JSON")
    UNFIT = ("unprocessable", 422, "The request can be read, but could never be carried out")
    TOO_FAST = ("too-many-requests", 429, "Too many requests")
    CAPPED = ("cap-reached", 429, "A cap of the operator over many runs is reached")
    SHARE_IN_USE = ("share-in-use", 429, "This key or ledger has as much in use as it may have")
    BROKEN = ("internal", 500, "Internal error")
    UNAVAILABLE = ("unavailable", 503, "Temporarily unavailable")
    TOO_SLOW = ("timeout", 503, "The request took too long")

    def __init__(self, slug: str, status: int, title: str) -> None:
        self.type = f"urn:forum:problem:{slug}"
        self.status, self.title = status, title
