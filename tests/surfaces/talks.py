"""Conversations with a server over MCP, by the SDK's own client."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx2
import jsonschema
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from forum.app.planner import AgentRegistry
from forum.ledger.kinds import Scope
from forum.surfaces.mcp.callers import LocalCaller
from forum.surfaces.mcp.server import make_server
from tests.e2e.project import Project
from tests.surfaces.command_server import command_server

ERAS = ("2026-07-28", "legacy")

Connect = Callable[[str], Any]
T = TypeVar("T")


@dataclass
class Talk:
    """A conversation with a server, in which every answer has to fit its schema."""

    client: Client
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)
    told: list[tuple[float, float | None, str | None]] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    async def call(self, tool: str, **arguments: object) -> CallToolResult:
        """Call a tool; what is told meanwhile is what it tells."""
        self.told.clear()
        if not self.schemas:
            await self.list()
        return await self.client.call_tool(tool, arguments, progress_callback=self._hear)

    async def list(self) -> set[str]:
        """Return the names of the tools that are offered."""
        listed = (await self.client.list_tools()).tools
        self.schemas = {tool.name: tool.output_schema or {} for tool in listed}
        return set(self.schemas)

    async def well(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Call a tool that has to answer well, and return its form."""
        result = await self.call(tool, **arguments)
        assert not result.is_error, result.content
        jsonschema.validate(result.structured_content, self.schemas[tool])
        assert text_of(result)
        self.used.add(tool)
        return dict(result.structured_content)

    async def badly(self, tool: str, **arguments: object) -> str:
        """Call a tool that has to refuse, and return what it says."""
        result = await self.call(tool, **arguments)
        assert result.is_error, result.content
        return text_of(result)

    async def _hear(self, progress: float, total: float | None, message: str | None) -> None:
        self.told.append((progress, total, message))


def text_of(result: CallToolResult, part: int = 0) -> str:
    """Return a part of an answer that people read."""
    text_content = result.content[part]
    assert isinstance(text_content, TextContent)
    return text_content.text


def over_pipes(made: Project, *options: str) -> Connect:
    """Return what starts a server as an editor would; what it says is in `mcp.log`."""

    @asynccontextmanager
    async def connect(era: str) -> AsyncIterator[Talk]:
        program, *args = command_server().argv("mcp", *options)
        started = StdioServerParameters(
            command=program, args=args, cwd=made.home, env=dict(made.environ)
        )
        with (made.home / "mcp.log").open("a") as log:
            async with Client(stdio_client(started, log), mode=era, cache=None) as client:
                yield Talk(client)

    return connect


def over_http(url: str, key: str) -> Connect:
    """Return what asks a server, with a key or a token."""

    @asynccontextmanager
    async def connect(era: str) -> AsyncIterator[Talk]:
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            transport = streamable_http_client(f"{url}/mcp", http_client=http)
            async with Client(transport, mode=era, cache=None) as client:
                yield Talk(client)

    return connect


def in_process(made: Project, *scopes: Scope) -> Connect:
    """Return what asks a server without any transport between."""

    @asynccontextmanager
    async def connect(era: str) -> AsyncIterator[Talk]:
        caller = LocalCaller(made.forum, AgentRegistry(made.forum.settings), frozenset(scopes))
        async with Client(make_server(lambda _: caller), mode=era, cache=None) as client:
            yield Talk(client)

    return connect


def talk(connect: Connect, said: Callable[[Talk], Coroutine[Any, Any, T]], era: str) -> T:
    """Have a conversation from beginning to end."""

    async def whole() -> T:
        async with asyncio.timeout(120), connect(era) as begun:
            return await said(begun)

    return asyncio.run(whole())
