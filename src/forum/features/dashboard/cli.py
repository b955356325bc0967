"""`forum up`: server, worker and local witness in one process."""

import sys
from contextlib import ExitStack
from functools import partial
from importlib import import_module

import click

from forum.app import Forum, bind_sockets
from forum.config import WorkerCapacity
from forum.errors import PortUnusable
from forum.features.dashboard import browser
from forum.installation import require_extra
from forum.runs.team_settings import TeamSettings
from forum.surfaces.cli import common_options, submit_options
from forum.surfaces.cli.logging_options import (
    LogFormat,
    log_format,
    log_line,
    log_to_stderr,
    log_warning,
    make_trouble_logger,
)
from forum.surfaces.cli.serve import (
    ServerCommand,
    check_open_loopback,
    load_extensions,
    open_loopback,
    port_option,
    require_keys,
)
from forum.surfaces.cli.startup_notice import announce_runs
from forum.surfaces.cli.worker import STOP_TIMEOUT_S, tasks_option

_HOST = "127.0.0.1"
OTLP_PORT = 4318
"""The port of OTLP over HTTP."""


@click.command(
    cls=ServerCommand,
    examples=(
        "forum up",
        "forum up --open",
        "forum up --port 9000",
        "forum up --otlp",
        "forum up --chat-url http://127.0.0.1:11434/v1 --model qwen3",
    ),
)
@port_option
@open_loopback
@require_keys
@tasks_option
@click.option(
    "--otlp",
    is_flag=True,
    help=f"Listen at port {OTLP_PORT} as well, where exporters of OpenTelemetry send by default.",
)
@click.option(
    "--open", "open_browser", is_flag=True, help="Open the dashboard in your browser, signed in."
)
@submit_options.agent_options
@log_format
@common_options.confine
def up(  # noqa: PLR0913  one for each option
    port: int,
    tasks: int,
    agents: submit_options.AgentOptions,
    log_format: str,
    *,
    open_loopback: bool,
    require_keys: bool,
    otlp: bool,
    open_browser: bool,
) -> None:
    """Serve the ledger of this project on this machine, and carry out its runs.

    Server, worker and the local witness in one process, until Ctrl-C: what `forum serve` and
    `forum worker` do apart.  The ledger is made where there is none; without a forum.toml it is
    that of the user.  Nobody elsewhere can reach it; for that, see `forum serve`.  Clients here
    show your token, which `forum token` prints, or a key.

    The agents are those of forum.toml, unless the options name others.

    Of [server] in forum.toml, `port` and `open_loopback` hold here too.
    """
    check_open_loopback(_HOST, open_loopback=open_loopback, require_keys=require_keys)
    settings = common_options.current_settings()
    team = submit_options.served_team_settings(settings, agents, here=True)
    if otlp:
        check_otlp_installed()
    port = choose_port(port) if open_browser else port
    with log_to_stderr(log_format), Forum(settings, log_warning) as forum:
        forum.keys.initialise()
        announce_runs(forum, say=log_line)
        serve_and_work(
            forum,
            port,
            capacity=WorkerCapacity(tasks=tasks),
            team=team,
            otlp=otlp,
            open_loopback=open_loopback,
            open_browser=open_browser,
            prints_sign_in=log_format == LogFormat.TEXT and common_options.is_terminal(sys.stderr),
        )


def choose_port(port: int) -> int:
    """Return a port that can be listened on: another one if nobody chose this one and it is taken.

    Raises `PortUnusable` at once for a port that somebody chose, before anything is prepared.
    """
    source = click.get_current_context().get_parameter_source("port")
    try:
        for listener in bind_sockets(_HOST, port):
            listener.close()
    except PortUnusable:
        if source is not click.core.ParameterSource.DEFAULT:
            raise
        return 0
    return port


def check_otlp_installed() -> None:
    """Refuse --otlp, before anything is opened, where its packages are not installed."""
    with require_extra("otel"):
        import_module("forum.features.telemetry.http")


def serve_and_work(  # noqa: PLR0913  what a command may choose
    forum: Forum,
    port: int,
    *,
    capacity: WorkerCapacity | None = None,
    team: TeamSettings | None = None,
    otlp: bool = False,
    open_loopback: bool = False,
    open_browser: bool,
    prints_sign_in: bool = False,
    sign_in_again: str = "Later, paste the output of: forum token",
) -> None:
    """Serve a ledger on this machine and carry out its runs, until a signal.

    `prints_sign_in` prints an address with a code on stderr, which must be a terminal then.
    """
    from forum.surfaces.http.auth import ServerConfig
    from forum.surfaces.http.server_process import ListenAddress, run_server
    from forum.surfaces.http.sign_in import CODE_TTL_S, OneTimeSignIn
    from forum.surfaces.http.tenant import Tenant

    forum.access.operator_token()
    work = partial(
        forum.runs.run_worker,
        capacity or WorkerCapacity(),
        make_trouble_logger(forum),
        STOP_TIMEOUT_S,
    )
    # The server holds `work` open, so the worker starts before the first request is served and
    # ends after the last one.
    config = ServerConfig([Tenant(forum, work, team=team)], open_loopback=open_loopback)
    at = ListenAddress(_HOST, port, more_ports=(OTLP_PORT,) if otlp else ())
    sign_in = OneTimeSignIn(forum.access.operator_token, forum.origin, forum.log.describe_policy)
    with ExitStack() as undo:

        def let_person_in(address: str) -> bool:
            if prints_sign_in:
                browser.print_sign_in(address, sign_in.issue_code(), sign_in_again)
            if open_browser and browser.can_open_browser():
                page = undo.enter_context(browser.private_page(CODE_TTL_S))
                browser.open_in_browser(
                    page, f"{address}#/sign-in/{sign_in.issue_code()}", log_line
                )
            return prints_sign_in

        run_server(
            config, at, log_line, [*load_extensions(config), sign_in], on_start=let_person_in
        )
