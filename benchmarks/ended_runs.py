"""What runs and idle workers cost in a database of many ended and waiting runs.

Two ledgers are compared, each in a database of its own: one with few runs, and one that has been
given many runs that ended and some that wait.  Rows are loaded in bulk: their entries are not
linked and have no index, so such a ledger cannot be verified, but it can be worked on.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

from benchmarks.bulk import ENTRY_BYTES, copy_rows
from benchmarks.idle_costs import SETTLE_SECONDS, Watched, watch_idle
from benchmarks.run_costs import ONE_TASK, WARM_UP, CountedForum, counted_forum
from benchmarks.sides import order_of

ENTRIES = 3
"""Entries of each of the two strands of a loaded run."""
_WAIT_MICROS = 30 * 86_400 * 1_000_000

_NEXT_STRAND = "SELECT coalesce(max(id), 0) + 1 FROM forum.strand"
_ADD_ENTRIES = """
INSERT INTO forum.entry (log, strand, n, bytes)
SELECT %(log)s, strand, n, %(data)s
FROM generate_series(%(first)s::bigint, %(last)s) AS strand
CROSS JOIN generate_series(0, %(entries)s - 1) AS n
"""
_ADD_BODIES = """
INSERT INTO forum.body (log, strand, n, name, part, salt, data)
SELECT %(log)s, strand, 0, 'text', 0, %(salt)s, %(data)s
FROM generate_series(%(first)s::bigint, %(last)s) AS strand
"""


@dataclass(frozen=True)
class LoadSizes:
    """How many runs are loaded, how many are carried out, and how long idle workers are watched."""

    ended: int
    waiting: int
    runs: int
    seconds: float


def ended_figures(
    empty: CountedForum, folder: Path, cluster: str, runner: str, sizes: LoadSizes
) -> dict[str, Any]:
    """Compare submitting, runs and an idle worker, in turns in both databases."""
    with counted_forum(folder, cluster, runner) as full:
        both = {"empty": empty, "full": full}
        load_runs(full, sizes.ended, sizes.waiting)
        submits: dict[str, list[float]] = {name: [] for name in both}
        for forum in both.values():
            forum.carry_out(ONE_TASK, WARM_UP)
        for nth in range(sizes.runs):
            for name in both if nth % 2 else reversed(both):
                submits[name].append(_time_submit(both[name]))
        for forum in both.values():
            forum.counts.wait_for_ends()
        costs = {name: forum.carry_out(ONE_TASK, sizes.runs) for name, forum in both.items()}
        time.sleep(SETTLE_SECONDS)
        workers = [Watched(forum.counts, forum.ours) for forum in both.values()]
        idle = dict(zip(both, watch_idle(sizes.seconds, *workers), strict=True))
    figures: dict[str, dict[str, float]] = {
        name: {
            "submit_ms": round(1000 * median(submits[name]), 3),
            "cpu_ms_per_run": round(costs[name].cpu_ms, 2),
            "statements_per_run": round(costs[name].statements, 1),
            "idle_statements_per_s": idle[name]["statements_per_s"],
            "idle_cpu_percent": idle[name]["cpu_percent"],
        }
        for name in both
    }
    growth = {
        what: round(figures["full"][what] / max(figures["empty"][what], 1e-9), 3)
        for what in figures["empty"]
    }
    return {"ended": sizes.ended, "waiting": sizes.waiting, "growth": growth, **figures}


def _time_submit(forum: CountedForum) -> float:
    started = time.perf_counter()
    forum.ours.forum.runs.submit(order_of(ONE_TASK))
    return time.perf_counter() - started


def load_runs(forum: CountedForum, ended: int, waiting: int) -> None:
    """Add runs to a ledger: ended ones, and some that wait for a person."""
    store = forum.ours.forum.store
    log, now = store._log, store.now()  # type: ignore[attr-defined]  # noqa: SLF001
    names = [f"loaded-{nth:09}" for nth in range(ended + waiting)]
    with psycopg.connect(forum.ours.forum.settings.database or "", autocommit=True) as db:
        row = db.execute(_NEXT_STRAND).fetchone()
        assert row
        first, last = row[0], row[0] + 2 * len(names) - 1
        strands = ((run, strand) for run in names for strand in ("main", "task/answer"))
        rows = ((first + nth, log, *strand) for nth, strand in enumerate(strands))
        copy_rows(db, "strand (id, log, run, name)", rows)
        db.execute("SELECT setval('forum.strand_id_seq', %s)", (last + 1,))
        values = {"log": log, "first": first, "last": last, "entries": ENTRIES}
        db.execute(_ADD_ENTRIES, {**values, "data": b"x" * ENTRY_BYTES})
        db.execute(_ADD_BODIES, {**values, "salt": bytes(32), "data": b"a body"})
        copy_rows(db, "account", ((log, run, 9, 9, 9, 0, 0, 0) for run in names))
        keys = ((log, f"key-{run}", run, "digest") for run in names)
        copy_rows(db, "once (log, name, run, digest)", keys)
        timers = (
            (log, run, "main", now + _WAIT_MICROS + nth) for nth, run in enumerate(names[ended:])
        )
        copy_rows(db, "alarm (log, run, strand, at)", timers)
        db.execute("VACUUM ANALYZE")
