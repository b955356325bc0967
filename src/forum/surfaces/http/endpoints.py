"""Declarations of operations: everything about an operation is defined in one place."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, assert_never

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from forum.app import Approver
from forum.app.planner import CallerAuthority
from forum.engine import IdempotencyKey
from forum.ledger.kinds import Scope
from forum.runs.kinds import Authority, Identity
from forum.surfaces.http.problems import ProblemError, ProblemType
from forum.surfaces.schemas.idempotency import IDEMPOTENCY_KEY_FORM, is_idempotency_key

if TYPE_CHECKING:
    from forum.surfaces.http.tenant import Tenant

NO_SCOPES: frozenset[Scope] = frozenset()
"""The scopes of an operation that reveals nothing about a ledger and needs no key."""

READERS = frozenset({Scope.READ, Scope.AUDIT})
JSON = "application/json"
# The key selects the ledger, and the URL does not.  Without `Vary: Authorization`, a cache could
# answer one client with another client's ledger.
CACHE_FOREVER = {"Cache-Control": "private, max-age=31536000, immutable", "Vary": "Authorization"}
NO_STORE = {"Cache-Control": "no-store"}
NOT_MODIFIED = {304: "The client has it already (`If-None-Match`)"}


class Credential(StrEnum):
    """What a client has shown.  An address is no credential."""

    NONE = "none"
    OPERATOR = "operator"
    """The token of the project's operator."""
    KEY = "key"
    """A key of the ledger."""
    PERSON = "person"
    """A token of the issuer that `[oidc]` names."""


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated client and its scopes."""

    name: str
    """The actor's name in entries."""
    scopes: frozenset[Scope]
    credential: Credential = Credential.NONE
    subject: str = ""
    """The subject of an OIDC token."""
    issuer: str = ""

    @property
    def authority(self) -> CallerAuthority:
        """What the client's requests may use."""
        is_operator = self.credential is Credential.OPERATOR
        return CallerAuthority.OPERATOR if is_operator else CallerAuthority.CLIENT

    @property
    def approver(self) -> Approver:
        """The identity that decides at a gate.  Raises `ProblemError` without a credential."""
        match self.credential:
            case Credential.OPERATOR:
                return Approver(self.name, Authority.OPERATOR)
            case Credential.KEY:
                return Approver(self.name, Authority.KEY)
            case Credential.PERSON:
                identity = Identity(self.subject, self.issuer)
                return Approver(self.name, Authority.PERSON, identity)
            case Credential.NONE:
                raise ProblemError(ProblemType.FORBIDDEN, "this needs the scope approve")
            case _:
                assert_never(self.credential)


def read_idempotency_key(request: Request) -> str | None:
    """Return the Idempotency-Key of a request, if any.

    Raises `ProblemError` if it is malformed.
    """
    key = request.headers.get("idempotency-key")
    if key is not None and not is_idempotency_key(key):
        why = f"Idempotency-Key: {IDEMPOTENCY_KEY_FORM}"
        raise ProblemError(ProblemType.BAD_REQUEST, why)
    return key


class LateResponse(Response):
    """A response whose status is known only once it is being sent."""

    report_status: Callable[[int], None]
    """Called at its end with the status that was sent; 499 if none was."""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One request, after all checks."""

    request: Request
    tenant: "Tenant"
    principal: Principal
    query: Any = None
    body: Any = None
    raw: bytes = b""
    """The body as it was sent."""

    @property
    def idempotency_key(self) -> IdempotencyKey | None:
        """The idempotency key with a digest of the request, so that a retry is harmless."""
        key = read_idempotency_key(self.request)
        if key is None:
            return None
        # The digest covers path and body: the same key with another request is an error.  The
        # principal's name keeps clients from colliding with, or probing, the keys of others.
        path = self.request.url.path
        return IdempotencyKey.of_form(self.principal.name, key, self.body, path)

    def has_etag(self, tag: str) -> bool:
        """Return whether the client has the content with this tag (RFC 9110, section 13.1.2)."""
        named = self.request.headers.get("if-none-match", "").split(",")
        return not {"*", f'"{tag}"'}.isdisjoint(etag.strip().removeprefix("W/") for etag in named)

    def path_param(self, name: str) -> str:
        """Return a path parameter.  Raises `ProblemError` (404) unless it is printable ASCII."""
        part = str(self.request.path_params[name])
        if not (part.isascii() and part.isprintable()):
            raise ProblemError(ProblemType.NOT_FOUND)
        return part


Handler = Callable[[RequestContext], Any] | Callable[[RequestContext], Awaitable[Any]]
"""Returns a struct, which is encoded as JSON, or a response.

A coroutine runs on the event loop and must not block; other handlers run in threads.
"""

ErrorVoice = Callable[[Exception, str], Response]
"""Returns the response for an error of a request, whose path it is given."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One operation: its scopes, its input and output, and its problems."""

    method: str
    path: str
    name: str
    scopes: frozenset[Scope]
    """Any of these scopes suffices, and so does `admin`; `NO_SCOPES` must be explicit."""
    summary: str
    handle: Handler
    reply: Any = None
    """The type of the response, or its media type if it is not JSON."""
    other_types: tuple[str, ...] = ()
    """Other media types that the response can have."""
    also: Mapping[int, str] = field(default_factory=dict)
    """Other success statuses and their meaning."""
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    max_bytes: int = 0
    """The size up to which the handler gets the body as it is; 0 if it does not."""
    example: Mapping[str, Any] | None = None
    """A valid body."""
    status: int = 200
    problems: tuple[ProblemType, ...] = ()
    """Problems in addition to the common ones."""
    idempotent: bool = False
    """Whether it supports the Idempotency-Key header."""
    headers: Mapping[str, str] = field(default_factory=dict)
    tag: str = ""
    voice: ErrorVoice | None = None
    """Formats errors for clients that expect another form than RFC 9457."""
    seconds: float = 30.0
    """Time limit until the response begins."""
    any_host: bool = False
    """Whether it answers under any Host header: probes use whatever address a process has."""
    is_probe: bool = False
    """Whether it tells about the process itself, and is outside of all limits."""

    @property
    def possible_problems(self) -> tuple[ProblemType, ...]:
        """All problems that a client must expect."""
        problems = [
            ProblemType.BAD_REQUEST,
            ProblemType.WRONG_HOST,
            ProblemType.TOO_FAST,
            ProblemType.SHARE_IN_USE,
            ProblemType.UNAVAILABLE,
        ]
        if self.scopes:
            problems += [ProblemType.NO_KEY, ProblemType.FORBIDDEN]
        if "{" in self.path:
            problems += [ProblemType.NOT_FOUND]
        if self.is_probe:
            problems.remove(ProblemType.SHARE_IN_USE)
        if self.body is not None:
            problems += [ProblemType.TOO_LARGE, ProblemType.WRONG_TYPE, ProblemType.UNFIT]
        if self.idempotent:
            problems += [ProblemType.REUSED_KEY]
        return tuple(dict.fromkeys((*problems, *self.problems)))
