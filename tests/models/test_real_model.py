"""All ways to ask a model, with one that really is one: SmolLM2 on this machine.

What it says is not judged here; it is too small for that.
"""

import asyncio

import msgspec
import pytest

from forum.engine import ToolOffer
from forum.features.demo.smollm2 import MODEL
from forum.ledger.kinds import Outcome
from forum.models import make_model
from forum.runs.policy import Api, Chat, Library, ToolCall
from forum.runs.prompt import MessageRole, PromptMessage
from tests.models.asking import FORM, ask, call_of, output_of

pytestmark = pytest.mark.slow  # they wait for a model

ADD = ToolOffer(
    "add",
    "Add two numbers",
    b'{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},'
    b'"required":["a","b"]}',
)


class Person(msgspec.Struct, forbid_unknown_fields=True):
    """What a reply is made to be."""

    name: str
    age: int


@pytest.mark.parametrize("api", Api)
def test_a_real_model_answers_over_every_api(smollm2: str, api: Api) -> None:
    """With text, its own count of tokens, and no bill; within what was reserved."""
    model = make_model(Chat(smollm2, MODEL, api, max_tokens=12, options={"temperature": 0}))
    turns = (
        PromptMessage(MessageRole.SYSTEM, b"Be brief."),
        PromptMessage(MessageRole.USER, b"Say hello."),
    )
    call = call_of(b"Be brief. Say hello.", seconds=60, turns=turns)
    reply = asyncio.run(model.reply(call))

    assert reply.outcome is Outcome.OK
    assert reply.output.size
    assert 0 < reply.input_tokens < reply.spent.tokens <= model.bound(call).tokens
    assert (reply.spent.usd, reply.model, reply.prices) == (0, MODEL, "free")


@pytest.mark.parametrize("api", [Api.CHAT, Api.RESPONSES])
def test_a_real_model_is_held_to_a_form(smollm2: str, api: Api) -> None:
    """llama.cpp knows the form of chat completions; over the other API it takes it as an option.

    Over Anthropic's it can be held to none.
    """
    options = {} if api is Api.CHAT else {"json_schema": msgspec.json.decode(FORM)}
    spec = Chat(smollm2, MODEL, api, max_tokens=60, options=options)
    reply = ask(spec, call_of(b"Name a person and an age.", seconds=60, schema=FORM))

    person = msgspec.json.decode(output_of(reply), type=Person)
    assert reply.outcome is Outcome.OK
    assert 1 <= person.age <= 99


@pytest.mark.parametrize("api", [Api.CHAT, Api.ANTHROPIC])
def test_a_real_model_uses_a_tool_and_tells_what_came_of_it(smollm2: str, api: Api) -> None:
    """A wish, a result, and the sentence about it: the whole way there and back."""
    spec = Chat(smollm2, MODEL, api, max_tokens=60)
    prompt_message = PromptMessage(MessageRole.USER, b"Add two numbers: a 17, b 25")
    call_reply = ask(
        spec, call_of(prompt_message.text, seconds=60, turns=(prompt_message,), offers=(ADD,))
    )
    turns = (
        prompt_message,
        PromptMessage(MessageRole.AGENT, output_of(call_reply), call_reply.uses),
        PromptMessage(MessageRole.TOOL, b"42"),
    )
    reply = ask(spec, call_of(prompt_message.text, seconds=60, turns=turns, offers=(ADD,)))

    (use,) = call_reply.uses
    assert (use.tool, msgspec.json.decode(use.arguments)) == ("add", {"a": 17, "b": 25})
    assert (reply.outcome, reply.uses) == (Outcome.OK, ())
    assert b"42" in output_of(reply)


def test_a_real_model_answers_through_the_library(
    smollm2: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a form, a tool and a count of tokens, as over our own wires."""
    monkeypatch.setenv("OPENAI_BASE_URL", smollm2)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    spec = Library(f"openai-chat:{MODEL}", max_tokens=60, input_usd=0, output_usd=0)
    form = call_of(b"Name a person and an age.", seconds=60, schema=FORM)
    tool = call_of(b"Add two numbers: a 17, b 25", seconds=60, offers=(ADD,))
    replies = [asyncio.run(make_model(spec).reply(call)) for call in (form, tool)]

    assert [reply.outcome for reply in replies] == [Outcome.OK] * 2
    assert 1 <= msgspec.json.decode(output_of(replies[0]), type=Person).age <= 99
    (use,) = replies[1].uses
    assert use == ToolCall("add", use.arguments)
    assert all(reply.input_tokens and reply.model == MODEL for reply in replies)
