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

MOST_HEARD = 1 << 24
"""The most that a server may say in one conversation, with its logs and all."""
MOST_MESSAGES = 10_000
MOST_ERRORS = 1 << 16
"""How much is kept of what a program says on its standard error."""
FAREWELL = 2.0
"""Seconds for a server to end by itself, once it has answered and its input is closed."""

_KILL_SECONDS = 0.5
_PIECE = 1 << 16

Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]


class TooMuch(Exception):
    """A server says more than anybody wants to hear."""


@dataclass(slots=True)
class Heard:
    """What a server said beside its messages, and how much it said in all."""

    size: int = 0
    messages: int = 0
    too_much: bool = False
    errors: bytearray = field(default_factory=bytearray)

    def add(self, size: int, messages: int = 0) -> None:
        """Count what was said.  Raises `TooMuch`."""
        self.size += size
        self.messages += messages
        if self.size > MOST_HEARD or self.messages > MOST_MESSAGES:
            self.too_much = True
            raise TooMuch


@asynccontextmanager
async def piped(
    argv: tuple[str, ...], environment: Mapping[str, str], heard: Heard
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
        asyncio.create_task(_listen(stdout, incoming, heard)),
        asyncio.create_task(_overhear(stderr, heard)),
        speaking := asyncio.create_task(_speak(outgoing, stdin)),
    ]
    try:
        yield read, write
        speaking.cancel()
        await _exit_of(process, FAREWELL)
    finally:
        _kill(process)
        for stream in (incoming, read, write, outgoing):
            stream.close()
        for task in tasks:
            task.cancel()
        try:
            await asyncio.wait(tasks)
            await _exit_of(process, _KILL_SECONDS)
        finally:
            for pipe in pipes:
                pipe.close()
            # One that cannot be killed hangs in the kernel, or has the rights of somebody else.
            if process.poll() is None:
                Thread(target=process.wait, daemon=True).start()


async def _listen(
    pipe: IO[bytes], incoming: MemoryObjectSendStream[SessionMessage | Exception], heard: Heard
) -> None:
    """Hand on what are messages.  Other lines are no business of ours: some servers greet."""
    lines = asyncio.StreamReader(MOST_HEARD)
    with incoming, suppress(TooMuch, anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with _reading(pipe, lines):
            while line := await _line(lines, heard):
                with suppress(ValueError):
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    await incoming.send(SessionMessage(message))


async def _line(lines: asyncio.StreamReader, heard: Heard) -> bytes:
    try:
        line = await lines.readline()
    except ValueError:
        heard.too_much = True  # this line alone is longer than all of them may be
        raise TooMuch from None
    heard.add(len(line), 1)
    return line


async def _overhear(pipe: IO[bytes], heard: Heard) -> None:
    """Keep the beginning of what goes to standard error, so that it never blocks there."""
    said = asyncio.StreamReader(_PIECE)
    async with _reading(pipe, said):
        while piece := await said.read(_PIECE):
            heard.errors += piece[: MOST_ERRORS - len(heard.errors)]


async def _speak(outgoing: MemoryObjectReceiveStream[SessionMessage], pipe: IO[bytes]) -> None:
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
async def _reading(pipe: IO[bytes], reader: asyncio.StreamReader) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.connect_read_pipe(lambda: protocol, pipe)
    try:
        yield
    finally:
        transport.close()


async def _exit_of(process: Popen[bytes], seconds: float) -> None:
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


def _kill(process: Popen[bytes]) -> None:
    # Nobody is left in the group, or all of it has the rights of somebody else, like sudo.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, SIGKILL)
