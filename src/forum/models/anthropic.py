"""Anthropic's messages API.

A structured output is requested as a tool that the model must call, which every model of this API
supports; the arguments of that tool are the output.
"""

from typing import Any

import msgspec

from forum.engine import DeltaCallback, ModelCall
from forum.models import wire
from forum.models.prices import BilledTokens
from forum.models.provider_http import SseEvent
from forum.work.policy import Chat
from forum.work.prompt import MessageRole
from forum.work.team_settings import RESERVED_OPTIONS

VERSION = "2023-06-01"

_FINISHES = {"max_tokens": wire.Finish.LENGTH, "refusal": wire.Finish.REFUSED}
_OVERLOADED = frozenset({"overloaded_error", "rate_limit_error"})


class AnthropicWire:
    """The protocol of the messages API."""

    path = "/messages"

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers that authenticate a request."""
        return {"anthropic-version": VERSION} | ({"x-api-key": key} if key else {})

    def body(self, spec: Chat, call: ModelCall) -> dict[str, Any]:
        """Return the request body."""
        own: dict[str, Any] = {
            "model": spec.model,
            "messages": _messages(call),
            "stream": True,
            "max_tokens": spec.max_tokens,
        }
        if system := wire.system_of(wire.messages_of(call)):
            own["system"] = system
        tools = [_tool(one.name, one.description, one.schema) for one in call.offers]
        if call.schema:
            name = _answer_name(call)
            tools.append(_tool(name, "Give the final answer.", call.schema))
            # If tools are offered, the model may call one
            # of them first, but it must call some tool.
            only = {"type": "tool", "name": name}
            own["tool_choice"] = {"type": "any"} if call.offers else only
        if tools:
            own["tools"] = tools
        return wire.merge_options(spec.options, own, RESERVED_OPTIONS)

    def read(self, call: ModelCall) -> "_AnthropicReader":
        """Return the reader for the response."""
        return _AnthropicReader(_answer_name(call) if call.schema else None, call.hear)


def _answer_name(call: ModelCall) -> str:
    """Return a name for the output tool that no offered tool has."""
    name, taken = wire.ANSWER_NAME, {offer.name for offer in call.offers}
    while name in taken:
        name += "_"
    return name


def _tool(name: str, description: str, schema: bytes) -> dict[str, Any]:
    return {
        "name": name,
        "description": description,
        "input_schema": wire.parse_tool_schema(schema),
    }


def _messages(call: ModelCall) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    asked = wire.ToolCallIds(call.offers)
    for number, turn in enumerate(wire.messages_of(call)):
        if turn.who is MessageRole.SYSTEM:
            continue
        role = "assistant" if turn.who is MessageRole.AGENT else "user"
        # The API rejects empty text blocks, so a turn may have no text block at all.
        blocks: list[dict[str, Any]] = []
        if turn.who is MessageRole.TOOL and (name := asked.id_of(turn.use)) is not None:
            result = {"type": "tool_result", "tool_use_id": name, "content": wire.text_of(turn)}
            blocks.append(result)
        elif turn.text:
            blocks.append({"type": "text", "text": wire.text_of(turn)})
        if turn.who is MessageRole.AGENT:
            blocks.extend(
                {"type": "tool_use", "id": name, "name": use.tool, "input": asked.arguments(use)}
                for name, use in zip(asked.make_ids(number, turn.uses), turn.uses, strict=True)
            )
        # The API requires the results of all tool calls of a turn in one message.
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"].extend(blocks)
        else:
            messages.append({"role": role, "content": blocks})
    return messages


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
    usage: msgspec.Raw = msgspec.Raw(b"null")
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
    usage: msgspec.Raw = msgspec.Raw(b"null")
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


class _AnthropicReader:
    """A response of the messages API that is being received."""

    def __init__(self, answer: str | None, hear: DeltaCallback) -> None:
        self.said = wire.ReplyBuilder(hear)
        self._answer = answer
        self._answering: set[int] = set()
        """The indexes of blocks that hold the output, as arguments of the output tool."""
        self._usage: _AnthropicUsage | None = _AnthropicUsage()

    def read_event(self, event: SseEvent) -> bool:
        """Process an event; return whether it was the last one."""
        told = _event.decode(event.data)
        match told.type or event.name:
            case "message_start" if told.message is not None:
                self.said.model = told.message.model
                self._add_usage(bytes(told.message.usage))
            case "content_block_start" if told.content_block is not None:
                self._start_block(told.index, told.content_block)
            case "content_block_delta" if told.delta is not None:
                self._add_delta(told.index, told.delta)
            case "message_delta":
                reason = told.delta.stop_reason if told.delta else None
                self.said.finish = _FINISHES.get(reason or "", wire.Finish.COMPLETE)
                self._add_usage(bytes(told.usage))
            case "message_stop":
                self.said.tokens = _tokens(self._usage)
                return True
            case "error":
                self._set_error(told.error, event.data)
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
        self.said.model = message.model
        for index, block in enumerate(message.content):
            self._start_block(index, block)
            given = bytes(block.input).decode() if block.type == "tool_use" else ""
            self._add_delta(index, _AnthropicDelta(block.text, given))
        self.said.finish = _FINISHES.get(message.stop_reason or "", wire.Finish.COMPLETE)
        self._add_usage(bytes(message.usage))
        self.said.tokens = _tokens(self._usage)
        return True

    def _set_error(self, error: _Error | None, told: bytes) -> None:
        busy = error is not None and error.type in _OVERLOADED
        self.said.set_error(wire.Finish.OVERLOADED if busy else wire.Finish.FAILED, told)

    def _start_block(self, index: int, block: _Block) -> None:
        if block.type != "tool_use":
            return
        if block.name == self._answer:
            self._answering.add(index)
            self.said.parts.clear()  # text before the output tool is not part of the output
        else:
            self.said.add_tool_call(index, block.name, "")

    def _add_delta(self, index: int, delta: _AnthropicDelta) -> None:
        if index in self._answering:
            self.said.add_text(delta.partial_json)
        elif index in self.said.tool_calls:
            self.said.add_tool_call(index, "", delta.partial_json)
        elif not self._answering:
            # With a schema, this text is the output only if no call of
            # the output tool follows; so it is kept but not streamed.
            self.said.add_text(delta.text, heard=self._answer is None)

    def _add_usage(self, usage: bytes) -> None:
        """Merge token counts; later events override earlier ones, field by field."""
        try:
            told = _usage.decode(usage)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            self._usage = None
        if self._usage is None:
            return
        for name in _AnthropicUsage.__struct_fields__:
            if (number := getattr(told, name)) is not None:
                setattr(self._usage, name, number)


def _tokens(usage: _AnthropicUsage | None) -> BilledTokens | None:
    """Return the total token counts, or None if they are missing or implausible."""
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    kept, cached = usage.cache_creation_input_tokens or 0, usage.cache_read_input_tokens or 0
    if not wire.is_valid_count(usage.input_tokens, usage.output_tokens, kept, cached):
        return None
    return BilledTokens(usage.input_tokens + kept + cached, usage.output_tokens, cached, kept)
