"""`forum up`: everything that a laptop needs in one process."""

from functools import partial

import click

from forum.config import Capacity
from forum.errors import extra
from forum.surfaces.cli import options
from forum.surfaces.cli.server import Configured, annexes
from forum.surfaces.cli.worker import PATIENCE_SECONDS, at_once, trouble_lines


@click.command(cls=Configured, examples=("forum up", "forum up --port 9000"))
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65535))
@click.option("--require-keys", is_flag=True, help="Let nobody in without a key, not even here.")
@at_once
def up(port: int, tasks: int, *, require_keys: bool) -> None:
    """Serve the ledger of this project on this machine, and carry out its runs.

    Server, worker and the local witness in one process, until Ctrl-C: what `forum serve` and
    `forum worker` do apart.  The ledger is made where there is none; without a forum.toml it is
    that of the user.  Nobody elsewhere can reach it; for that, see `forum serve`.

    Of [server] in forum.toml, `port` and `require_keys` hold here too.
    """
    with extra("server"):
        from forum.surfaces.http.desk import Desk
        from forum.surfaces.http.door import House
        from forum.surfaces.http.process import Listening, run_server

    with options.forum() as forum:
        forum.initialise()
        work = partial(forum.working, Capacity(tasks=tasks), trouble_lines(), PATIENCE_SECONDS)
        house = House([Desk(forum, work)], keyless=not require_keys)
        run_server(house, Listening("127.0.0.1", port), options.talk, annexes(house))
