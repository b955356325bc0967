"""`python -m benchmarks engine`: runs against bare DBOS, and submitting to a ledger that grows.

Every ratio is of two things measured in turns in this run, because the machine may be busy.  The
last line that is printed is one JSON object.

throughput  a run of 100 no-op tasks, from its submission to its recorded end, against the same
            plan on bare DBOS (`benchmarks.bare`): same server, limits and polling.  There are
            two plans: 100 tasks that wait for nothing, and ten layers of ten.  The worse ratio
            counts.  Each side is served by a process of its own, whose CPU time is told too.
submit      `Forum.submit` until it is durable, in turns to a ledger of 1,000 entries and to a
            large one.
cost        what a run of one task costs, against a bare workflow; with more workers; and with all
            runs accepted before the workers begin (`benchmarks.run_costs`).
idle        what a worker costs that has nothing to do, with one log and with many
            (`benchmarks.idle_costs`).
fair        runs of some logs beside a log full of due runs, in one worker
            (`benchmarks.many_logs`).
delays      from acceptance to the first call, and after a crash (`benchmarks.delays`).
ended       the same in a database of many ended and waiting runs (`benchmarks.ended_runs`).
reference   forum-engine with the layers, every entry synced to disk, by the size of its ledger.
"""

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import reference
from benchmarks.database_counts import private_cluster
from benchmarks.delays import start_figures, takeover_figures
from benchmarks.ended_runs import LoadSizes, ended_figures
from benchmarks.filling import fill_at_once
from benchmarks.idle_costs import Among, idle_figures
from benchmarks.ledger import fill, ratio, say
from benchmarks.many_logs import fair_figures
from benchmarks.plans import Needs, diamond, fan, layers
from benchmarks.run_costs import (
    CountedForum,
    cost_figures,
    counted_forum,
    drain_figures,
    large_plan_figures,
    scaling_figures,
)
from benchmarks.sides import Bare, Ours, cpu_ms, open_forum, order_of, per_s, rates
from forum.app import Forum
from tests.soak.cluster import scratch_database


