"""OpenAI's responses API."""

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from forum.engine import ModelCall
from forum.models import wire
from forum.models.prices import BilledTokens
from forum.runs.policy import API_ENDPOINTS, Api, Chat
from forum.runs.prompt import MessageRole
from forum.runs.server_sent_events import SseEvent

_INCOMPLETE = {"max_output_tokens": wire.Finish.LENGTH, "content_filter": wire.Finish.REFUSED}


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
    usage: msgspec.Raw = wire.NULL
    error: msgspec.Raw = wire.NULL
    incomplete_details: _Incomplete | None = None
    object: str = ""
    status: str = ""
    output: list[_Item] = []


class _ResponsesEvent(msgspec.Struct):
    type: str = ""
    delta: msgspec.Raw = wire.NULL
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


class ResponsesWire(wire.Wire):
    """A call of the responses API."""

    path = API_ENDPOINTS[Api.RESPONSES].path
    # This API stores conversations at the provider by default, which nobody here has agreed to.
    default_options: ClassVar[dict[str, Any]] = {"store": False}

    def __init__(self, spec: Chat, call: ModelCall) -> None:
        super().__init__(spec, call)
        self._refused = False

    def own_fields(self) -> dict[str, Any]:
        """Return the fields of the request body that are peculiar to this API."""
        call = self.call
        fields: dict[str, Any] = {
            "input": [item for message in wire.messages_of(call) for item in _items(message)],
            "max_output_tokens": self.spec.max_tokens,
        }
        if system := wire.system_of(call):
            fields["instructions"] = system
        if call.offers:
            forms = [(offer, wire.parse_tool_schema(offer.schema)) for offer in call.offers]
            fields["tools"] = [
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
            fields["text"] = {"format": {"type": "json_schema", **wire.answer_schema(call.schema)}}
        return fields

    def read_event(self, event: SseEvent) -> bool:
        """Process an event; return whether it was the last one."""
        decoded = _event.decode(event.data)
        match decoded.type or event.name:
            case "response.output_text.delta":
                self.reply.add_text(_text.decode(decoded.delta))
            case "response.refusal.delta":
                self.reply.add_text(_text.decode(decoded.delta))
                self._refused = True
            case "response.output_item.done" if decoded.item:
                self._add_tool_call(decoded.item)
            case "response.completed":
                return self._finish(decoded.response, wire.Finish.COMPLETE)
            case "response.incomplete":
                return self._finish(decoded.response, wire.Finish.FAILED)
            case "response.failed":
                self.reply.set_error(bytes(decoded.response.error) if decoded.response else b"")
                return True
            case "error":
                self.reply.set_error(event.data)
                return True
            case _:
                pass  # starts and ends of parts, and future event types
        return False

    def read_body(self, body: bytes) -> bool:
        """Process a response that was not streamed: a `response`."""
        response = _response.decode(body)
        if response.error != wire.NULL:
            self.reply.set_error(bytes(response.error))
            return True
        if response.object != "response" or response.status not in ("completed", "incomplete"):
            return False
        for item in response.output:
            for part in item.content or () if item.type == "message" else ():
                self.reply.add_text(part.refusal or part.text)
                self._refused = self._refused or part.type == "refusal"
            self._add_tool_call(item)
        ended = wire.Finish.COMPLETE if response.status == "completed" else wire.Finish.FAILED
        return self._finish(response, ended)

    def _add_tool_call(self, item: _Item) -> None:
        if item.type == "function_call":
            self.reply.add_tool_call(len(self.reply.tool_calls), item.name, item.arguments)

    def _finish(self, response: _Response | None, finish: wire.Finish) -> bool:
        if response is not None:
            details = response.incomplete_details
            finish = _INCOMPLETE.get(details.reason or "", finish) if details else finish
            self.reply.model = response.model
            self.reply.tokens = _tokens(response.usage)
        self.reply.finish = wire.Finish.REFUSED if self._refused else finish
        return True


def _items(message: wire.SentMessage) -> Iterator[dict[str, Any]]:
    match message.who:
        case MessageRole.SYSTEM:
            return  # sent as instructions
        case MessageRole.AGENT:
            if message.text:
                yield {"role": "assistant", "content": message.text}
            for call in message.calls:
                arguments = wire.encode_arguments(call)
                named = {"call_id": call.id, "name": call.tool, "arguments": arguments}
                yield {"type": "function_call", **named}
        case MessageRole.TOOL if message.answers:
            output = {"call_id": message.answers.id, "output": message.text}
            yield {"type": "function_call_output", **output}
        case MessageRole.USER | MessageRole.TOOL:
            yield {"role": "user", "content": message.text}


def _tokens(raw: msgspec.Raw) -> BilledTokens | None:
    """Return the token counts, or None if they are missing or implausible."""
    usage = wire.decode_usage(_usage, raw)
    if usage is None:
        return None
    details = usage.input_tokens_details
    cached = (details.cached_tokens or 0) if details else 0
    return wire.billed_tokens(usage.input_tokens, usage.output_tokens, cached)
