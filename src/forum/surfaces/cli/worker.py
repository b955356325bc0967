"""`forum worker`: a process that drives runs, alongside any number of others."""

from urllib.parse import urlsplit, urlunsplit

import click

from forum.app import Forum
from forum.config import Settings, WorkerCapacity
from forum.planning import AgentRegistry
from forum.surfaces.cli import common_options, metrics_server
from forum.surfaces.cli.logging_options import (
    log_format,
    log_line,
    log_to_stderr,
    log_warning,
    make_trouble_logger,
)
from forum.surfaces.cli.output import print_json
from forum.surfaces.cli.startup_notice import announce_runs
from forum.surfaces.cli.stop_signals import catch_stop_signals

STOP_TIMEOUT_S = 10
_DEFAULT_CAPACITY = WorkerCapacity()

tasks_option = click.option(
    "--tasks",
    default=_DEFAULT_CAPACITY.tasks,
    show_default=True,
    type=common_options.POSITIVE,
    help="Maximum number of tasks at once, in all runs together; a turn of a panel is a task.",
)


@common_options.command(
    examples=("forum worker &", 'forum submit --detach "Summarise the news"', "forum runs"),
)
@click.option(
    "--runs",
    default=_DEFAULT_CAPACITY.runs,
    show_default=True,
    type=common_options.POSITIVE,
    help="Maximum number of runs at once.",
)
@tasks_option
@metrics_server.metrics_port_option
@metrics_server.metrics_host_option
@log_format
@common_options.confine
@common_options.as_json
def worker(
    runs: int,
    tasks: int,
    metrics_host: str,
    metrics_port: int | None,
    log_format: str,
    *,
    as_json: bool,
) -> None:
    """Carry out runs until stopped by SIGTERM or Ctrl-C; a second one ends it at once.

    Takes on what `forum submit --detach` left, and what another worker left that died.  Any number
    of workers may serve one ledger.  When stopped, it lets what is going on end, for 10 seconds;
    others, or the next one, take over the rest.  A run that was interrupted is only listed:
    `forum resume` has it carried out again.
    """
    with log_to_stderr(log_format), Forum(common_options.current_settings(), log_warning) as forum:
        place = _describe_database(forum.settings)
        agents = AgentRegistry(forum.settings)
        with (
            # The outermost block: a signal while the worker starts must not kill it halfway.
            catch_stop_signals() as stop,
            forum.monitor.run_in_background(),
            forum.runs.run_worker(
                WorkerCapacity(runs, tasks), make_trouble_logger(forum), STOP_TIMEOUT_S
            ) as serving,
            metrics_server.serving_metrics(forum, metrics_host, metrics_port),
        ):
            if as_json:
                facts = {"worker": serving.id, "origin": forum.origin, "database": place}
                print_json("forum.worker/1", facts)
            forum.oversight.record_configuration(agents.team_settings, agents.roster)
            log_line(f"worker {serving.id} serves {forum.origin} ({place})")
            announce_runs(forum, serving.id, say=log_line)
            stop.wait()
            # The operator may not want to wait for the work in hand: a second signal must end the
            # process at once.
            stop.restore_default_handlers()
            log_line(f"stopping; work in hand gets {STOP_TIMEOUT_S} s")


def _describe_database(settings: Settings) -> str:
    """Return the address of the database without its password."""
    if not settings.database:
        return str(settings.ledger_file)
    url = urlsplit(settings.database)
    host = url.netloc.rpartition("@")[2]
    user = f"{url.username}@" if url.username else ""
    return urlunsplit((url.scheme, f"{user}{host}", url.path, "", ""))
