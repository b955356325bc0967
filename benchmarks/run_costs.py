"""What a run costs the worker and the database, by the number of workers.

cost     runs of one task that does nothing, all at once, in turns with as many bare DBOS workflows
         of one step through a queue on the same server: CPU time of the worker, statements and
         syncs of the database, from submission to end, with the polling of the worker meanwhile.
scaling  the same number of runs for each second, well below what one worker can do, with 1, 2 and 4
         workers: the CPU time of all of them and the statements, for each run.
large    a plan of so many tasks that workers share them, against one with a task less.
drain    runs that were all accepted before the workers began: runs per second of two against one.
"""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.database_counts import DatabaseCounts
from benchmarks.ledger import ratio
from benchmarks.plans import Needs, diamond, fan
from benchmarks.sides import Bare, Ours, Spent, cpu_ms, order_of, per_s, rates
from forum.engine.context import MAX_OWN_TASKS
from tests.soak.cluster import scratch_database

ONE_TASK: Needs = {"answer": []}
SHAPES = {"one_task": ONE_TASK, "diamond": diamond()}
WORKERS = (1, 2, 4)
WARM_UP = 5
"""Runs for each worker before anything is measured: the first one loads what it needs."""
LOAD = 0.4
"""The share of what one worker can do that is offered to any number of them."""


@dataclass(frozen=True)
class RunCost:
    """What each of some runs took."""

    cpu_ms: float
    statements: float


@dataclass(frozen=True)
class CountedForum:
    """Forum in a database of its own, whose statements are counted."""

    ours: Ours
    counts: DatabaseCounts

    def carry_out(self, needs: Needs, number: int, pause: float = 0.0) -> RunCost:
        """Submit runs, one after each pause, and return what each has cost when all have ended."""
        request, runs = order_of(needs), []
        before, cpu = self.counts.statements(), self.ours.cpu_seconds()
        started = time.monotonic()
        for nth in range(number):
            time.sleep(max(0.0, started + nth * pause - time.monotonic()))
            runs.append(self.ours.forum.runs.submit(request))
        self.counts.wait_for_ends()
        cpu = self.ours.cpu_seconds() - cpu
        statements = self.counts.statements() - before
        self.ours.await_ends(runs)
        return RunCost(1000 * cpu / number, statements / number)


@contextmanager
def counted_forum(folder: Path, cluster: str, runner: str) -> Iterator[CountedForum]:
    """Open a new ledger in a new database of a server, with one worker."""
    with (
        scratch_database(cluster) as url,
        closing(DatabaseCounts(url)) as counts,
        Ours(folder, url, runner) as ours,
    ):
        ours.wait()
        forum = CountedForum(ours, counts)
        forum.carry_out(ONE_TASK, WARM_UP)
        yield forum


def cost_figures(forum: CountedForum, bare: Bare, *, runs: int, rounds: int) -> dict[str, Any]:
    """Compare runs of one task with bare workflows of one step, in turns."""
    own: list[Spent] = []
    plain: list[Spent] = []
    statements: list[float] = []
    syncs = 0
    bare.finish_tasks(WARM_UP)
    for _ in range(rounds):
        plain.append(bare.timed(lambda: bare.finish_tasks(runs)))
        before = forum.counts.syncs()
        own.append(
            forum.ours.timed(lambda: statements.append(forum.carry_out(ONE_TASK, runs).statements))
        )
        syncs += forum.counts.syncs() - before
    own_cpu, plain_cpu = ([cost.cpu_seconds for cost in spent] for spent in (own, plain))
    return {
        "cpu_per_run_ratio": ratio(own_cpu, plain_cpu),
        "statements_per_run": round(median(statements), 1),
        "fsyncs_per_run": round(syncs / (runs * rounds), 2),
        "cpu_ms_per_run": cpu_ms(own, runs),
        "bare_cpu_ms_per_workflow": cpu_ms(plain, runs),
        "runs_per_s": per_s(own, runs),
        "bare_workflows_per_s": per_s(plain, runs),
        "runs": runs,
    }


