"""OpenAI's responses API."""

from typing import Any

import msgspec

from forum.engine import DeltaCallback, ModelCall
from forum.models import wire
from forum.models.prices import BilledTokens
from forum.models.provider_http import SseEvent
from forum.work.policy import Chat
from forum.work.prompt import MessageRole
from forum.work.team_settings import RESERVED_OPTIONS

# Providers are asked not to store the conversation, unless the agent's options say otherwise.
_STORE_OFF = {"store": False}
_INCOMPLETE = {"max_output_tokens": wire.Finish.LENGTH, "content_filter": wire.Finish.REFUSED}


class ResponsesWire:
    """The protocol of the responses API."""

    path = "/responses"

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers that authenticate a request."""
        return wire.bearer_headers(key)

    def body(self, spec: Chat, call: ModelCall) -> dict[str, Any]:
        """Return the request body."""
        own: dict[str, Any] = {
            "model": spec.model,
            "input": _items(call),
            "stream": True,
            "max_output_tokens": spec.max_tokens,
        }
        if system := wire.system_of(wire.messages_of(call)):
            own["instructions"] = system
        if call.offers:
            forms = [(offer, wire.parse_tool_schema(offer.schema)) for offer in call.offers]
            own["tools"] = [
                {
                    "type": "function",
                    "name": offer.name,
                    "description": offer.description,
                    "parameters": form,
                    "strict": wire.is_strict(form),
                }
                for offer, form in forms
            ]
        if call.schema:
            form = wire.parse_tool_schema(call.schema)
            named = {"name": wire.ANSWER_NAME, "schema": form, "strict": wire.is_strict(form)}
            own["text"] = {"format": {"type": "json_schema", **named}}
        return wire.merge_options(_STORE_OFF | spec.options, own, RESERVED_OPTIONS)

    def read(self, call: ModelCall) -> "_ResponsesReader":
        """Return the reader for the response."""
        return _ResponsesReader(call.hear)


def _items(call: ModelCall) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    asked = wire.ToolCallIds(call.offers)
    for number, turn in enumerate(wire.messages_of(call)):
        match turn.who:
            case MessageRole.SYSTEM:
                continue
            case MessageRole.AGENT:
                if turn.text:
                    items.append({"role": "assistant", "content": wire.text_of(turn)})
                ids = asked.make_ids(number, turn.uses)
                items.extend(
                    {
                        "type": "function_call",
                        "call_id": name,
                        "name": use.tool,
                        "arguments": msgspec.json.encode(asked.arguments(use)).decode(),
                    }
                    for name, use in zip(ids, turn.uses, strict=True)
                )
            case MessageRole.TOOL if (name := asked.id_of(turn.use)) is not None:
                output = {
                    "type": "function_call_output",
                    "call_id": name,
                    "output": wire.text_of(turn),
                }
                items.append(output)
            case MessageRole.USER | MessageRole.TOOL:
                items.append({"role": "user", "content": wire.text_of(turn)})
    return items


class _Part(msgspec.Struct):
    type: str = ""
    text: str = ""
    refusal: str = ""


class _Item(msgspec.Struct):
    type: str = ""
    name: str = ""
    arguments: str = ""
    content: list[_Part] | None = None
    """The parts of a message, in a response that is not streamed."""


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    model: str = ""
    usage: msgspec.Raw = msgspec.Raw(b"null")
    error: msgspec.Raw = msgspec.Raw(b"null")
    incomplete_details: _Incomplete | None = None
    object: str = ""
    status: str = ""
    output: list[_Item] = []


class _ResponsesEvent(msgspec.Struct):
    type: str = ""
    delta: msgspec.Raw = msgspec.Raw(b"null")
    """A string, for the event types that carry text."""
    item: _Item | None = None
    response: _Response | None = None


class _ResponsesUsageDetails(msgspec.Struct):
    cached_tokens: int | None = 0


class _ResponsesUsage(msgspec.Struct):
    input_tokens: int
    output_tokens: int
    input_tokens_details: _ResponsesUsageDetails | None = None


# Created at import time: two threads that make msgspec
# inspect a type at the same time crash the process.
_event = msgspec.json.Decoder(_ResponsesEvent)
_response = msgspec.json.Decoder(_Response)
_text = msgspec.json.Decoder(str)
_usage = msgspec.json.Decoder(_ResponsesUsage)


class _ResponsesReader:
    """A response of the responses API that is being received."""

    def __init__(self, hear: DeltaCallback) -> None:
        self.said = wire.ReplyBuilder(hear)
        self._refused = False

    def read_event(self, event: SseEvent) -> bool:
        """Process an event; return whether it was the last one."""
        told = _event.decode(event.data)
        match told.type or event.name:
            case "response.output_text.delta":
                self.said.add_text(_text.decode(told.delta))
            case "response.refusal.delta":
                self.said.add_text(_text.decode(told.delta))
                self._refused = True
            case "response.output_item.done" if told.item:
                self._add_tool_call(told.item)
            case "response.completed":
                return self._finish(told.response, wire.Finish.COMPLETE)
            case "response.incomplete":
                return self._finish(told.response, wire.Finish.FAILED)
            case "response.failed":
                self.said.set_error(
                    wire.Finish.FAILED, bytes(told.response.error) if told.response else b""
                )
                return True
            case "error":
                self.said.set_error(wire.Finish.FAILED, event.data)
                return True
            case _:
                pass  # starts and ends of parts, and future event types
        return False

    def read_body(self, body: bytes) -> bool:
        """Process a response that was not streamed: a `response`."""
        response = _response.decode(body)
        if bytes(response.error) != b"null":
            self.said.set_error(wire.Finish.FAILED, bytes(response.error))
            return True
        if response.object != "response" or response.status not in ("completed", "incomplete"):
            return False
        for item in response.output:
            for part in item.content or () if item.type == "message" else ():
                self.said.add_text(part.refusal or part.text)
                self._refused = self._refused or part.type == "refusal"
            self._add_tool_call(item)
        ended = wire.Finish.COMPLETE if response.status == "completed" else wire.Finish.FAILED
        return self._finish(response, ended)

    def _add_tool_call(self, item: _Item) -> None:
        if item.type == "function_call":
            self.said.add_tool_call(len(self.said.tool_calls), item.name, item.arguments)

    def _finish(self, response: _Response | None, finish: wire.Finish) -> bool:
        if response is not None:
            details = response.incomplete_details
            finish = _INCOMPLETE.get(details.reason or "", finish) if details else finish
            self.said.model = response.model
            self.said.tokens = _tokens(bytes(response.usage))
        self.said.finish = wire.Finish.REFUSED if self._refused else finish
        return True


def _tokens(usage: bytes) -> BilledTokens | None:
    """Return the token counts, or None if they are missing or implausible."""
    try:
        told = _usage.decode(usage)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    cached = (told.input_tokens_details.cached_tokens or 0) if told.input_tokens_details else 0
    if not wire.is_valid_count(told.input_tokens, told.output_tokens) or not wire.is_valid_count(
        cached
    ):
        return None
    return BilledTokens(told.input_tokens, told.output_tokens, cached)
