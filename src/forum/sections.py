"""The sections of `forum.toml` that are about a project and its server.

The sections of agents are declared by `runs.team_settings`, and those of features by the features.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta

from forum import section_reader

Text = Annotated[str, Meta(min_length=1)]
Quota = Annotated[int, Meta(ge=1, le=1_000_000)]


class LedgerSection(section_reader.Section, frozen=True):
    """The name of the log, and when what a run leaves behind is cleaned up."""

    origin: str = ""
    cleanup_days: Annotated[int, Meta(ge=1, le=100_000)] = 7


class DatabaseSection(section_reader.Section, frozen=True):
    """The database of the ledger; without one it is a file."""

    url: str = ""


class WorkerSection(section_reader.Section, frozen=True):
    """How workers find runs."""

    runner: Literal["claims", "dbos", "temporal"] = "claims"
    temporal_address: str = ""


class KeysSection(section_reader.Section, frozen=True):
    """The key files of the log."""

    log: section_reader.FilePath = ""
    public: section_reader.FilePath = ""
    write: section_reader.FilePath = ""


class WitnessSection(section_reader.Section, frozen=True):
    """The policy of witnesses."""

    policy: section_reader.FilePath = ""


class AgentsSection(section_reader.Section, frozen=True):
    """The sandbox of agents' programs."""

    confine: bool = False
    read: section_reader.FilePaths = ()
    write: section_reader.FilePaths = ()
    connect: tuple[Text, ...] = ()
    env: tuple[Text, ...] = ()


class ServerSection(section_reader.Section, frozen=True):
    """Defaults of the options of `forum serve`, which has the default values."""

    host: str = ""
    port: Annotated[int, Meta(ge=0, le=65_535)] = 0
    allow_hosts: str | tuple[str, ...] = ()
    rate: float = 0
    max_body: Annotated[int, Meta(ge=1024)] = 1024
    open_loopback: bool = False
    require_keys: bool = False
    tls_cert: section_reader.FilePath = ""
    tls_key: Annotated[
        section_reader.SecretFile, Meta(title="the key of the server's certificate")
    ] = ""


class TenantQuota(section_reader.NamedSection, frozen=True):
    """What the operator lets a tenant have, from `[tenants.NAME]` of the operator's file."""

    runs_at_once: Quota | None = None
    """How many runs may be accepted and not have ended; None is no limit."""
    runs_per_minute: Quota | None = None
    """How many runs are accepted in a minute; None is no limit."""
    weight: Quota = 1
    """Its part of a worker that serves several tenants, beside the parts of the others."""


class NamedDatabaseSection(section_reader.NamedSection, frozen=True):
    """A further database, to which the logs of tenants can be moved."""

    url: str


PROJECT_SECTIONS: Final[section_reader.Sections] = {
    "ledger": LedgerSection,
    "database": DatabaseSection,
    "worker": WorkerSection,
    "keys": KeysSection,
    "witness": WitnessSection,
    "agents": AgentsSection,
    "tenants": TenantQuota,
    "databases": NamedDatabaseSection,
}
"""The sections whose values are members of `Settings`."""
SERVER_SECTIONS: Final[section_reader.Sections] = {"server": ServerSection}
