"""The Reviser shortens an answer that is too long.

Its prompt holds the request and the answer. Code keeps the longer answer if the shorter one has
lost a fact.
"""

import msgspec

from forum.runs import reply_schemas
from forum.runs.prompt import Prompt, Quotation
from forum.runs.roles import prompt_parts

SYSTEM = f"""\
You shorten answers without changing what they say.
- Keep every number, name, condition, piece of code and reference in [brackets].
- Drop what is said twice and what nobody asked for.
- {prompt_parts.LANGUAGE_RULE}"""

_TASK = """\
## Your task
Shorten the answer. Reply with JSON only: {"text": "..."}"""


class Revision(msgspec.Struct, frozen=True):
    """The reply of a Reviser."""

    text: str


def build_prompt(request: Quotation, answer: Quotation) -> Prompt:
    """Return a prompt that asks for a shorter answer."""
    sections = [
        prompt_parts.section("The request", [request]),
        prompt_parts.section("The answer to shorten", [answer]),
    ]
    return prompt_parts.compose_prompt(SYSTEM, sections, _TASK)


def build_schema(room: int) -> bytes:
    """Return the schema of a shorter answer."""
    return reply_schemas.build_schema({"text": reply_schemas.text_schema(room)})


def parse_revision(reply: bytes) -> str:
    """Return a shorter answer. Raises `ValueError`."""
    text = reply_schemas.parse_structured(reply, _decoder).text.strip()
    if not text:
        raise ValueError("there is no text in it")
    return text


_decoder = msgspec.json.Decoder(Revision)
