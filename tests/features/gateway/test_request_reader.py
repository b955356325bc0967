"""The bound of a request is an upper bound, or the request names what to refuse under a cap."""

import json
import time
from typing import Any, get_type_hints

import pytest
from anthropic.types import beta as anthropic_tools
from anthropic.types.beta import message_create_params
from openai.types import chat as chat_tools
from openai.types import embedding_create_params
from openai.types import responses as response_tools
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params

from forum.features.gateway.refusals import CallRefused
from forum.features.gateway.reply_reader import ReplyReader
from forum.features.gateway.request_reader import ReadRequest, read_loosely, read_request
from forum.features.gateway.routes import ApiOperation

CHAT, RESPONSES = ApiOperation.CHAT, ApiOperation.RESPONSES
MESSAGES, EMBEDDINGS = ApiOperation.MESSAGES, ApiOperation.EMBEDDINGS
IMAGE = {"type": "base64", "media_type": "image/png", "data": "A" * 100_000}
IMAGE_PART = {"type": "image", "source": IMAGE}


def read(operation: ApiOperation, **members: Any) -> ReadRequest:  # noqa: ANN401  # any JSON
    """Read a request with these members."""
    return read_request(operation, json.dumps({"model": "m", **members}).encode())


def read_part(operation: ApiOperation, *parts: object) -> ReadRequest:
    """Read a request whose one message has these parts."""
    name = "input" if operation is RESPONSES else "messages"
    return read(operation, **{name: [{"role": "user", "content": list(parts)}]})


SDK_REFUSED = {
    CHAT: (
        completion_create_params.CompletionCreateParamsStreaming,
        {"audio", "modalities", "moderation", "prediction", "service_tier",
         "web_search_options"},
    ),
    RESPONSES: (
        response_create_params.ResponseCreateParamsStreaming,
        {"background", "context_management", "image", "moderation", "prompt", "service_tier"},
    ),
    MESSAGES: (
        message_create_params.MessageCreateParamsStreaming,
        # The SDK sends the last two as headers.
        {"compaction", "container", "context_management", "fallback_credit_token", "fallbacks",
         "inference_geo", "mcp_servers", "service_tier", "speed", "thread", "betas",
         "workspace_id"},
    ),
    EMBEDDINGS: (embedding_create_params.EmbeddingCreateParams, set()),
}  # fmt: skip


@pytest.mark.parametrize("operation", SDK_REFUSED)
def test_each_member_of_the_sdks_is_decided(operation: ApiOperation) -> None:
    """A new version of an SDK brings members that somebody has to decide about."""
    params, refused = SDK_REFUSED[operation]
    names = set(get_type_hints(params)) | {"some_new_member"}
    limits = {name: 5 for name in names if name.startswith("max_")}
    odd: dict[str, Any] = {name: {"odd": 1} for name in names}
    odd |= {"model": "m", "thinking": {"type": "adaptive"}, "n": 2, **limits}
    odd |= {"messages": [], "input": "x", "tools": [], "tool_choice": "auto"}
    odd |= {"functions": [], "system": "x"}
    request = read(operation, **{name: odd[name] for name in names})

    assert set(request.unpriced) == refused | {"some_new_member"}


