"""What follows from measured coefficients: processes, connections and gigabytes for a given load.

The document of scale has the table of coefficients, and its other tables are functions of it.  A
test computes them again.
"""

import re
from dataclasses import dataclass, fields
from math import ceil
from typing import NamedTuple

from benchmarks.capacity_simulation import Machine, ServiceTimes, find_knee

PEAK = 3
"""The busiest hour of a day has so many times the average load."""
USE = 0.6
"""The share of a core, or of a process with one thread, that is planned for at the peak."""
DAY = 86_400
RUNS_IN_HAND = 500
"""Runs that a worker drives at once (`forum worker --runs`)."""
POOL = 8
"""The most connections of a process that may be pooled by transaction."""
CORES_OF_A_SERVER = 32
PARTITION_STRANDS = 10_000_000


class RunCoefficients(NamedTuple):
    """What a run costs; CPU in milliseconds."""

    accept_cpu_ms: float
    worker_cpu_ms: float
    postgres_cpu_ms: float
    statements: float
    syncs: float
    entries: float
    strands: float
    stored_bytes: float
    wal_bytes: float


@dataclass(frozen=True)
class Coefficients:
    """What one of each costs; CPU in milliseconds, on the machine that was measured."""

    accept_cpu_ms: float
    worker_cpu_ms: float
    postgres_cpu_ms: float
    statements: float
    syncs: float
    entries: float
    strands: float
    stored_bytes: float
    wal_bytes: float
    task_worker_cpu_ms: float
    task_postgres_cpu_ms: float
    task_statements: float
    task_entries: float
    task_stored_bytes: float
    entry_append_cpu_ms: float
    entry_sequence_cpu_ms: float
    sync_ms: float
    idle_statements_per_s: float
    idle_cpu_percent: float
    idle_connections: float
    worker_mb: float
    in_hand_kb: float


def service_times(run: RunCoefficients | Coefficients, sync_ms: float) -> ServiceTimes:
    """Return what the simulation needs."""
    return ServiceTimes(
        accept=run.accept_cpu_ms,
        worker=run.worker_cpu_ms,
        postgres=run.postgres_cpu_ms,
        sync=sync_ms,
        commits=max(1, round(run.syncs)),
    )


LABELS = {
    "accept_cpu_ms": "run: CPU of the process that accepts it, ms",
    "worker_cpu_ms": "run: CPU of the worker, ms",
    "postgres_cpu_ms": "run: CPU of Postgres, ms",
    "statements": "run: statements",
    "syncs": "run: syncs to disk",
    "entries": "run: entries",
    "strands": "run: strands",
    "stored_bytes": "run: bytes in tables and indexes",
    "wal_bytes": "run: bytes of write-ahead log",
    "task_worker_cpu_ms": "each further task with its call: CPU of the worker, ms",
    "task_postgres_cpu_ms": "each further task with its call: CPU of Postgres, ms",
    "task_statements": "each further task with its call: statements",
    "task_entries": "each further task with its call: entries",
    "task_stored_bytes": "each further task with its call: bytes in tables and indexes",
    "entry_append_cpu_ms": "entry: CPU to append it in commits of 1,000, client and server, ms",
    "entry_sequence_cpu_ms": "entry: CPU to sequence it, client and server, ms",
    "sync_ms": "commit: time until it is on disk, ms",
    "idle_statements_per_s": "idle worker: statements/s",
    "idle_cpu_percent": "idle worker: CPU, % of a core",
    "idle_connections": "idle worker: connections",
    "worker_mb": "worker: memory, MB",
    "in_hand_kb": "run that waits for a model: memory of its worker, kB",
}
"""What each coefficient is, as the document names it."""


Rows = list[tuple[str, str]]
"""The rows of a table: what it is, and how much."""


def coefficient_rows(coefficients: Coefficients) -> Rows:
    """Return the rows of the table of coefficients."""
    return [(LABELS[f.name], f"{getattr(coefficients, f.name):g}") for f in fields(coefficients)]


def read_coefficients(rows: Rows) -> Coefficients:
    """Read the rows of that table."""
    names = {label: name for name, label in LABELS.items()}
    return Coefficients(**{names[label]: float(value) for label, value in rows})


def million_runs_a_day(c: Coefficients) -> Rows:
    """Return what 10^6 runs of one task a day need."""
    peak = PEAK * 1e6 / DAY
    workers = max(2, _processes(peak * c.worker_cpu_ms))
    servers = _processes(peak * c.accept_cpu_ms)
    return [
        ("runs/s at the peak", _number(peak)),
        ("worker processes", _number(workers)),
        ("server processes", _number(servers)),
        ("cores of Postgres", _number(_processes(peak * c.postgres_cpu_ms))),
        ("statements/s at the peak", _number(peak * c.statements)),
        ("syncs/s at the peak, at most", _number(peak * c.syncs)),
        *_connections(workers + servers, workers),
        ("logs", "1"),
        ("GB a day", _number(1e6 * c.stored_bytes / 1e9)),
        ("GB of write-ahead log a day", _number(1e6 * c.wal_bytes / 1e9)),
        ("partitions a year", _number(365 * 1e6 * c.strands / PARTITION_STRANDS)),
    ]


