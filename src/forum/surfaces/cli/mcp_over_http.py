"""MCP over HTTP: the server of one surface behind the door of the other, which this one puts up."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from forum.app import Approver, Forum
from forum.ledger import Scope as Right
from forum.planning import AgentRegistry
from forum.surfaces.http.auth import Authenticator
from forum.surfaces.http.endpoints import Endpoint, RequestContext
from forum.surfaces.http.problems import ProblemType, problem_from_exception
from forum.surfaces.http.request_pipeline import read_body
from forum.surfaces.mcp.http_transport import HttpTransport

PATH = "/mcp"
MAX_MESSAGE_BYTES = 64 << 10
"""How large a message may be: the library reads it on the event loop, 64 KiB in about 1 ms."""


class McpExtension:
    """What a server offers to MCP clients; whoever has a key may see which tools it opens."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = min(most_bytes, MAX_MESSAGE_BYTES)
        self._web = HttpTransport(self._most_bytes)

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """Keep the MCP server ready."""
        return self._web.lifespan()

    def endpoints(self, door: Authenticator) -> Sequence[Endpoint]:
        """Return the one address of the protocol."""

        async def handle(visit: RequestContext) -> Response:
            body = await read_body(visit.request, self._most_bytes)
            return _McpResponse(self._web, HttpCaller(visit, door, endpoint), body)

        endpoint = Endpoint(
            "POST", PATH, "mcp", frozenset(Right), "Speak the Model Context Protocol", handle
        )
        return (endpoint,)


@dataclass(frozen=True, slots=True)
class HttpCaller:
    """Who came in by the door of HTTP, as MCP wants to know them."""

    visit: RequestContext
    door: Authenticator
    endpoint: Endpoint

    @property
    def name(self) -> str:
        """As entries have it."""
        return self.visit.principal.name

    @property
    def approver(self) -> Approver:
        """Who decides at a gate, if this one does."""
        return self.visit.principal.approver

    @property
    def scopes(self) -> frozenset[Right]:
        """What that one may do."""
        return self.visit.principal.scopes

    @property
    def forum(self) -> Forum:
        """The ledger that the key belongs to."""
        return self.visit.desk.forum

    @property
    def staff(self) -> AgentRegistry:
        """Those who work for it."""
        return self.visit.desk.staff

    @property
    def leaving(self) -> bool:
        """Whether the server lets its followers go."""
        return self.visit.desk.log_follower.closed

    async def require_scopes(self, tool: str, scopes: frozenset[Right]) -> None:
        """Ask the door again, by the scopes of the tool: it refuses, and puts that on record."""
        asked = replace(self.endpoint, name=f"mcp/{tool}", scopes=scopes)
        await self.door.authorize(self.visit.request, asked)

    def describe_error(self, error: Exception) -> str | None:
        """Tell what any client of the server is told."""
        refusal = problem_from_exception(error)
        if refusal.problem is ProblemType.BROKEN:
            return None
        return refusal.detail or refusal.problem.title


class _McpResponse(Response):
    """A response that the MCP server makes, with the headers that every response has."""

    def __init__(self, web: HttpTransport, visitor: HttpCaller, body: bytes) -> None:
        self.status_code, self.background, self.raw_headers = 200, None, []
        self._answered = web, visitor, body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the request answered."""

        async def pass_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *self.raw_headers]}
            await send(message)

        web, visitor, body = self._answered
        await web.handle_request(visitor, body, scope, receive, pass_on)