USUAL: list[tuple[ApiOperation, dict[str, Any]]] = [
    # What Claude Code sends.
    (MESSAGES, {
        "max_tokens": 9, "stream": True, "temperature": 1, "stop_sequences": ["x"], "top_k": 1,
        "system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "Bash", "input_schema": {"type": "object"}, "strict": True},
                  {"type": None, "name": "Read", "input_schema": {}}],
        "tool_choice": {"type": "auto"}, "metadata": {"user_id": "x"},
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {}}},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "service_tier": "auto", "thread": {"type": "create"},
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "x", "signature": "x"},
                {"type": "tool_use", "id": "t", "name": "Bash", "input": {"file_id": "x"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": [
                    {"type": "text", "text": "x"}, {"type": "tool_reference", "tool_name": "x"}]},
                {"type": "tool_result", "tool_use_id": "u"},
                {"type": "search_result", "source": "https://x", "title": "x",
                 "content": [{"type": "text", "text": "x", "citations": [{"url": "x"}]}]},
                {"type": "web_search_tool_result", "tool_use_id": "w", "content": [
                    {"type": "web_search_result", "url": "https://x", "title": "x"}]}]},
        ],
    }),
    # What Codex sends.
    (RESPONSES, {
        "instructions": "x", "store": False, "stream": True, "parallel_tool_calls": True,
        "include": ["reasoning.encrypted_content"], "prompt_cache_key": "x",
        "reasoning": {"effort": "high", "summary": "auto"}, "text": {"verbosity": "low"},
        "client_metadata": {"a": "b"}, "service_tier": None, "tool_choice": "auto",
        "tools": [{"type": "function", "name": "f", "parameters": {}}, {"type": "local_shell"},
                  {"type": "custom", "name": "apply_patch"},
                  {"type": "namespace", "name": "n", "tools": [{"type": "function"}]}],
        "input": [
            {"role": "developer", "content": "x"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "x"},
            {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"},
            {"type": "custom_tool_call_output", "call_id": "c",
             "output": [{"type": "input_text", "text": "x"}]},
            {"type": "shell_call", "call_id": "s", "action": {"commands": ["curl url"]}},
            {"type": "shell_call_output", "call_id": "s",
             "output": [{"stdout": "x", "stderr": "", "outcome": {"type": "exit"}}]},
            {"type": "mcp_list_tools", "id": "l", "server_label": "s", "tools": [
                {"name": "f", "input_schema": {}, "annotations": None, "description": "x"}]},
            {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [
                {"type": "output_text", "text": "x", "annotations": [
                    {"type": "file_citation", "file_id": "x"}]}]},
        ],
    }),
    (CHAT, {
        "max_tokens": 9, "temperature": 1, "top_p": 1, "seed": 1, "stop": ["x"], "user": "x",
        "logprobs": True, "top_logprobs": 2, "response_format": {"type": "json_object"},
        "reasoning_effort": "low", "n": 1, "tool_choice": {"type": "function"},
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "messages": [
            {"role": "assistant", "content": None, "audio": None, "annotations": [],
             "tool_calls": [{"type": "function", "function": {"arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "x"}]},
        ],
    }),
    (EMBEDDINGS, {"input": [[1, 2], [3]], "encoding_format": "base64", "dimensions": 5}),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "members"), USUAL)
def test_what_usual_programs_send_is_priced(
    operation: ApiOperation, members: dict[str, Any]
) -> None:
    """Nothing of it is refused, and it is bounded by its own bytes."""
    request = read(operation, **members)

    assert request.unpriced == ()
    assert not request.stored_input
    assert not request.long_cache


WEB: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search"}
ADDED = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": WEB}}
UNPRICED: list[tuple[ApiOperation, dict[str, Any], str]] = [
    (MESSAGES, {"fallbacks": [{"model": "dear", "max_tokens": 90_000}]}, "fallbacks"),
    (MESSAGES, {"thread": {"type": "other"}}, "thread"),
    (MESSAGES, {"system": [IMAGE_PART]}, "image"),
    (MESSAGES, {"context_management": {"edits": [{"type": "compact_20260112"}]}},
     "context_management"),
    (MESSAGES, {"thinking": {"type": "adaptive", "budgetTokens": 9}}, "thinking.budgetTokens"),
    (MESSAGES, {"messages": [{"role": "system", "content": [ADDED]}]}, "web_search"),
    (MESSAGES, {"messages": [{"role": "user", "content": [
        {"type": "compaction", "content": "x", "tool_changes": [ADDED]}]}]}, "web_search"),
    (RESPONSES, {"input": [{"type": "additional_tools", "role": "developer",
                            "tools": [{"type": "web_search"}]}]}, "web_search"),
    (RESPONSES, {"input": [{"type": "tool_search_output", "tools": [{"type": "mcp"}]}]}, "mcp"),
    (RESPONSES, {"tools": [{"type": "namespace", "tools": [{"type": "mcp"}]}]}, "mcp"),
    (RESPONSES, {"tool_choice": {"type": "image_generation"}}, "image_generation"),
    (RESPONSES, {"input": [{"type": "compaction_trigger"}]}, "compaction_trigger"),
    (RESPONSES, {"input": [{"type": ["message"]}]}, "untyped"),
    (RESPONSES, {"input": [{"type": "image_generation_call", "id": "ig"}]},
     "image_generation_call"),
    (RESPONSES, {"reasoning": {"mode": "pro"}}, "reasoning.mode"),
    (RESPONSES, {"moderation": {"model": "m"}}, "moderation"),
    (RESPONSES, {"prompt_cache_options": {"ttl": "12h"}}, "prompt_cache_options"),
    (CHAT, {"messages": [{"role": "assistant", "content": None, "audio": {"id": "a"}}]}, "audio"),
    (CHAT, {"messages": [{"role": "user", "content": "x", "images": ["x"]}]}, "images"),
    (EMBEDDINGS, {"input": [{"image": "https://example.com/a.png"}]}, "input"),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "members", "name"), UNPRICED)
def test_what_is_not_known_is_named(
    operation: ApiOperation, members: dict[str, Any], name: str
) -> None:
    """Only members, items and tools that are known to be priced pass."""
    assert name in read(operation, **members).unpriced


@pytest.mark.parametrize("operation", [CHAT, RESPONSES, MESSAGES])
def test_parts_that_are_not_known_are_named(operation: ApiOperation) -> None:
    """A part without a type, or a text with a file, may be billed as something else."""
    for kind in ("video", "input_video", "new_part"):
        assert read_part(operation, {"type": kind, "url": "x"}).unpriced == (kind,)
    assert read_part(operation, {"image_url": "https://example.com"}).unpriced == ("untyped",)
    assert read_part(operation, {"type": ["text"]}).unpriced == ("untyped",)
    text = "input_text" if operation is RESPONSES else "text"
    assert read_part(operation, {"type": text, "file_id": "f"}).unpriced == ("files",)
    assert read_part(operation, {"type": text, "text": "x"}).unpriced == ()


# Names under which a server may look for something that costs more than its bytes.
BILLED: dict[str, Any] = {
    "image": "https://x/y.png", "images": ["https://x/y.png"], "source": {"type": "url"},
    "document": {"url": "y"}, "model": "o1-pro", "url": "https://x", "file": {"file_id": "f"},
    "input_audio": {"data": "x"}, "video_url": {"url": "x"}, "extra": {"file_data": "x"},
}  # fmt: skip
FILE = {"type": "input_file", "file_url": "x"}
DOCUMENT = {"type": "document", "source": {"type": "url", "url": "x"}}


@pytest.mark.parametrize("operation", [CHAT, RESPONSES, MESSAGES])
@pytest.mark.parametrize("name", BILLED)
def test_what_may_be_billed_is_named_beside_texts_and_images(
    operation: ApiOperation, name: str
) -> None:
    """In a text, in an image and in a message, whatever its value is."""
    more = {name: BILLED[name]}
    text = {"type": "input_text" if operation is RESPONSES else "text", "text": "x"}
    images: dict[ApiOperation, dict[str, Any]] = {
        CHAT: {"type": "image_url", "image_url": {"url": "x"}},
        RESPONSES: {"type": "input_image", "image_url": "x"},
        MESSAGES: IMAGE_PART,
    }
    image = images[operation]
    messages = "input" if operation is RESPONSES else "messages"
    assert read_part(operation, text | more).unpriced
    assert read(operation, **{messages: [{"role": "user", "content": "x"} | more]}).unpriced
    if name != "source":
        assert read_part(operation, image | more).unpriced
    assert read_part(operation, text, image).unpriced == ()


RUN_ELSEWHERE: list[dict[str, Any]] = [
    {"google_search": {}}, {"web_search": {}}, {"name": "web_search"}, {"url_context": {}},
    {"type": "function", "function": {"name": "f"}, "googleSearch": {}},
]  # fmt: skip


@pytest.mark.parametrize(("operation", "members"), [
    *((op, {"tools": [t]}) for op in (CHAT, RESPONSES, MESSAGES) for t in RUN_ELSEWHERE),
    (CHAT, {"messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": [{"url": "x"}] * 50}]}]}),
    (RESPONSES, {"instructions": [{"role": "user", "content": [FILE]}]}),
    (RESPONSES, {"instructions": FILE}),
    *((RESPONSES, {"input": [{"type": f"{kind}_output", "id": "a", "output": output}]})
      for kind in ("local_shell_call", "apply_patch_call", "shell_call", "function_call")
      for output in ([FILE], FILE, [{"stdout": [FILE]}]) if kind != "function_call"
      or output != [{"stdout": [FILE]}]),
    (RESPONSES, {"input": [{"type": "mcp_list_tools", "tools": [{"type": "web_search"}]}]}),
    (RESPONSES, {"input": [{"type": "mcp_call", "id": "x", "server_url": "http://x"}]}),
    *((MESSAGES, {"messages": [{"role": "user", "content": [
        {"type": kind, "tool_use_id": "t", "content": content}]}]})
      for kind in ("code_execution_tool_result", "web_search_tool_result", "compaction",
                   "bash_code_execution_tool_result", "tool_result")
      for content in ([DOCUMENT], DOCUMENT)),
    (MESSAGES, {"messages": [{"role": "user", "content": "x", "output_config": {"model": "m"}}]}),
])  # fmt: skip
def test_what_is_hidden_elsewhere_is_named(
    operation: ApiOperation, members: dict[str, Any]
) -> None:
    """Tools without a type, and files in what should be text."""
    assert read(operation, **members).unpriced


