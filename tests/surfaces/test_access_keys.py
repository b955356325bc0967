"""Keys as an operator handles them: on the command line, over HTTP, and in a project's file."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from forum.app import Forum
from forum.config import load_settings
from forum.errors import BadSettings
from forum.ledger.access import ACCESS_STRAND
from forum.ledger.entry import LOG_RUN
from forum.ledger.kinds import Scope
from forum.surfaces.cli.serve import serve
from forum.surfaces.http.endpoints import Principal, RequestContext
from forum.surfaces.http.keys import create_key
from forum.surfaces.http.problems import ProblemError
from forum.surfaces.http.tenant import Tenant
from forum.surfaces.requests import KeyAsk
from tests.surfaces.halls import lone_hall, showing
from tests.surfaces.terminal import Terminal

KEYS = "/api/v1/keys"


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    """Return a terminal in a project."""
    made = Terminal(tmp_path)
    assert made.call("init").exit_code == 0
    return made


def forum_of(terminal: Terminal) -> Forum:
    """Open the ledger of a terminal's project."""
    return Forum(load_settings(terminal.folder, terminal.environment))


# On the command line


def test_a_key_is_printed_once_and_kept_nowhere(terminal: Terminal) -> None:
    """Whoever reads the ledger, its file or the list finds nothing that opens it."""
    made = terminal.call("keys", "create", "--name", "ci", "--scope", "submit", "--scope", "read")
    secret = made.stdout.strip().rpartition("_")[2]
    listed = terminal.call("keys", "list").stdout

    assert made.stdout.count("\n") == 1
    assert len(secret) == 64
    assert secret not in made.stderr + listed
    assert all(
        secret.encode() not in file.read_bytes() for file in terminal.database.parent.glob("*")
    )
    assert "ci    read,submit" in listed


def test_the_list_tells_which_keys_still_open_something(terminal: Terminal) -> None:
    """An operator sees at one glance whom to take a key from."""
    for name, *more in (("lasting",), ("short", "--expires", "90d"), ("lost",)):
        terminal.ask("keys", "create", "--name", name, "--scope", "read", *more)
    lost = terminal.ask("keys", "list")["keys"][2]["id"]
    revoked = terminal.call("keys", "revoke", lost)
    again = terminal.call("keys", "revoke", lost)
    listed = {key["name"]: key for key in terminal.ask("keys", "list")["keys"]}

    assert [revoked.exit_code, again.exit_code] == [0, 0]
    assert {name: key["state"] for name, key in listed.items()} == {
        "lasting": "valid",
        "short": "valid",
        "lost": "revoked",
    }
    assert (listed["lasting"]["expires"], listed["short"]["expires"] > "2000") == (None, True)
    assert terminal.call("keys", "revoke", "nothing").exit_code == 1


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--name", "two words", "--scope", "read"), "--name"),
        (("--name", "x" * 41, "--scope", "read"), "--name"),
        (("--name", "", "--scope", "read"), "--name"),
        (("--name", "ci"), "--scope"),
        (("--name", "ci", "--scope", "root"), "--scope"),
        (("--name", "ci", "--scope", "read", "--expires", "soon"), "--expires"),
        (("--name", "ci", "--scope", "read", "--expires", "0d"), "--expires"),
        (("--name", "ci", "--scope", "read", "--expires", "101y"), "--expires"),
    ],
)
def test_a_key_that_makes_no_sense_is_not_made(
    terminal: Terminal, words: tuple[str, ...], why: str
) -> None:
    """What is wrong is named, and nothing is written."""
    refused = terminal.call("keys", "create", *words)

    assert refused.exit_code == 2
    assert why in refused.stderr
    assert terminal.ask("keys", "list")["keys"] == []


def test_a_key_is_for_a_ledger_that_is_there(tmp_path: Path) -> None:
    """Typed in the wrong folder, it would open a new ledger, and not the one that is served."""
    refused = Terminal(tmp_path).call("keys", "create", "--name", "ci", "--scope", "read")

    assert (refused.exit_code, refused.stdout) == (1, "")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


# Over HTTP


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Forum, TestClient]]:
    """Serve a ledger to which nobody has a key."""
    with lone_hall(tmp_path_factory.mktemp("office"), operator=True) as served:
        yield served


def test_an_admin_gives_and_takes_keys_over_http(tmp_path: Path) -> None:
    """As on the command line; the record says who gave it."""
    with lone_hall(tmp_path) as (forum, client):
        admin = forum.access.grant("boss", {Scope.ADMIN})
        ask = {"name": "ci", "scopes": ["read"], "seconds": 3600}
        made = client.post(KEYS, json=ask, headers=showing(admin))
        secret, key = made.json()["secret"], made.json()["key"]
        opened = client.get("/api/v1/runs", headers=showing(secret)).status_code
        taken = client.delete(f"{KEYS}/{key['id']}", headers=showing(admin))
        listed = client.get(KEYS, headers=showing(admin)).json()["keys"]
        unknown = client.delete(f"{KEYS}/nothing", headers=showing(admin)).status_code
        entries = [
            forum.ledger.kinds.read(data)
            for data in forum.store.read_strand(LOG_RUN, ACCESS_STRAND)
        ]

    assert (made.status_code, made.headers["cache-control"]) == (201, "no-store")
    assert (opened, taken.status_code, unknown) == (200, 200, 404)
    assert [(one["name"], one["state"]) for one in listed] == [("boss", "valid"), ("ci", "revoked")]
    assert [entry.actor for entry in entries] == ["operator", *[f"key/boss/{admin.id}"] * 2]


