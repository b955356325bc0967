"""The decoder of recorded bodies: from the formats of providers and frameworks to messages."""

import json
from itertools import product
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.runs.conversation import decoder
from forum.runs.conversation.decoder import decode_body, decode_exchange
from forum.runs.conversation.messages import (
    ChatAttachment,
    ChatMessage,
    ChatRole,
    ChatToolCall,
    ChatToolResult,
    ExchangeUsage,
)
from forum.runs.conversation.text_search import body_contains
from forum.runs.conversation.titles import describe_command, make_title

SYSTEM = ChatMessage(ChatRole.SYSTEM, "Be terse.")
USER = ChatMessage(ChatRole.USER, "Name a river.")
CALL = ChatToolCall("lookup", '{"river":"Rhine"}', "c1")
CALLING = ChatMessage(ChatRole.ASSISTANT, calls=(CALL,))
RESULT = ChatMessage(ChatRole.TOOL, results=(ChatToolResult("1233 km", "c1"),))
ANSWER = ChatMessage(ChatRole.ASSISTANT, "The Rhine.")
ARGUMENTS = {"river": "Rhine"}

CHAT = [
    {"role": "system", "content": "Be terse."},
    {"role": "user", "content": "Name a river."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "lookup", "arguments": '{"river":"Rhine"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "1233 km"},
]
REQUESTS: dict[str, Any] = {
    "chat completions": {"model": "gpt-5", "messages": CHAT},
    "responses": {
        "model": "gpt-5",
        "instructions": "Be terse.",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Name a river."}]},
            {
                "type": "function_call",
                "call_id": "c1",
                "name": "lookup",
                "arguments": '{"river":"Rhine"}',
            },
            {"type": "function_call_output", "call_id": "c1", "output": "1233 km"},
        ],
    },
    "messages": {
        "model": "claude",
        "system": [{"type": "text", "text": "Be terse."}],
        "messages": [
            {"role": "user", "content": "Name a river."},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c1", "name": "lookup", "input": ARGUMENTS}],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "content": [{"type": "text", "text": "1233 km"}],
                    }
                ],
            },
        ],
    },
    "OpenAI Agents": {
        "instructions": "Be terse.",
        "input": [
            {"content": "Name a river.", "role": "user"},
            {
                "arguments": '{"river":"Rhine"}',
                "call_id": "c1",
                "name": "lookup",
                "type": "function_call",
                "id": "fc_1",
            },
            {"call_id": "c1", "output": "1233 km", "type": "function_call_output"},
        ],
    },
    "Pydantic AI": [
        {
            "parts": [
                {"content": "Be terse.", "part_kind": "system-prompt"},
                {"content": "Name a river.", "part_kind": "user-prompt"},
            ],
            "kind": "request",
        },
        {
            "parts": [
                {
                    "tool_name": "lookup",
                    "args": ARGUMENTS,
                    "tool_call_id": "c1",
                    "part_kind": "tool-call",
                }
            ],
            "kind": "response",
        },
        {
            "parts": [
                {
                    "tool_name": "lookup",
                    "content": "1233 km",
                    "tool_call_id": "c1",
                    "part_kind": "tool-return",
                }
            ],
            "kind": "request",
        },
    ],
    "LangChain": [
        [
            {"content": "Be terse.", "type": "system"},
            {"content": "Name a river.", "type": "human"},
            {
                "content": "",
                "type": "ai",
                "tool_calls": [
                    {"name": "lookup", "args": ARGUMENTS, "id": "c1", "type": "tool_call"}
                ],
            },
            {"content": "1233 km", "type": "tool", "tool_call_id": "c1"},
        ]
    ],
    "CrewAI": CHAT,
    "OpenTelemetry": [
        {"role": "system", "parts": [{"type": "text", "content": "Be terse."}]},
        {"role": "user", "parts": [{"type": "text", "content": "Name a river."}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "lookup", "arguments": ARGUMENTS}],
        },
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "c1", "response": "1233 km"}],
        },
    ],
    "OpenInference": [
        {"message": {"role": "system", "content": "Be terse."}},
        {
            "message": {
                "role": "user",
                "contents": [{"message_content": {"type": "text", "text": "Name a river."}}],
            }
        },
        {
            "message": {
                "role": "assistant",
                "tool_calls": [
                    {
                        "tool_call": {
                            "id": "c1",
                            "function": {"name": "lookup", "arguments": '{"river":"Rhine"}'},
                        }
                    }
                ],
            }
        },
        {"message": {"role": "tool", "tool_call_id": "c1", "content": "1233 km"}},
    ],
    "Google ADK": {
        "systemInstruction": {"parts": [{"text": "Be terse."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Name a river."}]},
            {
                "role": "model",
                "parts": [{"functionCall": {"id": "c1", "name": "lookup", "args": ARGUMENTS}}],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "c1", "name": "lookup", "response": "1233 km"}}
                ],
            },
        ],
    },
}