def large_plan_figures(forum: CountedForum, *, rounds: int) -> dict[str, Any]:
    """Compare a task of a plan that all workers share with one of a plan that one worker has."""
    costs: dict[int, list[RunCost]] = {MAX_OWN_TASKS: [], MAX_OWN_TASKS + 1: []}
    for _ in range(rounds):
        for tasks, row in costs.items():
            row.append(forum.carry_out(fan(tasks), 1))
    own, shared = costs.values()
    return {
        "shared_task_cpu_ratio": ratio([c.cpu_ms for c in shared], [c.cpu_ms for c in own]),
        "statements_of_an_own_task": _per_task(own, MAX_OWN_TASKS),
        "statements_of_a_shared_task": _per_task(shared, MAX_OWN_TASKS + 1),
    }


def _per_task(costs: list[RunCost], tasks: int) -> float:
    return round(median(cost.statements for cost in costs) / tasks, 1)


def scaling_figures(forum: CountedForum, *, seconds: float) -> dict[str, Any]:
    """Offer the same load to 1, 2 and 4 workers."""
    costs: dict[str, dict[int, RunCost]] = {shape: {} for shape in SHAPES}
    pauses = {shape: _pause(forum, needs) for shape, needs in SHAPES.items()}
    for number in WORKERS:
        forum.ours.set_workers(number)
        forum.carry_out(ONE_TASK, WARM_UP * number)
        for shape, needs in SHAPES.items():
            runs = max(WARM_UP, round(seconds / pauses[shape]))
            costs[shape][number] = forum.carry_out(needs, runs, pauses[shape])
    return {
        "worker_scaling": _worst_growth(costs, "cpu_ms", 2),
        "worker_scaling_4": _worst_growth(costs, "cpu_ms", 4),
        "statements_growth_4": _worst_growth(costs, "statements", 4),
        "offered_per_s": {shape: round(1 / pause, 1) for shape, pause in pauses.items()},
        "cpu_ms_by_workers": _table(costs, "cpu_ms"),
        "statements_by_workers": _table(costs, "statements"),
    }


def _pause(forum: CountedForum, needs: Needs) -> float:
    """Return the time between two runs that is `LOAD` of what one worker can do."""
    forum.carry_out(needs, WARM_UP)
    runs = 4 * WARM_UP
    spent = forum.ours.timed(lambda: forum.carry_out(needs, runs))
    return spent.seconds / runs / LOAD


def _worst_growth(costs: dict[str, dict[int, RunCost]], what: str, workers: int) -> float:
    """Return how much more a run costs with so many workers than with one: the worse shape."""
    growth = [getattr(row[workers], what) / getattr(row[1], what) for row in costs.values()]
    return round(float(max(growth)), 3)


def _table(costs: dict[str, dict[int, RunCost]], what: str) -> dict[str, dict[str, float]]:
    return {
        shape: {str(number): round(getattr(cost, what), 1) for number, cost in row.items()}
        for shape, row in costs.items()
    }


def drain_figures(forum: CountedForum, *, runs: int, rounds: int) -> dict[str, Any]:
    """Have runs carried out that were accepted before, by one worker and by two, in turns."""
    spent: dict[int, list[Spent]] = {1: [], 2: []}
    ours, request = forum.ours, order_of(ONE_TASK)
    for nth in range(rounds):
        for number in (1, 2) if nth % 2 == 0 else (2, 1):
            ours.set_workers(0)
            accepted = [ours.forum.runs.submit(request) for _ in range(runs)]
            ours.hold_workers(number)
            spent[number].append(ours.timed(partial(_release, forum)))
            ours.await_ends(accepted)
    return {
        "drain_ratio": ratio(rates(spent[2]), rates(spent[1])),
        "runs_per_s_1": per_s(spent[1], runs),
        "runs_per_s_2": per_s(spent[2], runs),
        "runs": runs,
    }


def _release(forum: CountedForum) -> None:
    for server in forum.ours.servers:
        server.release()
    forum.counts.wait_for_ends()
