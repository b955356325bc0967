"""The door of a server: hosts, machines, keys that end, tokens, and what strangers leave behind."""

import asyncio
import json
import logging
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from statistics import median
from time import perf_counter, time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import OKPAlgorithm
from starlette.testclient import TestClient

from forum.app import Forum
from forum.errors import KeyUnreadable, StoreFailed
from forum.features.oidc.tokens import OidcTokenVerifier, read_issuer
from forum.ledger.access import ACCESS_STRAND
from forum.ledger.entry import LOG_RUN, Entry, leaf_of
from forum.ledger.kinds import AccessDenialFacts, DenialReason, RedactionReason, Scope
from forum.section_reader import SectionTables
from forum.surfaces.http.auth import KEY_CACHE_TTL_S, LOOPBACK_HOSTS, ServerConfig
from forum.surfaces.http.denial_log import MAX_DENIAL_KEYS, OTHER_PRINCIPALS, DenialRecorder
from forum.surfaces.http.tenant import Tenant
from tests.e2e.project import eventually
from tests.support import SOON, free_port
from tests.surfaces.halls import EVERYTHING, hall, lone_hall, open_forum, showing, turned_away
from tests.verify.samples import standalone, stranger

RUNS = "/api/v1/runs"
ASK = {"request": "Hi.", "route": False}


@pytest.fixture
def forum(tmp_path: Path) -> Iterator[Forum]:
    """Return a ledger of its own."""
    with open_forum(tmp_path) as opened:
        yield opened


# Nobody is somebody by an address


HEADERS_OF_THIS_MACHINE: list[Mapping[str, str]] = [
    {},
    {"Host": "127.0.0.1:8080"},
    {"Host": "[::1]:8080"},
    {"Origin": "http://localhost"},
    {"X-Forwarded-For": "127.0.0.1"},
    {"Forwarded": "for=127.0.0.1"},
    {"Authorization": "Basic b3BlbjpzZXNhbWU="},
    {"Authorization": "Bearer"},
    {"Authorization": "Bearer sk-whatever-a-chat-client-has"},
    {"Authorization": f"Bearer forum-operator_{'0' * 64}"},
]


@pytest.fixture(scope="module")
def lounge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Serve a ledger to those who show nothing, on this machine and under another name."""
    with (
        open_forum(tmp_path_factory.mktemp("lounge")) as forum,
        hall(ServerConfig([Tenant(forum)], LOOPBACK_HOSTS | {"forum.example"})) as client,
    ):
        forum.access.operator_token()
        yield client


@pytest.mark.parametrize("headers", HEADERS_OF_THIS_MACHINE, ids=str)
def test_a_program_on_this_machine_needs_a_token_like_everybody(
    lounge: TestClient, headers: Mapping[str, str]
) -> None:
    """An agent's program runs here too: it must not approve its own gate, nor make a key."""
    asked = [("GET", "/api/v1/gates"), ("POST", f"{RUNS}/some/gate"), ("POST", "/api/v1/keys")]
    asked += [("POST", RUNS), ("GET", RUNS), ("GET", "/metrics"), ("GET", "/v1/models")]
    answers = [lounge.request(method, path, headers=headers) for method, path in asked]

    assert [answer.status_code for answer in answers] == [401] * len(asked)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "LOCALHOST"}, 401),
        ({"Host": "forum.example"}, 401),
        ({"Host": "localhost:8080", "Origin": "http://localhost:8080"}, 401),
        ({"Host": "localhost:8080", "Origin": "http://localhost:3000"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example@localhost"}, 403),
        ({"Host": "localhost.evil.example"}, 403),
        ({"Host": "[::1"}, 403),
        ({"Host": ""}, 403),
    ],
    ids=str,
)
def test_a_page_that_a_browser_was_led_to_is_refused_before_anything_is_shown(
    lounge: TestClient, headers: Mapping[str, str], status: int
) -> None:
    """By the name that it asks for, or by where it comes from."""
    assert lounge.get(RUNS, headers=headers).status_code == status


