"""Settings as one frozen value, read once and passed on.

The nearest `forum.toml` upward marks the project, and its data live in `.forum/` beside it; without
one they live in the user's data directory. The guard, the local witness and the reader's memory
live in the user's state directory, because they must not be restored or stolen together with the
ledger.

`config.toml` in the user's configuration directory has the same sections and applies to all
projects of the user. Precedence, setting by setting: command option, environment variable, project
file, user's file, default. An agent, a tool, a server or the token issuer counts as one setting,
because half of it from each of two files would be a combination that nobody wrote.
"""

import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import msgspec

from forum.errors import BadSettings
from forum.feature import load_part
from forum.features import FEATURES
from forum.runs.team_settings import TEAM_SECTIONS
from forum.section_reader import (
    SectionTables,
    collect_sections,
    list_file_settings,
    refuse_unknown,
)
from forum.sections import (
    PROJECT_SECTIONS,
    SERVER_SECTIONS,
    AgentsSection,
    DatabaseSection,
    KeysSection,
    LedgerSection,
    NamedDatabaseSection,
    ServerSection,
    TenantQuota,
    WitnessSection,
    WorkerSection,
)
from forum.spelling import suggest_or_list

SECTIONS: Final = collect_sections(
    PROJECT_SECTIONS,
    TEAM_SECTIONS,
    SERVER_SECTIONS,
    {name: load_part(struct) for feature in FEATURES for name, struct in feature.sections},
)
"""All sections, by name.  One of a feature that is not there is refused like a misspelled one: a
server without it would let in, cap or tell others than its operator wants."""

PROJECT_FILE = "forum.toml"
USER_FILE = "config.toml"
_VARIABLES = {
    "database.url": "FORUM_DATABASE_URL",
    "worker.runner": "FORUM_WORKER_RUNNER",
    "worker.temporal_address": "FORUM_TEMPORAL_ADDRESS",
    "keys.log": "FORUM_KEY_FILE",
    "keys.public": "FORUM_PUBLIC_KEY_FILE",
    "keys.write": "FORUM_WRITE_KEY_FILE",
    "witness.policy": "FORUM_POLICY_FILE",
    **{
        f"server.{name}": f"FORUM_SERVER_{name.upper()}"
        for name in sorted(ServerSection.__struct_fields__)
    },
}


_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?").fullmatch
_NUMBERS = re.compile(r"[0-9.]+").fullmatch
# Two such names never make one variable, and none makes the beginning of another's variable.
_TENANT_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*").fullmatch


@dataclass(frozen=True, slots=True)
class AgentSandboxRules:
    """The sandbox of agents' programs, from the section `[agents]`."""

    confine: bool = False
    read: tuple[Path, ...] = ()
    """Files and folders that confined programs can read, beside the project's folder."""
    write: tuple[Path, ...] = ()
    """Files and folders that they can write."""
    connect: tuple[tuple[str, int], ...] = ()
    """Hosts and ports that they can connect to."""
    env: tuple[str, ...] = ()
    """Environment variables that they receive."""


@dataclass(frozen=True, slots=True)
class SecretRules:
    """Which variables and files a project may name.

    The project of the operator, who started the process, may name all of them.  A tenant is served
    beside it: whatever the process can read belongs to the operator or to other tenants, but for
    the files in the tenant's folder, and for variables that the operator has made for it.
    """

    tenant: Path | None = None
    """The folder of a tenant; None for the operator's own project."""
    is_namesake: bool = False
    """Whether another tenant of the process has a folder of the same name, and the variables."""

    @property
    def prefix(self) -> str:
        """The beginning of the variables of a tenant; empty if its folder's name allows none."""
        name = self.tenant.name if self.tenant and not self.is_namesake else ""
        return f"FORUM_TENANT_{name.upper().replace('-', '_')}__" if _TENANT_NAME(name) else ""

    def owns_variable(self, name: str) -> bool:
        """Return whether the project may name a variable."""
        return self.tenant is None or bool(self.prefix and name.startswith(self.prefix))

    def refuse_variable(self, name: str) -> str:
        """Return why the project may not name a variable; empty if it may."""
        if self.owns_variable(name):
            return ""
        if self.is_namesake:
            return (
                "another tenant of this process has a folder of the same name; rename one of them"
            )
        if not self.prefix:
            return "a tenant has variables if its folder has a name like research or team-2"
        return (
            f"this ledger has only variables that begin with {self.prefix}, such as "
            f"{self.prefix}OPENAI_KEY, which the operator of this process sets"
        )

    def refuse_file(self, path: str | Path) -> str:
        """Return why the project may not name a file; empty if it may."""
        if self.tenant is None or Path(path).resolve().is_relative_to(self.tenant.resolve()):
            return ""
        return f"this ledger has only files in its own folder, {self.tenant}"


