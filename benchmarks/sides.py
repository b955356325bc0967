"""The ways to carry out plans that are compared: Forum, and DBOS without it.

Each is served by processes of its own, whose CPU time is counted.
"""

import os
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dbos import DBOSClient, WorkflowHandle

from benchmarks import bare
from benchmarks.plans import Needs
from benchmarks.serving import settings_of
from forum.app import Forum, upgrade_database
from forum.engine import RunRequest
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.kinds import Outcome, RunCloseFacts
from forum.runs.plan import Plan, Task
from forum.runs.policy import Policy

LOOK_SECONDS = 0.02
PATIENCE_SECONDS = 120.0
SUBMITTER = "benchmark"


@dataclass(frozen=True)
class Spent:
    """What something took: by the clock, and of the CPU in the processes that serve."""

    seconds: float
    cpu_seconds: float


def process_cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def process_peak_mb(pid: int) -> int:
    """Return the most memory that a process has had, in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


class Server:
    """A process that serves until it is closed."""

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def wait(self) -> None:
        """Wait until it is ready."""
        assert self._process.stdout
        assert self._process.stdout.readline() == b"ready\n", self._process.args

    def cpu_seconds(self) -> float:
        """Return the CPU time that it has used."""
        return process_cpu_seconds(self._process.pid)

    def peak_mb(self) -> int:
        """Return the most memory that it has had, in MB."""
        return process_peak_mb(self._process.pid)

    def release(self) -> None:
        """Let it begin, if it was started to wait for this."""
        assert self._process.stdin
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self._process.communicate()

    def close(self) -> None:
        """Let it end."""
        try:
            self._process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            self._process.kill()


class Side:
    """One way to carry out plans, with the processes that do it."""

    def __init__(self, *servers: Server) -> None:
        self.servers = [*servers]

    def timed(self, work: Callable[[], object]) -> Spent:
        """Do something, and tell what it took."""
        before, started = self.cpu_seconds(), time.perf_counter()
        work()
        return Spent(time.perf_counter() - started, self.cpu_seconds() - before)

    def cpu_seconds(self) -> float:
        """Return the CPU time that all processes have used."""
        return sum(server.cpu_seconds() for server in self.servers)

    def close(self) -> None:
        """Let the processes end."""
        for server in self.servers:
            server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Ours(Side):
    """Forum: one ledger, and processes that work on it."""

    def __init__(
        self, folder: Path, url: str | None, runner: str = "", *, workers: int = 1
    ) -> None:
        # By this name the sessions of this process are told from those of the workers.
        self.forum = open_forum(folder, url and f"{url}?application_name={SUBMITTER}")
        database = ("--database", url) if url else ()
        self._command = ("benchmarks.serving", str(folder), *database, "--runner", runner)
        super().__init__(*(Server(*self._command) for _ in range(workers)))

    def add_worker(self) -> None:
        """Let one more process work, and wait until it does."""
        self.set_workers(len(self.servers) + 1)

    def drop_worker(self) -> None:
        """Let the last one end."""
        self.servers.pop().close()

    def set_workers(self, number: int) -> None:
        """Let so many processes work, and wait until they do."""
        while len(self.servers) > number:
            self.drop_worker()
        added = [Server(*self._command) for _ in range(number - len(self.servers))]
        for server in added:
            server.wait()
        self.servers += added

    def hold_workers(self, number: int) -> None:
        """Start processes that work when they are released, and wait until they are loaded."""
        self.servers = [Server(*self._command, "--held") for _ in range(number)]
        self.wait()

    def wait(self) -> None:
        """Wait until all processes that were just started serve."""
        for server in self.servers:
            server.wait()

    def carry_out(self, *plans: Needs) -> None:
        """Carry out plans, all at once."""
        self.finish(order_of(needs) for needs in plans)

    def finish(self, orders: Iterable[RunRequest]) -> None:
        """Have orders carried out, all at once."""
        self.await_ends([self.forum.runs.submit(request) for request in orders])

    def await_ends(self, runs: list[str]) -> None:
        """Wait until runs have ended well."""
        # The first to come ends first: who looks for the last one sees nothing end for long.
        left = runs[::-1]
        deadline = time.monotonic() + PATIENCE_SECONDS
        while left and self._has_ended(left[-1]):
            left.pop()
        while left:
            time.sleep(LOOK_SECONDS)
            while left and self._has_ended(left[-1]):
                left.pop()
                deadline = time.monotonic() + PATIENCE_SECONDS
            assert time.monotonic() < deadline, f"{len(left)} runs do not end"

    def _has_ended(self, run: str) -> bool:
        last = self.forum.store.last_entry(run, MAIN_STRAND)
        facts = self.forum.ledger.kinds.read(last).facts if last else None
        if isinstance(facts, RunCloseFacts):
            assert facts.outcome is Outcome.OK, facts
        return isinstance(facts, RunCloseFacts)

    def close(self) -> None:
        """Let the processes end, and let go of the database."""
        super().close()
        self.forum.close()


class Bare(Side):
    """DBOS without Forum."""

    def __init__(self, folder: Path, url: str | None) -> None:
        folder.mkdir(parents=True)
        address = url or _make_wal_file(folder / "bare.db")
        # It connects when it is used: the tables are made by the process.
        self._client = DBOSClient(system_database_url=address, lazy=True)
        super().__init__(Server("benchmarks.bare", address))

    def wait(self) -> None:
        """Wait until the process serves."""
        self.servers[0].wait()

    def carry_out(self, needs: Needs, workflow: str = "bare-run") -> None:
        """Carry out a plan."""
        handle: WorkflowHandle[int] = self._client.enqueue(
            {
                "workflow_name": workflow,
                "queue_name": bare.RUNS,
                "app_version": bare.VERSION,
            },
            needs,
        )
        assert handle.get_result(polling_interval_sec=LOOK_SECONDS) == len(needs)

    def finish_tasks(self, number: int) -> None:
        """Carry out so many workflows of one step, all at once, through the queue of runs."""
        handles: list[WorkflowHandle[tuple[str, str]]] = [
            self._client.enqueue(
                {
                    "workflow_name": "bare-task",
                    "queue_name": bare.RUNS,
                    "app_version": bare.VERSION,
                },
                f"t{nth}",
                [],
            )
            for nth in range(number)
        ]
        for handle in handles:
            handle.get_result(polling_interval_sec=LOOK_SECONDS)

    def close(self) -> None:
        """Let the process end, and let go of the database."""
        self._client.destroy()
        super().close()


def _make_wal_file(path: Path) -> str:
    """Make a SQLite file as durable and fast as that of a ledger, and return its address."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")  # persistent: stored in the file
    return f"sqlite:///{path}"


def open_forum(folder: Path, url: str | None) -> Forum:
    """Begin a new ledger."""
    forum = Forum(settings_of(folder, url))
    upgrade_database(forum.settings)
    forum.keys.initialise()
    return forum


def order_of(needs: Needs) -> RunRequest:
    """Return the order to carry out a plan, as much as possible at once."""
    tasks = (Task(task, "Do nothing.", needs=tuple(before)) for task, before in needs.items())
    return RunRequest("Do nothing, often.", Plan(tuple(tasks)), Policy(parallel=max(8, len(needs))))


def rates(spent: list[Spent]) -> list[float]:
    """Return how often each could have been done in a second."""
    return [1 / cost.seconds for cost in spent]


def per_s(spent: list[Spent], count: int) -> float:
    """Return the median rate, of what was done so many times."""
    return round(count / statistics.median(cost.seconds for cost in spent), 1)


def cpu_ms(spent: list[Spent], count: int) -> float:
    """Return the median of the CPU time, for each of so many."""
    return round(1000 * statistics.median(cost.cpu_seconds for cost in spent) / count, 2)
