"""`forum costs`: add up what runs have cost."""

from collections.abc import Sequence

import click

from forum import app
from forum.app import CostAxis
from forum.app.formatting import pluralize
from forum.surfaces.cli import common_options
from forum.surfaces.cli.output import format_table, print_result
from forum.surfaces.schemas.costs import CostsForm, CostSumForm, costs_form

_AXES = click.Choice([axis.value for axis in CostAxis])


@common_options.command(
    examples=("forum costs", "forum costs --by model --since 7d", "forum costs --by lane --json"),
)
@click.option(
    "--by", type=_AXES, default=CostAxis.DAY.value, show_default=True, help="One row for each."
)
@click.option(
    "--since",
    type=common_options.MOMENT,
    help="Only runs begun since: 12h, 2d, 1w ago, 2026-11-16.",
)
@click.option("--until", type=common_options.MOMENT, help="Only runs begun before.")
@common_options.as_json
def costs(by: str, since: int | None, until: int | None, *, as_json: bool) -> None:
    """Add up what runs have cost, by day, agent, model or lane.

    Runs that go on count with what they have cost so far, and their open calls with what is
    reserved for them.  What is left of caps over many runs: `forum budgets`.
    """
    query = app.RunQuery(
        since=since or 0,
        until=app.RunQuery().until if until is None else until,
        within=True,
    )
    with common_options.open_forum() as forum:
        form = costs_form(forum.reads.add_up_all_costs(CostAxis(by), query))
    print_result("forum.costs/1", form, _table(by, form), as_json=as_json)
    if form.runs_unpriced and not as_json:
        unpriced = pluralize(form.runs_unpriced, "run")
        common_options.echo_info(f"{unpriced} made calls without a known price, which count as $0")


def _table(by: str, form: CostsForm) -> Sequence[str]:
    rows = [_row(row.key or "none", row) for row in form.rows]
    heads = (by, "usd", "tokens", "calls", "runs")
    return format_table([heads, *rows, _row("total", form.total)])


def _row(name: str, row: CostSumForm) -> tuple[str, ...]:
    spent = row.spent
    return (name, f"${spent.usd}", f"{spent.tokens:,}", f"{spent.calls:,}", f"{row.runs:,}")
