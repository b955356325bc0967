"""`forum lanes` and `forum plan`: print the roster, and what would be done for a request."""

import sys
from pathlib import Path
from typing import TypeVar

import click
import msgspec
from click.formatting import wrap_text

from forum.app import OPERATOR
from forum.app.formatting import first_line, pluralize, short_id, strip_control_characters
from forum.app.planner import load_team_settings
from forum.surfaces.cli import common_options
from forum.surfaces.cli.console import echo
from forum.surfaces.cli.output import format_table, print_json, print_result
from forum.surfaces.cli.submit_options import (
    SubmitOptions,
    as_usage_error,
    read_roster_file,
    read_run_request,
    submit_options,
)
from forum.surfaces.requests import record_preview
from forum.surfaces.schemas.fields import CapForm
from forum.surfaces.schemas.lanes import roster_form
from forum.surfaces.schemas.plans import PlanForm, PlannedForm, plan_form

StructT = TypeVar("StructT", bound=msgspec.Struct)

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
@click.option(
    "--record", is_flag=True, help="Record request and result as a note in a run of its own."
)
@common_options.as_json
def plan(
    request: str | None, file: Path | None, *, wishes: SubmitOptions, record: bool, as_json: bool
) -> None:
    """Print what `forum submit` would do with the same arguments: lane, tasks, agents, limits.

    `-` reads the REQUEST from standard input.  No model is called, and nothing is recorded
    without --record.  A team plans when the run begins, so its tasks are not known before.

    Exit status: 0 can be done, 1 failed, 2 usage.
    """
    if request == "-":
        words = as_usage_error(lambda: common_options.read_text(sys.stdin.buffer))
        request = words.data.decode()
    run_request = read_run_request(request, file, wishes, common_options.current_settings())
    form = plan_form(run_request)
    if record:
        form = record_for_operator("forum.plan/1", run_request.request, form)
    if as_json:
        print_json("forum.plan/1", form)
    else:
        print_plan(form)


def record_for_operator(schema: str, request: str, form: StructT) -> StructT:
    """Record a route or a plan that was asked for, and return the form with the run."""
    with common_options.open_forum() as forum:
        forum.keys.initialise()
        run = as_usage_error(lambda: record_preview(forum, schema, request, form, actor=OPERATOR))
        forum.log.publish_or_warn()
    common_options.echo_info(f"recorded: forum show {short_id(run)} --transcript")
    return msgspec.structs.replace(form, recorded=run)


def print_plan(form: PlanForm) -> None:
    """Print a plan as text."""
    echo(*_line("lane", _describe_lane(form)))
    if form.team:
        echo(*_line("tasks", "a team plans them when the run begins"))
    for task in form.tasks:
        _print_task(task, "")
    echo(*_line("judged", "yes" if form.judged else "no; --team plans and judges"))
    echo(*_line("limits", _describe_cap(form.cap)))
    if form.gates:
        echo(*_line("approval", f"of {', '.join(form.gates)}"))


def _print_task(task: PlannedForm, indent: str) -> None:
    lane = f" in {task.lane}" if task.lane else ""
    needs = "".join(
        f", {word} {', '.join(names)}"
        for word, names in (("needs", task.needs), ("after", task.after))
        if names
    )
    who = task.agent or "the default agent"
    if task.panel is not None:
        seats = ", ".join(agent or "the default agent" for agent in task.panel.agents)
        options = f" on {' / '.join(task.decide)}" if task.decide else ""
        who = first_line(f"a {task.panel.protocol}{options} ({seats})", _MAX_TEXT)
    echo(*_line("task", f"{indent}{task.id}{lane}, by {who}{needs}"))
    echo(*_line("", f"{indent}{first_line(task.instruction, _MAX_TEXT - len(indent))}"))
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


def _line(name: str, words: str) -> list[str]:
    return wrap_text(words, _WIDTH, f"{name:<9} ", " " * 10).split("\n")
