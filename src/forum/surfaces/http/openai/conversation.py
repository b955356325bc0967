"""Convert a conversation to one request: the last user message, with earlier turns as quotations.

The client's instructions (system and developer messages) come first, then the last message of the
user, which is the request.  All other turns are quoted as material, between delimiter lines that
their authors could not have written; so text from an earlier turn cannot pretend to be the user.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct

from forum.surfaces.http.openai.errors import ParameterError, unsupported_parameter
from forum.surfaces.http.problems import ProblemType
from forum.surfaces.requests import BudgetAsk, GateAsk, PanelAsk
from forum.work.prompt import Quotation, task_prompt

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
        PanelAsk | None, Meta(description="Who sits on the panel that the model `panel` is.")
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
        ConversationTurn(one.role, _text(one.content, f"messages[{number}].content"))
        for number, one in enumerate(messages)
    ]


def read_input(given: str | Sequence[Item], instructions: str | None) -> list[ConversationTurn]:
    """Return the turns of an input of the Responses API."""
    said = [ConversationTurn(Speaker.DEVELOPER, instructions)] if instructions else []
    if isinstance(given, str):
        return [*said, ConversationTurn(Speaker.USER, given)]
    for number, one in enumerate(given):
        if one.type != "message" or one.role is None:
            raise unsupported_parameter(
                f"input[{number}]", f"of items, only messages: no {one.type[:64]!r}"
            )
        said.append(ConversationTurn(one.role, _text(one.content, f"input[{number}].content")))
    return said


def _text(content: str | tuple[Part, ...] | None, where: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    for number, part in enumerate(content):
        if part.type not in _TEXT_PART_TYPES:
            raise unsupported_parameter(
                f"{where}[{number}]", f"only texts are taken: no {part.type[:64]!r}"
            )
    return "\n".join(part.text or "" for part in content)


def build_request_text(said: Sequence[ConversationTurn], where: str) -> str:
    """Return the request as one text.

    Raises `ParameterError` if the user's last message is empty.
    """
    asked = max((n for n, one in enumerate(said) if one.who is Speaker.USER), default=None)
    if asked is None or not said[asked].text.strip():
        why = "the user's last message is the request, and here it says nothing"
        raise ParameterError(ProblemType.BAD_REQUEST, why, param=where)
    instructions = [one.text for one in said if one.who in _INSTRUCTION_ROLES and one.text.strip()]
    others = [
        _quoted(number, one)
        for number, one in enumerate(said)
        if number != asked and one.who not in _INSTRUCTION_ROLES and one.text.strip()
    ]
    return task_prompt("\n\n".join([*instructions, said[asked].text]), "", others).decode()


def _quoted(number: int, said: ConversationTurn) -> Quotation:
    text = said.text.encode()
    return Quotation(f"{said.who}, message {number + 1}", text, len(text))


def reject_unsupported(given: Struct, taken: dict[str, tuple[Any, ...]]) -> None:
    """Raise `ParameterError` for a parameter that must not be ignored silently.

    Values that mean the same as an absent parameter are accepted.
    """
    for param, harmless in taken.items():
        if getattr(given, param) not in harmless:
            raise unsupported_parameter(param, f"{param} is not supported here; leave it out")
