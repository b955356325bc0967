"""Verify OIDC bearer tokens with the keys of their issuer.

Until its signature is verified, only two members of a token are used: the key id and the algorithm.
The algorithm must be one that this very key is meant for (RFC 8725, section 3.1), so that neither
`none` nor a public key used as an HMAC secret is accepted; keys and URLs inside a token (`jwk`,
`jku`, `x5u`) are ignored.  The library checks the signature; the claims are checked here, against
the time that the caller passes.

Keys are cached for five minutes.  An attacker who blocks our access to the issuer can thus use a
withdrawn key for at most that long; after that, all tokens are refused until the issuer answers.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Annotated, Any, Final, TypeVar

import httpx2
import jwt
import msgspec

from forum import errors
from forum.config import Settings
from forum.features.oidc.section import Issuer
from forum.ledger.kinds import Scope
from forum.section_reader import SectionTables
from forum.surfaces.http.auth import TokenClaims
from forum.surfaces.http.config_sections import is_confidential_url
from forum.surfaces.http.outgoing_client import make_client

T = TypeVar("T")

_ALGORITHMS_BY_KEY_TYPE: Final[Mapping[tuple[str, str], Sequence[str]]] = {
    ("RSA", ""): ("RS256", "RS384", "RS512", "PS256"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
"""Allowed algorithms for each key type and curve.  Symmetric keys (`oct`) are not accepted."""

_ALGORITHMS: Final = tuple(name for names in _ALGORITHMS_BY_KEY_TYPE.values() for name in names)
_SIGNATURES: Final = jwt.PyJWS(
    _ALGORITHMS, {"verify_signature": True, "enforce_minimum_key_length": True}
)

MAX_TOKEN_BYTES: Final = 16 << 10
MAX_DOCUMENT_BYTES: Final = 256 << 10
_MAX_SUBJECT_LENGTH: Final = 255
"""OpenID Connect Core, section 2."""

CLOCK_LEEWAY_S: Final = 60
"""Allowed difference between the issuer's clock and ours."""

JWKS_MAX_AGE_S: Final = 300
UNKNOWN_KID_RETRY_DELAY_S: Final = 30
"""Delay between two fetches of the keys, so that unknown key ids cannot flood the issuer."""

FAILURE_RETRY_DELAY_S: Final = 5
"""Delay before the next fetch after a failed one, while no valid keys are cached."""

LOOKUP_TIMEOUT_S: Final = 5.0
"""Time limit for a whole fetch, however slowly the response arrives."""


def read_issuer(sections: SectionTables) -> Issuer:
    """Return the section `[oidc]`.  Raises `BadSettings`."""
    issuer = sections.read("oidc", Issuer)
    with sections.errors("oidc"):
        if not is_confidential_url(issuer.url) or set("?#") & set(issuer.url):
            raise ValueError(
                "issuer: write https://HOST/PATH as in its tokens; http is for loopback only"
            )
        if issuer.jwks_url and not is_confidential_url(issuer.jwks_url):
            raise ValueError("jwks_url: write https://HOST/PATH; http is for loopback only")
    return issuer


class _JoseHeader(msgspec.Struct, frozen=True):
    alg: str
    kid: str | None = None


_Instant = Annotated[float, msgspec.Meta(ge=0, lt=1 << 53)]


class _RegisteredClaims(msgspec.Struct, frozen=True):
    """The claims of RFC 7519 that we understand."""

    iss: str
    sub: Annotated[str, msgspec.Meta(min_length=1, max_length=_MAX_SUBJECT_LENGTH)]
    aud: str | list[str]
    exp: _Instant
    nbf: _Instant = 0
    iat: _Instant = 0


