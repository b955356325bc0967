"""Settings as one frozen value, read once and passed on. This module imports only `errors`.

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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from forum.errors import BadSettings
from forum.spelling import suggest_or_list

PROJECT_FILE = "forum.toml"
USER_FILE = "config.toml"
_KNOWN_SETTINGS = {
    "ledger": {"origin", "cleanup_days"},
    "database": {"url"},
    "worker": {"runner", "temporal_address"},
    "keys": {"log", "public", "write"},
    "witness": {"policy"},
    "roster": {"file", "rung"},
    "submit": {"team"},
    "agents": {"confine", "read", "write", "connect", "env"},
    "clients": {"usd", "tokens", "calls", "seconds", "depth"},
    "server": {
        "host", "port", "allow_hosts", "rate", "max_body", "open_loopback", "require_keys",
        "tls_cert", "tls_key",
    },
    "otel": {
        "endpoint", "headers_env", "content", "all_spans", "trace_forum", "quiet_seconds",
        "idle_seconds",
    },
    "gateway": {
        "openai_url", "anthropic_url", "openai_key_env", "openai_key_file", "anthropic_key_env",
        "anthropic_key_file", "free_loopback", "prices", "usd", "tokens", "calls", "allow",
        "untouched", "max_repeats", "quiet_seconds",
    },
}  # fmt: skip
_NAMED_SECTIONS = (
    "models",
    "panels",
    "tools",
    "servers",
    "gates",
    "budgets",
    "tenants",
    "databases",
)
"""Sections with subsections, whose names the user chooses."""
_QUOTA_SETTINGS = ("runs_at_once", "runs_per_minute", "weight")
_TEAM_SECTIONS = (*_NAMED_SECTIONS, "roles", "roster", "submit", "clients")
"""Sections about agents, tools and limits. They are not interpreted here but passed on unchanged,
with numbers as exact as they were written.
"""
_SURFACE_SECTIONS = ("server", "gateway", "oidc", "webhooks", "otel")
"""Sections about the server, the gateway, clients, webhooks and telemetry; passed on unchanged."""
_SECTIONS = tuple(dict.fromkeys((*_KNOWN_SETTINGS, *_TEAM_SECTIONS, *_SURFACE_SECTIONS)))
_UNMERGED_SECTIONS = frozenset({"oidc"})
"""Sections that are taken from one file only, never merged."""
_PATH_SETTINGS = frozenset(
    {
        ("gateway", "anthropic_key_file"), ("gateway", "openai_key_file"), ("roster", "file"),
        ("server", "tls_cert"), ("server", "tls_key"),
    }
)  # fmt: skip
_FILE_SETTINGS = _PATH_SETTINGS | {
    ("agents", "read"), ("agents", "write"), ("keys", "log"), ("keys", "public"),
    ("keys", "write"), ("witness", "policy"),
}  # fmt: skip
"""Settings that name files, beside those whose names end with `_file`."""
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
        for name in sorted(_KNOWN_SETTINGS["server"])
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
class TenantQuota:
    """What the operator lets a tenant have, from `[tenants.NAME]` of the operator's file."""

    runs_at_once: int | None = None
    """How many runs may be accepted and not have ended; None is no limit."""
    runs_per_minute: int | None = None
    """How many runs are accepted in a minute; None is no limit."""
    weight: int = 1
    """Its part of a worker that serves several tenants, beside the parts of the others."""


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
    team: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The sections about agents, tools and limits."""
    doors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The sections about the server, its clients and webhooks."""
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
    quota: TenantQuota = TenantQuota()
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
    folder: Path
    """The folder to which paths in it are relative."""


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
        # Mixed from two files, `[oidc]` could accept the tokens of one issuer by the rules that
        # were written for another. So it comes from the first source that has any part of it.
        whole = {_section(name) for name in raw} & _UNMERGED_SECTIONS
        raw |= {
            name: setting
            for name, setting in _read_file(file).items()
            if name not in raw and _section(name) not in whole
        }
    data = home / ".forum" if project else _user_folder(environ, "data")
    return Settings(
        data=data,
        state=_user_folder(environ, "state"),
        key_file=_path(raw, "keys.log") or data / "log.key",
        origin=_text(raw, "ledger.origin"),
        database=_text(raw, "database.url"),
        policy=_path(raw, "witness.policy"),
        public_key=_path(raw, "keys.public"),
        write_key=_path(raw, "keys.write"),
        agents=_agent_rules(raw),
        runner=_value(raw, "worker.runner", _is_runner, '"claims", "dbos" or "temporal"')
        or "claims",
        temporal_address=_text(raw, "worker.temporal_address"),
        cleanup_days=_value(raw, "ledger.cleanup_days", _is_days, "a number of days from 1 on")
        or 7,
        file=project,
        team=_collect_sections(raw, _TEAM_SECTIONS),
        doors=_collect_sections(raw, _SURFACE_SECTIONS),
        user_file=user,
        origins={name: setting.where for name, setting in raw.items()}
        | _folder_origins(environ, () if project else ("data",)),
        quotas=_read_quotas(raw),
        databases=_read_databases(raw),
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
            elif last.endswith("_file") or (section, last) in _FILE_SETTINGS:
                refused = [rules.refuse_file(setting.folder / f) for f in _list_texts(value)]
            else:
                continue
            for why in filter(None, refused):
                shown = f"[{section}.{key}] {part}" if part else f"[{section}] {key}"
                raise BadSettings(setting.where, f"{shown}: {why}")
    return replace(settings, secrets=rules)


def separate_tenant(known: Iterable[Settings], new: Settings) -> Settings:
    """Return the settings of a project beside others of one process: no two share a variable.

    A tenant whose folder has the name of another one's has none.  Raises `BadSettings` if it names
    one.
    """
    own = new.secrets
    for other in known:
        if own.prefix == other.secrets.prefix and own.tenant not in (None, other.secrets.tenant):
            return bind_tenant(new, is_namesake=True)
    return new


def _list_texts(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [text for text in values if isinstance(text, str) and text]


def list_secret_files(settings: Settings) -> Iterator[tuple[Path, str]]:
    """Yield the files with keys and secrets that the settings name, and what each holds."""
    named = [
        (model, "key_file", f"the key of the model {name}")
        for name, model in settings.team.get("models", {}).items()
    ]
    named += [
        (webhook, "secret_file", f"the secret of the webhook {name}")
        for name, webhook in settings.doors.get("webhooks", {}).items()
    ]
    server = settings.doors.get("server", {})
    named.append((server, "tls_key", "the key of the server's certificate"))
    gateway = settings.doors.get("gateway", {})
    named += [
        (gateway, f"{provider}_key_file", f"the key of the gateway for {provider}")
        for provider in ("openai", "anthropic")
    ]
    for section, setting, what in named:
        if isinstance(section, Mapping) and isinstance(section.get(setting), str):
            yield Path(section[setting]), what


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
    return {
        name: _RawSetting(environ[variable], variable, home)
        for name, variable in _VARIABLES.items()
        if environ.get(variable)
    }


def _read_file(path: Path) -> dict[str, _RawSetting]:
    return {
        f"{section}.{name}": _RawSetting(value, str(path), path.parent)
        for section, values in _read(path).items()
        for name, value in values.items()
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        # Decimal keeps prices and amounts exactly as they were written.
        table = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except (OSError, ValueError, RecursionError) as error:
        raise BadSettings(str(path), str(error)) from None
    for section, values in table.items():
        if section not in _SECTIONS or not isinstance(values, dict):
            hint = suggest_or_list(section, _SECTIONS)
            raise BadSettings(str(path), f"[{section}] is not a section; {hint}")
        names = _KNOWN_SETTINGS.get(section, values.keys())
        for name in values.keys() - names:
            hint = suggest_or_list(name, names)
            raise BadSettings(str(path), f"[{section}] has no setting {name!r}; {hint}")
        for name, value in values.items() if section in (*_NAMED_SECTIONS, "webhooks") else ():
            if not isinstance(value, dict):
                raise BadSettings(str(path), f"[{section}] {name}: write [{section}.{name}] above")
    return table


def _value(
    settings: _RawSettings, name: str, is_valid: Callable[[Any], bool], expected: str
) -> Any:  # noqa: ANN401  `is_valid` has checked its type
    """Return a setting, or None if it is not set. Raises `BadSettings` if it is not valid."""
    setting = settings.get(name)
    if setting is None or is_valid(setting.value):
        return setting and setting.value
    section, _, key = name.partition(".")
    raise BadSettings(setting.where, f"[{section}] {key} is {expected}")


def _text(settings: _RawSettings, name: str) -> str | None:
    return _value(settings, name, lambda value: isinstance(value, str), "a text") or None


def _texts(settings: _RawSettings, name: str) -> tuple[str, ...]:
    return tuple(_value(settings, name, _is_list_of_texts, "a list of texts") or ())


def _read_quotas(settings: _RawSettings) -> dict[str, TenantQuota]:
    quotas = {}
    for setting in (name for name in settings if _section(name) == "tenants"):
        table, where = settings[setting].value, settings[setting].where
        for name, value in table.items():
            if name not in _QUOTA_SETTINGS:
                hint = suggest_or_list(name, _QUOTA_SETTINGS)
                raise BadSettings(where, f"[{setting}] has no setting {name!r}; {hint}")
            if not _is_count(value):
                raise BadSettings(where, f"[{setting}] {name} is a whole number from 1 on")
        quotas[setting.partition(".")[2]] = TenantQuota(**table)
    return quotas


def _read_databases(settings: _RawSettings) -> dict[str, str]:
    databases = {}
    for setting in (name for name in settings if _section(name) == "databases"):
        table, where = settings[setting].value, settings[setting].where
        if setting == "databases.home":
            raise BadSettings(where, f"[{setting}]: home is the database of [database] itself")
        if table.keys() != {"url"} or not isinstance(table["url"], str):
            raise BadSettings(where, f"[{setting}] has one setting: url, a text")
        databases[setting.partition(".")[2]] = table["url"]
    return databases


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 1_000_000


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_runner(value: object) -> bool:
    return value in ("claims", "dbos", "temporal")


def _is_days(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 100_000


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) and text for text in value)


def _path(settings: _RawSettings, name: str) -> Path | None:
    text = _text(settings, name)
    return settings[name].folder / text if text else None


def _paths(settings: _RawSettings, name: str) -> tuple[Path, ...]:
    return tuple(settings[name].folder / path for path in _texts(settings, name))


def _agent_rules(settings: _RawSettings) -> AgentSandboxRules:
    return AgentSandboxRules(
        confine=_value(settings, "agents.confine", _is_flag, "true or false") or False,
        read=_paths(settings, "agents.read"),
        write=_paths(settings, "agents.write"),
        connect=tuple(_address(settings, text) for text in _texts(settings, "agents.connect")),
        env=_texts(settings, "agents.env"),
    )


def _address(settings: _RawSettings, text: str) -> tuple[str, int]:
    """Parse HOST:PORT, where HOST is a name, or a loopback address."""
    host, _, port = text.rpartition(":")
    is_name = _HOST(host) is not None and (not _NUMBERS(host) or host.startswith("127."))
    if not is_name or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        why = f"[agents] connect: {text!r}; write NAME:PORT, or 127.0.0.1:PORT for this machine"
        raise BadSettings(settings["agents.connect"].where, why)
    return host.lower(), int(port)


def _section(name: str) -> str:
    return name.partition(".")[0]


def _collect_sections(
    settings: _RawSettings, sections: tuple[str, ...]
) -> dict[str, dict[str, Any]]:
    tables: dict[str, dict[str, Any]] = {}
    for name, setting in settings.items():
        section, _, key = name.partition(".")
        if section in sections:
            tables.setdefault(section, {})[key] = _resolve_paths(section, key, setting)
    return tables


def _resolve_paths(section: str, key: str, setting: _RawSetting) -> Any:  # noqa: ANN401  any TOML value
    """Return a setting whose relative paths are resolved against the folder of its own file."""
    if (section, key) in _PATH_SETTINGS and isinstance(setting.value, str) and setting.value:
        return str(setting.folder / setting.value)
    if section in ("models", "webhooks"):
        files = {name: setting.value.get(name) for name in ("key_file", "secret_file")}
        named = {name: str(setting.folder / f) for name, f in files.items() if isinstance(f, str)}
        return {**setting.value, **named}
    return setting.value
