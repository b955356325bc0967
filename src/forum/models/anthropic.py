"""Anthropic's messages API.

A structured output is requested as a tool that the model must call, which every model of this API
supports; the arguments of that tool are the output.

The provider stores what a request marks with `cache_control`: tools, system and messages, in this
order, up to that mark.  Storing costs more than reading, so only what further calls send again is
marked, and only where the price of it is known.
"""

from typing import Any

import msgspec

from forum.engine import ModelCall
from forum.models import wire
from forum.models.prices import BilledTokens, has_cache_price
from forum.runs.policy import API_ENDPOINTS, Api, Chat
from forum.runs.prompt import MessageRole
from forum.runs.server_sent_events import SseEvent

VERSION = "2023-06-01"

_FINISHES = {"max_tokens": wire.Finish.LENGTH, "refusal": wire.Finish.REFUSED}
_OVERLOADED = frozenset({"overloaded_error", "rate_limit_error"})


class _Block(msgspec.Struct):
    type: str = ""
    name: str = ""
    text: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")


class _AnthropicDelta(msgspec.Struct):
    text: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class _Message(msgspec.Struct):
    model: str = ""
    usage: msgspec.Raw = wire.NULL
    type: str = ""
    content: list[_Block] = []
    stop_reason: str | None = None


class _Error(msgspec.Struct):
    type: str = ""


class _AnthropicEvent(msgspec.Struct):
    type: str = ""
    index: int = 0
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _AnthropicDelta | None = None
    usage: msgspec.Raw = wire.NULL
    error: _Error | None = None


class _AnthropicUsage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


# Created at import time: two threads that make msgspec
# inspect a type at the same time crash the process.
_event = msgspec.json.Decoder(_AnthropicEvent)
_message = msgspec.json.Decoder(_Message)
_usage = msgspec.json.Decoder(_AnthropicUsage)


