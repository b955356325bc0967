"""The drill of a failover: a primary is killed under load, and its standby takes over.

A primary, a standby, pgbouncer in session mode, one server and two workers, and clients that submit
runs and try again.  Each run pays once, by a tool that appends a line to a file.  With a
synchronous standby nothing may be lost or repeated, and the workers go on by themselves.  With an
asynchronous one that has fallen behind, the loss has to be found and everything has to stop; then
the operator begins the next epoch, resumes what goes on, and both epochs verify.

    python -m tests.soak.failover [synchronous|asynchronous]
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Lock

import httpx2
import msgspec
import psycopg

from tests.soak.cluster import Cluster, Standby, free_port_below

TOML = """
[roster]
file = "team.toml"
rung = "lexical"

[models.default]
kind = "scripted"
moves.answer = [
  { use = [{ tool = "pay", arguments = "{}" }] },
  { say = "paid", milliseconds = 300 },
]

[tools.pay]
cmd = "sh pay.sh"
"""
TEAM = """
[[lane]]
name = "payments"
does = "Pays."
tier = "cheap"
terms = ["pay"]
tools = ["pay"]
instructions = "Pay once."

[[lane]]
name = "poems"
does = "Writes poems."
tier = "cheap"
terms = ["poem"]
instructions = "Rhyme."
"""
"""A client may use no tool but those of a lane."""
PAY = 'echo "$FORUM_RUN" >> payments\necho paid\n'
PGBOUNCER = Path("/usr/sbin/pgbouncer")
ORDER = {"request": "Pay.", "lane": "payments"}
_CLIENTS = 4
_PAUSE_S = 0.3


class Figures(msgspec.Struct, frozen=True):
    """What a drill has shown."""

    acknowledged: int
    ended: int
    lost: int
    """Acknowledged runs that the log does not have."""
    repeated: int
    """Runs that have paid more than once."""
    refusals: tuple[str, ...]
    """What a loss of commits was answered with."""
    resumed: int
    """Runs that went on only when a person said so."""
    verified: int
    """The exit status of the verification."""
    epochs: int


class Deployment:
    """The processes of one drill, in a folder of their own."""

    def __init__(self, folder: Path, stack: ExitStack, *, synchronous: bool) -> None:
        self.folder, self._stack = folder, stack
        self.primary = stack.enter_context(Cluster())
        self.standby = stack.enter_context(Standby(self.primary))
        if synchronous:
            with psycopg.connect(self.primary.url, autocommit=True) as db:
                db.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
                db.execute("SELECT pg_reload_conf()")
        self._pooler_port = free_port_below()
        self._pooler: subprocess.Popen[bytes] | None = None
        self.port = free_port_below()
        self.environ = {
            **os.environ,
            "FORUM_STATE_DIR": str(folder / "state"),
            "FORUM_DATABASE_URL": f"postgresql://postgres@127.0.0.1:{self._pooler_port}/test",
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def begin(self) -> str:
        """Make the project and start everything; return an API key for clients."""
        (self.folder / "forum.toml").write_text(TOML)
        (self.folder / "team.toml").write_text(TEAM)
        (self.folder / "pay.sh").write_text(PAY)
        (self.folder / "payments").touch()
        self.point_pooler(self.primary)
        self.forum("db", "upgrade")
        self.forum("init")
        key = self.forum("keys", "create", "--name", "ci", "--scope", "submit", "--scope", "read")
        self.start()
        return key.strip()

    def forum(self, *arguments: str, fails: bool = False) -> str:
        """Run a command of Forum, and return what it prints."""
        argv = [sys.executable, "-m", "forum", *arguments]
        done = subprocess.run(
            argv, cwd=self.folder, env=self.environ, capture_output=True, text=True, check=False
        )
        if done.returncode and not fails:
            raise RuntimeError(f"forum {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout + (done.stderr if fails else "")

    def start(self) -> None:
        """Start a server and two workers."""
        self._start("server", "serve", "--port", str(self.port), "--rate", "100000")
        for number in (1, 2):
            self._start(f"worker-{number}", "worker")
        deadline = time.monotonic() + 60
        while self.ready()[0] != 200:
            if time.monotonic() > deadline:
                raise RuntimeError(self.log("server"))
            time.sleep(0.2)

    def _start(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", "forum", *arguments],
                cwd=self.folder,
                env=self.environ,
                stdout=log,
                stderr=log,
            )

    def stop(self) -> None:
        """Stop the server and the workers."""
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
            process.wait()
        self._processes.clear()

    def ready(self) -> tuple[int, str]:
        """Return what the server says of its readiness."""
        try:
            answer = httpx2.get(f"http://127.0.0.1:{self.port}/readyz", timeout=10)
        except httpx2.HTTPError as error:
            return 0, str(error)
        return answer.status_code, answer.text

    def log(self, name: str) -> str:
        """Return what a process has written."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def payments(self) -> Counter[str]:
        """Return how often each run has paid."""
        return Counter((self.folder / "payments").read_text().split())

    def point_pooler(self, server: Cluster) -> None:
        """Let pgbouncer pass sessions on to a server."""
        path, users = self.folder / "pgbouncer.ini", self.folder / "users.txt"
        users.write_text('"postgres" ""\n')
        path.write_text(
            f"[databases]\n* = host=127.0.0.1 port={server.port}\n[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self._pooler_port}\nauth_type = trust\n"
            f"auth_file = {users}\n"
            f"pool_mode = session\nmax_client_conn = 500\ndefault_pool_size = 90\n"
            f"unix_socket_dir =\nserver_login_retry = 1\nignore_startup_parameters = options\n"
            "server_fast_close = 1\n"
        )
        path.chmod(0o644)
        if self._pooler is not None:
            self._pooler.terminate()
            self._pooler.wait()
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        with (self.folder / "pgbouncer.log").open("ab") as log:
            self._pooler = subprocess.Popen(
                [*(user if os.geteuid() == 0 else ()), str(PGBOUNCER), str(path)],
                stdout=log,
                stderr=log,
            )
        self._stack.callback(_end, self._pooler)
        url = self.environ["FORUM_DATABASE_URL"]
        for _ in range(200):
            with suppress(psycopg.OperationalError), psycopg.connect(url, connect_timeout=3):
                return
            time.sleep(0.05)
        raise RuntimeError("pgbouncer does not answer")

    def fail_over(self) -> float:
        """Kill the primary, promote the standby, and return the seconds that took."""
        began = time.monotonic()
        self.primary.kill()
        self.standby.promote()
        self.point_pooler(self.standby)
        return time.monotonic() - began


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


