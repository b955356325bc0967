"""Who is let in: on this machine anybody, if the operator allows it; elsewhere keys and tokens.

A ledger's keys are entries of its log, so that every process knows them and a revocation holds
everywhere within a second.  Who was turned away is an entry too.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from ipaddress import ip_address
from math import inf
from time import monotonic
from typing import Protocol, TypeVar
from urllib.parse import quote, urlsplit

from starlette.requests import Request

from forum.app import now
from forum.errors import IssuerUnreachable, StoreFailed, TokenExpired, TokenRejected
from forum.ledger import Access, ApiKey, Denial, Scope, opens
from forum.surfaces.http.denials import Denials
from forum.surfaces.http.desk import Desk
from forum.surfaces.http.endpoints import ANYBODY, Endpoint, Principal
from forum.surfaces.http.problems import Problem, Refusal

T = TypeVar("T")

FRESH_SECONDS = 1.0
"""For how long it is believed that no key was revoked."""
_PAUSE_SECONDS = 0.05
"""How long the ledger is left alone, whatever names of keys strangers make up."""
MOST_BYTES = 1 << 20
"""The largest body that is taken, unless the operator says otherwise."""
_MOST_BUCKETS = 10_000
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_FORWARDED = re.compile(
    r"forwarded|via|x-(forwarded|original)-.*|.*-(real|client|connecting)-?ip|x-cluster-.*"
).fullmatch
"""Headers by which a proxy says that it asks for somebody else."""
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?").fullmatch
_LABEL = "".join(chr(c) for c in range(0x21, 0x7F) if chr(c) not in '"\\%/')
"""What stands for itself in a part of the name of a principal."""
_MOST_IN_LABEL, _DIGITS = 128, 24

LOCAL = Principal("local", frozenset(Scope), local=True)
STRANGER = "stranger"


class Bearer(Protocol):
    """Somebody else's word on who somebody is: an OIDC issuer."""

    async def check(self, token: str, now: float) -> "Claimed":
        """Return what a token says.  Raises `TokenRejected`, `IssuerUnreachable`."""
        ...


class Claimed(Protocol):
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
class House:
    """The rules of one server: its ledgers, its names, and whom it takes at their word."""

    desks: Sequence[Desk]
    """The first one is that of the project; it takes what comes without a key."""
    hosts: frozenset[str] = LOCAL_NAMES
    keyless: bool = True
    """Whether somebody on this machine needs no key."""
    bearer: Bearer | None = None
    rate: float = 200.0
    """How many requests a second one principal may make, in each process."""
    most_bytes: int = MOST_BYTES

    @property
    def by_tenant(self) -> Mapping[str, Desk]:
        """The desks by what keys call them."""
        return {desk.forum.tenant: desk for desk in self.desks}


@dataclass(slots=True)
class Bucket:
    """Tokens that a principal has left; they come back with time."""

    tokens: float
    at: float


@dataclass
class _Known:
    """What a process remembers of the keys of a ledger, for a moment."""

    access: Access = field(default_factory=Access)
    at: float = -inf
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def is_fresh(self, key: str, arrived: float) -> bool:
        """Tell whether a key may be judged by this; one that is unknown may have been made now."""
        if key in self.access.granted:
            return monotonic() - self.at < FRESH_SECONDS
        return self.at >= arrived


