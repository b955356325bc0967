"""The command line: data on stdout, talk on stderr, the verdict in the exit status."""

import os
import sys
from importlib import import_module

import click

from forum import __version__
from forum.errors import ForumError

FAILED, REJECTED, MISMATCH, OVER_BUDGET, WAITING = 1, 3, 4, 5, 6

_COMMANDS = {
    "init": ("start", "Make a ledger here: key, policy, local witness."),
    "submit": ("submit", "Have a request or a plan carried out, and print the answer."),
    "route": ("route", "Say which specialist a request belongs to, and why."),
    "models": ("models", "See which models would be asked, and try them."),
    "runs": ("runs", "List runs, the newest first."),
    "show": ("runs", "Show a run on one screen, now or at any past entry."),
    "why": ("ledger", "Show in words what led to an entry."),
    "gate": ("gates", "See what waits for approval, and decide."),
    "resume": ("steering", "Go on with a run that was interrupted or waited."),
    "cancel": ("steering", "Have a run end."),
    "fork": ("steering", "Begin a new run from the middle of another one."),
    "replay": ("steering", "Play a run again from its record alone."),
    "diff": ("runs", "Show where two runs part."),
    "bench": ("runs", "Measure two runs side by side."),
    "worker": ("worker", "Carry out runs until stopped."),
    "ledger": ("ledger", "Read, prove, redact, export and verify the ledger."),
    "verify": ("bundles", "Check an evidence bundle, offline, trusting only your own keys."),
    "witness": ("witnesses", "Cosign the checkpoints of other logs."),
    "demo": ("demo", "See what Forum does, without an account."),
    "db": ("start", "Prepare a Postgres database."),
}


class Lazy(click.Group):
    """A group that imports the module of a command only when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Name the commands in the order in which a newcomer meets them."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command by its name."""
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"forum.surfaces.cli.{_COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Print the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="forum")
def cli() -> None:
    """Orchestrate agents, and record every step in a ledger that a stranger can verify.

    Start with `forum demo cheat`, or `forum submit "..." --cmd PROGRAM` in a project of yours.

    Exit status: 0 answered, or all is well; 1 failed; 2 usage; 3 verification found something;
    4 a replay says something else; 5 budget or time used up; 6 waiting for approval.
    """


def main() -> None:
    """Run the command line; an error of ours is one line with the next step in it."""
    color = False if os.environ.get("NO_COLOR") else None
    try:
        cli.main(standalone_mode=False, color=color)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        click.echo("stopped", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except (ForumError, OSError) as error:  # the latter: a file that the user named, or a full disk
        click.echo(f"{click.style('error', fg='red')}: {error}", err=True, color=color)
        sys.exit(FAILED)
