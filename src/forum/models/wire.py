"""Common parts of the provider APIs: build requests, and collect replies.

A `Wire` translates a call into the request of one API and parses the events of its response.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

import msgspec

from forum import engine
from forum.models.prices import BilledTokens, count_tokens
from forum.models.provider_http import ResponseReader
from forum.runs.policy import RESERVED_OPTIONS, Chat, ToolCall
from forum.runs.prompt import MessageRole, PromptMessage
from forum.runs.server_sent_events import ReplyTooLarge

MAX_OUTPUT_BYTES: Final = 1 << 24
"""Maximum size of a model's output."""

ANSWER_NAME: Final = "answer"
"""Name under which the JSON schema of the output is sent."""

NULL: Final = msgspec.Raw(b"null")
"""The value of a member that an event lacks."""

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""Errors of msgspec for JSON that is malformed, not of the expected form, or too deeply nested."""

_MAX_TOKEN_COUNT: Final = 1 << 53
_Usage = TypeVar("_Usage")


class Finish(Enum):
    """Why a model stopped, according to the provider."""

    NONE = "none"
    COMPLETE = "complete"
    LENGTH = "length"
    REFUSED = "refused"
    OVERLOADED = "overloaded"
    FAILED = "failed"


@dataclass(slots=True)
class PartialToolCall:
    """A tool call of a model, while it is being received."""

    tool: str = ""
    arguments: list[str] = field(default_factory=list)


class ReplyBuilder:
    """Collects a model's reply while it arrives and streams its text to a listener."""

    def __init__(self, hear: engine.DeltaCallback = engine.ignore_delta) -> None:
        self._hear = hear
        self.parts: list[str] = []
        self.tool_calls: dict[int, PartialToolCall] = {}
        self.finish = Finish.NONE
        self.tokens: BilledTokens | None = None
        self.model = ""
        self.error = b""
        self._size = 0

    @property
    def text(self) -> str:
        """All text received so far."""
        return "".join(self.parts)

    def add_text(self, text: str, *, streamed: bool = True) -> None:
        """Append text, and stream it if `streamed`.  Raises `ReplyTooLarge`."""
        self._count(text)
        self.parts.append(text)
        if streamed and text:
            self._hear(text)

    def add_tool_call(self, number: int, tool: str, arguments: str) -> None:
        """Append to a tool call, creating it if necessary.  Raises `ReplyTooLarge`."""
        self._count(tool + arguments)
        if number not in self.tool_calls and len(self.tool_calls) == engine.MAX_TOOL_CALLS:
            raise ReplyTooLarge
        partial = self.tool_calls.setdefault(number, PartialToolCall())
        # The name comes with the first delta of a call, the arguments with the following ones.
        partial.tool = partial.tool or tool
        partial.arguments.append(arguments)

    def set_error(self, error: bytes, finish: Finish = Finish.FAILED) -> None:
        """Store the provider's error message."""
        self.finish, self.error = finish, error

    def _count(self, text: str) -> None:
        self._size += len(text.encode())
        if self._size > MAX_OUTPUT_BYTES:
            raise ReplyTooLarge


class Wire(ResponseReader, ABC):
    """One call over the API of a provider: its request, and the reader of its response."""

    path: ClassVar[str]
    """The path that is appended to the base URL."""
    default_options: ClassVar[dict[str, Any]] = {}

    def __init__(self, spec: Chat, call: engine.ModelCall) -> None:
        self.spec, self.call = spec, call
        self.reply = ReplyBuilder(call.hear)

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers that authenticate a request, or none without a key."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(self) -> dict[str, Any]:
        """Return the request body.  Raises msgspec's errors if a schema is not valid JSON.

        Options cannot override fields that Forum sets.
        """
        options = self.default_options | self.spec.options
        allowed = {name: value for name, value in options.items() if name not in RESERVED_OPTIONS}
        return allowed | {"model": self.spec.model, "stream": True} | self.own_fields()

    @abstractmethod
    def own_fields(self) -> dict[str, Any]:
        """Return the fields of the request body that are peculiar to this API."""


class SentToolCall(NamedTuple):
    """A tool call of an earlier reply, with the id that links it to its result."""

    id: str
    tool: str
    arguments: dict[str, Any]
    """The arguments as a JSON object, which is what the APIs require."""


class SentMessage(NamedTuple):
    """A message of the conversation that is sent to the model."""

    who: MessageRole
    text: str
    """The text; bytes that are not UTF-8 are replaced."""
    calls: list[SentToolCall]
    answers: SentToolCall | None
    """The tool call whose result this message is, if any."""
    shared: int = 0
    """How many characters at the beginning of the text other calls of the run send too."""


