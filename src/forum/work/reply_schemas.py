"""The form of what a model is asked to say, and reading what it said."""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from forum.work.acceptance_criteria import read_json
from forum.work.prompt import QUOTATION_NOTICE, Quotation, quote

T = TypeVar("T")


def build_schema(members: dict[str, Any]) -> bytes:
    """Return the form of a reply with these members, as a JSON schema."""
    return msgspec.json.encode(object_schema(members))


def object_schema(members: dict[str, Any]) -> dict[str, Any]:
    """Return the form of an object that has all of these members, and no other."""
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


def array_schema(items: dict[str, Any], most: int, least: int = 0) -> dict[str, Any]:
    """Return the form of a list."""
    form = {"type": "array", "items": items, "maxItems": most}
    return form | {"minItems": least} if least else form


def text_schema(most: int, least: int = 0) -> dict[str, Any]:
    """Return the form of a text."""
    form = {"type": "string", "maxLength": most}
    return form | {"minLength": least} if least else form


def strip_code_fence(said: bytes) -> str:
    """Return JSON without its fence: many models cannot help it.  Raises `ValueError`."""
    try:
        words = said.decode().strip()
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    fenced = words.startswith("```") and words.endswith("```")
    return words.strip("`").removeprefix("json") if fenced else words


def parse_structured(said: bytes, into: msgspec.json.Decoder[T]) -> T:
    """Read JSON that may stand in a fence.  Raises `ValueError`."""
    words = strip_code_fence(said)
    read_json(words)  # of bounded depth, with numbers that are numbers
    try:
        return into.decode(words)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ValueError(str(error)) from None


def compose_prompt(*words: str, quoted: Sequence[Quotation]) -> bytes:
    """Return what a model is told: what to do, the words of others, and how to reply."""
    parts = [word.encode() for word in words[:-1] if word]
    parts += [QUOTATION_NOTICE, *(quote(one) for one in quoted), words[-1].encode()]
    return b"\n\n".join(parts)
