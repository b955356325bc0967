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
    paths = [initdb.parent for initdb in BINARIES.glob("*/bin/initdb")]
    return max(paths, key=lambda folder: float(folder.parent.name), default=None)


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
            # Those of tenants: a role belongs to no database.
            roles = "SELECT rolname FROM pg_roles WHERE rolname LIKE %s"
            for (role,) in db.execute(roles, (f"forum\\_%\\_{name}",)).fetchall():
                db.execute(f"DROP ROLE {role}".encode())


class Cluster:
    """A private cluster, running between enter and exit."""

    def __init__(self, **settings: str) -> None:
        """Take further settings of the server, such as `shared_preload_libraries`."""
        binaries = server_binaries()
        if binaries is None:
            raise FileNotFoundError(BINARIES / "*/bin/initdb")
        self._binaries, self._settings = binaries, settings
        self._port = free_port_below()
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

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._port

    def processes(self) -> list[int]:
        """Return the processes of the server, the first of which started the others."""
        assert self._server
        pid = self._server.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]

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

    def wait_for_end(self) -> None:
        """Return when the server has ended by itself, as it does with a full disk."""
        assert self._server
        self._server.wait(60)
        self._server = None

    def restart(self, mode: Mode = "immediate") -> None:
        """Stop and start."""
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """Kill the server, as the loss of its machine would."""
        assert self._server
        self._server.kill()
        self._server.wait()
        self._server = None

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


class Standby(Cluster):
    """A server that follows another one by streaming, until it is promoted."""

    def __init__(self, primary: Cluster, name: str = "standby") -> None:
        super().__init__()
        self._primary, self.name = primary, name

    def __enter__(self) -> Self:
        try:
            if os.geteuid() == 0:
                shutil.chown(self.folder, "postgres", "postgres")
            source = f"host=127.0.0.1 port={self._primary.port} user=postgres"
            source += f" application_name={self.name}"
            self._run("pg_basebackup", "--write-recovery-conf", "--checkpoint=fast", "-d", source)
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def pause(self) -> None:
        """Apply nothing more of what the primary sends, and receive nothing more of it.

        The receiver is ended: what a standby has received, it applies when it is promoted.
        """
        with psycopg.connect(self._url("postgres"), autocommit=True) as db:
            db.execute("ALTER SYSTEM SET primary_conninfo = ''")
            db.execute("SELECT pg_reload_conf()")
            while db.execute("SELECT count(*) FROM pg_stat_wal_receiver").fetchone() != (0,):
                time.sleep(0.01)

    def wait_for(self, primary: Cluster) -> None:
        """Wait until all that the primary has written is applied here."""
        with (
            psycopg.connect(primary.url, autocommit=True) as there,
            psycopg.connect(self.url, autocommit=True) as here,
        ):
            written = there.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
            applied = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
            while here.execute(applied, written).fetchone() != (True,):
                time.sleep(0.01)

    def promote(self) -> None:
        """Make this server a primary."""
        self._run("pg_ctl", "-w", "promote")


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


def free_port_below() -> int:
    """Return a free port below those that the kernel gives to clients."""
    while True:
        port = SystemRandom().choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
