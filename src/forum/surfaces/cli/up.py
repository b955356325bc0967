"""`forum up`: everything that a laptop needs in one process."""

from functools import partial

import click

from forum.app import Forum
from forum.config import Capacity
from forum.errors import extra
from forum.surfaces.cli import options
from forum.surfaces.cli.announcing import announce_runs
from forum.surfaces.cli.logging_options import (
    log_format,
    log_line,
    log_trouble,
    log_warning,
    logging_to_stderr,
)
from forum.surfaces.cli.server import (
    Configured,
    annexes,
    check_open,
    open_loopback,
    require_keys,
)
from forum.surfaces.cli.worker import PATIENCE_SECONDS, at_once


@click.command(cls=Configured, examples=("forum up", "forum up --port 9000"))
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65535))
@open_loopback
@require_keys
@at_once
@log_format
@options.confine
def up(port: int, tasks: int, log_format: str, *, open_loopback: bool, require_keys: bool) -> None:
    """Serve the ledger of this project on this machine, and carry out its runs.

    Server, worker and the local witness in one process, until Ctrl-C: what `forum serve` and
    `forum worker` do apart.  The ledger is made where there is none; without a forum.toml it is
    that of the user.  Nobody elsewhere can reach it; for that, see `forum serve`.  Clients here
    show your token, which `forum token` prints, or a key.

    Of [server] in forum.toml, `port` and `open_loopback` hold here too.
    """
    with extra("server"):
        from forum.surfaces.http.desk import Desk
        from forum.surfaces.http.door import House
        from forum.surfaces.http.process import Listening, run_server

    check_open("127.0.0.1", open_loopback=open_loopback, require_keys=require_keys)
    with logging_to_stderr(log_format), Forum(options.settings(), log_warning) as forum:
        forum.initialise()
        forum.operator_token()
        announce_runs(forum, say=log_line)
        work = partial(forum.working, Capacity(tasks=tasks), log_trouble(forum), PATIENCE_SECONDS)
        house = House([Desk(forum, work)], open_loopback=open_loopback)
        run_server(house, Listening("127.0.0.1", port), log_line, annexes(house))
