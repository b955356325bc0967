"""A provider of models that keeps its own bill: `python -m benchmarks.caps.provider PORT`.

It computes what a call costs from the published prices with arithmetic of its own, exactly, in
pico-dollars, and adds the amount to each account that the label of the call names.  A label stands
in `user` or `metadata.user_id` of a request, or is the first part of its path:

    ACCOUNTS;FATE;BYTES;OUTPUT;PAUSE;CACHED

`ACCOUNTS` are names with plus signs between them, `FATE` is what becomes of the call, `BYTES` how
many tenths of a byte a token of the input has, `OUTPUT` how many tokens the model wants to write,
`PAUSE` how many milliseconds it takes, and `CACHED` what percentage of the input is read from the
cache.  `GET /bills` tells what each account owes and how much of it is above the bound, `POST
/quote/...` what a call would cost.
"""

import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from importlib import import_module
from typing import Any

MESSAGE_TOKENS, CALL_TOKENS = 4, 7
TOOL_TOKENS = 40
"""What this provider adds for each tool, as it does for each message and call."""
HIGH_FACTOR = 100
_LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
_WHOLE_OUTPUT = 4096
_WORD = "word "


class Fate(StrEnum):
    """What becomes of a call at the provider."""

    FINE = "fine"
    ERROR = "error"
    """Status 500; nothing is billed."""
    BUSY = "busy"
    """Status 429; nothing is billed."""
    GATEWAY = "gateway"
    """Status 502 of a proxy before the model, which has worked: billed in full."""
    CUT = "cut"
    """The reply breaks off in its middle; billed in full."""
    DROP = "drop"
    """The connection closes without a reply; billed in full."""
    SILENT = "silent"
    """The reply has no usage; billed in full."""
    ZERO = "zero"
    """The reply has a usage of zeros; billed in full."""
    LATE = "late"
    """The reply begins, and the call is billed when it ends."""
    LEFT = "left"
    """The client leaves in the middle of the reply; billed in full when it would have ended."""
    HIGH = "high"
    """The bill has a hundred times the output that the limit allows, and the usage tells it."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Published prices of a model, in pico-dollars per token."""

    input: int
    output: int
    read: int
    write: int
    write_1h: int


@dataclass(frozen=True, slots=True)
class Label:
    """What a request says of itself to this provider."""

    accounts: tuple[str, ...]
    tenths: int
    output: int
    fate: Fate
    pause_ms: int = 0
    cached: int = 0

    def __str__(self) -> str:
        accounts = "+".join(self.accounts)
        return ";".join(
            map(str, (accounts, self.fate, self.tenths, self.output, self.pause_ms, self.cached))
        )


def read_label(text: str) -> Label:
    """Read a label."""
    accounts, fate, *numbers = text.split(";")
    tenths, output, pause, cached = map(int, numbers)
    return Label(
        accounts=tuple(accounts.split("+")),
        fate=Fate(fate),
        tenths=tenths,
        output=output,
        pause_ms=pause,
        cached=cached,
    )


@lru_cache(64)
def published_rates(model: str) -> Rates:
    """Return the prices of a model as the table publishes them."""
    snapshot = import_module("genai_prices.data_snapshot").get_snapshot()
    _, info = snapshot.find_provider_model(model, None, None, None)
    prices = info.prices

    def rate(name: str, otherwise: int) -> int:
        dollars = getattr(prices, name, None)
        if dollars is None:
            return otherwise
        pico = Decimal(dollars) * 10**6
        assert pico == int(pico), (model, name)
        return int(pico)

    plain = rate("input_mtok", 0)
    write = rate("cache_write_mtok", plain)
    # Anthropic publishes twice the price of the input for an hour, which the table may not have.
    hour = rate("cache_write_1h_mtok", 2 * plain if write > plain else write)
    assert plain, model
    return Rates(
        input=plain,
        output=rate("output_mtok", 0),
        read=rate("cache_read_mtok", plain),
        write=write,
        write_1h=hour,
    )


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name not in ("cache_control", "role", "type"):
                yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


@dataclass(slots=True)
class Billed:
    """The tokens of one call, and what they cost."""

    read: int
    written: int
    stored: int
    stored_1h: int
    cached: int
    pico: int
    excess: int = 0
    """The part of the cost that is above what the limit of the output allows."""


