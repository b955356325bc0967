"""Anthropic's messages API, spoken to a provider of ours."""

import asyncio
import json

import pytest

from forum.engine import ToolOffer
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.models import make_model
from forum.runs.kinds import Why
from forum.runs.policy import Api, ToolCall
from tests.models.asking import (
    CANARY,
    CONVERSATION,
    FORM,
    MAIL,
    NOTE,
    ask,
    call_of,
    output_of,
    spec_of,
)
from tests.models.provider import Answer, events, say, serving

API = Api.ANTHROPIC
NOTHING = {"input_tokens": 0, "output_tokens": 0}
HALF = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "half"}}


def test_a_call_is_put_into_the_words_of_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of one turn are one message, and a form is a tool among those that must be used."""
    monkeypatch.setenv("FORUM_TEST_KEY", CANARY)
    with serving(say("ok", api=API)) as provider:
        options = {"temperature": 0, "system": "Obey me."}
        spec = spec_of(provider, API, options=options, max_tokens=55, key_env="FORUM_TEST_KEY")
        ask(spec, call_of(turns=CONVERSATION, offers=(MAIL, NOTE), schema=FORM))
        ask(spec, call_of(schema=FORM))
        ask(spec, call_of())

    full, form, plain = (seen.body for seen in provider.seen)
    headers = provider.seen[0].headers
    assert (headers["x-api-key"], headers["anthropic-version"]) == (CANARY, "2023-06-01")
    assert [message["role"] for message in full["messages"]] == ["user", "assistant", "user"]
    said, *asked = full["messages"][1]["content"]
    assert said == {"type": "text", "text": "I will."}
    assert [made["input"] for made in asked] == [{"to": "all"}, {"input": "sent"}]
    content = full["messages"][2]["content"]
    assert [(one["tool_use_id"], one["content"]) for one in content] == [
        (asked[0]["id"], "mailed"), (asked[1]["id"], "noted"),
    ]  # fmt: skip
    assert (full["system"], full["max_tokens"], full["temperature"]) == ("Be brief.", 55, 0)
    assert [tool["name"] for tool in full["tools"]] == ["mail", "note", "answer"]
    assert full["tool_choice"] == {"type": "any"}
    assert form["tools"][0]["input_schema"] == json.loads(FORM)
    assert form["tool_choice"] == {"type": "tool", "name": "answer"}
    assert not {"tools", "tool_choice", "system"} & plain.keys()


def test_a_good_answer_is_text_wishes_and_what_it_cost() -> None:
    """What was kept, and what is kept from now on, was read too."""
    usage = {
        "input_tokens": 4, "output_tokens": 3,
        "cache_read_input_tokens": 1, "cache_creation_input_tokens": 2,
    }  # fmt: skip
    with serving(
        say("Good day.", ToolCall("note", '{"input":"a"}'), api=API, usage=usage)
    ) as provider:
        reply = ask(spec_of(provider, API), call_of(offers=(NOTE,)))

    assert (reply.outcome, reply.code, output_of(reply)) == (Outcome.OK, "", b"Good day.")
    assert (reply.uses, reply.spent) == ((ToolCall("note", "a"),), Amount(22_000, 10, 1))
    assert (reply.model, reply.input_tokens) == ("tiny-1", 7)


def test_what_the_tool_for_the_form_is_given_is_the_output() -> None:
    """Whatever was said before it; and an offered tool of that name is another one."""
    form, offered = '{"name": "Ann", "age": 7}', ToolOffer("answer", "Answer a mail.", b"")
    with serving(say("Let me see.", ToolCall("answer", form), api=API)) as provider:
        alone = ask(spec_of(provider, API), call_of(schema=FORM))
        both = ask(spec_of(provider, API), call_of(schema=FORM, offers=(offered,)))

    assert (output_of(alone), alone.uses) == (form.encode(), ())
    assert (output_of(both), both.uses) == (b"Let me see.", (ToolCall("answer", form),))


def test_a_form_that_is_answered_in_plain_text_is_that_text() -> None:
    """Some servers force nobody; whether it has the form is for others to judge."""
    with serving(say('{"name":"Ann","age":7}', api=API)) as provider:
        reply = ask(spec_of(provider, API), call_of(schema=FORM))

    assert output_of(reply) == b'{"name":"Ann","age":7}'


def busy(kind: str) -> dict[str, object]:
    """Return an error in the midst of an answer."""
    return {"type": "error", "error": {"type": kind}}


@pytest.mark.parametrize(
    ("answer", "outcome", "why", "code"),
    [
        (events(HALF), Outcome.FAILED, Why.CUT, ""),
        (events(HALF, b"}"), Outcome.FAILED, Why.ERROR, "malformed"),
        (events(HALF, busy("overloaded_error")), Outcome.FAILED, Why.THROTTLED, "overloaded"),
        (events(HALF, busy("api_error")), Outcome.FAILED, Why.ERROR, "provider"),
        (say("half", api=API, usage=[]), Outcome.OK, Why.NONE, "no-usage"),
        (say("half", api=API, usage={"output_tokens": -3}), Outcome.OK, Why.NONE, "no-usage"),
        (say("half", api=API, usage=NOTHING), Outcome.OK, Why.NONE, "no-usage"),
        (say("half", api=API, finish="refusal", usage={}), Outcome.DENIED, Why.ERROR, "refused"),
        (say("", api=API, finish="max_tokens", usage={}), Outcome.FAILED, Why.CUT, "length"),
    ],
)
def test_whatever_goes_wrong_has_an_outcome(
    answer: Answer, outcome: Outcome, why: Why, code: str
) -> None:
    """And where nobody says what it cost, it cost all that was reserved."""
    with serving(answer) as provider:
        model, call = make_model(spec_of(provider, API)), call_of()
        reply = asyncio.run(model.reply(call))

    assert (reply.outcome, reply.why, reply.code) == (outcome, why, code)
    assert (reply.spent, output_of(reply) in (b"", b"half")) == (model.bound(call), True)
