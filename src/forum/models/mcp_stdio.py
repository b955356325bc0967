"""Transport to an MCP server that is a local program: one JSON message per line, over pipes.

The SDK has such a transport too.  This one also defends against a hostile server: the size of its
output is limited, its environment has only the allowed variables, and its whole process group is
killed when the session ends, however it ends.  As for every program (`forum.models.program`), the
leader of the group is not reaped before the group was killed.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from signal import SIGKILL
from subprocess import Popen
from typing import IO

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from forum.models.mcp_sessions import (
    MAX_CONVERSATION_BYTES,
    ServerOutputMeter,
    ServerOutputTooLarge,
)
from forum.models.process_group import reap_in_background, signal_group, start_group
from forum.platform_calls import open_exit_handle

MAX_STDERR_BYTES = 1 << 16
"""Maximum size of standard error that is kept."""
EXIT_GRACE_S = 2.0
"""Seconds for a server to exit by itself after its input was closed."""

_KILL_TIMEOUT_S = 0.5
_CHUNK_BYTES = 1 << 16

Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]


@asynccontextmanager
async def open_stdio(
    argv: tuple[str, ...], environment: Mapping[str, str], meter: ServerOutputMeter
) -> AsyncIterator[Streams]:
    """Start a server and yield its message streams; stop it at the end of the block."""
    process = start_group(argv, environment)
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    pipes = stdin, stdout, stderr = tuple(
        filter(None, (process.stdin, process.stdout, process.stderr))
    )
    tasks = [
        asyncio.create_task(_read_messages(stdout, incoming, meter)),
        asyncio.create_task(_read_stderr(stderr, meter)),
        writer := asyncio.create_task(_write_messages(outgoing, stdin)),
    ]
    try:
        yield read, write
        writer.cancel()
        await _wait_for_exit(process, EXIT_GRACE_S)
    finally:
        signal_group(process, SIGKILL)
        for stream in (incoming, read, write, outgoing):
            stream.close()
        for task in tasks:
            task.cancel()
        try:
            await asyncio.wait(tasks)
            await _wait_for_exit(process, _KILL_TIMEOUT_S)
        finally:
            for pipe in pipes:
                pipe.close()
            if process.poll() is None:
                reap_in_background(process)


async def _read_messages(
    pipe: IO[bytes],
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    meter: ServerOutputMeter,
) -> None:
    """Forward messages; ignore other lines, because some servers print a greeting."""
    lines = asyncio.StreamReader(MAX_CONVERSATION_BYTES)
    try:
        with (
            incoming,
            suppress(ServerOutputTooLarge, anyio.BrokenResourceError, anyio.ClosedResourceError),
        ):
            async with _connect_reader(pipe, lines):
                while line := await _read_line(lines, meter):
                    with suppress(ValueError):
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                        await incoming.send(SessionMessage(message))
    finally:
        meter.has_ended = True


async def _read_line(lines: asyncio.StreamReader, meter: ServerOutputMeter) -> bytes:
    try:
        line = await lines.readline()
    except ValueError:
        meter.too_much = True  # this line alone exceeds the limit for a call
        raise ServerOutputTooLarge from None
    meter.count(len(line), 1)
    return line


async def _read_stderr(pipe: IO[bytes], meter: ServerOutputMeter) -> None:
    """Keep the first bytes of standard error, and read on so that the server never blocks on it."""
    stream = asyncio.StreamReader(_CHUNK_BYTES)
    async with _connect_reader(pipe, stream):
        while piece := await stream.read(_CHUNK_BYTES):
            meter.errors += piece[: MAX_STDERR_BYTES - len(meter.errors)]


async def _write_messages(
    outgoing: MemoryObjectReceiveStream[SessionMessage], pipe: IO[bytes]
) -> None:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, pipe)
    try:
        async for item in outgoing:
            if transport.is_closing():
                break
            # No flow control: our messages are limited in size by the arguments of one call.
            line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            transport.write(line.encode() + b"\n")
    finally:
        transport.abort()


@asynccontextmanager
async def _connect_reader(pipe: IO[bytes], reader: asyncio.StreamReader) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.connect_read_pipe(lambda: protocol, pipe)
    try:
        yield
    finally:
        transport.close()


async def _wait_for_exit(process: Popen[bytes], seconds: float) -> None:
    """Wait for a program to exit, up to a time limit, without reaping it."""
    loop, exited = asyncio.get_running_loop(), asyncio.Event()
    handle = open_exit_handle(process.pid)
    loop.add_reader(handle, exited.set)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await exited.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)
