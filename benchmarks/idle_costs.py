"""What a worker costs that has nothing to do: statements, CPU time, connections.

Measured with a worker of one log, and with one that serves many.
"""

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.database_counts import DatabaseCounts
from benchmarks.many_logs import finish, served_logs
from benchmarks.run_costs import CountedForum
from benchmarks.sides import Server, Side
from forum.app.logs_worker import LINGER_S

SETTLE_SECONDS = 5.0
"""How long a worker may take to notice that there is nothing more to do, and to disconnect."""


@dataclass(frozen=True)
class Among:
    """Where many logs are made, and how many."""

    folder: Path
    cluster: str
    logs: int


class Watched(NamedTuple):
    """A worker that is watched, and the counts of its database."""

    counts: DatabaseCounts
    process: Side | Server


def idle_figures(forum: CountedForum, among: Among, *, seconds: float) -> dict[str, Any]:
    """Watch an idle worker of one log and, beside it, one that serves many.

    Each of the many has had a run before.
    """
    with (
        served_logs(among.folder, among.cluster, among.logs) as served,
        closing(DatabaseCounts(served.url)) as counts,
    ):
        finish(served.forums, 1)
        time.sleep(LINGER_S + SETTLE_SECONDS)
        alone, many = watch_idle(
            seconds, Watched(forum.counts, forum.ours), Watched(counts, served.server)
        )
    return {
        "idle_statements_per_second": max(row["statements_per_s"] for row in (alone, many)),
        "idle_cpu_percent": max(row["cpu_percent"] for row in (alone, many)),
        "idle_connections": max(row["connections"] for row in (alone, many)),
        "alone": alone,
        f"with_{among.logs}_logs": many,
    }


def watch_idle(seconds: float, *workers: Watched) -> list[dict[str, float]]:
    """Return what each worker does in some seconds without work."""
    before = [(counts.statements(), process.cpu_seconds()) for counts, process in workers]
    started = time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - started
    return [
        {
            "statements_per_s": round((counts.statements() - statements) / passed, 1),
            "cpu_percent": round(100 * (process.cpu_seconds() - cpu) / passed, 2),
            "connections": counts.connections(),
        }
        for (counts, process), (statements, cpu) in zip(workers, before, strict=True)
    ]
