"""Models behind pydantic-ai: the same calls and outcomes as over our own wires."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from time import monotonic

import pytest
from pydantic_ai.exceptions import ContentFilterError, UnexpectedModelBehavior
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from forum.engine import NO_COST, CallReply, ModelCall
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.models import make_model
from forum.models.pydantic_ai_model import PydanticAiModel
from forum.runs.kinds import Why
from forum.runs.policy import Library, ToolCall
from tests.models.asking import (
    CONVERSATION,
    FORM,
    MAIL,
    NOTE,
    call_of,
    error_of,
    output_of,
)
from tests.models.provider import FOREVER, Answer, refuse, serving

SPEC = Library("function:tiny", max_tokens=55, input_usd=1_000_000, output_usd=5_000_000)
USAGE = RequestUsage(input_tokens=7, output_tokens=3)


def ask(
    function: Callable[[list[ModelMessage], AgentInfo], ModelResponse],
    call: ModelCall | None = None,
) -> CallReply:
    """Return what comes of one call of a model that is a function."""

    def infer(name: str) -> Model:
        return FunctionModel(function, model_name=name)

    return asyncio.run(PydanticAiModel(SPEC, infer).reply(call or call_of()))


def test_a_call_is_put_into_the_words_of_the_library() -> None:
    """Who spoke, what may be used and which form; in one request that is not repeated."""
    asked: list[tuple[list[ModelMessage], AgentInfo]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append((messages, info))
        return ModelResponse([TextPart("ok")], usage=USAGE)

    ask(answer, call_of(turns=CONVERSATION, offers=(MAIL, NOTE), schema=FORM))

    ((messages, info),) = asked
    model_request, request, results = messages
    assert isinstance(model_request, ModelRequest)
    assert isinstance(results, ModelRequest)
    assert [part.part_kind for part in model_request.parts] == ["system-prompt", "user-prompt"]
    assert [part.part_kind for part in request.parts] == ["text", "tool-call", "tool-call"]
    calls = [part for part in request.parts if isinstance(part, ToolCallPart)]
    assert [part.args for part in calls] == [{"to": "all"}, {"input": "sent"}]
    assert [(part.part_kind, getattr(part, "tool_call_id", "")) for part in results.parts] == [
        ("tool-return", part.tool_call_id) for part in calls
    ]
    assert [tool.name for tool in info.function_tools] == ["mail", "note"]
    settings = info.model_settings or {}
    assert (settings.get("max_tokens"), settings.get("max_retries")) == (55, 0)


def test_a_good_answer_is_text_wishes_and_what_it_cost() -> None:
    """What it thought is no output."""
    parts: list[ModelResponsePart] = [
        ThinkingPart("hm"),
        TextPart("Good day."),
        ToolCallPart("note", '{"input":"a"}'),
    ]

    reply = ask(lambda *_, **__: ModelResponse(parts, usage=USAGE), call_of(offers=(NOTE,)))
    assert (reply.outcome, reply.code, output_of(reply)) == (Outcome.OK, "", b"Good day.")
    assert (reply.uses, reply.spent) == ((ToolCall("note", "a"),), Amount(22_000, 10, 1))
    assert (reply.input_tokens, reply.prices) == (7, "declared")


def test_a_form_may_come_as_a_tool() -> None:
    """As some providers do it; it is the output all the same."""
    form = '{"name":"Ann","age":7}'

    reply = ask(
        lambda *_, **__: ModelResponse([ToolCallPart("answer", form)]), call_of(schema=FORM)
    )
    assert (output_of(reply), reply.uses, reply.outcome) == (form.encode(), (), Outcome.OK)


def raising(error: Exception) -> Callable[[list[ModelMessage], AgentInfo], ModelResponse]:
    """Return a model that fails."""

    def answer(*_: object, **__: object) -> ModelResponse:
        raise error

    return answer


@pytest.mark.parametrize(
    ("function", "outcome", "why", "code"),
    [
        (raising(ContentFilterError("no")), Outcome.DENIED, Why.ERROR, "refused"),
        (raising(UnexpectedModelBehavior("odd")), Outcome.FAILED, Why.ERROR, "provider"),
        (
            lambda *_, **__: ModelResponse([TextPart("x" * (1 << 24)), TextPart("x")]),
            Outcome.FAILED, Why.OVERSIZE, "",
        ),
    ],
)  # fmt: skip
def test_whatever_goes_wrong_has_an_outcome(
    function: Callable[..., ModelResponse], outcome: Outcome, why: Why, code: str
) -> None:
    """And where nobody says what it cost, it cost all that was reserved."""
    reply = ask(function)

    assert (reply.outcome, reply.why, reply.code) == (outcome, why, code)
    assert reply.spent == PydanticAiModel(SPEC).bound(call_of())


def whole(finish: str, text: str = "hello") -> Answer:
    """Return an answer that comes as a whole, and says nothing of tokens."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "x", "choices": [choice]}
    return refuse(200, json.dumps(body).encode(), Content_Type="application/json")


