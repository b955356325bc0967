"""Ledgers of any size, made by a few statements: for plans and for what they cost, not for proofs.

Rows have the numbers and the distribution of a real ledger: runs of 24 entries in four strands, a
body for every third entry, an account, an idempotency key and two timers for each run, half of them
due.  Beside the log that is measured there is a busy one that has written since, and idle ones.
The entries are not linked and the tiles not hashed: such a ledger cannot be verified.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from forum.stores.postgres import PostgresStore
from forum.stores.postgres_schema import upgrade_schema
from forum.stores.sql_queries import leaf_prefixes
from forum.stores.sqlite import SqliteStore
from forum.tlog import EMPTY_ROOT

PER_STRAND = 6
STRANDS = 4
PER_RUN = PER_STRAND * STRANDS
ENTRY_BYTES = 200
BATCH = 1000
"""How many entries are sequenced at a time, where rows are kept by batch."""
PENDING = 3000
"""How many entries of the measured log wait for their indexes, each from a commit of its own."""
IDLE_LOGS = 500
MEASURED, BUSY = "bulk.example/measured", "bulk.example/busy"


_DATA = b"x" * ENTRY_BYTES


class LoadedLog(NamedTuple):
    """Where the rows of a loaded log are."""

    log: int
    first_strand: int
    entries: int

    def run(self, nth: int) -> str:
        """Return the name of its nth run."""
        return f"run-{nth:012}"

    def strand(self, nth: int) -> int:
        """Return the key of its nth strand."""
        return self.first_strand + nth

    def prefix(self, index: int) -> int:
        """Return the beginning of the leaf at an index, as a store keeps it."""
        return leaf_prefixes([mix(self.log, index).to_bytes(8, "big")])[0]


def mix(log: int, index: int) -> int:
    """Return a number of 64 bits for an index: spread evenly, the same each time."""
    return (index + 1 + (log << 40)) * 0x9E3779B97F4A7C15 % (1 << 64)


def load_sqlite(path: Path, entries: int) -> LoadedLog:
    """Make a ledger file whose measured log has so many sequenced entries, and some that wait."""
    SqliteStore(path, MEASURED).close()
    SqliteStore(path, BUSY).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = OFF")
        db.execute("BEGIN")
        measured = _fill_sqlite(db, 1, entries)
        for nth in range(IDLE_LOGS):
            origin = f"bulk.example/idle/{nth}"
            db.execute("INSERT INTO log (origin, root) VALUES (?, ?)", (origin, EMPTY_ROOT))
            db.execute("INSERT INTO lease VALUES (?, 'worker', ?)", (nth + 3, 2**62))
        _fill_sqlite(db, 2, entries // 4)
        strands, n = entries // PER_STRAND, PER_STRAND
        db.executemany(
            "INSERT INTO entry (strand, n, bytes) VALUES (?, ?, ?)",
            ((measured.strand(i % strands), n + i // strands, _DATA) for i in range(PENDING)),
        )
        db.execute("COMMIT")
    return measured


def load_postgres(url: str, entries: int) -> LoadedLog:
    """Make a database whose measured log has so many sequenced entries, and some that wait."""
    upgrade_schema(url)
    PostgresStore(url, MEASURED).close()
    PostgresStore(url, BUSY).close()
    with psycopg.connect(url, autocommit=True) as db:
        measured = _fill_postgres(db, 1, entries)
        logs = ((f"bulk.example/idle/{nth}", b"") for nth in range(IDLE_LOGS))
        copy_rows(db, "log (origin, root)", logs)
        copy_rows(db, "lease", ((nth + 3, "worker", 2**62) for nth in range(IDLE_LOGS)))
        _fill_postgres(db, 2, entries // 4)
        strands, n = entries // PER_STRAND, PER_STRAND
        waiting = [(measured.strand(i % strands), n + i // strands) for i in range(PENDING)]
        rows = ((1, strand, n, _DATA) for strand, n in waiting)
        copy_rows(db, "entry (log, strand, n, bytes)", rows)
        copy_rows(db, "pending (log, strands, ns)", ((1, [s], [n]) for s, n in waiting))
        db.execute("VACUUM ANALYZE")
    return measured


def _fill_sqlite(db: sqlite3.Connection, log: int, entries: int) -> LoadedLog:
    """Give a log so many sequenced entries, with all that stands beside them."""
    strands = -(-entries // PER_STRAND)
    first = _next(db, "SELECT max(id) FROM strand")
    ids = _next(db, "SELECT max(id) FROM entry")
    loaded = LoadedLog(log, first, entries)
    db.executemany(
        "INSERT INTO strand (id, log, run, name) VALUES (?, ?, ?, ?)",
        ((first + s, log, loaded.run(s // STRANDS), _name(s)) for s in range(strands)),
    )
    db.executemany(
        "INSERT INTO entry (id, strand, n, bytes) VALUES (?, ?, ?, ?)",
        ((ids + i, first + i // PER_STRAND, i % PER_STRAND, _DATA) for i in range(entries)),
    )
    db.executemany(
        "INSERT INTO leaf (log, idx, entry, prefix) VALUES (?, ?, ?, ?)",
        ((log, i, ids + i, loaded.prefix(i)) for i in range(entries)),
    )
    db.executemany(
        "INSERT INTO body (strand, n, name, part, salt, data) VALUES (?, ?, 'text', 0, ?, ?)",
        (
            (first + i // PER_STRAND, i % PER_STRAND, bytes(32), b"a body")
            for i in range(0, entries, 3)
        ),
    )
    db.execute("DELETE FROM pending WHERE log = ?", (log,))
    db.execute("UPDATE log SET size = ?, last = ? WHERE id = ?", (entries, ids + entries - 1, log))
    for table, rows in _beside(loaded):
        marks = ", ".join("?" * len(rows[0]))
        db.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608
    return loaded


def _next(db: sqlite3.Connection, query: str) -> int:
    return (db.execute(query).fetchone()[0] or 0) + 1


def _name(strand: int) -> str:
    return f"task/{strand % STRANDS}" if strand % STRANDS else "main"


def _beside(loaded: LoadedLog) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    """Yield the rows of the other tables, whose columns have one order in both databases."""
    log, entries = loaded.log, loaded.entries
    runs = [loaded.run(nth) for nth in range(-(-entries // PER_RUN))]
    yield "account", [(log, run, 9, 9, 9, 0, 0, 0) for run in runs]
    yield (
        "alarm (log, run, strand, at)",
        [
            (log, run, strand, 2 * nth + late if nth % 2 else 2**52 + nth)
            for nth, run in enumerate(runs)
            for late, strand in enumerate(("main", "gate/plan"))
        ],
    )
    yield "once (log, name, run, digest)", [(log, f"name-{run}", run, "digest") for run in runs]
    yield "ended", [(log, run, runs[nth // 2], nth) for nth, run in enumerate(runs)]
    yield "run_summary", [(log, run, 1, 0, b"[]", b"tag") for run in runs]
    yield "tile", [(log, 0, nth, bytes(8192)) for nth in range(-(-entries // 256))]
    yield "checkpoint", [(log, size, b"note") for size in range(12, entries + 1, 96)]
    days = [
        f"20{nth // 360:02}-{nth // 30 % 12 + 1:02}-{nth % 30 + 1:02}" for nth in range(len(runs))
    ]
    yield (
        "budget",
        [
            (log, day, "ledger", owner, 2**52, 9, 9, 9, 1, 1, 1)
            for day in dict.fromkeys((*days, "2026-11-16"))
            for owner in ("", "process-1")
        ],
    )
    # As many as some workers drive at once: a claim ends with the work on its run.
    yield "claim", [(log, run, f"worker-{nth % 4}") for nth, run in enumerate(runs[:40])]
    yield "lease", [(log, f"worker-{nth}", nth * 2**50) for nth in range(4)]


def _fill_postgres(db: psycopg.Connection[Any], log: int, entries: int) -> LoadedLog:
    """Give a log so many sequenced entries, with all that stands beside them."""
    strands = -(-entries // PER_STRAND)
    row = db.execute("SELECT coalesce(max(id), 0) + 1 FROM forum.strand").fetchone()
    assert row
    loaded = LoadedLog(log, row[0], entries)
    names = [loaded.run(s // STRANDS) for s in range(strands)]
    rows = [(loaded.strand(s), log, run, _name(s)) for s, run in enumerate(names)]
    copy_rows(db, "strand (id, log, run, name)", rows)
    db.execute("SELECT setval('forum.strand_id_seq', %s)", (row[0] + strands,))
    values = {
        "log": log, "first": row[0], "entries": entries, "per": PER_STRAND, "batch": BATCH,
        "data": _DATA, "salt": bytes(32),
    }  # fmt: skip
    db.execute(
        "INSERT INTO forum.entry SELECT %(log)s, %(first)s + i / %(per)s, i %% %(per)s, %(data)s"
        " FROM generate_series(0, %(entries)s - 1) AS i",
        values,
    )
    db.execute(
        "INSERT INTO forum.body SELECT %(log)s, %(first)s + i / %(per)s, i %% %(per)s, 'text', 0,"
        " %(salt)s, 'a body'::bytea FROM generate_series(0, %(entries)s - 1, 3) AS i",
        values,
    )
    db.execute(
        "INSERT INTO forum.sequenced SELECT %(log)s, i / %(batch)s * %(batch)s,"
        " array_agg(%(first)s::bigint + i / %(per)s ORDER BY i),"
        " array_agg((i %% %(per)s)::bigint ORDER BY i)"
        " FROM generate_series(0, %(entries)s - 1) AS i GROUP BY i / %(batch)s",
        values,
    )
    copy_rows(db, "leaf (log, prefix, idx)", ((log, loaded.prefix(i), i) for i in range(entries)))
    db.execute("UPDATE forum.log SET size = %s WHERE id = %s", (entries, log))
    for table, beside in _beside(loaded):
        copy_rows(db, table, beside)
    return loaded


def copy_rows(db: psycopg.Connection[Any], into: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """Load rows into a table of the ledger, with its columns if they are not all given."""
    with db.cursor().copy(f"COPY forum.{into} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
