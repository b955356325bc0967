"""The command line: data on stdout, messages on stderr, the result in the exit status."""

import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forum import __version__
from forum.errors import ForumError, TamperDetected
from forum.feature import FeatureCommand, place_items
from forum.features import FEATURES
from forum.surfaces.cli.console import echo, guard_streams, style
from forum.surfaces.cli.os_errors import explain_os_error

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

EXIT_FAILED, EXIT_REJECTED = ForumError.exit_code, TamperDetected.exit_code
EXIT_MISMATCH = 4
EXIT_USAGE = click.UsageError.exit_code

UNMUTED_STDERR = "forum.aloud"
"""Key of `ctx.meta` under which --quiet keeps the real stderr, for errors and prompts."""
COMPLETION_VARIABLE = "_FORUM_COMPLETE"
"""Environment variable through which a shell requests completions."""

_KERNEL_COMMANDS = {
    "Start": {
        "init": ("setup", "Make a ledger here"),
        "doctor": ("doctor", "Check this installation"),
        "config": ("config", "Print every setting"),
        "completion": ("completion", "Complete in your shell"),
    },
    "Work": {
        "submit": ("submit", "Have a request done"),
        "models": ("models", "List and test models"),
        "route": ("route", "Print a request's lane"),
        "plan": ("planning", "Print what it would do"),
        "lanes": ("planning", "List the lanes"),
        "score": ("scores", "Record how good it was"),
        "scores": ("scores", "List scores of a run"),
    },
    "Look": {
        "runs": ("runs", "List runs, newest first"),
        "show": ("runs", "Show a run"),
        "watch": ("runs", "Follow a run as it goes"),
        "why": ("ledger", "Print an entry's causes"),
        "diff": ("runs", "Compare two runs"),
        "bench": ("runs", "Compare costs and times"),
        "costs": ("costs", "Add up what runs cost"),
        "budgets": ("budgets", "Print caps of many runs"),
    },
    "Steer": {
        "gate": ("gates", "Decide what waits"),
        "resume": ("run_control", "Continue a run"),
        "cancel": ("run_control", "Cancel a run"),
        "fork": ("run_control", "Branch off a past entry"),
        "replay": ("run_control", "Replay from the record"),
    },
    "Prove": {
        "ledger": ("ledger", "Read, export and verify"),
        "verify": ("verify_bundle", "Check exported evidence"),
    },
    "Serve": {
        "serve": ("serve", "Serve HTTP only"),
        "worker": ("worker", "Carry out runs"),
        "mcp": ("mcp_server", "Serve clients of MCP"),
        "token": ("token", "Print your own token"),
        "keys": ("keys", "Manage API keys"),
        "db": ("setup", "Prepare Postgres"),
    },
}
"""The commands of the kernel by group: name, module, and a summary of at most 23 characters."""


@cache
def command_groups() -> Mapping[str, Mapping[str, tuple[str, str]]]:
    """Return all commands by group: name, function, and summary."""
    return {group: _list_group(group, names) for group, names in _KERNEL_COMMANDS.items()}


