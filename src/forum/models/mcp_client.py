"""Calls of MCP servers.

A server at a URL has a session for each call.  One that is a program has a session for each task
(`mcp_sessions`).

No behaviour of a server raises an exception here.  Until the tool was requested, every error is a
failure.  After that, only an answer tells what happened: if there is none, or none that can be
parsed, the effect may have happened nevertheless, and the outcome is indeterminate.
"""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, assert_never, cast

import httpx2
import mcp_types
import msgspec
from mcp import Client, MCPError
from mcp.client import ClientSession
from mcp.client.streamable_http import streamable_http_client
from pydantic import TypeAdapter

from forum.engine import CallReply, ToolInvocation
from forum.errors import ServerUnusable
from forum.ledger.body import BytesContent
from forum.ledger.kinds import Outcome
from forum.models import mcp_stdio
from forum.models.mcp_sessions import (
    MAX_CONVERSATION_BYTES,
    McpTarget,
    ServerOutputMeter,
    TaskServers,
)
from forum.models.process_environment import allowed_environment, task_variables
from forum.models.provider_http import system_ssl_context
from forum.models.urls import is_loopback
from forum.platform_calls import command_that_ends_with_parent
from forum.runs.kinds import Why
from forum.runs.policy import ToolSpec

IDEMPOTENCY_META_KEY: Final = "forum/key"
"""Name of the effect's idempotency key in the `_meta` of a call."""
MAX_TOOLS: Final = 1000
_MAX_PAGES = 100
_CLOSE_TIMEOUT_S = 0.5
_HEADER_MARK = b'"x-mcp-header"'

# The SDK raises these codes when an answer is missing or unreadable.  A server may send them too,
# so with them it is unknown whether the tool took effect.
_NO_ANSWER = (mcp_types.CONNECTION_CLOSED, mcp_types.INVALID_REQUEST, mcp_types.PARSE_ERROR)
_answer: TypeAdapter[mcp_types.CallToolResult | mcp_types.InputRequiredResult] = TypeAdapter(
    mcp_types.CallToolResult | mcp_types.InputRequiredResult
)

# Errors of servers are recorded in the ledger, and do not belong on the worker's terminal.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


class ServerTokenMissing(Exception):
    """Raised when the environment variable for the server's token is missing or invalid."""


@dataclass(slots=True)
class _Conversation:
    """The state of a call, kept for the case that it fails."""

    output: ServerOutputMeter = field(default_factory=ServerOutputMeter)
    asked: bool = False
    """Whether the tool may have been reached."""
    status: int = 0
    """The last HTTP status of the server."""
    answer: mcp_types.CallToolResult | mcp_types.InputRequiredResult | None = None


async def call_tool(
    tool: ToolSpec,
    target: McpTarget,
    arguments: dict[str, Any],
    invocation: ToolInvocation,
    deadline: float,
    servers: TaskServers,
) -> CallReply:
    """Call a tool once, until a deadline on the event loop's clock."""
    began, conversation = time.monotonic_ns(), _Conversation()
    failed = CallReply(Outcome.INDETERMINATE)
    meta = cast("mcp_types.RequestParamsMeta", {IDEMPOTENCY_META_KEY: invocation.key})
    params = mcp_types.CallToolRequestParams(name=tool.name, arguments=arguments, _meta=meta)
    try:
        async with (
            asyncio.timeout_at(deadline),
            _connect(target, conversation, invocation, servers) as session,
        ):
            if _HEADER_MARK in msgspec.json.encode(tool.schema):
                await _list_tools(session)  # tells the SDK which arguments go into headers
            # Set before the request is sent: from here on the effect may happen, whatever fails.
            # The status is reset, because so far it is that of the handshake.
            conversation.asked, conversation.status = True, 0
            request = mcp_types.CallToolRequest(params=params)
            conversation.answer = await session.send_request(request, _answer)
    except Exception as error:  # noqa: BLE001  # any error means that the call was not answered
        failed = _failure_reply(_first_error(error), conversation)
    # An error while the session is closed does not invalidate an answer that was received.
    reply = failed if conversation.answer is None else _answer_reply(conversation.answer)
    details = b"\n".join(
        filter(None, (b"".join(reply.error.chunks()), bytes(conversation.output.errors)))
    )
    milliseconds = (time.monotonic_ns() - began) // 1_000_000
    return replace(
        reply, error=BytesContent(details[: mcp_stdio.MAX_STDERR_BYTES]), milliseconds=milliseconds
    )


