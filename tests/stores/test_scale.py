"""No statement reads more because a log is longer, whoever else writes into the database.

The gate loads 100,000 entries; `just scale` loads a million.
"""

import ast
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from time import perf_counter

import psycopg
import pytest

import forum
from benchmarks.bulk import MEASURED, PENDING, LoadedLog, load_postgres, load_sqlite
from forum.ledger.ports import Store
from forum.stores.postgres import PostgresStore
from forum.stores.sql_migrations import load_queries
from forum.stores.sqlite import SqliteStore
from tests.soak.cluster import scratch_database
from tests.stores.statements import (
    Parameters,
    Plan,
    parameters_of,
    postgres_plan,
    scan_reasons,
    sqlite_plan,
)
from tests.support import flaky

SMALL = 10_000
LARGE = int(os.environ.get("FORUM_SCALE_ENTRIES", "100000"))
MOST_GROWTH = 1.5
HEIGHT = 4
"""Pages that Postgres reads more of because a larger index is higher, at the ends of a look-up."""

GROWING = frozenset(
    {
        *("account", "alarm", "body", "budget", "checkpoint", "ended", "entry", "leaf"),
        *("log", "once", "pending", "run_summary", "sequenced", "strand", "tile"),
    }
)
"""Tables that grow with a log, or with the number of logs; workers and migrations are few."""

_PARTS = "stores/sql_"
"""How the paths begin of the modules that hold the parts of a store."""
SCANNERS = frozenset(
    {
        *("verify/ledger_audit.py", "verify/table_audit.py", "verify/epoch_audit.py"),
        *("surfaces/cli/doctor.py", "app/record_figures.py:measure_log"),
        # A reader without the write key, about a row that no signed tree has: an exception.
        "ledger/row_checks.py:is_newer_than_tree",
        # An export, about an entry that has no index although the run was sequenced before.
        "ledger/bundle.py:_check_unsequenced",
        # A change of caps, which takes back what processes hold of them.
        "app/budgets.py:_record",
        # The command that archives, about every run that is not archived yet.
        "features/archive/service.py:_outline_runs",
        # A backup, which copies all rows afterwards.
        "features/backup/service.py:_check_tree",
        # A review, about gates that were decided after the entries it is about.
        "features/oversight/service.py:_gates_decided_since",
        # A list of runs, about those that wait for their index.
        "ledger/run_directory.py:_waiting_runs",
        # The next epoch, about entries that the earlier log could not sign; mostly there are none.
        "app/keys.py:_count_unsigned",
    }
)
"""Who may use statements that read a whole log: verification, doctor and maintenance."""


class Database:
    """One loaded database: its measured log, and how it carries statements out."""

    def __init__(self, kind: str, place: Path | str, loaded: LoadedLog) -> None:
        self.kind, self.place = kind, place
        self.loaded = loaded
        self._parameters = parameters_of(loaded, kind)

    def open(self) -> Store:
        """Open the measured log."""
        if isinstance(self.place, Path):
            return SqliteStore(self.place, MEASURED)
        return PostgresStore(self.place, MEASURED)

    def plans(self, statements: dict[str, str]) -> dict[str, Plan]:
        """Explain statements and carry each of them out."""
        if isinstance(self.place, Path):
            with closing(sqlite3.connect(self.place, isolation_level=None)) as lite:
                return {n: sqlite_plan(lite, n, s, self._of(n)) for n, s in statements.items()}
        with psycopg.connect(self.place, autocommit=True) as db:
            return {n: postgres_plan(db, s, self._of(n)) for n, s in statements.items()}

    def _of(self, name: str) -> Parameters:
        assert name in self._parameters, f"give the statement {name} parameters in statements.py"
        return self._parameters[name]


