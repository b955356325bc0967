"""Tools of MCP servers.

What a server offers is asked for once, when a request is taken on, and recorded with the run: the
tools of a run do not change under it.  Each call has a conversation of its own, and a server that
is a program is started for it and gone after it.  That is the simplest thing that is right: no
call sees what another one left behind, and the key of an effect can be in the environment.

The SDK (extra `mcp`) takes more than a second to load, so it is loaded by whoever needs it first.
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

from forum.engine import CallReply, ToolInvocation
from forum.errors import Malformed, MissingExtra, ServerUnusable
from forum.ledger import BytesContent, Content, Outcome
from forum.models.sandbox import Sandbox
from forum.work import McpServer, ToolSpec, Why

MAX_ARGUMENT_BYTES: Final = 1 << 24
LIST_TIMEOUT_S: Final = 30.0
MAX_DESCRIPTION_BYTES: Final = 4096
"""How many bytes of a description are kept."""
MAX_SCHEMA_BYTES: Final = 1 << 18
MAX_TOOL_NAME_CHARS: Final = 64
"""What providers allow in the name of a tool, as well as the characters of `_NOT_PLAIN`."""

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_-]")
_arguments = msgspec.json.Decoder(dict[str, Any])


class McpTool:
    """A tool of an MCP server."""

    def __init__(self, spec: ToolSpec, server: McpServer, sandbox: Sandbox | None = None) -> None:
        self._spec, self._server, self._sandbox = spec, server, sandbox

    async def invoke(self, deed: ToolInvocation) -> CallReply:
        """Have the server use the tool.  It finds the key in `_meta`, as `forum/key`.

        A server that is a program also finds it in FORUM_KEY.
        """
        deadline = asyncio.get_running_loop().time() + self._spec.seconds
        try:
            arguments = _read_arguments(deed.arguments)
            async with asyncio.timeout_at(deadline):
                await _load_sdk()
        except TimeoutError:
            return CallReply(Outcome.FAILED, why=Why.DEADLINE, code="connect")
        except (Malformed, MissingExtra) as error:
            code = "arguments" if isinstance(error, Malformed) else "missing-extra"
            told = BytesContent(str(error).encode(errors="replace"))
            # The agent reads the output: it can put its arguments right.
            return CallReply(Outcome.FAILED, told, why=Why.ERROR, code=code, error=told)
        from forum.models.mcp_client import McpTarget, call_tool  # noqa: PLC0415  # it is loaded by now

        peer = McpTarget(self._server, self._sandbox)
        return await call_tool(self._spec, peer, arguments, deed, deadline)


async def list_tools(
    servers: Mapping[str, McpServer],
    seconds: float = LIST_TIMEOUT_S,
    sandbox: Sandbox | None = None,
) -> dict[str, ToolSpec]:
    """Ask servers what they offer; each may take so long.

    A tool is called `SERVER-TOOL`, made plain.  Raises `ServerUnusable`, and `MissingExtra`.
    """
    if not servers:
        return {}
    await _load_sdk()
    from forum.models.mcp_client import McpTarget, list_server_tools  # noqa: PLC0415  # it is loaded by now

    found: dict[tuple[str, str], ToolSpec] = {}
    for name, server in servers.items():
        for offer in await list_server_tools(name, McpTarget(server, sandbox), seconds):
            if (name, offer.name) in found:
                raise ServerUnusable(name, f"it offers two tools with the name {offer.name!r}")
            if len(msgspec.json.encode(offer.input_schema)) > MAX_SCHEMA_BYTES:
                raise ServerUnusable(
                    name, f"the schema of {offer.name!r} has more than {MAX_SCHEMA_BYTES} bytes"
                )
            found[name, offer.name] = ToolSpec(
                server=server,
                name=offer.name,
                description=_truncate_description(offer.description or offer.title or ""),
                schema=offer.input_schema,
            )
    return dict(zip(unique_tool_names(found), found.values(), strict=True))


def unique_tool_names(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Name the tools of servers so that every provider takes the names, and no two are the same.

    A name depends on nothing but these pairs, whatever their order.
    """
    pairs = list(pairs)
    wished = [_NOT_PLAIN.sub("_", f"{server}-{tool}") for server, tool in pairs]
    marked = [_name_with_digest(name, pair) for name, pair in zip(wished, pairs, strict=True)]
    counts = Counter(wished)
    named = [
        name if len(name) <= MAX_TOOL_NAME_CHARS and counts[name] == 1 else instead
        for name, instead in zip(wished, marked, strict=True)
    ]
    # A server may have given a tool the very name that another one gets here.
    return named if len(set(named)) == len(named) else marked


def _name_with_digest(name: str, pair: tuple[str, str]) -> str:
    mark = sha256(msgspec.json.encode(pair)).hexdigest()[:12]
    return f"{name[: MAX_TOOL_NAME_CHARS - 13]}-{mark}"


async def _load_sdk() -> None:
    """Load the SDK, where nobody waits for it."""
    if find_spec("mcp") is None:
        raise MissingExtra("mcp", "tools of MCP servers need the package mcp")
    await asyncio.to_thread(import_module, "forum.models.mcp_client")


def _read_arguments(content: Content) -> dict[str, Any]:
    """Return the arguments of a call; to say nothing is to give none."""
    if content.size > MAX_ARGUMENT_BYTES:
        raise Malformed("arguments", f"{content.size} bytes; a server is sent {MAX_ARGUMENT_BYTES}")
    given = b"".join(content.chunks())
    try:
        return _arguments.decode(given) if given.strip() else {}
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed("arguments", f"{error}; a tool of a server takes a JSON object") from None


def _truncate_description(description: str) -> str:
    head = description.encode(errors="replace")[:MAX_DESCRIPTION_BYTES]
    return head.decode(errors="ignore")
