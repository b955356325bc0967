"""Conversations with MCP servers: one for each call, of which nothing is left when it is over.

Nothing that a server says or does is an exception here.  Before the tool was asked for, whatever
goes wrong is a failure.  After that, only an answer tells what happened: if none comes, or none
that can be read, the effect may have been had all the same, and is said to be indeterminate.
"""

import asyncio
import logging
import os
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, assert_never, cast

import httpx2
import msgspec
from mcp import Client, MCPError
from mcp.client import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    PARSE_ERROR,
    AudioContent,
    BlobResourceContents,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    PaginatedRequestParams,
    RequestParamsMeta,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from mcp_types import Tool as Offered
from pydantic import TypeAdapter

from forum.engine import CallReply, ToolInvocation
from forum.errors import ServerUnusable
from forum.ledger import BytesContent, Outcome
from forum.models.mcp_stdio import (
    MAX_CONVERSATION_BYTES,
    MAX_STDERR_BYTES,
    ServerOutputMeter,
    open_stdio,
)
from forum.models.process_environment import allowed_environment
from forum.models.sandbox import Sandbox
from forum.models.urls import is_loopback
from forum.work import McpServer, ToolSpec, Why

IDEMPOTENCY_META_KEY: Final = "forum/key"
"""Under which name the key of the effect is in the `_meta` of a call."""
MAX_TOOLS: Final = 1000
_MAX_PAGES = 100
_CLOSE_TIMEOUT_S = 0.5
_HEADER_MARK = b'"x-mcp-header"'

# What the SDK says when no answer came, or none that can be read; also when a server says so.
_NO_ANSWER = (CONNECTION_CLOSED, INVALID_REQUEST, PARSE_ERROR)
_answer: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(
    CallToolResult | InputRequiredResult
)

# What servers do wrong is in the record, and not for the terminal of a worker.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


class ServerTokenMissing(Exception):
    """The variable that should hold the token does not."""


@dataclass(frozen=True, slots=True)
class McpTarget:
    """A server, and what it is confined by if it is a program."""

    server: McpServer
    sandbox: Sandbox | None = None


@dataclass(slots=True)
class _Conversation:
    """What is known of a conversation, whatever becomes of it."""

    heard: ServerOutputMeter = field(default_factory=ServerOutputMeter)
    asked: bool = False
    """Whether the tool may have been reached."""
    status: int = 0
    """The last one that an address has answered with."""
    answer: CallToolResult | InputRequiredResult | None = None


async def call_tool(
    tool: ToolSpec,
    peer: McpTarget,
    arguments: dict[str, Any],
    deed: ToolInvocation,
    deadline: float,
) -> CallReply:
    """Have a tool called, once; the deadline is one by the clock of the event loop."""
    began, talk, failed = time.monotonic_ns(), _Conversation(), CallReply(Outcome.INDETERMINATE)
    told = {"FORUM_RUN": deed.run, "FORUM_TASK": deed.task, "FORUM_KEY": deed.key}
    meta = cast("RequestParamsMeta", {IDEMPOTENCY_META_KEY: deed.key})
    params = CallToolRequestParams(name=tool.name, arguments=arguments, _meta=meta)
    try:
        async with asyncio.timeout_at(deadline), _open_session(peer, told, talk) as session:
            if _HEADER_MARK in msgspec.json.encode(tool.schema):
                await _list_tools(session)  # the SDK learns from it what goes into headers
            talk.asked, talk.status = True, 0
            talk.answer = await session.send_request(CallToolRequest(params=params), _answer)
    except Exception as error:  # noqa: BLE001  # whatever it is, the call has not been answered
        failed = _failure_reply(_first_error(error), talk)
    reply = failed if talk.answer is None else _answer_reply(talk.answer)
    said = b"\n".join(filter(None, (b"".join(reply.error.chunks()), bytes(talk.heard.errors))))
    milliseconds = (time.monotonic_ns() - began) // 1_000_000
    return replace(reply, error=BytesContent(said[:MAX_STDERR_BYTES]), milliseconds=milliseconds)


async def list_server_tools(name: str, peer: McpTarget, seconds: float) -> list[Offered]:
    """Return the tools of a server.  Raises `ServerUnusable`."""
    talk = _Conversation()
    try:
        async with asyncio.timeout(seconds), _open_session(peer, {}, talk) as session:
            return await _list_tools(session)
    except Exception as error:  # noqa: BLE001  # raised again, as ours
        failed = _failure_reply(_first_error(error), talk)
    said = b"; ".join(filter(None, (b"".join(failed.error.chunks()), bytes(talk.heard.errors))))
    advice = "check its url and key_env" if peer.server.url else "run its argv by hand to see more"
    why = " ".join(said[-1000:].decode(errors="replace").split())
    raise ServerUnusable(name, f"{failed.code}: {why}; {advice}")


async def _list_tools(session: ClientSession) -> list[Offered]:
    found: list[Offered] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        found += page.tools
        cursor = page.next_cursor
        if len(found) > MAX_TOOLS:
            break
        if cursor is None:
            return found
    raise ValueError(f"its list of tools does not end: {len(found)} so far")


# How servers are reached


@asynccontextmanager
async def _open_session(
    peer: McpTarget, told: dict[str, str], talk: _Conversation
) -> AsyncIterator[ClientSession]:
    server, sandbox = peer.server, peer.sandbox
    async with AsyncExitStack() as stack:
        if server.url:
            http = await stack.enter_async_context(_make_http_client(server, talk))
            streams = streamable_http_client(
                server.url, http_client=http, max_sse_event_size=MAX_CONVERSATION_BYTES
            )
            client = Client(streams, cache=None)
        else:
            known = sandbox.environment if sandbox else allowed_environment
            argv = sandbox.command(server.argv) if sandbox else server.argv
            client = Client(open_stdio(argv, known(server.env, **told), talk.heard), cache=None)
        yield (await stack.enter_async_context(client)).session