def billion_entries_a_day(c: Coefficients) -> Rows:
    """Return what 10^9 entries a day need, if they come from runs of one task."""
    peak = PEAK * 1e9 / DAY
    runs = peak / c.entries
    workers, servers = _processes(runs * c.worker_cpu_ms), _processes(runs * c.accept_cpu_ms)
    cores = _processes(runs * c.postgres_cpu_ms)
    sequencers = _processes(peak * c.entry_sequence_cpu_ms)
    recorders = _processes(peak * (c.entry_append_cpu_ms + c.entry_sequence_cpu_ms))
    return [
        ("entries/s at the peak", _number(peak)),
        ("runs/s at the peak", _number(runs)),
        ("worker processes", _number(workers)),
        ("server processes", _number(servers)),
        ("cores of Postgres, all databases", _number(cores)),
        (f"databases of {CORES_OF_A_SERVER} cores", _number(ceil(cores / CORES_OF_A_SERVER))),
        ("logs, by the CPU of their sequencers", _number(sequencers)),
        ("cores, if entries are only recorded", _number(recorders)),
        *_connections(workers + servers, workers),
        ("GB a day", _number(1e9 / c.entries * c.stored_bytes / 1e9)),
    ]


def many_runs_at_once(c: Coefficients) -> Rows:
    """Return what 10^5 runs need that wait for models at the same time."""
    workers = ceil(1e5 / RUNS_IN_HAND)
    return [
        (f"worker processes with --runs {RUNS_IN_HAND} --tasks {RUNS_IN_HAND}", _number(workers)),
        ("GB of memory", _number((workers * c.worker_mb * 1e6 + 1e5 * c.in_hand_kb * 1e3) / 1e9)),
        ("statements/s while all wait", _number(workers * c.idle_statements_per_s)),
        ("cores busy while all wait", _number(workers * c.idle_cpu_percent / 100)),
        *_connections(workers, workers),
        ("GB in the database", _number(1e5 * c.stored_bytes / 1e9)),
        ("processes for runs that wait for a person or a time", "0"),
    ]


def knees(c: Coefficients) -> Rows:
    """Return the load at which runs begin to queue, by the simulation."""
    machines = [Machine(servers=n, workers=2 * n, cores=4 * n) for n in (1, 2)]
    return [
        (
            f"runs/s; servers: {m.servers}, workers: {m.workers}, cores: {m.cores}",
            _number(find_knee(service_times(c, c.sync_ms), m)),
        )
        for m in (Machine(servers=1, workers=1, cores=2), *machines)
    ]


DERIVED = {
    "10^6 runs a day on one server": million_runs_a_day,
    "10^9 entries a day": billion_entries_a_day,
    "10^5 runs at once": many_runs_at_once,
    "The knee": knees,
}
"""The tables of the document, each under its heading."""


def format_table(rows: Rows) -> str:
    """Return a table as Markdown."""
    return "\n".join(["| | |", "|---|---:|", *(f"| {label} | {value} |" for label, value in rows)])


def read_table(page: str, title: str) -> Rows:
    """Return the rows of the table below a heading of a page."""
    lines = _find_table(page, title)[0].splitlines()[2:]
    return [(cells[1].strip(), cells[2].strip()) for cells in (line.split("|") for line in lines)]


def replace_table(page: str, title: str, rows: Rows) -> str:
    """Return a page with another table below a heading."""
    match = _find_table(page, title)
    return page[: match.start()] + format_table(rows) + page[match.end() :]


def _find_table(page: str, title: str) -> re.Match[str]:
    start = page.index(f"\n## {title}\n")
    match = re.compile(r"^\|.*(?:\n\|.*)*", re.MULTILINE).search(page, start)
    assert match, f"{title} has no table"
    return match


def _processes(cpu_ms_per_s: float) -> int:
    """Return how many cores, or processes with one thread, do so much work in each second."""
    return max(1, ceil(cpu_ms_per_s / 1000 / USE))


def _connections(processes: int, workers: int) -> Rows:
    # One for each worker that listens and holds its lock, one for the process that sequences.
    return [
        ("direct sessions (LISTEN, locks)", _number(workers + 1)),
        ("connections that may be pooled by transaction, at most", _number(POOL * processes)),
    ]


def _number(value: float) -> str:
    """Return a number as the document shows it: two digits, and whole if it is a count."""
    rounded = value if isinstance(value, int) else float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 or float(rounded).is_integer() else f"{rounded:g}"
