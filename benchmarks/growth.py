"""What polls the ledger, in a short log and in a long one: each call is compared with itself.

Both logs are loaded in bulk, with neighbours in the same database (see `benchmarks.bulk`).
"""

import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.bulk import MEASURED, LoadedLog, load_postgres, load_sqlite
from forum.ledger.ports import Store
from forum.stores.postgres import PostgresStore
from forum.stores.sqlite import SqliteStore
from tests.soak.cluster import scratch_database

SMALL = 10_000
CALLS = 200
LIMIT = 100
"""How many waiting entries are asked for: so many are handed to a sequencer in one look."""


def growth_of_calls(folder: Path, url: str, entries: int, rounds: int) -> dict[str, Any]:
    """Return for each database how much longer calls take with so many entries than with few."""
    paths = folder / "growth-small.db", folder / "growth-large.db"
    loaded = [load_sqlite(path, size) for path, size in zip(paths, (SMALL, entries), strict=True)]
    stores: list[Store] = [SqliteStore(path, MEASURED) for path in paths]
    figures = {"sqlite": _compare(stores, loaded, rounds)}
    with scratch_database(url) as small, scratch_database(url) as large:
        urls = (small, large)
        loaded = [load_postgres(u, size) for u, size in zip(urls, (SMALL, entries), strict=True)]
        stores = [PostgresStore(u, MEASURED) for u in urls]
        figures["postgres"] = _compare(stores, loaded, rounds)
    return figures


def _compare(stores: list[Store], loaded: list[LoadedLog], rounds: int) -> dict[str, Any]:
    prefixes = [log.prefix(log.entries // 2).to_bytes(8, "big", signed=True) for log in loaded]
    calls: dict[str, list[Callable[[], object]]] = {
        "find": [
            partial(s.find_by_prefix, prefix) for s, prefix in zip(stores, prefixes, strict=True)
        ],
        "waiting": [partial(store.pending_entries, LIMIT) for store in stores],
        "backlog": [store.backlog for store in stores],
        "due_alarms": [partial(store.timers, None, LIMIT, due=True) for store in stores],
    }
    try:
        return {
            name: _figure([_medians(*both) for _ in range(rounds)]) for name, both in calls.items()
        }
    finally:
        for store in stores:
            store.close()


def _figure(medians: list[tuple[float, float]]) -> dict[str, float]:
    return {
        "growth": round(statistics.median(large / small for small, large in medians), 3),
        "small_us": round(1e6 * statistics.median(small for small, _ in medians), 1),
        "large_us": round(1e6 * statistics.median(large for _, large in medians), 1),
    }


def _medians(small: Callable[[], object], large: Callable[[], object]) -> tuple[float, float]:
    """Return the median time of each of two calls, made in turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(CALLS):
        for call, seconds in zip((small, large), times, strict=True):
            started = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - started)
    return statistics.median(times[0]), statistics.median(times[1])