def _make_http_client(server: McpServer, talk: _Conversation) -> httpx2.AsyncClient:
    """Return what asks an address, tells what it answers with, and does not hear too much."""

    async def before(request: httpx2.Request) -> None:
        if request.method == "DELETE":  # how a session is ended; nobody waits long for that
            request.extensions["timeout"] = httpx2.Timeout(_CLOSE_TIMEOUT_S).as_dict()

    async def after(response: httpx2.Response) -> None:
        if response.request.method == "POST":
            talk.status = response.status_code
        # What is compressed could be a thousand times as long as what we count; we ask for none.
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx2.DecodingError("the answer is compressed, which nobody asked for")
        response.stream = _BoundedStream(response.stream, talk.heard)

    return httpx2.AsyncClient(
        verify=_system_ssl_context(),
        # A proxy of the environment is for others than this machine.
        trust_env=not is_loopback(server.url),
        headers={"Accept-Encoding": "identity"} | _authorization(server),
        timeout=None,  # there is one for the whole conversation
        event_hooks={"request": [before], "response": [after]},
    )


@cache
def _system_ssl_context() -> ssl.SSLContext:
    """Return what knows the certificates of this machine; reading them takes long."""
    return httpx2.create_ssl_context()


def _authorization(server: McpServer) -> dict[str, str]:
    """Return the header with the token, as it is now."""
    if not server.key_env:
        return {}
    key = os.environ.get(server.key_env, "").strip()
    # A token that is no header would be quoted by the error that refuses it.
    if not (key and key.isascii() and key.isprintable()):
        raise ServerTokenMissing(f"set {server.key_env} to the token of {server.url}")
    return {"Authorization": f"Bearer {key}"}


class _BoundedStream(httpx2.AsyncByteStream):
    """The body of an answer, as long as it is not too long."""

    def __init__(self, stream: Any, heard: ServerOutputMeter) -> None:  # noqa: ANN401  # httpx2 gives a union
        self._stream, self._heard = stream, heard

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._heard.count(len(piece))
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


# What came of it


def _first_error(error: BaseException) -> BaseException:
    """Return the first error of a group: the others follow from it."""
    return _first_error(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _failure_reply(error: BaseException, talk: _Conversation) -> CallReply:
    """Return what is known of a call that was not answered."""
    told = str(error) or type(error).__name__
    unknown = Outcome.INDETERMINATE if talk.asked else Outcome.FAILED
    if talk.heard.too_much:
        return _error_reply(unknown, Why.OVERSIZE, "oversize", "it said more than is kept")
    if isinstance(error, TimeoutError):
        outcome = Outcome.TIMEOUT if talk.asked else Outcome.FAILED
        code = "" if talk.asked else "connect"
        return _error_reply(outcome, Why.DEADLINE, code, "it took too long")
    if isinstance(error, ServerTokenMissing):
        return _error_reply(Outcome.DENIED, Why.ERROR, "no-key", told)
    if talk.status >= 300:
        return _error_reply(_outcome_of_status(talk), Why.ERROR, f"http {talk.status}", told)
    if isinstance(error, MCPError) and talk.asked and error.code not in _NO_ANSWER:
        # The agent reads the output: it can put right what the server did not understand.
        failed = _error_reply(Outcome.FAILED, Why.ERROR, f"rpc {error.code}", told)
        return replace(failed, output=failed.error)
    return _error_reply(unknown, Why.ERROR, "no-answer" if talk.asked else "connect", told)


def _outcome_of_status(talk: _Conversation) -> Outcome:
    """Return what a status says; a gateway's 502 does not say what happened behind it."""
    if talk.status in (401, 403):
        return Outcome.DENIED
    return Outcome.INDETERMINATE if talk.asked and talk.status >= 500 else Outcome.FAILED


def _error_reply(outcome: Outcome, why: Why, code: str, told: str) -> CallReply:
    return CallReply(outcome, why=why, code=code, error=BytesContent(told.encode(errors="replace")))


def _answer_reply(answer: CallToolResult | InputRequiredResult) -> CallReply:
    match answer:
        case InputRequiredResult():
            told = "it asks for input that nobody here can give"
            return _error_reply(Outcome.FAILED, Why.ERROR, "input-required", told)
        case CallToolResult(is_error=True):
            return CallReply(Outcome.FAILED, _text(answer), why=Why.ERROR, code="tool-error")
        case _:
            return CallReply(Outcome.OK, _text(answer))


def _text(answer: CallToolResult) -> BytesContent:
    parts = "\n".join(map(_part, answer.content)).encode(errors="replace")
    if not parts and answer.structured_content is not None:
        return BytesContent(msgspec.json.encode(answer.structured_content))
    return BytesContent(parts)


def _part(part: ContentBlock) -> str:
    """Return a part as text; of what is not text, a line that says what it is."""
    match part:
        case TextContent():
            return part.text
        case ImageContent() | AudioContent():
            return _binary(part.type, part.mime_type, part.data)
        case ResourceLink():
            return f"[{part.name}: {part.uri}]"
        case EmbeddedResource():
            return _embedded(part.resource)
        case _:
            assert_never(part)


def _embedded(resource: TextResourceContents | BlobResourceContents) -> str:
    if isinstance(resource, TextResourceContents):
        return resource.text
    return _binary(str(resource.uri), resource.mime_type or "of no type", resource.blob)


def _binary(what: str, kind: str, base64: str) -> str:
    return f"[{what}, {kind}, {len(base64.rstrip('=')) * 3 // 4} bytes]"
