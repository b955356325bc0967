"""`forum up`: server, worker and local witness in one process."""

from functools import partial

import click

from forum.app import Forum
from forum.config import WorkerCapacity
from forum.errors import require_extra
from forum.surfaces.cli import common_options
from forum.surfaces.cli.logging_options import (
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


@click.command(cls=ServerCommand, examples=("forum up", "forum up --port 9000"))
@port_option
@open_loopback
@require_keys
@tasks_option
@log_format
@common_options.confine
def up(port: int, tasks: int, log_format: str, *, open_loopback: bool, require_keys: bool) -> None:
    """Serve the ledger of this project on this machine, and carry out its runs.

    Server, worker and the local witness in one process, until Ctrl-C: what `forum serve` and
    `forum worker` do apart.  The ledger is made where there is none; without a forum.toml it is
    that of the user.  Nobody elsewhere can reach it; for that, see `forum serve`.  Clients here
    show your token, which `forum token` prints, or a key.

    Of [server] in forum.toml, `port` and `open_loopback` hold here too.
    """
    with require_extra("server"):
        from forum.surfaces.http.auth import ServerConfig
        from forum.surfaces.http.server_process import ListenAddress, run_server
        from forum.surfaces.http.tenant import Tenant

    check_open_loopback("127.0.0.1", open_loopback=open_loopback, require_keys=require_keys)
    with log_to_stderr(log_format), Forum(common_options.current_settings(), log_warning) as forum:
        forum.keys.initialise()
        forum.access.operator_token()
        announce_runs(forum, say=log_line)
        work = partial(
            forum.runs.run_worker,
            WorkerCapacity(tasks=tasks),
            make_trouble_logger(forum),
            STOP_TIMEOUT_S,
        )
        # The server holds `work` open, so the worker starts before the first request is served and
        # ends after the last one.
        config = ServerConfig([Tenant(forum, work)], open_loopback=open_loopback)
        run_server(config, ListenAddress("127.0.0.1", port), log_line, load_extensions(config))
