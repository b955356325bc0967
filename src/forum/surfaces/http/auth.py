"""Who is let in: whoever shows the operator's token, a key of a ledger, or a token of an issuer.

No authority comes from an address: a program on this machine, a proxy and a stranger are the same
until they show something.  A ledger's keys are entries of its log, so that every process knows them
and a revocation holds everywhere within a second.  Who was turned away is an entry too.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from time import monotonic
from typing import Protocol, TypeVar
from urllib.parse import quote, urlsplit

from starlette.requests import Request

from forum.app import now
from forum.errors import IssuerUnreachable, StoreFailed, TokenExpired, TokenRejected
from forum.ledger import ApiKey, DenialReason, Scope, has_scope, is_operator_token
from forum.surfaces.http.denial_log import DenialRecorder
from forum.surfaces.http.endpoints import NO_SCOPES, Credential, Endpoint, Principal
from forum.surfaces.http.known_keys import KnownKeys
from forum.surfaces.http.problems import ProblemError, ProblemType
from forum.surfaces.http.tenant import Tenant

T = TypeVar("T")

_HOW_TO_ASK = "show a key: Authorization: Bearer KEY; on the machine itself: $(forum token)"
_UNKNOWN_KEY = "this key or token is not known here"

KEY_CACHE_TTL_S = 1.0
"""For how long it is believed that no key was revoked."""
DEFAULT_MAX_BODY_BYTES = 1 << 20
"""The largest body that is taken, unless the operator says otherwise."""
_MAX_BUCKETS = 10_000
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names by which this machine is known to itself: a page elsewhere cannot have them."""
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?").fullmatch
_NAME_CHARACTERS = "".join(chr(c) for c in range(0x21, 0x7F) if chr(c) not in '"\\%/')
"""What stands for itself in a part of the name of a principal."""
_MAX_NAME_LENGTH, _NAME_DIGEST_DIGITS = 128, 24

OPERATOR_PRINCIPAL = Principal("operator", frozenset(Scope), Credential.OPERATOR)
LOOPBACK_PRINCIPAL = Principal("open", frozenset({Scope.SUBMIT, Scope.READ}))
"""Anybody, where the operator has opened the loopback address."""
ANONYMOUS = "stranger"


class TokenVerifier(Protocol):
    """Somebody else's word on who somebody is: an OIDC issuer."""

    async def verify(self, token: str, now: float) -> "TokenClaims":
        """Return what a token says.  Raises `TokenRejected`, `IssuerUnreachable`."""
        ...


class TokenClaims(Protocol):
    """What a token says."""

    @property
    def subject(self) -> str:
        """Who it is."""
        ...

    @property
    def issuer(self) -> str:
        """Who says so."""
        ...

    @property
    def scopes(self) -> frozenset[Scope]:
        """What that one may do."""
        ...

    @property
    def ledger(self) -> str | None:
        """The only ledger that it is for, where the issuer says so."""
        ...


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """The rules of one server: its ledgers, its names, and whom it takes at their word."""

    desks: Sequence[Tenant]
    """The first one is that of the project that is served."""
    hosts: frozenset[str] = LOOPBACK_HOSTS
    open_loopback: bool = False
    """Whether anybody may submit and read without a key; the server listens on loopback only."""
    bearer: TokenVerifier | None = None
    rate: float = 200.0
    """How many requests a second one principal may make, in each process."""
    most_bytes: int = DEFAULT_MAX_BODY_BYTES

    @property
    def tenants_by_name(self) -> Mapping[str, Tenant]:
        """The desks by what keys call them."""
        return {desk.forum.tenant: desk for desk in self.desks}


@dataclass(slots=True)
class RateLimitBucket:
    """Tokens that a principal has left; they come back with time."""

    tokens: float
    at: float