def test_each_member_of_the_tools_of_the_sdks_is_priced() -> None:
    """A new version of an SDK brings members that somebody has to decide about."""
    tools: tuple[type, ...] = (
        anthropic_tools.BetaToolParam,
        anthropic_tools.BetaToolBash20250124Param,
        anthropic_tools.BetaToolTextEditor20250728Param,
        anthropic_tools.BetaToolComputerUse20251124Param,
        anthropic_tools.BetaMemoryTool20250818Param,
        response_tools.FunctionToolParam,
        response_tools.CustomToolParam,
        chat_tools.ChatCompletionFunctionToolParam,
        chat_tools.ChatCompletionCustomToolParam,
    )
    for tool in tools:
        members = dict.fromkeys(get_type_hints(tool), 1)
        assert read(CHAT, tools=[members | {"type": "function"}]).unpriced == (), tool


@pytest.mark.parametrize("item", [
    {"id": "msg_1"}, {"id": "msg_1", "type": None}, {"type": "item_reference", "id": "msg_1"},
    {"type": "message", "id": "msg_1"}, {"role": "user"},
    {"type": "reasoning", "id": "rs_1", "summary": []},
])  # fmt: skip
def test_an_item_that_the_provider_looks_up_is_stored_input(item: dict[str, Any]) -> None:
    """Its size is not in the request."""
    assert read(RESPONSES, input=[item]).stored_input