def bill_call(label: Label, request: dict[str, Any]) -> Billed:
    """Return what a call costs."""
    turns = request.get("messages") or request.get("input") or ""
    turns = turns if isinstance(turns, list) else [turns]
    shown = [turns, request.get("system"), request.get("instructions"), request.get("tools")]
    size = sum(len(text.encode()) for text in _texts(shown))
    tools = len(request.get("tools") or ())
    read = -(-size * 10 // label.tenths)
    read += CALL_TOKENS + MESSAGE_TOKENS * len(turns) + TOOL_TOKENS * tools
    limits = [request[name] for name in _LIMITS if request.get(name)]
    limit = min(limits, default=_WHOLE_OUTPUT)
    written = min(label.output, limit) * (request.get("n") or 1)
    excess = (HIGH_FACTOR * limit - written) * (label.fate is Fate.HIGH)
    data = json.dumps(turns)
    hour = '"ttl": "1h"' in data
    cached = read * label.cached // 100
    stored = (read - cached) // 2 if '"cache_control"' in data else 0
    rates = published_rates(request["model"])
    pico = (read - stored - cached) * rates.input + cached * rates.read
    pico += stored * (rates.write_1h if hour else rates.write)
    pico += (written + excess) * rates.output
    return Billed(
        read=read,
        written=written + excess,
        stored=stored,
        stored_1h=stored if hour else 0,
        cached=cached,
        pico=pico,
        excess=excess * rates.output,
    )


@dataclass(slots=True)
class Accounts:
    """What is owed, in pico-dollars."""

    owed: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    excess: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    """The part that the provider has billed above the published bound."""
    calls: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, label: Label, billed: Billed) -> None:
        """Bill a call."""
        for name in label.accounts:
            self.owed[name] += billed.pico
            self.excess[name] += billed.excess
            self.calls[name] += 1

    def rows(self) -> dict[str, list[int]]:
        """Return for each account what it owes, what of it is above the bound, and its calls."""
        return {name: [self.owed[name], self.excess[name], self.calls[name]] for name in self.owed}


