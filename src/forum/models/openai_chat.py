"""OpenAI's chat completions API, which most model servers implement."""

from typing import Any

import msgspec

from forum.models import wire
from forum.models.prices import BilledTokens
from forum.models.urls import host_of
from forum.runs.policy import API_ENDPOINTS, Api
from forum.runs.prompt import MessageRole
from forum.runs.server_sent_events import SseEvent

_ROLES = {
    MessageRole.SYSTEM: "system",
    MessageRole.USER: "user",
    MessageRole.AGENT: "assistant",
    MessageRole.TOOL: "user",
}
_FINISHES = {"length": wire.Finish.LENGTH, "content_filter": wire.Finish.REFUSED}


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _ChatToolCall(msgspec.Struct):
    index: int = 0
    function: _Function = msgspec.field(default_factory=_Function)


class _ChatDelta(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_ChatToolCall] | None = None


class _Choice(msgspec.Struct):
    delta: _ChatDelta = msgspec.field(default_factory=_ChatDelta)
    message: _ChatDelta | None = None
    """The whole message, in a response that is not streamed."""
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    model: str = ""
    usage: msgspec.Raw = wire.NULL
    error: msgspec.Raw = wire.NULL


class _ChatUsageDetails(msgspec.Struct):
    cached_tokens: int | None = 0


class _ChatUsage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int | None = None
    prompt_tokens_details: _ChatUsageDetails | None = None


# Created at import time: two threads that make msgspec
# inspect a type at the same time crash the process.
_chunk = msgspec.json.Decoder(_Chunk)
_usage = msgspec.json.Decoder(_ChatUsage)


class ChatWire(wire.Wire):
    """A call of chat completions."""

    path = API_ENDPOINTS[Api.CHAT].path

    def own_fields(self) -> dict[str, Any]:
        """Return the fields of the request body that are peculiar to this API."""
        call = self.call
        fields: dict[str, Any] = {
            "messages": [_message(message) for message in wire.messages_of(call)],
            "stream_options": {"include_usage": True},
            _limit_parameter(self.spec.url): self.spec.max_tokens,
        }
        if call.offers:
            fields["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": offer.name,
                        "description": offer.description,
                        "parameters": wire.parse_tool_schema(offer.schema),
                    },
                }
                for offer in call.offers
            ]
        if call.schema:
            form = wire.answer_schema(call.schema)
            fields["response_format"] = {"type": "json_schema", "json_schema": form}
        return fields

    def read_event(self, event: SseEvent) -> bool:
        """Process an event; return whether it was the last one."""
        return event.data == b"[DONE]" or self._read_chunk(_chunk.decode(event.data))

    def read_body(self, body: bytes) -> bool:
        """Process a response that was not streamed: a `chat.completion`."""
        completion = _chunk.decode(body)
        choice = completion.choices[0] if completion.choices else _Choice()
        message = choice.message
        if message is not None:
            # Tool calls have an index only in a stream;
            # without one, all would count as the same call.
            for number, call in enumerate(message.tool_calls or ()):
                call.index = number
            choice.delta = message
        elif completion.error == wire.NULL:
            return False
        self._read_chunk(completion)
        return True

    def _read_chunk(self, chunk: _Chunk) -> bool:
        if chunk.error != wire.NULL:
            self.reply.set_error(bytes(chunk.error))
            return True
        self.reply.model = chunk.model or self.reply.model
        self.reply.tokens = _tokens(chunk.usage) or self.reply.tokens
        for choice in chunk.choices[:1]:
            self._read_choice(choice)
        return False

    def _read_choice(self, choice: _Choice) -> None:
        delta = choice.delta
        if delta.content:
            self.reply.add_text(delta.content)
        if delta.refusal:
            self.reply.add_text(delta.refusal)
            self.reply.finish = wire.Finish.REFUSED
        for call in delta.tool_calls or ():
            function = call.function
            self.reply.add_tool_call(call.index, function.name or "", function.arguments or "")
        if choice.finish_reason and self.reply.finish is not wire.Finish.REFUSED:
            self.reply.finish = _FINISHES.get(choice.finish_reason, wire.Finish.COMPLETE)


def _limit_parameter(url: str) -> str:
    """Return the name of the token limit: OpenAI's newer models reject the older `max_tokens`."""
    newer = host_of(url).endswith((".openai.com", ".openai.azure.com"))
    return "max_completion_tokens" if newer else "max_tokens"


def _message(message: wire.SentMessage) -> dict[str, Any]:
    sent: dict[str, Any] = {"role": _ROLES[message.who], "content": message.text}
    if message.calls:
        sent["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.tool, "arguments": wire.encode_arguments(call)},
            }
            for call in message.calls
        ]
    elif message.answers:
        sent |= {"role": "tool", "tool_call_id": message.answers.id}
    return sent


def _tokens(raw: msgspec.Raw) -> BilledTokens | None:
    """Return the token counts, or None if they are missing or implausible."""
    usage = wire.decode_usage(_usage, raw)
    if usage is None or usage.completion_tokens < 0:
        return None
    details = usage.prompt_tokens_details
    # Some providers (Gemini, Grok) do not count reasoning
    # tokens as completion tokens, but bill them.
    written = max(usage.completion_tokens, (usage.total_tokens or 0) - usage.prompt_tokens)
    return wire.billed_tokens(
        usage.prompt_tokens, written, (details.cached_tokens or 0) if details else 0
    )
