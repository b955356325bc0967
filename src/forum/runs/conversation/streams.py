"""Put the events of a streamed reply together: the value is that of a reply without streaming."""

import re
from abc import ABC, abstractmethod
from typing import Any

from msgspec import Struct

from forum.runs.conversation.json_values import (
    UNREADABLE,
    as_count,
    as_list,
    as_object,
    as_text,
    decode_json,
)
from forum.runs.server_sent_events import ReplyTooLarge, SseEvent, SseParser

_STREAM_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")
_JSON_EVENT = re.compile(rb"^data: ?(\{|\[DONE\])", re.MULTILINE)
_MAX_ITEMS = 10_000
"""How many choices, blocks or tool calls a reply may have."""
_ENDED_RESPONSES = frozenset({"response.completed", "response.incomplete", "response.failed"})


class JoinedStream(Struct, frozen=True):
    """A reply that was streamed, as one value, and what is wrong with the stream."""

    value: Any
    note: str = ""


def is_stream(body: bytes) -> bool:
    """Return whether a body is a stream of server-sent events, and no prose like `id: 5`."""
    start = body[:100].lstrip(b"\xef\xbb\xbf \t\r\n")
    return start.startswith(_STREAM_STARTS) and _JSON_EVENT.search(body) is not None


def join_stream(body: bytes) -> JoinedStream | None:
    """Return the reply in a stream; None for a stream of no known format."""
    events, is_done, unreadable = _read_events(body)
    for joiner_type in _JOINERS:
        if any(map(joiner_type.recognizes, events)):
            joiner = joiner_type()
            for event in events:
                joiner.add(event)
            is_whole = not unreadable and (joiner.has_ended or is_done)
            return JoinedStream(joiner.join(), "" if is_whole else "the stream is incomplete")
    error = next((event for event in events if "error" in event), None)
    return None if error is None else JoinedStream(error)


def _read_events(body: bytes) -> tuple[list[dict[str, Any]], bool, bool]:
    """Return the events, whether the stream marks its end, and whether some cannot be read."""
    events: list[dict[str, Any]] = []
    is_done = unreadable = False
    try:
        # The last event may lack the empty line that ends it.
        for event in SseParser().feed(body + b"\n\n"):
            if event.data == b"[DONE]":
                is_done = True
                continue
            value = _decode_event(event)
            unreadable |= value is None
            events += [] if value is None else [value]
    except ReplyTooLarge:
        unreadable = True
    return events, is_done, unreadable


def _decode_event(event: SseEvent) -> dict[str, Any] | None:
    try:
        value = decode_json(event.data)
    except UNREADABLE:
        return None
    if not isinstance(value, dict):
        return None
    if event.name and "type" not in value:
        value["type"] = event.name
    return value


class _Texts:
    """Texts that grow piece by piece, by key."""

    def __init__(self) -> None:
        self._pieces: dict[Any, list[str]] = {}

    def add(self, key: object, piece: object) -> None:
        if isinstance(piece, str) and (key in self._pieces or len(self._pieces) < _MAX_ITEMS):
            self._pieces.setdefault(key, []).append(piece)

    def get(self, key: object) -> str:
        return "".join(self._pieces.get(key, ()))

    def has(self, key: object) -> bool:
        return key in self._pieces


class _ReplyJoiner(ABC):
    """Puts the events of one format together."""

    def __init__(self) -> None:
        self.texts = _Texts()
        self.reply: dict[str, Any] = {}
        self.has_ended = False

    @staticmethod
    @abstractmethod
    def recognizes(event: dict[str, Any]) -> bool:
        """Return whether an event is of this format."""

    @abstractmethod
    def add(self, event: dict[str, Any]) -> None:
        """Add the next event."""

    @abstractmethod
    def join(self) -> dict[str, Any]:
        """Return the reply."""


