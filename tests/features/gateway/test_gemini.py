"""Gemini's API through the gateway: what is bounded, what is refused, and what a call costs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.features.gateway.call_reader import read_call
from forum.features.gateway.refusals import CallRefused
from forum.features.gateway.relayed_run import RunLimits
from forum.features.gateway.reply_reader import ReplyReader
from forum.features.gateway.request_reader import ReadRequest
from forum.features.gateway.routes import ApiOperation, ApiProvider, find_route
from forum.ledger.ports import NO_LIMIT, Amount
from forum.models.prices import BilledTokens, price_by_name
from forum.runs.conversation.decoder import decode_exchange
from tests.features.gateway.harness import PROVIDER_KEY, TOKEN, Harness, harness
from tests.features.gateway.test_relay import CENT, dollars

MODEL = "gemini-2.5-flash"
CALL, STREAM = (f"/gemini/v1beta/models/{MODEL}:{name}" for name in
                ("generateContent", "streamGenerateContent"))  # fmt: skip
CREDENTIALS = {"authorization": "", "x-goog-api-key": TOKEN}
A_PART: dict[str, Any] = {"text": "Name a river."}


def ask(*parts: object, **members: Any) -> dict[str, Any]:  # noqa: ANN401  # any JSON
    """Return a request."""
    return {"contents": [{"role": "user", "parts": list(parts or [A_PART])}], **members}


def read(body: object, method: str = "generateContent") -> ReadRequest:
    """Read a request as the gateway does under a cap."""
    route = find_route(ApiProvider.GEMINI, "POST", f"/v1beta/models/{MODEL}:{method}")
    request = read_call(route, json.dumps(body).encode())
    if request.doubt:
        raise AssertionError(request.doubt)
    return request


USUAL: list[dict[str, Any]] = [
    ask(systemInstruction={"parts": [A_PART]}, safetySettings=[{"category": "x"}]),
    ask(system_instruction={"parts": A_PART}, tool_config={"function_calling_config": {}}),
    ask(tools=[{"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"fileData": 1}}]}]),
    ask(tools=[{"function_declarations": [{"name": "f", "parameters": {"fileData": 1}}]}]),
    ask({"functionCall": {"name": "f", "args": {"fileData": {}}}, "thoughtSignature": "x"}),
    ask({"functionResponse": {"name": "f", "response": {"inlineData": 1}}}),
    ask(generationConfig={"temperature": 1, "thinkingConfig": {"thinkingLevel": "HIGH"}}),
    ask(generation_config={"top_p": 1.0, "max_output_tokens": 9, "response_mime_type": "x"}),
    ask(generationConfig={"responseModalities": ["TEXT"]}, serviceTier="standard", model=MODEL),
]


@pytest.mark.parametrize("body", USUAL)
def test_what_clients_usually_send_is_bounded(body: dict[str, Any]) -> None:
    """In both spellings, and mixed."""
    request = read(body)
    assert request.unpriced == ()
    assert request.model == MODEL
    assert request.input_tokens >= len(json.dumps(body, separators=(",", ":")))


UNPRICED: list[tuple[dict[str, Any], str]] = [
    (ask(tools=[{"googleSearch": {}}]), "googleSearch"),
    (ask(tools=[{"google_search": {}}]), "googleSearch"),
    (ask(tools=[{"codeExecution": {}}]), "codeExecution"),
    (ask(tools={"urlContext": {}}), "urlContext"),
    (ask(tools=[{"fileSearch": {}, "functionDeclarations": []}]), "fileSearch"),
    (ask({"fileData": {"fileUri": "https://x"}}), "fileData"),
    (ask({"file_data": {"file_uri": "https://x"}}), "fileData"),
    (ask({"inlineData": {"mimeType": "audio/wav", "data": "eA=="}}), "audio"),
    (ask({"inlineData": {"mimeType": "application/pdf", "data": "eA=="}}), "files"),
    (ask({"inlineData": {"data": "eA=="}}), "files"),
    (ask({"functionResponse": {"name": "f", "parts": [{"fileData": {}}]}}), "fileData"),
    (ask({"text": "x", "videoMetadata": {}}), "videoMetadata"),
    (ask(cachedContent="cachedContents/x"), "cachedContent"),
    (ask(serviceTier="priority"), "serviceTier"),
    (ask(generationConfig={"responseModalities": ["IMAGE"]}), "responseModalities"),
    (ask(generationConfig={"speechConfig": {}}), "speechConfig"),
    (ask(generationConfig={"thinkingConfig": {"more": 1}}), "more"),
]


@pytest.mark.parametrize(("body", "name"), UNPRICED)
def test_what_is_billed_apart_is_named(body: dict[str, Any], name: str) -> None:
    """What runs at the provider, is stored there, or is more than text and images."""
    assert read(body).unpriced == (name,)


PLACES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "request": lambda more: ask(**more),
    "content": lambda more: ask(contents=[{"parts": [A_PART], **more}]),
    "part": lambda more: ask({**A_PART, **more}),
    "image": lambda more: ask({"inlineData": {"mimeType": "image/png", "data": "eA==", **more}}),
    "result": lambda more: ask({"functionResponse": {"name": "f", **more}}),
    "tool": lambda more: ask(tools=[{"functionDeclarations": [], **more}]),
    "function": lambda more: ask(tools=[{"functionDeclarations": [{"name": "f", **more}]}]),
    "choice": lambda more: ask(toolConfig={"functionCallingConfig": {}, **more}),
    "settings": lambda more: ask(generationConfig={"topP": 1, **more}),
    "thinking": lambda more: ask(generationConfig={"thinkingConfig": {**more}}),
}


@given(st.sampled_from(sorted(PLACES)), st.from_regex(r"[a-z]{1,8}(_[a-z]{1,8}|[A-Z][a-z]{1,8})Zz",
                                                      fullmatch=True))  # fmt: skip
def test_a_member_that_is_not_listed_is_named_wherever_it_stands(place: str, name: str) -> None:
    """Also one that the API gets tomorrow."""
    (unpriced,) = read(PLACES[place]({name: {"on": True}})).unpriced
    assert unpriced.lower() == name.replace("_", "").lower()


@pytest.mark.parametrize(
    "body",
    [
        ask(topP=1, top_p=2),
        ask(generationConfig={"maxOutputTokens": 5, "max_output_tokens": 5000}),
        ask(generationConfig={}, generation_config={"maxOutputTokens": 5}),
        ask(generationConfig={"maxOutputTokens": 0}),
        ask(generationConfig={"maxOutputTokens": "5"}),
        ask(generationConfig={"candidateCount": 1000}),
        ask(generationConfig=[{"maxOutputTokens": 5}]),
        ask(model="models/gemini-2.5-pro"),
        {"contents": ["x"]},
        [],
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(body: object) -> None:
    """The gateway would bound one reading, and the provider bill the other."""
    with pytest.raises((CallRefused, AssertionError)):
        read(body)


def test_an_image_counts_as_the_most_that_an_image_costs() -> None:
    """Whatever its size."""
    small, large = (
        read(ask({"inlineData": {"mimeType": "image/png", "data": "A" * size}})).input_tokens
        for size in (4, 40_000)
    )
    assert 50_000 < small == large < 52_000


def test_the_limit_and_the_choices_bound_the_output() -> None:
    """A budget for thinking is within the limit, unless it is above it."""
    settings = {"maxOutputTokens": 50, "candidateCount": 3, "thinkingConfig": {"thinkingBudget": 9}}
    request = read(ask(generationConfig=settings))
    assert (request.output_limit, request.choices) == (50, 3)
    settings["thinkingConfig"] = {"thinking_budget": 900}
    assert read(ask(generationConfig=settings)).output_limit == 900
    settings["thinkingConfig"] = {"thinkingBudget": -1}
    assert read(ask(generationConfig=settings)).output_limit == 50


def test_vectors_for_several_texts_are_one_call() -> None:
    """All of them are for the model of the path."""
    each = {"model": f"models/{MODEL}", "content": {"parts": [A_PART]}, "taskType": "x"}
    assert read({"requests": [each, each]}, "batchEmbedContents").unpriced == ()
    assert read(each, "embedContent").unpriced == ()
    assert read({"requests": [{**each, "new": 1}]}, "batchEmbedContents").unpriced == ("new",)
    with pytest.raises(AssertionError, match="another model"):
        read({"requests": [each, {**each, "model": "models/other"}]}, "batchEmbedContents")


def cost_of(gateway: Harness) -> int:
    """Return what the provider has billed, in nano-dollars."""
    price = price_by_name(MODEL)
    return sum(price.cost(BilledTokens(bill["in"], bill["out"])) for bill in gateway.bills())


@pytest.mark.parametrize("path", [CALL, f"{STREAM}?alt=sse"])
def test_a_call_costs_what_the_provider_bills(tmp_path: Path, path: str) -> None:
    """Thoughts are output, and an output limit that is missing is set where it counts."""
    with harness(tmp_path, dollars(CENT)) as gateway:
        reply = gateway.post(path, ask(generation_config={"topP": 0.50}), **CREDENTIALS)

        assert reply.status_code == 200, reply.text
        assert "thoughtsTokenCount" in reply.text
        (begun,), (step,) = gateway.entries("report.begin/1"), gateway.entries("report.step/1")
        assert begun.facts.altered == ("generationConfig.maxOutputTokens",)
        assert (begun.facts.model, begun.facts.provider) == (MODEL, "gemini")
        assert step.facts.usd == cost_of(gateway) > 0
        (sent,) = gateway.provider.requests
        assert sent["body"].startswith(b'{"contents":')
        assert b'"generationConfig":{"maxOutputTokens":' in sent["body"]
        assert b'"topP":0.5' in sent["body"]


def test_a_limit_that_is_set_has_room_for_the_thinking(tmp_path: Path) -> None:
    """A budget for thinking is reserved, whether the client has set an output limit or not."""
    settings = {"thinkingConfig": {"thinking_budget": 12_000}}
    with harness(tmp_path, dollars(5 * CENT)) as gateway:
        reply = gateway.post(CALL, ask(generationConfig=settings), **CREDENTIALS)
        assert reply.status_code == 200, reply.text
        (begun,) = gateway.entries("report.begin/1")
        (sent,) = gateway.provider.requests
        limit = json.loads(sent["body"])["generationConfig"]["maxOutputTokens"]
    assert begun.facts.tokens > limit > 12_000


def test_a_stream_that_breaks_off_costs_its_reservation(tmp_path: Path) -> None:
    """Its last event, with the whole usage, is missing."""
    with harness(tmp_path, dollars(CENT)) as gateway:
        gateway.provider.always_cut = True
        with pytest.raises(Exception, match=r"peer closed|incomplete"):
            gateway.post(f"{STREAM}?alt=sse", ask(), **CREDENTIALS)

        (begun,), (step,) = gateway.entries("report.begin/1"), gateway.entries("report.step/1")
        assert step.facts.usd == begun.facts.usd > cost_of(gateway)


def part(**usage: int) -> dict[str, Any]:
    """Return the last part of a reply."""
    return {"candidates": [{"finishReason": "STOP"}], "usageMetadata": usage, "modelVersion": "m"}


REPLIES: list[tuple[list[dict[str, Any]], object]] = [
    ([part(promptTokenCount=9, candidatesTokenCount=2, totalTokenCount=11)], BilledTokens(9, 2)),
    ([part(promptTokenCount=9, thoughtsTokenCount=5)], BilledTokens(9, 5)),
    # Tokens of tools are read again; those of the cache are a part of the prompt.
    (
        [part(promptTokenCount=9, toolUsePromptTokenCount=4, cachedContentTokenCount=7,
              candidatesTokenCount=1, totalTokenCount=20)],
        BilledTokens(13, 7, 7),
    ),
    # A later count that is left out is not 0.
    ([part(promptTokenCount=9, candidatesTokenCount=4), part(promptTokenCount=9)],
     BilledTokens(9, 4)),
    ([{"usageMetadata": {"promptTokenCount": 9}, "promptFeedback": {"blockReason": "SAFETY"}}],
     BilledTokens(9, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "tokens"), REPLIES)
def test_the_usage_of_a_reply_is_read(parts: list[dict[str, Any]], tokens: object) -> None:
    """As events, or as the list that a client gets that does not ask for events."""
    events = b"".join(b"data: " + json.dumps(each).encode() + b"\r\n\r\n" for each in parts)
    for data, streams in ((events, True), (json.dumps(parts).encode(), False)):
        reader = ReplyReader(ApiOperation.GENERATE, streams=streams)
        reader.feed(data)
        assert reader.tokens is None
        reader.finish()
        assert reader.tokens == (tokens, 0)


def test_a_bill_for_sounds_or_pictures_is_no_bill_for_text() -> None:
    """They cost more than the table says of the model's tokens."""
    for name, modality in (("promptTokensDetails", "AUDIO"), ("candidatesTokensDetails", "IMAGE")):
        reply = part(promptTokenCount=5, candidatesTokenCount=5)
        reply["usageMetadata"][name] = [{"modality": modality, "tokenCount": 5}]
        reader = ReplyReader(ApiOperation.GENERATE, streams=False)
        reader.feed(json.dumps(reply).encode())
        reader.finish()
        assert reader.has_unpriced_tokens


