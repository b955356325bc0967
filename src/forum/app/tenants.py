"""Tenants: projects in the folder `tenants` of another project, each with a log of its own.

A tenant is an ordinary project, with its own keys and settings, in the same database.
"""

import os
import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from forum.app import KINDS, Forum, now
from forum.config import PROJECT_FILE, Settings, TenantQuota, bind_tenant, load_settings
from forum.errors import BackupRejected, BadSettings, ForumError
from forum.installation import require_extra
from forum.spelling import suggest_or_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from forum.app import EpochStart
    from forum.backends.postgres_move import MoveResult
    from forum.ledger.ports import Reader
    from forum.verify import Trust

TENANTS_FOLDER = "tenants"
HOME = "home"
"""The name of the operator's database among those to which a tenant can be moved."""
_URL_LINE = re.compile(r"^(\[database\][^\[]*?\n)url\s*=[^\n]*", re.MULTILINE)
_is_name = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?").fullmatch


@dataclass(frozen=True, slots=True)
class TenantAccess:
    """The Postgres role of a tenant."""

    role: str
    statements: str
    """The SQL that makes it, for somebody who may; empty if it was made."""


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
        self.operator, self._environ, self._report = settings, environ, report
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
        if settings.key_file.resolve() == self.operator.key_file.resolve():
            where = settings.origins.get("keys.log", str(folder))
            raise BadSettings(where, "every tenant needs a key of its own: set no key file for all")
        return bind_operator(self.operator, bind_tenant(settings))

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
            path.touch(mode=0o600)  # the address of the database will have a password
            path.write_text(self._project_file(name))
        return self.load(folder)

    def find(self, name: str) -> Path:
        """Return the folder of a tenant.  Raises `BadSettings` if there is none of this name."""
        folder = self.folder / name
        if not _is_name(name) or not (folder / PROJECT_FILE).is_file():
            raise BadSettings(name, "there is no such tenant; add it with: forum tenant add NAME")
        return folder

    def add_role(self, settings: Settings) -> TenantAccess:
        """Make the Postgres role of a tenant, or give it a new password.

        Its address takes the place of that of the operator in the project file of the tenant.
        Raises `NoSuchLog` for a tenant without a log.
        """
        with require_extra("postgres"):
            from forum.backends.postgres_tenants import make_tenant_role
        from forum.backends.state_files import write_durably

        with Forum(self.as_operator(settings)) as forum:
            origin = forum.store.origin  # opened, so that the operator's database says where it is
        role = make_tenant_role(self._find_database(settings, origin), origin)
        file = settings.file or self.folder
        text, line = file.read_text(), f"url = {_quote(role.url)}"
        if has_address(settings):
            changed = _URL_LINE.sub(lambda found: found[1] + line, text, count=1)
        else:
            changed = f"{text.rstrip()}\n\n[database]\n{line}\n"
        if tomllib.loads(changed)["database"].get("url") != role.url:
            why = f"[database] url could not be replaced; write there: {line}"
            raise BadSettings(str(file), why)
        write_durably(file, changed.encode())
        return TenantAccess(role.name, role.statements)

    def begin_epoch(self, name: str, reason: str) -> "EpochStart":
        """Begin the next epoch of the log of a tenant, where the log is, and give it its role.

        A tenant's own role may add no log.
        """
        settings = self.load(self.find(name))
        with Forum(self.as_operator(settings)) as forum:
            result = forum.keys.new_epoch(reason)
        self.add_role(settings)
        return result

    def move(
        self, name: str, place: str, on_step: "Callable[[str], None]" = lambda _: None
    ) -> "MoveResult":
        """Move the log of a tenant to another database, while its writers work.

        `place` is a name of `[databases]`, or `home` for the database of the operator.  The
        address in the tenant's file is replaced.  Raises `MoveRefused`, `BadSettings`.
        """
        with require_extra("postgres"):
            from forum.backends.postgres_move import LogMover, MoveResult

        settings = self.load(self.find(name))
        if place not in settings.databases:
            hint = suggest_or_list(place, settings.databases)
            raise BadSettings(str(self.operator.file), f"[databases] has no {place!r}; {hint}")
        target = settings.databases[place]
        with Forum(self.as_operator(settings)) as forum:
            source = self._find_database(settings, forum.store.origin)
            if source == target:
                # A move was broken off after the log had left: opening it marks it as arrived.
                result = MoveResult(forum.store.head().size, 0, 0, 0.0)
            else:
                trust = forum.log.read_trust()
                mover = LogMover(
                    forum.origin, source, target, place,
                    lambda reader: check_copy(reader, trust), on_step,
                )  # fmt: skip
                result = mover.move()
        self.add_role(settings)
        return result

    def _find_database(self, settings: Settings, origin: str) -> str:
        """Return the address of the database in which the log of a tenant is, for the operator."""
        from forum.backends.postgres import find_database

        return find_database(self.operator.database or "", origin, settings.databases)

    def as_operator(self, settings: Settings) -> Settings:
        """Return the settings of a tenant, with the database as the operator is let into it."""
        return replace(settings, database=self.operator.database)

    def _project_file(self, name: str) -> str:
        """Return a project file, with what the file of this project says of the ledger."""
        own = str(self.operator.file)
        lines = [f"# The tenant {name}: its models, tools and limits."]
        if self.operator.origins.get("ledger.origin") == own:
            lines += ["", "[ledger]", f"origin = {_quote(f'{self.operator.origin}/{name}')}"]
        if self.operator.origins.get("worker.runner") == own:
            lines += ["", "[worker]", f"runner = {_quote(self.operator.runner)}"]
        return "\n".join([*lines, ""])


