"""Twenty faults of a real installation, and what each shows.

There are two machines: one signs, with a worker; the other has a server and a worker that add
entries.  A fault is a function that causes it for as long as its block lasts.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copy, copytree, rmtree
from time import sleep

import httpx2
import psycopg

from forum.ledger.conditions import StoreCondition
from forum.ledger.kinds import Scope
from tests.disks import filled, small_disk
from tests.e2e.project import Project, eventually, project
from tests.poolers import pooled
from tests.soak.cluster import Cluster
from tests.support import free_port
from tests.surfaces.serving import stop
from tests.tcp_proxy import HangingProxy

START_S = 60.0


@dataclass
class Running:
    """A process of Forum, with its probes at an address and its log in a file."""

    process: "subprocess.Popen[bytes]"
    url: str
    log: Path

    def get(self, path: str, key: str = "") -> httpx2.Response:
        """Ask it something, with a key if there is one."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx2.get(f"{self.url}{path}", headers=headers, timeout=10)

    def is_healthy(self) -> bool:
        """Return whether each of its probes says so."""
        with suppress(httpx2.TransportError):
            paths = ("/readyz", "/readyz/read", "/readyz/sign")
            return all(self.get(path).status_code == 200 for path in paths)
        return False


@dataclass
class Machine:
    """A folder and an environment in which processes of Forum run."""

    folder: Path
    environ: dict[str, str]
    database: Path | None = None
    prefix: tuple[str, ...] = ()

    def start(self, stack: ExitStack, name: str, *words: str) -> Running:
        """Start a server or worker with probes, and end it with the stack."""
        port = free_port()
        option = "--port" if words[0] == "serve" else "--metrics-port"
        argv = [*self.prefix, sys.executable, "-m", "forum", *words, option, str(port)]
        log = self.folder / f"{name}.log"
        with log.open("ab") as file:
            process = subprocess.Popen(argv, cwd=self.folder, env=self.environ, stderr=file)
        stack.callback(_end, process)
        return Running(process, f"http://127.0.0.1:{port}", log)

    def examine(self) -> str:
        """Return what `forum doctor` prints."""
        done = subprocess.run(
            [*self.prefix, sys.executable, "-m", "forum", "doctor"],
            cwd=self.folder,
            env={**self.environ, "COLUMNS": "400"},
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        return done.stdout


def _end(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGCONT)
    process.kill()
    process.wait()


@dataclass
class Bench:
    """Two machines, what they share, and the processes on them."""

    stack: ExitStack
    signing: Machine
    adding: Machine
    made: Project
    key: str
    cluster: Cluster | None = None
    proxy: HangingProxy | None = None
    processes: dict[str, Running] = field(default_factory=dict)

    @property
    def server(self) -> Running:
        """The server of the machine that adds entries."""
        return self.processes["server"]

    @property
    def owner(self) -> psycopg.Connection[tuple[object, ...]]:
        """A session of the operator of the database."""
        assert self.cluster
        url = self.cluster.url.replace("/test", "/postgres")
        return psycopg.connect(url, autocommit=True)

    def execute(self, *statements: str) -> None:
        """Carry out statements of the operator."""
        with self.owner as db:
            for statement in statements:
                db.execute(statement.encode())

    def submit(self) -> httpx2.Response:
        """Have a request accepted, which leaves entries that wait to be signed."""
        shown = {"Authorization": f"Bearer {self.key}"}
        url = f"{self.server.url}/api/v1/runs"
        return httpx2.post(url, json={"request": "x"}, headers=shown, timeout=10)

    def is_healthy(self) -> bool:
        """Return whether all processes are."""
        return all(each.is_healthy() for each in self.processes.values())


@dataclass(frozen=True)
class Fault:
    """A fault: what it is, what it shows, and how it is caused."""

    name: str
    condition: StoreCondition
    check: str
    """The check of `forum doctor` that finds it."""
    cause: Callable[[Bench], AbstractContextManager[None]]
    doctor_at: str = "adding"
    """The machine on which `forum doctor` is asked."""
    seen_by: tuple[str, ...] = ("server", "worker")
    is_sticky: bool = False
    """Whether processes have to be restarted after it."""
    start_error: str = ""
    """What a worker that is started meanwhile says, and ends; empty if it starts."""


# The database


@contextmanager
def stopped(bench: Bench) -> Iterator[None]:
    """Stop the server of the database."""
    assert bench.cluster
    bench.cluster.stop("fast")
    yield
    bench.cluster.start()


@contextmanager
def frozen(bench: Bench) -> Iterator[None]:
    """Let all processes of the server stand still."""
    assert bench.cluster
    pids = bench.cluster.processes()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    yield
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def half_open(bench: Bench) -> Iterator[None]:
    """Acknowledge what is sent, and pass nothing on."""
    assert bench.proxy
    bench.proxy.hangs.set()
    yield
    bench.proxy.hangs.clear()


@contextmanager
def sessions_ended(bench: Bench) -> Iterator[None]:
    """End all sessions of the database, and admit none."""
    bench.execute("ALTER DATABASE test ALLOW_CONNECTIONS false", END_SESSIONS)
    yield
    bench.execute("ALTER DATABASE test ALLOW_CONNECTIONS true")


END_SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'test'"


@contextmanager
def role_locked_out(bench: Bench) -> Iterator[None]:
    """Forbid the user of the database to log in."""
    end = END_SESSIONS.replace("datname = 'test'", "usename = 'forum'")
    bench.execute("ALTER ROLE forum NOLOGIN", end)
    yield
    bench.execute("ALTER ROLE forum LOGIN")


@contextmanager
def connections_exhausted(bench: Bench) -> Iterator[None]:
    """Take all connections of the server."""
    assert bench.cluster
    url = bench.cluster.url.replace("postgres@", "forum@")
    with ExitStack() as held, bench.owner as db:
        while True:
            try:
                held.enter_context(psycopg.connect(url, application_name="greedy"))
            except psycopg.OperationalError:
                pids = db.execute(
                    f"{END_SESSIONS} AND application_name != 'greedy'".encode()
                ).fetchall()
                if not pids:
                    break
        yield


@contextmanager
def disk_full(bench: Bench) -> Iterator[None]:
    """Fill the disk of the tables."""
    assert bench.cluster
    with filled(bench.cluster.folder / "tables"):
        yield


@contextmanager
def log_disk_full(bench: Bench) -> Iterator[None]:
    """Fill the disk of the write-ahead log: the server ends itself."""
    assert bench.cluster
    with filled(bench.cluster.data / "pg_wal"):
        with suppress(psycopg.Error), bench.owner as db:
            for _ in range(20):
                db.execute("SELECT pg_logical_emit_message(false, 'x', repeat('x', 1000000))")
                db.execute("SELECT pg_switch_wal()")
        bench.cluster.wait_for_end()
        yield
    bench.cluster.start()


@contextmanager
def set_read_only(bench: Bench) -> Iterator[None]:
    """Set the database read-only."""
    bench.execute("ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
    yield
    with bench.owner as db:
        db.execute("SET transaction_read_only = off")
        db.execute("SET default_transaction_read_only = off")
        db.execute("ALTER SYSTEM RESET default_transaction_read_only")
        db.execute("SELECT pg_reload_conf()")


@contextmanager
def demoted(bench: Bench) -> Iterator[None]:
    """Bring the server back as a standby."""
    assert bench.cluster
    bench.cluster.stop("fast")
    mark = bench.cluster.data / "standby.signal"
    mark.touch()
    bench.cluster.start()
    yield
    bench.cluster.stop("fast")
    mark.unlink()
    bench.cluster.start()


@contextmanager
def table_locked(bench: Bench) -> Iterator[None]:
    """Keep the table of entries locked in a session."""
    assert bench.cluster
    with psycopg.connect(bench.cluster.url) as db:
        db.execute("LOCK TABLE forum.entry IN ACCESS EXCLUSIVE MODE")
        yield


@contextmanager
def standby_gone(bench: Bench) -> Iterator[None]:
    """Let commits wait for a synchronous standby that is not there."""
    bench.execute(
        "ALTER SYSTEM SET synchronous_standby_names = 'elsewhere'", "SELECT pg_reload_conf()"
    )
    yield
    with bench.owner as db:
        db.execute("SET synchronous_commit = local")
        db.execute("ALTER SYSTEM RESET synchronous_standby_names")
        db.execute("SELECT pg_reload_conf()")


@contextmanager
def rolled_back(bench: Bench) -> Iterator[None]:
    """Put the database of some moments ago back."""
    assert bench.cluster
    bench.cluster.stop("fast")
    keep(bench.cluster, "old")
    bench.cluster.start()
    eventually(bench.is_healthy)
    go_on(bench)
    bench.cluster.stop("fast")
    put_back(bench.cluster, "old")
    bench.cluster.start()
    yield


@contextmanager
def old_primary_back(bench: Bench) -> Iterator[None]:
    """Let a standby take over, and then the primary from before answer at its place."""
    assert bench.cluster
    bench.cluster.stop("fast")
    keep(bench.cluster, "primary")
    (bench.cluster.data / "standby.signal").touch()
    bench.cluster.start()
    bench.execute("SELECT pg_promote()")
    eventually(bench.is_healthy)
    go_on(bench)
    bench.cluster.stop("fast")
    keep(bench.cluster, "promoted")
    put_back(bench.cluster, "primary")
    bench.cluster.start()
    yield
    bench.cluster.stop("fast")
    put_back(bench.cluster, "promoted")
    bench.cluster.start()


def go_on(bench: Bench) -> None:
    """Add entries that all processes have seen signed."""
    bench.submit()
    eventually(bench.is_healthy)
    wait_signed(bench)


def keep(cluster: Cluster, name: str) -> None:
    """Copy the files of a stopped server."""
    copytree(cluster.data, cluster.folder / name, symlinks=True)
    copytree(cluster.folder / "tables", cluster.folder / f"{name}-tables")


def put_back(cluster: Cluster, name: str) -> None:
    """Replace the files of a stopped server by those of a copy."""
    replace_content(cluster.data, cluster.folder / name)
    replace_content(cluster.folder / "tables", cluster.folder / f"{name}-tables")


def wait_signed(bench: Bench) -> None:
    """Wait until the signer has taken what waits, and all processes have seen it."""
    eventually(lambda: bench.made.forum.store.pending_span() is None)
    sleep(1.5)  # a process looks every second


def replace_content(folder: Path, source: Path) -> None:
    """Replace what a folder holds, which may be where a disk is mounted, and its owner."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink() and not path.is_mount():
            rmtree(path)
        elif path.is_mount():
            for inner in path.iterdir():
                rmtree(inner) if inner.is_dir() else inner.unlink()
        else:
            path.unlink()
    subprocess.run(["cp", "-a", f"{source}/.", str(folder)], check=True)
    subprocess.run(["chown", "-R", "postgres:postgres", str(folder)], check=True)


# What stands between and beside


@contextmanager
def behind_shared_pooler(bench: Bench) -> Iterator[None]:
    """Lead the address to a pooler in transaction mode: a process does not start."""
    assert bench.cluster
    url = bench.cluster.url.replace("postgres@", "forum@")
    address = bench.adding.environ["FORUM_DATABASE_URL"]
    with pooled(url, "transaction") as shared:
        bench.adding.environ["FORUM_DATABASE_URL"] = shared
        yield
    bench.adding.environ["FORUM_DATABASE_URL"] = address


@contextmanager
def signer_killed(bench: Bench) -> Iterator[None]:
    """Kill the process that signs."""
    _end(bench.processes.pop("signer").process)
    bench.submit()
    yield
    start_signer(bench)


@contextmanager
def signer_frozen(bench: Bench) -> Iterator[None]:
    """Let the process that signs stand still; it keeps its lock."""
    process = bench.processes.pop("signer")
    process.process.send_signal(signal.SIGSTOP)
    bench.submit()
    yield
    process.process.send_signal(signal.SIGCONT)
    bench.processes["signer"] = process


@contextmanager
def signer_disk_full(bench: Bench) -> Iterator[None]:
    """Fill the disk of the signer's state directory."""
    with filled(Path(bench.signing.environ["FORUM_STATE_DIR"])):
        bench.submit()
        yield


@contextmanager
def clock_ahead(bench: Bench) -> Iterator[None]:
    """Start a server whose clock is two minutes ahead; a worker does not start so."""
    before = bench.adding.environ, bench.signing.environ, bench.processes
    clock = {
        "LD_PRELOAD": "/usr/$LIB/faketime/libfaketime.so.1",
        "FAKETIME": "+120s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    bench.adding.environ = {**bench.adding.environ, **clock}
    bench.signing.environ = {**bench.signing.environ, **clock}
    # Processes do not get another clock while they run.
    with ExitStack() as stack:
        try:
            bench.processes = {"server": bench.adding.start(stack, "clock-server", "serve")}
            eventually(lambda: answers(bench.server), START_S)
            yield
        finally:
            bench.adding.environ, bench.signing.environ, bench.processes = before


# A ledger in a file


@contextmanager
def file_disk_full(bench: Bench) -> Iterator[None]:
    """Fill the disk of the ledger's file."""
    with filled(bench.signing.folder):
        yield


@contextmanager
def file_read_only(bench: Bench) -> Iterator[None]:
    """Forbid the processes to write the file and its folder."""
    ledger = bench.made.forum.settings.ledger_file
    paths = [ledger.parent, *ledger.parent.glob(f"{ledger.name}*")]
    modes = [path.stat().st_mode for path in paths]
    for path in paths:
        path.chmod(path.stat().st_mode & ~0o222)
    yield
    for path, mode in zip(paths, modes, strict=True):
        path.chmod(mode)


@contextmanager
def file_locked(bench: Bench) -> Iterator[None]:
    """Keep the file locked for writing in another program."""
    code = (
        "import sqlite3, sys, time\n"
        "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "db.execute('PRAGMA busy_timeout = 20000')\n"
        "db.execute('BEGIN IMMEDIATE')\nprint('held', flush=True)\ntime.sleep(600)"
    )
    argv = [sys.executable, "-c", code, str(bench.made.forum.settings.ledger_file)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        holder.stdout.readline()
        yield
        holder.kill()


FILE_FAULTS = (
    Fault("the disk of the SQLite file is full", StoreCondition.DISK_FULL, "writes",
          file_disk_full),
    Fault("the SQLite file cannot be written by this user", StoreCondition.READ_ONLY, "data",
          file_read_only),
    Fault("another program keeps the SQLite file locked", StoreCondition.LOCKED, "database",
          file_locked),
)  # fmt: skip
SERVER_FAULTS = (
    Fault("the database server is stopped", StoreCondition.DATABASE_AWAY, "database", stopped),
    Fault("the database server stands still", StoreCondition.DATABASE_AWAY, "database", frozen),
    Fault("a half-open connection: bytes are acknowledged and go nowhere",
          StoreCondition.DATABASE_AWAY, "database", half_open),
    Fault("all sessions were ended, and none is admitted", StoreCondition.DATABASE_AWAY, "database",
          sessions_ended),
    Fault("the user of the database may not log in", StoreCondition.DATABASE_AWAY, "database",
          role_locked_out),
    Fault("max_connections is exhausted", StoreCondition.TOO_MANY_CONNECTIONS, "database",
          connections_exhausted),
    Fault("the disk of the tables is full", StoreCondition.DISK_FULL, "writes", disk_full,
          doctor_at="signing"),
    Fault("the disk of the write-ahead log is full", StoreCondition.DATABASE_AWAY, "database",
          log_disk_full),
    Fault("the database was set read-only", StoreCondition.READ_ONLY, "writes", set_read_only,
          doctor_at="signing"),
    Fault("the database is a standby", StoreCondition.STANDBY, "writes", demoted,
          doctor_at="signing"),
    Fault("a session keeps a table locked", StoreCondition.LOCKED, "writes", table_locked,
          doctor_at="signing"),
    Fault("the synchronous standby is gone", StoreCondition.COMMITS_HANG, "writes", standby_gone,
          doctor_at="signing"),
    Fault("the pooler is in transaction mode", StoreCondition.SHARED_POOLER, "database",
          behind_shared_pooler, seen_by=(), start_error="pool_mode = session"),
    Fault("the machine that signs has died", StoreCondition.NOT_SIGNED, "ledger", signer_killed,
          doctor_at="signing"),
    Fault("the process that signs stands still", StoreCondition.NOT_SIGNED, "ledger", signer_frozen,
          doctor_at="signing"),
    Fault("the disk of the signer's state directory is full", StoreCondition.NOT_SIGNED, "ledger",
          signer_disk_full, doctor_at="signing", seen_by=("server", "worker", "signer")),
    Fault("the clock of the machine is two minutes ahead", StoreCondition.CLOCK_OFF, "clock",
          clock_ahead, doctor_at="signing", seen_by=("server",),
          start_error="ahead of the database's"),
    Fault("an old primary answers again after a failover", StoreCondition.OLD_PRIMARY, "signer",
          old_primary_back, doctor_at="signing"),
    Fault("an older copy of the database was put back", StoreCondition.ROLLED_BACK, "signer",
          rolled_back, doctor_at="signing", is_sticky=True),
)  # fmt: skip
FAULTS = (*SERVER_FAULTS, *FILE_FAULTS)


def answers(running: Running) -> bool:
    """Return whether a process answers at all."""
    with suppress(httpx2.TransportError):
        return running.get("/livez").status_code == 200
    return False


def start_signer(bench: Bench) -> None:
    """Start the worker of the machine that signs."""
    bench.processes["signer"] = bench.signing.start(bench.stack, "signer", "worker")


def start_processes(bench: Bench) -> None:
    """Start the processes of both machines, and wait until they are ready."""
    start_signer(bench)
    bench.processes["server"] = bench.adding.start(bench.stack, "server", "serve")
    bench.processes["worker"] = bench.adding.start(bench.stack, "worker", "worker")
    eventually(bench.is_healthy, START_S)
    for each in bench.processes.values():
        # A process knows the keys that it has read once.
        assert each.get("/metrics", bench.key).status_code == 200


@contextmanager
def server_bench(folder: Path) -> Iterator[Bench]:
    """Two machines with a Postgres database, whose tables and logs are on small disks."""
    with ExitStack() as stack:
        stack.enter_context(small_disk(folder / "signing/state", 8))
        cluster = stack.enter_context(
            Cluster(max_connections="40", min_wal_size="32MB", max_wal_size="48MB",
                    restart_after_crash="off", wal_level="replica", hot_standby="on")
        )  # fmt: skip
        _move_log(stack, cluster)
        tables = cluster.folder / "tables"  # the server's user does not reach the folders of tests
        stack.enter_context(small_disk(tables, 64))
        subprocess.run(["chown", "postgres:postgres", str(tables)], check=True)
        bench_owner = cluster.url.replace("/test", "/postgres")
        with psycopg.connect(bench_owner, autocommit=True) as db:
            db.execute("CREATE ROLE forum LOGIN")
            db.execute(f"CREATE TABLESPACE small LOCATION '{tables}'".encode())
            db.execute("ALTER DATABASE test OWNER TO forum")
            db.execute("ALTER DATABASE test SET TABLESPACE small")
        direct = cluster.url.replace("postgres@", "forum@")
        proxy = HangingProxy(cluster.port)
        proxy.start()
        stack.callback(proxy.stop)
        stack.callback(proxy.hangs.clear)
        made = stack.enter_context(project(folder / "signing", direct))
        signing_environ = dict(made.environ)
        made.forum.log.publish()
        key = made.forum.access.grant("probes", {Scope.METRICS, Scope.SUBMIT, Scope.READ})
        made.forum.log.publish()
        through = direct.replace(f":{cluster.port}", f":{proxy.port}")
        bench = Bench(
            stack=stack,
            signing=Machine(made.home, signing_environ),
            adding=_copy_machine(made, folder / "adding", through),
            made=made,
            key=str(key),
            cluster=cluster,
            proxy=proxy,
        )
        start_processes(bench)
        yield bench


def _move_log(stack: ExitStack, cluster: Cluster) -> None:
    """Put the write-ahead log of a cluster on a small disk."""
    log, kept = cluster.data / "pg_wal", cluster.folder / "kept"
    cluster.stop("fast")
    copytree(log, kept)
    stack.enter_context(small_disk(log, 96))
    stack.callback(cluster.stop)
    subprocess.run(["cp", "-a", f"{kept}/.", str(log)], check=True)
    subprocess.run(["chown", "-R", "postgres:postgres", str(log)], check=True)
    log.chmod(0o700)
    cluster.start()


def _copy_machine(made: Project, folder: Path, database: str) -> Machine:
    """Make a second machine, which has what it needs to add entries."""
    settings = made.forum.settings
    (folder / ".forum").mkdir(parents=True)
    copy(made.home / "forum.toml", folder)
    for path in (settings.public_key_file, settings.write_key_file):
        copy(path, folder / ".forum")
    environ = {**made.environ, "FORUM_STATE_DIR": str(folder / "state")}
    return Machine(folder, {**environ, "FORUM_DATABASE_URL": database})


@contextmanager
def file_bench(folder: Path) -> Iterator[Bench]:
    """One machine with a ledger in a file on a small disk; its processes have no special rights."""
    with ExitStack() as stack:
        home = folder / "home"
        stack.enter_context(small_disk(home, 64))
        made = stack.enter_context(project(home, None))
        key = made.forum.access.grant("probes", {Scope.METRICS, Scope.SUBMIT, Scope.READ})
        made.forum.log.publish()
        environ = {**made.environ, "FORUM_STATE_DIR": str(folder / "state")}
        copytree(made.environ["FORUM_STATE_DIR"], folder / "state")
        # As root, a process could write what it may not.
        limited = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
        prefix: tuple[str, ...] = limited if os.geteuid() == 0 else ()
        machine = Machine(home, environ, prefix=prefix)
        bench = Bench(stack, signing=machine, adding=machine, made=made, key=str(key))
        start_processes(bench)
        yield bench


__all__ = ["FAULTS", "FILE_FAULTS", "SERVER_FAULTS", "Bench", "Fault", "Running", "stop"]
