"""A project whose ledger is served by processes of their own, as users would have it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2

from tests.e2e.project import Project, eventually, project
from tests.support import free_port
from tests.surfaces.command_server import start_command
from tests.surfaces.terminal import FORUM, Terminal

START_SECONDS = 120.0
STOP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Served:
    """A project with a server, and its operator's client."""

    project: Project
    server: "subprocess.Popen[bytes]"
    url: str
    client: httpx2.Client

    def begin(self, request: str = "Name three rivers.") -> str:
        """Have a request taken on, and return the run that will answer it."""
        taken = self.client.post("/api/v1/runs", json={"request": request})
        assert taken.status_code == 202, taken.text
        return str(taken.json()["run"])

    def submit(self, request: str = "Name three rivers.") -> str:
        """Have a request carried out to its end, and return its run."""
        run = self.begin(request)
        self.project.end(run)
        return run


@contextmanager
def served(
    home: Path,
    database: str | None = None,
    *,
    options: tuple[str, ...] = (),
    workers: int = 1,
    settings: str = "",
) -> Iterator[Served]:
    """Make a project in a folder, and serve it until the end of the block."""
    with project(home, database, settings) as made, ExitStack() as stack:
        for _ in range(workers):
            stack.enter_context(made.worker())
        yield stack.enter_context(serving(made, options))


@contextmanager
def serving(
    made: Project, options: tuple[str, ...] = (), program: tuple[str, ...] = ()
) -> Iterator[Served]:
    """Serve a project by one more process; what it says is in `serve.log`.

    A program is started afresh, with these arguments of Python.
    """
    port = free_port()
    url = f"{'https' if '--tls-cert' in options else 'http'}://127.0.0.1:{port}"
    words = ["serve", "--port", str(port), *options]
    with (made.home / "serve.log").open("ab") as log:
        if program:
            argv = [sys.executable, *program, *words]
            server = subprocess.Popen(argv, cwd=made.home, env=made.environ, stderr=log)
        else:
            server = start_command(words, made.home, made.environ, stderr=log)
    try:
        token = made.forum.access.operator_token()
        shown = {"Authorization": f"Bearer {token}"}
        with httpx2.Client(base_url=url, timeout=60.0, verify=False, headers=shown) as client:
            eventually(lambda: _is_ready(client, server, made), START_SECONDS)
            yield Served(made, server, url, client)
    finally:
        stop(server)


@contextmanager
def started(terminal: Terminal, *words: str, is_fresh: bool = False) -> Iterator[str]:
    """Start a server, and return the address at which it says that it serves."""
    place, environment = terminal.folder, terminal.environment
    with (
        subprocess.Popen([FORUM, *words], cwd=place, env=environment, stderr=subprocess.PIPE)
        if is_fresh
        else start_command(words, place, environment, stderr=subprocess.PIPE) as process
    ):
        assert process.stderr is not None
        try:
            lines = next((line for line in process.stderr if b" serving " in line), b"")
            yield lines.decode().strip().rpartition(" at ")[2]
        finally:
            stop(process)


def stop(process: "subprocess.Popen[bytes] | subprocess.Popen[str]") -> None:
    """End a process as an operator would; if it does not listen, harder."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _is_ready(client: httpx2.Client, server: "subprocess.Popen[bytes]", made: Project) -> bool:
    assert server.poll() is None, (made.home / "serve.log").read_text()
    try:
        return client.get("/readyz").status_code == 200
    except httpx2.TransportError:
        return False
