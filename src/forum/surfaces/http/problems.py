"""Problem details for clients (RFC 9457), each with a stable type."""

from collections.abc import Mapping
from enum import Enum

import msgspec
from starlette.responses import Response

from forum import errors

MEDIA_TYPE = "application/problem+json"


class ProblemType(Enum):
    """The closed set of problems: what its type is called, its status, and what it means."""

    BAD_REQUEST = ("bad-request", 400, "The request cannot be read")
    NO_KEY = ("no-key", 401, "A key or token is needed, and none that holds was shown")
    FORBIDDEN = ("forbidden", 403, "This key does not open this door")
    WRONG_HOST = ("wrong-host", 403, "The request was meant for, or comes from, another site")
    NOT_FOUND = ("not-found", 404, "There is no such thing here")
    NO_METHOD = ("method-not-allowed", 405, "This address does not take that method")
    ENDED = ("run-ended", 409, "The run has ended")
    DECIDED = ("gate-decided", 409, "The gate was decided already")
    MOVED = ("gate-moved", 409, "What waits for approval is not what was looked at")
    REUSED_KEY = ("idempotency-key-reused", 409, "This Idempotency-Key was used for something else")
    NOT_SIGNED = ("not-signed-yet", 409, "No signed checkpoint covers this yet")
    GONE = ("body-gone", 410, "The body was erased, or is missing")
    TOO_LARGE = ("too-large", 413, "The request is larger than this server takes")
    WRONG_TYPE = ("unsupported-media-type", 415, "The body is not JSON")
    UNFIT = ("unprocessable", 422, "It can be read, but could never be carried out")
    TOO_FAST = ("too-many-requests", 429, "Too many requests")
    CAPPED = ("cap-reached", 429, "A cap of the operator over many runs is reached")
    BROKEN = ("internal", 500, "Something went wrong on this side")
    UNAVAILABLE = ("unavailable", 503, "Not now")
    TOO_SLOW = ("timeout", 503, "It took too long")

    def __init__(self, slug: str, status: int, title: str) -> None:
        self.type = f"urn:forum:problem:{slug}"
        self.status, self.title = status, title


class Details(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem as a client reads it (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str = ""
    instance: str = ""


class ProblemError(Exception):
    """Raised to end a request with a problem response."""

    def __init__(
        self, problem: ProblemType, detail: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(problem, detail)
        self.problem, self.detail, self.headers = problem, detail, headers or {}


_PROBLEM_BY_ERROR: dict[type[Exception], ProblemType] = {
    errors.NoSuchRun: ProblemType.NOT_FOUND,
    errors.NoSuchEntry: ProblemType.NOT_FOUND,
    errors.NoSuchGate: ProblemType.NOT_FOUND,
    errors.NoSuchKey: ProblemType.NOT_FOUND,
    errors.AmbiguousRun: ProblemType.NOT_FOUND,
    errors.AmbiguousEntry: ProblemType.NOT_FOUND,
    errors.RunAlreadyEnded: ProblemType.ENDED,
    errors.GateAlreadyDecided: ProblemType.DECIDED,
    errors.GateChanged: ProblemType.MOVED,
    errors.IdempotencyKeyUsed: ProblemType.REUSED_KEY,
    errors.NotYetSigned: ProblemType.NOT_SIGNED,
    errors.BodyGone: ProblemType.GONE,
    errors.Malformed: ProblemType.UNFIT,
    errors.BadPlan: ProblemType.UNFIT,
    errors.CheckTooExpensive: ProblemType.UNFIT,
    errors.AgentUnusable: ProblemType.UNFIT,
    errors.UnknownPrice: ProblemType.UNFIT,
    errors.CapReached: ProblemType.CAPPED,
    errors.ServerUnusable: ProblemType.UNAVAILABLE,
    errors.GuardMissing: ProblemType.UNAVAILABLE,
    errors.LogKeyMissing: ProblemType.UNAVAILABLE,
    errors.LogKeyChanged: ProblemType.UNAVAILABLE,
    errors.LogKeyRetired: ProblemType.UNAVAILABLE,
    errors.BacklogFull: ProblemType.UNAVAILABLE,
    errors.StoreFailed: ProblemType.UNAVAILABLE,
    errors.StoreConnectionLost: ProblemType.UNAVAILABLE,
    TimeoutError: ProblemType.TOO_SLOW,
}


def problem_from_exception(error: Exception) -> ProblemError:
    """Return the problem for an exception; unexpected errors reveal no details."""
    if isinstance(error, ProblemError):
        return error
    known = (_PROBLEM_BY_ERROR[kind] for kind in type(error).__mro__ if kind in _PROBLEM_BY_ERROR)
    problem = next(known, ProblemType.BROKEN)
    # The text of a database error or a bug may contain data that the client must not see.
    told = problem.status < 500 or isinstance(error, errors.BacklogFull | errors.TamperDetected)
    # After these errors the request may have been carried
    # out; a retry could do it twice, so none is suggested.
    unsure = isinstance(error, errors.StoreConnectionLost | TimeoutError)
    headers = {"Retry-After": "1"} if problem.status == 503 and not unsure else {}
    if isinstance(error, errors.CapReached):
        headers = {"Retry-After": str(error.seconds)}
    return ProblemError(problem, str(error) if told else "", headers)


def problem_response(refusal: ProblemError, instance: str = "") -> Response:
    """Return the response for a problem."""
    problem = refusal.problem
    details = Details(problem.type, problem.title, problem.status, refusal.detail, instance)
    content = msgspec.json.encode(details)
    return Response(content, problem.status, dict(refusal.headers), MEDIA_TYPE)
