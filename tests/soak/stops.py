"""Workers that are started and stopped under load: each has to end in time.

`python -m tests.soak.stops --cycles 200` prints one JSON object: how long a worker took to end
after SIGTERM.  Meanwhile runs are submitted without a pause and another worker carries them out, so
that there is always something to sequence, to claim and to hand on.  The signal comes at a random
moment, some of them while the worker starts.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from threading import Event, Thread

from forum.engine import RunRequest
from forum.errors import BacklogFull, StoreFailed
from forum.runs.plan import single_task_plan
from tests.e2e.project import Project, project
from tests.soak.cluster import scratch_database

MAX_SECONDS = 5.0
LONGEST_LIFE_SECONDS = 2.0
STARTING = 5
"""Every so many cycles the signal comes while the worker starts."""
_GIVEN_UP_SECONDS = 60.0
_AHEAD = 20
"""How many runs may wait: a backlog that grows would make every later cycle slower."""


@dataclass(frozen=True, slots=True)
class Figures:
    """How so many workers ended."""

    cycles: int
    submitted: int
    """Runs that were submitted meanwhile."""
    late: int
    """Workers that took longer than five seconds."""
    failed: int
    """Workers that ended with an error."""
    median_seconds: float
    longest_seconds: float


def measure(folder: Path, database: str | None, cycles: int, seed: int) -> Figures:
    """Start and stop so many workers while others work on the same ledger."""
    random, seconds = Random(seed), list[float]()
    statuses = list[int]()
    with project(folder, database) as made, made.worker(), _load(made) as submitted:
        for cycle in range(cycles):
            with _worker(made) as worker:
                if cycle % STARTING:
                    _wait_until_it_serves(worker)
                time.sleep(random.uniform(0.0, LONGEST_LIFE_SECONDS))
                seconds.append(_stop(worker))
                statuses.append(worker.returncode)
            print(f"\r{cycle + 1} of {cycles}", end="", file=sys.stderr)
        print(file=sys.stderr)
        runs = len(submitted)
    # Before Python has installed any handler, SIGTERM ends it as it ends every program.
    failed = sum(status not in (0, -signal.SIGTERM) for status in statuses)
    late = sum(each > MAX_SECONDS for each in seconds)
    middle = sorted(seconds)[len(seconds) // 2]
    return Figures(
        cycles,
        submitted=runs,
        late=late,
        failed=failed,
        median_seconds=round(middle, 2),
        longest_seconds=round(max(seconds), 2),
    )


@contextmanager
def _worker(made: Project) -> "Iterator[subprocess.Popen[bytes]]":
    argv = [sys.executable, "-m", "forum", "worker", "--json"]
    log = (made.home / "stopped.log").open("ab")
    with (
        log,
        subprocess.Popen(
            argv, cwd=made.home, env=made.environ, stdout=subprocess.PIPE, stderr=log
        ) as worker,
    ):
        try:
            yield worker
        finally:
            worker.kill()


def _wait_until_it_serves(worker: "subprocess.Popen[bytes]") -> None:
    assert worker.stdout
    assert worker.stdout.readline(), "it ended before it served"


def _stop(worker: "subprocess.Popen[bytes]") -> float:
    begun = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    worker.wait(_GIVEN_UP_SECONDS)
    return time.monotonic() - begun


@contextmanager
def _load(made: Project) -> Iterator[list[str]]:
    """Submit runs all the time, but no more than can be carried out."""
    submitted: list[str] = []
    stop = Event()

    def submit() -> None:
        request = RunRequest("Go.", single_task_plan("Go."))
        while not stop.is_set():
            waiting = len(made.forum.store.timers(None, _AHEAD, due=False))
            try:
                submitted.extend(made.submit(request) for _ in range(_AHEAD - waiting))
            except (BacklogFull, StoreFailed) as error:
                print(f"not submitted: {error}", file=sys.stderr)
            stop.wait(0.05)

    thread = Thread(target=submit)
    thread.start()
    try:
        yield submitted
    finally:
        stop.set()
        thread.join()


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.stops")
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sqlite", action="store_true", help="a ledger file instead of Postgres")
    options = parser.parse_args()
    server = os.environ.get("FORUM_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")
    with tempfile.TemporaryDirectory() as folder:
        if options.sqlite:
            figures = measure(Path(folder), None, options.cycles, options.seed)
        else:
            with scratch_database(server) as url:
                figures = measure(Path(folder), url, options.cycles, options.seed)
    print(json.dumps(asdict(figures)))
    sys.exit(1 if figures.late or figures.failed else 0)


if __name__ == "__main__":
    main()
