"""`forum serve`: serve the ledger over HTTP to platforms, chat clients and auditors."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from forum.app import Forum
from forum.app.logs_worker import open_together
from forum.config import Settings
from forum.errors import MissingExtra
from forum.feature import load_part
from forum.features import FEATURES
from forum.installation import require_extra
from forum.runs.team_settings import TeamSettings
from forum.section_reader import SectionTables
from forum.sections import ServerSection
from forum.surfaces.cli import common_options, submit_options
from forum.surfaces.cli.common_options import FILE, PORT
from forum.surfaces.cli.logging_options import log_format, log_line, log_to_stderr
from forum.surfaces.cli.tenant_options import TenantOptions, tenant_options

if TYPE_CHECKING:
    from forum.surfaces.http.auth import ServerConfig, TokenVerifier
    from forum.surfaces.http.extensions import ServerExtension

_LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")
_WILDCARD_HOSTS = ("0.0.0.0", "::")  # noqa: S104  compared with, not listened at


class ServerCommand(common_options.ExampleCommand):
    """A command whose options take their defaults from the section `[server]`."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401  as click has it
    ) -> click.Context:
        """Read the defaults from the settings of the current directory."""
        sections = common_options.current_settings().sections
        defaults = dict(sections.raw("server"))
        # The values of variables are texts, which click converts.
        written = {n: v for n, v in defaults.items() if not _is_variable(sections, n)}
        msgspec.structs.replace(sections, tables={"server": written}).read(
            "server", ServerSection, strict=False
        )
        hosts = defaults.pop("allow_hosts", None)
        if hosts is not None:
            defaults["allow_host"] = hosts.split() if isinstance(hosts, str) else hosts
        # Options on the command line take precedence over a default map.
        return super().make_context(info_name, args, parent, default_map=defaults, **extra)


def _is_variable(sections: SectionTables, name: str) -> bool:
    return sections.origins.get(f"server.{name}", "").startswith("FORUM_SERVER_")


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """Rules for clients of the server."""

    allow_host: tuple[str, ...]
    open_loopback: bool
    require_keys: bool
    rate: float
    max_body: int


@dataclass(frozen=True, slots=True)
class BindAddress:
    """The address to listen on, and its TLS files."""

    host: str
    port: int
    tls_cert: Path | None
    tls_key: Path | None


open_loopback = click.option(
    "--open-loopback",
    is_flag=True,
    help="For demos: whoever reaches the loopback address may submit and read, without a key.",
)
require_keys = click.option("--require-keys", is_flag=True, hidden=True)
"""An option of release 0.1, which is now always in effect."""
port_option = click.option(
    "--port", default=8080, show_default=True, type=PORT, help="The port to listen on."
)


def check_open_loopback(host: str, *, open_loopback: bool, require_keys: bool) -> None:
    """Raise `click.UsageError` if --open-loopback admits remote clients or contradicts keys."""
    if open_loopback and require_keys:
        raise click.UsageError("--open-loopback and --require-keys contradict each other")
    if open_loopback and host not in _LOOPBACK_HOSTS:
        raise click.UsageError(
            f"--open-loopback is for a loopback address, and --host is {host}; "
            "make keys instead: forum keys create"
        )


