"""`python -m benchmarks engine`: runs against bare DBOS, and submitting to a ledger that grows.

Every ratio is of two things measured in turns in this run, because the machine may be busy.  The
last line that is printed is one JSON object.

throughput  a run of 100 no-op tasks, from its submission to its recorded end, against the same
            plan on bare DBOS (`benchmarks.bare`): same database, limits and polling.  There are
            two plans: 100 tasks that wait for nothing, and ten layers of ten.  The worse ratio
            counts.  Each side is served by a process of its own, whose CPU time is told too.
submit      `Forum.submit` until it is durable, in turns to a ledger of 1,000 entries and to a
            large one.
workers     small runs per second with one process that works, and with two.
reference   forum-engine with the layers, every entry synced to disk, by the size of its ledger.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from dbos import DBOSClient, WorkflowHandle

from benchmarks import bare, ledger, reference
from benchmarks.ledger import fill, ratio, say
from benchmarks.plans import Needs, diamond, fan, layers
from benchmarks.serving import settings_of
from forum.app import Forum, upgrade_database
from forum.backends.dbos_worker import prepare_sqlite_queue
from forum.engine import RunRequest
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.kinds import Outcome, RunCloseFacts
from forum.work.plan import Plan, Task
from forum.work.policy import Policy
from tests.soak.cluster import scratch_database

LOOK_SECONDS = 0.02
PATIENCE_SECONDS = 120.0


def main(arguments: list[str]) -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks engine")
    parser.add_argument("--json", action="store_true", help="print nothing but the last line")
    parser.add_argument("--full", action="store_true", help="a million entries, not 100,000")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch, scratch_database(ledger.URL) as url:
        figures = measure(Path(scratch), url, FULL if options.full else QUICK)
    if not options.json:
        for name, value in figures.items():
            print(f"{name:<28} {value}")
    print(json.dumps(figures))


@dataclass(frozen=True)
class Sizes:
    """How much is done."""

    depth: int
    width: int
    rounds: int
    entries: int
    submits: int
    runs: int
    worker_rounds: int
    reference: tuple[int, ...]


QUICK = Sizes(10, 10, 1, 100_000, 200, 20, 1, (100,))
FULL = Sizes(10, 10, 10, 1_000_000, 1_000, 60, 5, (100, 100_000))


def measure(folder: Path, url: str, sizes: Sizes) -> dict[str, Any]:
    """Return all figures; what a reader compares with the goals comes first."""
    say("runs on Postgres")
    with Ours(folder / "forum-postgres", url) as ours:
        postgres = throughput_figures(ours, folder / "bare-postgres", url, sizes)
        say("one and two workers")
        workers = worker_figures(ours, sizes)
    say("runs in SQLite")
    with Ours(folder / "forum-sqlite", None) as ours:
        sqlite = throughput_figures(ours, folder / "bare-sqlite", None, sizes)
    say(f"submitting to a ledger of {sizes.entries} entries in SQLite")
    growth = {"sqlite": growth_figures(folder / "growth-sqlite", None, sizes)}
    say(f"submitting to a ledger of {sizes.entries} entries in Postgres")
    growth["postgres"] = growth_figures(folder / "growth-postgres", url, sizes)
    say("the same plan on forum-engine")
    needs = layers(sizes.depth, sizes.width)
    theirs = [reference.carry_out(needs, entries) for entries in sizes.reference]
    return {
        "throughput_ratio": worst(postgres),
        "throughput_ratio_sqlite": worst(sqlite),
        "submit_growth": max(figures["ratio"] for figures in growth.values()),
        "tasks": sizes.depth * sizes.width,
        "entries": sizes.entries,
        "postgres": postgres,
        "sqlite": sqlite,
        "submit": growth,
        "workers": workers,
        "forum_engine": [asdict(figures) for figures in theirs],
    }


def worst(figures: dict[str, Any]) -> float:
    """Return the lower ratio of the plans."""
    return min(float(plan["ratio"]) for plan in figures.values())


# Those who carry out plans


@dataclass(frozen=True)
class Spent:
    """What something took: by the clock, and of the CPU in the processes that serve."""

    seconds: float
    cpu_seconds: float


class Server:
    """A process that serves until it is closed."""

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def wait(self) -> None:
        """Wait until it is ready."""
        assert self._process.stdout
        assert self._process.stdout.readline() == b"ready\n", self._process.args

    def cpu_seconds(self) -> float:
        """Return the CPU time that it has used."""
        stat = Path(f"/proc/{self._process.pid}/stat").read_text()
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def peak_mb(self) -> int:
        """Return the most memory that it has had, in MB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) // 1024

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

    def timed(self, work: Callable[[], None]) -> Spent:
        """Do something, and tell what it took."""
        before, started = self._cpu_seconds(), time.perf_counter()
        work()
        return Spent(time.perf_counter() - started, self._cpu_seconds() - before)

    def _cpu_seconds(self) -> float:
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

    def __init__(self, folder: Path, url: str | None) -> None:
        self.forum = open_forum(folder, url)
        self._command = ("benchmarks.serving", str(folder), *([url] if url else []))
        super().__init__(Server(*self._command))

    def add_worker(self) -> None:
        """Let one more process work, and wait until it does."""
        self.servers.append(Server(*self._command))
        self.wait()

    def drop_worker(self) -> None:
        """Let the last one end."""
        self.servers.pop().close()

    def wait(self) -> None:
        """Wait until the newest process serves."""
        self.servers[-1].wait()

    def carry_out(self, *plans: Needs) -> None:
        """Carry out plans, all at once."""
        self.finish(order_of(needs) for needs in plans)

    def finish(self, orders: Iterable[RunRequest]) -> None:
        """Have orders carried out, all at once."""
        # The first to come ends first: who looks for the last one sees nothing end for long.
        runs = [self.forum.runs.submit(order) for order in orders][::-1]
        deadline = time.monotonic() + PATIENCE_SECONDS
        while runs:
            time.sleep(LOOK_SECONDS)
            while runs and self._has_ended(runs[-1]):
                runs.pop()
                deadline = time.monotonic() + PATIENCE_SECONDS
            assert time.monotonic() < deadline, f"{len(runs)} runs do not end"

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
        address = url or prepare_sqlite_queue(folder / "bare.db")
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

    def close(self) -> None:
        """Let the process end, and let go of the database."""
        self._client.destroy()
        super().close()


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


