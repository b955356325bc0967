"""`forum worker`: a process that drives runs, alongside any number of others."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit, urlunsplit

import click

from forum.app import Forum
from forum.app.logs_worker import LogsWorker
from forum.app.planner import AgentRegistry
from forum.app.served_configuration import record_configuration
from forum.app.tenant_settings import check_separation, keep_separated
from forum.config import Settings, WorkerCapacity
from forum.feature import load_parts
from forum.features import FEATURES
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
from forum.surfaces.cli.stop_signals import StopSignal, catch_stop_signals
from forum.surfaces.cli.tenant_options import TenantOptions, tenant_options

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
@common_options.collect_options(
    "capacity",
    WorkerCapacity,
    click.option(
        "--runs",
        default=_DEFAULT_CAPACITY.runs,
        show_default=True,
        type=common_options.POSITIVE,
        help="Maximum number of runs at once.",
    ),
    tasks_option,
)
@tenant_options
@metrics_server.metrics_port_option
@metrics_server.metrics_host_option
@log_format
@common_options.confine
@common_options.as_json
def worker(
    capacity: WorkerCapacity,
    served: TenantOptions,
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

    With --tenant or --tenants one process serves many ledgers of one Postgres, and what it does at
    once is divided between those that have work.  It runs the programs of all of them as one
    user, so it starts only if they are confined ([agents] confine = true, or --confine) and if it
    can read no key that signs one of the logs.
    """
    if served.are_given:
        if metrics_port is not None:
            raise click.UsageError("--metrics-port tells of one ledger: start it without tenants")
        with log_to_stderr(log_format):
            _work_for_tenants(capacity, served, as_json=as_json)
        return
    with log_to_stderr(log_format), Forum(common_options.current_settings(), log_warning) as forum:
        place = _describe_database(forum.settings)
        agents = AgentRegistry(forum.settings)
        with (
            # The outermost block: a signal while the worker starts must not kill it halfway.
            catch_stop_signals() as stop,
            forum.monitor.run_in_background(),
            forum.runs.run_worker(capacity, make_trouble_logger(forum), STOP_TIMEOUT_S) as serving,
            metrics_server.serving_metrics(forum, metrics_host, metrics_port),
            _running_features(forum),
        ):
            if as_json:
                facts = {"worker": serving.id, "origin": forum.origin, "database": place}
                print_json("forum.worker/1", facts)
            record_configuration(forum, agents.team_settings, agents.roster)
            log_line(f"worker {serving.id} serves {forum.origin} ({place})")
            announce_runs(forum, serving.id, say=log_line)
            _wait_for_stop(stop)


@contextmanager
def _running_features(forum: Forum) -> Iterator[None]:
    """Run what features do beside a worker, until the end of the block."""
    with ExitStack() as stack:
        for run in load_parts(FEATURES, "worker"):
            stack.enter_context(run(forum))
        yield


def _work_for_tenants(capacity: WorkerCapacity, served: TenantOptions, *, as_json: bool) -> None:
    """Carry out the runs of many ledgers until a signal."""
    first = common_options.current_settings()
    configured: set[str] = set()

    def report(error: Exception) -> None:
        log_trouble(error)

    def record_once(forum: Forum) -> None:
        if forum.origin not in configured:
            agents = AgentRegistry(forum.settings)
            record_configuration(forum, agents.team_settings, agents.roster)
            configured.add(forum.origin)

    named, find = served.load_named(first), served.make_finder(first, report)
    # Those that cannot be loaded are reported below, when they are looked for again.
    for settings in (*named, *served.make_finder(first, lambda _: None)()):
        check_separation(settings)
    worker = LogsWorker(
        named,
        capacity,
        find=lambda: keep_separated(find(), report),
        report=report,
        warn=log_warning,
        on_open=record_once,
        patience=STOP_TIMEOUT_S,
    )
    forum = Forum(first, log_warning, connections=worker.connections)
    log_trouble = make_trouble_logger(forum)
    with (
        catch_stop_signals() as stop,
        worker,
        forum,
        forum.monitor.run_in_background(),
    ):
        place = _describe_database(first)
        if as_json:
            facts = {"worker": worker.id, "origin": forum.origin, "database": place}
            print_json("forum.worker/1", facts | {"origins": worker.origins})
        log_line(f"worker {worker.id} serves {len(worker.origins)} ledgers ({place})")
        _wait_for_stop(stop)


def _wait_for_stop(stop: StopSignal) -> None:
    stop.wait()
    # The operator may not want to wait for the work in hand: a second signal must end the process
    # at once.
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
