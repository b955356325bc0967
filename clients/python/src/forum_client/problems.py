"""Errors of the client: a class for each problem type of the server, and for lost connections.

    ForumError
    ├── ServerProblem           the server refused a request (RFC 9457); subclasses by `type`
    │   ├── NotFoundProblem     also a `NotFound`, as every class is also of its family
    │   ├── ConflictProblem
    │   │   ├── RunEndedProblem, GateDecidedProblem, GateMovedProblem, ...
    │   └── ...
    ├── ServerUnreachable       no reply: the connection failed or was lost
    │   └── RequestTimeout      no reply in time
    └── ReplyUnreadable         a reply is not in the form that the API declares

No error holds the key.
"""

import msgspec

from .errors import (
    Conflict,
    ForumError,
    Invalid,
    LimitReached,
    NotFound,
    Unavailable,
    Untrusted,
)
from .problem_types import ProblemType


class ServerProblem(ForumError):
    """The server refused a request.  `type` is stable; `detail` is for people."""

    problem_type = ProblemType.BROKEN
    remedy = "correct the request, or ask the operator of the server"

    def __init__(
        self, type_: str, title: str, status: int, detail: str, retry_after: float | None
    ) -> None:
        super().__init__(type_, title, status, detail, retry_after)
        self.type, self.title = type_, title
        self.status, self.detail = status, detail
        self.retry_after = retry_after
        """Seconds after which the server suggests a retry."""

    def __str__(self) -> str:
        return f"{self.title}: {self.detail}" if self.detail else self.title


class BadRequestProblem(ServerProblem, Invalid):
    """The server cannot read the request."""

    problem_type = ProblemType.BAD_REQUEST


class NoKeyProblem(ServerProblem, Untrusted):
    """The key is missing, unknown, expired or revoked."""

    problem_type = ProblemType.NO_KEY


class ForbiddenProblem(ServerProblem):
    """The key has not the scope that the operation needs."""

    problem_type = ProblemType.FORBIDDEN


class WrongHostProblem(ForbiddenProblem):
    """The server does not serve under the name of this URL."""

    problem_type = ProblemType.WRONG_HOST


class NotFoundProblem(ServerProblem, NotFound):
    """The server has no such run, entry, key or address."""

    problem_type = ProblemType.NOT_FOUND


class MethodNotAllowedProblem(ServerProblem, Invalid):
    """The address does not support the method: client and server are of different releases."""

    problem_type = ProblemType.NO_METHOD


class ConflictProblem(ServerProblem, Conflict):
    """The request does not fit the state that the log is in now."""

    problem_type = ProblemType.CONFLICT


class RunEndedProblem(ConflictProblem):
    """The run has ended."""

    problem_type = ProblemType.ENDED


class GateDecidedProblem(ConflictProblem):
    """The gate was decided already."""

    problem_type = ProblemType.DECIDED


class GateMovedProblem(ConflictProblem):
    """The content of the gate is another one than the digest says.  Show it again, then decide."""

    problem_type = ProblemType.MOVED


class KeyReusedProblem(ConflictProblem):
    """The idempotency key was used for another request."""

    problem_type = ProblemType.REUSED_KEY


class NotSignedProblem(ConflictProblem):
    """No signed checkpoint covers the entry yet.  Retry in a second."""

    problem_type = ProblemType.NOT_SIGNED


class BodyGoneProblem(ServerProblem, Conflict):
    """The body was erased, or is missing."""

    problem_type = ProblemType.GONE


class TooLargeProblem(ServerProblem, Invalid):
    """The request is larger than the server accepts."""

    problem_type = ProblemType.TOO_LARGE


class MediaTypeProblem(ServerProblem, Invalid):
    """The server does not accept this media type."""

    problem_type = ProblemType.WRONG_TYPE


class UnprocessableProblem(ServerProblem, Invalid):
    """The request could never be carried out."""

    problem_type = ProblemType.UNFIT


class RateLimitProblem(ServerProblem, Unavailable):
    """The key sends too many requests.  `retry_after` says when the next one is accepted."""

    problem_type = ProblemType.TOO_FAST


