"""Settings as one frozen value, read once and passed on.  It imports no room.

The nearest `forum.toml` upward names the project, and its data live in `.forum/` beside it; without
one they live in the user's data directory.  What must not be restored or stolen together with the
ledger (the guard, the local witness, the reader's memory) lives in the user's state directory.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from forum.errors import BadSettings

FILE = "forum.toml"
_KNOWN = {
    "ledger": {"origin"},
    "database": {"url"},
    "keys": {"log"},
    "witness": {"policy"},
    "roster": {"file"},
}
_NAMED = ("models", "tools", "servers")
"""Sections of sections, under names that the user chooses."""
_TEAM = (*_NAMED, "roles", "roster")
"""Who does the work.  What these sections mean is not known here: they are handed on as they are,
with numbers as exact as they were written."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Where everything is."""

    data: Path
    state: Path
    key_file: Path
    origin: str | None = None
    database: str | None = None
    policy: Path | None = None
    file: Path | None = None
    """The project file, if there is one."""
    team: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The sections of it that say who does the work."""

    @property
    def ledger_file(self) -> Path:
        """The ledger of an installation without Postgres."""
        return self.data / "ledger.db"

    @property
    def engine_file(self) -> Path:
        """The queues of an installation without Postgres."""
        return self.data / "engine.db"


def load_settings(start: Path, environ: Mapping[str, str]) -> Settings:
    """Read the settings that hold in a folder: environment before project file before default."""
    project = next((p / FILE for p in (start, *start.parents) if (p / FILE).is_file()), None)
    table = _read(project) if project else {}
    home = project.parent if project else start
    data = home / ".forum" if project else _user_folder(environ, "data")
    key = environ.get("FORUM_KEY_FILE") or _text(table, "keys", "log")
    policy = environ.get("FORUM_POLICY_FILE") or _text(table, "witness", "policy")
    return Settings(
        data=data,
        state=_user_folder(environ, "state"),
        key_file=home / key if key else data / "log.key",
        origin=_text(table, "ledger", "origin"),
        database=environ.get("FORUM_DATABASE_URL") or _text(table, "database", "url"),
        policy=home / policy if policy else None,
        file=project,
        team={name: table[name] for name in _TEAM if name in table},
    )


def _user_folder(environ: Mapping[str, str], kind: str) -> Path:
    named = environ.get(f"FORUM_{kind.upper()}_DIR")
    if named:
        return Path(named)
    import platformdirs  # noqa: PLC0415  most commands run inside a project and need it for state only

    find = {"data": platformdirs.user_data_path, "state": platformdirs.user_state_path}[kind]
    return find("forum")


def _read(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(), parse_float=Decimal)
    except (OSError, ValueError, RecursionError) as error:
        raise BadSettings(str(path), str(error)) from None
    for section, values in table.items():
        if section not in (*_KNOWN, *_TEAM) or not isinstance(values, dict):
            known = ", ".join(dict.fromkeys((*_KNOWN, *_TEAM)))
            raise BadSettings(str(path), f"[{section}] is not a section; known: {known}")
        for name in values.keys() - _KNOWN.get(section, values.keys()):
            raise BadSettings(str(path), f"[{section}] has no setting {name!r}")
        for name, value in values.items() if section in _NAMED else ():
            if not isinstance(value, dict):
                raise BadSettings(str(path), f"[{section}] {name}: write [{section}.{name}] above")
    return table


def _text(table: Mapping[str, Any], section: str, name: str) -> str | None:
    value = table.get(section, {}).get(name)
    if value is not None and not isinstance(value, str):
        raise BadSettings(FILE, f"[{section}] {name} is a text")
    return value or None
