"""Sessions with MCP servers that are programs: one for each server that a task uses.

A server is started at its first call and stopped when the task is left, so that it can keep state
between the calls of one task.  A server that left a call without an answer is stopped at once: it
may hang, or go on with an effect whose outcome is recorded as unknown.  The next call starts it
again.  The calls of one task follow each other, so a session has at most one call at a time.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from forum.config import SecretRules
from forum.models.process_environment import OPERATOR
from forum.models.sandbox import Sandbox
from forum.runs.policy import McpServer

if TYPE_CHECKING:  # the SDK is loaded at its first use
    from mcp.client import ClientSession

MAX_CONVERSATION_BYTES: Final = 1 << 24
"""Maximum output of a server in one call, including its logs."""
MAX_MESSAGES: Final = 10_000


@dataclass(frozen=True, slots=True)
class McpTarget:
    """A server, and the sandbox that confines it if it is a program."""

    server: McpServer
    sandbox: Sandbox | None = None
    rules: SecretRules = OPERATOR


class ServerOutputTooLarge(Exception):
    """Raised when a server exceeds the limit for its output."""


@dataclass(slots=True)
class ServerOutputMeter:
    """Counts a server's output since the last call began, and keeps its standard error."""

    size: int = 0
    messages: int = 0
    too_much: bool = False
    has_ended: bool = False
    """Whether the server has closed its output, or is no longer read."""
    errors: bytearray = field(default_factory=bytearray)

    def count(self, size: int, messages: int = 0) -> None:
        """Count received bytes and messages.  Raises `ServerOutputTooLarge`."""
        self.size += size
        self.messages += messages
        if self.size > MAX_CONVERSATION_BYTES or self.messages > MAX_MESSAGES:
            self.too_much = True
            raise ServerOutputTooLarge

    def begin_call(self) -> None:
        """Count anew: the limits hold for each call."""
        self.size = self.messages = 0
        self.errors.clear()


SessionOpener = Callable[[ServerOutputMeter], AbstractAsyncContextManager["ClientSession"]]
"""Opens a session with a server, whose output is counted by the meter."""


class TaskServers:
    """The running servers of one task."""

    def __init__(self) -> None:
        self._sessions: dict[McpServer, ServerSession] = {}

    @asynccontextmanager
    async def connect(
        self, server: McpServer, open_session: SessionOpener
    ) -> AsyncIterator["ServerSession"]:
        """Yield the session with a server for one call, and start the server if necessary.

        The server is stopped at the end of the block unless the call was answered.
        """
        session = self._sessions.get(server)
        if session is not None and session.output.has_ended:
            await self._stop(server)  # it crashed after its last call, or wrote too much
            session = None
        if session is None:
            session = self._sessions[server] = ServerSession(open_session)
        else:
            session.begin_call()
        try:
            yield session
        finally:
            if not session.is_answered:
                await self._stop(server)

    async def close(self) -> None:
        """Stop all servers; each may first exit by itself."""
        sessions = [self._sessions.pop(server) for server in list(self._sessions)]
        await asyncio.gather(*(session.close() for session in sessions))

    async def _stop(self, server: McpServer) -> None:
        await self._sessions.pop(server).close(is_killed=True)


class ServerSession:
    """A session that its own asyncio task keeps open.

    The SDK demands that a session is closed by the asyncio task that opened it, but each call is
    made by another one.
    """

    def __init__(self, open_session: SessionOpener) -> None:
        self.output = ServerOutputMeter()
        self.is_answered = False
        """Set by the caller: whether the current call was answered."""
        self._closing = asyncio.Event()
        self._opened: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._holder = asyncio.create_task(self._hold(open_session))

    def begin_call(self) -> None:
        """Prepare the session for another call."""
        self.is_answered = False
        self.output.begin_call()

    async def wait_until_open(self) -> "ClientSession":
        """Return the session once the server has answered the handshake; raise what failed."""
        return await asyncio.shield(self._opened)

    async def close(self, *, is_killed: bool = False) -> None:
        """End the session, and wait until nothing is left of the server."""
        self._closing.set()
        if is_killed:
            self._holder.cancel()
        try:
            await asyncio.wait([self._holder])
        except asyncio.CancelledError:
            # The worker stops: there is no time to let the server exit by itself.
            self._holder.cancel()
            await asyncio.wait([self._holder])
            raise

    async def _hold(self, open_session: SessionOpener) -> None:
        try:
            async with open_session(self.output) as session:
                self._opened.set_result(session)
                await self._closing.wait()
        except Exception as error:  # noqa: BLE001  # raised in the call that waits for the session
            # An error while the session is closed does not invalidate the answers that it had.
            if not self._opened.done():
                self._opened.set_exception(error)
                self._opened.exception()  # the waiting call may have been cancelled
        finally:
            self._opened.cancel()
