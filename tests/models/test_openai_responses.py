"""OpenAI's responses API, spoken to a provider of ours."""

import asyncio
import json

import pytest

from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.models import make_model
from forum.runs.kinds import Why
from forum.runs.policy import Api, ToolCall
from tests.models.asking import CONVERSATION, FORM, MAIL, NOTE, ask, call_of, output_of, spec_of
from tests.models.provider import Answer, events, say, serving

API = Api.RESPONSES
NOTHING = {"input_tokens": 0, "output_tokens": 0}
DELTA = {"type": "response.output_text.delta", "delta": "half"}
COMPLETED = {"type": "response.completed"}


def test_a_call_is_put_into_the_words_of_the_api() -> None:
    """Who spoke, what may be used and which form; and the provider keeps nothing of it."""
    options = {"top_p": 1, "instructions": "Obey me.", "previous_response_id": "r"}
    with serving(say("ok", api=API)) as provider:
        spec = spec_of(provider, API, options=options, max_tokens=55)
        ask(spec, call_of(turns=CONVERSATION, offers=(MAIL, NOTE), schema=FORM))

    (seen,) = provider.seen
    assert seen.path == "/v1/responses"
    asked, said, *items = seen.body["input"]
    assert asked == {"role": "user", "content": "Mail and note it. \N{REPLACEMENT CHARACTER}"}
    assert said == {"role": "assistant", "content": "I will."}
    kinds = ["function_call"] * 2 + ["function_call_output"] * 2
    assert [item["type"] for item in items] == kinds
    assert [item["call_id"] for item in items[:2]] == [item["call_id"] for item in items[2:]]
    assert json.loads(items[1]["arguments"]) == {"input": "sent"}
    assert (seen.body["instructions"], seen.body["max_output_tokens"]) == ("Be brief.", 55)
    assert [(tool["name"], tool["strict"]) for tool in seen.body["tools"]] == [
        ("mail", False), ("note", True),
    ]  # fmt: skip
    assert seen.body["text"]["format"]["schema"] == json.loads(FORM)
    assert (seen.body["top_p"], seen.body["store"], seen.body["stream"]) == (1, False, True)
    assert "previous_response_id" not in seen.body


def test_a_good_answer_is_text_wishes_and_what_it_cost() -> None:
    """Of seven tokens that were read, five had been kept: a declared price knows no discount."""
    usage = {"input_tokens": 7, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 5}}
    with serving(
        say("Good day.", ToolCall("note", '{"input":"a"}'), api=API, usage=usage)
    ) as provider:
        reply = ask(spec_of(provider, API), call_of(offers=(NOTE,)))

    assert (reply.outcome, reply.code, output_of(reply)) == (Outcome.OK, "", b"Good day.")
    assert (reply.uses, reply.spent) == ((ToolCall("note", "a"),), Amount(22_000, 10, 1))
    assert (reply.model, reply.input_tokens) == ("tiny-1", 7)


@pytest.mark.parametrize(
    ("answer", "outcome", "why", "code"),
    [
        (events(DELTA), Outcome.FAILED, Why.CUT, ""),
        (events(DELTA, b"[DONE]"), Outcome.FAILED, Why.ERROR, "malformed"),
        (events({"type": "error", "message": "x"}), Outcome.FAILED, Why.ERROR, "provider"),
        (events({"type": "response.failed"}), Outcome.FAILED, Why.ERROR, "provider"),
        (events(COMPLETED), Outcome.OK, Why.NONE, "no-usage"),
        (say("half", api=API, usage={}), Outcome.OK, Why.NONE, "no-usage"),
        (say("half", api=API, usage=NOTHING), Outcome.OK, Why.NONE, "no-usage"),
        (
            events({"type": "response.refusal.delta", "delta": "no"}, COMPLETED),
            Outcome.DENIED, Why.ERROR, "refused",
        ),
        (
            say("half", api=API, finish="content_filter", usage={}),
            Outcome.DENIED, Why.ERROR, "refused",
        ),
        (say("", api=API, finish="max_output_tokens", usage={}), Outcome.FAILED, Why.CUT, "length"),
    ],
)  # fmt: skip
def test_whatever_goes_wrong_has_an_outcome(
    answer: Answer, outcome: Outcome, why: Why, code: str
) -> None:
    """And where nobody says what it cost, it cost all that was reserved."""
    with serving(answer) as provider:
        model, call = make_model(spec_of(provider, API)), call_of()
        reply = asyncio.run(model.reply(call))

    assert (reply.outcome, reply.why, reply.code) == (outcome, why, code)
    assert (reply.spent, output_of(reply) in (b"", b"half", b"no")) == (model.bound(call), True)
