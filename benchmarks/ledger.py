"""`python -m benchmarks ledger`: appending, verifying and opening, each against a bare baseline.

Every ratio is of two things measured in turns in this run, because the machine may be busy.  The
last line that `--json` prints is one object.

append     200 tasks, each with a strand of its own, through `Strand.append_async` and one
           committer, while a keeper sequences and signs.  Bare: the same bytes by the driver's
           own bulk insert (`executemany` in one transaction) through one connection, as the
           committer has; and, beside it, by one statement for the whole batch.
verify     `verify_ledger` with every check, in CPU seconds, against SHA-256 over the same bytes;
           1,000 new entries on top of that; two processes against one (`verifying.py`).
growth     one append at a time, in turns to a small and to a large ledger.
open       a new process opens the large ledger and reads its head and newest checkpoint.
calls      what polls a ledger (`find`, `waiting`, `backlog`), in turns in a ledger of 10,000
           entries and in the large one, on both databases; the worse of the two is the figure.
large run  `forum ledger show` and `export` of a run of 5,000 entries, in CPU seconds of the
           command, on both databases.
where      what the threads of one process do while entries are appended to SQLite: CPU seconds
           of each, for each second that passes.  The interpreter runs one at a time.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import secrets
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import reference, verifying
from benchmarks.growth import growth_of_calls
from benchmarks.large_run import large_run_figures
from forum.app import Forum
from forum.ledger.kinds import LEDGER_KINDS, NoteFacts, Outcome
from forum.ledger.log import Ledger
from forum.ledger.ports import Store
from forum.ledger.sequencer import Publisher, Sequencer
from forum.ledger.strand import Draft, Strand
from forum.stores.group_commit import GroupCommitter
from forum.stores.postgres import PostgresStore
from forum.stores.postgres_schema import upgrade_schema
from forum.stores.publisher_loop import PublisherLoop
from forum.stores.sqlite import SqliteStore, open_reader
from forum.stores.state_files import FileCheckpointStore
from forum.tlog import KnownLog, SigningKey, WitnessPolicy
from forum.verify import State, Trust, verify_ledger

WRITERS = 200
ROUNDS = 3
URL = os.environ.get("FORUM_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")


def main(arguments: list[str]) -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks ledger")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument("--full", action="store_true", help="a million entries, not 100,000")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        figures = measure(Path(scratch), FULL if options.full else QUICK)
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:<28} {value}")


@dataclass(frozen=True)
class Sizes:
    """How much is written: in the large ledger, in batches of 1 and of 100, by the reference."""

    entries: int
    single: int
    batched: int
    reference: int


QUICK = Sizes(100_000, 2_000, 40_000, 5_000)
FULL = Sizes(1_000_000, 20_000, 400_000, 1_000_000)


def measure(folder: Path, sizes: Sizes) -> dict[str, Any]:
    """Return all figures; what a reader compares with the goals comes first."""
    say("appending to Postgres")
    postgres = append_figures("postgres", folder, sizes)
    say("appending to SQLite")
    sqlite = append_figures("sqlite", folder, sizes)
    say(f"writing a ledger of {sizes.entries} entries")
    large = Bench(folder / "large", "sqlite")
    fill(large, sizes.entries)
    say("verifying it")
    verified = verify_figures(large)
    parallel = verifying.parallel_figures(large)
    incremental = verifying.incremental_figures(large, lambda count: fill(large, count))
    say("appending to it, and to a small one")
    growth = {
        "sqlite": growth_figures(large, Bench(folder / "small", "sqlite")),
        "postgres": growth_figures(*postgres_pair(folder, sizes.entries)),
    }
    large.close()
    say("opening it")
    opened = open_figures(large)
    say("asking a small and a large one the same")
    calls = growth_of_calls(folder, URL, sizes.entries, ROUNDS)
    say("showing and exporting a large run")
    large_run = large_run_figures(folder, URL, ROUNDS)
    say("the same work on forum-engine")
    theirs = reference.measure(sizes.reference)
    return {
        "append_postgres_ratio": worst(postgres),
        "append_sqlite_ratio": worst(sqlite),
        "verify_ratio": verified["ratio"],
        "verify_incremental_seconds": incremental["seconds"],
        "verify_parallel_ratio": parallel["ratio"],
        "verify_serial_cpu_share": parallel["serial_cpu_share"],
        "append_growth": max(growth.values()),
        **{
            f"{call}_growth": max(figures[call]["growth"] for figures in calls.values())
            for call in ("find", "waiting", "backlog")
        },
        "show_5000_seconds": max(row["show_seconds"] for row in large_run.values()),
        "export_5000_seconds": max(row["export_seconds"] for row in large_run.values()),
        "append_sqlite_where": {size: sqlite[size]["where"] for size in sqlite},
        "open_seconds": opened["seconds"],
        "open_rss_mb": opened["rss_mb"],
        "entries": sizes.entries,
        "postgres": postgres,
        "sqlite": sqlite,
        "verify": {**verified, "incremental": incremental, "parallel": parallel},
        "growth": growth,
        "calls": calls,
        "large_run": large_run,
        "open": opened,
        "forum_engine": asdict(theirs),
    }


def say(what: str) -> None:
    """Tell on stderr what is being measured."""
    print(what, "...", file=sys.stderr, flush=True)


def worst(figures: dict[str, Any]) -> float:
    """Return the lower ratio of the two batch sizes."""
    return min(float(figures[size]["ratio"]) for size in ("batch_1", "batch_100"))


class Bench:
    """One log with everything that keeps it, in a folder or in Postgres."""

    def __init__(self, folder: Path, database: str) -> None:
        folder.mkdir(parents=True)
        self.folder, self.origin = folder, f"bench.local/{secrets.token_hex(6)}"
        self.key = SigningKey(secrets.token_bytes(32), self.origin)
        self.store: Store
        if database == "postgres":
            upgrade_schema(URL)
            self.store = PostgresStore(URL, self.origin)
        else:
            self.store = SqliteStore(folder / "ledger.db", self.origin)
        self.committer = GroupCommitter(self.store)
        self.ledger = Ledger(
            self.store,
            kinds=LEDGER_KINDS,
            clock=now,
            salts=lambda: secrets.token_bytes(32),
            append=self.committer.append,
            append_async=self.committer.append_async,
        )
        self.policy = WitnessPolicy((KnownLog(self.key.verifier()),), (), (), "none")
        guard = FileCheckpointStore(folder / "guard.note")
        self.publisher = Publisher(self.store, self.key, guard, self.policy)
        self.ledger.initialize("benchmark", self.key.verifier())

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Sequence and sign in the background."""
        keeper = PublisherLoop(self.store, Sequencer(self.store), self.publisher)
        yield
        keeper.close()

    def publish(self) -> None:
        """Sequence and sign what is there."""
        Sequencer(self.store).drain()
        self.publisher.publish()

    def close(self) -> None:
        """Let go of the database."""
        self.committer.close()
        self.store.close()