@pytest.mark.parametrize(
    ("answer", "outcome", "why", "code", "free"),
    [
        (whole("stop"), Outcome.OK, Why.NONE, "no-usage", False),
        (whole("length", ""), Outcome.FAILED, Why.CUT, "length", False),
        (refuse(429, Retry_After="2"), Outcome.FAILED, Why.THROTTLED, "http 429", True),
        (refuse(500), Outcome.FAILED, Why.ERROR, "http 500", True),
        (refuse(401), Outcome.DENIED, Why.ERROR, "http 401", True),
        ((), Outcome.FAILED, Why.CUT, "", False),
        ((FOREVER,), Outcome.TIMEOUT, Why.DEADLINE, "", False),
    ],
    ids=["no bill", "cut", "busy", "broken", "no key", "nothing", "late"],
)
def test_a_provider_is_asked_once_whatever_it_says(
    answer: Answer,
    outcome: Outcome,
    why: Why,
    code: str,
    free: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The library's own retries are off: every attempt is an entry of its own."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    spec = Library("openai-chat:tiny", input_usd=1, output_usd=1)
    with serving(answer) as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
        model, began = make_model(spec), monotonic()
        # The library takes seconds to load on a busy machine: only who is late has to hurry.
        seconds = 3 if why is Why.DEADLINE else 30
        reply = asyncio.run(model.reply(call_of(seconds=seconds)))

    assert (reply.outcome, reply.why, reply.code) == (outcome, why, code)
    assert reply.spent == (NO_COST if free else model.bound(call_of()))
    assert reply.retry_milliseconds == (2000 if "429" in code else 0)
    assert len(provider.seen) == 1
    assert monotonic() - began < 30


def test_who_cannot_be_reached_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """And who is not set up is told what to set."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model = make_model(Library("openai-chat:tiny", input_usd=1, output_usd=1))
    missing = asyncio.run(model.reply(call_of()))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    gone = asyncio.run(model.reply(call_of()))

    assert (missing.outcome, missing.code) == (Outcome.DENIED, "not-configured")
    assert b"OPENAI_API_KEY" in error_of(missing)
    assert (gone.outcome, gone.code) == (Outcome.FAILED, "connect")
    assert missing.spent == gone.spent == NO_COST


def test_without_the_extra_it_is_told_which_one() -> None:
    """The base installation has no library of models."""
    program = """
import sys
sys.modules["pydantic_ai"] = None
from forum.errors import MissingExtra
from forum.models import make_model
from forum.runs.policy import Library
try:
    make_model(Library("openai:gpt-4o"))
except MissingExtra as missing:
    assert "[agents]" in str(missing)
else:
    sys.exit(1)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_what_is_said_is_heard_once_it_is_there() -> None:
    """The library is asked for whole answers: thoughts and wishes are not for those who listen."""
    heard: list[str] = []
    tool_call_part = ToolCallPart("mail", {"to": "all"})
    answer = ModelResponse([ThinkingPart("hm"), TextPart("Good day."), tool_call_part])
    ask(lambda *_, **__: answer, call_of(offers=(MAIL,), hear=heard.append))

    assert heard == ["Good day."]