class OidcTokenVerifier:
    """Verifies tokens and caches the issuer's keys.  Bound to one event loop."""

    def __init__(self, issuer: Issuer, clock: Callable[[], float] = monotonic) -> None:
        self._issuer, self._clock = issuer, clock
        self._keys: Sequence[_VerificationKey] = ()
        self._fetched = self._tried = -inf
        self._failure: errors.IssuerUnreachable | None = None
        """Why the last fetch failed, if it did."""
        self._refresh_task: asyncio.Task[None] | None = None
        """The fetch in progress; there is at most one."""

    async def verify(self, token: str, now: float) -> TokenClaims:
        """Return the claims of a token that is valid at `now`, in seconds since 1970.

        Raises `TokenRejected`, or `IssuerUnreachable` if the keys cannot be fetched.
        """
        header = _parse_header(token)
        key = await self._find_key(header)
        try:
            payload = _SIGNATURES.decode(token, key, _ALGORITHMS)
        except jwt.PyJWTError:
            raise errors.TokenRejected("its signature does not hold") from None
        return _parse_claims(payload, self._issuer, now)

    async def _find_key(self, header: _JoseHeader) -> jwt.PyJWK:
        if self._clock() - self._fetched >= JWKS_MAX_AGE_S:
            await self._refresh(FAILURE_RETRY_DELAY_S)
        # An unknown key id may belong to a new key, so the keys are fetched again.  The delay
        # between two fetches keeps made-up ids from flooding the issuer with requests.
        named = _keys_with_id(self._keys, header.kid)
        if not named:
            await self._refresh(UNKNOWN_KID_RETRY_DELAY_S)
            named = _keys_with_id(self._keys, header.kid)
        if not named:
            raise errors.TokenRejected("the issuer has no key of the name that it gives")
        for key in named:
            if header.alg in key.by_algorithm:
                return key.by_algorithm[header.alg]
        raise errors.TokenRejected("its algorithm is not one that its key is for")

    async def _refresh(self, pause: float) -> None:
        """Fetch the keys, unless that was done less than `pause` seconds ago.

        Concurrent callers share one fetch.  It is a separate task: a client that disconnects
        neither cancels what others wait for, nor can it cause repeated fetches by disconnecting.
        """
        if self._refresh_task is None and self._clock() - self._tried >= pause:
            self._refresh_task = asyncio.create_task(self._fetch())
        if self._refresh_task is not None:
            await asyncio.shield(self._refresh_task)
        if self._failure is not None:
            raise errors.IssuerUnreachable(*self._failure.args)

    async def _fetch(self) -> None:
        try:
            self._keys = await _fetch_keys(self._issuer)
            self._fetched, self._failure = self._clock(), None
        except errors.IssuerUnreachable as error:
            self._failure = error
        finally:
            self._tried, self._refresh_task = self._clock(), None


def make_token_verifier(settings: Settings) -> OidcTokenVerifier:
    """Return the verifier for the issuer of a project with this section.  Raises `BadSettings`."""
    return OidcTokenVerifier(read_issuer(settings.sections))


def _parse_header(token: str) -> _JoseHeader:
    """Parse the header of a token, which is not trustworthy yet."""
    if len(token) > MAX_TOKEN_BYTES:
        raise errors.TokenRejected(f"it is longer than {MAX_TOKEN_BYTES} characters")
    try:
        header = msgspec.convert(jwt.get_unverified_header(token), _JoseHeader)
    except (jwt.PyJWTError, msgspec.ValidationError, UnicodeError):
        raise errors.TokenRejected("it is not a signed token (JWS) in the compact form") from None
    if header.alg not in _ALGORITHMS:
        raise errors.TokenRejected(f"its algorithm is none of {', '.join(_ALGORITHMS)}")
    return header