async def list_server_tools(name: str, target: McpTarget, seconds: float) -> list[mcp_types.Tool]:
    """Return the tools of a server.  Raises `ServerUnusable`."""
    conversation = _Conversation()
    try:
        async with asyncio.timeout(seconds), _open_session(target, conversation, {}) as session:
            return await _list_tools(session)
    except Exception as error:  # noqa: BLE001  # raised again as `ServerUnusable`
        failed = _failure_reply(_first_error(error), conversation)
    details = b"; ".join(
        filter(None, (b"".join(failed.error.chunks()), bytes(conversation.output.errors)))
    )
    advice = (
        "check its url and key_env" if target.server.url else "run its argv by hand to see more"
    )
    why = " ".join(details[-1000:].decode(errors="replace").split())
    raise ServerUnusable(name, f"{failed.code}: {why}; {advice}")


async def _list_tools(session: ClientSession) -> list[mcp_types.Tool]:
    tools: list[mcp_types.Tool] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await session.list_tools(params=mcp_types.PaginatedRequestParams(cursor=cursor))
        tools += page.tools
        cursor = page.next_cursor
        if len(tools) > MAX_TOOLS:
            break
        if cursor is None:
            return tools
    raise ValueError(f"its list of tools does not end: {len(tools)} so far")


@asynccontextmanager
async def _connect(
    target: McpTarget, conversation: _Conversation, invocation: ToolInvocation, servers: TaskServers
) -> AsyncIterator[ClientSession]:
    """Yield a session for one call: a new one, or that of the task if the server is a program."""
    variables = task_variables(invocation)
    if target.server.url:
        async with _open_session(target, conversation, variables) as client_session:
            yield client_session
        return

    def open_program(output: ServerOutputMeter) -> AbstractAsyncContextManager[ClientSession]:
        return _open_session(target, _Conversation(output), variables)

    async with servers.connect(target.server, open_program) as session:
        conversation.output = session.output
        try:
            yield await session.wait_until_open()
            session.is_answered = conversation.answer is not None
        except MCPError as error:
            session.is_answered = conversation.asked and error.code not in _NO_ANSWER
            raise


@asynccontextmanager
async def _open_session(
    target: McpTarget, conversation: _Conversation, variables: Mapping[str, str]
) -> AsyncIterator[ClientSession]:
    server, sandbox = target.server, target.sandbox
    async with AsyncExitStack() as stack:
        if server.url:
            http = await stack.enter_async_context(_make_http_client(target, conversation))
            streams = streamable_http_client(
                server.url, http_client=http, max_sse_event_size=MAX_CONVERSATION_BYTES
            )
        else:
            argv = (
                sandbox.command(server.argv)
                if sandbox
                else command_that_ends_with_parent(server.argv)
            )
            environment = (
                sandbox.environment(server.env, **variables)
                if sandbox
                else allowed_environment(server.env, target.rules, **variables)
            )
            streams = mcp_stdio.open_stdio(argv, environment, conversation.output)
        client = await stack.enter_async_context(Client(streams, cache=None))
        yield client.session


def _make_http_client(target: McpTarget, conversation: _Conversation) -> httpx2.AsyncClient:
    """Return a client that records the last status and limits the size of responses."""

    async def before(request: httpx2.Request) -> None:
        if request.method == "DELETE":  # ends the session; must not delay the reply
            request.extensions["timeout"] = httpx2.Timeout(_CLOSE_TIMEOUT_S).as_dict()

    async def after(response: httpx2.Response) -> None:
        if response.request.method == "POST":
            conversation.status = response.status_code
        # A compressed body could expand to a thousand times the
        # size that we count.  The request accepts only `identity`.
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx2.DecodingError("the answer is compressed, but only identity was accepted")
        response.stream = _BoundedStream(response.stream, conversation.output)

    return httpx2.AsyncClient(
        verify=system_ssl_context(),
        # A proxy from the environment is meant for other hosts, not for this machine.
        trust_env=not is_loopback(target.server.url),
        headers={"Accept-Encoding": "identity"} | _authorization(target),
        timeout=None,  # the whole session has a deadline
        event_hooks={"request": [before], "response": [after]},
    )


def _authorization(target: McpTarget) -> dict[str, str]:
    """Return the header with the current token.  Raises `ServerTokenMissing`."""
    server = target.server
    if not server.key_env:
        return {}
    if why := target.rules.refuse_variable(server.key_env):
        raise ServerTokenMissing(f"key_env of {server.url}: {why}")
    key = os.environ.get(server.key_env, "").strip()
    # The error for an invalid header value would quote the token.
    if not (key and key.isascii() and key.isprintable()):
        raise ServerTokenMissing(f"set {server.key_env} to the token of {server.url}")
    return {"Authorization": f"Bearer {key}"}


