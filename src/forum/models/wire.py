"""What the APIs of providers have in common: what they are told, and what they have said.

A wire puts a call into the words of one API, and takes the events of its answer apart.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Protocol

import msgspec

from forum.engine import MAX_TOOL_CALLS, DeltaCallback, ModelCall, ToolOffer, ignore_delta
from forum.models.prices import BilledTokens
from forum.models.provider_http import ReplyTooLarge, ResponseReader
from forum.work import Chat, MessageRole, PromptMessage, ToolCall

MAX_OUTPUT_BYTES: Final = 1 << 24
"""The most that is kept of what a model says."""

ANSWER_NAME: Final = "answer"
"""What the form of an output is called."""

_MAX_TOKEN_COUNT: Final = 1 << 53


class Finish(Enum):
    """Why a model stopped speaking, as it says."""

    NONE = "none"
    COMPLETE = "complete"
    LENGTH = "length"
    REFUSED = "refused"
    OVERLOADED = "overloaded"
    FAILED = "failed"


@dataclass(slots=True)
class PartialToolCall:
    """A tool that a model wants to be used, as it comes in."""

    tool: str = ""
    arguments: list[str] = field(default_factory=list)


class ReplyBuilder:
    """What a model has said so far; of its text, whoever listens is told at once."""

    def __init__(self, hear: DeltaCallback = ignore_delta) -> None:
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
        """All of its text."""
        return "".join(self.parts)

    def add_text(self, text: str, *, heard: bool = True) -> None:
        """Take in some more of its text."""
        self._count(text)
        self.parts.append(text)
        if heard and text:
            self._hear(text)

    def add_tool_call(self, number: int, tool: str, arguments: str) -> None:
        """Take in some more of a wish."""
        self._count(tool + arguments)
        if number not in self.tool_calls and len(self.tool_calls) == MAX_TOOL_CALLS:
            raise ReplyTooLarge
        wish = self.tool_calls.setdefault(number, PartialToolCall())
        wish.tool = wish.tool or tool
        wish.arguments.append(arguments)

    def set_error(self, finish: Finish, error: bytes) -> None:
        """Take in what the provider says of an error."""
        self.finish, self.error = finish, error

    def _count(self, text: str) -> None:
        self._size += len(text.encode())
        if self._size > MAX_OUTPUT_BYTES:
            raise ReplyTooLarge


class ReplyReader(ResponseReader, Protocol):
    """An answer that is coming in."""

    said: ReplyBuilder


class Wire(Protocol):
    """How one API is spoken."""

    @property
    def path(self) -> str:
        """What is appended to the address."""
        ...

    def headers(self, key: str) -> dict[str, str]:
        """Return what says who we are."""
        ...

    def body(self, spec: Chat, call: ModelCall) -> dict[str, Any]:
        """Return the request in this API's words.  Raises what msgspec raises of a bad schema."""
        ...

    def read(self, call: ModelCall) -> ReplyReader:
        """Return what will read the answer."""
        ...


def bearer_headers(key: str) -> dict[str, str]:
    """Return what says who we are, where a key is all that says it."""
    return {"Authorization": f"Bearer {key}"} if key else {}


def merge_options(
    options: dict[str, Any], own: dict[str, Any], never: frozenset[str]
) -> dict[str, Any]:
    """Return a request with more options, none of which says what is ours to say."""
    return {name: value for name, value in options.items() if name not in never} | own


def messages_of(call: ModelCall) -> tuple[PromptMessage, ...]:
    """Return who said what; without turns, all of the prompt was said by the user."""
    if any(turn.who is not MessageRole.SYSTEM for turn in call.turns):
        return call.turns
    return (PromptMessage(MessageRole.USER, b"".join(call.prompt.chunks())),)


def system_of(turns: tuple[PromptMessage, ...]) -> str:
    """Return what the system says, for an API that has a place of its own for that."""
    return "\n\n".join(text_of(turn) for turn in turns if turn.who is MessageRole.SYSTEM)


def text_of(turn: PromptMessage) -> str:
    """Return what was said as text, whatever it was made of."""
    return turn.text.decode(errors="replace")


class ToolCallIds:
    """The wishes of a conversation, by which results find the wish that they belong to."""

    def __init__(self, offers: tuple[ToolOffer, ...]) -> None:
        self._plain = {offer.name for offer in offers if not offer.schema}
        self._turn = -1
        self._count = 0

    def make_ids(self, turn: int, uses: tuple[ToolCall, ...]) -> list[str]:
        """Return the ids of the wishes of a turn."""
        self._turn, self._count = turn, len(uses)
        return [f"call_{turn}_{number}" for number in range(len(uses))]

    def id_of(self, use: int) -> str | None:
        """Return the id of the wish that a result belongs to, if there is one."""
        return f"call_{self._turn}_{use}" if use < self._count else None

    def arguments(self, use: ToolCall) -> dict[str, Any]:
        """Return the arguments of a wish as an object, which is what an API wants."""
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


# Made once, here: two threads that let msgspec take in a type at the same time crash the process.
_object = msgspec.json.Decoder(dict[str, Any])
_input = msgspec.json.Decoder(_PlainToolInput)


def parse_tool_schema(schema: bytes) -> dict[str, Any]:
    """Read a JSON schema; without one, any text will do, as the property `input`."""
    return _object.decode(schema) if schema else _TEXT


def tool_calls_of(said: ReplyBuilder, offers: tuple[ToolOffer, ...]) -> tuple[ToolCall, ...]:
    """Return what a model wants to be used, with the arguments as it wrote them."""
    plain = {offer.name for offer in offers if not offer.schema}
    uses = []
    for _, wish in sorted(said.tool_calls.items()):
        arguments = "".join(wish.arguments)
        if wish.tool in plain:
            # If it wrote something else, that is what the tool is given.
            with suppress(msgspec.MsgspecError, RecursionError):
                arguments = _input.decode(arguments).input
        uses.append(ToolCall(wish.tool, arguments))
    return tuple(uses)


def is_strict(schema: Any) -> bool:  # noqa: ANN401  # any part of a schema
    """Tell whether a provider can hold a model to a schema: every property named and required."""
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
    """Tell whether a provider's numbers can be counts of tokens."""
    return all(number >= 0 for number in numbers) and sum(numbers) < _MAX_TOKEN_COUNT
