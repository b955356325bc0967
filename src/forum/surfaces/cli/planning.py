"""`forum lanes` and `forum plan`: print the roster, and what would be done for a request."""

import sys
from pathlib import Path

import click
from click.formatting import wrap_text

from forum.planning import load_team_settings
from forum.surfaces.cli import common_options
from forum.surfaces.cli.output import format_table, print_json, print_result
from forum.surfaces.cli.submit_options import (
    SubmitOptions,
    as_usage_error,
    read_roster_file,
    read_run_request,
    submit_options,
)
from forum.surfaces.formatting import first_line, pluralize, strip_control_characters
from forum.surfaces.schemas.fields import CapForm
from forum.surfaces.schemas.lanes import roster_form
from forum.surfaces.schemas.plans import PlanForm, PlannedForm, plan_form

_WIDTH = 79
_MAX_TEXT = 72
"""Maximum number of characters of an instruction that are printed."""


@common_options.command(examples=("forum lanes", "forum lanes --roster team.toml --json"))
@click.option(
    "--roster",
    "file",
    type=common_options.FILE,
    help="Use this roster (TOML) instead of the configured one.",
)
@common_options.as_json
def lanes(file: Path | None, *, as_json: bool) -> None:
    """List the lanes of the roster: what each is for, and how strong a model it usually needs.

    `forum route` tells to which of them a request belongs.
    """
    form = roster_form(
        read_roster_file(file, load_team_settings(common_options.current_settings()))
    )
    rows = [
        (lane.name, lane.tier.value, strip_control_characters(lane.does)) for lane in form.lanes
    ]
    table = format_table([("lane", "tier", "for"), *rows])
    print_result("forum.roster/1", form, table, as_json=as_json)


@common_options.command(
    examples=(
        'forum plan "Review the checkout" --team --max-usd 0.50',
        "forum plan --plan plan.toml --json",
    ),
)
@click.argument("request", required=False)
@click.option("--plan", "file", type=common_options.FILE, help="A plan of yours: JSON or TOML.")
@submit_options
@common_options.as_json
def plan(request: str | None, file: Path | None, *, wishes: SubmitOptions, as_json: bool) -> None:
    """Print what `forum submit` would do with the same arguments: lane, tasks, agents, limits.

    `-` reads the REQUEST from standard input.  No model is called and nothing is recorded.  A team
    plans when the run begins, so its tasks are not known before.

    Exit status: 0 can be done, 1 failed, 2 usage.
    """
    if request == "-":
        words = as_usage_error(lambda: common_options.read_text(sys.stdin.buffer))
        request = words.data.decode()
    order = read_run_request(request, file, wishes, common_options.current_settings())
    form = plan_form(order)
    if as_json:
        print_json("forum.plan/1", form)
    else:
        print_plan(form)


def print_plan(form: PlanForm) -> None:
    """Print a plan as text."""
    click.echo(_line("lane", _describe_lane(form)))
    if form.team:
        click.echo(_line("tasks", "a team plans them when the run begins"))
    for task in form.tasks:
        _print_task(task, "")
    click.echo(_line("limits", _describe_cap(form.cap)))
    if form.gates:
        click.echo(_line("approval", f"of {', '.join(form.gates)}"))


def _print_task(task: PlannedForm, indent: str) -> None:
    lane = f" in {task.lane}" if task.lane else ""
    needs = "".join(
        f", {word} {', '.join(names)}"
        for word, names in (("needs", task.needs), ("after", task.after))
        if names
    )
    who = task.agent or "the default agent"
    click.echo(_line("task", f"{indent}{task.id}{lane}, by {who}{needs}"))
    click.echo(_line("", f"{indent}{first_line(task.instruction, _MAX_TEXT - len(indent))}"))
    for inner in task.tasks:
        _print_task(inner, f"{indent}  ")


def _describe_lane(form: PlanForm) -> str:
    if form.lane:
        return form.lane
    if form.classifier is not None:
        return f"chosen by the Classifier ({form.classifier or 'the default agent'})"
    return "none"


def _describe_cap(cap: CapForm) -> str:
    limits = [
        f"${cap.usd}" if cap.usd is not None else "",
        f"{cap.tokens:,} tokens" if cap.tokens is not None else "",
        pluralize(cap.calls, "call") if cap.calls is not None else "",
        f"{cap.seconds:g} s" if cap.seconds is not None else "",
    ]
    return ", ".join(filter(None, limits)) or "none"


def _line(name: str, words: str) -> str:
    return wrap_text(words, _WIDTH, f"{name:<9} ", " " * 10)
