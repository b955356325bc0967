"""`forum mcp gateway`: relay an MCP server, and record every call of its tools."""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

from forum.app import Forum
from forum.errors import NoSuchRun, RunAlreadyEnded
from forum.features.gateway.mcp_relay import McpGateway, ToolRules
from forum.features.gateway.tool_pin import open_tool_pin
from forum.runs.report_kinds import ReportProvenance, ReportSourceFacts
from forum.surfaces.cli import common_options
from forum.surfaces.mcp.pipes import StdioPipes, claim_stdio

_MAX_LINE_BYTES = 64 << 20
"""Maximum size of a message in bytes."""
_EXIT_GRACE_S = 5.0
"""Seconds for the server to end by itself after the client has left."""
RUN_VARIABLE = "FORUM_RUN"


@common_options.command(
    "gateway",
    examples=(
        "forum mcp gateway -- python server.py",
        "forum mcp gateway --gate 'delete_*' --deny shell -- npx some-mcp-server",
        "forum mcp gateway --only 'read_*' --env GITHUB_TOKEN -- npx some-mcp-server",
    ),
)
@click.option(
    "--gate",
    "gated",
    multiple=True,
    metavar="TOOL",
    help="Calls of this tool wait for approval; may be repeated, and be a pattern (delete_*).",
)
@click.option(
    "--deny",
    "denied",
    multiple=True,
    metavar="TOOL",
    help="Calls of this tool are refused; may be repeated, and be a pattern.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="TOOL",
    help="Calls of all other tools are refused; may be repeated, and be a pattern.",
)
@click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="NAME",
    help="Give the server this environment variable; may be repeated.  Otherwise it gets PATH, "
    "HOME and LANG only.",
)
@click.option(
    "--pin",
    default="",
    metavar="DIGEST",
    help="The digest that the server's list of tools must have.  Default: that of its first use.",
)
@click.option(
    "--run",
    metavar="RUN",
    help=f"Record in this open run.  Default: the one in {RUN_VARIABLE} if it is open, else a new "
    "one.",
)
@click.argument("server", nargs=-1, required=True, type=click.UNPROCESSED)
def gateway(  # noqa: PLR0913  one for each option
    *,
    gated: tuple[str, ...],
    denied: tuple[str, ...],
    only: tuple[str, ...],
    variables: tuple[str, ...],
    pin: str,
    run: str | None,
    server: tuple[str, ...],
) -> None:
    """Relay the MCP server that the command SERVER starts, and record each call of its tools.

    The call is on record before the server gets it, and its result before the client does.  All
    other messages pass with the same content.  Only tools that the server lists are called, and
    the gateway stops if their list or descriptions are not those of the first use.  The run is
    `relayed`: calls that go another way are not in it.
    """
    # Before anything can print: other output on stdout would corrupt the protocol.
    wires = claim_stdio()
    rules = ToolRules(denied, gated, only)
    with common_options.open_forum() as forum:
        forum.keys.initialise()
        with forum.log.open_writer():
            program = _ServerProgram(server, variables, pin)
            asyncio.run(_serve(forum, rules, _choose_run(forum, run), program, wires=wires))


@dataclass(frozen=True, slots=True)
class _ServerProgram:
    """The server behind the gateway."""

    command: tuple[str, ...]
    variables: tuple[str, ...]
    pin: str

    @property
    def name(self) -> str:
        return Path(self.command[0]).name


def _choose_run(forum: Forum, named: str | None) -> str | None:
    """Return the run to record in, or None for a new one."""
    if named is not None:
        return forum.reads.find_run(named)
    given = os.environ.get(RUN_VARIABLE, "")
    with suppress(NoSuchRun, RunAlreadyEnded):
        state = forum.reads.read_run(given) if given else None
        if state is not None and state.is_reported and state.outcome is None:
            return given
    return None


async def _serve(
    forum: Forum, rules: ToolRules, run: str | None, server: _ServerProgram, wires: StdioPipes
) -> None:
    name = server.name
    source = ReportSourceFacts(
        ReportProvenance.RELAYED, by=f"process:{os.getpid()}", framework="mcp"
    )
    try:
        # No shell, and a session of its own: Ctrl-C reaches the gateway first.
        process = await asyncio.create_subprocess_exec(
            *server.command,
            stdin=PIPE,
            stdout=PIPE,
            limit=_MAX_LINE_BYTES,
            start_new_session=True,
            env=forum.reports.server_environment(server.variables),
        )
    except OSError as error:
        why = f"{server.command[0]} cannot be started: {error.strerror}."
        raise click.ClickException(f"{why} Check the command after `--`.") from None
    try:
        with forum.reports.open_session(f"mcp {name}", source, run) as session:
            common_options.echo_info(f"recording the tools of {name} in run {session.run}")
            pin = open_tool_pin(forum.state, server.command, name, server.pin)
            mcp = McpGateway(
                session, rules, server_name=name, pin=pin, notify=common_options.echo_info
            )
            if await _relay(mcp, process, wires):
                status = await _stop(process, ends_itself=True)
                if status:
                    # Within the session, so that its run is closed as failed.
                    why = f"{name} ended with status {status} while its client was connected"
                    raise click.ClickException(f"{why}. Its messages are above.")
    finally:
        await _stop(process)


async def _relay(mcp: McpGateway, process: Process, wires: StdioPipes) -> bool:
    """Relay until the server ends, or until SIGTERM or Ctrl-C.

    Return whether the server ended although its client had not left.
    """
    loop = asyncio.get_running_loop()
    client, to_client = await _connect(loop, wires)
    assert process.stdin is not None  # noqa: S101  both are pipes
    assert process.stdout is not None  # noqa: S101
    server_input, has_left = process.stdin, False

    async def write_server(line: bytes) -> None:
        nonlocal has_left
        has_left |= not line
        with suppress(ConnectionError):
            if line:
                server_input.write(line)
                await server_input.drain()
            else:
                server_input.close()  # the client has left, and the server may end
                loop.call_later(_EXIT_GRACE_S, _terminate, process)

    async def write_client(line: bytes) -> None:
        with suppress(ConnectionError):
            to_client.write(line)
            await to_client.drain()

    relaying = asyncio.create_task(mcp.relay(client, process.stdout, write_server, write_client))
    for number in (signal.SIGTERM, signal.SIGINT):
        # Cancelled, not killed: open calls and the end of the run are then recorded.
        loop.add_signal_handler(number, relaying.cancel)
    with suppress(asyncio.CancelledError):
        await relaying
        return not has_left
    return False


async def _connect(
    loop: asyncio.AbstractEventLoop, wires: StdioPipes
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return the streams of the client's pipes."""
    reader = asyncio.StreamReader(_MAX_LINE_BYTES)
    protocol = asyncio.StreamReaderProtocol(reader)
    await loop.connect_read_pipe(lambda: protocol, os.fdopen(wires.heard, "rb", 0))
    transport, flow = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(wires.said, "wb", 0)
    )
    return reader, asyncio.StreamWriter(transport, flow, None, loop)


def _terminate(process: Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)


async def _stop(process: Process, *, ends_itself: bool = False) -> int:
    """End the server with its process group, and return its status."""
    if process.returncode is None:
        if not ends_itself:
            _terminate(process)
        try:
            async with asyncio.timeout(_EXIT_GRACE_S):
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return await process.wait()