Pair = tuple[Database, Database]


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """Return a small and a large ledger in each database that we have."""
    with ExitStack() as stack:
        made: list[Database] = []
        for entries in (SMALL, LARGE):
            if request.param == "sqlite":
                place = tmp_path_factory.mktemp("scale") / "ledger.db"
                made.append(Database("sqlite", place, load_sqlite(place, entries)))
            else:
                server = str(request.getfixturevalue("postgres_url"))
                url = stack.enter_context(scratch_database(server))
                made.append(Database("postgres", url, load_postgres(url, entries)))
        yield made[0], made[1]


def scanned(statement: str, plan: Plan) -> list[str]:
    """Return what a plan reads all of, where the statement sets no limit to that."""
    texts = []
    for line in plan.lines:
        table = re.search(r"(?:SCAN|SEARCH|Scan on) (\w+)", line)
        if table is None or re.sub(r"_(\d+|default)$", "", table[1]) not in GROWING:
            continue  # partitions are named after their table
        # By its log alone, an index leads to all that the log has.
        narrowed = re.search(r"\((?!log=\?\)|\(*log = \$\d+\)*\)).+\)", line)
        limited = "limit" in statement.lower()
        if "SCAN" in line or "Seq Scan" in line or not (narrowed or limited):
            texts.append(line)
    return texts


def grown(pair: Pair, statements: dict[str, str]) -> dict[str, object]:
    """Return the statements that cost more, or read all of something, in the large ledger."""
    small, large = (database.plans(statements) for database in pair)
    slack = HEIGHT if pair[0].kind == "postgres" else 0
    return {
        name: (small[name].cost, plan.cost, scanned(statements[name], plan))
        for name, plan in large.items()
        if scanned(statements[name], plan)
        or plan.cost > MOST_GROWTH * max(small[name].cost, 1) + slack
    }


@pytest.mark.slow
def test_no_statement_reads_more_because_the_log_is_longer(pair: Pair) -> None:
    """Workers and sequencers ask ten times a second: what grows with the log stops them all."""
    kind = pair[0].kind
    marked = scan_reasons(kind)
    unmarked = {
        name: statement
        for name, statement in load_queries(kind).items()
        if name not in marked and not statement.startswith("CREATE")
    }

    assert len(unmarked) > 50
    assert grown(pair, unmarked) == {}


@pytest.mark.slow
def test_a_statement_that_reads_a_whole_log_is_noticed(pair: Pair) -> None:
    """The check above must find what it is for: these statements were in a release."""
    once = {
        "sqlite": {
            "find": "SELECT idx FROM leaf WHERE log = :log AND prefix BETWEEN :low AND :high"
            " ORDER BY idx",
            "waiting": "SELECT entry.id FROM entry JOIN strand ON strand.id = entry.strand"
            " WHERE entry.id > (SELECT last FROM log WHERE id = :log) AND strand.log = :log"
            " ORDER BY entry.id LIMIT :limit",
            "forget_asked": "UPDATE once SET digest = '' WHERE log = :log AND +run = :run",
        },
        "postgres": {
            "due_alarms": "WITH due AS MATERIALIZED (SELECT * FROM forum.alarm"
            " WHERE log = %(log)s AND at <= 1000000000000000)"
            " SELECT run FROM due WHERE (run, strand) > (%(run)s, %(strand)s)"
            " ORDER BY run, strand LIMIT %(limit)s",
            "forget_asked": "UPDATE forum.once SET digest = ''"
            " WHERE log = %(log)s AND run || '' = %(run)s",
        },
    }[pair[0].kind]

    assert grown(pair, once).keys() == once.keys()
    assert grown(pair, {n: load_queries(pair[0].kind)[n] for n in ("stored",)}).keys() == {"stored"}