@dataclass(frozen=True, slots=True)
class Settings:
    """The effective settings of a process: paths, addresses and sections."""

    data: Path
    state: Path
    key_file: Path
    origin: str | None = None
    database: str | None = None
    policy: Path | None = None
    file: Path | None = None
    """The project file, if there is one."""
    sections: SectionTables = field(default_factory=SectionTables)
    """The sections that have no member here."""
    user_file: Path | None = None
    """The user's own file, if there is one."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """The source of each setting, by names like `database.url`; defaults are left out."""
    public_key: Path | None = None
    write_key: Path | None = None
    agents: AgentSandboxRules = AgentSandboxRules()
    runner: str = "claims"
    """How workers find runs: by `claims` in the ledger, or in a queue of `dbos` or `temporal`."""
    temporal_address: str | None = None
    """The HOST:PORT of the Temporal server; unset, Temporal's own settings name it."""
    cleanup_days: int = 7
    """For how many days after its end a run keeps its idempotency keys, account and timers."""
    secrets: SecretRules = SecretRules()
    quotas: Mapping[str, TenantQuota] = field(default_factory=dict)
    """What the tenants of this project may have, by name."""
    quota: TenantQuota = field(default_factory=TenantQuota)
    """What this project may have, if it is a tenant."""
    databases: Mapping[str, str] = field(default_factory=dict)
    """The addresses of further databases, to which the logs of tenants can be moved, by name."""

    @property
    def public_key_file(self) -> Path:
        """The log's public key: the only key file of the log that a reading machine needs."""
        return self.public_key or self.data / "log.pub"

    @property
    def write_key_file(self) -> Path:
        """The write keys, by whose tags the signer recognises entries of this log's writers."""
        return self.write_key or self.data / "write.key"

    @property
    def ledger_file(self) -> Path:
        """The ledger of an installation without Postgres."""
        return self.data / "ledger.db"


@dataclass(frozen=True, slots=True)
class WorkerCapacity:
    """How much one worker does at the same time."""

    runs: int = 500
    tasks: int = 64
    """For all runs together, including roles and turns of panels."""


@dataclass(frozen=True, slots=True)
class _RawSetting:
    """One setting as written in its source."""

    value: Any
    where: str


_RawSettings = Mapping[str, _RawSetting]


