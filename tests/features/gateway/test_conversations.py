"""What the provider said of an earlier call bounds the next one of the same conversation."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from tiktoken._educational import SimpleBytePairEncoding

from forum.features.gateway.conversations import (
    MAX_CONVERSATIONS,
    ConversationKey,
    ConversationMemory,
    conversation_key,
)
from forum.features.gateway.relayed_run import RunLimits
from forum.features.gateway.request_reader import ReadRequest, read_request
from forum.features.gateway.routes import ApiOperation
from forum.ledger.ports import UNLIMITED
from forum.units import to_cost
from tests.features.gateway.harness import harness

CHAT, RESPONSES = ApiOperation.CHAT, ApiOperation.RESPONSES
MESSAGES = ApiOperation.MESSAGES
KEY: Final = conversation_key("https://api.example/v1", "/chat/completions", {"accept": "*/*"})
_PATTERN: Final = r"""'s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
Json = dict[str, Any]


def read(members: Json, operation: ApiOperation = CHAT) -> ReadRequest:
    """Read a request."""
    return read_request(operation, json.dumps({"model": "m", **members}).encode())


def bounded(
    earlier: Json, later: Json, operation: ApiOperation = CHAT, tokens: int = 2_000
) -> tuple[int, int]:
    """Return the bound of a later request after an earlier one of so many tokens, and the full."""
    memory, request = ConversationMemory(), read(later, operation)
    memory.remember(KEY, read(earlier, operation), tokens)
    return memory.bound(KEY, request).input_tokens, request.input_tokens


def turns(*texts: str) -> list[Json]:
    """Return a conversation of these texts."""
    return [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]


LONG = "a long text " * 1_000
SHORT = turns(LONG)
GROWN = turns(LONG, "yes", "go on")


@cache
def tokenizers() -> tuple[Callable[[str], int], ...]:
    """Return functions that count tokens: of bytes, of words, and across all borders."""
    text = Path(__file__).read_text()
    small = SimpleBytePairEncoding.train(text[:6_000], vocab_size=400, pat_str=_PATTERN)
    loose = SimpleBytePairEncoding.train(text[:3_000], vocab_size=320, pat_str=r"[\s\S]+")
    encodings = [
        tiktoken.Encoding("t", pat_str=bpe.pat_str, mergeable_ranks=bpe.mergeable_ranks,
                          special_tokens={})
        for bpe in (small, loose)
    ]  # fmt: skip
    return (lambda text: len(text.encode()), *(lambda t, e=e: len(e.encode(t)) for e in encodings))


_TEXTS = st.text(max_size=200) | st.sampled_from(
    ["def test", "    \n\n", "日本語 ", '{"a": [', LONG]
)


@given(st.lists(_TEXTS, min_size=1, max_size=6), st.integers(1, 5), st.sampled_from([0, 1, 2]))
def test_the_bound_is_above_the_cost_with_real_tokenizers(
    texts: list[str], count: int, which: int
) -> None:
    """Whatever the template puts between messages, and however they are cut into tokens."""
    tokenize = tokenizers()[which]

    def cost(messages: list[Json]) -> int:
        shown = "".join(f"<{m['role']}>{m['content']}" for m in messages)
        return tokenize(shown) + 4 * len(messages)

    whole = turns(*texts)
    earlier = whole[:count]
    bound, full = bounded({"messages": earlier}, {"messages": whole}, tokens=cost(earlier))
    assert cost(whole) <= bound <= full


@pytest.mark.parametrize("operation", [CHAT, MESSAGES, RESPONSES])
def test_a_conversation_that_goes_on_is_bounded_by_its_report(operation: ApiOperation) -> None:
    """Limits and labels may differ; the report, its margin and the new bytes are the bound."""
    name = "input" if operation is RESPONSES else "messages"
    limit = "max_output_tokens" if operation is RESPONSES else "max_tokens"
    earlier = {name: SHORT, limit: 64_000, "temperature": 1.0}
    bound, full = bounded(earlier, {name: GROWN, limit: 50, "stream": True}, operation)
    new = sum(len(json.dumps(turn, separators=(",", ":"))) + 1 for turn in GROWN[1:])
    assert full > 12_000
    assert bound == 2_000 + 2_000 // 16 + 256 + new


