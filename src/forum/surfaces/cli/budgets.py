"""`forum budgets`: print the usage of caps over many runs, and what is left."""

from forum.surfaces.cli import common_options
from forum.surfaces.cli.output import format_table, print_result
from forum.surfaces.schemas.budgets import BudgetForm, budgets_form

_HEADS = ("budget", "for", "period", "what", "used", "cap", "left")


@common_options.command(
    examples=("forum budgets", "forum budgets --json"),
)
@common_options.as_json
def budgets(*, as_json: bool) -> None:
    """List what keys, teams and others have used of their caps, and what is left.

    Caps are set in forum.toml, in sections [budgets.NAME].  Periods are in UTC, by the clock of
    the database.  What is reserved for calls that are under way counts as used.
    """
    with common_options.open_forum() as forum:
        form = budgets_form(forum.runs.budget_status())
    rows = [row for budget in form.budgets for row in _rows(budget)]
    table = format_table([_HEADS, *rows]) if rows else []
    print_result("forum.budgets/1", form, table, as_json=as_json)
    if not rows and not as_json:
        common_options.echo_info(
            "nothing is capped, or nothing was used yet; see [budgets] in forum.toml"
        )


def _rows(budget: BudgetForm) -> list[tuple[str, ...]]:
    """Return one row for each cap of a budget."""
    place = (budget.name, budget.scope, budget.period)
    used, cap = budget.used, budget.cap
    left = budget.left
    return [
        (*place, name, *(form.format(getattr(amount, name)) for amount in (used, cap, left)))
        for name, form in (("usd", "${}"), ("tokens", "{:,}"), ("runs", "{:,}"))
        if getattr(cap, name) is not None
    ]