@pytest.mark.slow
@flaky("the clock of a call is compared; other processes lengthen one of two")
def test_a_call_takes_as_long_in_a_long_log_as_in_a_short_one(pair: Pair) -> None:
    """What a plan promises, the clock has to show; in turns, for the machine has other work too."""
    stores = [database.open() for database in pair]
    middles = [database.loaded.entries // 2 for database in pair]
    prefixes = [
        database.loaded.prefix(middle).to_bytes(8, "big", signed=True)
        for database, middle in zip(pair, middles, strict=True)
    ]
    calls: dict[str, list[Callable[[], object]]] = {
        "find": [
            partial(s.find_by_prefix, prefix) for s, prefix in zip(stores, prefixes, strict=True)
        ],
        "waiting": [partial(store.pending_entries, 100) for store in stores],
        "backlog": [store.backlog for store in stores],
        "due": [partial(store.timers, None, 100, due=True) for store in stores],
    }
    try:
        document = {name: [call() for call in both] for name, both in calls.items()}
        ratios = {name: _ratio(*both) for name, both in calls.items()}
    finally:
        for store in stores:
            store.close()

    assert document["find"] == [[middle] for middle in middles]
    # More than are counted one by one, and all alike: then the estimate is exact.
    assert document["backlog"] == [PENDING, PENDING]
    assert {name: ratio for name, ratio in ratios.items() if ratio > MOST_GROWTH} == {}


def _ratio(small: Callable[[], object], large: Callable[[], object]) -> float:
    """Return how much longer the second takes, in the round in which it is least disturbed.

    Other programs only lengthen a call, so of each the quick ones are compared.  One that reads
    more in a long log has no quick ones, in any round.
    """
    return min(_quick_ratio(small, large) for _ in range(5))


def _quick_ratio(small: Callable[[], object], large: Callable[[], object]) -> float:
    """Return the ratio of the tenth of each that was quickest, of 60 calls in turns."""
    times: dict[Callable[[], object], list[float]] = {small: [], large: []}
    for nth in range(60):
        for call in (small, large) if nth % 2 else (large, small):
            begun = perf_counter()
            call()
            times[call].append(perf_counter() - begun)
    return sorted(times[large])[6] / sorted(times[small])[6]


def test_only_who_reads_everything_anyway_uses_statements_that_do() -> None:
    """A mark excuses a statement; it must not excuse a worker that begins to use it."""
    marked = {name for kind in ("sqlite", "postgres") for name in scan_reasons(kind)}
    source = Path(forum.__file__).parent
    trees = {
        path.relative_to(source).as_posix(): ast.parse(path.read_text())
        for path in source.rglob("*.py")
    }
    doors = {
        name
        for path, tree in trees.items()
        if path.startswith("stores/")
        for name, node in _nodes(tree)
        if isinstance(node, ast.Constant) and node.value in marked
    }
    # A method that is nothing but another way to such a statement.
    doors |= {
        name
        for path, tree in trees.items()
        if path.startswith(_PARTS)
        for name, node in _nodes(tree)
        if isinstance(node, ast.Call) and _calls(node, doors)
    }
    users = {
        _where(path, name)
        for path, tree in trees.items()
        for name, node in _nodes(tree)
        if _calls(node, doors) and not (path.startswith(_PARTS) and name in doors)
    }

    assert doors == {
        "count_entries",
        "unsequenced_entries",
        "unsequenced_rows",
        "count_rows",
        "unarchived_runs",
        "recall_slices",
    }
    assert users == SCANNERS


def _calls(node: ast.AST, doors: set[str]) -> bool:
    """Tell whether something calls a method of such a name, or imports such a function."""
    if isinstance(node, ast.ImportFrom):
        backend = (node.module or "").startswith("forum.stores")
        return backend and any(name.name in doors for name in node.names)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr in doors


def _where(path: str, function: str) -> str:
    return path if path in SCANNERS else f"{path}:{function}"


def _nodes(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield every node with the name of the outermost function that it stands in."""
    for top in tree.body:
        inner = top.body if isinstance(top, ast.ClassDef) else [top]
        for part in inner:
            name = part.name if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) else ""
            yield from ((name, node) for node in ast.walk(part))
