"""MCP over HTTP: connects the MCP server to the HTTP server and its authentication."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from forum.app import Approver
from forum.ledger.kinds import Scope as Right
from forum.surfaces.http.admission import replay_body
from forum.surfaces.http.auth import Authenticator
from forum.surfaces.http.endpoints import Endpoint, RequestContext
from forum.surfaces.http.extensions import ServerExtension
from forum.surfaces.http.problems import ProblemType, problem_from_exception
from forum.surfaces.mcp.callers import McpCaller
from forum.surfaces.mcp.http_transport import HttpTransport
from forum.surfaces.mcp.large_messages import split_large_message

PATH = "/mcp"


class McpExtension(ServerExtension):
    """The MCP endpoint of a server; any key may list the tools that its scopes allow."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._web = HttpTransport(self._most_bytes)

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """Run the MCP server for the lifetime of the HTTP server."""
        return self._web.lifespan()

    def endpoints(self, authenticator: Authenticator) -> Sequence[Endpoint]:
        """Return the single endpoint of the protocol."""

        async def handle(context: RequestContext) -> Response:
            message = await split_large_message(context.raw)
            tenant, client = context.tenant, context.principal
            caller = HttpCaller(
                forum=tenant.forum,
                registry=tenant.registry,
                scopes=client.scopes,
                name=client.name,
                authority=client.authority,
                visit=context,
                authenticator=authenticator,
                endpoint=endpoint,
                large_arguments=message.arguments,
            )
            return _McpResponse(self._web, caller, message.head)

        endpoint = Endpoint(
            "POST", path=PATH, name="mcp", scopes=frozenset(Right),
            summary="Speak the Model Context Protocol", handle=handle,
            max_bytes=self._most_bytes,
        )  # fmt: skip
        return (endpoint,)


@dataclass(frozen=True, slots=True)
class HttpCaller(McpCaller):
    """The authenticated client of an HTTP request, in the form that MCP tools expect."""

    visit: RequestContext
    authenticator: Authenticator
    endpoint: Endpoint
    large_arguments: bytes = b""

    @property
    def arguments(self) -> bytes:
        """The arguments of the tool, if the message was too large for the library."""
        return self.large_arguments

    @property
    def approver(self) -> Approver:
        """The approver that is recorded if this client decides a gate."""
        return self.visit.principal.approver

    @property
    def leaving(self) -> bool:
        """Whether the server is shutting down and ends long requests."""
        return self.visit.tenant.log_follower.closed

    async def require_scopes(self, tool: str, scopes: frozenset[Right]) -> None:
        """Authorize the request again, with the tool's scopes. A denial raises and is recorded."""
        endpoint = replace(self.endpoint, name=f"mcp/{tool}", scopes=scopes)
        await self.authenticator.authorize(self.visit.request, endpoint)

    def describe_error(self, error: Exception) -> str | None:
        """Return the message that an HTTP client would get, or None for an internal error."""
        refusal = problem_from_exception(error)
        if refusal.problem is ProblemType.BROKEN:
            return None
        return refusal.detail or refusal.problem.title


class _McpResponse(Response):
    """A response that the MCP server writes, with the headers that every response has."""

    def __init__(self, web: HttpTransport, visitor: HttpCaller, body: bytes) -> None:
        self.status_code, self.background = 200, None
        self.raw_headers = []
        self._answered = web, visitor, body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the MCP server answer the request."""

        async def pass_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                # The HTTP server has set headers on this object, and the MCP server, which sends a
                # response of its own, does not know them.
                message = {**message, "headers": [*message["headers"], *self.raw_headers]}
            await send(message)

        web, visitor, body = self._answered
        await web.handle_request(visitor, scope, replay_body(body, receive), pass_on)