def now() -> int:
    """Return the time in microseconds."""
    return time.time_ns() // 1000


def drafts(strand: Strand, count: int) -> list[Draft]:
    """Return drafts whose entries are about 500 bytes long: two causes, no bodies."""
    causes = (strand.head,) if strand.head else ()
    step = f"attempt/{strand.length}/tool/{'search' * 12}/outcome"
    return [Draft(f"{step}/{n}", "lane:benchmark", NoteFacts(), causes) for n in range(count)]


# Appending


def append_figures(database: str, folder: Path, sizes: Sizes) -> dict[str, Any]:
    """Measure appends in batches of 1 and of 100 against bare inserts, in turns."""
    figures: dict[str, Any] = {}
    bare = {"postgres": bare_postgres, "sqlite": bare_sqlite}[database]
    for batch, total in ((1, sizes.single), (100, sizes.batched)):
        own, alone = [], []
        plain, tuned = [], []
        for round_ in range(ROUNDS):
            home = folder / f"{database}-{batch}-{round_}"
            payload = sample(home / "sample")
            plain.append(bare(home, payload, batch, total, how="executemany"))
            where: dict[str, float] = {}
            own.append(
                append_rate(home / "kept", database, batch, total, publish=True, where=where)
            )
            tuned.append(bare(home, payload, batch, total, how="one statement"))
            alone.append(append_rate(home / "alone", database, batch, total, publish=False))
        figures[f"batch_{batch}"] = {
            "ratio": ratio(own, plain),
            "forum_per_s": middle(own),
            "forum_without_keeper_per_s": middle(alone),
            "bare_per_s": middle(plain),
            "bare_one_statement_per_s": middle(tuned),
            "ratio_to_one_statement": ratio(own, tuned),
            "entry_bytes": len(payload),
            "where": where,
        }
    return figures


