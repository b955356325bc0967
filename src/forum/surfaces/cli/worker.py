"""`forum worker`: a process that carries out runs, beside all others that do."""

from urllib.parse import urlsplit, urlunsplit

import click

from forum.app import Forum
from forum.config import Capacity, Settings
from forum.surfaces.cli import options
from forum.surfaces.cli.announcing import announce_runs
from forum.surfaces.cli.logging_options import (
    log_format,
    log_line,
    log_trouble,
    log_warning,
    logging_to_stderr,
)
from forum.surfaces.cli.metrics_port import MetricsAddress, metrics_options, serving_metrics
from forum.surfaces.cli.output import print_json
from forum.surfaces.cli.stopping import stopping

PATIENCE_SECONDS = 10
_USUAL = Capacity()

at_once = click.option(
    "--tasks",
    default=_USUAL.tasks,
    show_default=True,
    type=click.IntRange(min=1),
    help="At most so many tasks at once, turns of panels included, those of all runs together.",
)


@click.command(
    cls=options.WithExamples,
    examples=("forum worker &", 'forum submit --detach "Summarise the news"', "forum runs"),
)
@click.option(
    "--runs",
    default=_USUAL.runs,
    show_default=True,
    type=click.IntRange(min=1),
    help="At most so many runs at once.",
)
@at_once
@metrics_options
@log_format
@options.confine
@options.as_json
def worker(
    runs: int, tasks: int, metricsaddress: MetricsAddress, log_format: str, *, as_json: bool
) -> None:
    """Carry out runs until stopped by SIGTERM or Ctrl-C; a second one ends it at once.

    Takes on what `forum submit --detach` left, and what another worker left that died.  Any number
    of workers may serve one ledger.  When stopped, it lets what is going on end, for 10 seconds;
    others, or the next one, take over the rest.  A run that was interrupted is only listed:
    `forum resume` has it carried out again.
    """
    with logging_to_stderr(log_format), Forum(options.settings(), log_warning) as forum:
        place = _place(forum.settings)
        with (
            stopping() as stop,
            forum.monitor.watching(),
            forum.working(Capacity(runs, tasks), log_trouble(forum), PATIENCE_SECONDS) as serving,
            serving_metrics(forum, metricsaddress),
        ):
            if as_json:
                facts = {"worker": serving.id, "origin": forum.origin, "database": place}
                print_json("forum.worker/1", facts)
            log_line(f"worker {serving.id} serves {forum.origin} ({place})")
            announce_runs(forum, serving.id, say=log_line)
            stop.wait()
            stop.end_at_next()
            log_line(f"stopping; work in hand gets {PATIENCE_SECONDS} s")


def _place(settings: Settings) -> str:
    """Say where the database is, without its password."""
    if not settings.database:
        return str(settings.ledger_file)
    url = urlsplit(settings.database)
    host = url.netloc.rpartition("@")[2]
    user = f"{url.username}@" if url.username else ""
    return urlunsplit((url.scheme, f"{user}{host}", url.path, "", ""))
