"""`forum budgets`: what was used of caps over many runs; setting caps, teams and the freeze."""

import click

from forum.app import Forum
from forum.ledger.cap_orders import CapName
from forum.ledger.kinds import FreezeAct
from forum.runs.cap_words import parse_amount, parse_subject
from forum.runs.shared_caps import Team
from forum.surfaces.cli import common_options
from forum.surfaces.cli.output import format_table, print_publication, print_result
from forum.surfaces.schemas.budgets import BudgetForm, BudgetsForm, budgets_form

_HEADS = ("budget", "for", "period", "what", "used", "cap", "left")


def _parse(subject: str, amount: str) -> tuple[CapName, int]:
    try:
        most, unit, per = parse_amount(amount)
        return CapName(*parse_subject(subject), per, unit), most
    except ValueError as error:
        raise click.UsageError(str(error)) from None


@click.group(
    cls=common_options.FullHelpGroup,
    invoke_without_command=True,
)
@common_options.as_json
@click.pass_context
def budgets(context: click.Context, *, as_json: bool) -> None:
    """List what keys, teams and others have used of their caps, and what is left.

    Caps are set in forum.toml, in sections [budgets.NAME], or by `forum budgets set`; the lowest
    counts.  Periods are in UTC, by the clock of the database.  What is reserved for calls that are
    under way counts as used.
    """
    if context.invoked_subcommand is None:
        with common_options.open_forum() as forum:
            form = budgets_form(forum)
        _print(form, as_json=as_json)


@budgets.command(
    "set",
    examples=(
        "forum budgets set team:research 500/month",
        "forum budgets set key:ci-* 20/day",
        "forum budgets set ledger 5000000tokens/day",
    ),
)
@click.argument("subject")
@click.argument("amount")
@common_options.as_json
def set_(subject: str, amount: str, *, as_json: bool) -> None:
    """Set the cap of SUBJECT to AMOUNT, at once for all processes and machines.

    SUBJECT is `ledger`, or key, person, team, lane or agent with a pattern: `team:research`.
    AMOUNT is a number and a period: 500/month is dollars, 2000000tokens/day and 100runs/hour are
    others; the periods are hour, day, week, month and ever.
    """
    name, most = _parse(subject, amount)
    with common_options.open_forum() as forum:
        forum.budgets.set_cap(name, most)
        _print_change(forum, as_json=as_json)


@budgets.command("raise", examples=("forum budgets raise team:research 50/month",))
@click.argument("subject")
@click.argument("amount")
@common_options.as_json
def raise_(subject: str, amount: str, *, as_json: bool) -> None:
    """Add AMOUNT to the cap of SUBJECT that was set by command."""
    name, more = _parse(subject, amount)
    with common_options.open_forum() as forum:
        forum.budgets.raise_cap(name, more)
        _print_change(forum, as_json=as_json)


@budgets.command("unset", examples=("forum budgets unset team:research month",))
@click.argument("subject")
@click.argument("period")
@common_options.as_json
def unset(subject: str, period: str, *, as_json: bool) -> None:
    """Remove the cap of SUBJECT for PERIOD that was set by command.

    PERIOD is `month` for a cap of dollars, or `tokens/day` and `runs/hour` for others.
    """
    unit, _, per = period.rpartition("/")
    name, _ = _parse(subject, f"0{unit}/{per}")
    with common_options.open_forum() as forum:
        forum.budgets.unset_cap(name)
        _print_change(forum, as_json=as_json)


@budgets.command("team", examples=("forum budgets team research ann 'ci-*' --within company",))
@click.argument("name")
@click.argument("members", nargs=-1)
@click.option("--within", default="", help="The team around it, whose caps count as well.")
@common_options.as_json
def team(name: str, members: tuple[str, ...], within: str, *, as_json: bool) -> None:
    """Say that the team NAME has these MEMBERS: patterns for names of keys and people."""
    with common_options.open_forum() as forum:
        forum.budgets.set_team(Team(name, members, within))
        _print_change(forum, as_json=as_json)


@budgets.command("freeze", examples=('forum budgets freeze --reason "A loop in production."',))
@click.option("--reason", default="", help="Why; it can be erased like every body.")
@common_options.as_json
def freeze(reason: str, *, as_json: bool) -> None:
    """Stop all spending: no call is made, in any process, and calls of gateways are cut.

    Runs that Forum drives wait, and programs of `forum run` get refusals.
    """
    with common_options.open_forum() as forum:
        forum.budgets.freeze(FreezeAct.FREEZE, reason)
        _print_change(forum, as_json=as_json)


@budgets.command("unfreeze", examples=("forum budgets unfreeze",))
@common_options.as_json
def unfreeze(*, as_json: bool) -> None:
    """Let calls be made again; runs that waited go on."""
    with common_options.open_forum() as forum:
        forum.budgets.freeze(FreezeAct.UNFREEZE)
        _print_change(forum, as_json=as_json)


def _print_change(forum: Forum, *, as_json: bool) -> None:
    # Other machines follow a change when it is signed.
    publication = forum.log.publish_or_warn()
    _print(budgets_form(forum), as_json=as_json)
    if not as_json:
        print_publication(publication)


def _print(form: BudgetsForm, *, as_json: bool) -> None:
    rows = [row for budget in form.budgets for row in _rows(budget)]
    table = format_table([_HEADS, *rows]) if rows else []
    print_result("forum.budgets/1", form, table, as_json=as_json)
    if as_json:
        return
    if form.frozen:
        common_options.echo_info("all spending is frozen; to end that: forum budgets unfreeze")
    if not rows:
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