def sample(folder: Path) -> bytes:
    """Return the bytes of one entry as the benchmark writes them."""
    bench = Bench(folder, "sqlite")
    strand = bench.ledger.open_strand(str(uuid.uuid4()))
    strand.append(*drafts(strand, 1))
    strand.append(*drafts(strand, 1))
    data = bench.store.last_entry(strand.run, strand.name)
    bench.close()
    return data or b""


def append_rate(
    folder: Path,
    database: str,
    batch: int,
    total: int,
    *,
    publish: bool,
    where: dict[str, float] | None = None,
) -> float:
    """Return acknowledged entries per second, and note where the time went."""
    bench = Bench(folder, database)
    strands = [bench.ledger.open_strand(str(uuid.uuid4())) for _ in range(WRITERS)]

    async def write(strand: Strand) -> None:
        for _ in range(total // WRITERS // batch):
            await strand.append_async(*drafts(strand, batch))

    async def write_all() -> float:
        await asyncio.gather(*(strand.append_async(*drafts(strand, 1)) for strand in strands))
        used, started = cpu_by_thread(), time.perf_counter()
        await asyncio.gather(*map(write, strands))
        seconds = time.perf_counter() - started
        if where is not None:
            where.update(shares(used, cpu_by_thread(), seconds))
        return seconds

    with bench.kept() if publish else contextlib.nullcontext():
        seconds = asyncio.run(write_all())
    bench.close()
    return total / seconds


THREADS = {
    "MainThread": "making_entries",
    "forum-committer": "committing",
    "forum-sequencer": "sequencing",
    "forum-signer": "signing",
    "forum-publisher": "publishing",
}
"""What the threads of a process that writes do, by their names."""


def cpu_by_thread() -> dict[str, float]:
    """Return the CPU seconds that each of these threads has used so far, where Linux counts."""
    clocks: dict[str, int] = {}
    if sys.platform == "linux":
        clocks = {
            thread.name: time.pthread_getcpuclockid(thread.ident)
            for thread in threading.enumerate()
            if thread.ident is not None
        }
    return {what: time.clock_gettime(clocks[t]) for t, what in THREADS.items() if t in clocks}


def shares(before: dict[str, float], after: dict[str, float], seconds: float) -> dict[str, float]:
    """Return what was used in between, for each second; the rest was spent on waiting."""
    used = {what: (after[what] - before.get(what, 0.0)) / seconds for what in after}
    used["waiting"] = max(0.0, 1.0 - sum(used.values()))
    return {what: round(share, 3) for what, share in used.items()}


def rows_of(payload: bytes, writer: int, start: int, count: int) -> list[tuple[int, int, bytes]]:
    """Return the rows of one bare insert."""
    return [(writer, start + n, payload) for n in range(count)]


def bare_postgres(_: Path, payload: bytes, batch: int, total: int, how: str) -> float:
    """Insert through one connection, each batch in a transaction of its own."""
    with psycopg.connect(URL, autocommit=True) as db:
        db.execute("DROP TABLE IF EXISTS bench_bare")
        db.execute(
            "CREATE TABLE bench_bare (writer int, n int, bytes bytea, PRIMARY KEY (writer, n))"
        )
        single = "INSERT INTO bench_bare VALUES (%s, %s, %s)"
        many = "INSERT INTO bench_bare SELECT * FROM unnest(%b::int[], %b::int[], %b::bytea[])"

        def insert(rows: list[tuple[int, int, bytes]]) -> None:
            if len(rows) == 1:
                db.execute(single, rows[0])
            elif how == "executemany":
                with db.transaction(), db.cursor() as cursor:
                    cursor.executemany(single, rows)
            else:
                db.execute(many, [list(column) for column in zip(*rows, strict=True)])

        rate = insert_all(insert, payload, batch, total)
        db.execute("DROP TABLE bench_bare")
    return rate


def bare_sqlite(folder: Path, payload: bytes, batch: int, total: int, how: str) -> float:
    """Insert through one connection, each batch in a transaction of its own."""
    path = folder / f"bare-{how.replace(' ', '-')}.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("CREATE TABLE bare (writer INT, n INT, bytes BLOB, PRIMARY KEY (writer, n))")
        single = "INSERT INTO bare VALUES (?, ?, ?)"

        def insert(rows: list[tuple[int, int, bytes]]) -> None:
            db.execute("BEGIN IMMEDIATE")
            if how == "executemany":
                db.executemany(single, rows)
            else:
                values = ", ".join(["(?, ?, ?)"] * len(rows))
                flat = [value for row in rows for value in row]
                db.execute(f"INSERT INTO bare VALUES {values}", flat)  # noqa: S608
            db.execute("COMMIT")

        return insert_all(insert, payload, batch, total)


def insert_all(
    insert: Callable[[list[tuple[int, int, bytes]]], None], payload: bytes, batch: int, total: int
) -> float:
    """Insert for all writers in turns, and return rows per second."""
    started = time.perf_counter()
    for start in range(0, total // WRITERS, batch):
        for writer in range(WRITERS):
            insert(rows_of(payload, writer, start, batch))
    return total / (time.perf_counter() - started)


# Verifying, growing, opening


def fill(bench: Bench | Forum, entries: int) -> None:
    """Write runs of a thousand entries each, all closed, and publish."""
    publish = bench.log.publish if isinstance(bench, Forum) else bench.publish
    for number in range(1, entries // 1000 + 1):
        run = bench.ledger.open_run(str(uuid.uuid4()), "system:benchmark")
        run.append(*drafts(run, 998))
        bench.ledger.close_run(run, "system:benchmark", Outcome.OK)
        if number % 200 == 0:
            # A committer takes no more while a million entries wait to be sequenced.
            publish()
    publish()


def verify_figures(bench: Bench) -> dict[str, Any]:
    """Compare a full verification with SHA-256 over the same bytes, in CPU seconds."""
    size = bench.store.head().size
    entries = [data for data in bench.store.entries(0, size) if data is not None]
    hashing, verifying = [], []
    for _ in range(ROUNDS):
        started = time.process_time()
        for data in entries:
            hashlib.sha256(data).digest()
        hashing.append(size / (time.process_time() - started))
        started = time.process_time()
        with open_reader(bench.folder / "ledger.db", bench.origin) as reader:
            report = verify_ledger(reader, LEDGER_KINDS, Trust(policy=bench.policy), now())
        verifying.append(size / (time.process_time() - started))
        assert report.intact.state is report.complete.state is State.HOLDS, report
    return {
        "ratio": ratio(verifying, hashing),
        "forum_entries_per_s": middle(verifying),
        "sha256_entries_per_s": middle(hashing),
        "mean_entry_bytes": round(sum(map(len, entries)) / size),
        "closes_with_a_body": size // 1000,
    }


def growth_figures(large: Bench, small: Bench) -> float:
    """Append in turns to both, one entry at a time, and compare the medians."""
    fill(small, 1000)
    strands = {
        bench: bench.ledger.open_run(str(uuid.uuid4()), "system:benchmark")
        for bench in (large, small)
    }
    times: dict[Bench, list[float]] = {large: [], small: []}
    for _ in range(1000):
        for bench, strand in strands.items():
            started = time.perf_counter()
            strand.append(*drafts(strand, 1))
            times[bench].append(time.perf_counter() - started)
    small.close()
    return round(statistics.median(times[large]) / statistics.median(times[small]), 3)


def postgres_pair(folder: Path, entries: int) -> tuple[Bench, Bench]:
    """Return a large and a small log in Postgres."""
    large = Bench(folder / "large-postgres", "postgres")
    fill(large, entries)
    return large, Bench(folder / "small-postgres", "postgres")


OPEN = """
import sys, time
from pathlib import Path
from forum.stores.sqlite import SqliteStore
begun = time.perf_counter()
store = SqliteStore(Path(sys.argv[1]), sys.argv[2])
size, note = store.head().size, store.checkpoint()
seconds = time.perf_counter() - begun
assert size and note
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(size, seconds, int(peak.split()[1]) / 1024)
"""


def open_figures(bench: Bench) -> dict[str, Any]:
    """Open the ledger in a new process."""
    command = [sys.executable, "-c", OPEN, str(bench.folder / "ledger.db"), bench.origin]
    runs = [subprocess.run(command, check=True, capture_output=True) for _ in range(ROUNDS)]
    parts = [run.stdout.split() for run in runs]
    return {
        "entries": int(parts[0][0]),
        "seconds": round(statistics.median(float(part[1]) for part in parts), 4),
        "rss_mb": round(max(float(part[2]) for part in parts), 1),
    }


def middle(values: list[float]) -> int:
    """Return the median, as people read it."""
    return round(statistics.median(values))


def ratio(ours: list[float], theirs: list[float]) -> float:
    """Return the median of the ratios of what was measured in the same round."""
    return round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 3)