def encode(value: object) -> bytes:
    """Return a value as JSON."""
    return json.dumps(value).encode()


def without_names(message: ChatMessage) -> ChatMessage:
    """Return a message whose results name no tool: some formats do, some do not."""
    results = tuple(ChatToolResult(result.text, result.id) for result in message.results)
    return ChatMessage(message.role, message.text, calls=message.calls, results=results)


@pytest.mark.parametrize("name", REQUESTS)
def test_the_same_conversation_is_the_same_in_every_format(name: str) -> None:
    """Whoever reads a run need not know how it was recorded."""
    messages = decode_body(encode(REQUESTS[name]), ChatRole.USER).messages
    assert [without_names(message) for message in messages] == [SYSTEM, USER, CALLING, RESULT]


def sse(*events: object) -> bytes:
    """Return events as a stream."""
    return b"".join(b"data: " + encode(event) + b"\n\n" for event in events)


def chat_reply(text: str) -> dict[str, Any]:
    """Return a reply of chat completions."""
    call = {"id": "c1", "function": {"name": "lookup", "arguments": '{"river":"Rhine"}'}}
    message = {"role": "assistant", "content": text, "tool_calls": [call]}
    return {
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 41, "completion_tokens": 12},
    }


def chat_stream(pieces: list[str]) -> bytes:
    """Return the same reply, streamed."""
    deltas: list[Any] = [{"role": "assistant"}, *({"content": piece} for piece in pieces)]
    head = {"index": 0, "id": "c1", "function": {"name": "lookup", "arguments": ""}}
    deltas.append({"tool_calls": [head]})
    deltas += [
        {"tool_calls": [{"index": 0, "function": {"arguments": part}}]}
        for part in ('{"river":', '"Rhine"}')
    ]
    chunks: list[Any] = [{"model": "m", "choices": [{"index": 0, "delta": d}]} for d in deltas]
    chunks.append({"model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    chunks.append({"choices": [], "usage": {"prompt_tokens": 41, "completion_tokens": 12}})
    return sse(*chunks) + b"data: [DONE]\n\n"


def messages_reply(text: str) -> dict[str, Any]:
    """Return a reply of Anthropic's messages."""
    content = [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "text", "text": text},
        {"type": "tool_use", "id": "c1", "name": "lookup", "input": ARGUMENTS},
    ]
    return {
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": "stop",
        "usage": {"input_tokens": 1, "cache_read_input_tokens": 40, "output_tokens": 12},
    }


def messages_stream(pieces: list[str]) -> bytes:
    """Return the same reply, streamed."""
    usage = {"input_tokens": 1, "cache_read_input_tokens": 40, "output_tokens": 1}
    tool = {"type": "tool_use", "id": "c1", "name": "lookup", "input": {}}
    delta = "content_block_delta"
    events: list[Any] = [
        {"type": "message_start", "message": {"model": "m", "content": [], "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}},
        {"type": delta, "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "text", "text": ""},
        },
        *(
            {"type": delta, "index": 1, "delta": {"type": "text_delta", "text": piece}}
            for piece in pieces
        ),
        {"type": "content_block_start", "index": 2, "content_block": tool},
        *(
            {"type": delta, "index": 2, "delta": {"type": "input_json_delta", "partial_json": part}}
            for part in ('{"river":', '"Rhine"}')
        ),
        {"type": "message_delta", "delta": {"stop_reason": "stop"}, "usage": {"output_tokens": 12}},
        {"type": "message_stop"},
    ]
    return sse(*events)


def responses_reply(text: str) -> dict[str, Any]:
    """Return a reply of OpenAI's responses."""
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": text}],
        },
        {
            "type": "function_call",
            "call_id": "c1",
            "name": "lookup",
            "arguments": '{"river":"Rhine"}',
        },
    ]
    return {
        "object": "response",
        "model": "m",
        "instructions": "Be terse.",
        "output": output,
        "usage": {"input_tokens": 41, "output_tokens": 12},
    }


def responses_stream(pieces: list[str]) -> bytes:
    """Return the same reply, streamed by a server whose last event has no output."""
    reply = responses_reply("")
    reasoning, message, call = reply["output"]
    events: list[Any] = [
        {"type": "response.created", "response": reply | {"output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": reasoning},
        {
            "type": "response.output_item.added",
            "output_index": 1,
            "item": message | {"content": []},
        },
        *(
            {"type": "response.output_text.delta", "output_index": 1, "delta": piece}
            for piece in pieces
        ),
        {
            "type": "response.output_item.added",
            "output_index": 2,
            "item": call | {"arguments": ""},
        },
        {
            "type": "response.function_call_arguments.delta",
            "output_index": 2,
            "delta": call["arguments"],
        },
        {"type": "response.completed", "response": reply | {"output": []}},
    ]
    return sse(*events)


REPLIES = {
    "chat completions": (chat_reply, chat_stream),
    "messages": (messages_reply, messages_stream),
    "responses": (responses_reply, responses_stream),
}


@pytest.mark.parametrize("name", REPLIES)
@given(pieces=st.lists(st.text(max_size=20), max_size=8))
def test_a_streamed_reply_is_the_same_as_one_that_was_not_streamed(
    name: str, pieces: list[str]
) -> None:
    """Text, tool calls, model, reason and usage."""
    make_reply, make_stream = REPLIES[name]
    whole = decode_body(encode(make_reply("".join(pieces))), ChatRole.ASSISTANT)
    streamed = decode_body(make_stream(pieces), ChatRole.ASSISTANT)
    assert streamed == whole
    assert "".join(pieces).encode(errors="replace").decode() in "".join(
        message.text for message in whole.messages
    )
    assert CALL in [call for message in whole.messages for call in message.calls]
    assert (whole.model, whole.usage) == ("m", ExchangeUsage(41, 12))


@pytest.mark.parametrize("name", REPLIES)
@given(data=st.data())
def test_a_stream_that_was_cut_shows_what_came_and_says_so(name: str, data: st.DataObject) -> None:
    """At every byte: the text so far is the beginning of the whole text."""
    pieces = ["The ", "Rhine, ", "the Rhône, ", "the Danube."]
    stream = REPLIES[name][1](pieces)
    at = data.draw(st.integers(len("data: {"), len(stream) - 1))
    messages = decode_body(stream[:at], ChatRole.ASSISTANT).messages
    text = "".join(m.text for m in messages if m.role is ChatRole.ASSISTANT)
    raw = "".join(m.text for m in messages if m.role is ChatRole.RAW)
    assert "".join(pieces).startswith(text)
    # Before the first event is complete, the bytes themselves are shown.
    assert not raw or stream[:at].decode(errors="replace") == raw


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(
            st.sampled_from(
                (
                    *("messages", "input", "output", "content", "parts", "role", "type", "text"),
                    *("choices", "message", "delta", "tool_calls", "function", "name", "arguments"),
                    *(
                        "system",
                        "error",
                        "index",
                        "event",
                        "kind",
                        "part_kind",
                        "candidates",
                        "usage",
                    ),
                    *("source", "data", "url", "image_url", "tool_call_id", "response", "item"),
                )
            )
            | st.text(max_size=5),
            inner
            | st.sampled_from(
                (
                    *(
                        "user",
                        "assistant",
                        "tool",
                        "ai",
                        "tool_use",
                        "tool_result",
                        "image",
                        "text",
                    ),
                    *("message_start", "content_block_delta", "response.completed", "request"),
                )
            ),
            max_size=6,
        )
    ),
    max_leaves=30,
)