def test_a_refusal_has_the_form_of_gemini(tmp_path: Path) -> None:
    """Its SDKs show the message."""
    with harness(tmp_path, dollars(CENT)) as gateway:
        reply = gateway.post(CALL, ask(tools=[{"googleSearch": {}}]), **CREDENTIALS)
        error = reply.json()["error"]
        assert (reply.status_code, error["code"], error["status"]) == (
            403,
            403,
            "PERMISSION_DENIED",
        )
        assert "--allow googleSearch" in error["message"]
        assert error["details"][0]["reason"] == "forum_unpriced"
        (refused,) = gateway.entries("report.step/1")
        assert (refused.facts.model, refused.facts.outcome) == (MODEL, "denied")
        reply = gateway.post(f"/gemini/v1beta/models/{MODEL}:predict", {}, **CREDENTIALS)
        assert "--allow path:v1beta" in reply.json()["error"]["message"]
        assert gateway.provider.requests == []


FREE = RunLimits(cap=Amount(NO_LIMIT, 0, NO_LIMIT))


def test_counts_and_lists_are_free(tmp_path: Path) -> None:
    """They pass with nothing left."""
    with harness(tmp_path, FREE) as gateway:
        path = f"/gemini/v1beta/models/{MODEL}:countTokens"
        assert gateway.post(path, ask(), **CREDENTIALS).json()["totalTokens"]
        listed = "/gemini/v1beta/models?pageSize=5&pageToken=x"
        assert gateway.client.get(listed, headers={"x-goog-api-key": TOKEN}).status_code == 200


