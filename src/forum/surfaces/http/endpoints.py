"""Operations as they are declared: everything that is true of one is said in one place."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, assert_never

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from forum.app import Approver
from forum.engine import IdempotencyKey
from forum.ledger import Scope
from forum.surfaces.http.problems import ProblemError, ProblemType
from forum.surfaces.schemas.idempotency import IDEMPOTENCY_KEY_FORM, is_idempotency_key
from forum.work import Authority, Identity

if TYPE_CHECKING:
    from forum.surfaces.http.tenant import Tenant

NO_SCOPES: frozenset[Scope] = frozenset()
"""The scopes of an operation that tells nothing of any ledger, and needs no key."""

READERS = frozenset({Scope.READ, Scope.AUDIT})
JSON = "application/json"
# A key tells the ledger, and an address does not: what was kept under one is no answer to another.
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
    """Who asks, and what that one may do."""

    name: str
    """As entries have it."""
    scopes: frozenset[Scope]
    credential: Credential = Credential.NONE
    subject: str = ""
    """Whom the issuer of a token names."""
    issuer: str = ""

    @property
    def approver(self) -> Approver:
        """Who decides at a gate, if this one does.  Who has shown nothing cannot decide."""
        match self.credential:
            case Credential.OPERATOR:
                return Approver(self.name, Authority.OPERATOR)
            case Credential.KEY:
                return Approver(self.name, Authority.KEY)
            case Credential.PERSON:
                who = Identity(self.subject, self.issuer)
                return Approver(self.name, Authority.PERSON, who)
            case Credential.NONE:
                raise ProblemError(ProblemType.FORBIDDEN, "this needs the scope approve")
            case _:
                assert_never(self.credential)


def read_idempotency_key(request: Request) -> str | None:
    """Return the Idempotency-Key of a request, if it has one; refuse what is none."""
    given = request.headers.get("idempotency-key")
    if given is not None and not is_idempotency_key(given):
        why = f"Idempotency-Key: {IDEMPOTENCY_KEY_FORM}"
        raise ProblemError(ProblemType.BAD_REQUEST, why)
    return given


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One request, after everything about it was checked."""

    request: Request
    desk: "Tenant"
    principal: Principal
    query: Any = None
    body: Any = None
    size: int = 0
    """How many bytes the body has."""

    @property
    def idempotency_key(self) -> IdempotencyKey | None:
        """The name under which the client asks, so that asking again is harmless."""
        given = read_idempotency_key(self.request)
        if given is None:
            return None
        asked = self.request.url.path.encode() + b"\n" + msgspec.json.encode(self.body)
        return IdempotencyKey(f"{self.principal.name}/{given}", sha256(asked).hexdigest())

    def has_etag(self, tag: str) -> bool:
        """Tell whether the client has what this tag stands for (RFC 9110 section 13.1.2)."""
        named = self.request.headers.get("if-none-match", "").split(",")
        return not {"*", f'"{tag}"'}.isdisjoint(one.strip().removeprefix("W/") for one in named)

    def path_param(self, name: str) -> str:
        """Return a part of the address; nothing has a name that is not plain ASCII."""
        part = str(self.request.path_params[name])
        if not (part.isascii() and part.isprintable()):
            raise ProblemError(ProblemType.NOT_FOUND)
        return part


Handler = Callable[[RequestContext], Any] | Callable[[RequestContext], Awaitable[Any]]
"""Makes a form, which is answered as JSON, or a response of its own.

One that is a coroutine runs on the event loop, and must not wait for anything else; all others
run in threads.
"""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One operation: who may do it, what it takes and gives, what can go wrong."""

    method: str
    path: str
    name: str
    scopes: frozenset[Scope]
    """Any of these opens it, and `admin` opens everything; `NO_SCOPES` is said, never left out."""
    summary: str
    handle: Handler
    reply: Any = None
    """The form of the answer; or its media type, where it is no JSON."""
    other_types: tuple[str, ...] = ()
    """Media types that the answer can have besides."""
    also: Mapping[int, str] = field(default_factory=dict)
    """Other ways in which it goes well: their statuses, and what they mean."""
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    example: Mapping[str, Any] | None = None
    """A body that works."""
    status: int = 200
    problems: tuple[ProblemType, ...] = ()
    """Those beside what can go wrong everywhere."""
    idempotent: bool = False
    """Whether it heeds an Idempotency-Key."""
    headers: Mapping[str, str] = field(default_factory=dict)
    tag: str = ""
    voice: Callable[[Exception, str], Response] | None = None
    """How problems are told, where a client expects another form than RFC 9457."""
    seconds: float = 30.0
    """How long it may take until the answer begins."""

    @property
    def possible_problems(self) -> tuple[ProblemType, ...]:
        """All problems that a client has to expect."""
        found = [
            ProblemType.BAD_REQUEST,
            ProblemType.WRONG_HOST,
            ProblemType.TOO_FAST,
            ProblemType.UNAVAILABLE,
        ]
        if self.scopes:
            found += [ProblemType.NO_KEY, ProblemType.FORBIDDEN]
        if "{" in self.path:
            found += [ProblemType.NOT_FOUND]
        if self.body is not None:
            found += [ProblemType.TOO_LARGE, ProblemType.WRONG_TYPE, ProblemType.UNFIT]
        if self.idempotent:
            found += [ProblemType.REUSED_KEY]
        return tuple(dict.fromkeys((*found, *self.problems)))