class _ChatJoiner(_ReplyJoiner):
    """Chat completions, and completions."""

    def __init__(self) -> None:
        super().__init__()
        self._choices: dict[int, dict[str, Any]] = {}
        self._tools: dict[int, dict[int, dict[str, str]]] = {}
        """The calls of each choice."""
        self._tool_count = 0

    @staticmethod
    def recognizes(event: dict[str, Any]) -> bool:
        return isinstance(event.get("choices"), list)

    def add(self, event: dict[str, Any]) -> None:
        for name in ("model", "usage", "error"):
            if event.get(name):
                self.reply[name] = event[name]
        for part in map(as_object, as_list(event.get("choices"))):
            self._add_choice(part)

    def _add_choice(self, part: dict[str, Any]) -> None:
        number = as_count(part.get("index")) or 0
        if number not in self._choices and len(self._choices) >= _MAX_ITEMS:
            return
        choice = self._choices.setdefault(number, {})
        if part.get("finish_reason"):
            choice["finish_reason"], self.has_ended = part["finish_reason"], True
        self.texts.add((number, "plain"), part.get("text"))
        delta = as_object(part.get("delta"))
        for name in _CHAT_TEXTS:
            self.texts.add((number, name), delta.get(name))
        for call in map(as_object, as_list(delta.get("tool_calls"))):
            self._add_tool((number, as_count(call.get("index")) or 0), call)

    def _add_tool(self, key: tuple[int, int], call: dict[str, Any]) -> None:
        tools = self._tools.setdefault(key[0], {})
        if key[1] not in tools:
            if self._tool_count >= _MAX_ITEMS:
                return
            self._tool_count += 1
        tool = tools.setdefault(key[1], {"id": "", "name": ""})
        function = as_object(call.get("function")) or as_object(call.get("custom"))
        tool["id"] = tool["id"] or as_text(call.get("id"))
        tool["name"] = tool["name"] or as_text(function.get("name"))
        self.texts.add(key, function.get("arguments"))
        self.texts.add(key, function.get("input"))

    def join(self) -> dict[str, Any]:
        choices = [self._join_choice(*item) for item in sorted(self._choices.items())]
        return self.reply | {"choices": choices}

    def _join_choice(self, number: int, choice: dict[str, Any]) -> dict[str, Any]:
        if self.texts.has((number, "plain")):
            return choice | {"text": self.texts.get((number, "plain"))}
        called = [
            {
                "id": tool["id"],
                "function": {"name": tool["name"], "arguments": self.texts.get((number, index))},
            }
            for index, tool in sorted(self._tools.get(number, {}).items())
        ]
        message = {name: self.texts.get((number, name)) for name in _CHAT_TEXTS}
        return choice | {"message": {"role": "assistant", "tool_calls": called, **message}}


_CHAT_TEXTS = ("content", "refusal", "reasoning_content", "reasoning")
_BLOCK_DELTAS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "input_json_delta": "partial_json",
}


class _MessagesJoiner(_ReplyJoiner):
    """Anthropic's messages."""

    def __init__(self) -> None:
        super().__init__()
        self.reply = {"type": "message", "role": "assistant"}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}

    @staticmethod
    def recognizes(event: dict[str, Any]) -> bool:
        return event.get("type") in ("message_start", "content_block_delta")

    def add(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "message_start":
                message = as_object(event.get("message"))
                self.reply["model"] = message.get("model")
                self._usage |= as_object(message.get("usage"))
            case "content_block_start" | "content_block_delta":
                self._add_block(event)
            case "message_delta":
                self.reply |= as_object(event.get("delta"))
                self._usage |= as_object(event.get("usage"))
            case "message_stop":
                self.has_ended = True
            case "error":
                self.reply["error"] = event.get("error")
            case _:
                pass

    def _add_block(self, event: dict[str, Any]) -> None:
        number = as_count(event.get("index")) or 0
        if number not in self._blocks and len(self._blocks) >= _MAX_ITEMS:
            return
        if "content_block" in event:
            self._blocks[number] = dict(as_object(event["content_block"]))
            return
        self._blocks.setdefault(number, {})
        delta = as_object(event.get("delta"))
        name = _BLOCK_DELTAS.get(as_text(delta.get("type")), "")
        self.texts.add((number, name), delta.get(name))

    def join(self) -> dict[str, Any]:
        content = [self._join_block(*item) for item in sorted(self._blocks.items())]
        return self.reply | {"usage": self._usage, "content": content}

    def _join_block(self, number: int, block: dict[str, Any]) -> dict[str, Any]:
        for name in ("text", "thinking"):
            if self.texts.has((number, name)):
                block[name] = as_text(block.get(name)) + self.texts.get((number, name))
                block.setdefault("type", name)
        if self.texts.has((number, "partial_json")):
            block["input"] = _parse_arguments(self.texts.get((number, "partial_json")))
            block.setdefault("type", "tool_use")
        return block


def _parse_arguments(text: str) -> object:
    try:
        return decode_json(text.encode(errors="replace")) if text else {}
    except UNREADABLE:
        return text


_ITEM_DELTAS = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
    "response.mcp_call_arguments.delta": "arguments",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
}