class Clients:
    """Clients that submit runs until they are stopped, and try again with the same key."""

    def __init__(self, url: str, key: str) -> None:
        self._url, self._headers = url, {"Authorization": f"Bearer {key}"}
        self._stop, self._lock = Event(), Lock()
        self.acknowledged: dict[str, str] = {}
        """The run of each idempotency key."""
        self.refusals: Counter[str] = Counter()
        self._threads = ThreadPoolExecutor(_CLIENTS)

    def start(self) -> None:
        """Begin to submit."""
        self._work = [self._threads.submit(self._submit, n) for n in range(_CLIENTS)]

    def stop(self) -> None:
        """Submit nothing more."""
        self._stop.set()
        for each in self._work:
            each.result()
        self._threads.shutdown()

    def _submit(self, client: int) -> None:
        number = 0
        with httpx2.Client(timeout=40) as http:
            while not self._stop.is_set():
                name = f"{client}-{number}"
                headers = {**self._headers, "Idempotency-Key": name}
                try:
                    answer = http.post(f"{self._url}/api/v1/runs", headers=headers, json=ORDER)
                except httpx2.HTTPError:
                    self._stop.wait(_PAUSE_S)
                    continue
                if answer.is_success:
                    with self._lock:
                        self.acknowledged[name] = answer.json()["run"]
                    number += 1
                else:
                    with self._lock:
                        self.refusals[answer.json().get("detail", answer.text)] += 1
                self._stop.wait(_PAUSE_S)


@contextmanager
def deployed(*, synchronous: bool) -> Iterator[Deployment]:
    """Run a deployment for a while."""
    folder = Path(tempfile.mkdtemp(prefix="forum-failover-"))
    folder.chmod(0o755)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        deployment = Deployment(folder, stack, synchronous=synchronous)
        stack.callback(deployment.stop)
        yield deployment