@pytest.mark.parametrize(
    "ask",
    [
        {"name": "two words", "scopes": ["read"]},
        {"name": "ci", "scopes": []},
        {"name": "ci", "scopes": ["root"]},
        {"name": "ci", "scopes": ["read"], "seconds": 0},
        {"name": "ci\n", "scopes": ["read"]},
        {"name": "ci", "scopes": ["read"], "digest": "0" * 64},
    ],
)
def test_a_key_that_makes_no_sense_is_refused_over_http(
    office: tuple[Forum, TestClient], ask: dict[str, object]
) -> None:
    """Under the rules of the command line."""
    forum, client = office
    answer = client.post(KEYS, json=ask)

    assert answer.status_code in (400, 422)
    assert forum.access.read_access().granted == {}


def test_nobody_gives_what_that_one_has_not(terminal: Terminal) -> None:
    """Whatever scope may come to open this door one day, it cannot be used to climb."""
    with forum_of(terminal) as forum:
        low = Principal("key/low/1", frozenset({Scope.READ}))
        ask = KeyAsk("mine", (Scope.READ, Scope.ADMIN))
        visit = RequestContext(Request({"type": "http"}), Tenant(forum), low, body=ask)
        with pytest.raises(ProblemError, match="the scope admin"):
            create_key(visit)

        assert forum.access.read_access().granted == {}


# In the file of a project


def taken(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str, **variables: str
) -> dict[str, Any]:
    """Return what `forum serve` makes of its options, where it is typed in a folder."""
    monkeypatch.chdir(folder)
    for name in [name for name in os.environ if name.startswith("FORUM_")]:
        monkeypatch.delenv(name)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    params = serve.make_context("serve", list(words)).params
    return {name: value for name, value in params.items() if value is not None}


def test_a_server_has_its_defaults_from_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every setting of the section reaches the option of its name, paths relative to the file."""
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).touch()
    (tmp_path / "forum.toml").write_text(
        """
        [server]
        host = "192.0.2.1"
        port = 9001
        allow_hosts = ["forum.example", "other.example"]
        rate = 12.5
        max_body = 4096
        open_loopback = true
        tls_cert = "cert.pem"
        tls_key = "key.pem"
        """
    )
    within = tmp_path / "within"
    within.mkdir()

    assert taken(within, monkeypatch) == {
        "agent": (),
        "host": "192.0.2.1",
        "port": 9001,
        "allow_host": ("forum.example", "other.example"),
        "rate": 12.5,
        "max_body": 4096,
        "open_loopback": True,
        "require_keys": False,
        "tls_cert": tmp_path / "cert.pem",
        "tls_key": tmp_path / "key.pem",
        "tenant": (),
        "tenants": False,
        "log_format": "text",
    }


def test_a_flag_wins_over_a_variable_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One order for every setting, so that an operator can tell what holds."""
    (tmp_path / "forum.toml").write_text("[server]\nport = 9001\nrate = 1\nopen_loopback = true\n")
    variables = {
        "FORUM_SERVER_PORT": "9002",
        "FORUM_SERVER_RATE": "2",
        "FORUM_SERVER_ALLOW_HOSTS": "a.example b.example",
        "FORUM_SERVER_OPEN_LOOPBACK": "false",
    }
    document = taken(tmp_path, monkeypatch, "--port", "9003", **variables)

    assert (document["port"], document["rate"], document["open_loopback"]) == (9003, 2.0, False)
    assert document["allow_host"] == ("a.example", "b.example")


@pytest.mark.parametrize("wrong", ["port = [9001]", "open_loopback = [true]", "host.a = 1"])
def test_a_setting_of_one_value_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    """What is wrong is the file, and that is said; no option was typed that could be."""
    (tmp_path / "forum.toml").write_text(f"[server]\n{wrong}\n")

    with pytest.raises(BadSettings, match=r"\[server\] \w+: write "):
        taken(tmp_path, monkeypatch)


def test_an_issuer_comes_from_one_file(tmp_path: Path) -> None:
    """Half of one from each of two files would be an issuer that nobody trusts."""
    user, project = tmp_path / "user", tmp_path / "project"
    for folder, file in ((user, "config.toml"), (project, "forum.toml")):
        folder.mkdir()
        (folder / file).write_text(f'[oidc]\nissuer = "https://{folder.name}.example"\n')
    with (user / "config.toml").open("a") as config_file:
        config_file.write('jwks_url = "https://user.example/keys"\n')
    settings = load_settings(project, {"FORUM_CONFIG_DIR": str(user)})

    assert settings.sections.tables == {"oidc": {"issuer": "https://project.example"}}


def test_a_setting_that_no_server_has_is_refused(tmp_path: Path) -> None:
    """A setting that is misspelt would do nothing, unseen."""
    (tmp_path / "forum.toml").write_text("[server]\nopen_loopbacks = false\n")

    with pytest.raises(BadSettings, match="open_loopbacks"):
        load_settings(tmp_path, {})