@pytest.mark.parametrize("peer", ["127.0.0.1", "203.0.113.5"])
def test_the_operators_token_is_good_from_everywhere_and_nothing_else_is(
    forum: Forum, peer: str
) -> None:
    """What is shown decides, and not who forwards it."""
    with hall(ServerConfig([Tenant(forum)]), peer) as client:
        without = client.get(RUNS)
        shown = client.get(RUNS, headers=showing(forum.access.operator_token()))
        made = client.post(
            "/api/v1/keys",
            json={"name": "ci", "scopes": ["read"]},
            headers=showing(forum.access.operator_token()),
        )

    assert without.status_code == 401
    assert without.headers["www-authenticate"].startswith("Bearer")
    assert (shown.status_code, made.status_code) == (200, 201)
    assert [e.actor for e in access_entries(forum)][-1] == "operator"


def access_entries(forum: Forum) -> list[Entry[Any]]:
    """Return the grants and revocations of a ledger."""
    return [
        forum.ledger.kinds.read(data) for data in forum.store.read_strand(LOG_RUN, ACCESS_STRAND)
    ]


def test_a_token_that_was_replaced_opens_nothing(forum: Forum) -> None:
    """At once, in servers that run."""
    with hall(ServerConfig([Tenant(forum)])) as client:
        old = forum.access.operator_token()
        before = client.get(RUNS, headers=showing(old))
        new = forum.access.operator_token(rotate=True)
        after = [client.get(RUNS, headers=showing(token)) for token in (old, new)]

    assert before.status_code == 200
    assert [answer.status_code for answer in after] == [401, 200]


def test_a_token_that_others_could_read_opens_nothing(forum: Forum, tmp_path: Path) -> None:
    """Somebody else may have it by now: it is replaced, not only hidden again."""
    token = forum.access.operator_token()
    (path,) = (tmp_path / "state/projects").glob("*.token")
    mode = path.stat().st_mode & 0o777
    path.chmod(0o644)
    with hall(ServerConfig([Tenant(forum)])) as client:
        answer = client.get(RUNS, headers=showing(token))
    with pytest.raises(KeyUnreadable, match="forum token --rotate"):
        forum.access.operator_token()

    assert mode == 0o600
    assert answer.status_code == 401
    assert forum.access.operator_token(rotate=True) == forum.access.operator_token() != token


def test_each_project_has_a_token_of_its_own(tmp_path: Path) -> None:
    """It opens its own ledger wherever several are served, and no other."""
    with open_forum(tmp_path / "one") as one, open_forum(tmp_path / "two") as two:
        config = ServerConfig([Tenant(one), Tenant(two)])
        with hall(config) as client:
            taken = client.post(RUNS, json=ASK, headers=showing(two.access.operator_token()))
        runs = [len(forum.reads.recent_runs(None, 10)) for forum in (one, two)]

    assert taken.status_code == 202
    assert runs == [0, 1]


def test_an_open_loopback_lets_anybody_submit_and_read_and_nothing_else(forum: Forum) -> None:
    """A demo needs no key; a gate still needs somebody who may approve."""
    gated = {"request": "Hi.", "gates": {"what": ["plan"]}}
    with hall(ServerConfig([Tenant(forum)], open_loopback=True)) as client:
        asked = client.post(RUNS, json=ASK)
        read = client.get(RUNS, headers=showing("sk-whatever-a-chat-client-has"))
        run = client.post(RUNS, json=gated).json()["run"]
        refused = [
            client.post(f"{RUNS}/{run}/gate", json={"subject": "plan", "digest": "0" * 64,
                                                    "answer": "approve"}),
            client.post("/api/v1/keys", json={"name": "me", "scopes": ["admin"]}),
            client.get("/api/v1/keys"),
            client.post(f"{RUNS}/{run}/bundle"),
        ]  # fmt: skip
        itself = client.post(RUNS, json=gated | {"gates": {"what": ["plan"], "default": "approve"}})
        wrong = client.get(
            RUNS, headers=showing(f"forum_{forum.access.tenant}_{'0' * 12}_{'0' * 64}")
        )

    assert (asked.status_code, read.status_code) == (202, 200)
    assert [answer.status_code for answer in refused] == [403] * len(refused)
    assert (itself.status_code, wrong.status_code) == (422, 401)