def main(arguments: list[str]) -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks engine")
    parser.add_argument("--json", action="store_true", help="print nothing but the last line")
    parser.add_argument("--full", action="store_true", help="ten times as much")
    parser.add_argument(
        "--runner", default="", help="how workers find runs: claims (default) or dbos"
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch, private_cluster() as cluster:
        sizes = FULL if options.full else QUICK
        figures = measure(Path(scratch), cluster.url, sizes, options.runner)
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
    reference: tuple[int, ...]
    runs: int
    """Of one task, all at once."""
    run_rounds: int
    offered_seconds: float
    idle_seconds: float
    starts: int
    kills: int
    ended: int
    waiting: int
    idle_logs: int
    due: int
    """Due runs of one log, beside which others get fair shares."""
    fair_logs: int


QUICK = Sizes(
    depth=10,
    width=10,
    rounds=1,
    entries=100_000,
    submits=200,
    reference=(100,),
    runs=80,
    run_rounds=1,
    offered_seconds=1.5,
    idle_seconds=3.0,
    starts=20,
    kills=2,
    ended=100_000,
    waiting=10_000,
    idle_logs=50,
    due=2_000,
    fair_logs=20,
)
FULL = Sizes(
    depth=10,
    width=10,
    rounds=10,
    entries=1_000_000,
    submits=1_000,
    reference=(100, 100_000),
    runs=300,
    run_rounds=5,
    offered_seconds=20.0,
    idle_seconds=30.0,
    starts=300,
    kills=20,
    ended=1_000_000,
    waiting=100_000,
    idle_logs=50,
    due=100_000,
    fair_logs=20,
)


def measure(folder: Path, cluster: str, sizes: Sizes, runner: str = "") -> dict[str, Any]:
    """Return all figures; what a reader compares with the goals comes first."""
    with counted_forum(folder / "forum-postgres", cluster, runner) as forum:
        with scratch_database(cluster) as url, Bare(folder / "bare-postgres", url) as bare:
            bare.wait()
            say("runs of one task")
            cost = cost_figures(forum, bare, runs=sizes.runs, rounds=sizes.run_rounds)
            say("100 tasks on Postgres")
            postgres = throughput_figures(forum.ours, bare, sizes)
        groups = {"cost": cost, **worker_figures(forum, folder, cluster, runner, sizes=sizes)}
    say("100 tasks in SQLite")
    with (
        Ours(folder / "forum-sqlite", None, runner) as ours,
        Bare(folder / "bare-sqlite", None) as bare,
    ):
        ours.wait()
        bare.wait()
        sqlite = throughput_figures(ours, bare, sizes)
        groups["takeover_sqlite"] = takeover_figures(ours, kills=max(1, sizes.kills // 2))
    say(f"submitting to a ledger of {sizes.entries} entries")
    with scratch_database(cluster) as url:
        ledgers = {"sqlite": (folder / "sqlite", None), "postgres": (folder / "postgres", url)}
        large = [(place / LARGE, database) for place, database in ledgers.values()]
        fill_at_once(large, sizes.entries)
        growth = {name: growth_figures(*ledger, sizes) for name, ledger in ledgers.items()}
    say("the same plan on forum-engine")
    needs = layers(sizes.depth, sizes.width)
    theirs = [reference.carry_out(needs, entries) for entries in sizes.reference]
    return {
        "throughput_ratio": worst(postgres),
        "throughput_ratio_sqlite": worst(sqlite),
        "ratio_to_bare_steps": worst(postgres, "ratio_to_bare_steps"),
        "submit_growth": max(figures["ratio"] for figures in growth.values()),
        **{name: groups[group][name] for group, names in GOALS.items() for name in names},
        "start_latency_ms": groups["start"],
        "takeover_seconds": groups["takeover"],
        "takeover_seconds_sqlite": groups["takeover_sqlite"],
        "growth_of_ended_runs": groups["ended"]["growth"],
        "runner": runner or "default",
        "tasks": sizes.depth * sizes.width,
        "entries": sizes.entries,
        "postgres": postgres,
        "sqlite": sqlite,
        "submit": growth,
        **{name: groups[name] for name in (*GOALS, "ended", "large_plan")},
        "forum_engine": [asdict(figures) for figures in theirs],
    }


GOALS = {
    "cost": ("cpu_per_run_ratio", "statements_per_run", "fsyncs_per_run"),
    "scaling": ("worker_scaling", "worker_scaling_4", "statements_growth_4"),
    "drain": ("drain_ratio",),
    "idle": ("idle_statements_per_second", "idle_cpu_percent", "idle_connections"),
    "fair": ("fair_ratio",),
}
"""Figures of each group that stand at the top."""


def worker_figures(
    forum: CountedForum, folder: Path, cluster: str, runner: str, sizes: Sizes
) -> dict[str, dict[str, Any]]:
    """Return what workers cost and how long runs wait for them, by group."""
    groups: dict[str, dict[str, Any]] = {}
    say("runs that begin")
    groups["start"] = start_figures(forum, runs=sizes.starts)
    say("an idle worker")
    among = Among(folder / "idle", cluster, sizes.idle_logs)
    groups["idle"] = idle_figures(forum, among, seconds=sizes.idle_seconds)
    say(f"{sizes.fair_logs} logs beside one with {sizes.due} due runs")
    groups["fair"] = fair_figures(
        folder / "fair", cluster, due=sizes.due, logs=sizes.fair_logs, runs=10, rounds=sizes.rounds
    )
    say(f"{sizes.ended} ended and {sizes.waiting} waiting runs")
    loaded = LoadSizes(sizes.ended, sizes.waiting, sizes.runs, sizes.idle_seconds)
    groups["ended"] = ended_figures(forum, folder / "ended", cluster, runner, sizes=loaded)
    say("a plan whose tasks are shared")
    groups["large_plan"] = large_plan_figures(forum, rounds=max(3, sizes.rounds))
    say("the same load for 1, 2 and 4 workers")
    groups["scaling"] = scaling_figures(forum, seconds=sizes.offered_seconds)
    say("runs that were accepted before")
    groups["drain"] = drain_figures(forum, runs=sizes.runs, rounds=sizes.run_rounds)
    say("workers that are killed")
    groups["takeover"] = takeover_figures(forum.ours, kills=sizes.kills)
    return groups


def worst(figures: dict[str, Any], what: str = "ratio") -> float:
    """Return the lower ratio of the plans."""
    return min(float(plan[what]) for plan in figures.values())


# Throughput


def throughput_figures(ours: Ours, other: Bare, sizes: Sizes) -> dict[str, Any]:
    """Carry out both plans on both sides, in turns."""
    shapes = {"fan": fan(sizes.depth * sizes.width), "layers": layers(sizes.depth, sizes.width)}
    for side in (ours, other):
        side.carry_out(diamond())
    return {name: compare(ours, other, needs, sizes.rounds) for name, needs in shapes.items()}


def compare(ours: Ours, other: Bare, needs: Needs, rounds: int) -> dict[str, Any]:
    """Carry out a plan on both sides, in turns; and, beside it, as steps of one workflow."""
    own, plain = [], []
    steps = []
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


# Growing

LARGE = "large"
"""The folder of the ledger that was filled before."""


def growth_figures(folder: Path, url: str | None, sizes: Sizes) -> dict[str, Any]:
    """Submit runs in turns to a small and to the large ledger, and compare the medians."""
    request = order_of(diamond())
    with open_forum(folder / "small", url) as small, open_forum(folder / LARGE, url) as large:
        fill(small, 1000)
        times: dict[Forum, list[float]] = {small: [], large: []}
        for number in range(sizes.submits):
            turns = list(times.items())
            for forum, spent in turns if number % 2 else reversed(turns):
                started = time.perf_counter()
                forum.runs.submit(request)
                spent.append(time.perf_counter() - started)
    few, many = (statistics.median(spent) for spent in times.values())
    return {
        "ratio": round(many / few, 3),
        "small_ms": round(1000 * few, 3),
        "large_ms": round(1000 * many, 3),
    }
