"""MCP over HTTP, without sessions, so that any process can answer any request."""

from contextlib import AbstractAsyncContextManager
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from sse_starlette.sse import AppStatus
from starlette.types import Receive, Scope, Send

from forum.surfaces.mcp.callers import McpCaller
from forum.surfaces.mcp.server import Context, make_server

_CALLER = "forum.caller"

# By default, the streaming library of the SDK cuts off every response as soon as the process is
# asked to stop.  The tools of Forum notice the stop, and answer with the current state of the run.
AppStatus.enable_automatic_graceful_drain = False


class HttpTransport:
    """Answers requests of authenticated clients, in any version of the protocol.

    There are no sessions; clients of older versions that expect one work without it.
    """

    def __init__(self, most_bytes: int) -> None:
        self._manager = StreamableHTTPSessionManager(
            make_server(_caller_of), stateless=True, max_request_body_size=most_bytes
        )

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """Run the session manager; may be entered only once."""
        return self._manager.run()

    async def handle_request(
        self, caller: McpCaller, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request of an authenticated client."""
        scope[_CALLER] = caller
        await self._manager.handle_request(scope, receive, send)


def _caller_of(context: Context) -> McpCaller:
    request: Any = context.request
    caller: McpCaller = request.scope[_CALLER]
    return caller
