"""The form of what a model is asked to say, and reading what it said."""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from forum.work.demands import read_json
from forum.work.prompt import MARKS, Quoted, quote

T = TypeVar("T")


def form_of(members: dict[str, Any]) -> bytes:
    """Return the form of a reply with these members, as a JSON schema."""
    return msgspec.json.encode(an_object(members))


def an_object(members: dict[str, Any]) -> dict[str, Any]:
    """Return the form of an object that has all of these members, and no other."""
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


def an_array(items: dict[str, Any], most: int, least: int = 0) -> dict[str, Any]:
    """Return the form of a list."""
    form = {"type": "array", "items": items, "maxItems": most}
    return form | {"minItems": least} if least else form


def a_text(most: int, least: int = 0) -> dict[str, Any]:
    """Return the form of a text."""
    form = {"type": "string", "maxLength": most}
    return form | {"minLength": least} if least else form


def unfenced(said: bytes) -> str:
    """Return JSON without its fence: many models cannot help it.  Raises `ValueError`."""
    try:
        words = said.decode().strip()
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    fenced = words.startswith("```") and words.endswith("```")
    return words.strip("`").removeprefix("json") if fenced else words


def read_formed(said: bytes, into: msgspec.json.Decoder[T]) -> T:
    """Read JSON that may stand in a fence.  Raises `ValueError`."""
    words = unfenced(said)
    read_json(words)  # of bounded depth, with numbers that are numbers
    try:
        return into.decode(words)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ValueError(str(error)) from None


def instruct(*words: str, quoted: Sequence[Quoted]) -> bytes:
    """Return what a model is told: what to do, the words of others, and how to reply."""
    parts = [word.encode() for word in words[:-1] if word]
    parts += [MARKS, *(quote(one) for one in quoted), words[-1].encode()]
    return b"\n\n".join(parts)