# Throughput


def throughput_figures(ours: "Ours", folder: Path, url: str | None, sizes: Sizes) -> dict[str, Any]:
    """Carry out both plans on both sides, in turns."""
    shapes = {"fan": fan(sizes.depth * sizes.width), "layers": layers(sizes.depth, sizes.width)}
    with Bare(folder, url) as other:
        for side in (ours, other):
            side.wait()
            side.carry_out(diamond())
        return {name: compare(ours, other, needs, sizes.rounds) for name, needs in shapes.items()}


def compare(ours: Ours, other: Bare, needs: Needs, rounds: int) -> dict[str, Any]:
    """Carry out a plan on both sides, in turns; and, beside it, as steps of one workflow."""
    own, plain, steps = [], [], []
    for _ in range(rounds):
        plain.append(other.timed(lambda: other.carry_out(needs)))
        own.append(ours.timed(lambda: ours.carry_out(needs)))
        steps.append(other.timed(lambda: other.carry_out(needs, "bare-steps")))
    return {
        "ratio": ratio(rates(own), rates(plain)),
        "forum_tasks_per_s": per_s(own, len(needs)),
        "bare_tasks_per_s": per_s(plain, len(needs)),
        "forum_cpu_ms_per_task": cpu_ms(own, len(needs)),
        "bare_cpu_ms_per_task": cpu_ms(plain, len(needs)),
        "bare_steps_tasks_per_s": per_s(steps, len(needs)),
        "bare_steps_cpu_ms_per_task": cpu_ms(steps, len(needs)),
        "ratio_to_bare_steps": ratio(rates(own), rates(steps)),
    }


def rates(spent: list[Spent]) -> list[float]:
    """Return how often each could have been done in a second."""
    return [1 / cost.seconds for cost in spent]


def per_s(spent: list[Spent], count: int) -> float:
    """Return the median rate, of what was done so many times."""
    return round(count / statistics.median(cost.seconds for cost in spent), 1)


def cpu_ms(spent: list[Spent], count: int) -> float:
    """Return the median of the CPU time, for each of so many."""
    return round(1000 * statistics.median(cost.cpu_seconds for cost in spent) / count, 2)


# Growing, and working together


def growth_figures(folder: Path, url: str | None, sizes: Sizes) -> dict[str, Any]:
    """Submit runs in turns to a small and to a large ledger, and compare the medians."""
    order = order_of(diamond())
    with (
        open_forum(folder / "small", url) as small,
        open_forum(folder / "large", url) as large,
    ):
        fill(small, 1000)
        fill(large, sizes.entries)
        times: dict[Forum, list[float]] = {small: [], large: []}
        for number in range(sizes.submits):
            turns = list(times.items())
            for forum, spent in turns if number % 2 else reversed(turns):
                started = time.perf_counter()
                forum.runs.submit(order)
                spent.append(time.perf_counter() - started)
    few, many = (statistics.median(spent) for spent in times.values())
    return {
        "ratio": round(many / few, 3),
        "small_ms": round(1000 * few, 3),
        "large_ms": round(1000 * many, 3),
    }


def worker_figures(ours: Ours, sizes: Sizes) -> dict[str, Any]:
    """Carry out many small runs with one worker and with two, in turns."""
    plans = [diamond() for _ in range(sizes.runs)]
    alone, together = [], []
    for _ in range(sizes.worker_rounds):
        alone.append(ours.timed(lambda: ours.carry_out(*plans)))
        ours.add_worker()
        together.append(ours.timed(lambda: ours.carry_out(*plans)))
        ours.drop_worker()
    return {
        "ratio": ratio(rates(together), rates(alone)),
        "runs_per_s_1": per_s(alone, len(plans)),
        "runs_per_s_2": per_s(together, len(plans)),
        "cpu_ms_per_run_1": cpu_ms(alone, len(plans)),
        "cpu_ms_per_run_2": cpu_ms(together, len(plans)),
        "runs": len(plans),
        "tasks_of_a_run": len(diamond()),
    }
