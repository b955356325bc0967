"""`forum budgets`: print the usage of caps over many runs, and what is left."""

import click

from forum.surfaces.cli import common_options
from forum.surfaces.cli.output import print_json
from forum.surfaces.schemas.budgets import BudgetForm, budgets_form

_HEADS = ("budget", "for", "period", "what", "used", "cap", "left")


@click.command(
    cls=common_options.ExampleCommand,
    examples=("forum budgets", "forum budgets --json"),
)
@common_options.as_json
def budgets(*, as_json: bool) -> None:
    """List what keys, lanes and the ledger have used in this day or month, and what is left.

    Caps are set in forum.toml, in sections [budgets.NAME].  Days and months are in UTC, by the
    clock of the database.  What is reserved for calls that are under way counts as used.
    """
    with common_options.open_forum() as forum:
        found = budgets_form(forum.runs.budget_status())
    if as_json:
        print_json("forum.budgets/1", found)
        return
    rows = [row for budget in found.budgets for row in _rows(budget)]
    if not rows:
        common_options.echo_info(
            "nothing is capped, or nothing was used yet; see [budgets] in forum.toml"
        )
        return
    table = [_HEADS, *rows]
    widths = [max(len(row[at]) for row in table) for at in range(len(_HEADS))]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _rows(budget: BudgetForm) -> list[tuple[str, ...]]:
    """Return one row for each cap of a budget."""
    place = (budget.name, budget.scope, budget.period)
    used, cap, left = budget.used, budget.cap, budget.left
    rows: list[tuple[str, ...]] = []
    if cap.usd is not None:
        rows.append((*place, "usd", f"${used.usd}", f"${cap.usd}", f"${left.usd}"))
    if cap.tokens is not None:
        rows.append((*place, "tokens", f"{used.tokens:,}", f"{cap.tokens:,}", f"{left.tokens:,}"))
    if cap.runs is not None:
        rows.append((*place, "runs", f"{used.runs:,}", f"{cap.runs:,}", f"{left.runs:,}"))
    return rows
