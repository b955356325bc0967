"""OIDC bearer tokens, against an issuer on loopback that has real keys."""

import asyncio
import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from msgspec import structs

from forum.errors import BadSettings, IssuerUnreachable, TokenExpired, TokenRejected
from forum.features.oidc import tokens as module
from forum.features.oidc.section import Issuer
from forum.features.oidc.tokens import (
    CLOCK_LEEWAY_S,
    FAILURE_RETRY_DELAY_S,
    JWKS_MAX_AGE_S,
    MAX_TOKEN_BYTES,
    UNKNOWN_KID_RETRY_DELAY_S,
    OidcTokenVerifier,
    read_issuer,
)
from forum.ledger.kinds import Scope
from forum.section_reader import SectionTables

NOW = 1_800_000_000.0
AUDIENCE = "https://forum.example"
CONFIGURATION = "/realm/.well-known/openid-configuration"
KEYS = "/realm/keys"

Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
Jwk = dict[str, Any]


@cache
def key_for(algorithm: str, which: str = "the issuer's") -> Private:
    """Return a key, always the same one for the same words."""
    if algorithm.startswith("ES"):
        return ec.generate_private_key(ec.SECP256R1() if algorithm == "ES256" else ec.SECP384R1())
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65537, 1024 if which == "short" else 2048)


def public(key: Private, kid: str | None = "one", **members: str) -> Jwk:
    """Return the public part as an issuer shows it."""
    match key:
        case rsa.RSAPrivateKey():
            jwk = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
        case ec.EllipticCurvePrivateKey():
            jwk = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
        case _:
            jwk = OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)
    jwk.pop("key_ops", None)
    return {**jwk, **({"kid": kid} if kid else {}), **members}


@dataclass
class Clock:
    """The time as a test has it."""

    now: float = 1000.0

    def __call__(self) -> float:
        """Return it."""
        return self.now


