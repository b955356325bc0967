"""Very many runs that wait at gates: they must be rows, and wake at once.

`python -m tests.soak.gates --runs 10000` prints one JSON object: what waiting costs, and how long
decisions took to wake their runs.
"""

import argparse
import asyncio
import json
import sqlite3
import sys
import tempfile
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic, sleep

import psycopg

from forum.app import new_run_id
from forum.engine import Engine, LocalRunner, RunRequest, accept_run
from forum.models import make_model, open_tools
from forum.runs.plan import single_task_plan
from forum.runs.policy import Answer, Policy
from forum.runs.run_fold import RunState
from tests.e2e.project import Project, project

ORDER = RunRequest("Deploy.", single_task_plan("Deploy."), Policy(gates=("plan",)))
_AT_ONCE = 200
_SAMPLES = 10
_IDLE_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class Figures:
    """What so many waiting runs cost."""

    runs: int
    seconds: float
    claimed: int
    """Runs that a worker has in hand while all of them wait."""
    empty_mb: int
    """The memory of a worker that serves an empty ledger."""
    waiting_mb: int
    """The memory of a worker beside the waiting runs."""
    woken_ms: list[int]
    """From each decision until the first task of its run had begun."""


def measure(home: Path, runs: int, database: str | None) -> Figures:
    """Let so many runs wait, and wake some of them."""
    begun = monotonic()
    with project(home, database) as made:
        with made.worker() as idle:
            sleep(_IDLE_SECONDS)
            empty = memory_of(idle.pid)
        names = [new_run_id() for _ in range(runs)]
        let_wait(made, names)
        with made.worker() as worker:
            sleep(_IDLE_SECONDS)
            claimed, waiting = claimed_runs(made), memory_of(worker.pid)
            step = max(1, runs // _SAMPLES)
            woken = [wake(made, run) for run in names[::step][:_SAMPLES]]
    return Figures(
        runs,
        seconds=round(monotonic() - begun, 1),
        claimed=claimed,
        empty_mb=empty,
        waiting_mb=waiting,
        woken_ms=woken,
    )


def let_wait(made: Project, names: list[str]) -> None:
    """Have all these runs accepted, and driven to their gates."""

    async def drive() -> None:
        with made.forum.log.open_writer() as ledger:
            runner = LocalRunner(Engine(ledger, make_model, open_tools))
            for start in range(0, len(names), _AT_ONCE):
                for run in names[start : start + _AT_ONCE]:
                    await asyncio.to_thread(accept_run, ledger, run, ORDER, "soak")
                    runner.enqueue_run(run)
                await runner.wait_until_idle()
                print(f"\r{start} of {len(names)} wait", end="", file=sys.stderr)
            print(file=sys.stderr)

    asyncio.run(drive())
    assert made.forum.reads.read_run(names[-1]).state is RunState.WAITING


def wake(made: Project, run: str) -> int:
    """Decide about one run, and return after how many milliseconds it had gone on."""
    gate = made.forum.reads.read_run(run).open_gates[0]
    made.forum.runs.decide_gate(run, "plan", Answer.APPROVE, gate.digest)
    decided = monotonic()
    while not made.forum.reads.read_run(run).tasks:
        assert monotonic() < decided + 20, "it does not wake"
        sleep(0.01)
    return round(1000 * (monotonic() - decided))


def claimed_runs(made: Project) -> int:
    """Count the runs that workers of this ledger have in hand."""
    live = set(made.forum.store.workers())
    if made.forum.settings.database:
        with psycopg.connect(made.forum.settings.database) as db:
            rows = db.execute("SELECT worker FROM forum.claim").fetchall()
    else:
        with closing(sqlite3.connect(made.forum.settings.ledger_file)) as lite:
            rows = lite.execute("SELECT worker FROM claim").fetchall()
    return sum(worker in live for (worker,) in rows)


def memory_of(pid: int) -> int:
    """Return how much memory a process has, in megabytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) // 1024


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--database", help="a Postgres; without one, SQLite")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder) / "project", chosen.runs, chosen.database)
    print(json.dumps(asdict(figures)))


if __name__ == "__main__":
    main()
