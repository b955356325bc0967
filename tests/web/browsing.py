"""A real `forum up` for tests of the dashboard, and scripts that drive a browser."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.e2e.project import eventually
from tests.support import free_port
from tests.surfaces.command_server import start_command
from tests.surfaces.serving import START_SECONDS, stop
from tests.surfaces.terminal import Terminal
from tests.test_repository import ROOT

SCRIPTS = ROOT / "web/test/browser"
CHROMIUM = shutil.which("chromium")
needs_browser = (
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None or not (ROOT / "web/node_modules").exists(),
        reason="needs Chromium, and `npm ci` in web/",
    ),
)


@dataclass(frozen=True, slots=True)
class UpServer:
    """A running `forum up`, and a client of its operator."""

    process: "subprocess.Popen[bytes]"
    url: str
    client: httpx2.Client
    log: Path

    @property
    def key(self) -> str:
        """The operator's token."""
        return str(self.client.headers["Authorization"]).removeprefix("Bearer ")

    def eventually(self, happens: Callable[[], bool]) -> None:
        """Wait for something that the server or its browser does."""
        eventually(happens, START_SECONDS)


@contextmanager
def up(
    terminal: Terminal, *options: str, port: int = 0, command: str = "up", **variables: str
) -> Iterator[UpServer]:
    """Run `forum up`, or another command that serves, in a folder until the end of the block."""
    port = port or free_port()
    url, log = f"http://127.0.0.1:{port}", terminal.folder.parent / "up.log"
    with log.open("ab") as writer:
        words = [command, "--port", str(port), *options]
        environment = terminal.environment | variables
        process = start_command(words, terminal.folder, environment, stderr=writer)
    try:
        with httpx2.Client(base_url=url, timeout=60.0) as client:
            eventually(lambda: _is_ready(client, process, log), START_SECONDS)
            if command == "up":
                token = terminal.type("token").stdout.strip()
                client.headers["Authorization"] = f"Bearer {token}"
            yield UpServer(process, url, client, log)
    finally:
        stop(process)


def _is_ready(client: httpx2.Client, process: "subprocess.Popen[bytes]", log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    try:
        return client.get("/readyz").status_code == 200
    except httpx2.TransportError:
        return False


@contextmanager
def start(server: UpServer, script: str, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a script that drives a browser as the operator, at most until the end of the block."""
    variables = {
        "FORUM_URL": server.url,
        "FORUM_KEY": server.key,
        "CHROMIUM": str(CHROMIUM),
    }
    with subprocess.Popen(
        ["node", SCRIPTS / script, *words],
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def play(server: UpServer, script: str, *words: str) -> Any:  # noqa: ANN401  what the script prints
    """Run a script that drives a browser as the operator, and return what it printed last."""
    with start(server, script, *words) as process:
        return finish(process)


def finish(process: "subprocess.Popen[str]") -> Any:  # noqa: ANN401  what the script prints
    """Wait for a script, and return what it printed last."""
    printed, complaint = process.communicate(timeout=400)
    assert process.returncode == 0, printed + complaint
    return json.loads(printed)
