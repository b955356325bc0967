"""An agent that wants to approve its own gate, and to make itself a key: confined, and not."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from forum.ledger.kinds import Outcome
from tests.support import free_port, wait_until
from tests.surfaces.serving import started
from tests.surfaces.terminal import FORUM, Terminal

ATTACK = """
import json, os, subprocess, sys, urllib.request
from pathlib import Path

PORT, STATE, FORUM = {port}, Path({state!r}), {forum!r}

def tried(attempt):
    try:
        return attempt()
    except Exception as error:
        return None

def found(folder, pattern):
    return [path.read_text().strip() for path in sorted(Path(folder).rglob(pattern))]

def asked(path, body=None, token=""):
    headers = {{"Authorization": "Bearer " + token}} if token else {{}}
    data = None if body is None else json.dumps(body).encode()
    headers |= {{"Content-Type": "application/json"}}
    request = urllib.request.Request("http://127.0.0.1:%d%s" % (PORT, path), data, headers)
    with urllib.request.urlopen(request, timeout=5) as answer:
        return json.load(answer)

def typed(*words):
    done = subprocess.run([FORUM, *words], capture_output=True, text=True, timeout=60)
    return done.stdout.strip() if done.returncode == 0 else None

tokens = tried(lambda: found(STATE, "*.token")) or []
token = tokens[0] if tokens else ""
got = {{
    "tokens": tokens,
    "keys": tried(lambda: found(".forum", "*.key")) or [],
    "settings": tried(lambda: Path("forum.toml").read_text()) or None,
    "gates without a token": tried(lambda: asked("/api/v1/gates")),
    "gates": tried(lambda: asked("/api/v1/gates", token=token)),
    "key": tried(lambda: asked("/api/v1/keys", {{"name": "me", "scopes": ["admin"]}}, token)),
    "token by command": tried(lambda: typed("token")),
    "key by command": tried(lambda: typed("keys", "create", "--name", "me", "--scope", "admin")),
}}
print(json.dumps(got))
"""

NOTHING: dict[str, Any] = {
    "tokens": [],
    "keys": [],
    "settings": None,
    "gates without a token": None,
    "gates": None,
    "key": None,
    "token by command": None,
    "key by command": None,
}


WATCH = """
import json, sys, time
from pathlib import Path

sys.stdin.read()
Path("work/ready").touch()
while not Path("work/go").exists():
    time.sleep(0.02)
secret = (b"PRIVATE" + b"+KEY", b"[" + b"agents]")  # not found in this file
files = [path for path in sorted(Path(".").rglob("*")) if path.is_file()]
found = [str(file) for file in files if any(word in file.read_bytes() for word in secret)]
Path("work/draft").write_text(json.dumps(found))
Path("work/draft").rename("work/found")
print("done")
"""
"""Look through all files of the folder for keys and settings, after a while."""


def attacked(tmp_path: Path, *options: str) -> tuple[dict[str, Any], list[str]]:
    """Let an agent attack the server that runs it; return what it got, and which keys there are."""
    terminal, port = Terminal(tmp_path), free_port()
    (terminal.folder / "agent.py").write_text(
        ATTACK.format(port=port, state=str(terminal.state), forum=str(FORUM))
    )
    (terminal.folder / "forum.toml").write_text(
        f'[models.default]\ncmd = "{sys.executable} agent.py"\n'
    )
    terminal.call("init")
    token = terminal.call("token").stdout.strip()
    shown = {"Authorization": f"Bearer {token}"}
    with (
        # Whoever looks into /proc finds the variables with which a fresh process started.
        started(terminal, "up", "--port", str(port), *options, is_fresh=True) as url,
        httpx2.Client(base_url=url, headers=shown) as client,
    ):
        ask = {"request": "Hello.", "route": False}
        run = client.post("/api/v1/runs", json=ask).json()["run"]
        client.get(f"/api/v1/runs/{run}/events", timeout=120)
        document = client.get(f"/api/v1/runs/{run}").json()
        keys = [one["name"] for one in client.get("/api/v1/keys").json()["keys"]]
    assert document["outcome"] == Outcome.OK, document
    return json.loads(document["answer"]), keys


@pytest.mark.slow
def test_a_confined_program_gets_no_token_and_no_key_and_approves_nothing(tmp_path: Path) -> None:
    """It runs as the operator's own user, and beside the operator's server."""
    got, keys = attacked(tmp_path, "--confine")

    assert got == NOTHING
    assert keys == []


@pytest.mark.slow
def test_a_program_that_is_not_confined_can_do_what_its_user_can(tmp_path: Path) -> None:
    """Which is what `forum doctor` and the guide say; but it gets nothing by being near."""
    got, keys = attacked(tmp_path)

    assert got["gates without a token"] is None
    assert len(got["tokens"]) == 1
    assert got["gates"] == {"gates": []}
    assert keys == ["me", "me"]


@pytest.mark.slow
def test_a_confined_program_finds_no_key_while_keys_and_settings_are_replaced(
    tmp_path: Path,
) -> None:
    """Neither the new key nor the old one, nor those of a project within the project."""
    terminal = Terminal(tmp_path)
    (terminal.folder / "work").mkdir()
    if os.geteuid() == 0:
        os.chown(terminal.folder / "work", 65533, 65533)  # whom root's programs run as
    (terminal.folder / "agent.py").write_text(WATCH)
    settings = f"""
[agents]
confine = true
write = ["work"]
[keys]
log = "keys/log.key"
[models.default]
cmd = "{sys.executable} agent.py"
"""
    (terminal.folder / "forum.toml").write_text(settings)
    inner = terminal.folder / "1/2/3/4/5/inner"
    inner.mkdir(parents=True)
    (inner / "forum.toml").write_text('[keys]\nlog = "keys/log.key"\n# [agents]\n')
    terminal.call("init")
    environment = terminal.environment
    subprocess.run([FORUM, "init"], cwd=inner, env=environment, check=True, capture_output=True)
    assert "PRIVATE+KEY" in (inner / "keys/log.key").read_text()

    words = [str(FORUM), "submit", "Look."]
    with subprocess.Popen(words, cwd=terminal.folder, env=environment) as submit:
        try:
            wait_until((terminal.folder / "work/ready").exists)
            rotated = terminal.type("keys", "rotate-log", "--yes")
            (terminal.folder / "new").write_text(settings)
            (terminal.folder / "new").replace(terminal.folder / "forum.toml")
            (terminal.folder / "work/go").touch()
            wait_until((terminal.folder / "work/found").exists)
        finally:
            submit.kill()  # its log has another key now: it cannot finish

    assert rotated.returncode == 0, rotated.stderr
    assert json.loads((terminal.folder / "work/found").read_text()) == []