class Connection(asyncio.Protocol):
    """One connection of a client; its requests come one after the other."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each request that is complete."""
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._received[:end]).decode("latin-1")
            length = 0
            for line in head.split("\r\n")[1:]:
                name, _, value = line.partition(":")
                if name.lower() == "content-length":
                    length = int(value)
            if len(self._received) < end + 4 + length:
                return
            body = bytes(self._received[end + 4 : end + 4 + length])
            del self._received[: end + 4 + length]
            method, path, _ = head.split(" ", 2)
            # Goes on when the client has left, as the models of a provider do.
            task = asyncio.get_running_loop().create_task(self._answer(method, path, body))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _write(self, data: bytes) -> None:
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.write(data)

    def _reply(self, status: int, content: object) -> None:
        data = json.dumps(content).encode()
        head = f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\n"
        self._write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)

    async def _answer(self, method: str, path: str, body: bytes) -> None:
        assert self._transport is not None
        if method == "GET":
            self._reply(200, self._accounts.rows())
            return
        request = json.loads(body)
        named = request.get("user") or (request.get("metadata") or {}).get("user_id")
        label = read_label(named or path.split("/")[1].replace("%3B", ";"))
        billed = bill_call(label, request)
        if path.startswith("/quote/"):
            before = {name: self._accounts.owed[name] for name in label.accounts}
            self._reply(200, {"cost": billed.pico, "owed": before})
            return
        await self._serve(path, request, label, billed)

    async def _serve(
        self, path: str, request: dict[str, Any], label: Label, billed: Billed
    ) -> None:
        assert self._transport is not None
        ends = label.fate in (Fate.LATE, Fate.LEFT)
        if label.pause_ms:
            await asyncio.sleep(label.pause_ms / 1000)
        if label.fate in (Fate.ERROR, Fate.BUSY):
            status = 500 if label.fate is Fate.ERROR else 429
            self._reply(status, {"error": {"message": "try again", "type": "server_error"}})
            return
        if not ends:
            self._accounts.add(label, billed)
        if label.fate is Fate.GATEWAY:
            self._reply(502, {"error": {"message": "bad gateway", "type": "server_error"}})
            return
        if label.fate is Fate.DROP:
            self._transport.close()
            return
        pieces = _reply_pieces(path, request, label, billed)
        kind = "text/event-stream" if request.get("stream") else "application/json"
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
        chunks = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces]
        middle = max(1, len(chunks) // 2)
        if label.fate is Fate.CUT:
            self._write(head.encode() + b"".join(chunks[:middle]))
            self._transport.close()
            return
        if ends:
            self._write(head.encode() + b"".join(chunks[:middle]))
            await asyncio.sleep(0.02)
            self._accounts.add(label, billed)
            self._write(b"".join(chunks[middle:]) + b"0\r\n\r\n")
            return
        self._write(head.encode() + b"".join(chunks) + b"0\r\n\r\n")


def _reply_pieces(path: str, request: dict[str, Any], label: Label, billed: Billed) -> list[bytes]:
    """Return a reply in pieces."""
    model, text = request["model"], _WORD * min(8, billed.written)
    read, written = billed.read, billed.written
    if label.fate is Fate.ZERO:
        read = written = 0
    shows = label.fate is not Fate.SILENT
    usage: dict[str, Any]
    if path.endswith("/messages"):
        hidden = {} if label.fate is Fate.ZERO else {
            "cache_creation_input_tokens": billed.stored,
            "cache_creation": {"ephemeral_1h_input_tokens": billed.stored_1h},
            "cache_read_input_tokens": billed.cached,
        }  # fmt: skip
        plain = read - billed.stored - billed.cached if hidden else 0
        usage = {"input_tokens": plain, "output_tokens": written, **hidden}
        return _message(model, text, usage if shows else {}, streams=bool(request.get("stream")))
    if path.endswith("/responses"):
        usage = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written,
                 "input_tokens_details": {"cached_tokens": billed.cached}}  # fmt: skip
        item = {"type": "message", "role": "assistant",
                "content": [{"type": "output_text", "text": text}]}  # fmt: skip
        whole = {"id": "r", "object": "response", "status": "completed", "model": model,
                 "output": [item], "usage": usage if shows else None}  # fmt: skip
        if not request.get("stream"):
            return _halves(json.dumps(whole).encode())
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        return [
            _event({"type": "response.created", "response": begun}),
            _event({"type": "response.completed", "response": whole}),
        ]
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written,
             "prompt_tokens_details": {"cached_tokens": billed.cached}}  # fmt: skip
    base = {"id": "c", "model": model}
    if not request.get("stream"):
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        more = {"usage": usage} if shows else {}
        return _halves(json.dumps({**base, "choices": [choice], **more}).encode())
    delta = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    events = [_event({**base, "choices": [delta]})]
    if shows and (request.get("stream_options") or {}).get("include_usage"):
        events.append(_event({**base, "choices": [], "usage": usage}))
    return [*events, b"data: [DONE]\n\n"]


def _message(model: str, text: str, usage: dict[str, Any], *, streams: bool) -> list[bytes]:
    base = {"id": "m", "type": "message", "role": "assistant", "model": model}
    told = {"usage": usage} if usage else {}
    if not streams:
        content = [{"type": "text", "text": text}]
        reply = {**base, "content": content, "stop_reason": "end_turn", **told}
        return _halves(json.dumps(reply).encode())
    first = {"usage": {**usage, "output_tokens": 1}} if usage else {}
    last = {"usage": {"output_tokens": usage["output_tokens"]}} if usage else {}
    return [
        _event({"type": "message_start", "message": {**base, "content": [], **first}}),
        _event({"type": "content_block_delta", "index": 0,
                "delta": {"type": "text_delta", "text": text}}),
        _event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, **last}),
        _event({"type": "message_stop"}),
    ]  # fmt: skip


def _halves(data: bytes) -> list[bytes]:
    return [data[: len(data) // 2], data[len(data) // 2 :]]


def _event(content: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(content).encode() + b"\n\n"


async def serve(port: int) -> None:
    """Serve until killed."""
    accounts = Accounts()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(accounts), "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