class AnthropicWire(wire.Wire):
    """A call of the messages API."""

    path = API_ENDPOINTS[Api.ANTHROPIC].path

    def __init__(self, spec: Chat, call: ModelCall) -> None:
        super().__init__(spec, call)
        self._answer = _answer_name(call) if call.schema else None
        self._answering: set[int] = set()
        """The indexes of blocks that hold the output, as arguments of the output tool."""
        self._usage: _AnthropicUsage | None = _AnthropicUsage()

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers that authenticate a request."""
        return {"anthropic-version": VERSION} | ({"x-api-key": key} if key else {})

    def own_fields(self) -> dict[str, Any]:
        """Return the fields of the request body that are peculiar to this API."""
        call = self.call
        fields: dict[str, Any] = {"messages": _messages(call), "max_tokens": self.spec.max_tokens}
        if system := wire.system_of(call):
            fields["system"] = system
        if has_cache_price(self.spec):
            _mark_prefixes(fields, call)
        tools = [_tool(offer.name, offer.description, offer.schema) for offer in call.offers]
        if self._answer is not None:
            tools.append(_tool(self._answer, "Give the final answer.", call.schema))
            # If tools are offered, the model may call one
            # of them first, but it must call some tool.
            only = {"type": "tool", "name": self._answer}
            fields["tool_choice"] = {"type": "any"} if call.offers else only
        if tools:
            fields["tools"] = tools
        return fields

    def read_event(self, event: SseEvent) -> bool:
        """Process an event; return whether it was the last one."""
        decoded = _event.decode(event.data)
        match decoded.type or event.name:
            case "message_start" if decoded.message is not None:
                self.reply.model = decoded.message.model
                self._add_usage(decoded.message.usage)
            case "content_block_start" if decoded.content_block is not None:
                self._start_block(decoded.index, decoded.content_block)
            case "content_block_delta" if decoded.delta is not None:
                self._add_delta(decoded.index, decoded.delta)
            case "message_delta":
                reason = decoded.delta.stop_reason if decoded.delta else None
                self.reply.finish = _FINISHES.get(reason or "", wire.Finish.COMPLETE)
                self._add_usage(decoded.usage)
            case "message_stop":
                self.reply.tokens = _tokens(self._usage)
                return True
            case "error":
                self._set_error(decoded.error, event.data)
                return True
            case _:
                pass  # pings, ends of blocks, and future event types
        return False

    def read_body(self, body: bytes) -> bool:
        """Process a response that was not streamed: a `message`."""
        message = _message.decode(body)
        if message.type == "error":
            self._set_error(_event.decode(body).error, body)
            return True
        if message.type != "message":
            return False
        self.reply.model = message.model
        for index, block in enumerate(message.content):
            self._start_block(index, block)
            arguments = bytes(block.input).decode() if block.type == "tool_use" else ""
            self._add_delta(index, _AnthropicDelta(block.text, arguments))
        self.reply.finish = _FINISHES.get(message.stop_reason or "", wire.Finish.COMPLETE)
        self._add_usage(message.usage)
        self.reply.tokens = _tokens(self._usage)
        return True

    def _set_error(self, error: _Error | None, message: bytes) -> None:
        busy = error is not None and error.type in _OVERLOADED
        self.reply.set_error(message, wire.Finish.OVERLOADED if busy else wire.Finish.FAILED)

    def _start_block(self, index: int, block: _Block) -> None:
        if block.type != "tool_use":
            return
        if block.name == self._answer:
            self._answering.add(index)
            self.reply.parts.clear()  # text before the output tool is not part of the output
        else:
            self.reply.add_tool_call(index, block.name, "")

    def _add_delta(self, index: int, delta: _AnthropicDelta) -> None:
        if index in self._answering:
            self.reply.add_text(delta.partial_json)
        elif index in self.reply.tool_calls:
            self.reply.add_tool_call(index, "", delta.partial_json)
        elif not self._answering:
            # With a schema, this text is the output only if no call of
            # the output tool follows; so it is kept but not streamed.
            self.reply.add_text(delta.text, streamed=self._answer is None)

    def _add_usage(self, raw: msgspec.Raw) -> None:
        """Merge token counts; later events override earlier ones, field by field."""
        usage = wire.decode_usage(_usage, raw)
        if self._usage is None or usage is None:
            self._usage = None
            return
        for name in _AnthropicUsage.__struct_fields__:
            if (number := getattr(usage, name)) is not None:
                setattr(self._usage, name, number)


def _answer_name(call: ModelCall) -> str:
    """Return a name for the output tool that no offered tool has."""
    name, offered = wire.ANSWER_NAME, {offer.name for offer in call.offers}
    while name in offered:
        name += "_"
    return name


_CACHE: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}


def _mark_prefixes(fields: dict[str, Any], call: ModelCall) -> None:
    """Mark what further calls begin with: the request that tasks share, and, with tools, all."""
    shared = next((message.shared for message in wire.messages_of(call) if message.shared), 0)
    if not shared and not call.offers:
        return
    if "system" in fields:
        fields["system"] = [{"type": "text", "text": fields["system"]} | _CACHE]
    first, last = (fields["messages"][place]["content"] for place in (0, -1))
    if shared:
        text = first[0]["text"]
        first[:1] = [
            {"type": "text", "text": text[:shared]} | _CACHE,
            first[0] | {"text": text[shared:]},
        ]
    if call.offers and last:
        # The results of tools are added to the conversation, which is sent again with them.
        last[-1] = last[-1] | _CACHE


def _tool(name: str, description: str, schema: bytes) -> dict[str, Any]:
    form = wire.parse_tool_schema(schema)
    return {"name": name, "description": description, "input_schema": form}


def _messages(call: ModelCall) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for message in wire.messages_of(call):
        if message.who is MessageRole.SYSTEM:
            continue
        role = "assistant" if message.who is MessageRole.AGENT else "user"
        # The API rejects empty text blocks, so a turn may have no text block at all.
        blocks: list[dict[str, Any]] = []
        if message.answers:
            result = {"tool_use_id": message.answers.id, "content": message.text}
            blocks.append({"type": "tool_result", **result})
        elif message.text:
            blocks.append({"type": "text", "text": message.text})
        blocks.extend(
            {"type": "tool_use", "id": used.id, "name": used.tool, "input": used.arguments}
            for used in message.calls
        )
        # The API requires the results of all tool calls of a turn in one message.
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"].extend(blocks)
        else:
            messages.append({"role": role, "content": blocks})
    return messages


def _tokens(usage: _AnthropicUsage | None) -> BilledTokens | None:
    """Return the total token counts, or None if they are missing or implausible."""
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    cache_write = usage.cache_creation_input_tokens or 0
    cache_read = usage.cache_read_input_tokens or 0
    # Checked before the sum, which would hide that this count is negative.
    if usage.input_tokens < 0:
        return None
    total = usage.input_tokens + cache_write + cache_read
    return wire.billed_tokens(total, usage.output_tokens, cache_read, cache_write)
