"""The command line: data on stdout, messages on stderr, the result in the exit status."""

import os
import sys
from contextlib import redirect_stderr
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forum import __version__
from forum.errors import ForumError, TamperDetected
from forum.surfaces.cli.os_errors import explain_os_error

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

EXIT_FAILED, EXIT_REJECTED, EXIT_MISMATCH = ForumError.exit_code, TamperDetected.exit_code, 4

UNMUTED_STDERR = "forum.aloud"
"""Key of `ctx.meta` under which --quiet keeps the real stderr, for errors and prompts."""
COMPLETION_VARIABLE = "_FORUM_COMPLETE"
"""Environment variable through which a shell requests completions."""

_SECTIONS = {
    "Start": {
        "demo": ("demo", "See what Forum does, without an account."),
        "init": ("setup", "Make a ledger here: key, policy, local witness."),
        "doctor": ("doctor", "Check this installation, and print a remedy for each problem."),
        "config": ("config", "See every setting, and where it comes from."),
        "completion": ("completion", "Print the completion script for your shell."),
    },
    "Work": {
        "run": ("run", "Run any program with its model calls capped and recorded."),
        "submit": ("submit", "Carry out a request or a plan, and print the answer."),
        "deliberate": (
            "deliberate",
            "Put a question to a panel, and print its answer and dissent.",
        ),
        "eval": ("evaluate", "Play cases with agents and the team, and compare the answers."),
        "score": ("scores", "Record how good a run, a task or an answer was."),
        "route": ("route", "Print the lane of a request, and the evidence for it."),
        "models": ("models", "List the configured models, and test them."),
    },
    "Look": {
        "runs": ("runs", "List runs, the newest first."),
        "show": ("runs", "Show a run on one screen, now or at any past entry."),
        "why": ("ledger", "Print the causes of an entry."),
        "watch": ("runs", "Follow a run that another process carries out."),
        "diff": ("runs", "Compare two runs: their answers, and the first difference."),
        "bench": ("runs", "Print the figures of two runs side by side."),
        "scores": ("scores", "List the scores of a run, its tasks and its answer."),
        "budgets": ("budgets", "Print the usage of caps over many runs, and what is left."),
        "review": ("oversight", "Show what is worth a look since the last review, and record one."),
        "incident": ("oversight", "Open, close and list incidents."),
    },
    "Steer": {
        "gate": ("gates", "List what waits for approval, and decide it."),
        "resume": ("run_control", "Continue a run that was interrupted or waited."),
        "cancel": ("run_control", "Cancel a run."),
        "fork": ("run_control", "Start a new run from an entry of another one."),
        "replay": ("run_control", "Replay a run from its record alone."),
    },
    "Prove": {
        "ledger": ("ledger", "Read, prove, redact, export and verify the ledger."),
        "verify": (
            "verify_bundle",
            "Check an evidence bundle or pack, offline, trusting only your own keys.",
        ),
        "evidence": ("evidence", "Write an evidence pack about a period or an incident."),
        "witness": ("witness", "Cosign the checkpoints of other logs."),
        "retention": ("retention", "Set how long bodies are kept, and erase what is older."),
        "hold": ("retention", "Keep what runs have recorded, whatever the rules say."),
    },
    "Serve": {
        "up": ("up", "Serve and work on this machine, in one process."),
        "serve": ("serve", "Serve the ledger over HTTP."),
        "mcp": ("mcp_server", "Serve the ledger to an editor or agent that speaks MCP."),
        "hook": ("hook", "Record what the hooks of Claude Code tell."),
        "token": ("token", "Print the operator's token for programs on this machine."),
        "keys": ("keys", "Create, list and revoke API keys; rotate the signing key."),
        "otel": ("otel", "Send runs as OpenTelemetry traces to another product."),
        "webhooks": ("webhooks", "List the receivers of webhooks, and send test messages."),
        "worker": ("worker", "Carry out runs until stopped."),
        "tenant": ("tenants", "Add and list tenants, each with a log of its own."),
        "db": ("setup", "Prepare a Postgres database."),
        "backup": ("backup", "Back up the ledger into a folder, while it is in use."),
        "restore": ("backup", "Restore a backup without forking the log."),
    },
}
_COMMANDS = {name: command for section in _SECTIONS.values() for name, command in section.items()}


class SuggestingGroup(click.Group):
    """A group that suggests similar names for a misspelled command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command; for an unknown one, raise a usage error that suggests others."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            # Imported here because start-up time is paid by every command, and typos are rare.
            from difflib import get_close_matches

            commands = self.list_commands(ctx)
            near = get_close_matches(args[0].casefold(), commands, 3, 0.6) if args else []
            if not near or args[0] in commands:
                raise
            names = " or ".join(near)
            raise click.UsageError(f"{error.message} Did you mean {names}?", ctx) from None


class LazyGroup(SuggestingGroup):
    """A group that imports the module of a command only when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """List the commands in the order in which a newcomer needs them."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command by its name."""
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"forum.surfaces.cli.{_COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        if COMPLETION_VARIABLE in os.environ:
            # Only when a shell asks for completions: every other call would start more slowly.
            import_module("forum.surfaces.cli.completion").attach_completions(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Print the commands in aligned columns, without importing them."""
        longest = max(map(len, _COMMANDS))
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{n:<{longest}}", text) for n, (_, text) in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Complete the name of a command or an option, without importing any command."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=text)
            for name, (_, text) in _COMMANDS.items()
            if name.startswith(incomplete)
        ]


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quiet", "-q", is_flag=True, help="Print only errors and prompts on stderr.")
@click.version_option(__version__, prog_name="forum")
@click.pass_context
def cli(ctx: click.Context, *, quiet: bool) -> None:
    """Orchestrate agents, and record every step in a ledger that a stranger can verify.

    Start with `forum demo`, or `forum submit "..." --cmd PROGRAM` in a project of yours.

    Exit status: 0 success; 1 failed; 2 usage; 3 verification found a problem; 4 a replay differs
    from the record; 5 budget or time used up; 6 waiting for approval; 7 a session cannot be
    executed again as it was; 8 a council is split; 9 a council is blocked; 130 stopped by Ctrl-C;
    143 stopped by SIGTERM.
    """
    if quiet:
        # Errors and prompts must still get through: see `echo_error`.
        ctx.meta[UNMUTED_STDERR] = sys.stderr
        nowhere = Path(os.devnull).open("w")  # noqa: SIM115  the context closes it
        ctx.with_resource(redirect_stderr(ctx.with_resource(nowhere)))


def main() -> None:
    """Run the command line; print an error of Forum as one line with its remedy."""
    # Otherwise printing a character that the locale's encoding lacks would end the command.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # https://no-color.org: any value but the empty one turns colors off.
    color = False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None
    try:
        # Not standalone: click would print the errors below in its own way, and exit.
        cli.main(standalone_mode=False, color=color)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        click.echo("stopped", err=True)
        # 128 + SIGINT, as shells report it.
        sys.exit(130)
    except (ForumError, OSError) as error:  # OSError: a file that the user named, or a full disk
        message = explain_os_error(error) if isinstance(error, OSError) else error
        click.echo(f"{click.style('error', fg='red')}: {message}", err=True, color=color)
        sys.exit(error.exit_code if isinstance(error, ForumError) else EXIT_FAILED)
