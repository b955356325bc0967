"""What runs have cost, added up."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from forum.app import CostAxis, CostSum, CostTable, RunQuery
from forum.runs.run_summary import OTHER_AGENTS
from forum.surfaces.schemas import fields
from forum.surfaces.schemas.runs import Since, Until
from forum.units import format_usd

MAX_COST_PARTS = 8
"""How many parts of rows are told apart: more cannot be told apart in a picture either."""


class CostsFilter(Struct, frozen=True, forbid_unknown_fields=True):
    """The runs to add up, and the axis to group their costs by."""

    by: Annotated[
        CostAxis,
        Meta(
            description="The day (UTC) of the calls, their agent or model, or the lane that the "
            "route of the run has chosen."
        ),
    ] = CostAxis.DAY
    since: Since = None
    until: Until = None
    split: Annotated[
        CostAxis | None,
        Meta(description="A second axis, by which the dollars of each row are split."),
    ] = None


def costs_query(form: CostsFilter) -> RunQuery:
    """Return which runs a form asks for, runs within runs included.  Raises `Malformed`."""
    return RunQuery(
        since=fields.parse_time_bound(form.since, 0),
        until=fields.parse_time_bound(form.until, RunQuery().until),
        within=True,
    )


class CostSumForm(Struct, frozen=True):
    """What some calls have cost."""

    spent: fields.AmountForm
    unpriced: Annotated[
        int, Meta(description="How many of the calls have no known price, and count as free.")
    ]
    runs: Annotated[
        int,
        Meta(description="How many runs made them. A run that another run has started is one."),
    ]


class CostPartForm(Struct, frozen=True):
    """The dollars of a row for one day, agent, model or lane."""

    key: str | None
    usd: fields.Usd


class CostRowForm(CostSumForm, frozen=True):
    """What the calls of one day, agent, model or lane have cost."""

    key: Annotated[
        str | None,
        Meta(
            description="The day, or the name; null if there is none. After the first thousand, "
            "all others are added up under `(others)`.",
            examples=["2026-03-01", "writer"],
        ),
    ]
    parts: Annotated[
        tuple[CostPartForm, ...],
        Meta(
            description="With `split`: the dollars by that axis, in the same order in each row. "
            "The eight dearest of all rows are told apart, and others added up under `(others)`."
        ),
    ] = ()


class CostsForm(Struct, frozen=True):
    """What runs have cost."""

    by: CostAxis
    rows: Annotated[
        tuple[CostRowForm, ...], Meta(description="Days in their order, all else by cost.")
    ]
    total: CostSumForm
    runs_open: Annotated[
        int,
        Meta(
            description="How many of the runs go on. They are counted with what they have cost so "
            "far, and their open calls with what is reserved for them."
        ),
    ]
    runs_unpriced: Annotated[
        int, Meta(description="How many of the runs made calls that have no known price.")
    ]
    runs_stopped: Annotated[
        int, Meta(description="How many of the runs a budget or a cap has stopped.")
    ]
    stopped: Annotated[
        tuple[fields.RunId, ...], Meta(description="The newest of these, at most a hundred.")
    ]
    runs_altered: Annotated[
        int,
        Meta(
            description="How many of the runs have a summary that somebody has changed in the "
            "database. They are counted by their entries; verify the ledger."
        ),
    ]
    next: Annotated[
        str | None,
        Meta(
            description="Null if all runs are counted. Otherwise the cursor for the costs of the "
            "runs that began before these: a request adds up about ten thousand runs at most."
        ),
    ]
    runs_refused: Annotated[
        int,
        Meta(description="In how many of the runs a cap refused a call, however they ended."),
    ] = 0
    calls_refused: Annotated[int, Meta(description="How many calls caps refused.")] = 0
    refused: Annotated[
        tuple[fields.RunId, ...], Meta(description="The newest of these runs, at most a hundred.")
    ] = ()
    runs_overrun: Annotated[
        int,
        Meta(
            description="In how many of the runs a provider billed more than the bound of a call. "
            "They are stopped, and are not among `runs_stopped`."
        ),
    ] = 0
    overrun: Annotated[
        tuple[fields.RunId, ...], Meta(description="The newest of these, at most a hundred.")
    ] = ()


def costs_form(table: CostTable) -> CostsForm:
    """Return what runs have cost, in its form."""
    rows = sorted(table.rows.items())
    if table.axis is not CostAxis.DAY:
        rows.sort(key=lambda row: row[1].spent, reverse=True)
    dearest = _find_dearest(table)
    return fields.fill(
        CostsForm,
        table,
        by=table.axis,
        rows=(_row_form(key, cost, dearest) for key, cost in rows),
        runs_open=table.open_runs,
        runs_unpriced=table.unpriced_runs,
        runs_stopped=table.stopped_runs,
        runs_altered=table.altered_runs,
        runs_refused=table.refused_runs,
        calls_refused=table.refused_calls,
        runs_overrun=table.overrun_runs,
    )


def _row_form(key: str, cost: CostSum, dearest: Sequence[str]) -> CostRowForm:
    parts = {name: usd for name in dearest if (usd := cost.parts.get(name))}
    others = sum(cost.parts.values()) - sum(parts.values())
    if others:
        parts[OTHER_AGENTS] = parts.get(OTHER_AGENTS, 0) + others
    return fields.fill(
        CostRowForm,
        cost,
        key=key,
        parts=(CostPartForm(name or None, format_usd(usd)) for name, usd in parts.items()),
    )


def _find_dearest(table: CostTable) -> list[str]:
    """Return the names of the parts that cost most in all rows together, the dearest first."""
    totals: Counter[str] = Counter()
    for row in table.rows.values():
        totals.update(row.parts)
    return [name for name, _ in totals.most_common(MAX_COST_PARTS)]
