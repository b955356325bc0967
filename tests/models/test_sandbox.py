"""What a confined program sees: of files, of processes, of the network."""

import asyncio
import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from forum.config import load_settings
from forum.engine import Deed, Reply
from forum.errors import BadSettings, NotConfined
from forum.ledger import Outcome, text
from forum.models import make_tool
from forum.models.sandbox import Sandbox, make_sandbox
from forum.work import Tool

LOOK = """
import json, os, socket, sys

def reads(path):
    try:
        with open(path) as file:
            return file.read() or "empty"
    except OSError as error:
        return type(error).__name__

def writes(path):
    try:
        with open(path, "w") as file:
            file.write("mine")
        return True
    except OSError:
        return False

def hears(host, port):
    try:
        with socket.create_connection((host, port), 5) as peer:
            return peer.recv(100).decode()
    except OSError as error:
        return type(error).__name__

asked = json.load(sys.stdin)
print(json.dumps({
    "reads": {path: reads(path) for path in asked["reads"]},
    "writes": {path: writes(path) for path in asked["writes"]},
    "hears": [hears(host, port) for host, port in asked["hears"]],
    "processes": sum(name.isdigit() for name in os.listdir("/proc")),
    "environment": sorted(os.environ),
}))
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a project with secrets in it, and go there."""
    folder = tmp_path / "project"
    (folder / ".forum").mkdir(parents=True)
    (folder / ".forum/log.key").write_text("PRIVATE")
    (folder / "work").mkdir()
    (folder / "notes").write_text("plain")
    (folder / "model.key").write_text("PRIVATE")
    (tmp_path / "state/projects").mkdir(parents=True)
    (tmp_path / "state/projects/a.token").write_text("PRIVATE")
    (tmp_path / "elsewhere").write_text("PRIVATE")
    (folder / "look.py").write_text(LOOK)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SOME_API_KEY", "PRIVATE")
    monkeypatch.setenv("GIVEN", "yes")
    return folder


def sandbox_of(home: Path, lines: str = "") -> Sandbox:
    """Read a project file that confines, and return what does it."""
    model = '[models.a]\nurl = "http://127.0.0.1:1/v1"\nmodel = "m"\nkey_file = "model.key"\n'
    (home / "forum.toml").write_text(f"[agents]\nconfine = true\n{lines}\n{model}")
    settings = load_settings(home, {"FORUM_STATE_DIR": str(home.parent / "state")})
    sandbox = make_sandbox(settings)
    assert sandbox is not None
    return sandbox


def use(tool: Tool, sandbox: Sandbox | None, given: str = "") -> Reply:
    """Use a tool once."""
    deed = Deed("run", "task", "step", "tool", text(given), "key")
    return asyncio.run(make_tool(tool, sandbox).use(deed))


def look(sandbox: Sandbox | None, **asked: object) -> dict[str, object]:
    """Let a program look around, and return what it has seen."""
    tool = Tool((sys.executable, "look.py"))
    reply = use(tool, sandbox, json.dumps({"reads": [], "writes": [], "hears": [], **asked}))
    assert reply.outcome is Outcome.OK, b"".join(reply.error.chunks())
    seen: dict[str, object] = json.loads(b"".join(reply.output.chunks()))
    return seen