def test_marks_for_the_cache_may_move() -> None:
    """Agents put them at the last messages of each call; they are no input."""
    mark = {"cache_control": {"type": "ephemeral"}}
    part: Json = {"type": "text", "text": LONG}
    tool = {"name": "t", "input_schema": {"cache_control": 1}}
    tools = [{**tool, **mark}, tool]
    earlier = {"messages": [{"role": "user", "content": [{**part, **mark}]}], "tools": tools}
    last = {"role": "user", "content": [{"type": "text", "text": "go on", **mark}]}
    later = {"messages": [{"role": "user", "content": [part]}, last], "tools": [tool, tool]}
    bound, full = bounded(earlier, later, MESSAGES)
    assert bound < full / 3
    # Elsewhere the name is the program's own.
    other = {**tool, "input_schema": {}}
    bound, full = bounded(earlier, {**later, "tools": [other, other]}, MESSAGES)
    assert bound == full


_TOOL: Json = {"type": "function", "function": {"name": "f", "description": LONG}}


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ({"messages": SHORT}, {"messages": turns(LONG + ".", "yes")}),
        ({"messages": SHORT}, {"messages": GROWN, "tools": [_TOOL]}),
        ({"messages": SHORT}, {"messages": GROWN, "reasoning_effort": "high"}),
        ({"messages": SHORT}, {"messages": [*turns("no"), *GROWN]}),
        ({"messages": GROWN}, {"messages": SHORT}),
        ({"messages": SHORT, "model": "n"}, {"messages": GROWN}),
    ],
)
def test_anything_else_that_differs_leaves_the_full_bound(earlier: Json, later: Json) -> None:
    """The provider may read another input then."""
    bound, full = bounded(earlier, later)
    assert bound == full


def test_a_number_in_another_spelling_is_another_text() -> None:
    """A client could make the earlier part longer otherwise, and pay for the shorter one."""
    tool = b'{"type":"function","function":{"name":"f","x":[0.1]}}'
    short = b'{"model":"m","tools":[' + tool + b'],"messages":'
    long = short.replace(b"0.1", b"0.1" + b"0" * 5_000)
    memory = ConversationMemory()
    earlier = read_request(CHAT, short + json.dumps(SHORT).encode() + b"}")
    later = read_request(CHAT, long + json.dumps(GROWN).encode() + b"}")
    memory.remember(KEY, earlier, 3_000)
    assert memory.bound(KEY, later) == later
    assert memory.bound(KEY, replace(later, turns=earlier.turns)) != later