class Door:
    """Lets requests in, or turns them away."""

    def __init__(self, house: House) -> None:
        self.house = house
        self._tenants = house.by_tenant
        self._known: dict[str, _Known] = {}
        self._buckets: dict[tuple[str, str], Bucket] = {}
        self.denials = Denials()

    async def admit(self, request: Request, endpoint: Endpoint) -> tuple[Desk, Principal]:
        """Return who asks, and of which ledger; or refuse."""
        first = self.house.desks[0]
        # Whoever looks after the process calls it by whatever address it has.
        if endpoint.scopes == ANYBODY:
            return first, Principal(STRANGER, frozenset())
        if not self._is_ours(request):
            await self._deny(first, STRANGER, Denial.ELSEWHERE, endpoint)
            raise Refusal(Problem.WRONG_HOST, "name this host with --allow-host if it is yours")
        desk, principal = await self._identify(request, endpoint)
        self._slow_down(desk, principal)
        if not opens(principal.scopes, endpoint.scopes):
            await self._deny(desk, principal.name, Denial.SCOPE, endpoint)
            wanted = " or ".join(sorted(endpoint.scopes))
            raise Refusal(Problem.FORBIDDEN, f"this needs the scope {wanted}")
        return desk, principal

    async def escort(
        self, request: Request, endpoint: Endpoint, pieces: AsyncIterable[T]
    ) -> AsyncGenerator[T, None]:
        """Pass on an answer for as long as whoever asked would be let in again.

        A run can be followed for days: a revocation, or the end of a key's or a token's time,
        holds there too.
        """
        admitted = monotonic()
        async for piece in pieces:
            if monotonic() - admitted >= FRESH_SECONDS:
                if not await self._is_welcome(request, endpoint):
                    return
                admitted = monotonic()
            yield piece

    async def _is_welcome(self, request: Request, endpoint: Endpoint) -> bool:
        try:
            await self.admit(request, endpoint)
        except Refusal as refusal:
            return refusal.problem is Problem.TOO_FAST
        except StoreFailed:  # the database restarts; the client need not notice
            return True
        return True

    # Whose it is

    async def _identify(self, request: Request, endpoint: Endpoint) -> tuple[Desk, Principal]:
        shown = _shown(request)
        if shown is None:
            if self.house.keyless and is_local(request):
                return self.house.desks[0], LOCAL
            await self._deny(self.house.desks[0], STRANGER, Denial.UNKNOWN, endpoint)
            raise _no_key("show a key: Authorization: Bearer forum_...")
        key = ApiKey.parse(shown)
        if key is not None:
            return await self._with_key(key, endpoint)
        if self.house.bearer is not None:
            return await self._with_token(self.house.bearer, shown, endpoint)
        # Chat clients show some key, whether or not they need one.
        if shown and self.house.keyless and is_local(request):
            return self.house.desks[0], LOCAL
        await self._deny(self.house.desks[0], STRANGER, Denial.UNKNOWN, endpoint)
        raise _no_key("this is no key of ours")

    async def _with_key(self, key: ApiKey, endpoint: Endpoint) -> tuple[Desk, Principal]:
        desk = self._tenants.get(key.ledger)
        if desk is None:
            await self._deny(self.house.desks[0], STRANGER, Denial.UNKNOWN, endpoint)
            raise _no_key("this key opens nothing here")
        found = (await self._access(desk, key.id)).check(key, now())
        if isinstance(found, Denial):
            # An unknown id is a stranger's own invention: it is not put on record.
            who = STRANGER if found is Denial.UNKNOWN else _label("key", key.id)
            await self._deny(desk, who, found, endpoint)
            raise _no_key(f"this key does not hold: {found.value}")
        return desk, Principal(_label("key", found.name, found.key), frozenset(found.scopes))

    async def _with_token(
        self, bearer: Bearer, token: str, endpoint: Endpoint
    ) -> tuple[Desk, Principal]:
        first = self.house.desks[0]
        try:
            claims = await bearer.check(token, now() / 1e6)
        except TokenRejected as error:
            why = Denial.EXPIRED if isinstance(error, TokenExpired) else Denial.UNKNOWN
            await self._deny(first, STRANGER, why, endpoint)
            raise _no_key(str(error)) from None
        except IssuerUnreachable:
            why_not = "the issuer of tokens does not answer; keys of this ledger are good"
            raise Refusal(Problem.UNAVAILABLE, why_not, {"Retry-After": "5"}) from None
        host = urlsplit(claims.issuer).hostname or ""
        name = _label("oidc", f"{claims.subject}@{host}")
        desk = first if claims.ledger is None else self._named(claims.ledger)
        if desk is None:
            await self._deny(first, name, Denial.UNKNOWN, endpoint)
            raise _no_key("this token is for a ledger that is not here")
        return desk, Principal(name, claims.scopes)

    def _named(self, ledger: str) -> Desk | None:
        """Return the desk of a ledger that is named by its origin, or as keys do."""
        for desk in self.house.desks:
            if ledger in (desk.forum.origin, desk.forum.tenant):
                return desk
        return None

    async def _access(self, desk: Desk, key: str) -> Access:
        """Return what is known of keys: of one that is not known, not what was known before."""
        known, arrived = self._known.setdefault(desk.forum.tenant, _Known()), monotonic()
        if known.is_fresh(key, arrived):
            return known.access
        async with known.lock:
            if not known.is_fresh(key, arrived):
                await asyncio.sleep(known.at + _PAUSE_SECONDS - monotonic())
                asked = monotonic()
                known.access = await asyncio.to_thread(desk.forum.access, known.access)
                known.at = asked
        return known.access

    # Whether it is meant for us

    def _is_ours(self, request: Request) -> bool:
        """Tell whether a browser was not led here by a name or a page of somebody else."""
        host = _host_of(request)
        if not host or ("*" not in self.house.hosts and host not in self.house.hosts):
            return False
        origin = request.headers.get("origin")
        # With its port: a page of another program on this machine is a page of somebody else.
        authority = request.headers["host"].lower()
        return origin is None or origin.lower().partition("://")[2] == authority

    def _slow_down(self, desk: Desk, principal: Principal) -> None:
        if principal.local:
            return
        at, rate = monotonic(), self.house.rate
        who = (desk.forum.tenant, principal.name)
        bucket = self._buckets.pop(who, None) or Bucket(2 * rate, at)
        self._buckets[who] = bucket
        if len(self._buckets) > _MOST_BUCKETS:
            # Whoever has not come for the longest time has a full one by now.
            del self._buckets[next(iter(self._buckets))]
        bucket.tokens = min(2 * rate, bucket.tokens + rate * (at - bucket.at))
        bucket.at = at
        if bucket.tokens < 1:
            raise Refusal(Problem.TOO_FAST, f"at most {rate:g} a second", {"Retry-After": "1"})
        bucket.tokens -= 1

    async def _deny(self, desk: Desk, who: str, why: Denial, endpoint: Endpoint) -> None:
        await self.denials.note(desk, who, why, endpoint.name)