def load_settings(start: Path, environ: Mapping[str, str]) -> Settings:
    """Read the settings for a folder: environment, project file, user's file, default.

    Raises `BadSettings`.
    """
    # A relative folder has no parents to look for a project in.
    start = start.absolute()
    project = _find_project(start)
    user_file = user_settings_path(environ)
    user = user_file if user_file.is_file() else None
    home = project.parent if project else start
    raw = _read_environment(environ, home)
    for file in filter(None, (project, user)):
        whole = {name for name in map(_section, raw) if not SECTIONS[name].is_merged}
        raw |= {
            name: setting
            for name, setting in _read_file(file).items()
            if name not in raw and _section(name) not in whole
        }
    data = home / ".forum" if project else _user_folder(environ, "data")
    written: dict[str, dict[str, Any]] = {}
    for name, setting in raw.items():
        section, _, key = name.partition(".")
        written.setdefault(section, {})[key] = setting.value
    origins = {name: setting.where for name, setting in raw.items()}
    sections = SectionTables(written, str(project or user or PROJECT_FILE), origins)
    ledger = sections.read("ledger", LedgerSection)
    worker = sections.read("worker", WorkerSection)
    keys = sections.read("keys", KeysSection)
    policy = sections.read("witness", WitnessSection).policy
    databases = sections.read_named("databases", NamedDatabaseSection)
    with sections.errors("databases"):
        if "home" in databases:
            raise ValueError("home: choose another name; home is the database of [database]")
    shown = {
        name: table
        for name, table in written.items()
        if SECTIONS[name].is_named or name not in PROJECT_SECTIONS
    }
    return Settings(
        data=data,
        state=_user_folder(environ, "state"),
        key_file=Path(keys.log) if keys.log else data / "log.key",
        origin=ledger.origin or None,
        database=sections.read("database", DatabaseSection).url or None,
        policy=Path(policy) if policy else None,
        public_key=Path(keys.public) if keys.public else None,
        write_key=Path(keys.write) if keys.write else None,
        agents=_agent_rules(sections),
        runner=worker.runner,
        temporal_address=worker.temporal_address or None,
        cleanup_days=ledger.cleanup_days,
        file=project,
        sections=msgspec.structs.replace(sections, tables=shown),
        user_file=user,
        origins=origins | _folder_origins(environ, () if project else ("data",)),
        quotas=sections.read_named("tenants", TenantQuota),
        databases={name: database.url for name, database in databases.items()},
    )


def bind_tenant(settings: Settings, *, is_namesake: bool = False) -> Settings:
    """Return the settings of a project that is served beside that of the operator.

    Its own file may name only variables and files of its own.  What the user's file names is the
    operator's, and was written for all projects.  `is_namesake` tells that another tenant has a
    folder of the same name, and the variables.  Raises `BadSettings`.
    """
    folder = settings.file.parent if settings.file else settings.data
    rules = SecretRules(folder, is_namesake=is_namesake)
    for name, setting in _read_file(settings.file).items() if settings.file else ():
        section, _, key = name.partition(".")
        whole = setting.value.items() if isinstance(setting.value, dict) else [("", setting.value)]
        for part, value in whole:
            last = part or key
            if last == "env" or last.endswith("_env"):
                refused = [rules.refuse_variable(text) for text in _list_texts(value)]
            elif last in list_file_settings(SECTIONS[section]):
                refused = [rules.refuse_file(f) for f in _list_texts(value)]
            else:
                continue
            for why in filter(None, refused):
                shown = f"[{section}.{key}] {part}" if part else f"[{section}] {key}"
                raise BadSettings(setting.where, f"{shown}: {why}")
    return replace(settings, secrets=rules)


def separate_tenant(others: Iterable[Settings], new: Settings) -> Settings:
    """Return the settings of a project beside others of one process: no two share a variable.

    A tenant whose folder has the name of another one's has none.  Raises `BadSettings` if it names
    one.
    """
    own = new.secrets
    for other in others:
        if own.prefix == other.secrets.prefix and own.tenant not in (None, other.secrets.tenant):
            return bind_tenant(new, is_namesake=True)
    return new


