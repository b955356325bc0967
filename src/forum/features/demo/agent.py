"""A small agent with a common fault: it does what its model asks for, however long that goes on.

It knows nothing of Forum.  It finds its provider by OPENAI_BASE_URL and OPENAI_API_KEY, as the
programs of others do.
"""

from collections.abc import Callable
from typing import Any

import httpx2
import msgspec

from forum.features.demo.provider import STAND_IN

MODEL = "gpt-4o"
TASK = "Plan a weekend in Oslo."
MAX_TURNS = 50
_MAX_TOKENS = 150
_TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Look up what travellers should know about a topic.",
        "parameters": {"type": "object", "properties": {"topic": {"type": "string"}}},
    },
}


class ProviderRefusal(Exception):
    """The provider answered a call with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class NotTheStandIn(Exception):
    """The provider is another one than that of the demo, and its calls could cost money."""


def run_agent(base_url: str, api_key: str, tell: Callable[[str], None]) -> None:
    """Call the model and the tool that it asks for, in turn.

    Raises `NotTheStandIn` before the first call, and `ProviderRefusal` when a call is refused.
    """
    headers = {"authorization": f"Bearer {api_key}"}
    with httpx2.Client(headers=headers, timeout=60, trust_env=False) as client:
        if not _is_stand_in(client, base_url):
            raise NotTheStandIn
        tell(f"agent: {TASK}")
        messages: list[dict[str, Any]] = [{"role": "user", "content": TASK}]
        for turn in range(1, MAX_TURNS + 1):
            reply = _ask_model(client, base_url, messages)
            messages.append(reply)
            for call in reply["tool_calls"]:
                topic = msgspec.json.decode(call["function"]["arguments"])["topic"]
                tell(f"{turn:>2}  {reply['content']} look_up({topic!r})")
                findings = f"Travellers should know three things about {topic}."
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": findings})


def _is_stand_in(client: httpx2.Client, base_url: str) -> bool:
    """Return whether the models of a provider belong to the stand-in."""
    try:
        models = client.get(f"{base_url}/models").json()["data"]
        return [model["owned_by"] for model in models] == [STAND_IN]
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, KeyError, TypeError):
        return False


def _ask_model(
    client: httpx2.Client, base_url: str, messages: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the message with which the model answers."""
    request = {"model": MODEL, "max_tokens": _MAX_TOKENS, "tools": [_TOOL], "messages": messages}
    reply = client.post(f"{base_url}/chat/completions", json=request)
    answer: dict[str, Any] = reply.json()
    if reply.is_error:
        raise ProviderRefusal(reply.status_code, answer["error"]["message"])
    message: dict[str, Any] = answer["choices"][0]["message"]
    return message
