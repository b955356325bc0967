"""Convert a conversation to one request: the last user message, with earlier turns as quotations.

The client's instructions (system and developer messages) come first, then the last message of the
user, which is the request.  All other turns are quoted as material, between delimiter lines that
their authors could not have written; so text from an earlier turn cannot pretend to be the user.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, get_type_hints

from msgspec import Meta, Struct

from forum.features.chat_api.errors import ParameterError, unsupported_parameter
from forum.runs.prompt import Quotation, task_prompt
from forum.surfaces.http.problems import ProblemType
from forum.surfaces.requests import BudgetAsk, GateAsk, PanelAsk

MAX_MESSAGES = 2_000


class Speaker(StrEnum):
    """Who said something."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


_INSTRUCTION_ROLES = frozenset({Speaker.SYSTEM, Speaker.DEVELOPER})
_TEXT_PART_TYPES = frozenset({"text", "input_text", "output_text"})


class Part(Struct, frozen=True):
    """A part of a message; only texts are taken."""

    type: str
    text: str | None = None


class Message(Struct, frozen=True):
    """One turn of a conversation."""

    role: Speaker
    content: str | tuple[Part, ...] | None = None


class Item(Struct, frozen=True):
    """One turn, as the Responses API has it."""

    type: Annotated[str, Meta(examples=["message"])] = "message"
    role: Speaker | None = None
    content: str | tuple[Part, ...] | None = None


class Terms(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What only Forum knows: what the run may use, what has to be approved, who deliberates."""

    budget: BudgetAsk = BudgetAsk()
    gates: GateAsk | None = None
    panel: Annotated[
        PanelAsk | None,
        Meta(description="The options of the panel that answers as the model `panel`."),
    ] = None
    live: Annotated[
        bool,
        Meta(description="Whether a stream may give words before the answer is recorded."),
    ] = True


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """A turn as text."""

    who: Speaker
    text: str


def read_messages(messages: Sequence[Message]) -> list[ConversationTurn]:
    """Return the turns of a chat."""
    return [
        ConversationTurn(message.role, _text(message.content, f"messages[{number}].content"))
        for number, message in enumerate(messages)
    ]


def read_input(content: str | Sequence[Item], instructions: str | None) -> list[ConversationTurn]:
    """Return the turns of an input of the Responses API."""
    turns = [ConversationTurn(Speaker.DEVELOPER, instructions)] if instructions else []
    if isinstance(content, str):
        return [*turns, ConversationTurn(Speaker.USER, content)]
    for number, item in enumerate(content):
        where = f"input[{number}]"
        if item.type != "message" or item.role is None:
            why = f"only items of the type 'message' are supported, not {item.type[:64]!r}"
            raise unsupported_parameter(where, why)
        turns.append(ConversationTurn(item.role, _text(item.content, f"{where}.content")))
    return turns


def _text(content: str | tuple[Part, ...] | None, where: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    for number, part in enumerate(content):
        if part.type not in _TEXT_PART_TYPES:
            why = f"only text parts are supported, not {part.type[:64]!r}"
            raise unsupported_parameter(f"{where}[{number}]", why)
    return "\n".join(part.text or "" for part in content)


def build_request_text(turns: Sequence[ConversationTurn], where: str) -> str:
    """Return the request as one text.

    Raises `ParameterError` if the user's last message is empty.
    """
    last = max((n for n, turn in enumerate(turns) if turn.who is Speaker.USER), default=None)
    if last is None or not turns[last].text.strip():
        why = "the last message of the user is the request, and it is missing or empty"
        raise ParameterError(ProblemType.BAD_REQUEST, why, param=where)
    instructions = [t.text for t in turns if t.who in _INSTRUCTION_ROLES and t.text.strip()]
    others = [
        _quoted(number, turn)
        for number, turn in enumerate(turns)
        if number != last and turn.who not in _INSTRUCTION_ROLES and turn.text.strip()
    ]
    return task_prompt("\n\n".join([*instructions, turns[last].text]), "", others).decode()


def _quoted(number: int, turn: ConversationTurn) -> Quotation:
    text = turn.text.encode()
    return Quotation(f"{turn.who}, message {number + 1}", text, len(text))


_HARMLESS = "harmless"


def harmless(*values: object) -> Meta:
    """Mark a parameter that is not supported, with the values that mean the same as its absence."""
    return Meta(extra={_HARMLESS: (None, *values)})


@cache
def _unsupported_parameters(form: type[Struct]) -> dict[str, tuple[Any, ...]]:
    return {
        name: meta.extra[_HARMLESS]
        for name, hint in get_type_hints(form, include_extras=True).items()
        for meta in getattr(hint, "__metadata__", ())
        if meta.extra and _HARMLESS in meta.extra
    }


def reject_unsupported(ask: Struct) -> None:
    """Raise `ParameterError` for a parameter that must not be ignored silently."""
    for param, accepted in _unsupported_parameters(type(ask)).items():
        if getattr(ask, param) not in accepted:
            raise unsupported_parameter(param, f"{param} is not supported here; leave it out")
