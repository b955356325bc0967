"""What a worker costs that has nothing to do: statements, CPU time, connections.

Measured with a worker of one log, and with one that serves many.
"""

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.database_counts import DatabaseCounts
from benchmarks.many_logs import finish, served_logs
from benchmarks.run_costs import CountedForum
from forum.app.logs_worker import LINGER_S

SETTLE_SECONDS = 5.0
"""How long a worker may take to notice that there is nothing more to do, and to disconnect."""


@dataclass(frozen=True)
class Among:
    """Where many logs are made, and how many."""

    folder: Path
    cluster: str
    logs: int


def idle_figures(forum: CountedForum, among: Among, *, seconds: float) -> dict[str, Any]:
    """Watch an idle worker of one log, and one that serves many."""
    time.sleep(SETTLE_SECONDS)
    (alone,) = watch_idle(seconds, forum)
    many = many_logs_figures(among, seconds=seconds)
    return {
        "idle_statements_per_second": max(row["statements_per_s"] for row in (alone, many)),
        "idle_cpu_percent": max(row["cpu_percent"] for row in (alone, many)),
        "idle_connections": max(row["connections"] for row in (alone, many)),
        "alone": alone,
        f"with_{among.logs}_logs": many,
    }


def many_logs_figures(among: Among, *, seconds: float) -> dict[str, float]:
    """Watch a process that serves many logs, after each of them has had a run."""
    with (
        served_logs(among.folder, among.cluster, among.logs) as served,
        closing(DatabaseCounts(served.url)) as counts,
    ):
        finish(served.forums, 1)
        time.sleep(LINGER_S + SETTLE_SECONDS)
        before, cpu = counts.statements(), served.server.cpu_seconds()
        started = time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - started
        return {
            "statements_per_s": round((counts.statements() - before) / passed, 1),
            "cpu_percent": round(100 * (served.server.cpu_seconds() - cpu) / passed, 2),
            "connections": counts.connections(),
        }


def watch_idle(seconds: float, *forums: CountedForum) -> list[dict[str, float]]:
    """Return what the workers of each ledger do in some seconds without work."""
    before = [(forum.counts.statements(), forum.ours.cpu_seconds()) for forum in forums]
    started = time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - started
    return [
        {
            "statements_per_s": round((forum.counts.statements() - statements) / passed, 1),
            "cpu_percent": round(100 * (forum.ours.cpu_seconds() - cpu) / passed, 2),
            "connections": forum.counts.connections(),
        }
        for forum, (statements, cpu) in zip(forums, before, strict=True)
    ]
