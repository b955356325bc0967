"""A provider of models on loopback, which answers as it is told to: well, badly, late or never.

`with serving(say("hello")) as provider:` serves all APIs at `provider.url`.  Each request gets the
next answer, and the last one is given again and again.  An answer is what is written, piece by
piece: bytes, pauses in seconds, and in the end the connection is closed.
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

from forum.runs.policy import Api, ToolCall

Answer = Sequence[bytes | float]
Answerer = Callable[["Seen"], Answer]
"""Makes the answer to a request."""

FOREVER = 3600.0
"""A pause that ends when the client goes away."""

_HEAD = b"HTTP/1.1 %d x\r\nConnection: close\r\n%s\r\n"
EVENTS = _HEAD % (200, b"Content-Type: text/event-stream; charset=utf-8\r\n")
MODEL = "tiny-1"


@dataclass(frozen=True)
class Seen:
    """A request that came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Provider:
    """The server, and what it has seen."""

    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    open: int = 0
    """How many connections there are now."""
    most_open: int = 0


@contextmanager
def serving(*answers: Answer | Answerer) -> Iterator[Provider]:
    """Serve these answers from a thread of its own."""
    provider, loop = Provider(), asyncio.new_event_loop()
    server = loop.run_until_complete(_listen(provider, answers))
    thread = Thread(target=loop.run_forever)
    thread.start()
    try:
        yield provider
    finally:
        asyncio.run_coroutine_threadsafe(_end(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _listen(provider: Provider, answers: Sequence[Answer | Answerer]) -> asyncio.Server:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        provider.open += 1
        provider.most_open = max(provider.most_open, provider.open)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                provider.seen.append(await _request(reader))
                answer = answers[min(len(provider.seen), len(answers)) - 1]
                made = answer(provider.seen[-1]) if callable(answer) else answer
                await _write(reader, writer, made)
        finally:
            provider.open -= 1
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    provider.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    return server


async def _request(reader: asyncio.StreamReader) -> Seen:
    first = await reader.readexactly(1)
    if first == b"\x16":
        return Seen("a handshake of TLS", {}, {})
    head = (first + await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {}
    for line in filter(None, head[1:]):
        name, _, value = line.partition(": ")
        headers[name.lower()] = value
    body = await reader.readexactly(int(headers["content-length"]))
    return Seen(head[0].split()[1], headers, json.loads(body))


async def _write(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer
) -> None:
    gone = asyncio.ensure_future(reader.read())
    try:
        for piece in answer:
            if isinstance(piece, bytes):
                writer.write(piece)
                await writer.drain()
            else:
                await asyncio.wait([gone], timeout=piece)
            if gone.done():
                return
    finally:
        gone.cancel()


async def _end(server: asyncio.Server) -> None:
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


# Answers


def refuse(status: int, body: bytes = b"{}", **headers: str) -> Answer:
    """Return another status than 200."""
    text = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return (_HEAD % (status, text.encode()), body)


def in_one_piece(body: dict[str, Any], kind: str = "application/json") -> Answer:
    """Return a complete answer as a server gives it that ignores `stream: true`."""
    return refuse(200, json.dumps(body).encode(), Content_Type=kind)


def events(*told: bytes | dict[str, Any]) -> Answer:
    """Return server-sent events."""
    return (EVENTS, *(event(data) for data in told))


def event(data: bytes | dict[str, Any]) -> bytes:
    """Return one server-sent event."""
    if isinstance(data, bytes):
        return b"data: %s\n\n" % data
    name = f"event: {data['type']}\n" if "type" in data else ""
    return f"{name}data: {json.dumps(data)}\n\n".encode()


GOOD_USAGE = {
    Api.CHAT: {"prompt_tokens": 7, "completion_tokens": 3},
    Api.RESPONSES: {"input_tokens": 7, "output_tokens": 3},
    Api.ANTHROPIC: {"input_tokens": 7, "output_tokens": 3},
}


def say(
    text: str = "",
    *uses: ToolCall,
    api: Api = Api.CHAT,
    finish: str = "",
    usage: Any = None,  # noqa: ANN401  # whatever a provider may say
) -> Answer:
    """Return a complete answer, in pieces; the arguments of uses are JSON."""
    document = GOOD_USAGE[api] if usage is None else usage
    pieces = [text[at : at + 4] for at in range(0, len(text), 4)]
    match api:
        case Api.CHAT:
            return events(*_chat(pieces, uses, finish or "stop", document), b"[DONE]")
        case Api.RESPONSES:
            return events(*_responses(pieces, uses, finish, document))
        case Api.ANTHROPIC:
            return events(*_messages(pieces, uses, finish or "end_turn", document))


def _chat(
    pieces: list[str],
    uses: tuple[ToolCall, ...],
    finish: str,
    usage: Any,  # noqa: ANN401
) -> list[dict[str, Any]]:
    calls = [
        {"index": n, "function": {"name": use.tool, "arguments": use.arguments}}
        for n, use in enumerate(uses)
    ]
    deltas: list[dict[str, Any]] = [{"content": piece} for piece in pieces]
    deltas += [{"tool_calls": [call]} for call in calls]
    chunks: list[dict[str, Any]] = [
        {"model": MODEL, "choices": [{"index": 0, "delta": delta}]} for delta in deltas
    ]
    end = {"model": MODEL, "choices": [{"delta": {}, "finish_reason": finish}]}
    return [*chunks, end, {"model": MODEL, "choices": [], "usage": usage}]


def _responses(
    pieces: list[str],
    uses: tuple[ToolCall, ...],
    reason: str,
    usage: Any,  # noqa: ANN401
) -> list[dict[str, Any]]:
    items = [
        {"type": "function_call", "name": use.tool, "arguments": use.arguments, "call_id": str(n)}
        for n, use in enumerate(uses)
    ]
    response = {"model": MODEL, "usage": usage, "output": [], "error": None}
    response["incomplete_details"] = {"reason": reason} if reason else None
    return [
        {"type": "response.created", "response": {"id": "r", "status": "in_progress"}},
        *({"type": "response.output_text.delta", "delta": piece} for piece in pieces),
        *({"type": "response.output_item.done", "item": item} for item in items),
        {"type": f"response.{'incomplete' if reason else 'completed'}", "response": response},
    ]


def _messages(
    pieces: list[str],
    uses: tuple[ToolCall, ...],
    finish: str,
    usage: Any,  # noqa: ANN401
) -> list[dict[str, Any]]:
    def block(index: int, start: dict[str, Any], deltas: list[dict[str, Any]]) -> Any:  # noqa: ANN401
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}

    told = [{"type": "text_delta", "text": piece} for piece in pieces]
    blocks = list(block(0, {"type": "text", "text": ""}, told)) if pieces else []
    for n, use in enumerate(uses, 1):
        start = {"type": "tool_use", "id": f"t{n}", "name": use.tool, "input": {}}
        parts = [use.arguments[:5], use.arguments[5:]]
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
        blocks += block(n, start, deltas)
    return [
        {"type": "message_start", "message": {"model": MODEL, "usage": usage}},
        {"type": "ping"},
        *blocks,
        {"type": "message_delta", "delta": {"stop_reason": finish}, "usage": usage},
        {"type": "message_stop"},
    ]