class ShareInUseProblem(ServerProblem, LimitReached):
    """The key or the ledger has as much in use as it may have at once."""

    problem_type = ProblemType.SHARE_IN_USE


class CapReachedProblem(ServerProblem, LimitReached):
    """A cap of the operator over many runs is reached."""

    problem_type = ProblemType.CAPPED


class InternalProblem(ServerProblem):
    """The server failed.  Its log says why."""

    problem_type = ProblemType.BROKEN


class UnavailableProblem(ServerProblem, Unavailable):
    """The server, or its database, is temporarily unavailable."""

    problem_type = ProblemType.UNAVAILABLE


class SlowRequestProblem(UnavailableProblem):
    """The request took too long.  It may have been carried out."""

    problem_type = ProblemType.TOO_SLOW


class ServerUnreachable(Unavailable):
    """No reply came: the connection failed, or was lost.  The request may have been carried out."""

    text = "{address} cannot be reached: {why}. Check the URL, and that the server runs."
    remedy = "forum serve"

    def __init__(self, address: str, why: str) -> None:
        super().__init__(address, why)
        self.address, self.why = address, why


class RequestTimeout(ServerUnreachable):
    """No reply came in time.  The request may have been carried out."""

    text = "{address} did not reply in time: {why}. Try again, or raise the timeout."


class ReplyUnreadable(Untrusted):
    """A reply is not in the form that the API declares."""

    text = "the reply of {address} cannot be read: {why}. Client and server may differ in release."

    def __init__(self, address: str, why: str) -> None:
        super().__init__(address, why)
        self.address, self.why = address, why


_GATEWAY_STATUSES = (502, 504)
"""Statuses of a proxy that cannot reach the server."""


class OpenAIErrorDetails(msgspec.Struct, frozen=True):
    """The error of an OpenAI-compatible operation."""

    message: str = ""


class ProblemDetails(msgspec.Struct, frozen=True):
    """The members of a problem (RFC 9457).  All are optional: a proxy may answer for the server."""

    type: str = ""
    title: str = ""
    detail: str = ""
    error: OpenAIErrorDetails = OpenAIErrorDetails()
    """Instead of the others, in replies of the OpenAI-compatible operations."""


def _problem_classes() -> dict[ProblemType, type[ServerProblem]]:
    """Return the class of each problem type."""
    classes: dict[ProblemType, type[ServerProblem]] = {}
    waiting = list(ServerProblem.__subclasses__())
    # By the subclasses, so that a class cannot be forgotten in a table.
    while waiting:
        kind = waiting.pop()
        classes[kind.problem_type] = kind
        waiting += kind.__subclasses__()
    return classes


CLASSES = _problem_classes()
_BY_TYPE = {problem.type: kind for problem, kind in CLASSES.items()}


def problem_from_reply(status: int, content: bytes, retry_after: str | None) -> ServerProblem:
    """Return the error for a reply with a status of 400 or more."""
    details = _read_details(content)
    kind = _BY_TYPE.get(details.type) or _class_of_status(status)
    # A server of another release may word the title differently: its own words are shown.
    title = details.title or kind.problem_type.title
    return kind(
        details.type,
        title,
        status,
        detail=details.detail or details.error.message,
        retry_after=_read_seconds(retry_after),
    )


def _read_details(content: bytes) -> ProblemDetails:
    try:
        return msgspec.json.decode(content, type=ProblemDetails)
    except (msgspec.MsgspecError, UnicodeError):
        # The page of a proxy.  It is not quoted: it may be long, and the status says enough.
        return ProblemDetails()


def _class_of_status(status: int) -> type[ServerProblem]:
    """Return the class for a type that this release does not know: the general one of a status."""
    if status in _GATEWAY_STATUSES:
        return UnavailableProblem
    # The general problem of a status is declared before the special ones.
    fitting = (CLASSES[problem] for problem in ProblemType if problem.status == status)
    return next(fitting, InternalProblem if status >= 500 else BadRequestProblem)


def _read_seconds(retry_after: str | None) -> float | None:
    """Return the seconds of a Retry-After header; Forum sends no dates."""
    is_number = retry_after is not None and retry_after.isascii() and retry_after.isdecimal()
    return float(retry_after) if retry_after is not None and is_number else None
