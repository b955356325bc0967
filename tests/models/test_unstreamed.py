"""Servers that answer in one piece although a stream was asked for, and addresses without /v1."""

import json
from typing import Any

import pytest

from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.runs.kinds import Why
from forum.runs.policy import Api, ToolCall
from tests.models.asking import FORM, MAIL, NOTE, ask, call_of, error_of, output_of, spec_of
from tests.models.provider import EVENTS, GOOD_USAGE, MODEL, in_one_piece, refuse, say, serving

_USES = (ToolCall("mail", '{"to":"all"}'), ToolCall("note", "sent"))


def _chat(**more: Any) -> dict[str, Any]:  # noqa: ANN401
    message = {"role": "assistant", "content": "two rivers"} | more
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    base = {"object": "chat.completion", "model": MODEL, "choices": [choice]}
    return base | {"usage": GOOD_USAGE[Api.CHAT]}


def _response(*items: dict[str, Any]) -> dict[str, Any]:
    content = [{"type": "output_text", "text": "two "}, {"type": "output_text", "text": "rivers"}]
    output = [{"type": "reasoning"}, {"type": "message", "content": content}, *items]
    base = {"object": "response", "status": "completed", "model": MODEL, "output": output}
    return base | {"usage": GOOD_USAGE[Api.RESPONSES], "error": None}


def _message(*blocks: dict[str, Any]) -> dict[str, Any]:
    content = [{"type": "text", "text": "two rivers"}, *blocks]
    base = {"type": "message", "model": MODEL, "content": content, "stop_reason": "end_turn"}
    return base | {"usage": GOOD_USAGE[Api.ANTHROPIC]}


WHOLE = {Api.CHAT: _chat(), Api.RESPONSES: _response(), Api.ANTHROPIC: _message()}
_CALLS = [{"id": u.tool, "function": {"name": u.tool, "arguments": u.arguments}} for u in _USES]
_ITEMS = [{"type": "function_call", "name": u.tool, "arguments": u.arguments} for u in _USES]
_BLOCKS = [
    {"type": "tool_use", "id": "1", "name": "mail", "input": {"to": "all"}},
    {"type": "tool_use", "id": "2", "name": "note", "input": {"input": "sent"}},
]
WITH_USES = {
    Api.CHAT: _chat(tool_calls=_CALLS),
    Api.RESPONSES: _response(*_ITEMS),
    Api.ANTHROPIC: _message(*_BLOCKS),
}


@pytest.mark.parametrize("api", list(Api))
@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "text/plain", "text/event-stream; charset=utf-8"]
)
def test_a_complete_answer_in_one_piece_is_an_answer(api: Api, kind: str) -> None:
    """It is what was asked for, and was paid for: text, tokens and model are taken as they are."""
    with serving(in_one_piece(WHOLE[api], kind)) as provider:
        reply = ask(spec_of(provider, api))

    assert (reply.outcome, output_of(reply), reply.model) == (Outcome.OK, b"two rivers", MODEL)
    assert reply.spent == Amount(22_000, 10, 1)


def test_an_answer_in_one_piece_may_follow_blank_pieces() -> None:
    """A server that keeps the connection alive with blank lines begins the object behind them."""
    body = json.dumps(_chat()).encode()
    with serving((EVENTS, b"\n", 0.05, b"\r\n", 0.05, body[:1], 0.05, body[1:])) as provider:
        reply = ask(spec_of(provider))

    assert (reply.outcome, output_of(reply)) == (Outcome.OK, b"two rivers")


@pytest.mark.parametrize("api", list(Api))
def test_tools_are_wanted_in_one_piece_too(api: Api) -> None:
    """Two calls stay two, although nothing but a stream numbers them."""
    with serving(in_one_piece(WITH_USES[api])) as provider:
        reply = ask(spec_of(provider, api), call_of(offers=(MAIL, NOTE)))

    assert reply.outcome is Outcome.OK
    assert [(use.tool, use.arguments.replace(" ", "")) for use in reply.uses] == [
        ("mail", '{"to":"all"}'),
        ("note", "sent"),
    ]


def test_an_answer_in_a_form_comes_in_one_piece_from_a_tool() -> None:
    """With Anthropic the form is a tool whose arguments are the output."""
    form = {"type": "tool_use", "id": "1", "name": "answer", "input": {"name": "Bo", "age": 3}}
    with serving(in_one_piece(_message(form))) as provider:
        reply = ask(spec_of(provider, Api.ANTHROPIC), call_of(schema=FORM))

    assert output_of(reply).replace(b" ", b"") == b'{"name":"Bo","age":3}'


@pytest.mark.parametrize("api", list(Api))
@pytest.mark.parametrize(
    "body", [{}, {"choices": []}, {"status": "ok"}, {"choices": [{"delta": {"content": "x"}}]}]
)
def test_what_is_no_completion_is_none(api: Api, body: dict[str, Any]) -> None:
    """Any JSON object could come from any server: one that holds no answer is malformed."""
    with serving(in_one_piece(body)) as provider:
        reply = ask(spec_of(provider, api))

    assert (reply.outcome, reply.why, reply.code) == (Outcome.FAILED, Why.ERROR, "malformed")
    assert output_of(reply) == b""


@pytest.mark.parametrize("answer", [refuse(404, b"404 page not found\n"), refuse(200, b"<html>")])
def test_a_missing_v1_is_suggested(answer: Any) -> None:  # noqa: ANN401
    """The address that is copied from a browser is the commonest mistake of a first day."""
    with serving(answer) as provider:
        bare = provider.url.removesuffix("/v1")
        reply, versioned = ask(spec_of(f"{bare}/")), ask(spec_of(provider))

    last = error_of(reply).decode().split("\n")[-1]
    assert last == f"there is no model API at {bare}/; did you mean {bare}/v1?"
    assert b"did you mean" not in error_of(versioned)


def test_an_unknown_model_is_no_missing_version() -> None:
    """A server that says which model it lacks has its API here."""
    data = b'{"error":{"message":"model \'tiny\' not found"}}'
    with serving(refuse(404, data)) as provider:
        reply = ask(spec_of(provider.url.removesuffix("/v1")))

    assert (reply.outcome, reply.code) == (Outcome.DENIED, "http 404")
    advice = b"model 'tiny' not found; correct the name of the model, 'tiny'"
    assert error_of(reply) == data + b"\n" + advice


def test_an_answer_in_one_piece_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not read to its end costs what was reserved."""
    monkeypatch.setattr("forum.runs.server_sent_events.MAX_EVENT_BYTES", 100)
    with serving(in_one_piece(_chat(content="x" * 200)), say("fits")) as provider:
        reply = ask(spec_of(provider))

    assert (reply.outcome, reply.why) == (Outcome.FAILED, Why.OVERSIZE)
