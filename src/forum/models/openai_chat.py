"""OpenAI's chat completions API, which most model servers implement."""

from typing import Any

import msgspec

from forum.engine import DeltaCallback, ModelCall
from forum.models import wire
from forum.models.prices import BilledTokens
from forum.models.provider_http import SseEvent
from forum.models.urls import host_of
from forum.work.policy import Chat
from forum.work.prompt import MessageRole
from forum.work.team_settings import RESERVED_OPTIONS

_ROLES = {
    MessageRole.SYSTEM: "system",
    MessageRole.USER: "user",
    MessageRole.AGENT: "assistant",
    MessageRole.TOOL: "user",
}
_FINISHES = {
    "stop": wire.Finish.COMPLETE,
    "tool_calls": wire.Finish.COMPLETE,
    "function_call": wire.Finish.COMPLETE,
    "length": wire.Finish.LENGTH,
    "content_filter": wire.Finish.REFUSED,
}


class ChatWire:
    """The protocol of chat completions."""

    path = "/chat/completions"

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers that authenticate a request."""
        return wire.bearer_headers(key)

    def body(self, spec: Chat, call: ModelCall) -> dict[str, Any]:
        """Return the request body."""
        own: dict[str, Any] = {
            "model": spec.model,
            "messages": _messages(call),
            "stream": True,
            "stream_options": {"include_usage": True},
            _limit_parameter(spec.url): spec.max_tokens,
        }
        if call.offers:
            own["tools"] = [
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
            form = wire.parse_tool_schema(call.schema)
            named = {"name": wire.ANSWER_NAME, "schema": form, "strict": wire.is_strict(form)}
            own["response_format"] = {"type": "json_schema", "json_schema": named}
        return wire.merge_options(spec.options, own, RESERVED_OPTIONS)

    def read(self, call: ModelCall) -> "_ChatReader":
        """Return the reader for the response."""
        return _ChatReader(call.hear)


def _limit_parameter(url: str) -> str:
    """Return the name of the token limit: OpenAI's newer models reject the older `max_tokens`."""
    newer = host_of(url).endswith((".openai.com", ".openai.azure.com"))
    return "max_completion_tokens" if newer else "max_tokens"


def _messages(call: ModelCall) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    asked = wire.ToolCallIds(call.offers)
    for number, turn in enumerate(wire.messages_of(call)):
        message: dict[str, Any] = {"role": _ROLES[turn.who], "content": wire.text_of(turn)}
        if turn.who is MessageRole.AGENT and turn.uses:
            message["tool_calls"] = [
                {
                    "id": name,
                    "type": "function",
                    "function": {
                        "name": use.tool,
                        "arguments": msgspec.json.encode(asked.arguments(use)).decode(),
                    },
                }
                for name, use in zip(asked.make_ids(number, turn.uses), turn.uses, strict=True)
            ]
        elif turn.who is MessageRole.TOOL and (name := asked.id_of(turn.use)) is not None:
            message |= {"role": "tool", "tool_call_id": name}
        messages.append(message)
    return messages


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
    usage: msgspec.Raw = msgspec.Raw(b"null")
    error: msgspec.Raw = msgspec.Raw(b"null")


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


class _ChatReader:
    """A response of chat completions that is being received."""

    def __init__(self, hear: DeltaCallback) -> None:
        self.said = wire.ReplyBuilder(hear)

    def read_event(self, event: SseEvent) -> bool:
        """Process an event; return whether it was the last one."""
        if event.data == b"[DONE]":
            return True
        return self._read_chunk(_chunk.decode(event.data))

    def _read_chunk(self, chunk: _Chunk) -> bool:
        if bytes(chunk.error) != b"null":
            self.said.set_error(wire.Finish.FAILED, bytes(chunk.error))
            return True
        self.said.model = chunk.model or self.said.model
        self.said.tokens = _tokens(bytes(chunk.usage)) or self.said.tokens
        for choice in chunk.choices[:1]:
            self._read_choice(choice)
        return False

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
        elif bytes(completion.error) == b"null":
            return False
        self._read_chunk(completion)
        return True

    def _read_choice(self, choice: _Choice) -> None:
        delta = choice.delta
        if delta.content:
            self.said.add_text(delta.content)
        if delta.refusal:
            self.said.add_text(delta.refusal)
            self.said.finish = wire.Finish.REFUSED
        for call in delta.tool_calls or ():
            self.said.add_tool_call(
                call.index, call.function.name or "", call.function.arguments or ""
            )
        if choice.finish_reason and self.said.finish is not wire.Finish.REFUSED:
            self.said.finish = _FINISHES.get(choice.finish_reason, wire.Finish.COMPLETE)


def _tokens(usage: bytes) -> BilledTokens | None:
    """Return the token counts, or None if they are missing or implausible."""
    try:
        told = _usage.decode(usage)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    cached = (told.prompt_tokens_details.cached_tokens or 0) if told.prompt_tokens_details else 0
    # Some providers (Gemini, Grok) do not count reasoning
    # tokens as completion tokens, but bill them.
    said = max(told.completion_tokens, (told.total_tokens or 0) - told.prompt_tokens)
    if not wire.is_valid_count(
        told.prompt_tokens, told.completion_tokens, said
    ) or not wire.is_valid_count(cached):
        return None
    return BilledTokens(told.prompt_tokens, said, cached)
