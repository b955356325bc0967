"""`forum mcp`: serve the ledger to agents and editors over the Model Context Protocol."""

import asyncio
import signal
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any

import click

from forum.app import Forum
from forum.app.planner import AgentRegistry
from forum.app.served_configuration import record_configuration
from forum.config import WorkerCapacity
from forum.installation import require_extra
from forum.ledger.kinds import Scope
from forum.surfaces.cli import common_options, submit_options
from forum.surfaces.cli.logging_options import make_trouble_printer
from forum.surfaces.cli.startup_notice import announce_runs
from forum.surfaces.cli.worker import STOP_TIMEOUT_S
from forum.surfaces.mcp.pipes import StdioPipes, claim_stdio

if TYPE_CHECKING:
    from mcp.server import Server

_MAX_RUNS, _MAX_TASKS = 50, 16
"""Capacity of the worker in this process."""


@click.group(cls=common_options.FullHelpGroup, invoke_without_command=True)
@click.option(
    "--work/--no-work",
    default=True,
    show_default=True,
    help="Carry out runs in this process, or leave them to a `forum worker`.",
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice([str(scope) for scope in Scope]),
    default=("submit", "read", "audit"),
    show_default=True,
    help="What the client may do; `approve` lets it decide at gates.",
)
@submit_options.agent_options
@common_options.confine
@click.pass_context
def mcp(
    ctx: click.Context,
    scopes: tuple[str, ...],
    *,
    agents: submit_options.AgentOptions,
    work: bool,
) -> None:
    """Serve this folder's ledger to one MCP client, over standard input and output.

    An editor or agent starts it; what to put into its settings is in the guide "Use Forum from an
    editor".  It ends when the client does.  Runs stay then: `forum resume`, a `forum worker` or the
    next `forum mcp` goes on with them.  Over HTTP, `forum serve` speaks the same at /mcp.

    The agents are those of forum.toml, unless the options name others.
    """
    if ctx.invoked_subcommand is not None:
        return
    with require_extra("mcp"):
        from forum.surfaces.mcp.callers import LocalCaller
        from forum.surfaces.mcp.server import make_server

    # Before anything can print: other output on stdout would corrupt the protocol.
    wires = claim_stdio()
    with common_options.open_forum() as forum:
        team = submit_options.served_team_settings(forum.settings, agents, here=work)
        forum.keys.initialise()
        opened = frozenset(map(Scope, scopes))
        server = make_server(lambda _: caller)
        registry = AgentRegistry(forum.settings, team)
        caller = LocalCaller(forum, registry, opened)
        if work:
            announce_runs(forum)
        # Without a worker the tools still write, for example to submit runs.
        with _work_on_runs(forum) if work else forum.log.open_writer():
            record_configuration(forum, registry.team_settings, registry.roster)
            common_options.echo_info(f"serving {forum.origin} over standard input and output")
            asyncio.run(_serve(server, wires))


def _work_on_runs(forum: Forum) -> AbstractContextManager[object]:
    return forum.runs.run_worker(
        WorkerCapacity(_MAX_RUNS, _MAX_TASKS), make_trouble_printer(), STOP_TIMEOUT_S
    )


async def _serve(server: "Server[Any]", wires: StdioPipes) -> None:
    """Serve until the client disconnects, or until SIGTERM or Ctrl-C."""
    from forum.surfaces.mcp.stdio import serve_stdio

    loop, serving = asyncio.get_running_loop(), asyncio.create_task(serve_stdio(server, wires))
    for number in (signal.SIGTERM, signal.SIGINT):
        # Cancelled, not killed: the worker and the ledger are then closed in order.
        loop.add_signal_handler(number, serving.cancel)
    with suppress(asyncio.CancelledError):
        await serving
