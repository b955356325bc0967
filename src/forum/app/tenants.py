"""Tenants: projects in the folder `tenants` of another project, each with a log of its own.

A tenant is an ordinary project, with its own keys and settings, in the same database.
"""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from forum.config import PROJECT_FILE, Settings, bind_tenant, load_settings
from forum.errors import BadSettings, ForumError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

TENANTS_FOLDER = "tenants"
_is_name = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?").fullmatch


class TenantFolders:
    """The folders of the tenants of a project."""

    def __init__(
        self,
        settings: Settings,
        environ: "Mapping[str, str]" = os.environ,
        report: "Callable[[Exception], None] | None" = None,
    ) -> None:
        """Raise `BadSettings` if there is no project, or one without Postgres.

        With `report`, it is told of tenants whose settings cannot be loaded, and these are left
        out; otherwise the error is raised.
        """
        if settings.file is None:
            raise BadSettings(PROJECT_FILE, "there is none here or above; begin with: forum init")
        if not settings.database:
            why = "tenants share a Postgres database; set [database] url or FORUM_DATABASE_URL"
            raise BadSettings(str(settings.file), why)
        self._settings, self._environ, self._report = settings, environ, report
        self.folder = settings.file.parent / TENANTS_FOLDER
        self._loaded: dict[Path, Settings] = {}

    def load_all(self) -> list[Settings]:
        """Return the settings of all tenants, by name; those that are known are not read again."""
        found = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
        for folder in found:
            if folder not in self._loaded and (folder / PROJECT_FILE).is_file():
                self._load_new(folder)
        return [self._loaded[folder] for folder in found if folder in self._loaded]

    def _load_new(self, folder: Path) -> None:
        try:
            settings = self.load(folder)
        except (ForumError, OSError) as error:
            if self._report is None:
                raise
            self._report(error)
            return
        # One without keys is being made.
        if settings.key_file.exists() or settings.public_key_file.exists():
            self._loaded[folder] = settings

    def load(self, folder: Path) -> Settings:
        """Return the settings of a tenant.

        Raises `BadSettings` if it shares a key with others, or names what is not its own.
        """
        settings = load_settings(folder, self._environ)
        if settings.key_file.resolve() == self._settings.key_file.resolve():
            where = settings.origins.get("keys.log", str(folder))
            raise BadSettings(where, "every tenant needs a key of its own: set no key file for all")
        return bind_tenant(settings)

    def add(self, name: str) -> Settings:
        """Make the folder of a new tenant with its project file, and return its settings.

        What exists is left as it is.  Raises `BadSettings` for a name that is no folder name.
        """
        if not _is_name(name):
            why = "a name of a tenant has 1 to 63 lower-case letters, digits and hyphens"
            raise BadSettings(name, why)
        folder = self.folder / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / PROJECT_FILE
        if not path.exists():
            path.touch(mode=0o600)  # the address of the database may have a password
            path.write_text(self._project_file(name))
        return self.load(folder)

    def _project_file(self, name: str) -> str:
        """Return a project file, with what the file of this project says of the database."""
        own = str(self._settings.file)
        lines = [f"# The tenant {name}: its models, tools and limits."]
        if self._settings.origins.get("ledger.origin") == own:
            lines += ["", "[ledger]", f"origin = {_quote(f'{self._settings.origin}/{name}')}"]
        if self._settings.origins.get("database.url") == own:
            lines += ["", "[database]", f"url = {_quote(self._settings.database or '')}"]
        if self._settings.origins.get("worker.runner") == own:
            lines += ["", "[worker]", f"runner = {_quote(self._settings.runner)}"]
        return "\n".join([*lines, ""])


def _quote(text: str) -> str:
    """Return a basic string of TOML."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def check_separation(settings: Settings) -> None:
    """Raise `BadSettings` unless a process may serve this project beside others.

    A worker runs the programs of all its projects as one user.  A program that is not confined
    could read the keys of the other tenants; and whatever escapes from a sandbox, or runs in the
    worker itself, finds no key there that signs a log.
    """
    where = str(settings.file or settings.data)
    if not settings.agents.confine:
        why = (
            "a worker for several ledgers runs the programs of all of them as one user, who can "
            "read the keys of each: set [agents] confine = true, or start it with --confine"
        )
        raise BadSettings(where, why)
    key = settings.key_file
    for path in (key, *sorted(key.parent.glob(f"{key.name}.*"))):
        if path.is_file() and os.access(path, os.R_OK):
            why = (
                f"{path} signs its log, and a worker for several ledgers must not be able to read "
                "such a key: keep it with the process that signs (forum serve --tenants), on "
                "another machine or under another user, and leave write.key and log.pub here"
            )
            raise BadSettings(where, why)


def keep_separated(
    found: "Iterable[Settings]", report: "Callable[[Exception], None]"
) -> "Iterator[Settings]":
    """Yield the projects that a process may serve beside others, and report the rest."""
    for settings in found:
        try:
            check_separation(settings)
        except BadSettings as error:
            report(error)
        else:
            yield settings