def has_address(settings: Settings) -> bool:
    """Return whether the file of a project names its database."""
    text = settings.file.read_text() if settings.file else ""
    return "url" in tomllib.loads(text).get("database", {})


def bind_operator(operator: Settings, tenant: Settings) -> Settings:
    """Return the settings of a tenant with what the operator's file says of it.

    What its own file says of quotas and databases counts for nothing: the tenant writes it.
    """
    name = tenant.file.parent.name if tenant.file else ""
    quota = operator.quotas.get(name, TenantQuota())
    databases = {**operator.databases, HOME: operator.database or ""}
    return replace(tenant, quota=quota, databases=databases)


def check_copy(reader: "Reader", trust: "Trust") -> None:
    """Verify the copy of a log.  Raises `BackupRejected`."""
    from forum.backends.archive_stores import ArchiveReader
    from forum.ledger.archive import ArchiveLookup
    from forum.verify import State, verify_ledger

    reader.archive = ArchiveLookup(reader, KINDS, ArchiveReader().fetch)
    report = verify_ledger(reader, KINDS, trust, now())
    for answer in (report.intact, report.complete):
        if answer.state is State.FAILS:
            raise BackupRejected(f"the copy does not verify: {answer.reason}")


def use_one_database(operator: Settings, tenant: Settings) -> Settings:
    """Return the settings of a tenant for a process of the operator.

    The process connects as the operator.  To connect as the file of a tenant says would send there
    what the environment of the process has for libpq, such as PGPASSWORD and a client certificate.
    Raises `BadSettings` for a tenant in another Postgres database.
    """
    if tenant.database is None or tenant.database == operator.database:
        return tenant
    if operator.database:
        with require_extra("postgres"):
            from forum.backends.postgres_tenants import is_same_database

        if any(
            is_same_database(known, tenant.database)
            for known in (operator.database, *operator.databases.values())
        ):
            # Also a tenant that was moved: the row that it left behind says where it is.
            return replace(tenant, database=operator.database)
    why = (
        "a process for several ledgers connects to the databases of the operator's forum.toml only "
        "([database] and [databases]), to no other one"
    )
    raise BadSettings(str(tenant.file or tenant.data), why)


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