# Which ledgers there are


def test_a_stranger_cannot_learn_which_ledgers_a_server_has(tmp_path: Path) -> None:
    """Neither by what is answered, nor by how long it takes, nor by what is written for it."""
    with open_forum(tmp_path / "one") as one, open_forum(tmp_path / "two") as two:
        with hall(ServerConfig([Tenant(one), Tenant(two)])) as client:
            names = [two.access.tenant, "0badc0de", one.access.tenant, "deadbeef"]
            keys = [f"forum_{name}_{'0' * 12}_{'0' * 64}" for name in names]
            answers = [client.get(RUNS, headers=showing(key)) for key in keys]
            times: dict[str, list[float]] = {}
            for key in keys:
                for _ in range(7):
                    began = perf_counter()
                    client.get(RUNS, headers=showing(key))
                    times.setdefault(key, []).append(perf_counter() - began)
        written = [len(turned_away(forum)) for forum in (one, two)]

    assert {(a.status_code, a.text, a.headers["content-length"]) for a in answers} == {
        (401, answers[0].text, answers[0].headers["content-length"])
    }
    # Asked again at once, each waits until its keys may be read again, which takes 50 ms.
    assert all(median(found) > 0.03 for found in times.values()), times
    assert written[0] >= 1
    assert written[1] == 0


def test_a_stranger_cannot_learn_which_ledgers_a_server_has_while_a_database_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every unknown key waits as long for the same answer; a key of another ledger stays good."""
    away = threading.Event()
    with open_forum(tmp_path / "one") as one, open_forum(tmp_path / "two") as two:
        good, new = (one.access.grant(name, {Scope.READ}) for name in ("good", "new"))
        with hall(ServerConfig([Tenant(one), Tenant(two)])) as client:
            assert client.get(RUNS, headers=showing(good)).status_code == 200
            monkeypatch.setattr(two.access, "read_access", lambda _: away.wait(SOON) and None)
            try:
                names = [two.access.tenant, "0badc0de", one.access.tenant, "deadbeef", "12345678"]
                keys = [f"forum_{name}_{'0' * 12}_{'0' * 64}" for name in names]
                answers, times = [], []
                for key in keys:
                    began = perf_counter()
                    answers.append(client.get(RUNS, headers=showing(key)))
                    times.append(perf_counter() - began)
                newer = one.access.grant("newer", {Scope.READ})
                opened = [client.get(RUNS, headers=showing(key)) for key in (good, new, newer)]
            finally:
                away.set()

    assert [answer.status_code for answer in answers] == [503] * len(names)
    assert len({(a.text, a.headers["content-length"]) for a in answers}) == 1
    assert max(times) < 10
    assert max(times) - min(times) < 1, times
    assert [answer.status_code for answer in opened] == [200] * 3


def test_a_probe_may_call_the_server_by_any_name(lounge: TestClient) -> None:
    """Balancers go by addresses; what they ask for tells nothing of any ledger."""
    eventually(lambda: lounge.get("/readyz").status_code == 200)
    answers = [lounge.get(path, headers={"Host": "10.0.0.7:80"}) for path in ("/livez", "/readyz")]

    assert [answer.status_code for answer in answers] == [200, 200]


# Keys that end, and what may be done with them


def test_a_key_that_is_revoked_elsewhere_ends_here(tmp_path: Path) -> None:
    """Servers share nothing but the ledger; a stolen key has a second left."""
    with lone_hall(tmp_path) as (forum, client), open_forum(tmp_path) as elsewhere:
        key = forum.access.grant("ci", {Scope.READ})
        before = client.get(RUNS, headers=showing(key)).status_code
        elsewhere.access.revoke(key.id)
        eventually(lambda: client.get(RUNS, headers=showing(key)).status_code == 401)

    assert before == 200
    assert KEY_CACHE_TTL_S <= 1


def test_a_key_ends_with_its_time(tmp_path: Path) -> None:
    """By the clock of the server, without anybody's doing."""
    with lone_hall(tmp_path) as (forum, client):
        key = forum.access.grant("ci", {Scope.READ}, seconds=2)
        before = client.get(RUNS, headers=showing(key)).status_code
        eventually(lambda: client.get(RUNS, headers=showing(key)).status_code == 401)

    assert before == 200