def _shown(request: Request) -> str | None:
    """Return what a client shows of itself."""
    header = request.headers.get("authorization", "")
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return value.strip()
    return "" if header else None


def _no_key(why: str) -> Refusal:
    return Refusal(Problem.NO_KEY, why, {"WWW-Authenticate": 'Bearer realm="forum"'})


def is_local(request: Request) -> bool:
    """Tell whether somebody on this machine asks, and not a proxy for somebody elsewhere.

    A proxy that hides both who asks and what for cannot be told apart from a program here: behind
    one, keys have to be required.
    """
    if _host_of(request) not in LOCAL_NAMES or any(map(_FORWARDED, request.headers)):
        return False
    # nginx, left as it comes, names the address that it forwards to as Host, adds no header, and
    # speaks HTTP/1.0; programs of today do not.
    if request.scope.get("http_version") == "1.0":
        return False
    try:
        return ip_address(request.client.host if request.client else "").is_loopback
    except ValueError:
        return False


def _host_of(request: Request) -> str:
    """Return the name in the Host of a request, without port and brackets; nothing if malformed."""
    found = _AUTHORITY(request.headers.get("host", "").lower())
    return found[1].strip("[]") if found else ""


def _label(*parts: str) -> str:
    """Return a name that an entry can hold, the same for nobody else.

    What is no character of a label is percent-encoded; the end of what is too long gives way to a
    digest of all of it.
    """
    name = "/".join(quote(part, safe=_LABEL) for part in parts)
    if len(name) <= _MOST_IN_LABEL:
        return name
    digest = sha256(name.encode()).hexdigest()[:_DIGITS]
    return f"{name[: _MOST_IN_LABEL - _DIGITS - 1]}~{digest}"
