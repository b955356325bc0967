"""The sections of `forum.toml`: each is declared once, by a struct, in the part that it belongs to.

`SECTIONS` is collected from these parts.  The known sections and settings, the environment
variables of `[server]`, and which settings name files follow from it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from forum import section_reader
from forum.ledger.kinds import Scope
from forum.runs.report_closing import ReportPatience
from forum.runs.team_settings import TEAM_SECTIONS, WrittenPrice

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


DEFAULT_MAX_REPEATS: Final = 100
DEFAULT_QUIET_SECONDS: Final = 600


class GatewaySection(section_reader.Section, frozen=True):
    """Addresses, keys, prices and limits of the gateway to model providers."""

    openai_url: str = ""
    anthropic_url: str = ""
    openai_key_env: section_reader.SecretVariable = ""
    openai_key_file: Annotated[
        section_reader.SecretFile, Meta(title="the key of the gateway for openai")
    ] = ""
    anthropic_key_env: section_reader.SecretVariable = ""
    anthropic_key_file: Annotated[
        section_reader.SecretFile, Meta(title="the key of the gateway for anthropic")
    ] = ""
    free_loopback: bool = False
    prices: dict[str, WrittenPrice] = msgspec.field(default_factory=dict)
    usd: section_reader.Dollars | None = None
    tokens: section_reader.WrittenAmount | None = None
    calls: section_reader.WrittenAmount | None = None
    allow: tuple[str, ...] = ()
    untouched: bool = False
    max_repeats: section_reader.WrittenAmount = section_reader.WrittenAmount(DEFAULT_MAX_REPEATS)
    quiet_seconds: section_reader.WrittenAmount = section_reader.WrittenAmount(
        DEFAULT_QUIET_SECONDS
    )


def _default_scope_map() -> Mapping[str, frozenset[Scope]]:
    """Return the mapping for an issuer that uses the names of our scopes."""
    return {scope.value: frozenset({scope}) for scope in Scope}


class Issuer(section_reader.Section, frozen=True):
    """An accepted issuer, and how its claims map to our scopes."""

    # Mixed from two files, it could accept the tokens of one issuer by the rules that were written
    # for another.
    is_merged = False

    url: str = msgspec.field(name="issuer")
    audience: Text
    """The audience that stands for this server; tokens for another audience are refused."""
    jwks_url: str = ""
    """Where its keys are; if empty, the discovery document tells."""
    scopes_claim: Text = "scope"
    scopes: Mapping[str, frozenset[Scope]] = msgspec.field(default_factory=_default_scope_map)
    """The scopes that each value of the claim grants; unknown values grant none."""
    ledger_claim: str = ""
    """The claim that names the ledger; if set, every token must have it."""


class WebhookEvent(StrEnum):
    """What somebody can be told of."""

    RUN_ENDED = "run.ended"
    GATE_OPENED = "gate.opened"


RETRY_DELAYS_S: Final = (5, 300, 1800, 7200, 18_000, 36_000)
"""Delays after failed attempts; after the last one the delivery fails."""
_Seconds = Annotated[int, Meta(ge=1, le=7 * 86_400)]


class WebhookSection(section_reader.NamedSection, frozen=True):
    """A receiver of messages."""

    url: str
    secret_env: section_reader.SecretVariable = ""
    secret_file: Annotated[
        section_reader.SecretFile, Meta(title="the secret of the webhook {}")
    ] = ""
    events: Annotated[frozenset[WebhookEvent], Meta(min_length=1)] = frozenset(WebhookEvent)
    retry_seconds: Annotated[tuple[_Seconds, ...], Meta(max_length=20)] = RETRY_DELAYS_S
    timeout_seconds: Annotated[int, Meta(ge=1, le=60)] = 15


class TelemetrySection(section_reader.Section, frozen=True):
    """What telemetry takes in, and where runs are sent."""

    endpoint: str = ""
    """Where runs are sent as traces: the address before `/v1/traces`."""
    headers_env: section_reader.SecretVariable = ""
    """The variable that holds headers for the endpoint, like `Authorization=Bearer abc`."""
    content: bool = False
    """Whether prompts, replies, arguments and results are sent as well."""
    trace_forum: bool = False
    """Whether spans of Forum itself are sent: requests, runs, tasks and uses of the database."""
    all_spans: bool = False
    """Whether spans without a meaning for agents are recorded."""
    quiet_seconds: _Seconds = 30
    idle_seconds: _Seconds = 600

    @property
    def patience(self) -> ReportPatience:
        """How long a reported run stays open when nothing comes."""
        return ReportPatience(self.quiet_seconds, self.idle_seconds)


SERVER_SECTIONS: Final[section_reader.Sections] = {
    "server": ServerSection,
    "gateway": GatewaySection,
    "oidc": Issuer,
    "webhooks": WebhookSection,
    "otel": TelemetrySection,
}

SECTIONS: Final = section_reader.collect_sections(PROJECT_SECTIONS, TEAM_SECTIONS, SERVER_SECTIONS)