@click.command(
    cls=ServerCommand,
    examples=(
        "forum serve",
        "forum serve --port 8080",
        "forum serve --chat-url http://127.0.0.1:11434/v1 --model qwen3",
        "forum serve --host 0.0.0.0 --allow-host forum.example.com",
        "forum serve --only gateway --port 8090",
    ),
)
@common_options.collect_options(
    "place",
    BindAddress,
    click.option(
        "--host", default="127.0.0.1", show_default=True, help="The address to listen at."
    ),
    port_option,
    click.option("--tls-cert", type=FILE, help="The certificate, if no proxy ends TLS."),
    click.option("--tls-key", type=FILE, help="The key of the certificate."),
)
@common_options.collect_options(
    "rules",
    AccessOptions,
    click.option(
        "--allow-host",
        multiple=True,
        metavar="NAME",
        help="A name by which clients know this server.",
    ),
    open_loopback,
    require_keys,
    click.option(
        "--rate",
        default=200.0,
        show_default=True,
        type=click.FloatRange(min=0, min_open=True),
        help="Requests a second, for each key and process.",
    ),
    click.option(
        "--max-body",
        default=4 << 20,
        show_default=True,
        type=click.IntRange(min=1024),
        metavar="BYTES",
        help="The largest body of a request, except of model calls.",
    ),
)
@click.option(
    "--only",
    type=click.Choice([feature.name for feature in FEATURES if feature.serves_alone]),
    help="Serve only this feature, with health and metrics.",
)
@tenant_options
@submit_options.agent_options
@log_format
def serve(
    place: BindAddress,
    rules: AccessOptions,
    only: str | None,
    served: TenantOptions,
    agents: submit_options.AgentOptions,
    log_format: str,
) -> None:
    """Serve the ledger over HTTP until stopped by SIGTERM or Ctrl-C.

    Clients need a key (`forum keys create`), or a token of the issuer in [oidc], wherever they
    are; the operator uses `forum token`.  Runs are carried out by `forum worker`; any number of
    servers and workers may share one Postgres.  When stopped, it lets requests end, for 10 seconds.

    The agents are those of forum.toml, unless the options name others for this project.  They are
    recorded with each run, so a worker needs no such options, but the variable of --key-env.

    Defaults come from [server] in forum.toml, or from variables like FORUM_SERVER_PORT.
    """
    from forum.surfaces.http.server_process import ListenAddress, run_server

    if bool(place.tls_cert) != bool(place.tls_key):
        raise click.UsageError("--tls-cert and --tls-key: one does not work without the other")
    check_open_loopback(
        place.host, open_loopback=rules.open_loopback, require_keys=rules.require_keys
    )
    first = common_options.current_settings()
    settings = [*served.load_named(first), *served.make_finder(first)()]
    team = submit_options.served_team_settings(settings[0], agents, here=False)
    # No key is created here: one that was not mounted must not be replaced by a new one.
    with open_together(settings) as forums:
        config = _make_server_config(forums, place, rules, team, only=only or "")
        if place.host not in _LOOPBACK_HOSTS and not (
            config.bearer or any(f.access.read_access().granted for f in forums)
        ):
            raise click.UsageError(
                f"--host {place.host}: nobody elsewhere could be let in; "
                "make a key first: forum keys create"
            )
        at = ListenAddress(place.host, place.port, place.tls_cert, place.tls_key)
        with log_to_stderr(log_format):
            run_server(config, at, log_line, load_extensions(config))


def load_extensions(config: "ServerConfig") -> "tuple[ServerExtension, ...]":
    """Return the extensions beside the API: those of features, and MCP if it is installed."""
    from forum.surfaces.http import extensions

    loaded = extensions.load_extensions(config)
    if not config.only:
        with suppress(MissingExtra), require_extra("mcp"):
            from forum.surfaces.cli.mcp_over_http import McpExtension

            loaded.append(McpExtension(config.most_bytes))
    return tuple(loaded)


def _make_token_verifier(settings: Settings) -> "TokenVerifier | None":
    """Return the verifier for tokens of the first project's issuer, or None."""
    for feature in FEATURES:
        if feature.verifier and settings.sections.tables.keys() & dict(feature.sections).keys():
            verifier: TokenVerifier = load_part(feature.verifier)(settings)
            return verifier
    return None


def _make_server_config(
    forums: list[Forum], place: BindAddress, rules: AccessOptions, team: TeamSettings, only: str
) -> "ServerConfig":
    """Return the configuration of the server; `team` is of the first project."""
    from forum.surfaces.http.auth import LOOPBACK_HOSTS, ServerConfig
    from forum.surfaces.http.tenant import Tenant

    # Requests for other hosts are rejected (DNS rebinding). A wildcard address is not a host that a
    # client could name.
    own = frozenset({place.host}) - {*_WILDCARD_HOSTS}
    config = ServerConfig(
        [Tenant(forums[0], team=team), *(Tenant(forum) for forum in forums[1:])],
        LOOPBACK_HOSTS | own | {name.lower() for name in rules.allow_host},
        open_loopback=rules.open_loopback,
        bearer=_make_token_verifier(forums[0].settings),
        rate=rules.rate,
        most_bytes=rules.max_body,
        only=only,
    )
    if len(config.tenants_by_name) < len(forums):
        raise click.UsageError("--tenant: two of these folders have the same ledger")
    return config