def test_a_thread_that_goes_on_is_stored_input() -> None:
    """The provider adds the messages before."""
    thread = {"type": "continue", "previous_message_id": "msg_1"}

    assert read(MESSAGES, thread=thread).stored_input
    assert read(MESSAGES, thread=thread).unpriced == ()


def test_a_long_cache_is_seen_wherever_it_is_set() -> None:
    """At the top too, where it holds for the last part of the request."""
    hour = {"type": "ephemeral", "ttl": "1h"}
    tool = {"name": "f", "input_schema": {}, "cache_control": hour}
    added = {"type": "tool_definition", "definition": tool}

    assert read(MESSAGES, cache_control=hour).long_cache
    assert read(MESSAGES, tools=[tool]).long_cache
    assert read(MESSAGES, system=[{"type": "text", "text": "", "cache_control": hour}]).long_cache
    assert read_part(MESSAGES, {"type": "tool_result", "cache_control": hour}).long_cache
    assert read_part(MESSAGES, {"type": "tool_addition", "tool": added}).long_cache
    assert not read(MESSAGES, cache_control={"type": "ephemeral"}).long_cache


def test_only_a_real_image_is_not_counted_as_text() -> None:
    """The form of an image in a schema or in arguments is text, and billed as such."""
    url = "data:image/png;base64," + "A" * 100_000
    shown = {"type": "input_image", "image_url": url}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [IMAGE_PART]}
    images = [
        read_part(MESSAGES, IMAGE_PART),
        read_part(MESSAGES, result),
        read_part(RESPONSES, shown),
        read(RESPONSES, input=[{"type": "function_call_output", "output": [shown]}]),
        read(RESPONSES, input=[{"type": "computer_call_output", "output": {
            "type": "computer_screenshot", "image_url": url}}]),
        read_part(CHAT, {"type": "image_url", "image_url": {"url": url}}),
    ]  # fmt: skip
    texts = [
        read(MESSAGES, output_config={"format": {"schema": {"const": IMAGE_PART}}}),
        read(MESSAGES, metadata={"a": [IMAGE_PART]}),
        *(read_part(MESSAGES, {"type": kind, "id": "t", "name": "f", "input": IMAGE_PART})
          for kind in ("tool_use", "mcp_tool_use", "server_tool_use")),
        read_part(MESSAGES, {"type": "text", "text": "", "extra": IMAGE_PART}),
        read(CHAT, tools=[{"type": "function", "function": IMAGE_PART}]),
    ]  # fmt: skip

    assert all(8_000 < request.input_tokens < 60_000 for request in images)
    assert all(request.unpriced == () for request in images)
    assert all(request.input_tokens > 100_000 for request in texts)


