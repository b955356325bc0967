"""`forum hook`: record what the hooks of Claude Code tell, and deny what needs approval."""

import sys

import click

from forum.errors import ForumError
from forum.sdk import HookRules, ReportWriter, deny_tool, handle_event, parse_event
from forum.surfaces.cli import common_options
from forum.surfaces.cli.output import print_bytes

_BLOCK = 2
"""The exit status by which Claude Code does not use the tool, and shows stderr to the model."""


@common_options.command(examples=("forum hook --max-calls 100 < event.json",))
@click.option(
    "--max-calls", type=click.IntRange(min=1), metavar="N", help="Deny tools after so many uses."
)
@click.option(
    "--wait",
    type=common_options.Seconds(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Wait so long for the approval of a tool that [gates] in forum.toml names.",
)
def hook(max_calls: int | None, wait: float) -> None:
    """Record an event that Claude Code writes to standard input as JSON.

    Name this command in the settings of Claude Code for the events `PreToolUse`, `PostToolUse`,
    `PostToolUseFailure`, `UserPromptSubmit` and `SessionEnd`.  A session becomes a run.  Before a
    tool is used, its use is recorded; it is denied if it cannot be recorded, if it needs an
    approval by [gates] in forum.toml that it does not have, or after --max-calls.

    Exit status: 0 recorded, or denied; 2 not recorded.
    """
    try:
        event = parse_event(sys.stdin.buffer.read())
        with common_options.open_forum() as forum:
            forum.keys.initialise()
            rules = HookRules(forum.runs.gate_rules, max_calls, wait)
            denied = handle_event(event, ReportWriter(forum.ledger, "claude-code"), rules)
            if event.hook_event_name in ("Stop", "SessionEnd"):
                forum.log.publish_or_warn()
    except ForumError as error:
        # Claude Code goes on after any other status: the tool would be used without a record.
        click.echo(f"not recorded: {error}", err=True)
        raise SystemExit(_BLOCK) from None
    if denied:
        print_bytes(deny_tool(denied) + b"\n")