def drill(kind: str, seconds: float = 6.0, lag_s: float = 1.0) -> Figures:
    """Carry a drill out, and print its steps."""
    with deployed(synchronous=kind == "synchronous") as place:
        key = place.begin()
        clients = Clients(f"http://127.0.0.1:{place.port}", key)
        clients.start()
        time.sleep(seconds)
        if kind == "asynchronous":
            place.standby.pause()
            time.sleep(lag_s)
        took = place.fail_over()
        print(f"{kind}: {len(clients.acknowledged)} runs; another server after {took:.1f} s")
        time.sleep(seconds)
        clients.stop()
        if kind == "synchronous":
            return _finish(place, clients.acknowledged, (), 0)
        return _go_on(place, clients)


def _go_on(place: Deployment, clients: Clients) -> Figures:
    """Find that everything has stopped, and do what the guide tells the operator."""
    paid = place.payments()
    status, text = place.ready()
    print(f"readiness: {status} {text.strip()}")
    logs = "".join(place.log(name) for name in ("server", "worker-1", "worker-2"))
    refusals = tuple(sorted(set(_find_refusals(logs))))
    print(f"the processes say: {next(iter(refusals), 'nothing of it')}")
    place.stop()
    told = place.forum("ledger", "epoch", "--yes", fails=True)
    print(told.strip())
    waiting = re.findall(r"^  (\S{20,})$", told, re.MULTILINE)
    place.start()
    time.sleep(2)
    assert place.payments() == paid, "an effect was repeated before a person has looked"
    # The person has looked: what was paid is not paid again, so such a run is cancelled.
    for run in waiting:
        place.forum("cancel" if paid[run] else "resume", run, *(() if paid[run] else ("--detach",)))
    return _finish(place, clients.acknowledged, refusals, len(waiting))


_find_refusals = re.compile(r"[^ ]+: the database has lost commits: [^)]+\)").findall


def _decide_gates(place: Deployment) -> None:
    """Say of each effect whose outcome is unknown whether it happened, as the file shows."""
    paid = place.payments()
    for gate in msgspec.json.decode(place.forum("gate", "list", "--json"))["gates"]:
        place.forum(
            "gate", "approve" if paid[gate["run"]] else "reject", gate["run"], gate["subject"]
        )


def _finish(
    place: Deployment, acknowledged: Mapping[str, str], refusals: tuple[str, ...], resumed: int
) -> Figures:
    """Wait until all runs have ended, and compare."""
    deadline, ended = time.monotonic() + 60, 0
    document: dict[str, str] = {}
    while time.monotonic() < deadline:
        document = _outcomes(place)
        ended = sum(outcome != "" for outcome in document.values())
        if ended == len(document):
            break
        _decide_gates(place)
        time.sleep(0.5)
    place.stop()
    report = subprocess.run(
        [sys.executable, "-m", "forum", "ledger", "verify"],
        cwd=place.folder,
        env=place.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    print(report.stdout.strip())
    return Figures(
        acknowledged=len(acknowledged),
        ended=ended,
        lost=len(set(acknowledged.values()) - set(document)),
        repeated=sum(count > 1 for count in place.payments().values()),
        refusals=refusals,
        resumed=resumed,
        verified=report.returncode,
        epochs=report.stdout.count("  continues ") + 1,
    )


def _outcomes(place: Deployment) -> dict[str, str]:
    """Return the outcome of each run of every epoch; empty while it goes on in the newest one."""
    close = (
        "SELECT s.run, bool_or(convert_from(e.bytes, 'UTF8') LIKE '%\"kind\":\"run.close/1\"%')"
        " FROM forum.strand s JOIN forum.entry e ON e.strand = s.id AND e.log = s.log"
        " WHERE s.run <> 'log' AND s.name = 'main' GROUP BY s.run"
    )
    with psycopg.connect(place.environ["FORUM_DATABASE_URL"], autocommit=True) as db:
        return {run: "ended" if ended else "" for run, ended in db.execute(close.encode())}


def main() -> None:
    """Carry out one drill, or both."""
    for kind in sys.argv[1:] or ("synchronous", "asynchronous"):
        figures = drill(kind)
        print(msgspec.json.encode(figures).decode())


if __name__ == "__main__":
    main()
