"""`python -m benchmarks workers`: the CPU time of a run by the number of workers.

Runs of one task that does nothing are submitted all at once to one ledger in Postgres, in turns to
1, 2 and 4 workers.  Counted is the CPU time of the workers, their polling included, for as long as
the runs take.  Workers that stand in each other's way show as a ratio above 1.  The last line that
is printed is one JSON object.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import ledger
from benchmarks.ledger import say
from benchmarks.sides import Ours, Spent, cpu_ms, order_of, per_s
from tests.soak.cluster import scratch_database

WORKERS = (1, 2, 4)
WARM_UP = 5
"""Runs for each worker before it is measured: the first one loads what it needs."""
SETTLE_SECONDS = 2.0
"""How long workers take to notice how many they are."""


def main(arguments: list[str]) -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks workers")
    parser.add_argument("--json", action="store_true", help="print nothing but the last line")
    parser.add_argument("--runs", type=int, default=200, help="how many runs at once")
    parser.add_argument("--rounds", type=int, default=3, help="how often each number of workers")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch, scratch_database(ledger.URL) as url:
        figures = measure(Path(scratch), url, options.runs, options.rounds)
    if not options.json:
        for name, value in figures.items():
            print(f"{name:<24} {value}")
    print(json.dumps(figures))


def measure(folder: Path, url: str, runs: int, rounds: int) -> dict[str, Any]:
    """Carry out the same runs with each number of workers, in turns."""
    spent: dict[int, list[Spent]] = {number: [] for number in WORKERS}
    with Ours(folder / "forum", url) as ours:
        ours.wait()
        for turn in range(rounds):
            for number in WORKERS if turn % 2 == 0 else reversed(WORKERS):
                say(f"{runs} runs with {number} workers")
                ours.set_workers(number)
                time.sleep(SETTLE_SECONDS)
                ours.finish([order_of({"answer": []})] * WARM_UP * number)
                spent[number].append(
                    ours.timed(lambda: ours.finish([order_of({"answer": []})] * runs))
                )
    cpu = {number: cpu_ms(times, runs) for number, times in spent.items()}
    return {
        "cpu_ratio_2": round(cpu[2] / cpu[1], 2),
        "cpu_ratio_4": round(cpu[4] / cpu[1], 2),
        **{f"cpu_ms_per_run_{number}": cpu[number] for number in WORKERS},
        **{f"runs_per_s_{number}": per_s(times, runs) for number, times in spent.items()},
        "runs": runs,
        "rounds": rounds,
    }