def test_entries_name_the_key_by_which_somebody_came(tmp_path: Path) -> None:
    """Whatever it is called: what a label cannot hold is written otherwise, never left out."""
    with lone_hall(tmp_path) as (forum, client):
        actors = {}
        for name in ("ci", "a/b", "50%", "Zoë", 'a "b"\\', "x" * 300):
            key = forum.access.grant(name, {Scope.SUBMIT})
            asked = client.post(RUNS, json=ASK, headers=showing(key))
            run = asked.json()["run"]
            entries = map(forum.ledger.kinds.read, forum.store.read_strand(run, "main"))
            actors[name] = next(e.actor for e in entries if e.kind == "accepted/1"), key.id

    shown = {name: actor.replace(key, "ID") for name, (actor, key) in actors.items()}
    assert shown.pop("x" * 300).startswith("key/xxxx")
    assert shown == {
        "ci": "key/ci/ID",
        "a/b": "key/a%2Fb/ID",
        "50%": "key/50%25/ID",
        "Zoë": "key/Zo%C3%AB/ID",
        'a "b"\\': "key/a%20%22b%22%5C/ID",
    }


def test_an_idempotency_key_that_nobody_could_repeat_is_refused(tmp_path: Path) -> None:
    """One that is cut or changed on its way would have the work done twice."""
    given = [b"", b"a b", b"\x7f", b"x" * 201, b"\xe9"]
    with lone_hall(tmp_path, operator=True) as (_, client):
        answers = [client.post(RUNS, json=ASK, headers={b"Idempotency-Key": key}) for key in given]

    assert [answer.status_code for answer in answers] == [400] * len(given)


def test_each_key_has_its_own_rate(forum: Forum) -> None:
    """One that asks without end is told to wait, and nobody else notices."""
    hasty, other = (
        forum.access.grant("hasty", {Scope.READ}),
        forum.access.grant("other", {Scope.READ}),
    )
    with hall(ServerConfig([Tenant(forum)], rate=0.5)) as client:
        responses = [client.get(RUNS, headers=showing(hasty)) for _ in range(3)]
        calm = client.get(RUNS, headers=showing(other))

    assert [answer.status_code for answer in responses] == [200, 429, 429]
    assert responses[1].headers["retry-after"] == "1"
    assert calm.status_code == 200


# Those who were turned away


@pytest.mark.slow
def test_a_flood_is_a_few_entries_with_a_number(tmp_path: Path) -> None:
    """Who has no key can have two entries written in a minute, and not a thousand."""
    with lone_hall(tmp_path) as (_, client):
        key = f"forum_nowhere_{'0' * 12}_{'0' * 64}"
        for nth in range(1000):
            client.get(RUNS, headers=showing(key) if nth % 2 else {})

    with open_forum(tmp_path) as forum:
        entries = turned_away(forum)
    assert [turned.facts.times for turned in entries] == [1, 999]
    assert {(turned.actor, turned.facts.who) for turned in entries} == {("stranger", "stranger")}
    assert {(t.facts.why, t.facts.door) for t in entries} == {(DenialReason.UNKNOWN, "list_runs")}


def test_who_hangs_up_leaves_no_line_behind(caplog: pytest.LogCaptureFixture) -> None:
    """A line for each piece that nobody takes: whoever hangs up often would fill a disk."""
    import_module("forum.surfaces.http.server_process")

    async def talk_to_nobody() -> None:
        ours, theirs = socket.socketpair()
        _, writer = await asyncio.open_connection(sock=ours)
        theirs.close()
        for _ in range(20):
            writer.write(b"piece")
        writer.transport.abort()

    with caplog.at_level(logging.WARNING):
        asyncio.run(talk_to_nobody())

    assert [record.message for record in caplog.records if record.name == "asyncio"] == []