@pytest.mark.parametrize(
    ("operation", "members"),
    [
        (CHAT, {"messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}]}]}),
        (MESSAGES, {"messages": SHORT, "tools": [
            {"name": "f", "input_schema": {}, "defer_loading": True}]}),
        (MESSAGES, {"messages": SHORT, "context_management": {"edits": [
            {"type": "clear_tool_uses_20250919"}]}}),
        (MESSAGES, {"messages": [{"role": "user", "content": [
            {"type": "tool_reference", "tool_name": "f"}]}]}),
        (RESPONSES, {"input": SHORT, "truncation": "auto"}),
        (RESPONSES, {"input": SHORT, "previous_response_id": "resp_1"}),
        (RESPONSES, {"input": [{"type": "reasoning", "id": "rs_1", "summary": []}]}),
    ],
)  # fmt: skip
def test_what_a_provider_may_leave_out_of_one_call_is_never_remembered(
    operation: ApiOperation, members: Json
) -> None:
    """What was left out of the earlier call may be in the later one."""
    assert read(members, operation).turns == ()


def test_a_report_that_cannot_be_true_is_not_believed() -> None:
    """A provider that reports nothing of what its cache had bills it when the cache is cold."""
    low, full = bounded({"messages": SHORT}, {"messages": GROWN}, tokens=1)
    assert full / 8 < low < full


def test_what_is_remembered_is_told_apart_and_bounded() -> None:
    """Sub-agents take turns; another upstream or beta is another conversation."""
    memory = ConversationMemory()
    for number in range(3 * MAX_CONVERSATIONS):
        memory.remember(KEY, read({"messages": turns(LONG, str(number))}), 3_000)
    forgotten = read({"messages": turns(LONG, "0")})
    assert memory.bound(KEY, forgotten) == forgotten
    memory.remember(KEY, read({"messages": SHORT}), 3_000)
    memory.remember(KEY, read({"messages": SHORT}), 1_000)
    request = read({"messages": GROWN})
    assert memory.bound(KEY, request).input_tokens > 3_000  # the most that was reported
    others = [
        KEY._replace(upstream="https://other.example/v1"),
        conversation_key(KEY.upstream, KEY.target, {"accept": "*/*", "anthropic-beta": "x"}),
    ]
    assert all(memory.bound(other, request) == request for other in others)
    same = conversation_key(KEY.upstream, KEY.target, {"accept": "*/*", "x-stainless-retry": "1"})
    assert same == KEY == ConversationKey(*KEY)


def test_the_second_call_of_a_conversation_reserves_less(tmp_path: Path) -> None:
    """The bound comes from the reply of the provider, and only under a cap."""
    limits = RunLimits(cap=UNLIMITED._replace(usd=to_cost("1")))
    with harness(tmp_path, limits) as run:
        for texts in ((LONG,), (LONG, "yes", "go on")):
            body = {"model": "gpt-4o", "messages": turns(*texts), "max_tokens": 10}
            reply = run.post("/openai/v1/chat/completions", body)
            assert reply.status_code == 200
        second, first = sorted(entry.facts.usd for entry in run.entries("report.begin/1"))
        spent = min(entry.facts.usd for entry in run.entries("report.step/1"))
    assert spent <= second < first / 3


@pytest.mark.parametrize("untouched", [False, True])
def test_an_output_limit_that_does_not_fit_is_lowered(tmp_path: Path, *, untouched: bool) -> None:
    """Agents ask for the most that a model writes, and use little of it."""
    limits = RunLimits(cap=UNLIMITED._replace(usd=to_cost("0.1")), untouched=untouched)
    body = {"model": "claude-opus-4-5", "messages": turns("hi"), "max_tokens": 64_000}
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 2_000}}
    dear = {"thinking": {"type": "enabled", "budget_tokens": 5_000}}
    with harness(tmp_path, limits) as run:
        replies = [run.post("/anthropic/v1/messages", {**body, **more})
                   for more in ({}, thinking, dear, {"max_tokens": 1_000})]  # fmt: skip
        begun = [entry.facts.altered for entry in run.entries("report.begin/1")]
        sent = [json.loads(each["body"])["max_tokens"] for each in run.provider.requests]
    statuses = [reply.status_code for reply in replies]
    if untouched:
        assert statuses == [402, 402, 402, 200]
        return
    assert statuses == [200, 200, 402, 200]
    assert sorted(begun) == [(), ("max_tokens",), ("max_tokens",)]
    assert 2_256 <= sent[1] <= sent[0] < 4_096
    assert sent[2] == 1_000


def test_several_choices_and_a_cheaper_tier_are_bounded() -> None:
    """Each choice may have the whole output; a flexible call costs less than the table says."""
    request = read({"messages": SHORT, "n": 3, "service_tier": "flex"})
    assert (request.choices, request.unpriced) == (3, ())
    assert read({"messages": SHORT, "service_tier": "priority"}).unpriced == ("service_tier",)
