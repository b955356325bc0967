"""A server that is a program of ours: messages are lines, and pipes carry them.

The SDK has such a transport too.  This one differs where a server is not our friend: what it says
is bounded, it knows no variable that was not named, and its whole process group is gone when the
conversation ends, however that ends.  As with every program of ours (`forum.models.program`), the
leader of the group is not reaped before the group was killed.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from signal import SIGKILL
from subprocess import PIPE, Popen
from threading import Thread
from typing import IO

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

MAX_CONVERSATION_BYTES = 1 << 24
"""The most that a server may say in one conversation, with its logs and all."""
MAX_MESSAGES = 10_000
MAX_STDERR_BYTES = 1 << 16
"""How much is kept of what a program says on its standard error."""
EXIT_GRACE_S = 2.0
"""Seconds for a server to end by itself, once it has answered and its input is closed."""

_KILL_TIMEOUT_S = 0.5
_CHUNK_BYTES = 1 << 16

Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]


class ServerOutputTooLarge(Exception):
    """A server says more than anybody wants to hear."""


@dataclass(slots=True)
class ServerOutputMeter:
    """What a server said beside its messages, and how much it said in all."""

    size: int = 0
    messages: int = 0
    too_much: bool = False
    errors: bytearray = field(default_factory=bytearray)

    def count(self, size: int, messages: int = 0) -> None:
        """Count what was said.  Raises `ServerOutputTooLarge`."""
        self.size += size
        self.messages += messages
        if self.size > MAX_CONVERSATION_BYTES or self.messages > MAX_MESSAGES:
            self.too_much = True
            raise ServerOutputTooLarge


@asynccontextmanager
async def open_stdio(
    argv: tuple[str, ...], environment: Mapping[str, str], heard: ServerOutputMeter
) -> AsyncIterator[Streams]:
    """Start a server and give the streams of its messages; it is gone when this ends."""
    process = Popen(  # noqa: ASYNC220, S603  # what was configured, and no shell reads it
        argv,
        bufsize=0,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=environment,
        start_new_session=True,
    )
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    pipes = stdin, stdout, stderr = tuple(
        filter(None, (process.stdin, process.stdout, process.stderr))
    )
    tasks = [
        asyncio.create_task(_read_messages(stdout, incoming, heard)),
        asyncio.create_task(_read_stderr(stderr, heard)),
        speaking := asyncio.create_task(_write_messages(outgoing, stdin)),
    ]
    try:
        yield read, write
        speaking.cancel()
        await _wait_for_exit(process, EXIT_GRACE_S)
    finally:
        _kill_group(process)
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
            # One that cannot be killed hangs in the kernel, or has the rights of somebody else.
            if process.poll() is None:
                Thread(target=process.wait, daemon=True).start()


async def _read_messages(
    pipe: IO[bytes],
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    heard: ServerOutputMeter,
) -> None:
    """Hand on what are messages.  Other lines are no business of ours: some servers greet."""
    lines = asyncio.StreamReader(MAX_CONVERSATION_BYTES)
    with (
        incoming,
        suppress(ServerOutputTooLarge, anyio.BrokenResourceError, anyio.ClosedResourceError),
    ):
        async with _connect_reader(pipe, lines):
            while line := await _read_line(lines, heard):
                with suppress(ValueError):
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    await incoming.send(SessionMessage(message))


async def _read_line(lines: asyncio.StreamReader, heard: ServerOutputMeter) -> bytes:
    try:
        line = await lines.readline()
    except ValueError:
        heard.too_much = True  # this line alone is longer than all of them may be
        raise ServerOutputTooLarge from None
    heard.count(len(line), 1)
    return line


async def _read_stderr(pipe: IO[bytes], heard: ServerOutputMeter) -> None:
    """Keep the beginning of what goes to standard error, so that it never blocks there."""
    said = asyncio.StreamReader(_CHUNK_BYTES)
    async with _connect_reader(pipe, said):
        while piece := await said.read(_CHUNK_BYTES):
            heard.errors += piece[: MAX_STDERR_BYTES - len(heard.errors)]


async def _write_messages(
    outgoing: MemoryObjectReceiveStream[SessionMessage], pipe: IO[bytes]
) -> None:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, pipe)
    try:
        async for item in outgoing:
            if transport.is_closing():
                break
            # It never waits: what we say is bounded by what we are asked, which is bounded.
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
    """Wait for the end of a program, for so long; it is not reaped."""
    loop, exited = asyncio.get_running_loop(), asyncio.Event()
    handle = os.pidfd_open(process.pid)
    loop.add_reader(handle, exited.set)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await exited.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def _kill_group(process: Popen[bytes]) -> None:
    # Nobody is left in the group, or all of it has the rights of somebody else, like sudo.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, SIGKILL)