def _list_group(group: str, own: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return the commands of a group: those of the kernel, and those that features add."""
    kernel = [
        FeatureCommand(
            name,
            function=f"forum.surfaces.cli.{module}:{name}",
            group=group,
            after="",
            summary=summary,
        )
        for name, (module, summary) in own.items()
    ]
    added = [
        command._replace(function=f"forum.features.{command.function}")
        for feature in FEATURES
        for command in feature.commands
        if command.group == group
    ]
    placed = place_items(kernel, added)
    return {command.name: (command.function, command.summary) for command in placed}


def _all_commands() -> Mapping[str, tuple[str, str]]:
    return {name: command for group in command_groups().values() for name, command in group.items()}


class SuggestingGroup(click.Group):
    """A group that suggests similar names for a misspelled command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command; for an unknown one, raise a usage error that suggests others."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if not args or args[0] in self.list_commands(ctx):
                raise
            hint = self.suggest_command(ctx, args[0])
            if not hint:
                raise
            raise click.UsageError(f"No such command {args[0]!r}. {hint}", ctx) from error

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; for an unknown option, suggest the one that was meant."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            from forum.surfaces.cli.suggestions import explain_option_error

            raise explain_option_error(self, ctx, error) from None

    def suggest_command(self, ctx: click.Context, name: str) -> str:
        """Return a sentence that names the command that was probably meant, if there is one."""
        # Imported here because start-up time is paid by every command, and typos are rare.
        from forum.surfaces.cli.suggestions import SUBCOMMAND_HINTS, suggest

        hint = SUBCOMMAND_HINTS.get(f"{self.name} {name.casefold()}")
        return hint or suggest(name, self.list_commands(ctx), 3)


class LazyGroup(SuggestingGroup):
    """A group that imports the module of a command only when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """List the commands in the order in which a newcomer needs them."""
        return list(_all_commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command by its name."""
        if cmd_name not in _all_commands():
            return None
        module, _, function = _all_commands()[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), function)
        if COMPLETION_VARIABLE in os.environ:
            # Only when a shell asks for completions: every other call would start more slowly.
            import_module("forum.surfaces.cli.completion").attach_completions(command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; without any, print where to begin, and `help X` as `X --help`."""
        if not args and not ctx.resilient_parsing:
            from forum.surfaces.cli.help_page import first_steps

            echo(*first_steps().split("\n"), err=True)
            ctx.exit(EXIT_USAGE)
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        return super().parse_args(ctx, args)

    def suggest_command(self, ctx: click.Context, name: str) -> str:
        """Return the command for a guessed word, similar names, or a command of a group."""
        from forum.surfaces.cli.suggestions import HINTS

        hint = HINTS.get(name.casefold()) or super().suggest_command(ctx, name)
        return hint or self._suggest_subcommand(ctx, name)

    def _suggest_subcommand(self, ctx: click.Context, name: str) -> str:
        """Return the groups that have a command of this name."""
        groups = [
            f"forum {group} {name}"
            for group in self.list_commands(ctx)
            if name in getattr(self.get_command(ctx, group), "commands", ())
        ]
        return f"Did you mean {' or '.join(groups)}?" if groups else ""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the page of all commands, without importing them."""
        from forum.surfaces.cli.help_page import help_page

        paragraphs = [" ".join(part.split()) for part in (self.help or "").split("\n\n")]
        formatter.write(f"{help_page(paragraphs[0], command_groups(), paragraphs[-1])}\n")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Complete the name of a command or an option, without importing any command."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=text)
            for name, (_, text) in _all_commands().items()
            if name.startswith(incomplete)
        ]


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quiet", "-q", is_flag=True, help="Print only errors and prompts on stderr.")
@click.version_option(__version__, prog_name="forum")
@click.pass_context
def cli(ctx: click.Context, *, quiet: bool) -> None:
    """Cap, run and record AI agents, in a ledger that anybody can verify.

    `forum` alone prints where to begin, and `forum --help` lists all commands.

    Exit status: 0 success; 1 failed; 2 usage; 3 verification found a problem; 4 a replay differs;
    5 budget or time used up; 6 waiting for approval; 7 a session cannot be executed again as it
    was; 8 a council is split; 9 a council is blocked; 130 Ctrl-C; 143 SIGTERM.
    """
    if quiet:
        # Errors and prompts must still get through: see `echo_error`.
        ctx.meta[UNMUTED_STDERR] = sys.stderr
        nowhere = Path(os.devnull).open("w")  # noqa: SIM115  the context closes it
        ctx.with_resource(redirect_stderr(ctx.with_resource(nowhere)))


def main() -> None:
    """Run the command line; print an error of Forum as one line with its remedy."""
    # https://no-color.org: any value but the empty one turns colors off.
    color = False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None
    guard_streams(color=color)
    try:
        # Not standalone: click would print the errors below in its own way, and exit.
        cli.main(standalone_mode=False, color=color)
    except click.ClickException as error:
        _show_click_error(error)
        sys.exit(error.exit_code)
    except click.Abort:
        echo("stopped", err=True)
        # 128 + SIGINT, as shells report it.
        sys.exit(130)
    except (ForumError, OSError) as error:  # OSError: a file that the user named, or a full disk
        message = explain_os_error(error) if isinstance(error, OSError) else error
        echo(*_message_lines(f"{style('error', fg='red')}: {message}"), err=True)
        sys.exit(error.exit_code if isinstance(error, ForumError) else EXIT_FAILED)


def _message_lines(message: str) -> list[str]:
    """Return a message as lines of which only the first begins at the margin.

    So no text in it, such as that of a file that was read, looks like a line of a command.
    """
    first, *more = message.split("\n")
    return [first, *(line if line.startswith("  ") else f"  {line}" for line in more)]


def _show_click_error(error: click.ClickException) -> None:
    """Print how a command is used and what is wrong, as click does."""
    message = "\n".join(_message_lines(error.format_message()))
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
    elif isinstance(error, click.UsageError):
        click.UsageError(message, error.ctx).show()
    else:
        click.ClickException(message).show()
