"""Authentication and authorization of requests.

A request is authenticated by the operator's token, an API key of a ledger, or a token of an OIDC
issuer, or by a session of a browser that was opened with one of them.  A network address confers no
authority: local programs, proxies and remote clients are equal until they present a credential.
API keys are entries of their ledger's log, so that every process knows them and a revocation takes
effect everywhere within a second.  Denied requests are recorded as entries too.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from time import monotonic
from typing import Protocol, TypeVar
from urllib.parse import quote, urlsplit

from starlette.requests import Request

from forum import errors
from forum.app import now
from forum.ledger.access import ApiKey, has_scope, is_operator_token
from forum.ledger.kinds import DenialReason, Scope
from forum.surfaces.http import endpoints
from forum.surfaces.http.browser_sessions import BrowserSessions, is_session_key
from forum.surfaces.http.denial_log import DenialRecorder
from forum.surfaces.http.known_keys import KnownKeys
from forum.surfaces.http.problems import ProblemError, ProblemType
from forum.surfaces.http.tenant import Tenant

T = TypeVar("T")

_HOW_TO_ASK = "show a key: Authorization: Bearer KEY; on the machine itself: forum token"
_UNKNOWN_KEY = "this key or token is not known here"
_ENDED_SESSION = "this session has ended: sign in again"

KEY_CACHE_TTL_S = 1.0
"""Maximum age of the key list, and thus the delay until a revocation takes effect."""
DEFAULT_MAX_BODY_BYTES = 4 << 20
"""Maximum size of a request body, unless configured otherwise."""
_MAX_BUCKETS = 10_000
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
"""Host names of this machine.  A web page from elsewhere cannot be served under them."""
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?").fullmatch
_NAME_CHARACTERS = "".join(chr(c) for c in range(0x21, 0x7F) if chr(c) not in '"\\%/')
"""Characters that are not percent-encoded in a principal's name."""
_MAX_NAME_LENGTH, _NAME_DIGEST_DIGITS = 128, 24

OPERATOR_PRINCIPAL = endpoints.Principal(
    "operator", frozenset(Scope), endpoints.Credential.OPERATOR
)
LOOPBACK_PRINCIPAL = endpoints.Principal("open", frozenset({Scope.SUBMIT, Scope.READ}))
"""Any client, if the operator has allowed unauthenticated access on loopback."""
ANONYMOUS = "stranger"
GATEWAY_PREFIX = "/gateway/"
"""The paths whose clients may show their key as `GATEWAY_KEY_HEADERS`."""
GATEWAY_KEY_HEADERS = ("x-api-key", "api-key", "x-goog-api-key")
"""The headers in which the SDKs of Anthropic, Azure and Gemini show their keys."""


@dataclass(frozen=True, slots=True)
class TokenClaims:
    """The verified claims of a token."""

    subject: str
    """Unique only together with the issuer."""
    issuer: str
    scopes: frozenset[Scope]
    expires: float
    """In seconds since 1970."""
    ledger: str | None = None
    """The only ledger that the token is valid for, if it names one."""


class TokenVerifier(Protocol):
    """Verifies tokens of a third party: an OIDC issuer."""

    async def verify(self, token: str, now: float) -> TokenClaims:
        """Return the claims of a token.  Raises `TokenRejected`, `IssuerUnreachable`."""
        ...


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """The configuration of one server: its ledgers, its host names and its authentication."""

    desks: Sequence[Tenant]
    """The first one is the ledger of the served project."""
    hosts: frozenset[str] = LOOPBACK_HOSTS
    open_loopback: bool = False
    """Whether clients may submit and read without a key; only for a server on loopback."""
    bearer: TokenVerifier | None = None
    rate: float = 200.0
    """Requests per second for each principal, in each process."""
    most_bytes: int = DEFAULT_MAX_BODY_BYTES
    only: str = ""
    """The feature whose endpoints are served, with health and metrics; empty for everything."""

    @property
    def tenants_by_name(self) -> Mapping[str, Tenant]:
        """The tenants by the name that API keys contain."""
        return {name: tenant for tenant in self.desks for name in tenant.forum.access.tenants}


@dataclass(slots=True)
class RateLimitBucket:
    """Token bucket of one principal."""

    tokens: float
    at: float


