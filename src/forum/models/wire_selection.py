"""Select the wire for an API."""

from typing import assert_never

from forum.models.anthropic import AnthropicWire
from forum.models.openai_chat import ChatWire
from forum.models.openai_responses import ResponsesWire
from forum.models.wire import Wire
from forum.work.policy import Api


def wire_of(api: Api) -> Wire:
    """Return the wire that implements an API."""
    match api:
        case Api.CHAT:
            return ChatWire()
        case Api.RESPONSES:
            return ResponsesWire()
        case Api.ANTHROPIC:
            return AnthropicWire()
        case _:
            assert_never(api)