@given(body=st.binary(max_size=300))
def test_bytes_never_raise(body: bytes) -> None:
    """The record of a foreign program is anything; all of it is shown as something."""
    decoded = decode_body(body, ChatRole.USER)
    make_title("x", body, body)
    if body.strip():
        assert decoded.messages or body.lstrip()[:1] in (b"{", b"[", b":", b"d", b"e", b"i", b"r")


@given(value=JSON, events=st.lists(JSON, max_size=4))
def test_json_and_events_never_raise_and_can_be_encoded(
    value: object, events: list[object]
) -> None:
    """Members of other types, nested anyhow, in a body or in a stream."""
    for body in (json.dumps(value).encode(errors="replace"), sse(*events)):
        assert msgspec.json.encode(decode_exchange(body, body))


@given(value=JSON, data=st.data())
def test_a_body_that_was_cut_is_read_as_far_as_it_goes(value: object, data: st.DataObject) -> None:
    """The recorder cuts large bodies at any byte."""
    body = json.dumps({"messages": [{"role": "user", "content": "Hello"}], "tools": value}).encode()
    at = data.draw(st.integers(0, len(body)))
    decode_body(body[:at], ChatRole.USER)
    long = encode({"model": "m", "messages": [*CHAT, {"role": "user", "content": "é" * 99}]})
    messages = decode_body(long[:-200], ChatRole.USER).messages
    assert [without_names(m) for m in messages[:4]] == [SYSTEM, USER, CALLING, RESULT]
    assert set(messages[4].text) == {"é"}
    assert messages[-1] == ChatMessage(ChatRole.RAW, note="the recorded body is cut")


