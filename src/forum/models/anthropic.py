"""Anthropic's messages API.

The form of an output is asked for as a tool that has to be used, which every model of this API
understands; what the tool is given is the output.
"""

from typing import Any

import msgspec

from forum.engine import Call, Hear
from forum.models.http import Event
from forum.models.prices import Tokens
from forum.models.wire import (
    ANSWER,
    Asked,
    Finish,
    Said,
    count,
    merge,
    schema_of,
    system_of,
    turns_of,
    words,
)
from forum.work import OURS, Chat, Who

VERSION = "2023-06-01"

_FINISHES = {"max_tokens": Finish.LENGTH, "refusal": Finish.REFUSED}
_OVERLOADED = frozenset({"overloaded_error", "rate_limit_error"})


class AnthropicWire:
    """How the messages API is spoken."""

    path = "/messages"

    def headers(self, key: str) -> dict[str, str]:
        """Return what says who we are."""
        return {"anthropic-version": VERSION} | ({"x-api-key": key} if key else {})

    def body(self, spec: Chat, call: Call) -> dict[str, Any]:
        """Return the request in this API's words."""
        own: dict[str, Any] = {
            "model": spec.model,
            "messages": _messages(call),
            "stream": True,
            "max_tokens": spec.max_tokens,
        }
        if system := system_of(turns_of(call)):
            own["system"] = system
        tools = [_tool(one.name, one.description, one.schema) for one in call.offers]
        if call.schema:
            name = _answer_name(call)
            tools.append(_tool(name, "Give the final answer.", call.schema))
            only = {"type": "tool", "name": name}
            own["tool_choice"] = {"type": "any"} if call.offers else only
        if tools:
            own["tools"] = tools
        return merge(spec.options, own, OURS)

    def read(self, call: Call) -> "_Reading":
        """Return what will read the answer."""
        return _Reading(_answer_name(call) if call.schema else None, call.hear)


def _answer_name(call: Call) -> str:
    """Return what the tool for the output is called: like none that is offered."""
    name, taken = ANSWER, {offer.name for offer in call.offers}
    while name in taken:
        name += "_"
    return name


def _tool(name: str, description: str, schema: bytes) -> dict[str, Any]:
    return {"name": name, "description": description, "input_schema": schema_of(schema)}


def _messages(call: Call) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    asked = Asked(call.offers)
    for number, turn in enumerate(turns_of(call)):
        if turn.who is Who.SYSTEM:
            continue
        role = "assistant" if turn.who is Who.AGENT else "user"
        # A text without letters is refused.
        blocks: list[dict[str, Any]] = []
        if turn.who is Who.TOOL and (name := asked.id_of(turn.use)) is not None:
            result = {"type": "tool_result", "tool_use_id": name, "content": words(turn)}
            blocks.append(result)
        elif turn.text:
            blocks.append({"type": "text", "text": words(turn)})
        if turn.who is Who.AGENT:
            blocks.extend(
                {"type": "tool_use", "id": name, "name": use.tool, "input": asked.arguments(use)}
                for name, use in zip(asked.ids(number, turn.uses), turn.uses, strict=True)
            )
        # The results of all wishes belong into one message.
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


class _Delta(msgspec.Struct):
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


class _Event(msgspec.Struct):
    type: str = ""
    index: int = 0
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: msgspec.Raw = msgspec.Raw(b"null")
    error: _Error | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


# Made once, here: two threads that let msgspec take in a type at the same time crash the process.
_event = msgspec.json.Decoder(_Event)
_message = msgspec.json.Decoder(_Message)
_usage = msgspec.json.Decoder(_Usage)


class _Reading:
    """An answer that is coming in."""

    def __init__(self, answer: str | None, hear: Hear) -> None:
        self.said = Said(hear)
        self._answer = answer
        self._answering: set[int] = set()
        """The blocks that hold the output, as what a tool is given."""
        self._usage: _Usage | None = _Usage()

    def take(self, event: Event) -> bool:
        """Take in an event, and tell whether it was the last one."""
        told = _event.decode(event.data)
        match told.type or event.name:
            case "message_start" if told.message is not None:
                self.said.model = told.message.model
                self._count(bytes(told.message.usage))
            case "content_block_start" if told.content_block is not None:
                self._begin(told.index, told.content_block)
            case "content_block_delta" if told.delta is not None:
                self._go_on(told.index, told.delta)
            case "message_delta":
                reason = told.delta.stop_reason if told.delta else None
                self.said.finish = _FINISHES.get(reason or "", Finish.COMPLETE)
                self._count(bytes(told.usage))
            case "message_stop":
                self.said.tokens = _tokens(self._usage)
                return True
            case "error":
                self._fail(told.error, event.data)
                return True
            case _:
                pass  # signs of life, the ends of blocks, and whatever comes to be
        return False

    def take_whole(self, body: bytes) -> bool:
        """Take in an answer that came in one piece: a `message`."""
        message = _message.decode(body)
        if message.type == "error":
            self._fail(_event.decode(body).error, body)
            return True
        if message.type != "message":
            return False
        self.said.model = message.model
        for index, block in enumerate(message.content):
            self._begin(index, block)
            given = bytes(block.input).decode() if block.type == "tool_use" else ""
            self._go_on(index, _Delta(block.text, given))
        self.said.finish = _FINISHES.get(message.stop_reason or "", Finish.COMPLETE)
        self._count(bytes(message.usage))
        self.said.tokens = _tokens(self._usage)
        return True

    def _fail(self, error: _Error | None, told: bytes) -> None:
        busy = error is not None and error.type in _OVERLOADED
        self.said.fail(Finish.OVERLOADED if busy else Finish.FAILED, told)

    def _begin(self, index: int, block: _Block) -> None:
        if block.type != "tool_use":
            return
        if block.name == self._answer:
            self._answering.add(index)
            self.said.parts.clear()  # what it said before it answered is not the answer
        else:
            self.said.wish(index, block.name, "")

    def _go_on(self, index: int, delta: _Delta) -> None:
        if index in self._answering:
            self.said.add(delta.partial_json)
        elif index in self.said.wishes:
            self.said.wish(index, "", delta.partial_json)
        elif not self._answering:
            # Where a form is asked for, this is the answer only if none in that form follows.
            self.said.add(delta.text, heard=self._answer is None)

    def _count(self, usage: bytes) -> None:
        """Take in how much was used: what is told later holds, part by part."""
        try:
            told = _usage.decode(usage)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            self._usage = None
        if self._usage is None:
            return
        for name in _Usage.__struct_fields__:
            if (number := getattr(told, name)) is not None:
                setattr(self._usage, name, number)


def _tokens(usage: _Usage | None) -> Tokens | None:
    """Add up how much was used; what cannot be true was not said."""
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    kept, cached = usage.cache_creation_input_tokens or 0, usage.cache_read_input_tokens or 0
    if not count(usage.input_tokens, usage.output_tokens, kept, cached):
        return None
    return Tokens(usage.input_tokens + kept + cached, usage.output_tokens, cached, kept)