def test_who_was_turned_away_is_told_by_name_and_reason(tmp_path: Path) -> None:
    """An auditor asks who tried what; a made-up name of a key is nobody's."""
    with lone_hall(tmp_path) as (forum, client):
        reader, old = (
            forum.access.grant("r", {Scope.READ}),
            forum.access.grant("o", EVERYTHING, seconds=-1),
        )
        gone = forum.access.grant("g", EVERYTHING)
        forum.access.revoke(gone.id)
        client.post(RUNS, json=ASK, headers=showing(reader))
        for key in (old, gone):
            client.get(RUNS, headers=showing(key))
        client.get(RUNS, headers=showing(f"forum_{forum.access.tenant}_invented_{'0' * 64}"))
        client.get(RUNS, headers={"Host": "evil.example"})
        found = [(t.facts.who, t.facts.why.value, t.facts.door) for t in turned_away(forum)]

    assert found == [
        (f"key/r/{reader.id}", "scope", "create_run"),
        (f"key/{old.id}", "expired", "list_runs"),
        (f"key/{gone.id}", "revoked", "list_runs"),
        ("stranger", "unknown", "list_runs"),
        ("stranger", "elsewhere", "list_runs"),
    ]


def test_what_was_counted_is_told_when_its_time_is_over(forum: Forum) -> None:
    """A flood that has ended is on record too, though nobody comes any more."""

    async def flood() -> list[int]:
        denials, tenant = DenialRecorder(window=0.05), Tenant(forum)
        async with denials.flush_periodically():
            for _ in range(7):
                await denials.record(tenant, "stranger", DenialReason.UNKNOWN, "list_runs")
            await asyncio.to_thread(
                eventually, lambda: sum(t.facts.times for t in turned_away(forum)) == 7
            )
            return [turned.facts.times for turned in turned_away(forum)]

    assert asyncio.run(flood()) == [1, 6]