def _parse_claims(payload: bytes, issuer: Issuer, now: float) -> TokenClaims:
    """Parse the signed claims and check issuer, audience and times.  Raises `TokenRejected`."""
    try:
        claims = msgspec.json.decode(payload, type=_RegisteredClaims)
        others = msgspec.json.decode(payload, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise errors.TokenRejected(
            "iss, sub, aud, exp, nbf, iat: one is missing or malformed"
        ) from None
    if claims.iss != issuer.url:
        raise errors.TokenRejected("it is from another issuer")
    if issuer.audience not in ([claims.aud] if isinstance(claims.aud, str) else claims.aud):
        raise errors.TokenRejected("it is meant for another audience")
    if not claims.sub.isprintable():
        raise errors.TokenRejected("its subject cannot be shown")
    _check_times(claims, now)
    return TokenClaims(
        subject=claims.sub,
        issuer=claims.iss,
        scopes=_map_scopes(others.get(issuer.scopes_claim, ""), issuer),
        expires=claims.exp,
        ledger=_parse_ledger(others.get(issuer.ledger_claim)) if issuer.ledger_claim else None,
    )


def _check_times(claims: _RegisteredClaims, now: float) -> None:
    if now >= claims.exp + CLOCK_LEEWAY_S:
        raise errors.TokenExpired("its time is over; get a new one from its issuer")
    if max(claims.nbf, claims.iat) > now + CLOCK_LEEWAY_S:
        raise errors.TokenRejected("its time has not come yet; compare the clocks")


def _map_scopes(claim: object, issuer: Issuer) -> frozenset[Scope]:
    values = claim.split() if isinstance(claim, str) else claim
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise errors.TokenRejected("its scopes are neither a text nor a list of texts")
    return frozenset(scope for value in values for scope in issuer.scopes.get(value, ()))


def _parse_ledger(claim: object) -> str:
    if not isinstance(claim, str) or not claim:
        raise errors.TokenRejected("it does not say which ledger it is for")
    return claim


class _Jwk(msgspec.Struct, frozen=True, omit_defaults=True):
    """A public key of RFC 7517, with what we need of it; private parts do not get this far."""

    kty: str
    kid: str | None = None
    use: str = "sig"
    alg: str | None = None
    crv: str = ""
    n: str = ""
    e: str = ""
    x: str = ""
    y: str = ""


class _KeySet(msgspec.Struct, frozen=True):
    keys: list[object]


class _DiscoveryDocument(msgspec.Struct, frozen=True):
    """What an issuer says of itself: OpenID Connect Discovery, section 3."""

    issuer: str
    jwks_uri: str


@dataclass(frozen=True, slots=True)
class _VerificationKey:
    """A key, prepared for each of its algorithms."""

    kid: str | None
    by_algorithm: Mapping[str, jwt.PyJWK]


def _keys_with_id(keys: Sequence[_VerificationKey], kid: str | None) -> Sequence[_VerificationKey]:
    """Return the keys with this id; there may be one of each type (RFC 7517, section 4.5)."""
    if kid is not None:
        return [key for key in keys if key.kid == kid]
    if len(keys) > 1:
        raise errors.TokenRejected("it does not name its key, and the issuer has several")
    return keys


def _parse_key(data: object) -> _VerificationKey | None:
    """Return a signature key, or None for keys of other kinds, which a key set may contain."""
    try:
        jwk = msgspec.convert(data, _Jwk)
        fitting = _ALGORITHMS_BY_KEY_TYPE.get((jwk.kty, jwk.crv), ()) if jwk.use == "sig" else ()
        members = msgspec.to_builtins(jwk)
        # A token names its own algorithm, so its author could choose a weaker one than the key is
        # meant for (RFC 8725 section 3.1).
        ready = {name: jwt.PyJWK(members, name) for name in fitting if jwk.alg in (None, name)}
    except (msgspec.ValidationError, jwt.PyJWTError):
        return None
    return _VerificationKey(jwk.kid, ready) if ready else None


async def _fetch_keys(issuer: Issuer) -> Sequence[_VerificationKey]:
    """Fetch the keys of an issuer.  Raises `IssuerUnreachable`."""
    try:
        async with asyncio.timeout(LOOKUP_TIMEOUT_S):
            address = issuer.jwks_url or await _discover_jwks_url(issuer)
            key_set = await _fetch_document(address, _KeySet)
    except TimeoutError:
        raise errors.IssuerUnreachable(issuer.url, "it takes too long to answer") from None
    keys = [key for key in map(_parse_key, key_set.keys) if key is not None]
    if not keys:
        raise errors.IssuerUnreachable(address, "it has no key that tokens can be checked with")
    return keys


async def _discover_jwks_url(issuer: Issuer) -> str:
    """Return the URL of an issuer's keys: OpenID Connect Discovery, section 4."""
    address = f"{issuer.url.rstrip('/')}/.well-known/openid-configuration"
    document = await _fetch_document(address, _DiscoveryDocument)
    if document.issuer != issuer.url:
        raise errors.IssuerUnreachable(address, f"it calls itself {document.issuer[:200]!r}")
    if not is_confidential_url(document.jwks_uri):
        raise errors.IssuerUnreachable(address, "its jwks_uri is neither https nor on loopback")
    return document.jwks_uri


async def _fetch_document(address: str, into: type[T]) -> T:
    """Fetch and decode a document.  Raises `IssuerUnreachable`."""
    try:
        accepted = {"Accept": "application/json"}
        async with (
            await make_client(address, LOOKUP_TIMEOUT_S, accepted) as client,
            client.stream("GET", address) as response,
        ):
            body = await _read_body(response)
        return msgspec.json.decode(body, type=into)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        why = "what it answers is not the document that belongs there"
    except _DocumentRejected as error:
        why = str(error)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        why = str(error) or type(error).__name__
    except (ImportError, OSError, ValueError):
        # The text of these errors may quote the URL of a proxy, including its password.
        why = "the proxy or the certificates that are set up here fail"
    raise errors.IssuerUnreachable(address, why)


class _DocumentRejected(Exception):
    """Raised for a response that is not accepted."""


async def _read_body(response: httpx2.Response) -> bytes:
    if response.status_code != 200:
        raise _DocumentRejected(f"it answers with status {response.status_code}")
    # A compressed body could expand to a thousand times the
    # size that we count.  The request accepts only `identity`.
    if response.headers.get("content-encoding", "identity") != "identity":
        raise _DocumentRejected("its answer is compressed, which nobody asked for")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_DOCUMENT_BYTES:
            raise _DocumentRejected(f"its answer is longer than {MAX_DOCUMENT_BYTES} bytes")
    return bytes(body)
