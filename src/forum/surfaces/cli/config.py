"""`forum config`: print every setting with its value and origin."""

import os
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path

import click
import msgspec

from forum.app.formatting import first_line, strip_control_characters
from forum.config import SECTIONS, AgentSandboxRules, Settings, user_settings_path
from forum.ledger.secret_mask import is_secret_name
from forum.sections import PROJECT_SECTIONS
from forum.surfaces.cli import common_options
from forum.surfaces.cli.console import echo, style
from forum.surfaces.cli.output import print_json, terminal_width

# A database address may contain a password in two forms: user:password@ in a URL, and NAME=VALUE,
# quoted or not, in a connection string or in the query of a URL.
_PASSWORD = re.compile(
    r"(?<=://)([^:/@\s]*):\S*@"
    r"|((?:passw(?:or)?d|secret|token|api[_-]?key)\s*=\s*)('(?:[^'\\]|\\.)*'?|(?:[^\s&\\]|\\.)+)",
    re.IGNORECASE,
)
_NAMES = frozenset({"tls_key", "secret_env", "secret_file"})
"""Settings that name the location of a secret and contain none."""


class SettingOrigin(StrEnum):
    """Who has said a setting, the one that wins first."""

    ENVIRONMENT = "environment"
    PROJECT = "project file"
    USER = "user file"
    DEFAULT = "default"


class Setting(msgspec.Struct, frozen=True):
    """A setting in effect."""

    setting: str
    value: str | None
    """None if it is unset and has no default."""
    origin: SettingOrigin
    where: str | None
    """The environment variable, or the file."""


@click.group(cls=common_options.FullHelpGroup, invoke_without_command=True)
@click.pass_context
def config(ctx: click.Context) -> None:
    """Print every setting, and where it comes from."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(show, as_json=False)


@config.command(examples=("forum config show", "forum config show --json"))
@common_options.as_json
def show(*, as_json: bool) -> None:
    """Print every setting with its value and its origin.

    An option of a command wins over a variable of the environment, that over the project's
    forum.toml, that over config.toml in the user's configuration directory, and that over the
    default.  Passwords are not shown.
    """
    settings = common_options.current_settings()
    listed = list(list_settings(settings))
    if as_json:
        files = {"project_file": settings.file, "user_file": settings.user_file}
        named = {name: None if path is None else str(path) for name, path in files.items()}
        print_json("forum.config/1", {**named, "settings": listed})
        return
    nowhere = f"none; it would be {user_settings_path(os.environ)}"
    echo(f"project file  {_shown(str(settings.file or 'none here or above'))}")
    echo(f"user file     {_shown(str(settings.user_file or nowhere))}", "")
    for line in _table(listed, terminal_width()):
        echo(line)


def list_settings(settings: Settings) -> Iterator[Setting]:
    """Yield every setting in effect, in the order in which a newcomer needs them."""
    values: dict[str, object] = {
        "data": settings.data,
        "state": settings.state,
        **_members(settings, "ledger"),
        "database.url": settings.database,
        **_members(settings, "worker"),
        "keys.log": settings.key_file,
        "keys.public": settings.public_key_file,
        "keys.write": settings.write_key_file,
        "witness.policy": settings.policy,
        "agents.confine": settings.agents.confine,
        **dict(_agent_lists(settings.agents)),
    }
    for section in SECTIONS:
        table = settings.sections.raw(section)
        values |= {f"{section}.{name}": value for name, value in table.items()}
    for name, value in values.items():
        where = settings.origins.get(name)
        for part, item in _section_settings(name, value):
            text = None if item is None else _format_value(part.rpartition(".")[2], item)
            yield Setting(part, text, _origin(settings, where), where)


def _members(settings: Settings, section: str) -> dict[str, object]:
    """Return the settings of a section whose names are those of members of `Settings`."""
    names = PROJECT_SECTIONS[section].__struct_fields__
    return {f"{section}.{name}": getattr(settings, name) for name in names}


def _agent_lists(rules: AgentSandboxRules) -> Iterator[tuple[str, object]]:
    """Yield the permissions of confined programs, as far as any are set."""
    lists = {
        "read": [str(path) for path in rules.read],
        "write": [str(path) for path in rules.write],
        "connect": [f"{host}:{port}" for host, port in rules.connect],
        "env": list(rules.env),
    }
    yield from ((f"agents.{name}", named) for name, named in lists.items() if named)


def _section_settings(name: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield the lines of a section with user-chosen names, or a setting unchanged."""
    if isinstance(value, Mapping):
        yield from ((f"{name}.{key}", item) for key, item in value.items())
    else:
        yield name, value


def _origin(settings: Settings, where: str | None) -> SettingOrigin:
    if where is None:
        return SettingOrigin.DEFAULT
    files = {str(settings.file): SettingOrigin.PROJECT, str(settings.user_file): SettingOrigin.USER}
    return files.get(where, SettingOrigin.ENVIRONMENT)


def _format_value(name: str, value: object) -> str:
    """Return a value as in a settings file, with secrets masked."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {_format_value(key, item)}" for key, item in value.items())
    if isinstance(value, list):
        return f"[{', '.join(_format_value(name, item) for item in value)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_secret_name(f"_{name}") and name not in _NAMES:
        return "***"
    return mask_passwords(str(value))


def mask_passwords(text: str) -> str:
    """Return text with the passwords of URLs and connection strings masked."""
    return _PASSWORD.sub(
        lambda match: f"{match[1]}:***@" if match[3] is None else f"{match[2]}***", text
    )


def _table(settings: list[Setting], columns: int) -> list[str]:
    """Return settings as a table; the value gets the remaining width."""
    rows = [
        (
            setting.setting,
            strip_control_characters(_shown(setting.value or "-")),
            _format_origin(setting),
        )
        for setting in settings
    ]
    names, origins = (max(len(row[n]) for row in rows) for n in (0, 2))
    names = min(names, columns // 2)
    room = max(12, columns - names - origins - 4)
    return [
        f"{first_line(name, names):<{names}}  {first_line(value, room):<{room}}  "
        f"{style(origin, dim=True)}"
        for name, value, origin in rows
    ]


def _format_origin(setting: Setting) -> str:
    return (
        setting.where
        if setting.where and setting.origin is SettingOrigin.ENVIRONMENT
        else setting.origin.value
    )


def _shown(value: str) -> str:
    return value.replace(f"{Path.home()}/", "~/")
