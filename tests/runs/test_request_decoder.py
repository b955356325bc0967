"""Requests that repeat earlier ones are decoded as if each were read whole."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.ledger.spans import common_prefix
from forum.runs.conversation.decoder import decode_body
from forum.runs.conversation.histories import History, compare_histories, count_repeated
from forum.runs.conversation.messages import ChatMessage, ChatRole, ChatToolCall
from forum.runs.conversation.request_decoder import DecodedRequest, decode_request
from forum.runs.conversation.text_search import ConversationSearch

TEXTS = st.sampled_from(["a", 'é"\\', "", "word " * 9, "\n]}", "12"])
CALL = {"id": "c", "function": {"name": "look", "arguments": '{"a": 1}'}}
ELEMENTS = st.one_of(
    st.builds(lambda role, text: {"role": role, "content": text}, st.sampled_from("ustax"), TEXTS),
    st.builds(
        lambda role, text: {"role": role, "content": [{"type": "text", "text": text}]},
        st.sampled_from(["user", "assistant", "system", "tool"]),
        TEXTS,
    ),
    st.just({"role": "assistant", "content": None, "tool_calls": [CALL]}),
    st.builds(lambda text: {"role": "tool", "tool_call_id": "c", "content": text}, TEXTS),
    # Items of OpenAI's responses and parts: neighbors become one message.
    st.just({"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}),
    st.builds(lambda text: {"type": "function_call_output", "call_id": "c", "output": text}, TEXTS),
    st.builds(lambda text: {"type": "reasoning", "summary": [{"text": text}]}, TEXTS),
    st.builds(lambda text: {"parts": [{"text": text}], "role": "model"}, TEXTS),
    TEXTS,
    st.sampled_from([1, 12, None, True, [], {}, 1.5, [["x"]]]),
)
WRITERS: list[Callable[[Any], str]] = [
    json.dumps,
    lambda value: json.dumps(value, indent=1),
    lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False),
]


def write_list(elements: list[Any]) -> Any:  # noqa: ANN401  any JSON
    """Return a list of messages alone, as telemetry has it."""
    return elements


SHAPES: list[Callable[[list[Any]], Any]] = [
    write_list,
    lambda elements: {"model": "m", "messages": elements, "tools": ["t"]},
    lambda elements: {"messages": elements, "model": "m", "system": f"Be {len(elements)}."},
    lambda elements: {"system": [{"type": "text", "text": "S"}], "messages": elements},
    lambda elements: {"contents": elements, "systemInstruction": {"parts": [{"text": "S"}]}},
    lambda elements: {"input": elements, "instructions": "Be terse.", "messages\n": []},
    lambda elements: {"prompt": elements, "input": elements, "stop_reason": "x"},
    lambda elements: {"messages": elements, "object": "list", "data": elements},
    lambda elements: {"messages": elements, "choices": [{"text": "a"}], "error": "no"},
    lambda elements: {"messages": elements, "role": "user"},
]


@st.composite
def conversations(draw: st.DrawFn) -> list[bytes]:
    """Return requests that go on from each other, and of which some rewrite their history."""
    shape, write = draw(st.sampled_from(SHAPES)), draw(st.sampled_from(WRITERS))
    elements: list[Any] = []
    requests = []
    for _ in range(draw(st.integers(1, 5))):
        if elements and draw(st.integers(0, 3)) == 0:
            at = draw(st.integers(0, len(elements)))
            elements = elements[:at] + draw(st.lists(ELEMENTS, max_size=1))
        elements = elements + draw(st.lists(ELEMENTS, max_size=3))
        requests.append(write(shape(elements)).encode(errors="replace"))
    if draw(st.booleans()):
        last = requests[-1]
        requests.append(last[: draw(st.integers(0, len(last)))] + draw(st.binary(max_size=9)))
        requests.append(last)
    return requests


@given(requests=conversations(), data=st.data())
def test_what_is_new_is_decoded_as_in_the_whole(requests: list[bytes], data: st.DataObject) -> None:
    """From whichever earlier request one goes on, and however little of the beginning is known."""
    decoded: list[DecodedRequest] = []
    role = data.draw(st.sampled_from([ChatRole.USER, ChatRole.INPUT]))
    for request in requests:
        number = data.draw(st.integers(0, len(decoded)))
        earlier = decoded[number] if number < len(decoded) else None
        shared = common_prefix(request, requests[number]) if earlier else 0
        kept = data.draw(st.sampled_from([shared, shared // 2, max(0, shared - 1)]))
        decoded.append(decode_request(request, role, earlier, kept))
        assert decoded[-1].body == decode_body(request, role)
    # What was read before is not changed by what goes on from it.
    for request, read in zip(requests, decoded, strict=True):
        assert decode_request(request, role, read, len(request)).body == decode_body(request, role)


def test_a_member_that_stands_twice_counts_as_in_the_whole() -> None:
    """The last one counts, also where an earlier request has only the first."""
    first = b'{"messages":[{"role":"user","content":"a"}]}'
    second = first[:-2] + b'],"messages":[{"role":"user","content":"b"}]}'
    third = first[:-2] + b'],"messages":[null,{"role":"user","content":"b"}]}'
    for request in (second, third):
        read = decode_request(request, ChatRole.USER, decode_request(first, ChatRole.USER), 42)
        assert read.body == decode_body(request, ChatRole.USER)
    assert decode_request(first, ChatRole.USER).ends is not None


@pytest.mark.parametrize("name", ["messages", "mess\\u0061ges", "contents", "model"])
def test_a_second_list_of_the_same_bytes_brings_nothing_back(name: str) -> None:
    """Nor does one that would look the same if what was read before stood in it."""
    first = b'{"messages":["a","c"]}'
    second = b'{"messages":["a","b"],"%s":[null,"b"]}' % name.encode()
    read = decode_request(first, ChatRole.USER)
    kept = common_prefix(first, second)
    assert decode_request(second, ChatRole.USER, read, kept).body == decode_body(
        second, ChatRole.USER
    )


def user(text: object) -> ChatMessage:
    """Return a message of a user."""
    return ChatMessage(ChatRole.USER, str(text))


MESSAGES = st.lists(st.integers(0, 6).map(user), max_size=12).map(tuple)


@given(request=MESSAGES, earlier=MESSAGES)
def test_repeated_messages_stand_in_both_in_the_same_order(
    request: tuple[ChatMessage, ...], earlier: tuple[ChatMessage, ...]
) -> None:
    """Nothing is left out of a transcript that the earlier request does not have."""
    repetition = compare_histories(request, History(earlier))
    places = [*range(repetition.beginning), *repetition.later]
    assert places == sorted(set(places))
    rest = iter(earlier)
    assert all(request[place] in rest for place in places)  # a subsequence
    if repetition.dropped:
        assert repetition.dropped == len(earlier) - len(places)


@given(
    history=st.lists(st.integers(), unique=True, max_size=20),
    kept=st.integers(0, 20),
    new=st.lists(st.integers(100, 999), unique=True, max_size=4),
)
def test_a_compacted_history_keeps_its_end(history: list[int], kept: int, new: list[int]) -> None:
    """A summary takes the place of the oldest messages, and what follows is said once."""
    system = ChatMessage(ChatRole.SYSTEM, "Be terse.")
    earlier = (system, *(user(f"m{n}") for n in history))
    tail = earlier[1:][-kept:] if kept else ()
    request = (system, user("summary"), *tail, *(user(n) for n in new))
    repetition = compare_histories(request, History(earlier))
    assert repetition.total == 1 + len(tail)
    assert repetition.dropped == (len(earlier) - 1 - len(tail) if tail else 0)


def test_a_reply_comes_back_without_its_reasoning() -> None:
    """And with its arguments written anew; another one does not count."""
    call = ChatToolCall("look", '{"b":1,"a":2}', "c1")
    reply = ChatMessage(ChatRole.ASSISTANT, "So.", "Hm.", calls=(call,))
    history = History((user("a"),), (reply,))
    again = ChatToolCall("look", '{"a": 2, "b": 1}', "c1")
    for calls, count in (((again,), 2), ((ChatToolCall("look", "{}", "c1"),), 1), ((), 1)):
        sent = ChatMessage(ChatRole.ASSISTANT, "So.", calls=calls)
        assert count_repeated((user("a"), sent, user("b")), history) == count


@given(requests=conversations(), words=st.sampled_from(["a", "word w", "12", "k", "é", "s."]))
def test_a_search_of_what_is_new_finds_what_stands_there(requests: list[bytes], words: str) -> None:
    """Whoever searches each message once finds a text if and only if a request has it."""
    search, base = ConversationSearch(words), b""
    found = False
    for request in requests:
        found = found or search.is_in(request, base, common_prefix(request, base))
        base = request
    assert found == any(search_whole(request, words) for request in requests)


def search_whole(request: bytes, words: str) -> bool:
    """Return whether a message of a request has the words."""
    return ConversationSearch(words).is_in(request, b"", 0)
