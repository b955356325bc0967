"""What the tests of models behind HTTP share: a call, and what comes of it."""

import asyncio
from dataclasses import replace
from typing import Any

from forum.engine import Call, Offer, Reply
from forum.ledger import Bytes
from forum.models import make_model
from forum.work import Api, Chat, Turn, Use, Who
from tests.models.provider import Provider

CANARY = "sk-canary-5f0c93d1e7b24a68"
"""A key that must be in nothing that comes of a call."""

FORM = (
    b'{"type":"object","properties":{"name":{"type":"string","maxLength":20},'
    b'"age":{"type":"integer","minimum":1,"maximum":99}},'
    b'"required":["name","age"],"additionalProperties":false}'
)
MAIL = Offer("mail", "Send a mail.", b'{"type":"object","properties":{"to":{"type":"string"}}}')
NOTE = Offer("note", "Keep a note.", b"")


def call_of(prompt: bytes = b"Hello.", seconds: float = 10, **more: Any) -> Call:  # noqa: ANN401
    """Return a call for which there is some time."""
    return replace(Call("run-1", "a", "reply/1", 1, Bytes(prompt), seconds), **more)


def spec_of(provider: Provider | str, api: Api = Api.CHAT, **more: Any) -> Chat:  # noqa: ANN401
    """Return a model that costs something, at a provider of ours."""
    url = provider if isinstance(provider, str) else provider.url
    prices = {"input_usd": 1_000_000, "output_usd": 5_000_000} | more
    return Chat(url, "tiny", api, **prices)


def ask(spec: Chat, call: Call | None = None) -> Reply:
    """Return what comes of one call."""
    return asyncio.run(make_model(spec).reply(call or call_of()))


def output_of(reply: Reply) -> bytes:
    """Return what was said."""
    return b"".join(reply.output.chunks())


def error_of(reply: Reply) -> bytes:
    """Return what was said of an error."""
    return b"".join(reply.error.chunks())


CONVERSATION = (
    Turn(Who.SYSTEM, b"Be brief."),
    Turn(Who.USER, b"Mail and note it. \xff"),
    Turn(Who.AGENT, b"I will.", (Use("mail", '{"to":"all"}'), Use("note", "sent"))),
    Turn(Who.TOOL, b"mailed", use=0),
    Turn(Who.TOOL, b"noted", use=1),
)
"""A system, a user, an agent that used two tools, and what came of them."""