def test_a_huge_or_deep_body_gives_bounded_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out is stated."""
    monkeypatch.setattr(decoder, "MAX_TEXT_CHARS", 1000)
    body = encode({"messages": [{"role": "user", "content": "x" * 5000}] * 3})
    messages = decode_body(body, ChatRole.USER).messages
    assert sum(len(message.text) for message in messages) <= 1000
    assert messages[-1].note.startswith("14,000 characters are left out")
    result = {"type": "tool_result", "content": ["a", "b"] * 30_000}
    crowded: list[list[Any]] = [[{}] * 60_000, [result]]
    for content in crowded:
        many = decode_body(encode({"messages": content}), ChatRole.USER).messages
        assert "characters are left out" in many[-1].note
    for depth, name in product((900, 960, 3000), (b"messages", b"message_content", b"message")):
        deep = b'{"%s":' % name * depth + b"1" + b"}" * depth
        assert decode_body(deep, ChatRole.USER).messages
    nested: Any = "x"
    for _ in range(100):
        nested = {"content": [nested], "role": "user"}
    assert decode_body(encode(nested), ChatRole.USER).messages


def test_attachments_are_shown_by_kind_and_size() -> None:
    """Their content is not text, and may be large."""
    content = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAAAA=="}},
        {"type": "input_image", "image_url": "https://host/picture.png"},
        {"type": "document", "source": {"media_type": "application/pdf", "data": "AAAA"}},
    ]
    (message,) = decode_body(encode([{"role": "user", "content": content}]), ChatRole.USER).messages
    assert message.text == "What is this?"
    assert message.attachments == (
        ChatAttachment("image", "image/png", 4),
        ChatAttachment("image", name="https://host/picture.png"),
        ChatAttachment("file", "application/pdf", 3),
    )


def test_errors_plain_texts_and_erased_bodies() -> None:
    """A refusal of a provider, the prompt of a hook, and nothing at all."""
    refusal = encode({"error": {"message": "slow down", "type": "rate_limit"}})
    assert decode_exchange(b"Name a river.", refusal).messages == (
        USER,
        ChatMessage(ChatRole.ERROR, "slow down"),
    )
    assert decode_exchange(None, None).messages == ()
    (raw,) = decode_body(b"{ not json", ChatRole.USER).messages
    assert raw.role is ChatRole.RAW
    assert raw.text == "{ not json"
    assert raw.note.startswith("no JSON")
    for prose in (b"id: 5", b": yes", b"data: the figures"):
        (chat_message,) = decode_body(prose, ChatRole.USER).messages
        assert (chat_message.role, chat_message.text) == (ChatRole.USER, prose.decode())
    models = encode({"object": "list", "data": [{"id": "gpt-4o-mini"}]})
    assert decode_body(models, ChatRole.ASSISTANT).messages == (
        ChatMessage(ChatRole.OUTPUT, "(a list of 1 item)"),
    )
    embedding = encode({"input": ["a", "b"], "model": "e"})
    assert decode_body(embedding, ChatRole.USER).messages == (ChatMessage(ChatRole.USER, "a\nb"),)


@pytest.mark.parametrize(
    ("argv", "program"),
    [
        (["python", "agent.py", "--fast"], "agent.py"),
        (["/usr/bin/python3.12", "-u", "src/agent.py"], "agent.py"),
        (["uv", "run", "python", "agent.py"], "agent.py"),
        (["python", "-m", "crew.main"], "crew.main"),
        (["python", "-c", "print(1)"], "python"),
        (["claude", "-p", "Fix it"], "claude"),
        (["/opt/agents/run.sh"], "run.sh"),
        (["python"], "python"),
        ([], ""),
    ],
)
def test_a_command_is_named_by_its_program(argv: list[str], program: str) -> None:
    """The interpreter says nothing about a run."""
    assert describe_command(json.dumps(argv).encode()) == program


def test_a_title_has_the_command_and_the_first_words_of_the_user() -> None:
    """Passages that a coding agent puts before the words of the user are left out."""
    reminder = "<system-reminder>\nToday is Monday.\n</system-reminder>"
    messages = [
        {"role": "system", "content": "You are terse."},
        {"role": "user", "content": [{"type": "text", "text": reminder}]},
        {"role": "user", "content": f"{reminder}\n\nName three\nrivers."},
    ]
    prompt = json.dumps({"model": "m", "messages": messages}).encode()
    command = json.dumps(["python", "agent.py"]).encode()

    assert make_title("python", command, prompt) == "agent.py: Name three rivers."
    assert make_title("crew", None, prompt) == "crew: Name three rivers."
    # Both were erased.
    assert make_title("python", None, None) == "python"
    assert make_title("python", b"\xff[", b"\xff{") == "python: \ufffd{"
    assert len(make_title("python", None, b"word " * 1000)) == 200


@given(text=st.text(), words=st.text(min_size=1), pieces=st.lists(st.text(max_size=5), max_size=5))
def test_a_search_finds_what_a_reader_sees(text: str, words: str, pieces: list[str]) -> None:
    """In plain texts, in JSON, and across the pieces of a stream; the short cut changes nothing."""
    streamed = "".join(pieces)
    clean = streamed.encode(errors="replace").decode()
    request = encode({"messages": [{"role": "user", "content": text}]})
    raw = json.dumps({"messages": [{"role": "user", "content": text}]}, ensure_ascii=False)
    for body in (request, raw.encode(errors="replace"), text.encode(errors="replace")):
        shown = "\n".join(message.text for message in decode_body(body, ChatRole.USER).messages)
        assert body_contains(body, words) == (words.casefold() in shown.casefold())
    assert not clean or body_contains(chat_stream(pieces), clean)
    assert not clean or body_contains(messages_stream(pieces), clean)
    assert not clean or body_contains(responses_stream(pieces), clean)


def test_a_search_looks_at_messages_and_not_at_names_of_members() -> None:
    """Otherwise every call would match `content`, and every stream `data`."""
    for name in ("content", "messages", "finish_reason", "tool_calls", "data"):
        assert not body_contains(encode(REQUESTS["chat completions"]), name)
        assert not body_contains(chat_stream(["The ", "Rhi", "ne."]), name)
    assert body_contains(chat_stream(["The ", "Rhi", "ne."]), "THE RHINE")
    assert body_contains(chat_stream([]), "lookup")
    assert body_contains(encode(REQUESTS["chat completions"]), "1233 km")
