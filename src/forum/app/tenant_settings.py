"""Tenants: projects in the folder `tenants` of another project, each with a log of its own.

A tenant is an ordinary project, with its own keys and settings, in the same database.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from forum.config import PROJECT_FILE, Settings, bind_tenant, load_settings
from forum.errors import BadSettings, ForumError
from forum.sections import TenantQuota

TENANTS_FOLDER = "tenants"
HOME = "home"
"""The name of the operator's database among those to which a tenant can be moved."""


class ServedTenants:
    """The tenants of a project, for processes that serve them."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str] = os.environ,
        report: Callable[[Exception], None] | None = None,
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
        self.operator, self._environ = settings, environ
        self._report = report
        self.folder = settings.file.parent / TENANTS_FOLDER
        self._loaded: dict[Path, Settings] = {}

    def load_all(self) -> list[Settings]:
        """Return the settings of all tenants, by name; those that are known are not read again."""
        folders = sorted(self.folder.iterdir()) if self.folder.is_dir() else []
        for folder in folders:
            if folder not in self._loaded and (folder / PROJECT_FILE).is_file():
                self._load_new(folder)
        return [self._loaded[folder] for folder in folders if folder in self._loaded]

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
        if settings.key_file.resolve() == self.operator.key_file.resolve():
            where = settings.origins.get("keys.log", str(folder))
            raise BadSettings(where, "every tenant needs a key of its own: set no key file for all")
        return bind_operator(self.operator, bind_tenant(settings))


def bind_operator(operator: Settings, tenant: Settings) -> Settings:
    """Return the settings of a tenant with what the operator's file says of it.

    What its own file says of quotas and databases counts for nothing: the tenant writes it.
    """
    name = tenant.file.parent.name if tenant.file else ""
    quota = operator.quotas.get(name, TenantQuota())
    databases = {**operator.databases, HOME: operator.database or ""}
    return replace(tenant, quota=quota, databases=databases)


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
    tenants: Iterable[Settings], report: Callable[[Exception], None]
) -> Iterator[Settings]:
    """Yield the projects that a process may serve beside others, and report the rest."""
    for settings in tenants:
        try:
            check_separation(settings)
        except BadSettings as error:
            report(error)
        else:
            yield settings