def _list_texts(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [text for text in values if isinstance(text, str) and text]


def list_secret_files(settings: Settings) -> Iterator[tuple[Path, str]]:
    """Yield the files with keys and secrets that the settings name, and what each holds."""
    for file, title in settings.sections.list_secrets(SECTIONS):
        if title:
            yield Path(file), title


def _find_project(start: Path) -> Path | None:
    """Return the nearest project file upward. Raises `BadSettings` for another user's file.

    The file names programs, which would run with the rights of the current user.
    """
    project = next(
        (p / PROJECT_FILE for p in (start, *start.parents) if (p / PROJECT_FILE).is_file()), None
    )
    if project is not None and not _is_trusted_file(project, start):
        why = "it belongs to another user; an empty forum.toml in your folder begins your project"
        raise BadSettings(str(project), why)
    return project


def _is_trusted_file(project: Path, start: Path) -> bool:
    """Tell whether a project file may be trusted.

    It must belong to this user or root, or be in the current folder if others cannot write there.
    """
    # Another user could put a forum.toml into a shared parent folder such as /tmp, and have its
    # programs run with the rights of everyone who works below it.
    folder, owner = project.parent, project.stat().st_uid
    entered = folder == start and not folder.stat().st_mode & stat.S_IWOTH
    return owner in (os.geteuid(), 0) or entered


def user_settings_path(environ: Mapping[str, str]) -> Path:
    """Return the path of the settings for all projects of this user; the file need not exist."""
    return _user_folder(environ, "config") / USER_FILE


def _user_folder(environ: Mapping[str, str], kind: str) -> Path:
    named = environ.get(f"FORUM_{kind.upper()}_DIR")
    if named:
        return Path(named)
    import platformdirs  # noqa: PLC0415  most commands run inside a project and need it for state only

    find = {
        "config": platformdirs.user_config_path,
        "data": platformdirs.user_data_path,
        "state": platformdirs.user_state_path,
    }
    return find[kind]("forum")


def _folder_origins(environ: Mapping[str, str], used: tuple[str, ...]) -> dict[str, str]:
    named = {kind: f"FORUM_{kind.upper()}_DIR" for kind in ("state", *used)}
    return {kind: variable for kind, variable in named.items() if environ.get(variable)}


def _read_environment(environ: Mapping[str, str], home: Path) -> dict[str, _RawSetting]:
    named = {name: environ[key] for name, key in _VARIABLES.items() if environ.get(key)}
    return {
        name: _RawSetting(_resolve(name, value, home), _VARIABLES[name])
        for name, value in named.items()
    }


def _read_file(path: Path) -> dict[str, _RawSetting]:
    return {
        name: _RawSetting(_resolve(name, value, path.parent), str(path))
        for section, values in _read(path).items()
        for name, value in ((f"{section}.{key}", value) for key, value in values.items())
    }


def _resolve(setting: str, value: Any, folder: Path) -> Any:  # noqa: ANN401  any TOML value
    """Return a setting whose relative paths are resolved against the folder of its own file."""
    section, _, name = setting.partition(".")
    files = list_file_settings(SECTIONS[section])
    if SECTIONS[section].is_named:
        return value | {file: _join(folder, value[file]) for file in files & value.keys()}
    return _join(folder, value) if name in files else value


def _join(folder: Path, value: Any) -> Any:  # noqa: ANN401  any TOML value
    if isinstance(value, list):
        return [_join(folder, item) for item in value]
    return str(folder / value) if isinstance(value, str) and value else value


def _read(path: Path) -> dict[str, Any]:
    try:
        # Decimal keeps prices and amounts exactly as they were written.
        table = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except (OSError, ValueError, RecursionError) as error:
        raise BadSettings(str(path), str(error)) from None
    for section, values in table.items():
        if section not in SECTIONS or not isinstance(values, dict):
            hint = suggest_or_list(section, SECTIONS)
            raise BadSettings(str(path), f"[{section}] is not a section; {hint}")
        if not SECTIONS[section].is_named:
            with SectionTables(file=str(path)).errors(section):
                refuse_unknown(values, SECTIONS[section])
            continue
        for name, value in values.items():
            if not isinstance(value, dict):
                raise BadSettings(str(path), f"[{section}] {name}: write [{section}.{name}] above")
    return table


def _agent_rules(sections: SectionTables) -> AgentSandboxRules:
    section = sections.read("agents", AgentsSection)
    with sections.errors("agents"):
        connect = tuple(map(_address, section.connect))
    return AgentSandboxRules(
        confine=section.confine,
        read=tuple(map(Path, section.read)),
        write=tuple(map(Path, section.write)),
        connect=connect,
        env=section.env,
    )


def _address(text: str) -> tuple[str, int]:
    """Parse HOST:PORT, where HOST is a name, or a loopback address.  Raises `ValueError`."""
    host, _, port = text.rpartition(":")
    is_name = _HOST(host) is not None and (not _NUMBERS(host) or host.startswith("127."))
    if not is_name or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        why = f"connect: {text!r}; write NAME:PORT, or 127.0.0.1:PORT for this machine"
        raise ValueError(why)
    return host.lower(), int(port)


def _section(name: str) -> str:
    return name.partition(".")[0]
