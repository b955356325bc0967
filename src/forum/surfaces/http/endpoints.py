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
from forum.engine import Ticket
from forum.ledger import Scope
from forum.surfaces.forms.idempotency import IDEMPOTENCY_KEY_FORM, is_idempotency_key
from forum.surfaces.http.problems import Problem, Refusal
from forum.work import Authority, Identity

if TYPE_CHECKING:
    from forum.surfaces.http.desk import Desk

ANYBODY: frozenset[Scope] = frozenset()
"""The scopes of an operation that tells nothing of any ledger, and needs no key."""

READERS = frozenset({Scope.READ, Scope.AUDIT})
JSON = "application/json"
# A key tells the ledger, and an address does not: what was kept under one is no answer to another.
FOREVER = {"Cache-Control": "private, max-age=31536000, immutable", "Vary": "Authorization"}
NEVER = {"Cache-Control": "no-store"}
UNCHANGED = {304: "The client has it already (`If-None-Match`)"}


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
                raise Refusal(Problem.FORBIDDEN, "this needs the scope approve")
            case _:
                assert_never(self.credential)


def idempotency_key(request: Request) -> str | None:
    """Return the Idempotency-Key of a request, if it has one; refuse what is none."""
    given = request.headers.get("idempotency-key")
    if given is not None and not is_idempotency_key(given):
        why = f"Idempotency-Key: {IDEMPOTENCY_KEY_FORM}"
        raise Refusal(Problem.BAD_REQUEST, why)
    return given


@dataclass(frozen=True, slots=True)
class Visit:
    """One request, after everything about it was checked."""

    request: Request
    desk: "Desk"
    principal: Principal
    query: Any = None
    body: Any = None
    size: int = 0
    """How many bytes the body has."""

    @property
    def ticket(self) -> Ticket | None:
        """The name under which the client asks, so that asking again is harmless."""
        given = idempotency_key(self.request)
        if given is None:
            return None
        asked = self.request.url.path.encode() + b"\n" + msgspec.json.encode(self.body)
        return Ticket(f"{self.principal.name}/{given}", sha256(asked).hexdigest())

    def has(self, tag: str) -> bool:
        """Tell whether the client has what this tag stands for (RFC 9110 section 13.1.2)."""
        named = self.request.headers.get("if-none-match", "").split(",")
        return not {"*", f'"{tag}"'}.isdisjoint(one.strip().removeprefix("W/") for one in named)

    def path(self, name: str) -> str:
        """Return a part of the address; nothing has a name that is not plain ASCII."""
        part = str(self.request.path_params[name])
        if not (part.isascii() and part.isprintable()):
            raise Refusal(Problem.NOT_FOUND)
        return part


Handler = Callable[[Visit], Any] | Callable[[Visit], Awaitable[Any]]
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
    """Any of these opens it, and `admin` opens everything; `ANYBODY` is said, never left out."""
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
    problems: tuple[Problem, ...] = ()
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
    def can_fail_with(self) -> tuple[Problem, ...]:
        """All problems that a client has to expect."""
        found = [Problem.BAD_REQUEST, Problem.WRONG_HOST, Problem.TOO_FAST, Problem.UNAVAILABLE]
        if self.scopes:
            found += [Problem.NO_KEY, Problem.FORBIDDEN]
        if "{" in self.path:
            found += [Problem.NOT_FOUND]
        if self.body is not None:
            found += [Problem.TOO_LARGE, Problem.WRONG_TYPE, Problem.UNFIT]
        if self.idempotent:
            found += [Problem.REUSED_KEY]
        return tuple(dict.fromkeys((*found, *self.problems)))