@dataclass
class Served:
    """An issuer: what it answers under which path, and what it was asked."""

    port: int = 0
    answers: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)
    server: asyncio.Server | None = None
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    at_work: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        """What it calls itself."""
        return f"http://127.0.0.1:{self.port}/realm"

    @property
    def keys(self) -> str:
        """Where its keys are."""
        return self.url.replace("/realm", KEYS)

    @property
    def issuer(self) -> Issuer:
        """The settings that accept it."""
        return Issuer(self.url, AUDIENCE)

    def tokens(self) -> OidcTokenVerifier:
        """Return what is tested."""
        return OidcTokenVerifier(self.issuer, self.clock)

    def show(self, *keys: object) -> None:
        """Replace its keys."""
        self.answers[KEYS] = ok(json.dumps({"keys": keys}).encode())

    def claims(self, **changed: object) -> dict[str, Any]:
        """Return what it says of somebody; None takes a claim away."""
        document = {"iss": self.url, "aud": AUDIENCE, "sub": "ada", "exp": NOW + 300, **changed}
        return {name: value for name, value in document.items() if value is not None}

    def sign(self, key: Private | None = None, kid: str | None = "one", **changed: object) -> str:
        """Return a token with the algorithm ES256."""
        headers = {"kid": kid} if kid else {}
        return jwt.encode(self.claims(**changed), key or key_for("ES256"), "ES256", headers)

    async def start(self) -> None:
        """Listen; after `stop`, under the same address."""
        self.server = await asyncio.start_server(self._take, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        """Be gone."""
        assert self.server
        self.server.close()

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.at_work.add(asyncio.create_task(self._answer(reader, writer)))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
            self.asked.append(path)
            self.was_asked.set()
            await self.may_answer.wait()
            writer.write(self.answers[path])
            await writer.drain()
            await self.may_end.wait()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def ok(body: bytes) -> bytes:
    """Return the answer that has this body."""
    return b"HTTP/1.1 200 x\r\nConnection: close\r\n\r\n" + body


@asynccontextmanager
async def serving() -> AsyncIterator[Served]:
    """Serve an issuer with one key."""
    served = Served()
    await served.start()
    configuration = {"issuer": served.url, "jwks_uri": served.keys}
    served.answers[CONFIGURATION] = ok(json.dumps(configuration).encode())
    served.show(public(key_for("ES256")))
    served.may_answer.set()
    served.may_end.set()
    try:
        yield served
    finally:
        served.stop()
        served.may_answer.set()
        served.may_end.set()
        await asyncio.gather(*served.at_work)


def with_issuer(act: Callable[[Served], Coroutine[Any, Any, None]]) -> None:
    """Run a test beside an issuer."""

    async def run() -> None:
        async with serving() as served:
            await asyncio.wait_for(act(served), 60)

    asyncio.run(run())


async def rejected(tokens: OidcTokenVerifier, token: str, now: float = NOW) -> str:
    """Return why a token is rejected, having looked that nothing of it is told."""
    with pytest.raises(TokenRejected) as caught:
        await tokens.verify(token, now)
    text = str(caught.value)
    assert not any(part and part in text for part in token.split("."))
    return text


def forged(header: object, claims: object, signature: bytes = b"") -> str:
    """Put a token together as no library would."""
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


# Good tokens


@pytest.mark.parametrize(
    "algorithm", ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"]
)
def test_a_token_of_the_issuer_says_who_is_calling(algorithm: str) -> None:
    """Each algorithm that is allowed is checked with the key of its type; the key need not say."""

    async def act(served: Served) -> None:
        served.show(public(key_for(algorithm)))
        document = served.claims(scope="read openid submit", aud=["another", AUDIENCE])
        token = jwt.encode(document, key_for(algorithm), algorithm, {"kid": "one"})

        claims = await served.tokens().verify(token, NOW)

        assert (claims.subject, claims.issuer, claims.expires) == ("ada", served.url, NOW + 300)
        assert claims.scopes == {Scope.READ, Scope.SUBMIT}
        assert claims.ledger is None
        assert served.asked == [CONFIGURATION, KEYS]

    with_issuer(act)


def test_a_token_without_a_key_id_is_good_where_there_is_one_key_only() -> None:
    """With several keys, trying them in turn would let a token choose; so it has to name one."""

    async def act(served: Served) -> None:
        token = served.sign(kid=None)

        assert (await served.tokens().verify(token, NOW)).subject == "ada"
        served.show(public(key_for("ES256")), public(key_for("ES384"), "two"))
        assert "does not name its key" in await rejected(served.tokens(), token)

    with_issuer(act)


def test_the_clocks_may_be_a_minute_apart() -> None:
    """A minute on either side is let pass, and not a second more."""

    async def act(served: Served) -> None:
        tokens, late = served.tokens(), NOW + CLOCK_LEEWAY_S

        await tokens.verify(served.sign(exp=NOW), late - 1)
        await tokens.verify(served.sign(nbf=late, iat=late), NOW)
        with pytest.raises(TokenExpired):
            await tokens.verify(served.sign(exp=NOW), late)
        assert "not come yet" in await rejected(tokens, served.sign(nbf=late + 1))
        assert "not come yet" in await rejected(tokens, served.sign(iat=late + 1))

    with_issuer(act)


# Attacks


def no_signature(served: Served) -> str:
    """Say that a signature is not needed."""
    return forged({"alg": "none", "kid": "one"}, served.claims())


def public_key_as_secret(served: Served) -> str:
    """Take what everybody knows for the secret of an HMAC."""
    pem = (
        key_for("ES256").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    unsigned = forged({"alg": "HS256", "kid": "one"}, served.claims()).removesuffix(".")
    mac = hmac.digest(pem, unsigned.encode(), "sha256")
    return f"{unsigned}.{urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def key_of_its_own(served: Served) -> str:
    """Bring the key along in the header, under a name that the issuer uses."""
    key = key_for("ES256", "a stranger's")
    return jwt.encode(
        served.claims(), key, "ES256", {"kid": "one", "jwk": public(key), "jku": "http://127.0.0.1"}
    )


def another_algorithm(served: Served) -> str:
    """Name a key of the issuer with an algorithm that it is not for."""
    return jwt.encode(served.claims(), key_for("RS256"), "RS256", {"kid": "one"})


def other_claims(served: Served) -> str:
    """Put other claims under a good signature."""
    head, _, signature = served.sign().split(".")
    return f"{head}.{forged({}, served.claims(sub='root')).split('.')[1]}.{signature}"


def critical(served: Served) -> str:
    """Demand that something is understood which nobody understands: RFC 7515, 4.1.11."""
    headers = {"kid": "one", "crit": ["exp"], "exp": 1}
    return jwt.encode(served.claims(), key_for("ES256"), "ES256", headers)


ATTACKS: Mapping[str, tuple[Callable[[Served], str], str]] = {
    "no signature": (no_signature, "algorithm is none of"),
    "the public key as a secret": (public_key_as_secret, "algorithm is none of"),
    "a list as algorithm": (lambda _: forged({"alg": ["ES256"]}, {}), "not a signed token"),
    "a key of its own": (key_of_its_own, "signature does not hold"),
    "another algorithm": (another_algorithm, "not one that its key is for"),
    "other claims": (other_claims, "signature does not hold"),
    "something critical": (critical, "not a signed token"),
    "a key's name made up": (lambda s: s.sign(kid="two"), "no key of the name"),
    "another issuer": (lambda s: s.sign(iss=s.url + "/"), "another issuer"),
    "no issuer": (lambda s: s.sign(iss=None), "missing or malformed"),
    "another audience": (lambda s: s.sign(aud="another"), "another audience"),
    "a part of the audience": (lambda s: s.sign(aud=AUDIENCE[:-1]), "another audience"),
    "no audience": (lambda s: s.sign(aud=None), "missing or malformed"),
    "audiences within audiences": (lambda s: s.sign(aud=[[AUDIENCE]]), "missing or malformed"),
    "no end": (lambda s: s.sign(exp=None), "missing or malformed"),
    "an end that is a text": (lambda s: s.sign(exp="9999999999"), "missing or malformed"),
    "an end past all numbers": (lambda s: s.sign(exp=10**400), "missing or malformed"),
    "nobody": (lambda s: s.sign(sub=None), "missing or malformed"),
    "an empty name": (lambda s: s.sign(sub=""), "missing or malformed"),
    "a name of two lines": (lambda s: s.sign(sub="ada\nroot"), "cannot be shown"),
    "scopes of another form": (lambda s: s.sign(scope={"admin": True}), "neither a text nor"),
    "too long": (lambda s: s.sign(more="x" * MAX_TOKEN_BYTES), "longer than 16384"),
    "not a token": (lambda _: "forum", "not a signed token"),
    "not even text": (lambda _: "\ud800.\ud800.\ud800", "not a signed token"),
    "nothing": (lambda _: "", "not a signed token"),
    "nested deeply": (lambda _: f"{'W1tb' * 4000}.e30.", "not a signed token"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_turned_away_with_its_reason(attack: str) -> None:
    """Whatever is tried, the answer is a rejection that says why and quotes nothing of it."""
    make, why = ATTACKS[attack]

    async def act(served: Served) -> None:
        token = make(served)

        assert why in await rejected(served.tokens(), token)

    with_issuer(act)


def test_a_token_with_any_character_changed_is_rejected() -> None:
    """There is no part of a token that does not count: header, claims, or signature."""

    async def act(served: Served) -> None:
        tokens, token = served.tokens(), served.sign()
        await tokens.verify(token, NOW)

        for at, character in enumerate(token):
            other = "B" if character == "A" else "A"
            with pytest.raises(TokenRejected):
                await tokens.verify(token[:at] + other + token[at + 1 :], NOW)

    with_issuer(act)


def test_only_keys_for_signatures_are_used() -> None:
    """Keys for encryption, secrets, short keys and rubbish may stand beside a good key."""

    async def act(served: Served) -> None:
        short = key_for("RS256", "short")
        shown = [
            {"kty": "oct", "k": "c2VjcmV0", "kid": "oct"},
            public(key_for("ES384"), "enc", use="enc"),
            public(key_for("RS256"), "oaep", alg="RSA-OAEP"),
            public(short, "short"),
            {"kty": "EC", "crv": "P-256", "x": 1, "y": 2, "kid": "broken"},
            {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "broken"},
            "rubbish",
            public(key_for("ES256"), use="sig", alg="ES256"),
        ]
        served.show(*shown)
        tokens = served.tokens()
        made = {
            "enc": jwt.encode(served.claims(), key_for("ES384"), "ES384", {"kid": "enc"}),
            "oaep": jwt.encode(served.claims(), key_for("RS256"), "RS256", {"kid": "oaep"}),
            "oct": served.sign(kid="oct"),
            "broken": served.sign(kid="broken"),
        }
        with pytest.warns(jwt.InsecureKeyLengthWarning):
            weak = jwt.encode(served.claims(), short, "RS256", {"kid": "short"})

        for token in made.values():
            assert "no key of the name" in await rejected(tokens, token)
        assert "signature does not hold" in await rejected(tokens, weak)
        assert (await tokens.verify(served.sign(), NOW)).subject == "ada"

    with_issuer(act)


# Keys come and go


def test_a_new_key_is_found_and_an_old_one_forgotten() -> None:
    """A rotation needs no restart; and strangers cannot have the issuer asked all the time."""

    async def act(served: Served) -> None:
        tokens, new = served.tokens(), key_for("ES256", "the next")
        await tokens.verify(served.sign(), NOW)
        served.show(public(new, "two"))

        assert "no key of the name" in await rejected(tokens, served.sign(new, "two"))
        assert served.asked.count(KEYS) == 1
        served.clock.now += UNKNOWN_KID_RETRY_DELAY_S
        await tokens.verify(served.sign(new, "two"), NOW)
        for made_up in range(20):
            await rejected(tokens, served.sign(new, f"made up {made_up}"))
        assert "no key of the name" in await rejected(tokens, served.sign())
        assert served.asked.count(KEYS) == 2

    with_issuer(act)


def test_a_withdrawn_key_opens_nothing_after_five_minutes() -> None:
    """Keys are looked up again even where every token names a known one."""

    async def act(served: Served) -> None:
        tokens = served.tokens()
        await tokens.verify(served.sign(), NOW)
        served.show(public(key_for("ES256", "the next"), "two"))
        served.clock.now += JWKS_MAX_AGE_S - 1
        await tokens.verify(served.sign(), NOW)
        served.clock.now += 1

        assert "no key of the name" in await rejected(tokens, served.sign())

    with_issuer(act)


def test_many_at_once_ask_the_issuer_once() -> None:
    """They wait for one look-up; and the first of them may hang up without ending it."""

    async def act(served: Served) -> None:
        tokens, token = served.tokens(), served.sign()
        served.may_answer.clear()
        callers = [asyncio.create_task(tokens.verify(token, NOW)) for _ in range(50)]
        await served.was_asked.wait()
        callers[0].cancel()
        served.may_answer.set()

        replies = await asyncio.gather(*callers, return_exceptions=True)

        assert isinstance(replies[0], asyncio.CancelledError)
        assert {getattr(claims, "subject", claims) for claims in replies[1:]} == {"ada"}
        assert served.asked == [CONFIGURATION, KEYS]

    with_issuer(act)


def test_an_issuer_that_is_down_is_missed_when_its_keys_have_run_out() -> None:
    """Until then nobody notices; after it nobody is let in, and it is not asked at every request.

    Somebody who shows a new key meanwhile is told the truth: that it cannot be known.
    """

    async def act(served: Served) -> None:
        tokens, token = served.tokens(), served.sign()
        await tokens.verify(token, NOW)
        served.stop()
        served.clock.now += JWKS_MAX_AGE_S - 1

        await tokens.verify(token, NOW)
        with pytest.raises(IssuerUnreachable):
            await tokens.verify(served.sign(kid="two"), NOW)
        await tokens.verify(token, NOW)
        served.clock.now += FAILURE_RETRY_DELAY_S
        with pytest.raises(IssuerUnreachable, match=served.url):
            await tokens.verify(token, NOW)
        await served.start()
        with pytest.raises(IssuerUnreachable):
            await tokens.verify(token, NOW)
        served.clock.now += FAILURE_RETRY_DELAY_S
        assert (await tokens.verify(token, NOW)).subject == "ada"

    with_issuer(act)


# An issuer that misbehaves


def configured(**members: str) -> bytes:
    """Return what an issuer says of itself."""
    return ok(json.dumps(members).encode())


@pytest.mark.parametrize(
    ("path", "answer", "why"),
    [
        (KEYS, ok(b'{"keys": []}'), "no key that tokens can be checked with"),
        (KEYS, ok(b"[" * 100_000), "not the document"),
        (KEYS, ok(b"<html>"), "not the document"),
        (KEYS, b"HTTP/1.1 500 x\r\n\r\n", "status 500"),
        (KEYS, b"HTTP/1.1 302 x\r\nLocation: /elsewhere\r\n\r\n", "status 302"),
        (KEYS, b"HTTP/1.1 200 x\r\nContent-Encoding: gzip\r\n\r\n", "compressed"),
        (KEYS, b"HTTP/1.1 200 x\r\nContent-Length: 9\r\n\r\n{", "peer closed"),
        (KEYS, b"hello\r\n\r\n", "no keys to check tokens with"),
        (CONFIGURATION, configured(issuer="http://127.0.0.1/", jwks_uri=""), "calls itself"),
    ],
    ids=range(9),
)
def test_an_answer_that_is_no_key_set_is_not_used(path: str, answer: bytes, why: str) -> None:
    """Whatever comes in place of the keys, nobody is let in."""

    async def act(served: Served) -> None:
        served.answers[path] = answer

        with pytest.raises(IssuerUnreachable, match=why):
            await served.tokens().verify(served.sign(), NOW)

    with_issuer(act)


def test_a_key_set_of_ten_megabytes_is_not_read_to_its_end() -> None:
    """It is given up as soon as it is too long to be one: the end of this one never comes."""

    async def act(served: Served) -> None:
        served.answers[KEYS] = ok(b'{"keys": [' + b" " * (10 << 20))
        tokens = OidcTokenVerifier(
            structs.replace(served.issuer, jwks_url=served.keys), served.clock
        )
        served.may_end.clear()

        with pytest.raises(IssuerUnreachable, match="longer than 262144 bytes"):
            await tokens.verify(served.sign(), NOW)

    with_issuer(act)


@pytest.mark.parametrize(
    "address", ["http://192.0.2.1/keys", "file:///etc/passwd", "keys", "http:"]
)
def test_keys_come_over_tls_or_from_this_machine(address: str) -> None:
    """Who sits on the way to keys in the clear could put others there."""

    async def act(served: Served) -> None:
        served.answers[CONFIGURATION] = configured(issuer=served.url, jwks_uri=address)

        with pytest.raises(IssuerUnreachable, match="neither https nor on loopback"):
            await served.tokens().verify(served.sign(), NOW)

    with_issuer(act)


def test_an_issuer_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """An issuer that hangs must not hang the requests that wait for its keys."""
    monkeypatch.setattr(module, "LOOKUP_TIMEOUT_S", 0.1)

    async def act(served: Served) -> None:
        served.may_answer.clear()

        with pytest.raises(IssuerUnreachable, match="too long"):
            await served.tokens().verify(served.sign(), NOW)

    with_issuer(act)


# Settings


def test_roles_of_an_issuer_stand_for_our_scopes() -> None:
    """What is not mapped allows nothing, even if it is called as one of ours."""
    table = {
        "issuer": "https://id.example/realm/",
        "audience": AUDIENCE,
        "jwks_url": "https://id.example/keys?realm=1",
        "scopes_claim": "roles",
        "scopes": {"operators": ["submit", "read"], "auditors": ["read", "audit"], "guests": []},
        "ledger_claim": "tenant",
    }

    async def act(served: Served) -> None:
        told = read_issuer(SectionTables({"oidc": table}))
        assert (told.url, told.jwks_url) == (table["issuer"], table["jwks_url"])
        issuer = structs.replace(told, url=served.url, jwks_url=served.keys)
        tokens = OidcTokenVerifier(issuer, served.clock)
        roles = ["operators", "guests", "admin"]

        claims = await tokens.verify(served.sign(roles=roles, tenant="acme", scope="admin"), NOW)
        nothing = await tokens.verify(served.sign(tenant="acme", scope="admin"), NOW)

        assert claims.scopes == {Scope.SUBMIT, Scope.READ}
        assert claims.ledger == "acme"
        assert nothing.scopes == frozenset()
        assert served.asked == [KEYS]
        for tenant in (None, "", 7):
            assert "which ledger" in await rejected(tokens, served.sign(tenant=tenant))

    with_issuer(act)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"issuer": "http://id.example"}, "issuer: write https"),
        ({"issuer": "https://me:secret@id.example"}, "issuer: write https"),
        ({"issuer": "https://id.example?realm=1"}, "issuer: write https"),
        ({"issuer": "https://id.example:port"}, "issuer: write https"),
        ({"issuer": 7}, "issuer: write a text"),
        ({"jwks_url": "http://id.example/keys"}, "jwks_url: write https"),
        ({"audience": ""}, "audience"),
        ({"scope_claim": "roles"}, "scope_claim"),
        ({"scopes": {"operators": ["everything"]}}, "everything"),
        ({"scopes": {"operators": "read"}}, "scopes"),
    ],
    ids=range(10),
)
def test_settings_that_would_not_protect_are_refused(changed: dict[str, object], why: str) -> None:
    """A mistake here is found when the server starts, and said with the setting that it is in."""
    table = {"issuer": "https://id.example", "audience": AUDIENCE, **changed}

    with pytest.raises(BadSettings, match=r"\[oidc\] ") as caught:
        read_issuer(SectionTables({"oidc": table}))
    assert why in str(caught.value)
    assert "secret" not in str(caught.value)


def test_without_a_mapping_scopes_are_called_as_ours_and_an_empty_one_allows_nothing() -> None:
    """An issuer that knows our scopes needs no table; an empty table is not taken for none."""
    table = {"issuer": "http://localhost:8080/realm", "audience": AUDIENCE}

    assert read_issuer(SectionTables({"oidc": table})).scopes == {
        scope.value: frozenset({scope}) for scope in Scope
    }
    assert read_issuer(SectionTables({"oidc": {**table, "scopes": {}}})).scopes == {}
