"""`python -m benchmarks runners`: what a run costs with each way to assign runs to workers.

One worker on a Postgres of its own, with each runner in turn: CPU time of the worker, statements
and syncs of the database for a run of one task and for a diamond, what it does while idle, how long
a run waits for its first call, and for another worker after `kill -9`.  Temporal takes part if the
program of its server is named; the CPU time and the memory of that server are told too.
"""

import argparse
import json
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.database_counts import private_cluster
from benchmarks.delays import start_figures, takeover_figures
from benchmarks.idle_costs import SETTLE_SECONDS, Watched, watch_idle
from benchmarks.ledger import say
from benchmarks.run_costs import ONE_TASK, SHAPES, WARM_UP, CountedForum, RunCost, counted_forum
from benchmarks.sides import process_cpu_seconds, process_peak_mb
from tests.soak.temporal import temporal_server

RUNS = 100
DIAMONDS = 20
STARTS = 40
KILLS = 3
IDLE_SECONDS = 5.0


def main(arguments: list[str]) -> None:
    """Measure every runner and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks runners")
    parser.add_argument("--json", action="store_true", help="print nothing but the last line")
    parser.add_argument("--temporal", help="the program of a Temporal server")
    options = parser.parse_args(arguments)
    figures = {}
    with (
        tempfile.TemporaryDirectory() as scratch,
        private_cluster() as cluster,
        ExitStack() as stack,
    ):
        for runner in ("claims", "dbos", *(["temporal"] if options.temporal else [])):
            server = None
            if runner == "temporal":
                server = stack.enter_context(temporal_server(options.temporal))
            say(runner)
            with counted_forum(Path(scratch) / runner, cluster.url, runner) as forum:
                figures[runner] = measure(forum, server)
    if not options.json:
        for runner, row in figures.items():
            print(f"{runner:<10} {row}")
    print(json.dumps(figures))


def measure(forum: CountedForum, server: int | None) -> dict[str, Any]:
    """Return the figures of one runner; `server` is the process of its own server, if any."""
    forum.carry_out(SHAPES["diamond"], WARM_UP)
    syncs, beside = forum.counts.syncs(), process_cpu_seconds(server) if server else 0.0
    run_costs: list[RunCost] = []
    spent = forum.ours.timed(lambda: run_costs.append(forum.carry_out(ONE_TASK, RUNS))).seconds
    figures: dict[str, Any] = {
        "cpu_ms_per_run": round(run_costs[0].cpu_ms, 1),
        "statements_per_run": round(run_costs[0].statements, 1),
        "fsyncs_per_run": round((forum.counts.syncs() - syncs) / RUNS, 1),
        "runs_per_s": round(RUNS / spent, 1),
    }
    if server:
        taken = process_cpu_seconds(server) - beside
        figures["server_cpu_ms_per_run"] = round(1000 * taken / RUNS, 1)
        figures["server_peak_mb"] = process_peak_mb(server)
    diamond = forum.carry_out(SHAPES["diamond"], DIAMONDS)
    figures["diamond_cpu_ms"] = round(diamond.cpu_ms, 1)
    figures["start_ms"] = start_figures(forum, runs=STARTS)
    time.sleep(SETTLE_SECONDS)
    figures["idle"] = watch_idle(IDLE_SECONDS, Watched(forum.counts, forum.ours))[0]
    figures["worker_peak_mb"] = forum.ours.servers[0].peak_mb()
    figures["takeover_s"] = takeover_figures(forum.ours, kills=KILLS)
    return figures
