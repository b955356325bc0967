"""Problem details for clients (RFC 9457), each with a stable type."""

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from forum import errors

ProblemType = errors.ProblemType
MEDIA_TYPE = "application/problem+json"


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
        self.problem, self.detail = problem, detail
        self.headers = headers or {}


def problem_from_exception(error: Exception) -> ProblemError:
    """Return the problem for an exception; unexpected errors reveal no details."""
    if isinstance(error, ProblemError):
        return error
    problem = ProblemType.TOO_SLOW if isinstance(error, TimeoutError) else ProblemType.BROKEN
    if isinstance(error, errors.ForumError):
        problem = error.problem
    # The text of a database error or a bug may contain data that the client must not see.
    public = problem.status < 500 or isinstance(
        error, errors.BacklogFull | errors.LogPaused | errors.ProcessFull | errors.TamperDetected
    )
    # After these errors the request may have been carried out: a retry could do it twice, so none
    # is suggested.
    unsure = isinstance(error, errors.StoreConnectionLost | TimeoutError)
    retryable = problem.status == 503 or problem is ProblemType.SHARE_IN_USE
    headers = {"Retry-After": "1"} if retryable and not unsure else {}
    if isinstance(error, errors.CapReached | errors.QuotaReached):
        headers = {"Retry-After": str(error.seconds)}
    return ProblemError(problem, str(error) if public else "", headers)


def problem_response(refusal: ProblemError, instance: str = "") -> Response:
    """Return the response for a problem."""
    problem = refusal.problem
    details = Details(
        type=problem.type,
        title=problem.title,
        status=problem.status,
        detail=refusal.detail,
        instance=instance,
    )
    content = msgspec.json.encode(details)
    return Response(content, problem.status, dict(refusal.headers), MEDIA_TYPE)