def messages_of(call: engine.ModelCall) -> Iterator[SentMessage]:
    """Yield the messages of a call; without turns, the whole prompt is one user message."""
    turns = call.turns
    if all(turn.who is MessageRole.SYSTEM for turn in turns):
        turns = (PromptMessage(MessageRole.USER, b"".join(call.prompt.chunks())),)
    plain = _plain_tools(call.offers)
    calls: list[SentToolCall] = []
    for number, turn in enumerate(turns):
        text = turn.text.decode(errors="replace")
        if turn.who is MessageRole.AGENT:
            calls = [
                SentToolCall(f"call_{number}_{n}", use.tool, _sent_arguments(use, plain))
                for n, use in enumerate(turn.uses)
            ]
            yield SentMessage(turn.who, text, calls, None)
        else:
            is_result = turn.who is MessageRole.TOOL and turn.use < len(calls)
            shared = len(turn.text[: turn.shared].decode(errors="replace"))
            yield SentMessage(
                turn.who,
                text,
                calls=[],
                answers=calls[turn.use] if is_result else None,
                shared=shared,
            )


def system_of(call: engine.ModelCall) -> str:
    """Return the system messages as one text, for APIs with a separate field for them."""
    return "\n\n".join(m.text for m in messages_of(call) if m.who is MessageRole.SYSTEM)


def encode_arguments(call: SentToolCall) -> str:
    """Return the arguments of a tool call as JSON text."""
    return msgspec.json.encode(call.arguments).decode()


def answer_schema(schema: bytes) -> dict[str, Any]:
    """Return the schema of the output in the form that OpenAI's APIs share."""
    form = parse_tool_schema(schema)
    return {"name": ANSWER_NAME, "schema": form, "strict": is_strict(form)}


_INPUT: Final = "input"
_TEXT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {_INPUT: {"type": "string"}},
    "required": [_INPUT],
    "additionalProperties": False,
}


class _PlainToolInput(msgspec.Struct, forbid_unknown_fields=True):
    input: str


# Created at import time: two threads that make msgspec
# inspect a type at the same time crash the process.
_object = msgspec.json.Decoder(dict[str, Any])
_input = msgspec.json.Decoder(_PlainToolInput)


def _plain_tools(offers: tuple[engine.ToolOffer, ...]) -> set[str]:
    """Return the names of the tools without a schema, which take any text."""
    return {offer.name for offer in offers if not offer.schema}


def _sent_arguments(use: ToolCall, plain: set[str]) -> dict[str, Any]:
    if use.tool not in plain:
        with suppress(msgspec.MsgspecError, RecursionError):
            return _object.decode(use.arguments)
    return {_INPUT: use.arguments}


def parse_tool_schema(schema: bytes) -> dict[str, Any]:
    """Parse a JSON schema; without one, the tool takes any text as the property `input`."""
    return _object.decode(schema) if schema else _TEXT


def is_strict(schema: Any) -> bool:  # noqa: ANN401  # a schema nests values of all JSON types
    """Return whether a schema allows strict mode: all properties listed and required."""
    match schema:
        case dict():
            closed = schema.get("type") != "object" or (
                schema.get("additionalProperties") is False
                and set(schema.get("required", ())) == set(schema.get("properties", ()))
            )
            return closed and all(is_strict(part) for part in schema.values())
        case list():
            return all(is_strict(part) for part in schema)
        case _:
            return True


def tool_calls_of(
    reply: ReplyBuilder, offers: tuple[engine.ToolOffer, ...]
) -> tuple[ToolCall, ...]:
    """Return the tool calls of a reply, with their arguments as the model wrote them."""
    plain = _plain_tools(offers)
    calls = []
    for _, partial in sorted(reply.tool_calls.items()):
        arguments = "".join(partial.arguments)
        if partial.tool in plain:
            # A model may ignore the schema that it was given.  The tool takes any text, so it then
            # receives the arguments as they are.
            with suppress(msgspec.MsgspecError, RecursionError):
                arguments = _input.decode(arguments).input
        calls.append(ToolCall(partial.tool, arguments))
    return tuple(calls)


def decode_usage(decoder: "msgspec.json.Decoder[_Usage]", usage: msgspec.Raw) -> _Usage | None:
    """Return the token counts of a response, or None if they are missing or malformed."""
    try:
        return decoder.decode(usage)
    except UNREADABLE:
        return None


def billed_tokens(
    read: int, written: int, cache_read: int, cache_write: int = 0
) -> BilledTokens | None:
    """Return a provider's token counts, or None if they are implausible."""
    counts = (read, written, cache_read, cache_write)
    plausible = min(counts) >= 0 and sum(counts) < _MAX_TOKEN_COUNT
    return count_tokens(*counts) if plausible else None
