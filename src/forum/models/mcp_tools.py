"""Tools of MCP servers.

A server's tools are listed once, when a request is accepted, and recorded with the run, so that the
tools of a run never change.  A server that is a program runs as long as the task that uses it
(`mcp_sessions`).  No task sees state that another one left behind.

The SDK (extra `mcp`) takes more than a second to load, so it is imported at its first use.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import msgspec

from forum.config import SecretRules
from forum.engine import CallReply, ToolInvocation
from forum.errors import Malformed, MissingExtra, ServerUnusable
from forum.installation import missing_extra
from forum.ledger.body import BytesContent, Content
from forum.ledger.kinds import Outcome
from forum.models.mcp_sessions import McpTarget, TaskServers
from forum.models.process_environment import OPERATOR
from forum.models.sandbox import Sandbox
from forum.runs.kinds import Why
from forum.runs.policy import McpServer, ToolSpec

MAX_ARGUMENT_BYTES: Final = 1 << 24
LIST_TIMEOUT_S: Final = 30.0
MAX_DESCRIPTION_BYTES: Final = 4096
"""Descriptions are truncated to this number of bytes."""
MAX_SCHEMA_BYTES: Final = 1 << 18
MAX_TOOL_NAME_CHARS: Final = 64
"""Maximum length of a tool name that every provider accepts; `_NOT_PLAIN` limits the characters."""

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_-]")
_arguments = msgspec.json.Decoder(dict[str, Any])


class McpTool:
    """A tool of an MCP server."""

    def __init__(self, spec: ToolSpec, target: McpTarget, servers: TaskServers) -> None:
        self._spec, self._target = spec, target
        self._servers = servers

    async def invoke(self, invocation: ToolInvocation) -> CallReply:
        """Call the tool on its server.  The idempotency key is in `_meta`, as `forum/key`."""
        deadline = asyncio.get_running_loop().time() + self._spec.seconds
        try:
            arguments = _read_arguments(invocation.arguments)
            async with asyncio.timeout_at(deadline):
                await _load_sdk()
        except TimeoutError:
            return CallReply(Outcome.FAILED, why=Why.DEADLINE, code="connect")
        except (Malformed, MissingExtra) as error:
            code = "arguments" if isinstance(error, Malformed) else "missing-extra"
            message = BytesContent(str(error).encode(errors="replace"))
            # The agent sees the output, so that it can correct its arguments.
            return CallReply(Outcome.FAILED, message, why=Why.ERROR, code=code, error=message)
        from forum.models.mcp_client import call_tool  # noqa: PLC0415  # loaded above

        return await call_tool(
            self._spec,
            self._target,
            arguments,
            invocation,
            deadline=deadline,
            servers=self._servers,
        )


async def list_tools(
    servers: Mapping[str, McpServer],
    seconds: float = LIST_TIMEOUT_S,
    sandbox: Sandbox | None = None,
    rules: SecretRules = OPERATOR,
) -> dict[str, ToolSpec]:
    """List the tools of servers, with a time limit for each server.

    Tools are named `SERVER-TOOL`, restricted to the characters that all providers accept.  Raises
    `ServerUnusable` and `MissingExtra`.
    """
    if not servers:
        return {}
    await _load_sdk()
    from forum.models.mcp_client import list_server_tools  # noqa: PLC0415  # loaded above

    specs: dict[tuple[str, str], ToolSpec] = {}
    for name, server in servers.items():
        for offer in await list_server_tools(name, McpTarget(server, sandbox, rules), seconds):
            if (name, offer.name) in specs:
                raise ServerUnusable(name, f"it offers two tools with the name {offer.name!r}")
            if len(msgspec.json.encode(offer.input_schema)) > MAX_SCHEMA_BYTES:
                raise ServerUnusable(
                    name, f"the schema of {offer.name!r} has more than {MAX_SCHEMA_BYTES} bytes"
                )
            specs[name, offer.name] = ToolSpec(
                server=server,
                name=offer.name,
                description=_truncate_description(offer.description or offer.title or ""),
                schema=offer.input_schema,
            )
    return dict(zip(unique_tool_names(specs), specs.values(), strict=True))


def unique_tool_names(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Return a unique name for each (server, tool) pair that every provider accepts.

    The names depend only on the set of pairs, not on their order.
    """
    pairs = list(pairs)
    wanted = [_NOT_PLAIN.sub("_", f"{server}-{tool}") for server, tool in pairs]
    marked = [_name_with_digest(name, pair) for name, pair in zip(wanted, pairs, strict=True)]
    counts = Counter(wanted)
    named = [
        name if len(name) <= MAX_TOOL_NAME_CHARS and counts[name] == 1 else instead
        for name, instead in zip(wanted, marked, strict=True)
    ]
    # A server's own name for a tool may equal a name that was generated here for another tool.
    return named if len(set(named)) == len(named) else marked


def _name_with_digest(name: str, pair: tuple[str, str]) -> str:
    mark = sha256(msgspec.json.encode(pair)).hexdigest()[:12]
    return f"{name[: MAX_TOOL_NAME_CHARS - 13]}-{mark}"


async def _load_sdk() -> None:
    """Import the SDK in a thread, so that the event loop is not blocked.  Raises `MissingExtra`."""
    if find_spec("mcp") is None:
        raise missing_extra("mcp", "tools of MCP servers need the package mcp")
    await asyncio.to_thread(import_module, "forum.models.mcp_client")


def _read_arguments(content: Content) -> dict[str, Any]:
    """Return the arguments of a call; empty content means no arguments.  Raises `Malformed`."""
    if content.size > MAX_ARGUMENT_BYTES:
        raise Malformed("arguments", f"{content.size} bytes; a server is sent {MAX_ARGUMENT_BYTES}")
    data = b"".join(content.chunks())
    try:
        return _arguments.decode(data) if data.strip() else {}
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed("arguments", f"{error}; a tool of a server takes a JSON object") from None


def _truncate_description(description: str) -> str:
    head = description.encode(errors="replace")[:MAX_DESCRIPTION_BYTES]
    return head.decode(errors="ignore")
