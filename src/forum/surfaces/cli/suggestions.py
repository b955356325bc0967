"""Suggestions for commands and options that do not exist."""

import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files

import click

from forum.spelling import closest_names


def _read_hints() -> dict[str, dict[str, str]]:
    """Return the tables of hints, each by the words that it is for."""
    tables = tomllib.loads((files("forum.surfaces.cli") / "hints.toml").read_text("utf-8"))
    return {
        name: {word: row["hint"] for row in rows for word in row["words"]}
        for name, rows in tables.items()
    }


_TABLES = _read_hints()
HINTS: Mapping[str, str] = _TABLES["commands"]
"""Words that people guess or know from other programs, and the commands that they look for."""
SUBCOMMAND_HINTS: Mapping[str, str] = _TABLES["subcommands"]
"""The same for commands of groups."""
OPTION_HINTS: Mapping[str, str] = _TABLES["options"]
"""Options that other programs have, and what Forum has instead."""
VALUE_HINTS: Mapping[str, str] = _TABLES["values"]
"""Options that other programs have without a value."""


def explain_option_error(
    command: click.Command, ctx: click.Context, error: click.UsageError
) -> click.UsageError:
    """Return an error about an option with what was probably meant, or the error itself."""
    if isinstance(error, click.NoSuchOption):
        hint = _suggest_option(command, ctx, error.option_name)
        return click.UsageError(f"{error.message} {hint}".rstrip(), ctx)
    option = getattr(error, "option_name", "")
    if isinstance(error, click.BadParameter) and error.param is not None:
        option = error.param.opts[0]
    if option not in VALUE_HINTS:
        return error
    return click.UsageError(f"{error.format_message().rstrip('.')}. {VALUE_HINTS[option]}.", ctx)


def _suggest_option(command: click.Command, ctx: click.Context, name: str) -> str:
    names = [name for option in command.get_params(ctx) for name in option.opts]
    hint = OPTION_HINTS.get(name, "")
    meant = hint.removeprefix("Did you mean ").removesuffix("?")
    # A hint that names an option is for the commands that have it.
    if hint and (meant == hint or meant in names):
        return hint
    near = closest_names(name, [n for n in names if n.startswith("--")])
    return f"Did you mean {near[0]}?" if near else ""


def suggest(name: str, names: Iterable[str], count: int = 1) -> str:
    """Return a question that names what was probably meant; nothing if nothing is similar."""
    near = closest_names(name, names, count)
    return f"Did you mean {' or '.join(near)}?" if near else ""
