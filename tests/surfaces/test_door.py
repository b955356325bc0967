"""The door of a server: hosts, machines, keys that end, tokens, and what strangers leave behind."""

import asyncio
import json
import logging
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from time import time

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import OKPAlgorithm
from starlette.testclient import TestClient
from starlette.types import Receive, Send
from starlette.types import Scope as ASGIScope

from forum.app import Forum
from forum.errors import StoreFailed
from forum.ledger import AccessDenied, Denial, Scope
from forum.surfaces.http.denials import MOST_CASES, OTHERS, Denials
from forum.surfaces.http.desk import Desk
from forum.surfaces.http.door import FRESH_SECONDS, LOCAL_NAMES, House
from forum.surfaces.http.server import make_app
from forum.surfaces.http.tokens import Tokens, read_issuer
from tests.e2e.project import eventually
from tests.support import SOON, free_port
from tests.surfaces.halls import EVERYTHING, hall, lone_hall, open_forum, showing, turned_away

RUNS = "/api/v1/runs"
ASK = {"request": "Hi.", "route": False}


@pytest.fixture
def forum(tmp_path: Path) -> Iterator[Forum]:
    """Return a ledger of its own."""
    with open_forum(tmp_path) as opened:
        yield opened


# Who needs no key


@pytest.fixture(scope="module")
def lounge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Serve a ledger that needs no key on this machine, and has a name elsewhere."""
    with (
        open_forum(tmp_path_factory.mktemp("lounge")) as forum,
        hall(House([Desk(forum)], LOCAL_NAMES | {"forum.example"})) as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "127.0.0.1:8080"}, 200),
        ({"Host": "[::1]:8080"}, 200),
        ({"Host": "LOCALHOST"}, 200),
        ({"Origin": "http://localhost"}, 200),
        ({"Host": "localhost:8080", "Origin": "http://localhost:8080"}, 200),
        ({"Host": "localhost:8080", "Origin": "http://localhost:3000"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example@localhost"}, 403),
        ({"Host": "localhost.evil.example"}, 403),
        ({"Host": "[::1"}, 403),
        ({"Host": ""}, 403),
        ({"Host": "forum.example"}, 401),
        ({"X-Forwarded-For": "203.0.113.5"}, 401),
        ({"X-Forwarded-Proto": "https"}, 401),
        ({"Forwarded": "for=203.0.113.5"}, 401),
        ({"X-Real-IP": "203.0.113.5"}, 401),
        ({"CF-Connecting-IP": "203.0.113.5"}, 401),
        ({"Via": "1.1 proxy"}, 401),
        ({"Authorization": "Basic b3BlbjpzZXNhbWU="}, 401),
        ({"Authorization": "Bearer"}, 401),
        ({"Authorization": "Bearer sk-whatever-a-chat-client-has"}, 200),
    ],
    ids=str,
)
def test_on_this_machine_only_a_program_of_this_machine_needs_no_key(
    lounge: TestClient, headers: Mapping[str, str], status: int
) -> None:
    """Not a page that a browser was led to, nor whoever a proxy speaks for."""
    answer = lounge.get(RUNS, headers=headers)

    assert answer.status_code == status, answer.text


def test_a_proxy_that_says_nothing_of_itself_is_none_of_this_machine(forum: Forum) -> None:
    """nginx, as it comes: the address that it forwards to as Host, no header, and HTTP/1.0."""
    app, key = make_app(House([Desk(forum)])), forum.grant("ci", {Scope.READ})

    async def proxied(scope: ASGIScope, receive: Receive, send: Send) -> None:
        await app({**scope, "http_version": "1.0"}, receive, send)

    with TestClient(proxied, "http://127.0.0.1:8080", client=("127.0.0.1", 40000)) as client:
        unknown = client.get(RUNS)
        known = client.get(RUNS, headers=showing(key))

    assert [unknown.status_code, known.status_code] == [401, 200]


@pytest.mark.parametrize("peer", ["203.0.113.5", "::ffff:203.0.113.5", ""])
def test_from_another_machine_a_key_is_needed(forum: Forum, peer: str) -> None:
    """Whatever name it calls us by."""
    with hall(House([Desk(forum)]), peer) as client:
        answer = client.get(RUNS)

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_probe_may_call_the_server_by_any_name(lounge: TestClient) -> None:
    """Balancers go by addresses; what they ask for tells nothing of any ledger."""
    answers = [lounge.get(path, headers={"Host": "10.0.0.7:80"}) for path in ("/livez", "/readyz")]

    assert [answer.status_code for answer in answers] == [200, 200]


# Keys that end, and what may be done with them


def test_a_key_that_is_revoked_elsewhere_ends_here(tmp_path: Path) -> None:
    """Servers share nothing but the ledger; a stolen key has a second left."""
    with lone_hall(tmp_path) as (forum, client), open_forum(tmp_path) as elsewhere:
        key = forum.grant("ci", {Scope.READ})
        before = client.get(RUNS, headers=showing(key)).status_code
        elsewhere.revoke(key.id)
        eventually(lambda: client.get(RUNS, headers=showing(key)).status_code == 401)

    assert before == 200
    assert FRESH_SECONDS <= 1


def test_a_key_ends_with_its_time(tmp_path: Path) -> None:
    """By the clock of the server, without anybody's doing."""
    with lone_hall(tmp_path) as (forum, client):
        key = forum.grant("ci", {Scope.READ}, seconds=2)
        before = client.get(RUNS, headers=showing(key)).status_code
        eventually(lambda: client.get(RUNS, headers=showing(key)).status_code == 401)

    assert before == 200