REFUSED = [
    b'{"model":"m","max_token\xc5\xbf":9}',
    b'{"model":"m","max_token\\u017f":9}',
    b'{"model":"m","\xef\xbd\x8dax_tokens":9}',
    b'{"model":"m","max_tokens":0}',
    b'{"model":"m","max_tokens":9,"thinking":{"type":"enabled","Budget_Tokens":9000}}',
    b'{"model":"m","max_tokens":9,"thinking":{"type":"enabled","budget_token\\u017f":9000}}',
    b'{"model":"m","thinking":{"type":"enabled","budget_tokens":1}}',
    b'{"model":"m","messages":[{"role":"user","content":[{"type":"text","Type":"file"}]}]}',
    b'{"model":"m","messages":[5]}',
    b'{"model":"m","thread":{"type":"create","Type":"continue"}}',
    b'{"model":"m","reasoning":{"Mode":"pro"}}',
    b'{"model":"m","context_management":{"edits":[{"type":"clear_x","TYPE":"compact_x"}]}}',
    b'{"model":"m","max_tokens":NaN}',
    b'{"model":"\\ud800"}',
    b'{"model":' + b"[" * 100_000,
    b'{"model":"m","messages":[{"content":' + b'[{"type":"tool_result","content":' * 50
    + b"1" + b"}]" * 50 + b"}]}",
]  # fmt: skip


@pytest.mark.parametrize("body", REFUSED)
def test_a_request_with_two_readings_is_malformed(body: bytes) -> None:
    """Servers that fold case or forms of letters would take it for another request."""
    with pytest.raises(CallRefused, match="refused"):
        read_request(MESSAGES, body)


