"""`forum completion`: shell completion of commands, runs, gates and lanes.

Run ids, gates and lanes come from the ledger file and the roster. A remote database is not queried,
because a key press must not wait for a network. Errors produce no completions and no message,
because the user is in the middle of a line.
"""

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem, get_completion_class

from forum.ledger.entry import LOG_RUN
from forum.surfaces.cli import COMPLETION_VARIABLE, cli, common_options

_SHELLS = {
    "bash": 'eval "$(forum completion bash)"   # into ~/.bashrc',
    "zsh": 'eval "$(forum completion zsh)"    # into ~/.zshrc, after compinit',
    "fish": "forum completion fish > ~/.config/fish/completions/forum.fish",
}
_MAX_COMPLETIONS = 50


@common_options.command(examples=tuple(_SHELLS.values()))
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@common_options.as_json
def completion(shell: str, *, as_json: bool) -> None:
    """Print the completion script of a SHELL, for commands, options, runs, gates and lanes."""
    completer = get_completion_class(shell)
    if completer is None:
        raise click.UsageError(f"there is no completion for {shell}")
    script = completer(cli, {}, "forum", COMPLETION_VARIABLE).source()
    # Imported here, because the shell loads this module at each press of the Tab key.
    from forum.surfaces.cli.output import print_bytes, print_json

    if as_json:
        print_json("forum.completion/1", {"shell": shell, "script": script})
    else:
        print_bytes(script.encode())


def attach_completions(command: click.Command) -> None:
    """Let a command and its subcommands complete arguments with known values."""
    for parameter in command.params:
        offer = _COMPLETERS.get(parameter.name or "")
        # Other types, such as a choice, have completions of their own.
        if offer is not None and isinstance(parameter.type, click.types.StringParamType):
            parameter.type = _CompletingString(offer)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if child := command.get_command(context, name):
                attach_completions(child)


class _CompletingString(click.types.StringParamType):
    """A string parameter with known values."""

    def __init__(self, offer: Callable[[click.Context, str], Iterable[str]]) -> None:
        self._offer = offer

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return the known values with this prefix."""
        try:
            values = list(self._offer(ctx, incomplete))
        except Exception:  # noqa: BLE001  an error message would garble the user's input line
            values = []
        return [CompletionItem(value) for value in values if value.startswith(incomplete)]


def _complete_runs(_ctx: click.Context, prefix: str) -> list[str]:
    """Return the newest runs, or those with this prefix."""
    with common_options.open_forum() as forum:
        if forum.settings.database:
            return []
        with forum.open_reader() as reader:
            runs = (
                reader.runs(prefix, _MAX_COMPLETIONS)
                if prefix
                else reader.runs_before(None, _MAX_COMPLETIONS)
            )
    return [run for run in runs if run != LOG_RUN]


def _complete_subjects(ctx: click.Context, _begun: str) -> list[str]:
    """Return the gates that wait in the run named before."""
    with common_options.open_forum() as forum:
        if forum.settings.database or not forum.settings.ledger_file.exists():
            return []
        run = str(ctx.params.get("run") or "")
        return [
            gate.opened.subject for at, gate in forum.reads.waiting_gates() if at.startswith(run)
        ]


def _complete_lanes(_ctx: click.Context, _begun: str) -> list[str]:
    """Return the lanes of the roster."""
    from pathlib import Path

    from forum.app.planner import load_roster, load_team_settings

    named = load_team_settings(common_options.current_settings()).roster
    return list(load_roster(Path(named) if named else None).by_name)


_COMPLETERS: dict[str, Callable[[click.Context, str], Iterable[str]]] = {
    "run": _complete_runs,
    "before": _complete_runs,
    "a": _complete_runs,
    "b": _complete_runs,
    "subject": _complete_subjects,
    "lane": _complete_lanes,
}
"""Completions by the name of the argument or option."""
