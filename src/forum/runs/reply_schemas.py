"""JSON schemas for structured replies of models, and parsing such replies."""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from forum.runs.acceptance_criteria import read_json, strip_code_fence
from forum.runs.prompt import QUOTATION_NOTICE, Quotation, quote

T = TypeVar("T")


def build_schema(members: dict[str, Any]) -> bytes:
    """Return the JSON schema of a reply with these members."""
    return msgspec.json.encode(object_schema(members))


def object_schema(members: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with all of these members and no others."""
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


def array_schema(items: dict[str, Any], most: int, least: int = 0) -> dict[str, Any]:
    """Return the schema of an array."""
    form = {"type": "array", "items": items, "maxItems": most}
    return form | {"minItems": least} if least else form


def text_schema(most: int, least: int = 0) -> dict[str, Any]:
    """Return the schema of a string."""
    form = {"type": "string", "maxLength": most}
    return form | {"minLength": least} if least else form


def parse_structured(reply: bytes, into: msgspec.json.Decoder[T]) -> T:
    """Parse JSON that may be fenced. Raises `ValueError`."""
    words = strip_code_fence(reply)
    read_json(words)  # checks the depth, and refuses NaN, Infinity and numbers out of range
    try:
        return into.decode(words)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ValueError(str(error)) from None


def compose_prompt(*words: str, quoted: Sequence[Quotation]) -> bytes:
    """Return a prompt: instructions, the quoted texts of others, and the form of the reply."""
    parts = [word.encode() for word in words[:-1] if word]
    parts += [QUOTATION_NOTICE, *(quote(quotation) for quotation in quoted), words[-1].encode()]
    return b"\n\n".join(parts)
