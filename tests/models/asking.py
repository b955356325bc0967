"""What the tests of models behind HTTP share: a call, and what comes of it."""

import asyncio
from dataclasses import replace
from typing import Any

from forum.engine import CallReply, ModelCall, ToolInvocation, ToolOffer
from forum.ledger.body import BytesContent
from forum.models import make_model, open_tools
from forum.models.sandbox import Sandbox
from forum.runs.policy import Api, Chat, ToolCall, ToolSpec
from forum.runs.prompt import MessageRole, PromptMessage
from tests.models.provider import Provider

CANARY = "sk-canary-5f0c93d1e7b24a68"
"""A key that must be in nothing that comes of a call."""

FORM = (
    b'{"type":"object","properties":{"name":{"type":"string","maxLength":20},'
    b'"age":{"type":"integer","minimum":1,"maximum":99}},'
    b'"required":["name","age"],"additionalProperties":false}'
)
MAIL = ToolOffer("mail", "Send a mail.", b'{"type":"object","properties":{"to":{"type":"string"}}}')
NOTE = ToolOffer("note", "Keep a note.", b"")


def call_of(prompt: bytes = b"Hello.", seconds: float = 10, **more: Any) -> ModelCall:  # noqa: ANN401
    """Return a call for which there is some time."""
    return replace(
        ModelCall(
            "run-1",
            task="a",
            step="reply/1",
            number=1,
            prompt=BytesContent(prompt),
            seconds=seconds,
        ),
        **more,
    )


def spec_of(provider: Provider | str, api: Api = Api.CHAT, **more: Any) -> Chat:  # noqa: ANN401
    """Return a model that costs something, at a provider of ours."""
    url = provider if isinstance(provider, str) else provider.url
    own: dict[str, Any] = {"model": "tiny", "input_usd": 1_000_000, "output_usd": 5_000_000} | more
    return Chat(url, api=api, **own)


def ask(spec: Chat, call: ModelCall | None = None) -> CallReply:
    """Return what comes of one call."""
    return asyncio.run(make_model(spec).reply(call or call_of()))


def use_tool(
    tool: ToolSpec, invocation: ToolInvocation, sandbox: Sandbox | None = None
) -> CallReply:
    """Use a tool once, in a task of its own."""

    async def use() -> CallReply:
        async with open_tools(sandbox) as make_tool:
            return await make_tool(tool).invoke(invocation)

    return asyncio.run(use())


def output_of(reply: CallReply) -> bytes:
    """Return what was said."""
    return b"".join(reply.output.chunks())


def error_of(reply: CallReply) -> bytes:
    """Return what was said of an error."""
    return b"".join(reply.error.chunks())


CONVERSATION = (
    PromptMessage(MessageRole.SYSTEM, b"Be brief."),
    PromptMessage(MessageRole.USER, b"Mail and note it. \xff"),
    PromptMessage(
        MessageRole.AGENT, b"I will.", (ToolCall("mail", '{"to":"all"}'), ToolCall("note", "sent"))
    ),
    PromptMessage(MessageRole.TOOL, b"mailed", use=0),
    PromptMessage(MessageRole.TOOL, b"noted", use=1),
)
"""A system, a user, an agent that used two tools, and what came of them."""