def test_entries_name_the_key_by_which_somebody_came(tmp_path: Path) -> None:
    """Whatever it is called: what a label cannot hold is written otherwise, never left out."""
    with lone_hall(tmp_path) as (forum, client):
        actors = {}
        for name in ("ci", "a/b", "50%", "Zoë", 'a "b"\\', "x" * 300):
            key = forum.grant(name, {Scope.SUBMIT})
            asked = client.post(RUNS, json=ASK, headers=showing(key))
            run = asked.json()["run"]
            entries = map(forum.ledger.kinds.read, forum.store.strand(run, "main"))
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
    with lone_hall(tmp_path, keyless=True) as (_, client):
        answers = [client.post(RUNS, json=ASK, headers={b"Idempotency-Key": key}) for key in given]

    assert [answer.status_code for answer in answers] == [400] * len(given)


def test_each_key_has_its_own_rate(forum: Forum) -> None:
    """One that asks without end is told to wait, and nobody else notices."""
    hasty, other = forum.grant("hasty", {Scope.READ}), forum.grant("other", {Scope.READ})
    with hall(House([Desk(forum)], keyless=False, rate=0.5)) as client:
        found = [client.get(RUNS, headers=showing(hasty)) for _ in range(3)]
        calm = client.get(RUNS, headers=showing(other))

    assert [answer.status_code for answer in found] == [200, 429, 429]
    assert found[1].headers["retry-after"] == "1"
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
        found = turned_away(forum)
    assert [turned.facts.times for turned in found] == [1, 999]
    assert {(turned.actor, turned.facts.who) for turned in found} == {("stranger", "stranger")}
    assert {(t.facts.why, t.facts.door) for t in found} == {(Denial.UNKNOWN, "list_runs")}


def test_who_hangs_up_leaves_no_line_behind(caplog: pytest.LogCaptureFixture) -> None:
    """A line for each piece that nobody takes: whoever hangs up often would fill a disk."""
    import_module("forum.surfaces.http.process")

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
        reader, old = forum.grant("r", {Scope.READ}), forum.grant("o", EVERYTHING, seconds=-1)
        gone = forum.grant("g", EVERYTHING)
        forum.revoke(gone.id)
        client.post(RUNS, json=ASK, headers=showing(reader))
        for key in (old, gone):
            client.get(RUNS, headers=showing(key))
        client.get(RUNS, headers=showing(f"forum_{forum.tenant}_invented_{'0' * 64}"))
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
        denials, desk = Denials(window=0.05), Desk(forum)
        async with denials.kept():
            for _ in range(7):
                await denials.note(desk, "stranger", Denial.UNKNOWN, "list_runs")
            await asyncio.to_thread(
                eventually, lambda: sum(t.facts.times for t in turned_away(forum)) == 7
            )
            return [turned.facts.times for turned in turned_away(forum)]

    assert asyncio.run(flood()) == [1, 6]


