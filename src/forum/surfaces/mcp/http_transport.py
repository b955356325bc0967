"""The server over HTTP: every request stands for itself, so that any process can answer it."""

from contextlib import AbstractAsyncContextManager
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from sse_starlette.sse import AppStatus
from starlette.types import Message, Receive, Scope, Send

from forum.surfaces.mcp.callers import McpCaller
from forum.surfaces.mcp.server import Context, make_server

_CALLER = "forum.caller"

# Left to itself, the library that the SDK streams with cuts off every answer as soon as the process
# is asked to end.  Ours end by themselves then, with what is known of the run.
AppStatus.enable_automatic_graceful_drain = False


class HttpTransport:
    """Answers requests of clients who were let in, in any version of the protocol.

    There are no sessions: a client of an older version that wants one gets on without it.
    """

    def __init__(self, most_bytes: int) -> None:
        self._manager = StreamableHTTPSessionManager(
            make_server(_caller_of), stateless=True, max_request_body_size=most_bytes
        )

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """Keep the server ready; it can be entered once."""
        return self._manager.run()

    async def handle_request(
        self, caller: McpCaller, body: bytes, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request whose body was read already."""
        scope[_CALLER] = caller
        await self._manager.handle_request(scope, _replay_body(body, receive), send)


def _caller_of(context: Context) -> McpCaller:
    request: Any = context.request
    caller: McpCaller = request.scope[_CALLER]
    return caller


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return what gives a body that was taken from a connection, and then whatever comes on it."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def give() -> Message:
        return left.pop() if left else await receive()

    return give