@contextmanager
def greeting() -> Iterator[int]:
    """Greet whoever connects to a port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                with peer:
                    peer.sendall(b"hello")

        thread = Thread(target=greet, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_confined_program_sees_the_project_and_none_of_its_secrets(home: Path) -> None:
    """Keys, token, settings, keys of models, and what lies elsewhere are not there."""
    secrets = [
        home / ".forum/log.key", home / "forum.toml", home / "model.key",
        home.parent / "state/projects/a.token", home.parent / "elsewhere",
    ]  # fmt: skip
    paths = [str(path) for path in (*secrets, home / "notes")]
    sandbox = sandbox_of(home)
    confined, free = (look(how, reads=paths)["reads"] for how in (sandbox, None))

    assert isinstance(free, dict)
    assert isinstance(confined, dict)
    assert "FileNotFoundError" not in free.values()
    assert confined.pop(str(home / "notes")) == "plain"
    assert set(confined.values()) <= {"FileNotFoundError", "empty"}


def test_a_confined_program_writes_only_where_it_may(home: Path) -> None:
    """What it writes elsewhere would be read by others, or is its own and gone with it."""
    paths = ["notes", ".forum/log.key", "forum.toml", "look.py", "work/result"]
    seen = look(sandbox_of(home, 'write = ["work"]'), writes=paths)
    everywhere = look(sandbox_of(home, 'write = ["."]'), writes=paths)

    assert seen["writes"] == {path: path == "work/result" for path in paths}
    assert everywhere["writes"] == {
        path: path not in (".forum/log.key", "forum.toml") for path in paths
    }
    assert (home / "work/result").read_text() == "mine"
    assert (home / ".forum/log.key").read_text() == "PRIVATE"


def test_a_confined_program_knows_the_variables_that_were_named(home: Path) -> None:
    """Neither keys of providers nor anything of the worker."""
    seen = look(sandbox_of(home, 'env = ["GIVEN"]'))["environment"]

    assert isinstance(seen, list)
    assert {"GIVEN", "PATH", "FORUM_RUN"} <= set(seen)
    assert "SOME_API_KEY" not in seen


def test_a_confined_program_sees_no_other_process(home: Path) -> None:
    """The environment of the worker is in /proc."""
    alone, free = look(sandbox_of(home))["processes"], look(None)["processes"]

    assert isinstance(alone, int)
    assert isinstance(free, int)
    assert alone <= 3 < free


def test_a_confined_program_reaches_the_addresses_that_were_named_and_no_other(home: Path) -> None:
    """On this machine too: the server, the database and other agents are there."""
    with greeting() as named, greeting() as other:
        hears = [("127.0.0.1", named), ("127.0.0.1", other), ("localhost", named)]
        nothing = look(sandbox_of(home), hears=hears)
        lines = f'connect = ["127.0.0.1:{named}", "db.example:{other}"]'
        one = look(sandbox_of(home, lines), hears=hears)

    assert nothing["hears"] == ["ConnectionRefusedError"] * 3
    assert one["hears"] == ["hello", "ConnectionRefusedError", "hello"]


def test_a_name_leads_to_the_address_that_it_has_outside(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under its own name, so that certificates fit; also at a port below 1024."""
    connect, where = socket.create_connection, []

    def connect_here(address: tuple[str, int], timeout: float) -> socket.socket:
        where.append(address)
        return connect(("127.0.0.1", port), timeout)

    with greeting() as port:
        sandbox = sandbox_of(home, 'connect = ["api.example:443"]')
        monkeypatch.setattr("forum.models.sandbox.socket.create_connection", connect_here)
        seen = look(sandbox, hears=[("api.example", 443), ("other.example", 443)])

    assert seen["hears"] == ["hello", "gaierror"]
    assert where == [("api.example", 443)]


def test_what_a_confined_program_leaves_running_is_gone_with_it(home: Path) -> None:
    """Also what has left its process group."""
    mark = home / "work/alive"
    script = "setsid sh -c 'while :; do date +%s%N > work/alive; sleep 0.05; done' & sleep 0.3"
    done = use(Tool(("sh", "-c", script)), sandbox_of(home, 'write = ["work"]'))
    last = mark.read_text()
    use(Tool(("sleep", "0.3")), None)

    assert done.outcome is Outcome.OK
    assert mark.read_text() == last


def test_a_program_that_the_confined_one_could_not_see_is_not_found(home: Path) -> None:
    """And the error says where to name it."""
    program = home.parent / "elsewhere"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    refused = use(Tool((str(program),)), sandbox_of(home))
    found = use(Tool((str(program),)), sandbox_of(home, f'read = ["{program}"]'))

    assert refused.code == "not-found"
    assert b"[agents] read" in b"".join(refused.error.chunks())
    assert found.outcome is Outcome.OK


def test_nothing_is_run_where_it_cannot_be_confined(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that was to confine does not start without."""
    sandbox = sandbox_of(home)
    sandbox.check()
    monkeypatch.setenv("PATH", str(home))

    with pytest.raises(NotConfined, match="apt install bubblewrap"):
        sandbox.check()


@pytest.mark.parametrize(
    "line",
    [
        "confine = 1", 'connect = ["example.com"]', 'connect = ["192.0.2.1:80"]',
        'connect = ["a b:80"]', 'connect = ["a:0"]', 'read = "/usr"', "env = [1]",
        "sandbox = true",
    ],
)  # fmt: skip
def test_rules_that_make_no_sense_are_refused(tmp_path: Path, line: str) -> None:
    """An address by its number has no name that a program could ask for."""
    (tmp_path / "forum.toml").write_text(f"[agents]\n{line}\n")

    with pytest.raises(BadSettings, match=r"\[agents\]"):
        load_settings(tmp_path, dict(os.environ))
