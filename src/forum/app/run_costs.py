"""What runs have cost, added up by day, agent, model or lane.

Closed runs are read from their summaries, and runs that go on from their entries.  A run that has
another one do something is not charged for it here: the other run is counted itself.
"""

from collections.abc import Iterable
from datetime import date, timedelta
from enum import StrEnum

from msgspec import Struct, field

from forum.app.project import ProjectContext
from forum.app.run_list import MAX_SCANNED_RUNS, ListedRun, RunLister, RunQuery
from forum.ledger.ports import Amount
from forum.runs.kinds import StopReason
from forum.runs.run_summary import OTHER_AGENTS, RunCost

MAX_COST_KEYS = 1000
"""How many days, agents, models or lanes are told apart; reporters name agents as they like."""
MAX_STOPPED_RUNS = 100
"""How many of the runs that a budget has stopped are named."""
PAGE_SIZE = 500
"""How many runs are read at once."""


class CostAxis(StrEnum):
    """What costs are added up by."""

    DAY = "day"
    AGENT = "agent"
    MODEL = "model"
    LANE = "lane"


class CostSum(Struct):
    """What some calls have cost."""

    spent: Amount = Amount()
    unpriced: int = 0
    """The number of calls whose price is not known."""
    runs: int = 0
    """The number of runs that made them."""
    parts: dict[str, int] = {}
    """The nano-dollars by another axis, if the table is split by one."""

    def add(self, costs: Iterable[RunCost]) -> None:
        """Count the calls of one more run."""
        self.runs += 1
        for cost in costs:
            self.spent = self.spent.plus(cost.amount)
            self.unpriced += cost.unpriced


class CostTable(Struct):
    """What some runs have cost."""

    axis: CostAxis
    split: CostAxis | None = None
    """By what the cost of each row is told apart again."""
    rows: dict[str, CostSum] = {}
    """By day, agent, model or lane; under the empty text what has none."""
    total: CostSum = field(default_factory=CostSum)
    open_runs: int = 0
    """The number of runs that go on; their open calls count with their reservations."""
    unpriced_runs: int = 0
    """The number of runs with calls whose price is not known."""
    stopped_runs: int = 0
    """The number of runs that a budget or a cap has stopped; overruns are counted apart."""
    stopped: list[str] = []
    """The newest of these."""
    refused_runs: int = 0
    """The number of runs in which a cap refused calls, however they ended."""
    refused_calls: int = 0
    refused: list[str] = []
    """The newest of these runs."""
    overrun_runs: int = 0
    """The number of runs with a call that was billed above its bound."""
    overrun: list[str] = []
    """The newest of these."""
    altered_runs: int = 0
    next: str | None = None
    """The run before which others may have begun that are not counted; None if all are."""

    def add_run(self, run: ListedRun) -> None:
        """Count one more run."""
        by_key: dict[str, list[RunCost]] = {}
        for cost in run.summary.own_costs:
            by_key.setdefault(self._row_key(run, cost), []).append(cost)
        for key, costs in by_key.items():
            self.rows[key].add(costs)
            if self.split is not None:
                _split_row(self.rows[key].parts, run, costs, self.split)
        if by_key:
            self.total.add(cost for costs in by_key.values() for cost in costs)
        self.open_runs += not run.ended
        self.unpriced_runs += run.summary.unpriced > 0
        self.altered_runs += run.is_altered
        self._count_caps(run)

    def _count_caps(self, run: ListedRun) -> None:
        """Count what caps did to a run: a bill above a bound is no cap that was reached."""
        summary = run.summary
        is_overrun, is_refused = summary.overruns > 0, summary.refused > 0
        is_stopped = summary.stopped is StopReason.BUDGET and not is_overrun
        self.stopped_runs += is_stopped
        self.refused_runs += is_refused
        self.refused_calls += summary.refused
        self.overrun_runs += is_overrun
        for is_listed, runs in (
            (is_stopped, self.stopped),
            (is_refused, self.refused),
            (is_overrun, self.overrun),
        ):
            if is_listed and len(runs) < MAX_STOPPED_RUNS:
                runs.append(run.run)

    def _row_key(self, run: ListedRun, cost: RunCost) -> str:
        """Return the key of the row of a cost, which is added if there is none."""
        key = _cost_key(self.axis, run, cost)
        if key not in self.rows and len(self.rows) >= MAX_COST_KEYS:
            key = OTHER_AGENTS
        self.rows.setdefault(key, CostSum())
        return key


def _split_row(
    parts: dict[str, int], run: ListedRun, costs: Iterable[RunCost], axis: CostAxis
) -> None:
    for cost in costs:
        key = _cost_key(axis, run, cost)
        if key not in parts and len(parts) >= MAX_COST_KEYS:
            key = OTHER_AGENTS
        parts[key] = parts.get(key, 0) + cost.usd


def _cost_key(axis: CostAxis, run: ListedRun, cost: RunCost) -> str:
    match axis:
        case CostAxis.DAY:
            return (date(1970, 1, 1) + timedelta(days=cost.day)).isoformat()
        case CostAxis.AGENT:
            return cost.agent
        case CostAxis.MODEL:
            return cost.model
        case CostAxis.LANE:
            return run.summary.lane


def add_up_costs(
    project: ProjectContext,
    axis: CostAxis,
    query: RunQuery,
    before: str | None,
    split: CostAxis | None = None,
    *,
    is_limited: bool = True,
) -> CostTable:
    """Return what the runs that match have cost; if limited, very many are not added up at once."""
    table = CostTable(axis, split)
    most = MAX_SCANNED_RUNS if is_limited else None
    for page in RunLister(project).scan_runs(query, before, PAGE_SIZE, most):
        for run in page.runs:
            table.add_run(run)
        table.next = page.next
    return table