@pytest.mark.parametrize("own", [True, False], ids=["with Forum's key", "with the client's key"])
@pytest.mark.parametrize("place", ["header", "query"])
def test_a_key_is_neither_recorded_nor_passed_on_in_the_address(
    tmp_path: Path, place: str, *, own: bool
) -> None:
    """The token is shown as the key; a key of the client's own goes on as a header."""
    shown = TOKEN if own else "client-key-of-gemini"
    prefix = "" if own else f"/{TOKEN}"
    query = f"?alt=sse&key={shown}" if place == "query" else "?alt=sse"
    headers = {"authorization": "", "x-goog-api-key": shown if place == "header" else ""}
    with harness(tmp_path, with_key=own) as gateway:
        gateway.provider.echoes = True
        reply = gateway.post(prefix + STREAM + query, ask(), **headers)

        assert reply.status_code == 200, reply.text
        (sent,) = gateway.provider.requests
        assert sent["scope"]["query_string"] == b"alt=sse"
        assert sent["headers"]["x-goog-api-key"] == (PROVIDER_KEY if own else shown)
        for entry in [*gateway.entries("report.begin/1"), *gateway.entries("report.step/1")]:
            for body in entry.bodies:
                assert shown.encode() not in gateway.body(entry, body)


def test_a_stranger_is_refused(tmp_path: Path) -> None:
    """A key in the query counts for Gemini only."""
    with harness(tmp_path) as gateway:
        for path in (f"{CALL}?key=wrong", f"/openai/v1/models?key={TOKEN}"):
            assert gateway.client.post(path, json=ask()).status_code == 401
        assert gateway.provider.requests == []


def test_a_transcript_has_the_messages(tmp_path: Path) -> None:
    """Of a stream too."""
    declared = [{"functionDeclarations": [{"name": "look_up"}]}]
    with harness(tmp_path) as gateway:
        gateway.post(f"{STREAM}?alt=sse", ask(tools=declared), **CREDENTIALS)
        (begun,), (step,) = gateway.entries("report.begin/1"), gateway.entries("report.step/1")
        exchange = decode_exchange(gateway.body(begun, "input"), gateway.body(step, "output"))
        assert exchange.request[0].text == "Name a river."
        assert exchange.reply[0].calls[0].name == "look_up"
        assert exchange.model == MODEL
        assert json.loads(gateway.body(step, "attributes"))["tools"] == {"look_up": 1}
