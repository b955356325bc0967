"""What a worker costs that has nothing to do: statements, CPU time, connections.

Measured in a database with one log, and in one with many idle logs beside it.
"""

import time
from typing import Any

from benchmarks.run_costs import CountedForum
from forum.backends.postgres import PostgresStore

IDLE_LOGS = 50
SETTLE_SECONDS = 5.0
"""How long a worker may take to notice that there is nothing more to do, and to disconnect."""


def idle_figures(forum: CountedForum, *, seconds: float) -> dict[str, Any]:
    """Watch an idle worker, then with more logs in its database."""
    time.sleep(SETTLE_SECONDS)
    (alone,) = watch_idle(seconds, forum)
    database = forum.ours.forum.settings.database or ""
    for nth in range(IDLE_LOGS):
        PostgresStore(database, f"idle.example/{nth}", connections=1).close()
    time.sleep(SETTLE_SECONDS)
    (among,) = watch_idle(seconds, forum)
    return {
        "idle_statements_per_second": max(row["statements_per_s"] for row in (alone, among)),
        "idle_cpu_percent": max(row["cpu_percent"] for row in (alone, among)),
        "idle_connections": max(row["connections"] for row in (alone, among)),
        "alone": alone,
        f"with_{IDLE_LOGS}_logs": among,
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