class _BoundedStream(httpx2.AsyncByteStream):
    """The body of a response, which raises `ServerOutputTooLarge` beyond the limit."""

    def __init__(self, stream: Any, meter: ServerOutputMeter) -> None:  # noqa: ANN401  # httpx2 declares a union
        self._stream, self._meter = stream, meter

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._meter.count(len(piece))
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


def _first_error(error: BaseException) -> BaseException:
    """Return the first error of a group, which caused the others."""
    return _first_error(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _failure_reply(error: BaseException, conversation: _Conversation) -> CallReply:
    """Return the outcome of a call that was not answered."""
    message = str(error) or type(error).__name__
    unknown = Outcome.INDETERMINATE if conversation.asked else Outcome.FAILED
    if conversation.output.too_much:
        return _error_reply(unknown, Why.OVERSIZE, "oversize", "its output exceeds the limit")
    if isinstance(error, TimeoutError):
        outcome = Outcome.TIMEOUT if conversation.asked else Outcome.FAILED
        code = "" if conversation.asked else "connect"
        return _error_reply(outcome, Why.DEADLINE, code, "it took too long")
    if isinstance(error, ServerTokenMissing):
        return _error_reply(Outcome.DENIED, Why.ERROR, "no-key", message)
    if conversation.status >= 300:
        return _error_reply(
            _outcome_of_status(conversation), Why.ERROR, f"http {conversation.status}", message
        )
    if isinstance(error, MCPError) and conversation.asked and error.code not in _NO_ANSWER:
        # The agent sees the output, so that it can correct its arguments.
        failed = _error_reply(Outcome.FAILED, Why.ERROR, f"rpc {error.code}", message)
        return replace(failed, output=failed.error)
    return _error_reply(
        unknown, Why.ERROR, "no-answer" if conversation.asked else "connect", message
    )


def _outcome_of_status(conversation: _Conversation) -> Outcome:
    """Return the outcome for a status; after a gateway's 502 the effect may have happened."""
    if conversation.status in (401, 403):
        return Outcome.DENIED
    return (
        Outcome.INDETERMINATE
        if conversation.asked and conversation.status >= 500
        else Outcome.FAILED
    )


def _error_reply(outcome: Outcome, why: Why, code: str, message: str) -> CallReply:
    error = BytesContent(message.encode(errors="replace"))
    return CallReply(outcome, why=why, code=code, error=error)


def _answer_reply(answer: mcp_types.CallToolResult | mcp_types.InputRequiredResult) -> CallReply:
    match answer:
        case mcp_types.InputRequiredResult():
            message = "it asks for interactive input, which is not supported"
            return _error_reply(Outcome.FAILED, Why.ERROR, "input-required", message)
        case mcp_types.CallToolResult(is_error=True):
            return CallReply(Outcome.FAILED, _text(answer), why=Why.ERROR, code="tool-error")
        case _:
            return CallReply(Outcome.OK, _text(answer))


def _text(answer: mcp_types.CallToolResult) -> BytesContent:
    parts = "\n".join(map(_part, answer.content)).encode(errors="replace")
    if not parts and answer.structured_content is not None:
        return BytesContent(msgspec.json.encode(answer.structured_content))
    return BytesContent(parts)


def _part(part: mcp_types.ContentBlock) -> str:
    """Return a part as text; for other content, return a line that describes it."""
    match part:
        case mcp_types.TextContent():
            return part.text
        case mcp_types.ImageContent() | mcp_types.AudioContent():
            return _binary(part.type, part.mime_type, part.data)
        case mcp_types.ResourceLink():
            return f"[{part.name}: {part.uri}]"
        case mcp_types.EmbeddedResource():
            return _embedded(part.resource)
        case _:
            assert_never(part)


def _embedded(resource: mcp_types.TextResourceContents | mcp_types.BlobResourceContents) -> str:
    if isinstance(resource, mcp_types.TextResourceContents):
        return resource.text
    return _binary(str(resource.uri), resource.mime_type or "of no type", resource.blob)


def _binary(what: str, kind: str, base64: str) -> str:
    return f"[{what}, {kind}, {len(base64.rstrip('=')) * 3 // 4} bytes]"