class Authenticator:
    """Authenticates and authorizes requests, and records denials."""

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self._tenants = config.tenants_by_name
        self._keys = KnownKeys(config.desks)
        self._buckets: dict[tuple[str, str], RateLimitBucket] = {}
        self.denials = DenialRecorder()
        self.sessions = BrowserSessions()

    async def authorize(
        self, request: Request, endpoint: endpoints.Endpoint
    ) -> tuple[Tenant, endpoints.Principal]:
        """Return the tenant and the principal of a request.  Raises `ProblemError`."""
        if not endpoint.any_host and not self._is_allowed_host(request):
            why = ProblemError(
                ProblemType.WRONG_HOST, "name this host with --allow-host if it is yours"
            )
            raise await self._denied(endpoint, DenialReason.ELSEWHERE, why)
        if endpoint.scopes == endpoints.NO_SCOPES:
            return self.config.desks[0], endpoints.Principal(ANONYMOUS, frozenset())
        tenant, principal = await self._identify(request, endpoint)
        # Before the scope check, so that refused requests count against the rate limit as well.
        if not endpoint.is_probe:
            self._check_rate_limit(tenant, principal)
        if not has_scope(principal.scopes, endpoint.scopes):
            wanted = " or ".join(sorted(endpoint.scopes))
            why = ProblemError(ProblemType.FORBIDDEN, f"this needs the scope {wanted}")
            raise await self._denied(
                endpoint, DenialReason.SCOPE, why, tenant, principal=principal.name
            )
        return tenant, principal

    async def reauthorize_stream(
        self, request: Request, endpoint: endpoints.Endpoint, pieces: AsyncIterable[T]
    ) -> AsyncGenerator[T, None]:
        """Yield a response's chunks for as long as the client would still be authorized.

        A run can be followed for days: a revoked key, or an expired key or token, must end the
        stream.
        """
        admitted = monotonic()
        async for piece in pieces:
            if monotonic() - admitted >= KEY_CACHE_TTL_S:
                if not await self._is_still_authorized(request, endpoint):
                    return
                admitted = monotonic()
            yield piece

    async def _is_still_authorized(self, request: Request, endpoint: endpoints.Endpoint) -> bool:
        try:
            await self.authorize(request, endpoint)
        except ProblemError as refusal:
            # The rate limit protects new requests; it must not cut a stream that is already open.
            return refusal.problem is ProblemType.TOO_FAST
        except errors.StoreFailed:  # the database restarts; the client need not notice
            return True
        return True

    async def _identify(
        self, request: Request, endpoint: endpoints.Endpoint
    ) -> tuple[Tenant, endpoints.Principal]:
        shown = await self._read_credential(request, endpoint)
        if shown is None:
            return await self._authenticate_anonymous(endpoint, _HOW_TO_ASK)
        if is_operator_token(shown):
            # Each project has its own operator token, so the token identifies the ledger.
            for tenant in self.config.desks:
                if tenant.forum.access.is_operator(shown):
                    return tenant, OPERATOR_PRINCIPAL
            raise await self._denied(endpoint, DenialReason.UNKNOWN, _UNKNOWN_KEY)
        key = ApiKey.parse(shown)
        if key is not None:
            return await self._authenticate_key(key, endpoint)
        if shown and self.config.bearer is not None:
            return await self._authenticate_token(self.config.bearer, shown, endpoint)
        if shown:
            # Chat clients send some key even if they need
            # none, so an unknown one counts as anonymous.
            return await self._authenticate_anonymous(endpoint, _UNKNOWN_KEY)
        raise await self._denied(endpoint, DenialReason.UNKNOWN, _HOW_TO_ASK)

    async def _read_credential(self, request: Request, endpoint: endpoints.Endpoint) -> str | None:
        """Return what a request shows, or what stands behind its session; None if it shows none."""
        shown = bearer_token(request)
        if shown is None or not is_session_key(shown):
            return shown
        credential = self.sessions.find_credential(shown)
        if credential is None:
            raise await self._denied(endpoint, DenialReason.UNKNOWN, _ENDED_SESSION)
        return credential

    async def _authenticate_anonymous(
        self, endpoint: endpoints.Endpoint, why: str
    ) -> tuple[Tenant, endpoints.Principal]:
        if self.config.open_loopback:
            return self.config.desks[0], LOOPBACK_PRINCIPAL
        raise await self._denied(endpoint, DenialReason.UNKNOWN, why)

    async def _authenticate_key(
        self, key: ApiKey, endpoint: endpoints.Endpoint
    ) -> tuple[Tenant, endpoints.Principal]:
        tenant = self._tenants.get(key.ledger)
        keys = await self._keys.access(key, KEY_CACHE_TTL_S, is_probe=endpoint.is_probe)
        result = keys.check_key(key, now())
        if tenant is None or result is DenialReason.UNKNOWN:
            # An attacker must not learn whether a ledger is served here, neither
            # from the message nor from side effects.  So the denial is recorded
            # in the first ledger and not in the one that the key names.
            raise await self._denied(endpoint, DenialReason.UNKNOWN, _UNKNOWN_KEY)
        if isinstance(result, DenialReason):
            name, why = principal_name("key", key.id), f"this key is {result.value}"
            raise await self._denied(endpoint, result, why, tenant, principal=name)
        name = principal_name("key", result.name, result.key)
        return tenant, endpoints.Principal(name, frozenset(result.scopes), endpoints.Credential.KEY)

    async def _authenticate_token(
        self, bearer: TokenVerifier, token: str, endpoint: endpoints.Endpoint
    ) -> tuple[Tenant, endpoints.Principal]:
        try:
            claims = await bearer.verify(token, now() / 1e6)
        except errors.TokenRejected as error:
            is_expired = isinstance(error, errors.TokenExpired)
            reason = DenialReason.EXPIRED if is_expired else DenialReason.UNKNOWN
            raise await self._denied(endpoint, reason, str(error)) from None
        except errors.IssuerUnreachable:
            why_not = "the issuer of tokens does not answer; keys of this ledger are good"
            raise ProblemError(ProblemType.UNAVAILABLE, why_not, {"Retry-After": "5"}) from None
        host = urlsplit(claims.issuer).hostname or ""
        name = principal_name("oidc", f"{claims.subject}@{host}")
        tenant = self.config.desks[0] if claims.ledger is None else self._find_tenant(claims.ledger)
        if tenant is None:
            why = "this token is for a ledger that is not here"
            raise await self._denied(endpoint, DenialReason.UNKNOWN, why, principal=name)
        person = endpoints.Credential.PERSON
        return tenant, endpoints.Principal(
            name=name,
            scopes=claims.scopes,
            credential=person,
            subject=claims.subject,
            issuer=claims.issuer,
        )

    def _find_tenant(self, ledger: str) -> Tenant | None:
        """Return the tenant for a ledger's origin, or for the name that API keys contain."""
        for tenant in self.config.desks:
            if ledger in (tenant.forum.origin, tenant.forum.access.tenant):
                return tenant
        return None

    def _is_allowed_host(self, request: Request) -> bool:
        """Return whether Host and Origin are ours (DNS rebinding, cross-site requests)."""
        host = _host_of(request)
        if not host or ("*" not in self.config.hosts and host not in self.config.hosts):
            return False
        origin = request.headers.get("origin")
        # Compared with the port: another program on this machine is another site.
        authority = request.headers["host"].lower()
        return origin is None or origin.lower().partition("://")[2] == authority

    def _check_rate_limit(self, tenant: Tenant, principal: endpoints.Principal) -> None:
        if principal.credential is endpoints.Credential.OPERATOR:
            return
        at, rate = monotonic(), self.config.rate
        key = (tenant.forum.access.tenant, principal.name)
        # Removed and inserted again, so that the dictionary is in the order of last use.
        bucket = self._buckets.pop(key, None) or RateLimitBucket(2 * rate, at)
        self._buckets[key] = bucket
        if len(self._buckets) > _MAX_BUCKETS:
            # A bucket is full again after two seconds without use, so the least recently used one
            # is almost certainly equal to a new one.
            del self._buckets[next(iter(self._buckets))]
        bucket.tokens = min(2 * rate, bucket.tokens + rate * (at - bucket.at))
        bucket.at = at
        if bucket.tokens < 1:
            raise ProblemError(
                ProblemType.TOO_FAST, f"at most {rate:g} a second", {"Retry-After": "1"}
            )
        bucket.tokens -= 1

    async def _denied(
        self,
        endpoint: endpoints.Endpoint,
        reason: DenialReason,
        why: str | ProblemError,
        tenant: Tenant | None = None,
        principal: str = ANONYMOUS,
    ) -> ProblemError:
        """Record a denial, by default in the first ledger, and return the error to be raised.

        A text as the reason means that the client has to show a key.
        """
        await self.denials.record(tenant or self.config.desks[0], principal, reason, endpoint.name)
        if isinstance(why, ProblemError):
            return why
        return ProblemError(ProblemType.NO_KEY, why, {"WWW-Authenticate": 'Bearer realm="forum"'})


def bearer_token(request: Request) -> str | None:
    """Return the bearer token; "" for another scheme, None without an Authorization header."""
    header = request.headers.get("authorization", "")
    if not header and request.url.path.startswith(GATEWAY_PREFIX):
        keys = (request.headers.get(name, "").strip() for name in GATEWAY_KEY_HEADERS)
        if key := next(filter(None, keys), ""):
            return key
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return value.strip()
    return "" if header else None


def _host_of(request: Request) -> str:
    """Return the host of the Host header without port and brackets, or "" if it is malformed."""
    match = _AUTHORITY(request.headers.get("host", "").lower())
    return match[1].strip("[]") if match else ""


def principal_name(*parts: str) -> str:
    """Return a name that fits into an entry and is unique for its parts.

    Characters that a label cannot have are percent-encoded; the end of a long name is replaced by a
    digest of the whole.
    """
    name = "/".join(quote(part, safe=_NAME_CHARACTERS) for part in parts)
    if len(name) <= _MAX_NAME_LENGTH:
        return name
    digest = sha256(name.encode()).hexdigest()[:_NAME_DIGEST_DIGITS]
    return f"{name[: _MAX_NAME_LENGTH - _NAME_DIGEST_DIGITS - 1]}~{digest}"
