"""`forum route`: print the lane of a request, and the evidence for it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
from click.formatting import wrap_text

from forum.app.formatting import first_line, strip_control_characters
from forum.app.planner import Planner, RouteNext, make_router
from forum.runs.roster import ELSEWHERE, Roster
from forum.runs.routing import Route
from forum.runs.team_settings import ROUTING_MODES
from forum.surfaces.cli import common_options
from forum.surfaces.cli.console import echo, style
from forum.surfaces.cli.output import print_json
from forum.surfaces.cli.planning import record_for_operator
from forum.surfaces.cli.submit_options import read_roster_file
from forum.surfaces.schemas.lanes import explain_next_step, route_form

_WIDTH = 79
_SHOWN = 6
"""Maximum number of pieces of evidence that are printed."""


@common_options.command(
    examples=(
        'forum route "The checkout returns 500 since the last migration"',
        "forum route --json - < requests.txt",
        'forum route --roster team.toml --rung lexical "Draw the login flow"',
    ),
)
@click.argument("text")
@click.option(
    "--roster",
    "file",
    type=common_options.FILE,
    help="Use this roster (TOML) instead of the configured one.",
)
@click.option(
    "--rung",
    type=click.Choice(ROUTING_MODES),
    help="Go by words, by words and meaning, or (auto) by whatever is installed; without this, "
    "as [roster] rung in forum.toml says, or auto.",
)
@click.option(
    "--record", is_flag=True, help="Record request and result as a note in a run of its own."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each request.")
def route(text: str, file: Path | None, rung: str | None, *, record: bool, as_json: bool) -> None:
    """Print the lane of the roster that a request belongs to, and the evidence for it.

    TEXT is one request; `-` reads many from standard input, one on each line.  No model is called,
    and nothing is recorded without --record.  Roster and rung are those of `forum submit`: [roster]
    in forum.toml.

    A lane is printed only if the confidence is high enough; with `--json`, `lane` is null
    otherwise.  The output then says what `forum submit` does with the request in this project: it
    asks the Classifier, which is a model, if [roles] in forum.toml has one or sets `team`, and
    carries the request out without a lane if not.  The evidence is the weight of each word for the
    nearest lane and against the runner-up; their sum is the margin.

    Exit status: 0 routed, or no lane is sure enough, 1 failed, 2 usage.
    """
    if not text.strip():
        raise click.UsageError("The request is empty. Write what it asks for.")
    planner = Planner(common_options.current_settings(), file)
    team = planner.team_settings
    roster = read_roster_file(file, team)
    router = make_router(roster, rung or team.rung, common_options.echo_info)
    for request in _read_requests(text):
        result = router.route(request)
        form = route_form(result, planner.next_step(result))
        if record:
            form = record_for_operator("forum.route/1", request, form)
        if as_json:
            print_json("forum.route/1", form)
        elif text == "-":
            echo(f"{result.lane or '-':<20} {result.confidence:.2f}  {first_line(request, 52)}")
        else:
            print_route(roster, result, planner.next_step(result))


def print_route(roster: Roster, result: Route, follows: RouteNext) -> None:
    """Print a route as text."""
    sure = f"{result.confidence:.0%} sure"
    if result.lane:
        echo(f"{style(result.lane, fg='green', bold=True)}  {sure}")
        echo(*_wrap(strip_control_characters(roster.by_name[result.lane].does), "  ", "  "))
    else:
        why = "no lane fits" if result.nearest == ELSEWHERE else "no lane is sure enough"
        is_left = follows is RouteNext.CLASSIFIER
        result_words = "left to the Classifier" if is_left else "no lane"
        echo(f"{style(result_words, fg='yellow', bold=True)}: {why}, {sure}")
        echo(*_line("nearest", _describe_lane(roster, result.nearest)))
    echo(*_line("runner-up", _describe_lane(roster, result.runner_up)))
    echo(f"  margin     {result.margin:.2f}, by the {result.rung} rung")
    if follows is not RouteNext.LANE:
        echo(*_line("submit", explain_next_step(follows)))
    for item in result.evidence[:_SHOWN]:
        echo(f"  {item.weight:+9.2f}  {strip_control_characters(item.feature)}")


def _line(name: str, words: str) -> list[str]:
    return _wrap(words, f"  {name:<9}  ", " " * 13)


def _wrap(words: str, first: str, rest: str) -> list[str]:
    return wrap_text(words, _WIDTH, first, rest).split("\n")


def _describe_lane(roster: Roster, name: str) -> str:
    if name == ELSEWHERE:
        return f"{name}: nobody's work here"
    return f"{name}: {strip_control_characters(roster.by_name[name].does)}"


def _read_requests(text: str) -> Iterator[str]:
    """Yield the requests. Invalid UTF-8 is replaced, because routing needs only words."""
    if text != "-":
        yield text
        return
    for line in sys.stdin.buffer:
        yield line.decode(errors="replace").rstrip("\r\n")
