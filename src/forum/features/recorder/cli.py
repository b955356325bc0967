"""`forum hook`: record what the hooks of Claude Code tell, and deny what needs approval."""

import os
import sys
from pathlib import Path

import click

from forum.config import Settings, load_settings
from forum.errors import BadSettings, ForumError
from forum.features.recorder import public
from forum.hook_guard import BLOCKED, extend_limit
from forum.surfaces.cli import common_options
from forum.surfaces.cli.console import echo
from forum.surfaces.cli.output import print_bytes


@common_options.command(examples=('forum hook --project "$CLAUDE_PROJECT_DIR" < event.json',))
@click.option(
    "--project",
    type=common_options.FOLDER,
    envvar="CLAUDE_PROJECT_DIR",
    metavar="DIR",
    help="The folder with the forum.toml whose rules hold, wherever the agent is.",
)
@click.option(
    "--max-calls",
    type=click.IntRange(min=1),
    metavar="N",
    help="Maximum number of tool calls; further ones are denied.",
)
@click.option(
    "--wait",
    type=common_options.Seconds(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Wait so long for the approval of a tool that [gates] in forum.toml names.",
)
def hook(project: Path | None, max_calls: int | None, wait: float) -> None:
    """Record an event that Claude Code writes to standard input as JSON.

    Name this command in the settings of Claude Code for the events `PreToolUse`, `PostToolUse`,
    `PostToolUseFailure`, `UserPromptSubmit` and `SessionEnd`.  A session becomes a run.  Before a
    tool is used, its use is recorded; it is denied if it cannot be recorded, if it needs an
    approval by [gates] in forum.toml that it does not have, or after --max-calls.  A hook that is
    not done 20 seconds after the time of --wait denies the tool too, so `timeout` in the settings
    has to be longer.

    The project is the folder of --project, else that of the variable CLAUDE_PROJECT_DIR, else the
    nearest one upward with a forum.toml.  Without a forum.toml nothing is recorded, and the tool
    is denied.

    Exit status: 0 recorded, or denied; 2 not recorded, whatever has failed.
    """
    extend_limit(wait)
    try:
        event = public.parse_event(sys.stdin.buffer.read())
        with common_options.open_forum(_read_settings(project)) as forum:
            forum.keys.initialise()
            rules = public.HookRules(forum.runs.gate_rules, max_calls, wait)
            denied = public.handle_event(
                event, public.ReportWriter(forum.ledger, "claude-code"), rules
            )
            if event.hook_event_name in ("Stop", "SessionEnd"):
                forum.log.publish_or_warn()
    except ForumError as error:
        # Claude Code goes on after any other status: the tool would be used without a record.
        echo(f"not recorded, so the tool is not used: {error}", err=True)
        raise SystemExit(BLOCKED) from None
    if denied:
        print_bytes(public.deny_tool(denied) + b"\n")


def _read_settings(project: Path | None) -> Settings:
    """Return the settings of the project.  Raises `BadSettings` if it has no project file.

    The agent chooses the folder of this process, and may move files: a project that is named is
    never looked for elsewhere, because other rules would hold there.
    """
    if project is not None and not project.is_absolute():
        raise BadSettings(f"--project {project}", "it depends on the folder; write the whole path")
    settings = load_settings(project or Path.cwd(), os.environ)
    if settings.file is None or (project is not None and settings.file.parent != project):
        why = "it has no forum.toml; name the folder that has it with --project, or run forum init"
        raise BadSettings(str(project or Path.cwd()), why)
    return settings