class Authenticator:
    """Lets requests in, or turns them away."""

    def __init__(self, house: ServerConfig) -> None:
        self.config = house
        self._tenants = house.tenants_by_name
        self._keys = KnownKeys(house.desks)
        self._buckets: dict[tuple[str, str], RateLimitBucket] = {}
        self.denials = DenialRecorder()

    async def authorize(self, request: Request, endpoint: Endpoint) -> tuple[Tenant, Principal]:
        """Return who asks, and of which ledger; or refuse."""
        first = self.config.desks[0]
        # Whoever looks after the process calls it by whatever address it has.
        if endpoint.scopes == NO_SCOPES:
            return first, Principal(ANONYMOUS, frozenset())
        if not self._is_allowed_host(request):
            await self._record_denial(first, ANONYMOUS, DenialReason.ELSEWHERE, endpoint)
            raise ProblemError(
                ProblemType.WRONG_HOST, "name this host with --allow-host if it is yours"
            )
        desk, principal = await self._identify(request, endpoint)
        self._check_rate_limit(desk, principal)
        if not has_scope(principal.scopes, endpoint.scopes):
            await self._record_denial(desk, principal.name, DenialReason.SCOPE, endpoint)
            wanted = " or ".join(sorted(endpoint.scopes))
            raise ProblemError(ProblemType.FORBIDDEN, f"this needs the scope {wanted}")
        return desk, principal

    async def reauthorize_stream(
        self, request: Request, endpoint: Endpoint, pieces: AsyncIterable[T]
    ) -> AsyncGenerator[T, None]:
        """Pass on an answer for as long as whoever asked would be let in again.

        A run can be followed for days: a revocation, or the end of a key's or a token's time,
        holds there too.
        """
        admitted = monotonic()
        async for piece in pieces:
            if monotonic() - admitted >= KEY_CACHE_TTL_S:
                if not await self._is_still_authorized(request, endpoint):
                    return
                admitted = monotonic()
            yield piece

    async def _is_still_authorized(self, request: Request, endpoint: Endpoint) -> bool:
        try:
            await self.authorize(request, endpoint)
        except ProblemError as refusal:
            return refusal.problem is ProblemType.TOO_FAST
        except StoreFailed:  # the database restarts; the client need not notice
            return True
        return True

    # Whose it is

    async def _identify(self, request: Request, endpoint: Endpoint) -> tuple[Tenant, Principal]:
        shown = _bearer_token(request)
        if shown is None:
            return await self._authenticate_anonymous(endpoint, _HOW_TO_ASK)
        if is_operator_token(shown):
            return await self._authenticate_operator(shown, endpoint)
        key = ApiKey.parse(shown)
        if key is not None:
            return await self._authenticate_key(key, endpoint)
        if shown and self.config.bearer is not None:
            return await self._authenticate_token(self.config.bearer, shown, endpoint)
        if shown:
            # Chat clients show some key, whether or not they need one.
            return await self._authenticate_anonymous(endpoint, _UNKNOWN_KEY)
        await self._record_denial(self.config.desks[0], ANONYMOUS, DenialReason.UNKNOWN, endpoint)
        raise _unauthorized(_HOW_TO_ASK)

    async def _authenticate_anonymous(
        self, endpoint: Endpoint, why: str
    ) -> tuple[Tenant, Principal]:
        first = self.config.desks[0]
        if self.config.open_loopback:
            return first, LOOPBACK_PRINCIPAL
        await self._record_denial(first, ANONYMOUS, DenialReason.UNKNOWN, endpoint)
        raise _unauthorized(why)

    async def _authenticate_operator(
        self, token: str, endpoint: Endpoint
    ) -> tuple[Tenant, Principal]:
        # Every project has a token of its own, so the token says whose ledger is meant.
        for desk in self.config.desks:
            if desk.forum.is_operator(token):
                return desk, OPERATOR_PRINCIPAL
        await self._record_denial(self.config.desks[0], ANONYMOUS, DenialReason.UNKNOWN, endpoint)
        raise _unauthorized(_UNKNOWN_KEY)

    async def _authenticate_key(self, key: ApiKey, endpoint: Endpoint) -> tuple[Tenant, Principal]:
        desk = self._tenants.get(key.ledger)
        found = (await self._keys.access(key, KEY_CACHE_TTL_S)).check_key(key, now())
        if desk is None or found is DenialReason.UNKNOWN:
            # Whether the ledger is served must not show: not in the words, not in what is done
            # for them.  So the ledger that it names is not where a stranger is put on record.
            await self._record_denial(
                self.config.desks[0], ANONYMOUS, DenialReason.UNKNOWN, endpoint
            )
            raise _unauthorized(_UNKNOWN_KEY)
        if isinstance(found, DenialReason):
            await self._record_denial(desk, _principal_name("key", key.id), found, endpoint)
            raise _unauthorized(f"this key is {found.value}")
        name = _principal_name("key", found.name, found.key)
        return desk, Principal(name, frozenset(found.scopes), Credential.KEY)

    async def _authenticate_token(
        self, bearer: TokenVerifier, token: str, endpoint: Endpoint
    ) -> tuple[Tenant, Principal]:
        first = self.config.desks[0]
        try:
            claims = await bearer.verify(token, now() / 1e6)
        except TokenRejected as error:
            why = DenialReason.EXPIRED if isinstance(error, TokenExpired) else DenialReason.UNKNOWN
            await self._record_denial(first, ANONYMOUS, why, endpoint)
            raise _unauthorized(str(error)) from None
        except IssuerUnreachable:
            why_not = "the issuer of tokens does not answer; keys of this ledger are good"
            raise ProblemError(ProblemType.UNAVAILABLE, why_not, {"Retry-After": "5"}) from None
        host = urlsplit(claims.issuer).hostname or ""
        name = _principal_name("oidc", f"{claims.subject}@{host}")
        desk = first if claims.ledger is None else self._find_tenant(claims.ledger)
        if desk is None:
            await self._record_denial(first, name, DenialReason.UNKNOWN, endpoint)
            raise _unauthorized("this token is for a ledger that is not here")
        subject, issuer = claims.subject, claims.issuer
        return desk, Principal(name, claims.scopes, Credential.PERSON, subject, issuer)

    def _find_tenant(self, ledger: str) -> Tenant | None:
        """Return the desk of a ledger that is named by its origin, or as keys do."""
        for desk in self.config.desks:
            if ledger in (desk.forum.origin, desk.forum.tenant):
                return desk
        return None

    # Whether it is meant for us

    def _is_allowed_host(self, request: Request) -> bool:
        """Tell whether a browser was not led here by a name or a page of somebody else."""
        host = _host_of(request)
        if not host or ("*" not in self.config.hosts and host not in self.config.hosts):
            return False
        origin = request.headers.get("origin")
        # With its port: a page of another program on this machine is a page of somebody else.
        authority = request.headers["host"].lower()
        return origin is None or origin.lower().partition("://")[2] == authority

    def _check_rate_limit(self, desk: Tenant, principal: Principal) -> None:
        if principal.credential is Credential.OPERATOR:
            return
        at, rate = monotonic(), self.config.rate
        who = (desk.forum.tenant, principal.name)
        bucket = self._buckets.pop(who, None) or RateLimitBucket(2 * rate, at)
        self._buckets[who] = bucket
        if len(self._buckets) > _MAX_BUCKETS:
            # Whoever has not come for the longest time has a full one by now.
            del self._buckets[next(iter(self._buckets))]
        bucket.tokens = min(2 * rate, bucket.tokens + rate * (at - bucket.at))
        bucket.at = at
        if bucket.tokens < 1:
            raise ProblemError(
                ProblemType.TOO_FAST, f"at most {rate:g} a second", {"Retry-After": "1"}
            )
        bucket.tokens -= 1

    async def _record_denial(
        self, desk: Tenant, who: str, why: DenialReason, endpoint: Endpoint
    ) -> None:
        await self.denials.record(desk, who, why, endpoint.name)


def _bearer_token(request: Request) -> str | None:
    """Return what a client shows of itself."""
    header = request.headers.get("authorization", "")
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return value.strip()
    return "" if header else None


def _unauthorized(why: str) -> ProblemError:
    return ProblemError(ProblemType.NO_KEY, why, {"WWW-Authenticate": 'Bearer realm="forum"'})


def _host_of(request: Request) -> str:
    """Return the name in the Host of a request, without port and brackets; nothing if malformed."""
    found = _AUTHORITY(request.headers.get("host", "").lower())
    return found[1].strip("[]") if found else ""


def _principal_name(*parts: str) -> str:
    """Return a name that an entry can hold, the same for nobody else.

    What is no character of a label is percent-encoded; the end of what is too long gives way to a
    digest of all of it.
    """
    name = "/".join(quote(part, safe=_NAME_CHARACTERS) for part in parts)
    if len(name) <= _MAX_NAME_LENGTH:
        return name
    digest = sha256(name.encode()).hexdigest()[:_NAME_DIGEST_DIGITS]
    return f"{name[: _MAX_NAME_LENGTH - _NAME_DIGEST_DIGITS - 1]}~{digest}"
