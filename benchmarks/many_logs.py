"""One worker process for many logs of a database, and whether they get fair shares of it.

One log has very many due runs; others get a few each.  How long these take until they have ended,
against their time while the first log has nothing to do.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.plans import Needs
from benchmarks.sides import LOOK_SECONDS, PATIENCE_SECONDS, SUBMITTER, Server, open_forum, order_of
from forum.app import KINDS, OPERATOR, Forum, new_run_id, new_salt, now
from forum.engine import accept_run
from forum.ledger.log import Ledger
from forum.ledger.ports import EntryWrite
from tests.soak.cluster import scratch_database

ONE_TASK: Needs = {"answer": []}
LOADED_AT_ONCE = 500
"""Runs that are accepted in one commit."""


@dataclass(frozen=True)
class ServedLogs:
    """Logs in one database, and the process that serves all of them."""

    url: str
    forums: Sequence[Forum]
    server: Server


@contextmanager
def served_logs(folder: Path, cluster: str, number: int) -> Iterator[ServedLogs]:
    """Make logs in a new database, and serve them in one process."""
    with ExitStack() as stack:
        url = stack.enter_context(scratch_database(cluster))
        folders = [folder / f"log-{nth}" for nth in range(number)]
        named = f"{url}?application_name={SUBMITTER}"
        forums = [stack.enter_context(open_forum(each, named)) for each in folders]
        paths = map(str, folders)
        server = Server("benchmarks.serving", *paths, "--database", url, "--runner", "claims")
        stack.callback(server.close)
        server.wait()
        yield ServedLogs(url, forums, server)


def fair_figures(
    folder: Path, cluster: str, *, due: int, logs: int, runs: int, rounds: int
) -> dict[str, Any]:
    """Compare the time of a few runs in each of some logs, without and with a log full of runs."""
    with served_logs(folder, cluster, 1 + logs) as served:
        full, *others = served.forums
        finish(others, runs)  # loads what a worker needs
        alone = [finish(others, runs) for _ in range(rounds)]
        load_due(full, due)
        beside = [finish(others, runs) for _ in range(rounds)]
        left = count_due(full)
        served.server.kill()
    return {
        "fair_ratio": round(median(beside) / median(alone), 2),
        "alone_s": [round(seconds, 2) for seconds in alone],
        "beside_s": [round(seconds, 2) for seconds in beside],
        "due": due,
        "left": left,
        "logs": logs,
        "runs_each": runs,
    }


def load_due(forum: Forum, number: int) -> None:
    """Have runs accepted, many in one commit."""
    request, records = order_of(ONE_TASK), list[EntryWrite]()
    ledger = Ledger(
        store=forum.store,
        kinds=KINDS,
        clock=now,
        salts=new_salt,
        append=records.extend,
        mask=forum.mask,
        tags=forum.write_keys,
    )
    for nth in range(1, number + 1):
        accept_run(ledger, new_run_id(), request, OPERATOR)
        if nth % LOADED_AT_ONCE == 0 or nth == number:
            forum.store.append(records)
            records.clear()


def count_due(forum: Forum) -> int:
    """Return how many runs of a log have not ended."""
    number, last = 0, None
    while page := forum.store.timers(last, 1000, due=False):
        number, last = number + len(page), page[-1]
    return number


def finish(forums: Sequence[Forum], runs: int) -> float:
    """Submit so many runs to each log, and return after how many seconds all have ended."""
    request = order_of(ONE_TASK)
    started = time.monotonic()
    for _ in range(runs):
        for forum in forums:
            forum.runs.submit(request)
    deadline = started + PATIENCE_SECONDS
    for forum in forums:
        while forum.store.timers(None, 1, due=False):
            assert time.monotonic() < deadline, "runs do not end"
            time.sleep(LOOK_SECONDS)
    return time.monotonic() - started
