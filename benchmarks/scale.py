"""`python -m benchmarks scale`: the coefficients of `docs/concepts/scale.md`, and the knee.

Everything is measured on one private server of Postgres with real workers.  CPU time, counts and
bytes can be compared between machines of one kind; times by the clock only within one run.

coefficients  what a run, a task, an entry and an idle worker cost (`benchmarks.capacity`)
derived       what follows from them for large installations
knee          the load at which runs begin to queue: by the simulation with these coefficients, and
              by a real worker to which more and more runs are offered
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.capacity import (
    DERIVED,
    Coefficients,
    Rows,
    RunCoefficients,
    coefficient_rows,
    format_table,
    replace_table,
    service_times,
)
from benchmarks.capacity_simulation import (
    ENOUGH,
    Machine,
    ServiceTimes,
    arrivals,
    find_knee,
    simulate,
)
from benchmarks.database_counts import private_cluster
from benchmarks.delays import STRAND
from benchmarks.idle_costs import SETTLE_SECONDS, Watched, watch_idle
from benchmarks.ledger import drafts, say
from benchmarks.plans import Needs, diamond
from benchmarks.run_costs import ONE_TASK, WARM_UP, CountedForum, counted_forum
from benchmarks.sides import Server, order_of
from forum.app import KINDS, new_salt, now
from forum.engine import RunRequest
from forum.ledger.log import Ledger
from forum.ledger.sequencer import Sequencer
from forum.runs.plan import Plan, Task
from forum.runs.policy import Policy, Scripted, ScriptStep
from forum.stores.postgres import PostgresStore
from tests.soak.cluster import Cluster

CORES = os.cpu_count() or 1
SPINNING = 2 * CORES
"""Processes that ask for a core at once, as a server, a worker and sessions of Postgres do."""
SUBMITTERS = 8
"""Threads that offer runs: one alone would wait for the disk instead of offering."""
FACTORS = (0.3, 0.5, 0.7, 0.85, 1.0, 1.15, 1.3, 1.5, 1.75, 2.0, 2.5, 3.0)
"""The loads that are offered, as shares of the simulated knee."""
_SPIN = "import time\nend = time.monotonic() + 0.5\nwhile time.monotonic() < end: pass\n"

_SIZES = """
SELECT (SELECT count(*) FROM forum.entry), (SELECT count(*) FROM forum.strand),
    (SELECT sum(pg_total_relation_size(oid)) FROM pg_class AS benchmark_look
        WHERE relnamespace = 'forum'::regnamespace AND relkind = 'r'),
    (SELECT wal_bytes FROM pg_stat_wal)
"""


@dataclass(frozen=True)
class ScaleSizes:
    """How much is done."""

    runs: int
    rounds: int
    entries: int
    idle_seconds: float
    waiting: int
    offered_seconds: float


QUICK = ScaleSizes(80, rounds=3, entries=10_000, idle_seconds=3.0, waiting=60, offered_seconds=2.5)
FULL = ScaleSizes(
    300, rounds=5, entries=100_000, idle_seconds=30.0, waiting=400, offered_seconds=10.0
)


def main(arguments: list[str]) -> None:
    """Measure the coefficients, derive what follows, and look for the knee."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks scale")
    parser.add_argument("--json", action="store_true", help="print nothing but the last line")
    parser.add_argument("--full", action="store_true", help="more of everything")
    parser.add_argument("--runner", default="claims", help="how workers find runs: claims or dbos")
    parser.add_argument("--write", type=Path, help="put the tables into this page")
    options = parser.parse_args(arguments)
    sizes = FULL if options.full else QUICK
    with tempfile.TemporaryDirectory() as scratch, private_cluster() as cluster:
        coefficients, knee = measure(Path(scratch), cluster, sizes, options.runner)
    tables = {"Coefficients": coefficient_rows(coefficients), "A real run": _knee_rows(knee)}
    tables |= {title: derive(coefficients) for title, derive in DERIVED.items()}
    if options.write:
        page = options.write.read_text()
        for title, rows in tables.items():
            page = replace_table(page, title, rows)
        options.write.write_text(page)
    if not options.json:
        for title, rows in tables.items():
            print(f"\n## {title}\n\n{format_table(rows)}")
    print(json.dumps({"knee": knee} | {title: dict(rows) for title, rows in tables.items()}))