def test_a_thinking_budget_is_no_output_limit_of_its_own() -> None:
    """It raises the bound, and never sets one."""
    thinking = {"type": "enabled", "budget_tokens": 9000}

    assert read(MESSAGES, max_tokens=20, thinking=thinking).output_limit == 9000
    assert read(MESSAGES, max_tokens=20_000, thinking=thinking).output_limit == 20_000


def test_odd_names_can_be_shown() -> None:
    """A lone surrogate has no UTF-8 form, and a name may be long; neither breaks the record."""
    assert read_loosely(b'{"model":"\\ud800"}').model == ""
    for request in (read_part(CHAT, {"type": "x" * 2000}), read(CHAT, **{"\u00e9" * 250: 1})):
        (name,) = request.unpriced
        assert len(name.encode()) < 1000


def test_many_members_are_read_in_linear_time() -> None:
    """The reader runs on the event loop, where a slow request holds up all others."""
    members = "".join(f'"m{n}":1,' for n in range(100_000))
    body = f'{{"model":"m",{members}"x":1,"x":2}}'.encode()
    began = time.process_time()
    with pytest.raises(CallRefused, match="'x' twice"):
        read_request(CHAT, body)

    assert time.process_time() - began < 2


def sse(*events: object) -> bytes:
    """Return a stream of these events."""
    return b"".join(
        b"data: " + (e if isinstance(e, bytes) else json.dumps(e).encode()) + b"\n\n"
        for e in events
    )


CHAT_USAGE = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
RESPONSE_USAGE = {"input_tokens": 10, "output_tokens": 1}
STREAMS: list[tuple[ApiOperation, list[object], object]] = [
    (CHAT, [{"model": "billed", "choices": [], "usage": CHAT_USAGE}] * 2, b"[DONE]"),
    (MESSAGES, [
        {"type": "message_start", "message": {"model": "billed", "usage": RESPONSE_USAGE}},
        {"type": "message_delta", "usage": {"output_tokens": 1}}], {"type": "message_stop"}),
    (RESPONSES, [
        {"type": "response.created", "response": {"model": "billed", "usage": RESPONSE_USAGE}},
        {"type": "response.in_progress", "response": {"usage": RESPONSE_USAGE}}],
     {"type": "response.completed", "response": {"model": "billed", "usage": RESPONSE_USAGE}}),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "events", "end"), STREAMS)
def test_the_usage_of_a_stream_is_final_only_at_its_end(
    operation: ApiOperation, events: list[object], end: object
) -> None:
    """A stream that is cut, or that its client left, has told a part of its usage only."""
    for last, is_final in ((b"", False), (sse(end), True)):
        reader = ReplyReader(operation, streams=True)
        reader.feed(sse(*events) + last)
        reader.finish()

        assert (reader.tokens is not None) is is_final
        assert reader.model == "billed"


def test_a_message_that_stops_without_its_output_has_no_usage() -> None:
    """The usage at its start does not have the output yet."""
    reader = ReplyReader(MESSAGES, streams=True)
    started = {"type": "message_start", "message": {"usage": RESPONSE_USAGE}}
    reader.feed(sse(started, {"type": "message_stop"}))

    assert reader.tokens is None


def test_an_end_without_usage_does_not_take_an_earlier_one() -> None:
    """The usage of a response under way is not that of the whole."""
    reader = ReplyReader(RESPONSES, streams=True)
    going = {"type": "response.in_progress", "response": {"usage": RESPONSE_USAGE}}
    reader.feed(sse(going, {"type": "response.failed", "response": {"usage": None}}))

    assert reader.tokens is None


def test_a_whole_reply_names_its_model_and_its_usage() -> None:
    """A reply that is not streamed is final once it is whole, and not before."""
    reader = ReplyReader(CHAT, streams=False)
    reader.feed(json.dumps({"model": "billed", "choices": [], "usage": CHAT_USAGE}).encode())
    before = reader.tokens
    reader.finish()

    assert before is None
    assert reader.tokens is not None
    assert (reader.model, ReplyReader(CHAT, streams=False).model) == ("billed", "")
