"""Errors in the form that chat clients expect: `{"error": {message, type, param, code}}`."""

import msgspec
from msgspec import Struct
from starlette.responses import Response

from forum.surfaces.http.endpoints import JSON, NO_STORE
from forum.surfaces.http.problems import ProblemError, ProblemType, problem_from_exception

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
_CODES = {ProblemType.NO_KEY: "invalid_api_key", ProblemType.TOO_FAST: "rate_limit_exceeded"}


class ErrorForm(Struct, frozen=True):
    """An error, by itself."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(Struct, frozen=True):
    """An error, as it is answered and as it ends a stream."""

    error: ErrorForm


class ParameterError(ProblemError):
    """Raised when a request is refused because of one of its parameters."""

    def __init__(self, problem: ProblemType, detail: str, *, param: str, code: str = "") -> None:
        super().__init__(problem, detail)
        self.param, self.code = param, code


def unsupported_parameter(param: str, why: str) -> ParameterError:
    """Return the error for a parameter that Forum does not support."""
    return ParameterError(ProblemType.BAD_REQUEST, why, param=param, code="unsupported_parameter")


def run_link_headers(run: str) -> dict[str, str]:
    """Return the headers that identify a run."""
    return {"Forum-Run": run, "Link": f'</api/v1/runs/{run}>; rel="describedby"'}


class NoReply(Exception):
    """Raised when a run has no answer for the client: not yet, or not at all."""

    def __init__(self, run: str, status: int, code: str, message: str) -> None:
        super().__init__(run, status, code, message)
        self.run, self.status = run, status
        self.code, self.message = code, message

    def __str__(self) -> str:
        return f"{self.message} (run {self.run})"

    @property
    def form(self) -> ErrorBody:
        """The error as a response body."""
        # OpenAI's error type for an account without credit: a retry does not help.
        kind = "insufficient_quota" if self.status == 429 else "run_error"
        return ErrorBody(ErrorForm(str(self), kind, None, self.code))

    def response(self) -> Response:
        """Return the error as a response."""
        # Clients retry automatically after 409, 429 and 5xx.  A retry would start another run and
        # cost again, although the first one still exists.
        headers = {**NO_STORE, **run_link_headers(self.run), "X-Should-Retry": "false"}
        return Response(msgspec.json.encode(self.form), self.status, headers, JSON)


def openai_error_response(error: Exception, _path: str) -> Response:
    """Return the response for an error before a run was started."""
    refusal = problem_from_exception(error)
    problem = refusal.problem
    kind = _TYPES.get(problem.status) or (
        "server_error" if problem.status >= 500 else "invalid_request_error"
    )
    slug = problem.type.rpartition(":")[2].replace("-", "_")
    param, code = "", _CODES.get(problem, slug)
    if isinstance(refusal, ParameterError):
        param, code = refusal.param, refusal.code or code
    # Clients retry after a 409, which never helps here, and after a 503, where the run may have
    # been accepted: it would then be carried out, and paid for, twice.
    hopeless = problem.status in (409, 503) and "Retry-After" not in refusal.headers
    if problem is ProblemType.CAPPED:
        kind, hopeless = "insufficient_quota", True
    form = ErrorForm(refusal.detail or problem.title, kind, param or None, code)
    again = {"X-Should-Retry": "false"} if hopeless else {}
    headers = {**NO_STORE, **again, **refusal.headers}
    return Response(msgspec.json.encode(ErrorBody(form)), problem.status, headers, JSON)
