"""Sessions of browsers: what they are good for, when they end, and where they are not accepted."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from forum.app import Forum
from forum.ledger.kinds import Scope
from forum.surfaces.http import browser_sessions
from forum.surfaces.http.application import make_app
from forum.surfaces.http.auth import KEY_CACHE_TTL_S, ServerConfig
from forum.surfaces.http.sign_in import OneTimeSignIn
from forum.surfaces.http.tenant import Tenant
from tests.e2e.project import eventually
from tests.surfaces.halls import hall, open_forum, showing

ME = "/api/v1/me"


@pytest.fixture
def forum(tmp_path: Path) -> Iterator[Forum]:
    """Return a ledger of its own."""
    with open_forum(tmp_path) as opened:
        yield opened


@pytest.fixture
def client(forum: Forum) -> Iterator[TestClient]:
    """Serve it."""
    with hall(ServerConfig([Tenant(forum)])) as opened:
        yield opened


def open_session(client: TestClient, credential: object) -> str:
    """Exchange a credential for a session, as the page does."""
    reply = client.post("/ui/session", headers=showing(str(credential)))
    assert reply.status_code == 200, reply.text
    assert reply.headers["cache-control"] == "no-store"
    return str(reply.json()["key"])


def status(client: TestClient, key: object) -> int:
    """Return how a request with this key is answered."""
    return client.get(ME, headers=showing(str(key))).status_code


def test_a_session_may_what_its_credential_may(forum: Forum, client: TestClient) -> None:
    """The operator's session is the operator, and that of a key has the scopes of the key."""
    token = forum.access.operator_token()
    key = forum.access.grant("ann", frozenset({Scope.READ}))
    own, anns = open_session(client, token), open_session(client, key)

    assert token not in own
    assert client.get(ME, headers=showing(own)).json()["name"] == "operator"
    assert client.get(ME, headers=showing(anns)).json()["scopes"] == ["read"]
    assert client.get("/api/v1/keys", headers=showing(anns)).status_code == 403


def test_a_session_ends_with_its_process(forum: Forum, client: TestClient) -> None:
    """It is in the memory of one process, so no other one accepts it."""
    key = open_session(client, forum.access.operator_token())
    instance = client.get("/ui/instance").json()["instance"]
    with hall(ServerConfig([Tenant(forum)])) as restarted:
        assert status(restarted, key) == 401
        assert restarted.get("/ui/instance").json()["instance"] != instance
    assert status(client, key) == 200


def test_a_session_ends_after_some_hours(
    forum: Forum, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has to remember to sign out, and no session opens another one."""
    moment = [0.0]
    monkeypatch.setattr(browser_sessions, "monotonic", lambda: moment[0])
    key = open_session(client, forum.access.operator_token())
    again = client.post("/ui/session", headers=showing(key))
    moment[0] = browser_sessions.SESSION_TTL_S - 1
    before = status(client, key)
    moment[0] += 2

    assert again.status_code == 403
    assert (before, status(client, key)) == (200, 401)


def test_a_session_ends_when_the_page_signs_out(forum: Forum, client: TestClient) -> None:
    """The key that is left in a browser's memory is of no use."""
    key = open_session(client, forum.access.operator_token())
    other = open_session(client, forum.access.operator_token())

    assert client.delete("/ui/session", headers=showing(key)).status_code == 200
    assert (status(client, key), status(client, other)) == (401, 200)


def test_a_session_ends_with_its_credential(forum: Forum, client: TestClient) -> None:
    """A rotated token and a revoked key end what was opened with them."""
    key = forum.access.grant("ann", frozenset({Scope.READ}))
    own, anns = open_session(client, forum.access.operator_token()), open_session(client, key)
    forum.access.operator_token(rotate=True)
    forum.access.revoke(key.id)

    eventually(lambda: (status(client, own), status(client, anns)) == (401, 401), 20)
    assert KEY_CACHE_TTL_S <= 1


def test_sessions_of_a_credential_are_limited(forum: Forum, client: TestClient) -> None:
    """The memory of a server does not grow by signing in; the oldest session ends."""
    token = forum.access.operator_token()
    keys = [open_session(client, token) for _ in range(browser_sessions.MAX_SESSIONS + 1)]

    assert [status(client, key) for key in keys[:2]] == [401, 200]
    assert status(client, keys[-1]) == 200


def test_a_session_is_opened_with_a_credential_only(client: TestClient) -> None:
    """Invented keys, and keys that are no keys."""
    for shown in ("", "x", "forum-session_" + "0" * 64, "forum-operator_" + "0" * 64):
        assert client.post("/ui/session", headers=showing(shown)).status_code == 401


def test_sign_in_is_answered_under_names_of_the_server_only(forum: Forum) -> None:
    """A page under a name of its own (DNS rebinding), or of another site, is refused."""
    sign_in = OneTimeSignIn(forum.access.operator_token, forum.origin, forum.log.describe_policy)
    app = make_app(ServerConfig([Tenant(forum)]), [sign_in])
    elsewhere = [{"Host": "evil.example"}, {"Origin": "http://evil.example"}]
    with TestClient(app, "http://localhost", client=("127.0.0.1", 40000)) as client:
        code = sign_in.issue_code()
        for headers in elsewhere:
            assert client.get("/ui/instance", headers=headers).status_code == 403
            refused = client.post("/ui/sign-in", json={"code": code}, headers=headers)
            assert refused.status_code == 403
            assert client.get("/livez", headers=headers).status_code == 200
        accepted = client.post("/ui/sign-in", json={"code": code})

    assert accepted.status_code == 200
    assert forum.access.operator_token() not in accepted.text
