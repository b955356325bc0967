"""A local provider of three APIs that keeps a log, and can fail at random.

Run as `python -m tests.features.gateway.provider PORT LOG [SEED]`: it appends one JSON line to LOG
for each request that reaches it, before it answers, and one for each bill.  With a seed it fails at
random.
"""

import asyncio
import json
import os
import random
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvicorn

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

OUTPUT_TOKENS = 100
STREAMED_WORDS = 20
WORD = "word "


class LocalProvider:
    """An ASGI application that answers like a provider, and bills as it says."""

    def __init__(self, log: Path, seed: int | None = None) -> None:
        self._log = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        self._random = random.Random(seed) if seed is not None else None
        self.requests: list[dict[str, Any]] = []
        self.forced_usage: dict[str, Any] | None = None
        self.always_cut = self.refuses = self.echoes = False
        self.delay = 0.0
        self.fates: dict[str, str] = {}
        """How calls of a model fail: by a status, `hang`, or `cut` before the first byte."""
        self.answering_model = ""
        """The model that replies name, where it is not the one that was asked for."""
        self.stated_cost: dict[str, str] = {}
        """What replies say that they cost: in their `usage`, or in a `header`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return  # the gateway was killed before it had sent the request
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        is_form = headers.get("content-type", "").startswith("multipart/")
        path, request = scope["path"], json.loads(b"{}" if is_form else body or b"{}")
        self.requests.append({"path": path, "headers": headers, "body": body, "scope": scope})
        self._write({"event": "request", "path": path, "model": _model_of(path, request)})
        if scope["method"] != "POST":
            await _reply(send, 200, {"object": "list", "data": []})
            return
        fate = self._random.random() if self._random else 1.0
        refusal = "500" if fate < 0.08 or self.refuses else "429" if fate < 0.12 else ""
        if failure := self.fates.get(_model_of(path, request), refusal):
            await _fail(failure, send)
            return
        if self._random:
            await asyncio.sleep(self._random.random() * 0.02)
        await asyncio.sleep(self.delay)
        request["model"] = self.answering_model or _model_of(path, request)
        send = self._with_extras(send, headers)
        await self._answer(path, request, len(body), send, cut=self.always_cut or fate < 0.2)

    async def _answer(
        self, path: str, request: dict[str, Any], size: int, send: Send, *, cut: bool
    ) -> None:
        read = max(1, size // 8)
        written = 0 if "mbed" in path else min(_limit_of(request), OUTPUT_TOKENS)
        if "ount" in path.rpartition("/")[2]:
            await _reply(send, 200, {"input_tokens": read, "totalTokens": read})
            return
        # Billed from here on, whether the reply arrives or not.
        self._write({"event": "bill", "model": request.get("model"), "in": read, "out": written})
        if path.endswith("/chat/completions"):
            usage: dict[str, Any] | None = self.forced_usage
            if "usage" in self.stated_cost:
                usage = {"prompt_tokens": read, "completion_tokens": written,
                         "cost": float(self.stated_cost["usage"])}  # fmt: skip
            await _chat(request, read, written, send, cut=cut, usage=usage)
        elif path.endswith(("enerateContent", "mbedContents")):
            await _gemini(path, request, read, written, send=send, cut=cut)
        elif path.endswith("/responses"):
            await _responses(request, read, written, send, cut=cut)
        elif path.endswith("/messages"):
            await _messages(request, read, written, send, cut=cut)
        elif path.endswith("/embeddings"):
            usage = {"prompt_tokens": read, "total_tokens": read}
            data = [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}]
            await _reply(send, 200, {"object": "list", "data": data, "usage": usage,
                                     "model": request.get("model")})  # fmt: skip
        else:
            await _reply(send, 404, {"error": {"message": "no such path"}})

    def _with_extras(self, send: Send, received: dict[str, str]) -> Send:
        """Return a way to send that adds a cost, or echoes the credential of the request."""
        shown = received.get("authorization") or received.get("x-goog-api-key", "")

        async def add(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                more = []
                if "header" in self.stated_cost:
                    more.append((b"x-litellm-response-cost", self.stated_cost["header"].encode()))
                if self.echoes:
                    more.append((b"x-echo", f"authorization: {shown}".encode()))
                message = {**message, "headers": [*message["headers"], *more]}
            elif self.echoes:
                body, word = message.get("body", b""), shown.encode()
                # In the place of words of the reply, so that the length of a whole one stays.
                room = b"word " * (1 if body.startswith(b"data:") else len(word) // 5 + 1)
                body = body.replace(room, word.ljust(len(room)), 1)
                message = {**message, "body": body}
            await send(message)

        return add

    def _write(self, line: dict[str, Any]) -> None:
        os.write(self._log, json.dumps(line).encode() + b"\n")


async def _reply(send: Send, status: int, content: dict[str, Any], *, cut: bool = False) -> None:
    data = json.dumps(content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(data))]
    headers.append((b"x-request-id", b"req-1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    if cut:
        await send({"type": "http.response.body", "body": data[: len(data) // 2],
                    "more_body": True})  # fmt: skip
        return
    await send({"type": "http.response.body", "body": data, "more_body": False})


async def _stream(send: Send, events: list[bytes], *, cut: bool) -> None:
    headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for event in events[: len(events) // 2] if cut else events:
        await send({"type": "http.response.body", "body": event, "more_body": True})
        await asyncio.sleep(0)
    if not cut:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _fail(fate: str, send: Send) -> None:
    if fate == "hang":
        await asyncio.sleep(3)
    elif fate == "cut":
        headers = [(b"content-type", b"application/json"), (b"content-length", b"100")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"", "more_body": True})
    else:
        await _reply(send, int(fate), {"error": {"message": "broken", "type": "error"}})


def _model_of(path: str, request: dict[str, Any]) -> str:
    """Return the model of a request, which Gemini and Azure have in the path."""
    for before, after in (("/models/", ":"), ("/deployments/", "/")):
        _, found, model = path.partition(before)
        if found:
            return model.partition(after)[0]
    return str(request.get("model", ""))


def _limit_of(request: dict[str, Any]) -> int:
    members = {**request, **(request.get("generationConfig") or {})}
    names = ("max_completion_tokens", "max_tokens", "max_output_tokens", "maxOutputTokens")
    return next((int(members[name]) for name in names if members.get(name)), OUTPUT_TOKENS)


def _has_tool(request: dict[str, Any]) -> bool:
    """Return whether the client has the one tool that this provider calls."""
    return '"look_up"' in json.dumps(request.get("tools"))


def _data(content: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(content, separators=(",", ":")).encode() + b"\n\n"


async def _chat(
    request: dict[str, Any],
    read: int,
    written: int,
    send: Send,
    *,
    cut: bool,
    usage: dict[str, int] | None,
) -> None:
    base = {"id": "chatcmpl-1", "created": 1, "model": request["model"]}
    total = read + written
    usage = usage or {
        "prompt_tokens": read, "completion_tokens": written, "total_tokens": total
    }  # fmt: skip
    tools = _has_tool(request)
    call = {"index": 0, "id": "call_1", "type": "function"}
    call["function"] = {"name": "look_up", "arguments": '{"city":"Oslo"}'}
    if not request.get("stream"):
        message: dict[str, Any] = {"role": "assistant", "content": WORD * written}
        if tools:
            message |= {"content": None, "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        reply = {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
        await _reply(send, 200, reply, cut=cut)
        return
    asked = (request.get("stream_options") or {}).get("include_usage")
    more = {"usage": None} if asked else {}
    base |= {"object": "chat.completion.chunk"}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += (
        [{"tool_calls": [call]}] if tools else [{"content": WORD}] * min(written, STREAMED_WORDS)
    )
    events = [
        _data({**base, "choices": [{"index": 0, "delta": d, "finish_reason": None}], **more})
        for d in deltas
    ]
    last = {"index": 0, "delta": {}, "finish_reason": "stop"}
    events.append(_data({**base, "choices": [last], **more}))
    if asked:
        events.append(_data({**base, "choices": [], "usage": usage}))
    events.append(b"data: [DONE]\n\n")
    await _stream(send, events, cut=cut)


async def _responses(
    request: dict[str, Any], read: int, written: int, send: Send, *, cut: bool
) -> None:
    item: dict[str, Any] = {"type": "message", "id": "msg_1", "role": "assistant",
                            "status": "completed", "content": [
                                {"type": "output_text", "text": WORD * written,
                                 "annotations": []}]}  # fmt: skip
    if _has_tool(request):
        item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look_up",
                "arguments": "{}", "status": "completed"}  # fmt: skip
    usage = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written,
             "input_tokens_details": {"cached_tokens": 0},
             "output_tokens_details": {"reasoning_tokens": 0}}  # fmt: skip
    reply = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed",
             "model": request["model"], "output": [item], "usage": usage, "error": None,
             "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
             "incomplete_details": None, "instructions": None, "metadata": {},
             "temperature": 1.0, "top_p": 1.0}  # fmt: skip
    if not request.get("stream"):
        await _reply(send, 200, reply, cut=cut)
        return
    begun = {**reply, "status": "in_progress", "output": [], "usage": None}
    events = [
        b"event: response.created\n"
        + _data({"type": "response.created", "sequence_number": 0, "response": begun}),
        b"event: response.output_item.added\n"
        + _data(
            {
                "type": "response.output_item.added",
                "sequence_number": 0,
                "output_index": 0,
                "item": item,
            }
        ),
        b"event: response.output_item.done\n"
        + _data(
            {
                "type": "response.output_item.done",
                "sequence_number": 1,
                "output_index": 0,
                "item": item,
            }
        ),
        b"event: response.completed\n"
        + _data({"type": "response.completed", "sequence_number": 2, "response": reply}),
    ]
    await _stream(send, events, cut=cut)


async def _gemini(
    path: str, request: dict[str, Any], read: int, written: int, send: Send, *, cut: bool
) -> None:
    thought = written // 4
    usage: dict[str, Any] = {"promptTokenCount": read, "totalTokenCount": read + written}
    base: dict[str, Any] = {"modelVersion": request["model"], "responseId": "r"}
    if path.endswith("mbedContents"):
        vectors = [{"values": [0.5, 0.25]} for _ in request["requests"]]
        await _reply(send, 200, {"embeddings": vectors, "usageMetadata": usage}, cut=cut)
        return
    usage |= {"thoughtsTokenCount": thought}
    parts: list[dict[str, Any]] = [{"text": WORD}] * min(written, STREAMED_WORDS)
    if _has_tool(request):
        parts = [{"functionCall": {"name": "look_up", "args": {"city": "Oslo"}}}]
    last = {**base, "usageMetadata": {**usage, "candidatesTokenCount": written - thought}}
    done = {"finishReason": "STOP", "index": 0}
    if "stream" not in path:
        content = {"role": "model", "parts": parts}
        await _reply(send, 200, {**last, "candidates": [{"content": content, **done}]}, cut=cut)
        return
    events = [
        {**base, "candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}],
         "usageMetadata": usage}
        for part in parts
    ]  # fmt: skip
    ended = {**last, "candidates": [{"content": {"role": "model", "parts": []}, **done}]}
    await _stream(send, [_data(event) for event in [*events, ended]], cut=cut)


async def _messages(
    request: dict[str, Any], read: int, written: int, send: Send, *, cut: bool
) -> None:
    block: dict[str, Any] = {"type": "text", "text": WORD * written}
    if _has_tool(request):
        block = {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {}}
    usage = {"input_tokens": read, "output_tokens": written}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": request["model"],
               "content": [block], "stop_reason": "end_turn", "stop_sequence": None,
               "usage": usage}  # fmt: skip
    if not request.get("stream"):
        await _reply(send, 200, message, cut=cut)
        return
    first = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    start = block if block["type"] == "tool_use" else {"type": "text", "text": ""}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": first},
        {"type": "content_block_start", "index": 0, "content_block": start},
        *([{"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": block["text"]}}] if "text" in block else []),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
         "usage": {"output_tokens": written}},
        {"type": "message_stop"},
    ]  # fmt: skip
    data = [b"event: " + event["type"].encode() + b"\n" + _data(event) for event in events]
    await _stream(send, data, cut=cut)


def main() -> None:
    """Serve until killed."""
    port, log = int(sys.argv[1]), Path(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else None
    config = uvicorn.Config(
        LocalProvider(log, seed), port=port, log_level="critical", access_log=False, lifespan="off"
    )
    uvicorn.Server(config).run()


if __name__ == "__main__":
    main()
