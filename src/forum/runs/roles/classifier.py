"""The Classifier chooses the lane of a request where the router was not certain.

Its prompt holds the request and the lanes, ranked by the router.
"""

from collections.abc import Mapping

import msgspec

from forum.runs import reply_schemas
from forum.runs.policy import LaneBrief
from forum.runs.prompt import Prompt, Quotation
from forum.runs.roles import prompt_parts
from forum.runs.roles.prompt_parts import NO_LANE

SYSTEM = """\
You assign requests to specialists. You do not answer the request.
Choose the one specialist whose field fits best what the request asks for, not the words that it \
happens to contain. Choose "none" if no field fits."""


class LaneChoice(msgspec.Struct, frozen=True):
    """The reply of a Classifier."""

    lane: str


def build_prompt(request: Quotation, lanes: dict[str, LaneBrief]) -> Prompt:
    """Return a prompt that asks which lane a request belongs to."""
    task = (
        f"## Specialists\n{prompt_parts.list_lanes(lanes)}\n- {NO_LANE}: no specialist fits\n\n"
        '## Your task\nChoose the specialist. Reply with JSON only: {"lane": "NAME"}'
    )
    return prompt_parts.compose_prompt(
        SYSTEM, [prompt_parts.section("The request", [request])], task
    )


def build_schema(lanes: Mapping[str, LaneBrief]) -> bytes:
    """Return the schema of the reply."""
    return reply_schemas.build_schema({"lane": {"enum": [*lanes, NO_LANE]}})


def parse_choice(reply: bytes, lanes: Mapping[str, LaneBrief]) -> str:
    """Return the chosen lane; an empty string if none fits. Raises `ValueError`."""
    choice = reply_schemas.parse_structured(reply, _decoder)
    if choice.lane not in (*lanes, NO_LANE):
        raise ValueError("lane is none of those that were listed")
    return "" if choice.lane == NO_LANE else choice.lane


# Created at import: two threads in which msgspec inspects a type at the same time crash the
# process. The same holds for the decoders of the other roles.
_decoder = msgspec.json.Decoder(LaneChoice)