class Slow:
    """Puts denials on record as soon as it may."""

    def __init__(self, forum: Forum, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.gate = threading.Event(), threading.Event()
        self._deny = forum.deny
        monkeypatch.setattr(forum, "deny", self)

    def __call__(self, denied: AccessDenied, actor: str) -> None:
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
        denials, desk = Denials(), Desk(forum)
        slow.gate.set()
        for who in ("ann", "ann", "bob"):
            await denials.note(desk, who, Denial.SCOPE, "create_run")
        slow.gate.clear()
        slow.begun.clear()
        flushing = asyncio.create_task(denials.flush())
        await asyncio.to_thread(slow.begun.wait, SOON)
        await denials.note(desk, "bob", Denial.SCOPE, "create_run")
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
        denials, desk = Denials(), Desk(forum)
        noting = asyncio.create_task(denials.note(desk, "ann", Denial.SCOPE, "create_run"))
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
    deny, away = forum.deny, [True, True]

    def lose(denied: AccessDenied, actor: str) -> None:
        if away:
            away.pop()
            raise StoreFailed("appending", "the connection broke")
        deny(denied, actor)

    monkeypatch.setattr(forum, "deny", lose)

    async def scene() -> None:
        denials, desk = Denials(), Desk(forum)
        with pytest.raises(StoreFailed):
            await denials.note(desk, "ann", Denial.SCOPE, "create_run")
        with pytest.raises(StoreFailed):
            await denials.flush()
        await denials.note(desk, "ann", Denial.SCOPE, "create_run")
        await denials.flush()

    asyncio.run(scene())

    assert [turned.facts.times for turned in turned_away(forum)] == [2]


def test_those_who_come_under_many_names_are_counted_together(
    forum: Forum, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever can make up subjects of tokens cannot make the memory of a server grow."""
    monkeypatch.setattr("forum.surfaces.http.denials.MOST_CASES", 3)

    async def crowd() -> None:
        denials, desk = Denials(), Desk(forum)
        async with denials.kept():
            for nth in range(9):
                await denials.note(desk, f"oidc/{nth}", Denial.SCOPE, "create_run")

    asyncio.run(crowd())

    counted = [(turned.facts.who, turned.facts.times) for turned in turned_away(forum)]
    assert counted == [("oidc/0", 1), ("oidc/1", 1), ("oidc/2", 1), (OTHERS, 1), (OTHERS, 5)]
    assert MOST_CASES >= 100


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
        said = {"iss": self.url, "aud": "forum", "sub": subject, "exp": time() + seconds}
        whole = {**said, "scope": "read", **claims}
        return jwt.encode(whole, self._key, "EdDSA", headers={"kid": "one"})

    def house(self, *forums: Forum, **settings: str) -> House:
        """Return a house that believes it."""
        table = {"issuer": self.url, "audience": "forum", "jwks_url": f"{self.url}/keys"}
        bearer = Tokens(read_issuer(table | settings))
        return House([Desk(forum) for forum in forums], keyless=False, bearer=bearer)


@contextmanager
def issuing() -> Iterator[Issuer]:
    """Run an issuer for a while."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(issuer.keys)

        def log_message(self, *_: object) -> None:
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
            for ledger in (two.origin, two.tenant):
                token = issuer.token(ledger=ledger, scope="submit read")
                client.post(RUNS, json=ASK, headers=showing(token))
            elsewhere = client.get(RUNS, headers=showing(issuer.token(ledger="nowhere")))
            unsaid = client.get(RUNS, headers=showing(issuer.token()))
        with hall(issuer.house(one, two)) as client:
            first = client.get(RUNS, headers=showing(issuer.token(ledger=two.origin)))
        runs = [len(forum.recent_runs(None, 10)) for forum in (one, two)]

    assert runs == [0, 2]
    assert [elsewhere.status_code, unsaid.status_code] == [401, 401]
    assert first.json()["runs"] == []


def test_an_issuer_that_is_away_keeps_no_key_out(forum: Forum) -> None:
    """Nobody is let in on a word that cannot be checked; keys need nobody else."""
    away = Issuer(free_port())
    key = forum.grant("ci", {Scope.READ})
    with hall(away.house(forum)) as client:
        unknown = client.get(RUNS, headers=showing(away.token()))
        known = client.get(RUNS, headers=showing(key))

    assert (unknown.status_code, unknown.headers["retry-after"]) == (503, "5")
    assert known.status_code == 200
