"""The dashboard as the server serves it: files, headers, redirects, and the one-time sign-in."""

import asyncio
import os
import pty
import re
import select
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from types import SimpleNamespace

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from forum.features.dashboard.http import DASHBOARD_HEADERS, dashboard_routes
from forum.surfaces.http import server_process
from forum.surfaces.http.auth import ServerConfig
from forum.surfaces.http.request_pipeline import SECURITY_HEADERS
from tests.surfaces.serving import START_SECONDS, served, stop
from tests.surfaces.terminal import FORUM, Terminal
from tests.web.browsing import needs_browser, play, up

HASHED = "assets/index-Ab_cd-12.js"
HTML = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def site(tmp_path: Path) -> TestClient:
    """Serve a folder as if it had been built."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html>")
    (tmp_path / HASHED).write_text("let a")
    (tmp_path / "secret.txt").write_text("not served")
    return client_of(tmp_path)


def client_of(folder: Path) -> TestClient:
    """Return a client of nothing but the dashboard."""
    app = Starlette(routes=dashboard_routes(folder))
    return TestClient(app, follow_redirects=False)


def test_a_page_has_its_own_policy(site: TestClient) -> None:
    """Scripts of this origin alone, no connection elsewhere, and no text that becomes a script."""
    page = site.get("/ui/")

    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-cache"
    policy = page.headers["content-security-policy"]
    assert policy == DASHBOARD_HEADERS["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'self';" in policy
    assert "require-trusted-types-for 'script'; trusted-types forum" in policy
    assert "unsafe" not in policy


def test_a_file_named_by_its_content_is_kept_for_ever(site: TestClient) -> None:
    """It is sent compressed to clients that can read that."""
    compressed = site.get(f"/ui/{HASHED}", headers={"Accept-Encoding": "br, gzip"})
    plain = site.get(f"/ui/{HASHED}", headers={"Accept-Encoding": "identity, gzip;q=0"})

    assert compressed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert compressed.text == plain.text == "let a"
    assert "immutable" in plain.headers["cache-control"]
    assert plain.headers["vary"] == "Accept-Encoding"


def test_a_page_that_has_not_changed_is_not_sent_again(site: TestClient) -> None:
    """A browser asks each time, because a new release has new pages under the same address."""
    tag = site.get("/ui/").headers["etag"]

    assert site.get("/ui/", headers={"If-None-Match": tag}).status_code == 304


@pytest.mark.parametrize("path", ["secret.txt", "%2e%2e/dashboard.py", "x"])
def test_nothing_else_is_served(site: TestClient, path: str) -> None:
    """Only built files of known types, whatever else lies in the folder or above it."""
    answer = site.get(f"/ui/{path}")

    assert answer.status_code == 404
    assert answer.headers["content-security-policy"] == SECURITY_HEADERS["Content-Security-Policy"]


def test_browsers_are_sent_to_the_dashboard_and_programs_are_not(site: TestClient) -> None:
    """By a path alone: a client chooses its Host header."""
    browser = site.get("/", headers={**HTML, "Host": "elsewhere.example"})

    assert (browser.status_code, browser.headers["location"]) == (307, "/ui/")
    assert site.get("/ui").headers["location"] == "/ui/"
    assert site.get("/", headers={"Accept": "application/json"}).status_code == 404


def test_other_responses_keep_their_policy(tmp_path: Path) -> None:
    """A body is recorded content, which no browser may run."""
    with served(tmp_path) as found:
        for path in ("/api/v1/runs", "/livez", "/openapi.json", "/nowhere"):
            policy = found.client.get(path).headers["content-security-policy"]
            assert policy == "default-src 'none'; frame-ancestors 'none'"
        assert "script-src 'self'" in found.client.get("/ui/").headers["content-security-policy"]


@pytest.mark.slow
def test_up_opens_a_browser_that_is_signed_in_once(tmp_path: Path) -> None:
    """The code is in a file of the user's and works once; the token is nowhere, not in the reply.

    The file is where a browser that is confined as a snap can read it: in the home folder, and not
    hidden.
    """
    browser, seen = recording_browser(tmp_path)
    terminal = Terminal(tmp_path / "home")
    with up(terminal, "--open", BROWSER=str(browser)) as server:
        server.eventually(seen.exists)
        argument = seen.read_text().strip()
        page = Path(argument.removeprefix("file://"))
        mode = stat.S_IMODE(page.stat().st_mode)
        code = sign_in_code(page)
        wrong = server.client.post("/ui/sign-in", json={"code": "x" * len(code)})
        first = server.client.post("/ui/sign-in", json={"code": code})
        again = server.client.post("/ui/sign-in", json={"code": code})
        token = terminal.type("token").stdout.strip()
        session = {"Authorization": f"Bearer {first.json()['key']}"}
        me = server.client.get("/api/v1/me", headers=session).json()
        log = server.log.read_text()

    assert mode == 0o600
    assert page.parent == tmp_path / "home"
    assert not page.name.startswith(".")
    assert code not in argument
    assert (wrong.status_code, again.status_code) == (403, 403)
    assert me["name"] == "operator"
    assert token not in first.text
    assert first.json()["policy"] == terminal.policy.read_text()
    assert first.headers["cache-control"] == "no-store"
    assert code not in log
    assert token not in log
    assert f"dashboard: {server.url}/ui/" in log
    assert not page.exists()


def recording_browser(folder: Path) -> tuple[Path, Path]:
    """Return a program that writes its arguments into a file, and the file."""
    browser, seen = folder / "browser", folder / "seen"
    browser.write_text(f'#!/bin/sh\necho "$@" > {seen}.tmp && mv {seen}.tmp {seen}\n')
    browser.chmod(0o755)
    return browser, seen


def sign_in_code(page: Path) -> str:
    """Return the code in a page that signs a browser in."""
    return page.read_text().partition("#/sign-in/")[2].partition('"')[0]


@needs_browser[0]
@needs_browser[1]
@pytest.mark.slow
def test_an_open_tab_signs_in_with_the_printed_address(tmp_path: Path) -> None:
    """The code leaves the address, and the keys that came with it are not called the reader's."""
    browser, seen = recording_browser(tmp_path)
    terminal = Terminal(tmp_path / "home")
    with up(terminal, "--open", BROWSER=str(browser)) as server:
        server.eventually(seen.exists)
        code = sign_in_code(Path(seen.read_text().strip().removeprefix("file://")))
        shown = play(server, "signIn.mjs", code)

    assert shown["address"] == f"{server.url}/ui/#/"
    assert "keys handed over by Forum on this machine when you signed in" in shown["remembered"]
    assert "Last proven tree" in shown["remembered"]
    assert shown["faults"] == []


