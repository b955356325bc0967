"""MCP over standard input and output, one message per line.

The SDK has such a transport too.  This one also handles faulty clients: it never buffers more than
the maximum length of a line, and it answers an invalid message as JSON-RPC requires (section 5.1)
instead of dropping it.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import asynccontextmanager, suppress
from functools import partial
from threading import Thread
from typing import Any

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server import Server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from forum.surfaces.mcp.pipes import StdioPipes

MAX_LINE_BYTES = 4 << 20
"""Maximum size of a message in bytes."""
_READ_CHUNK_BYTES = 1 << 16

Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]


async def serve_stdio(server: Server[Any], wires: StdioPipes) -> None:
    """Serve one client until it closes its end."""
    async with _streams(wires) as (read, write):
        await server.run(read, write, server.create_initialization_options())


@asynccontextmanager
async def _streams(wires: StdioPipes) -> AsyncIterator[Streams]:
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    loop, replies = asyncio.get_running_loop(), write.clone()

    def hear() -> None:
        """Pass on one line after the other, each after the previous one was accepted."""
        with suppress(RuntimeError, CancelledError):  # the loop ended before its client did
            for line in read_lines(wires.heard):
                asyncio.run_coroutine_threadsafe(take(line), loop).result()
            loop.call_soon_threadsafe(incoming.close)

    async def take(line: bytes | None) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            message = read_message(line)
            if isinstance(message, types.JSONRPCError):
                await replies.send(SessionMessage(message))
            elif message is not None:
                await incoming.send(message)

    speaking = asyncio.create_task(_write_messages(outgoing, wires.said, incoming.close))
    Thread(target=hear, daemon=True).start()
    try:
        yield read, write
        replies.close()
        await speaking
    finally:
        speaking.cancel()
        for stream in (incoming, read, write, replies, outgoing):
            stream.close()


def read_lines(wire: int) -> Iterator[bytes | None]:
    """Yield the received lines; None stands for a line that is too long."""
    buffer, lost = bytearray(), False
    while piece := _read(wire):
        *ends, rest = piece.split(b"\n")
        for end in ends:
            yield None if lost or len(buffer) + len(end) > MAX_LINE_BYTES else bytes(buffer) + end
            buffer, lost = bytearray(), False
        # The rest of a line that is too long is dropped
        # as it arrives, so that memory stays bounded.
        buffer += b"" if lost else rest
        if len(buffer) > MAX_LINE_BYTES:
            buffer, lost = bytearray(), True
    if buffer or lost:
        yield None if lost else bytes(buffer)


def _read(wire: int) -> bytes:
    try:
        return os.read(wire, _READ_CHUNK_BYTES)
    except OSError:  # a terminal that was closed
        return b""


def read_message(line: bytes | None) -> SessionMessage | types.JSONRPCError | None:
    """Return the message in a line, an error to be sent if it is invalid, or None if it is empty.

    A batch is invalid: the protocol has none since version 2025-06-18.
    """
    if line is None:
        return _error_message(types.INVALID_REQUEST, f"a message has up to {MAX_LINE_BYTES} bytes")
    if not line.strip():
        return None
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValidationError as error:
        broken = any(item["type"] == "json_invalid" for item in error.errors(include_input=False))
        return (
            _error_message(types.PARSE_ERROR, "no JSON")
            if broken
            else _error_message(types.INVALID_REQUEST, "no message")
        )


def _error_message(code: int, words: str) -> types.JSONRPCError:
    return types.JSONRPCError(
        jsonrpc="2.0", id=None, error=types.ErrorData(code=code, message=words)
    )


async def _write_messages(
    outgoing: MemoryObjectReceiveStream[SessionMessage], wire: int, give_up: Callable[[], None]
) -> None:
    """Write messages until there are no more or the client has closed its end."""
    try:
        async for item in outgoing:
            line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            await _run_in_daemon_thread(partial(_write, wire, line.encode() + b"\n"))
    except OSError:
        give_up()


def _write(wire: int, data: bytes) -> None:
    while data:
        data = data[os.write(wire, data) :]


async def _run_in_daemon_thread(work: Callable[[], None]) -> None:
    """Run work in a daemon thread, which does not keep the process alive if it hangs."""
    done: Future[None] = Future()

    def run() -> None:
        try:
            work()
            done.set_result(None)
        except OSError as error:
            done.set_exception(error)

    Thread(target=run, daemon=True).start()
    await asyncio.wrap_future(done)
