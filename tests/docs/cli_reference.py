"""Writes the reference of the command line from the commands themselves; `just docs` runs it.

docs/reference/cli.md lists the commands, and docs/reference/cli has a page for each.
"""

import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from forum.surfaces.cli import cli
from forum.surfaces.cli.common_options import ExampleCommand
from tests.docs.pages import COMMANDS, REFERENCE

_HEAD = """\
# The command line

This page lists every command of `forum`; each has a page with its options.
They are generated from the commands by `just docs`; do not edit them.
"""
_SETTINGS = """\
## Exit status and settings

Data go to standard output, messages to standard error, the result into the exit status:
0 success, 1 failed, 2 wrong usage, 3 verification found a problem,
4 a replay differs from the record, 5 budget or time used up, 6 waiting for approval,
7 a session cannot be executed again as it was, 8 a council is split, 9 a council is blocked.
With `--json` a command prints one JSON object on one line, whose member `schema` names its form.
With `forum --quiet COMMAND` only errors and prompts are printed on standard error.

An option overrides a variable of the environment, that the nearest `forum.toml` upward, that
`config.toml` in the user's configuration directory (the same sections, for all projects), and
that the default. `forum config show` prints every setting with its source:

| variable | in forum.toml | means |
|---|---|---|
| `FORUM_DATABASE_URL` | `[database] url` | a Postgres database instead of a file |
| `FORUM_KEY_FILE` | `[keys] log` | the file with the log's private key |
| `FORUM_WRITE_KEY_FILE` | `[keys] write` | the file with the keys that writers of a log share |
| `FORUM_PUBLIC_KEY_FILE` | `[keys] public` | the file with the log's public key |
| `FORUM_POLICY_FILE` | `[witness] policy` | the logs and witnesses to trust |
| `FORUM_WORKER_RUNNER` | `[worker] runner` | `claims` (default), `dbos` or `temporal` |
| `FORUM_TEMPORAL_ADDRESS` | `[worker] temporal_address` | HOST:PORT of the Temporal server |
| | `[ledger] origin` | the name of a new log |
| | `[ledger] cleanup_days` | days for which an ended run keeps its idempotency keys: 7 unless set |
| | `[models.NAME]` | an agent, see [Connect a model](../guides/connect-a-model.md) |
| | `[tools.NAME]`, `[servers.NAME]` | a program as a tool, an MCP server |
| | `[roles]` | which agent has which role; `team = true` for all of them |
| | `[roster] file` | a roster of your own, see [Write a lane](../guides/write-a-lane.md) |
| | `[roster] rung` | `lexical`: requests are routed by their words alone |
| `FORUM_SERVER_PORT`, ... | `[server]` | defaults of `forum serve` |
| | `[oidc]` | the issuer of accepted tokens, see [Give access](../guides/give-access.md) |
| | `[webhooks.NAME]` | receivers of notifications, see [Get told](../guides/get-told.md) |
| `FORUM_DATA_DIR` | | where data are without a `forum.toml` |
| `FORUM_STATE_DIR` | | where guard, witness and memories are |
| `FORUM_CONFIG_DIR` | | where the user's `config.toml` is |
| `FORUM_MODELS_DIR` | | where weights are, see [Pull weights](../guides/pull-weights.md) |
| `NO_COLOR`, `TERM=dumb` | | no colours |
"""


_GENERATED = """\
This page is generated from the command by `just docs`; do not edit it. \
[The command line](../cli.md) lists all commands, exit statuses and settings.
"""


def render() -> dict[Path, str]:
    """Return the text of each page: the list of commands, and a page for each of them."""
    context = click.Context(cli, info_name="forum")
    pages, rows = {}, ["| command | does |", "|---|---|"]
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        child = click.Context(command, info_name=name, parent=context)
        head, *rest = (_section(*found) for found in _walk(command, child))
        title, text = head.removeprefix("## ").split("\n", 1)
        pages[COMMANDS / f"{name}.md"] = "\n".join([f"# {title}\n{text}", *rest, _GENERATED])
        rows.append(f"| [`forum {name}`](cli/{name}.md) | {_summary(command)} |")
    sections = [_HEAD, *rows, "", _SETTINGS, _section(cli, context)]
    return {REFERENCE: "\n".join(sections), **pages}


def _summary(command: click.Command) -> str:
    """Return the first sentence of the help of a command."""
    text = " ".join(inspect.cleandoc(command.help or "").split("\n\n")[0].split())
    return text.replace("|", "\\|")


def _walk(
    command: click.Command, context: click.Context
) -> Iterator[tuple[click.Command, click.Context]]:
    yield command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from _walk(child, click.Context(child, info_name=name, parent=context))


def _section(command: click.Command, context: click.Context) -> str:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    text = inspect.cleandoc(command.help or "").replace(".  ", ". ")
    parts = [f"## {context.command_path}", f"```text\n{usage}\n```", text]
    rows = [_row(option) for option in command.params if isinstance(option, click.Option)]
    if rows:
        parts.append("\n".join(["| option | means |", "|---|---|", *rows]))
    if isinstance(command, ExampleCommand) and command.examples:
        parts.append("\n".join(["```text", *command.examples, "```"]))
    return "\n\n".join(parts) + "\n"


def _row(option: click.Option) -> str:
    names = ", ".join(
        f"`{name}{_value(option)}`" for name in (*option.opts, *option.secondary_opts)
    )
    choices = option.type.choices if isinstance(option.type, click.Choice) else ()
    shown = option.show_default or choices
    facts = [
        option.help or "",
        f"One of {', '.join(map(str, choices))}." if choices else "",
        f"Default: {option.default}." if isinstance(option.default, str | int) and shown else "",
        "May be given several times." if option.multiple else "",
    ]
    return f"| {names} | {' '.join(fact for fact in facts if fact)} |"


def _value(option: click.Option) -> str:
    if option.is_flag:
        return ""
    if option.metavar:
        return f" {option.metavar}"
    return (
        " N"
        if isinstance(option.type, click.types.IntParamType | click.types.FloatParamType)
        else " " + option.type.name.upper()
    )


if __name__ == "__main__":
    rendered = render()
    COMMANDS.mkdir(parents=True, exist_ok=True)
    for page in set(COMMANDS.iterdir()) - rendered.keys():
        page.unlink()
    for page, text in rendered.items():
        page.write_text(text)
