"""A Postgres server of our own: a private cluster that lives as long as its test.

It listens on a free loopback port, trusts whoever connects, keeps its files and its socket in a
folder of its own, and is durable as a real one is: `fsync` stays on.  It dies with the process
that started it, so a killed test leaves no server behind.
"""

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import SystemRandom
from types import TracebackType
from typing import Literal, Self
from urllib.parse import urlsplit

import psycopg

BINARIES = Path("/usr/lib/postgresql")
DATABASE = "test"

# Below the ports that the kernel gives to clients: one that tries to reconnect to a stopped
# server could be given the server's own port, and would then talk to itself.
PORTS = range(20_000, 32_000)

Mode = Literal["immediate", "fast"]


def server_binaries() -> Path | None:
    """Return the folder of the newest Postgres server on this machine, as Debian installs it."""
    found = [initdb.parent for initdb in BINARIES.glob("*/bin/initdb")]
    return max(found, key=lambda folder: float(folder.parent.name), default=None)


@contextmanager
def scratch_database(url: str) -> Iterator[str]:
    """Make a database beside the one with this address, for as long as it is needed."""
    name = f"forum_{secrets.token_hex(8)}"
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name}".encode())
    try:
        yield urlsplit(url)._replace(path=f"/{name}").geturl()
    finally:
        with psycopg.connect(url, autocommit=True) as db:
            db.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


class Cluster:
    """A private cluster, running between enter and exit."""

    def __init__(self, **settings: str) -> None:
        """Take further settings of the server, such as `shared_preload_libraries`."""
        binaries = server_binaries()
        if binaries is None:
            raise FileNotFoundError(BINARIES / "*/bin/initdb")
        self._binaries, self._settings = binaries, settings
        self._port = _free_port()
        self._server: subprocess.Popen[bytes] | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="forum-postgres-"))
        self.data = self.folder / "data"

    @property
    def url(self) -> str:
        """The address of a database that tests may write into."""
        return self._url(DATABASE)

    def __enter__(self) -> Self:
        try:
            if os.geteuid() == 0:
                shutil.chown(self.folder, "postgres", "postgres")
            self._run(
                "initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync"
            )
            self.start()
            with psycopg.connect(self._url("postgres"), autocommit=True) as db:
                db.execute(f"CREATE DATABASE {DATABASE}".encode())
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()

    def cpu_seconds(self) -> float:
        """Return the CPU time of the server since its start, with that of sessions that ended."""
        assert self._server
        own = _process_times(self._server.pid)
        children = Path(f"/proc/{self._server.pid}/task/{self._server.pid}/children").read_text()
        live = [_process_times(int(child)) for child in children.split()]
        return sum(own) + sum(times[0] for times in live)

    def start(self) -> None:
        """Start the server and return when it answers."""
        options = {
            "listen_addresses": "127.0.0.1",
            "port": self._port,
            "unix_socket_directories": self.folder,
            "fsync": "on",
            "logging_collector": "off",
            **self._settings,
        }
        settings = [f"--{name}={value}" for name, value in options.items()]
        with (self.folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [*_as_server(), self._binaries / "postgres", "-D", self.data, *settings],
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        self._wait()

    def stop(self, mode: Mode = "immediate") -> None:
        """Stop the server: at once, as a crash would, or after ending its sessions."""
        if self._server is not None:
            self._run("pg_ctl", "-m", mode, "-w", "stop")
            self._server.wait()
            self._server = None

    def restart(self, mode: Mode = "immediate") -> None:
        """Stop and start."""
        self.stop(mode)
        self.start()

    def _url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._port}/{database}"

    def _run(self, program: str, *arguments: str) -> None:
        command = [*_as_server(), str(self._binaries / program), "-D", str(self.data), *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stdout}{done.stderr}")

    def _wait(self, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                psycopg.connect(self._url("postgres"), connect_timeout=3).close()
            except psycopg.OperationalError:
                if time.monotonic() > deadline or (
                    self._server and self._server.poll() is not None
                ):
                    raise
                time.sleep(0.05)
            else:
                return

    def _remove(self) -> None:
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder)


def _as_server() -> list[str]:
    """Return how to run a program of the server: never as root, and not longer than we live."""
    user = ["--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    return ["setpriv", *user, "--pdeathsig=QUIT"]


def _process_times(pid: int) -> tuple[float, float]:
    """Return the CPU seconds of a process, and those of its children that ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0, 0.0
    user, system, ended_user, ended_system = (int(ticks) for ticks in stat[11:15])
    second = os.sysconf("SC_CLK_TCK")
    return (user + system) / second, (ended_user + ended_system) / second


def _free_port() -> int:
    while True:
        port = SystemRandom().choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