class _ResponsesJoiner(_ReplyJoiner):
    """OpenAI's responses.  The last event usually has all that came before."""

    def __init__(self) -> None:
        super().__init__()
        self._items: dict[int, dict[str, Any]] = {}
        self._ended: set[int] = set()

    @staticmethod
    def recognizes(event: dict[str, Any]) -> bool:
        return as_text(event.get("type")).startswith("response.")

    def add(self, event: dict[str, Any]) -> None:
        kind = as_text(event.get("type"))
        number = as_count(event.get("output_index")) or 0
        self.reply |= as_object(event.get("response"))
        self.has_ended |= kind in _ENDED_RESPONSES
        if kind == "error":
            error = {"message": event.get("message"), **as_object(event.get("error"))}
            self.reply["error"] = error
        elif kind in _ITEM_DELTAS:
            self.texts.add((number, _ITEM_DELTAS[kind]), event.get("delta"))
        elif kind in ("response.output_item.added", "response.output_item.done"):
            if number in self._items or len(self._items) < _MAX_ITEMS:
                self._items[number] = as_object(event.get("item"))
            if kind.endswith("done"):
                self._ended.add(number)

    def join(self) -> dict[str, Any]:
        if as_list(self.reply.get("output")):
            return self.reply
        items = [self._join_item(*item) for item in sorted(self._items.items())]
        return self.reply | {"output": items}

    def _join_item(self, number: int, item: dict[str, Any]) -> dict[str, Any]:
        """Return an item with what was streamed of it."""
        if number in self._ended:
            return item
        item = dict(item)
        for name in ("arguments", "input"):
            if self.texts.has((number, name)):
                item[name] = self.texts.get((number, name))
        content = [
            {"type": kind, name: self.texts.get((number, name))}
            for kind, name in (("output_text", "text"), ("refusal", "refusal"))
            if self.texts.has((number, name))
        ]
        if content:
            item["content"] = content
        if self.texts.has((number, "reasoning")):
            text = self.texts.get((number, "reasoning"))
            item["summary"] = [{"type": "summary_text", "text": text}]
        return item


class _GeminiJoiner(_ReplyJoiner):
    """Gemini: each event is a reply with the next parts."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[Any] = []
        self._pieces: list[str] = []
        """What continues the text of the last part."""
        self._finish = ""

    @staticmethod
    def recognizes(event: dict[str, Any]) -> bool:
        return isinstance(event.get("candidates"), list)

    def add(self, event: dict[str, Any]) -> None:
        self.reply |= {name: member for name, member in event.items() if name != "candidates"}
        for candidate in map(as_object, as_list(event.get("candidates"))[:1]):
            self._finish = as_text(candidate.get("finishReason")) or self._finish
            self.has_ended |= bool(self._finish)
            for part in as_list(as_object(candidate.get("content")).get("parts")):
                self._add_part(part)

    def _add_part(self, part: object) -> None:
        """Add a part; a text continues the text before it."""
        last, added = as_object(self._parts[-1] if self._parts else None), as_object(part)
        is_text = isinstance(last.get("text"), str) and isinstance(added.get("text"), str)
        if is_text and bool(last.get("thought")) is bool(added.get("thought")):
            self._pieces.append(added["text"])
        else:
            self._end_part()
            self._parts.append(part)

    def _end_part(self) -> None:
        if self._pieces:
            self._parts[-1]["text"] += "".join(self._pieces)
            self._pieces.clear()

    def join(self) -> dict[str, Any]:
        self._end_part()
        content = {"role": "model", "parts": self._parts}
        return self.reply | {"candidates": [{"content": content, "finishReason": self._finish}]}


_JOINERS: tuple[type[_ReplyJoiner], ...] = (
    _ResponsesJoiner,
    _MessagesJoiner,
    _ChatJoiner,
    _GeminiJoiner,
)