class Slow:
    """Puts denials on record as soon as it may."""

    def __init__(self, forum: Forum, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.gate = threading.Event(), threading.Event()
        self._deny = forum.access.record_denial
        monkeypatch.setattr(forum.access, "record_denial", self)

    def __call__(self, denied: AccessDenialFacts, actor: str) -> None:
        """Put one on record."""
        self.begun.set()
        self.gate.wait(SOON)
        self._deny(denied, actor)


def test_who_comes_again_while_others_are_told_is_counted(
    forum: Forum, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To write takes time, in which nothing of what was read before may be relied on."""
    slow = Slow(forum, monkeypatch)

    async def scene() -> None:
        denials, tenant = DenialRecorder(), Tenant(forum)
        slow.gate.set()
        for who in ("ann", "ann", "bob"):
            await denials.record(tenant, who, DenialReason.SCOPE, "create_run")
        slow.gate.clear()
        slow.begun.clear()
        flushing = asyncio.create_task(denials.flush())
        await asyncio.to_thread(slow.begun.wait, SOON)
        await denials.record(tenant, "bob", DenialReason.SCOPE, "create_run")
        slow.gate.set()
        await flushing
        await denials.flush()

    asyncio.run(scene())

    counted = [(turned.facts.who, turned.facts.times) for turned in turned_away(forum)]
    assert counted == [("ann", 1), ("bob", 1), ("ann", 1), ("bob", 1)]


def test_who_is_being_told_is_not_told_again(forum: Forum, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window may end meanwhile: one time must not become two, nor later less than none."""
    slow = Slow(forum, monkeypatch)

    async def scene() -> None:
        denials, tenant = DenialRecorder(), Tenant(forum)
        noting = asyncio.create_task(
            denials.record(tenant, "ann", DenialReason.SCOPE, "create_run")
        )
        await asyncio.to_thread(slow.begun.wait, SOON)
        flushing = asyncio.create_task(denials.flush())
        await asyncio.sleep(0)
        slow.gate.set()
        await asyncio.gather(noting, flushing)
        await denials.flush()

    asyncio.run(scene())

    assert [turned.facts.times for turned in turned_away(forum)] == [1]


def test_what_could_not_be_told_is_told_later(
    forum: Forum, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that restarts does not make anybody welcome."""
    deny, away = forum.access.record_denial, [True, True]

    def lose(denied: AccessDenialFacts, actor: str) -> None:
        if away:
            away.pop()
            raise StoreFailed("appending", "the connection broke")
        deny(denied, actor)

    monkeypatch.setattr(forum.access, "record_denial", lose)

    async def scene() -> None:
        denials, tenant = DenialRecorder(), Tenant(forum)
        with pytest.raises(StoreFailed):
            await denials.record(tenant, "ann", DenialReason.SCOPE, "create_run")
        with pytest.raises(StoreFailed):
            await denials.flush()
        await denials.record(tenant, "ann", DenialReason.SCOPE, "create_run")
        await denials.flush()

    asyncio.run(scene())

    assert [turned.facts.times for turned in turned_away(forum)] == [2]


def test_those_who_come_under_many_names_are_counted_together(
    forum: Forum, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever can make up subjects of tokens cannot make the memory of a server grow."""
    monkeypatch.setattr("forum.surfaces.http.denial_log.MAX_DENIAL_KEYS", 3)

    async def crowd() -> None:
        denials, tenant = DenialRecorder(), Tenant(forum)
        async with denials.flush_periodically():
            for nth in range(9):
                await denials.record(tenant, f"oidc/{nth}", DenialReason.SCOPE, "create_run")

    asyncio.run(crowd())

    counted = [(turned.facts.who, turned.facts.times) for turned in turned_away(forum)]
    assert counted == [
        ("oidc/0", 1),
        ("oidc/1", 1),
        ("oidc/2", 1),
        (OTHER_PRINCIPALS, 1),
        (OTHER_PRINCIPALS, 5),
    ]
    assert MAX_DENIAL_KEYS >= 100


# Tokens


class Issuer:
    """Signs tokens, and shows its key on loopback."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._key = Ed25519PrivateKey.generate()
        jwk = OKPAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        self.keys = json.dumps({"keys": [{**jwk, "kid": "one"}]}).encode()

    def token(self, subject: str = "ann", *, seconds: float = 60, **claims: object) -> str:
        """Return a token with the scope `read`, unless the claims say otherwise."""
        document = {"iss": self.url, "aud": "forum", "sub": subject, "exp": time() + seconds}
        whole = {**document, "scope": "read", **claims}
        return jwt.encode(whole, self._key, "EdDSA", headers={"kid": "one"})

    def house(self, *forums: Forum, **settings: str) -> ServerConfig:
        """Return a house that believes it."""
        table = {"issuer": self.url, "audience": "forum", "jwks_url": f"{self.url}/keys"}
        bearer = OidcTokenVerifier(read_issuer(SectionTables({"oidc": table | settings})))
        return ServerConfig([Tenant(forum) for forum in forums], bearer=bearer)


@contextmanager
def issuing() -> Iterator[Issuer]:
    """Run an issuer for a while."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(issuer.keys)

        def log_message(self, *_: object, **__: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        issuer = Issuer(server.server_port)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()


def test_a_token_opens_what_its_scopes_say(forum: Forum) -> None:
    """The issuer says who it is and what that one may do; it is checked, and on record."""
    with issuing() as issuer, hall(issuer.house(forum)) as client:
        read = client.get(RUNS, headers=showing(issuer.token()))
        refused = client.post(RUNS, json=ASK, headers=showing(issuer.token()))
        over = client.get(RUNS, headers=showing(issuer.token(seconds=-3600)))
        foreign = client.get(RUNS, headers=showing(issuer.token(aud="others")))
        found = [(t.facts.who, t.facts.why.value) for t in turned_away(forum)]

    assert [read.status_code, refused.status_code] == [200, 403]
    assert [over.status_code, foreign.status_code] == [401, 401]
    assert found == [
        ("oidc/ann@127.0.0.1", "scope"),
        ("stranger", "expired"),
        ("stranger", "unknown"),
    ]


def test_subjects_that_differ_have_names_that_differ(forum: Forum) -> None:
    """An issuer may call people what it likes; two of them are never one in the record."""
    subjects = ["a/b", "a%2Fb", "Zoë M", 'q"q', "x" * 250 + "1", "x" * 250 + "2"]
    with issuing() as issuer, hall(issuer.house(forum)) as client:
        for subject in subjects:
            client.post(RUNS, json=ASK, headers=showing(issuer.token(subject)))
        names = {turned.actor for turned in turned_away(forum)}

    assert len(names) == len(subjects)
    assert {"oidc/a%2Fb@127.0.0.1", "oidc/a%252Fb@127.0.0.1"} < names
    assert all(len(name) <= 128 for name in names)


def test_a_token_is_for_the_ledger_that_it_names(tmp_path: Path) -> None:
    """By the origin of the log, or as its keys have it; for the first one, if nobody asks."""
    with (
        issuing() as issuer,
        open_forum(tmp_path / "one") as one,
        open_forum(tmp_path / "two") as two,
    ):
        with hall(issuer.house(one, two, ledger_claim="ledger")) as client:
            for ledger in (two.origin, two.access.tenant):
                token = issuer.token(ledger=ledger, scope="submit read")
                client.post(RUNS, json=ASK, headers=showing(token))
            elsewhere = client.get(RUNS, headers=showing(issuer.token(ledger="nowhere")))
            unsaid = client.get(RUNS, headers=showing(issuer.token()))
        with hall(issuer.house(one, two)) as client:
            first = client.get(RUNS, headers=showing(issuer.token(ledger=two.origin)))
        runs = [len(forum.reads.recent_runs(None, 10)) for forum in (one, two)]

    assert runs == [0, 2]
    assert [elsewhere.status_code, unsaid.status_code] == [401, 401]
    assert first.json()["runs"] == []


def test_an_issuer_that_is_away_keeps_no_key_out(forum: Forum) -> None:
    """Nobody is let in on a word that cannot be checked; keys need nobody else."""
    away = Issuer(free_port())
    key = forum.access.grant("ci", {Scope.READ})
    with hall(away.house(forum)) as client:
        unknown = client.get(RUNS, headers=showing(away.token()))
        response = client.get(RUNS, headers=showing(key))

    assert (unknown.status_code, unknown.headers["retry-after"]) == (503, "5")
    assert response.status_code == 200


# Decisions


def test_a_decision_says_by_what_right_it_was_made_and_not_by_whom(forum: Forum) -> None:
    """Who a person is stands in a body that can be erased; the entry names nobody."""
    gated = {"request": "Hi.", "route": False, "gates": {"what": ["plan"]}}
    approver = forum.access.grant("boss", {Scope.APPROVE})
    with issuing() as issuer:
        config = replace(issuer.house(forum), desks=[Tenant(forum, forum.runs.run_worker)])
        token = issuer.token("ann@example.com", scope="approve")
        with hall(config, operator=True) as client:
            runs = [client.post(RUNS, json=gated).json()["run"] for _ in range(3)]
            for run, shown in zip(
                runs, (forum.access.operator_token(), str(approver), token), strict=True
            ):
                forum.reads.follow_run(run, patience=SOON)
                digest = forum.reads.read_gate(run, "plan")[0].digest
                document = {"subject": "plan", "answer": "approve", "digest": digest}
                done = client.post(f"{RUNS}/{run}/gate", json=document, headers=showing(shown))
                assert done.status_code == 200, done.text
            for run in runs:
                assert forum.reads.follow_run(run, patience=SOON).outcome is not None
        rows = [list(forum.store.read_strand(run, "gate/plan"))[-1] for run in runs]

    entries = [forum.ledger.kinds.read(row) for row in rows]
    assert [(entry.kind, entry.facts.by.value) for entry in entries] == [
        ("gate.decision/2", "operator"),
        ("gate.decision/2", "key"),
        ("gate.decision/2", "person"),
    ]
    assert [entry.actor for entry in entries] == ["operator", f"key/boss/{approver.id}", "person"]
    bodies = forum.reads.bodies_at(runs[2], "gate/plan", "decision")
    assert json.loads(bodies["identity"]) == {"subject": "ann@example.com", "issuer": issuer.url}
    assert b"ann" not in rows[2]
    assert [forum.runs.replay(run) for run in runs] == [[], [], []]
    forum.log.redact(leaf_of(rows[2]).hex(), "identity", RedactionReason.REQUEST)
    assert forum.runs.replay(runs[2]) == []
    report = standalone.verify(forum.log.export(runs[2]), stranger(forum.log.read_trust()))
    assert report["intact"]["state"] == "holds"
