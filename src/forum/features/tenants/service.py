"""Add tenants to a project, give them roles in Postgres, and move their logs."""

import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from forum.app import KINDS, Forum, now
from forum.app.tenant_settings import ServedTenants
from forum.config import PROJECT_FILE, Settings
from forum.errors import BackupRejected, BadSettings
from forum.installation import require_extra
from forum.spelling import suggest_or_list

if TYPE_CHECKING:
    from collections.abc import Callable

    from forum.app import EpochStart
    from forum.ledger.ports import Reader
    from forum.stores.postgres_move import MoveResult
    from forum.verify import Trust

_URL_LINE = re.compile(r"^(\[database\][^\[]*?\n)url\s*=[^\n]*", re.MULTILINE)
_is_name = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?").fullmatch


@dataclass(frozen=True, slots=True)
class TenantAccess:
    """The Postgres role of a tenant."""

    role: str
    statements: str
    """The SQL that makes it, for somebody who may; empty if it was made."""


class TenantFolders(ServedTenants):
    """The folders of the tenants of a project, and what is done to them."""

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
            from forum.stores.postgres_tenants import make_tenant_role
        from forum.stores.state_files import write_durably

        with Forum(self.as_operator(settings)) as forum:
            origin = forum.store.origin  # opened, so that the operator's database says where it is
        role = make_tenant_role(self._find_database(settings, origin), origin)
        file = settings.file or self.folder
        text, line = file.read_text(), f"url = {_quote(role.url)}"
        if has_address(settings):
            changed = _URL_LINE.sub(lambda match: match[1] + line, text, count=1)
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
            from forum.stores.postgres_move import LogMover, MoveResult

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
                    verify=lambda reader: check_copy(reader, trust), on_step=on_step,
                )  # fmt: skip
                result = mover.move()
        self.add_role(settings)
        return result

    def _find_database(self, settings: Settings, origin: str) -> str:
        """Return the address of the database in which the log of a tenant is, for the operator."""
        from forum.stores.postgres_reader import find_database

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


def check_copy(reader: "Reader", trust: "Trust") -> None:
    """Verify the copy of a log.  Raises `BackupRejected`."""
    from forum.ledger.archive import ArchiveLookup
    from forum.stores.archive_stores import ArchiveReader
    from forum.verify import State, verify_ledger

    reader.archive = ArchiveLookup(reader, KINDS, ArchiveReader().fetch)
    report = verify_ledger(reader, KINDS, trust, now())
    for answer in (report.intact, report.complete):
        if answer.state is State.FAILS:
            raise BackupRejected(f"the copy does not verify: {answer.reason}")


def _quote(text: str) -> str:
    """Return a basic string of TOML."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