@pytest.mark.slow
def test_demo_opens_the_dashboard_with_sample_runs(tmp_path: Path) -> None:
    """A newcomer sees a plan, a gate, a council and a stopped run, and keeps no folder of it."""
    browser, seen = recording_browser(tmp_path)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    terminal = Terminal(tmp_path / "home")
    with up(
        terminal, "--open", command="demo", BROWSER=str(browser), TMPDIR=str(scratch)
    ) as server:
        server.eventually(seen.exists)
        code = sign_in_code(Path(seen.read_text().strip().removeprefix("file://")))
        key = server.client.post("/ui/sign-in", json={"code": code}).json()["key"]
        server.client.headers["Authorization"] = f"Bearer {key}"

        def states() -> list[str]:
            return sorted(run["state"] for run in server.client.get("/api/v1/runs").json()["runs"])

        # Twelve plays of an evaluation, and six runs of which one waits for a person.
        done = ["ended"] * 17 + ["waiting"]
        server.eventually(lambda: states() == done)
        gates = server.client.get("/api/v1/gates").json()["gates"]

    assert len(gates) == 1
    assert list(scratch.iterdir()) == []


def test_a_code_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser that was not started leaves no way in behind."""
    from forum.surfaces.http import sign_in  # noqa: PLC0415  patched
    from forum.surfaces.http.problems import ProblemError  # noqa: PLC0415

    moment = [0.0]
    monkeypatch.setattr(sign_in, "monotonic", lambda: moment[0])
    codes = sign_in.OneTimeSignIn(lambda: "token", "log.example", lambda: "")
    context = SimpleNamespace(body=sign_in.SignInAsk(codes.issue_code()))
    moment[0] = sign_in.CODE_TTL_S + 1
    with pytest.raises(ProblemError):
        asyncio.run(codes.exchange(context))  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_terminal_gets_an_address_that_signs_in_and_a_log_does_not(tmp_path: Path) -> None:
    """Over ssh there is no browser to start; and what is logged is read by others."""
    terminal = Terminal(tmp_path / "home")
    ours, theirs = pty.openpty()
    with (
        listening() as taken,
        subprocess.Popen(
            [FORUM, "up", "--open"],
            cwd=terminal.folder,
            env=terminal.environment | {"DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": ""},
            stdin=subprocess.DEVNULL,
            stderr=theirs,
        ) as process,
    ):
        try:
            shown = read_until(ours, b"serving forum.")
        finally:
            stop(process)
            os.close(ours)
            os.close(theirs)
    match = re.search(r"(http://127\.0\.0\.1:(\d+)/ui/)#/sign-in/([\w-]{43})\b", shown)

    assert match, shown
    assert int(match[2]) != taken
    assert shown.index("Sign in") < shown.index("serving forum.")


def read_until(end: int, wanted: bytes) -> str:
    """Return what a program has written to a terminal, up to some words."""
    shown, deadline = b"", monotonic() + START_SECONDS
    while wanted not in shown:
        readable, _, _ = select.select([end], [], [], max(0.0, deadline - monotonic()))
        assert readable, f"{wanted!r} does not come; so far: {shown!r}"
        shown += os.read(end, 4096)
    return shown.decode()


@contextmanager
def listening() -> Iterator[int]:
    """Listen on the default port, if nobody does; yield the port."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", 8080))
        except OSError:
            yield 8080
            return
        listener.listen()
        yield 8080


@pytest.mark.parametrize("has_tls", [True, False])
def test_browsers_are_told_to_keep_to_tls_where_forum_ends_it(
    monkeypatch: pytest.MonkeyPatch, *, has_tls: bool
) -> None:
    """Otherwise somebody in between could ask for the first page without TLS."""
    configured = {}

    def note(*_: object, **options: object) -> None:
        configured.update(options)
        raise KeyboardInterrupt

    monkeypatch.setattr("uvicorn.Config", note)
    monkeypatch.setattr(server_process, "make_app", lambda *_, **__: None)
    cert = Path("cert.pem") if has_tls else None
    at = server_process.ListenAddress("127.0.0.1", 0, cert, cert)
    with pytest.raises(KeyboardInterrupt):
        server_process.run_server(ServerConfig([]), at, print, [], on_start=lambda _: True)

    expected = [("Strict-Transport-Security", "max-age=31536000")] if has_tls else []
    assert configured["headers"] == expected
