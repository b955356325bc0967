"""Common parts of the provider APIs: build requests, and collect replies.

A `Wire` translates a call into the request of one API and parses the events of its response.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Protocol

import msgspec

from forum import engine
from forum.models.prices import BilledTokens
from forum.models.provider_http import ReplyTooLarge, ResponseReader
from forum.work.policy import Chat, ToolCall
from forum.work.prompt import MessageRole, PromptMessage

MAX_OUTPUT_BYTES: Final = 1 << 24
"""Maximum size of a model's output."""

ANSWER_NAME: Final = "answer"
"""Name under which the JSON schema of the output is sent."""

_MAX_TOKEN_COUNT: Final = 1 << 53


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

    def add_text(self, text: str, *, heard: bool = True) -> None:
        """Append text, and stream it if `heard`.  Raises `ReplyTooLarge`."""
        self._count(text)
        self.parts.append(text)
        if heard and text:
            self._hear(text)

    def add_tool_call(self, number: int, tool: str, arguments: str) -> None:
        """Append to a tool call, creating it if necessary.  Raises `ReplyTooLarge`."""
        self._count(tool + arguments)
        if number not in self.tool_calls and len(self.tool_calls) == engine.MAX_TOOL_CALLS:
            raise ReplyTooLarge
        wish = self.tool_calls.setdefault(number, PartialToolCall())
        # The name comes with the first delta of a call, the arguments with the following ones.
        wish.tool = wish.tool or tool
        wish.arguments.append(arguments)

    def set_error(self, finish: Finish, error: bytes) -> None:
        """Store the provider's error message."""
        self.finish, self.error = finish, error

    def _count(self, text: str) -> None:
        self._size += len(text.encode())
        if self._size > MAX_OUTPUT_BYTES:
            raise ReplyTooLarge


class ReplyReader(ResponseReader, Protocol):
    """A response that is being received, and the reply built from it."""

    said: ReplyBuilder


class Wire(Protocol):
    """The protocol of one provider API."""

    @property
    def path(self) -> str:
        """The path that is appended to the base URL."""
        ...

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers that authenticate a request."""
        ...

    def body(self, spec: Chat, call: engine.ModelCall) -> dict[str, Any]:
        """Return the request body.  Raises msgspec's errors if a schema is not valid JSON."""
        ...

    def read(self, call: engine.ModelCall) -> ReplyReader:
        """Return the reader for the response."""
        ...


def bearer_headers(key: str) -> dict[str, str]:
    """Return the Authorization header, or nothing without a key."""
    return {"Authorization": f"Bearer {key}"} if key else {}


def merge_options(
    options: dict[str, Any], own: dict[str, Any], never: frozenset[str]
) -> dict[str, Any]:
    """Return the request with extra options; options cannot override fields that Forum sets."""
    return {name: value for name, value in options.items() if name not in never} | own


def messages_of(call: engine.ModelCall) -> tuple[PromptMessage, ...]:
    """Return the messages of a call; without turns, the whole prompt is one user message."""
    if any(turn.who is not MessageRole.SYSTEM for turn in call.turns):
        return call.turns
    return (PromptMessage(MessageRole.USER, b"".join(call.prompt.chunks())),)


def system_of(turns: tuple[PromptMessage, ...]) -> str:
    """Return the system messages as one text, for APIs with a separate field for them."""
    return "\n\n".join(text_of(turn) for turn in turns if turn.who is MessageRole.SYSTEM)


def text_of(turn: PromptMessage) -> str:
    """Return the text of a message; bytes that are not UTF-8 are replaced."""
    return turn.text.decode(errors="replace")


class ToolCallIds:
    """Generates the ids that link the tool calls of a conversation with their results."""

    def __init__(self, offers: tuple[engine.ToolOffer, ...]) -> None:
        self._plain = {offer.name for offer in offers if not offer.schema}
        self._turn = -1
        self._count = 0

    def make_ids(self, turn: int, uses: tuple[ToolCall, ...]) -> list[str]:
        """Return the ids of the tool calls of a turn."""
        self._turn, self._count = turn, len(uses)
        return [f"call_{turn}_{number}" for number in range(len(uses))]

    def id_of(self, use: int) -> str | None:
        """Return the id of the tool call that a result belongs to, or None if there is none."""
        return f"call_{self._turn}_{use}" if use < self._count else None

    def arguments(self, use: ToolCall) -> dict[str, Any]:
        """Return the arguments of a tool call as a JSON object, which is what the APIs require."""
        if use.tool not in self._plain:
            try:
                return _object.decode(use.arguments)
            except (msgspec.MsgspecError, RecursionError):
                pass
        return {_INPUT: use.arguments}


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


def parse_tool_schema(schema: bytes) -> dict[str, Any]:
    """Parse a JSON schema; without one, the tool takes any text as the property `input`."""
    return _object.decode(schema) if schema else _TEXT


def tool_calls_of(said: ReplyBuilder, offers: tuple[engine.ToolOffer, ...]) -> tuple[ToolCall, ...]:
    """Return the tool calls of a reply, with their arguments as the model wrote them."""
    plain = {offer.name for offer in offers if not offer.schema}
    uses = []
    for _, wish in sorted(said.tool_calls.items()):
        arguments = "".join(wish.arguments)
        if wish.tool in plain:
            # If the arguments do not have this form, the tool receives them unchanged.
            with suppress(msgspec.MsgspecError, RecursionError):
                arguments = _input.decode(arguments).input
        uses.append(ToolCall(wish.tool, arguments))
    return tuple(uses)


def is_strict(schema: Any) -> bool:  # noqa: ANN401  # any part of a schema
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


def is_valid_count(*numbers: int) -> bool:
    """Return whether a provider's numbers are plausible token counts."""
    return all(number >= 0 for number in numbers) and sum(numbers) < _MAX_TOKEN_COUNT