def measure(
    folder: Path, cluster: Cluster, sizes: ScaleSizes, runner: str
) -> tuple[Coefficients, dict[str, Any]]:
    """Return the coefficients, and the simulated and the measured knee."""
    with counted_forum(folder / "forum", cluster.url, runner) as forum:
        say("runs of one task")
        run_costs = _median_cost(forum, cluster, ONE_TASK, sizes.runs, rounds=sizes.rounds)
        say("diamonds")
        tasks = len(diamond()) - 1
        more = _median_cost(forum, cluster, diamond(), max(5, sizes.runs // 3), rounds=sizes.rounds)
        say("entries")
        append_ms, sequence_ms = _entry_costs(forum, cluster, sizes.entries)
        sync_ms = _sync_ms(forum)
        say("the knee")
        times = service_times(run_costs, sync_ms)
        knee = knee_figures(forum, times, sizes.offered_seconds)
        coefficients = Coefficients(
            **run_costs._asdict(),
            task_worker_cpu_ms=(more.worker_cpu_ms - run_costs.worker_cpu_ms) / tasks,
            task_postgres_cpu_ms=(more.postgres_cpu_ms - run_costs.postgres_cpu_ms) / tasks,
            task_statements=(more.statements - run_costs.statements) / tasks,
            task_entries=(more.entries - run_costs.entries) / tasks,
            task_stored_bytes=(more.stored_bytes - run_costs.stored_bytes) / tasks,
            entry_append_cpu_ms=append_ms,
            entry_sequence_cpu_ms=sequence_ms,
            sync_ms=sync_ms,
            **_worker_costs(forum, sizes),
        )
    rounded = {name: float(f"{value:.3g}") for name, value in vars(coefficients).items()}
    return Coefficients(**rounded), knee


def _worker_costs(forum: CountedForum, sizes: ScaleSizes) -> dict[str, float]:
    """Return what a worker costs that has just begun: idle, and with runs in hand."""
    say("an idle worker")
    forum.ours.set_workers(0)
    forum.ours.set_workers(1)
    time.sleep(SETTLE_SECONDS)
    (idle,) = watch_idle(sizes.idle_seconds, Watched(forum.counts, forum.ours))
    costs = {f"idle_{name}": value for name, value in idle.items()}
    forum.carry_out(ONE_TASK, WARM_UP)
    worker_mb = _memory_kb(forum.ours.servers[0]) / 1000
    say("runs that wait")
    return costs | {"worker_mb": worker_mb, "in_hand_kb": _in_hand_kb(forum, sizes.waiting)}


def _median_cost(
    forum: CountedForum, cluster: Cluster, needs: Needs, runs: int, rounds: int
) -> RunCoefficients:
    forum.carry_out(needs, WARM_UP)
    costs = [_cost(forum, cluster, needs, runs) for _ in range(rounds)]
    return RunCoefficients(*map(statistics.median, zip(*costs, strict=True)))


def _cost(forum: CountedForum, cluster: Cluster, needs: Needs, runs: int) -> RunCoefficients:
    """Carry runs out, all at once, and return what each has cost."""
    before_syncs, before_sizes = forum.counts.syncs(), _sizes(forum)
    request, submit = order_of(needs), forum.ours.forum.runs.submit
    cpu = [time.process_time(), forum.ours.cpu_seconds(), cluster.cpu_seconds()]
    statements = forum.counts.statements()
    with ThreadPoolExecutor(SUBMITTERS) as threads:
        ids = list(threads.map(lambda _: submit(request), range(runs)))
    accepted = time.process_time()
    forum.counts.wait_for_ends()
    spent = [accepted, forum.ours.cpu_seconds(), cluster.cpu_seconds()]
    statements = forum.counts.statements() - statements
    syncs = forum.counts.syncs() - before_syncs
    sizes = [after - old for after, old in zip(_sizes(forum), before_sizes, strict=True)]
    forum.ours.await_ends(ids)
    accept_ms, worker_ms, postgres_ms = (
        1000 * (after - old) / runs for after, old in zip(spent, cpu, strict=True)
    )
    entries, strands, stored, wal = (size / runs for size in sizes)
    return RunCoefficients(
        accept_cpu_ms=accept_ms,
        worker_cpu_ms=worker_ms,
        postgres_cpu_ms=postgres_ms,
        statements=statements / runs,
        syncs=syncs / runs,
        entries=entries,
        strands=strands,
        stored_bytes=stored,
        wal_bytes=wal,
    )


def _sizes(forum: CountedForum) -> list[int]:
    with psycopg.connect(_database(forum)) as db:
        row = db.execute(_SIZES).fetchone()
    assert row
    return [int(size) for size in row]


def _database(forum: CountedForum) -> str:
    return forum.ours.forum.settings.database or ""


def _entry_costs(forum: CountedForum, cluster: Cluster, entries: int) -> tuple[float, float]:
    """Return the CPU time to append and to sequence an entry, of this process and the server."""
    store = PostgresStore(_database(forum), "benchmark.example/entries")
    ledger = Ledger(store, KINDS, now, new_salt)

    def append() -> None:
        for number in range(entries // 1000):
            strand = ledger.open_run(f"run-{number}", "system:benchmark")
            strand.append(*drafts(strand, 999))

    try:
        appended = _cpu_ms(cluster, append, entries)
        return appended, _cpu_ms(cluster, Sequencer(store).drain, entries)
    finally:
        store.close()


def _cpu_ms(cluster: Cluster, work: Callable[[], object], number: int) -> float:
    before = time.process_time() + cluster.cpu_seconds()
    work()
    return 1000 * (time.process_time() + cluster.cpu_seconds() - before) / number


def _sync_ms(forum: CountedForum) -> float:
    """Return the time of a commit of one row, by the clock."""
    times = []
    with psycopg.connect(_database(forum), autocommit=True) as db:
        db.execute("CREATE TABLE benchmark_look (n integer)")
        for nth in range(100):
            started = time.perf_counter()
            db.execute("INSERT INTO benchmark_look VALUES (%s)", (nth,))
            times.append(time.perf_counter() - started)
    return 1000 * statistics.median(times)


def _memory_kb(server: Server) -> int:
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def _in_hand_kb(forum: CountedForum, runs: int) -> float:
    """Return the memory that a worker needs for each run whose model has not answered."""
    script = Scripted({"*": (ScriptStep("Done.", milliseconds=600_000),)})
    request = RunRequest("Wait.", Plan((Task("answer", "Wait."),)), Policy(agents={"": script}))
    (server,) = forum.ours.servers
    before = _memory_kb(server)
    ids = [forum.ours.forum.runs.submit(request) for _ in range(runs)]
    store = forum.ours.forum.store
    while any(store.last_entry(run, STRAND) is None for run in ids[-3:]):
        time.sleep(0.05)
    time.sleep(SETTLE_SECONDS)
    grown = (_memory_kb(server) - before) / runs
    # Nobody waits for the replies.
    forum.ours.servers.pop().kill()
    return max(0.0, grown)


# The knee


def knee_figures(forum: CountedForum, times: ServiceTimes, seconds: float) -> dict[str, Any]:
    """Offer more and more runs to one worker, and compare with the simulation."""
    rows = []
    shares = [_free_share()]
    tried = find_knee(times, Machine(1, 1, CORES, shares[0]), seconds=seconds)
    for factor in FACTORS:
        row = {"offered_per_s": round(factor * tried, 1)} | _offer(forum, factor * tried, seconds)
        shares.append(_free_share())
        rows.append(row)
        if row["achieved"] < ENOUGH / 1.5:
            break
    # Other programs came and went meanwhile: their share is that of the whole time.
    machine = Machine(1, 1, CORES, statistics.mean(shares))
    for row in rows:
        simulated = simulate(times, machine, row["offered_per_s"], seconds=seconds)
        row["simulated"] = round(simulated.achieved, 3)
        row["simulated_start_p50_ms"] = round(simulated.start_p50_ms, 1)
    knee = find_knee(times, machine, seconds=seconds)
    measured = _find_measured_knee([(row["offered_per_s"], row["achieved"]) for row in rows])
    return {
        "simulated_runs_per_s": round(knee, 1),
        "measured_runs_per_s": round(measured, 1),
        "measured_to_simulated": round(measured / knee, 3),
        "is_reached": min(row["achieved"] for row in rows) < ENOUGH,
        "cores": CORES,
        "free_share_of_a_core": round(machine.speed, 3),
        "loads": rows,
    }


def _knee_rows(knee: dict[str, Any]) -> Rows:
    at_least = "" if knee["is_reached"] else "at least "
    return [
        ("cores", str(knee["cores"])),
        ("share of each core that other programs left", str(knee["free_share_of_a_core"])),
        ("runs/s at the knee, simulated", str(knee["simulated_runs_per_s"])),
        ("runs/s at the knee, measured", f"{at_least}{knee['measured_runs_per_s']}"),
        ("measured to simulated", f"{at_least}{knee['measured_to_simulated']}"),
    ]


def _find_measured_knee(loads: list[tuple[float, float]]) -> float:
    """Return the load at which what is achieved falls below enough, between two that were tried."""
    for (low, good), (high, bad) in pairwise(loads):
        if bad < ENOUGH:
            return low if good < ENOUGH else low + (high - low) * (good - ENOUGH) / (good - bad)
    return loads[-1][0]


def _offer(forum: CountedForum, load: float, seconds: float) -> dict[str, float]:
    """Submit runs at random times for some seconds, and return what share ended in time."""
    request, submit = order_of(ONE_TASK), forum.ours.forum.runs.submit
    moments = arrivals(load, seconds, seed=18)
    started = time.monotonic()

    def submit_at(moment: float) -> tuple[str, float]:
        time.sleep(max(0.0, started + moment - time.monotonic()))
        return submit(request), moment

    with ThreadPoolExecutor(SUBMITTERS) as threads:
        submitted = list(threads.map(submit_at, moments))
    forum.counts.wait_for_ends()
    passed = time.monotonic() - started
    sample = random.Random(18).sample(submitted, min(40, len(submitted)))
    waited = sorted(_start_delay(forum, run) for run, _ in sample)
    return {
        "achieved": round(min(1.0, seconds / passed), 3),
        "start_p50_ms": round(1000 * waited[len(waited) // 2], 1),
    }


def _start_delay(forum: CountedForum, run: str) -> float:
    """Return the time from the acceptance of a run to the first entry of its task."""
    store, ledger = forum.ours.forum.store, forum.ours.forum.ledger
    accepted, begun = (
        ledger.kinds.read(next(iter(store.read_strand(run, strand)))) for strand in ("main", STRAND)
    )
    return (begun.ts - accepted.ts) / 1e6


def _free_share() -> float:
    """Return the share of each core that other programs leave to this one just now."""
    before, started = os.times(), time.monotonic()
    spinning = [subprocess.Popen([sys.executable, "-S", "-c", _SPIN]) for _ in range(SPINNING)]
    for process in spinning:
        process.wait()
    spent, passed = os.times(), time.monotonic() - started
    used = spent.children_user + spent.children_system
    used -= before.children_user + before.children_system
    return min(1.0, used / passed / CORES)
