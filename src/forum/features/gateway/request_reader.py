"""Read a request just far enough to bound its price.

The bound rests on these facts.  No tokenizer makes more tokens than a text has bytes, before or
after it is normalized, and JSON makes texts longer, so the bytes of a request bound the tokens of
its texts.  Providers add tokens
for roles, tools and forms, for which there is an allowance.  An image costs at most a fixed number
of tokens, whatever its size.  The output is bounded by the limit in the request.

Only what is known to be bounded so is taken as such: members, items, parts of a message and tools
that are not listed here are named, so that they can be refused.  The lists are those of the
official SDKs.  A request with a member in another case is refused under a cap: the gateway would
bound one reading, and the provider bill the other.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from forum.features.gateway.composed_body import ComposedBody, compose_body, refuse_body
from forum.features.gateway.refusals import CallRefused
from forum.features.gateway.request_turns import RequestTurn, digest_turns, split_turns
from forum.features.gateway.routes import ApiOperation
from forum.models.token_bounds import count_normalized_bytes
from forum.runs.strict_json import MAX_NAME_CHARS, check_names, show_name

CALL_OVERHEAD, TOOL_OVERHEAD = 256, 1024
FORM_OVERHEAD = 1024
"""Allowance for tokens that a provider adds: roles and separators, each tool, a schema."""
_IMAGE_TOKENS = {ApiOperation.MESSAGES: 8_000}
MAX_IMAGE_TOKENS = 50_000
"""The most that an image costs with any listed model: the small ones bill many tokens a tile."""
_MAX_CHOICES = 128
_MAX_LIMIT = 1 << 40
_MAX_PART_DEPTH = 8
"""How deep parts of a message are inside of each other: a result of a tool has two levels."""

_LIMIT_MEMBERS: Mapping[ApiOperation, tuple[str, ...]] = {
    ApiOperation.CHAT: ("max_completion_tokens", "max_tokens"),
    ApiOperation.RESPONSES: ("max_output_tokens",),
    ApiOperation.MESSAGES: ("max_tokens",),
    ApiOperation.EMBEDDINGS: (),
}
_SHARED_MEMBERS = frozenset(
    {"metadata", "model", "stream", "temperature", "thinking", "tool_choice", "tools", "top_p"}
)
_OPENAI_MEMBERS = _SHARED_MEMBERS | {
    "parallel_tool_calls", "prompt_cache_key", "prompt_cache_retention", "safety_identifier",
    "store", "stream_options", "top_logprobs", "user",
}  # fmt: skip
# Members that change nothing but texts and samples, or are read below.  A member that is missing
# here may change the price, or bill something other than the tokens of the call.
_PRICED_MEMBERS: Mapping[ApiOperation, frozenset[str]] = {
    ApiOperation.CHAT: _OPENAI_MEMBERS | {
        "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs",
        "max_completion_tokens", "max_tokens", "messages", "min_p", "n", "presence_penalty",
        "reasoning_effort", "repetition_penalty", "response_format", "seed", "stop", "top_k",
        "verbosity",
    },
    ApiOperation.RESPONSES: _OPENAI_MEMBERS | {
        "access_programs", "client_metadata", "conversation", "include", "input", "instructions",
        "max_output_tokens", "max_tool_calls", "previous_response_id", "reasoning", "text",
        "truncation",
    },
    ApiOperation.MESSAGES: _SHARED_MEMBERS | {
        "cache_control", "diagnostics", "max_tokens", "messages", "output_config",
        "output_format", "stop_sequences", "system", "top_k", "user_profile_id",
    },
    ApiOperation.EMBEDDINGS: frozenset(
        {"dimensions", "encoding_format", "input", "model", "user"}
    ),
}  # fmt: skip
_HARMLESS_VALUES: Mapping[str, tuple[object, ...]] = {
    "background": (False,),
    "modalities": (["text"],),
    # A flexible call costs less than the table says.
    "service_tier": ("auto", "default", "flex", "standard_only"),
    "speed": ("standard",),
}
_TURN_MEMBERS: Mapping[ApiOperation, str] = {
    ApiOperation.CHAT: "messages",
    ApiOperation.RESPONSES: "input",
    ApiOperation.MESSAGES: "messages",
}
# Parts and items that are the same input in each later call.  With any other one the provider may
# add more to a later call than that has bytes: a tool that was deferred, what it has stored.
_STEADY_PARTS = frozenset(
    {
        "image", "image_url", "input_image", "input_text", "output_text", "reasoning_text",
        "redacted_thinking", "refusal", "summary_text", "text", "thinking", "tool_result",
        "tool_use",
    }
)  # fmt: skip
_STEADY_ITEMS = frozenset(
    {
        "custom_tool_call", "custom_tool_call_output", "function_call", "function_call_output",
        "local_shell_call", "local_shell_call_output", "message", "reasoning",
    }
)  # fmt: skip
_UNSTEADY_MEMBERS = ("context_management", "thread", "truncation")
"""Members by which the provider may leave parts of the input out of one call, and not of another.
"""
_UNSTEADY_TOOL_MEMBERS = ("defer_loading", "allowed_callers")
_STORED_MEMBERS = ("previous_response_id", "conversation")
"""Members that add to the input what the provider has stored."""
_OPTION_MEMBERS = ("thinking", "reasoning", "thread", "prompt_cache_options", "tool_choice")
"""Members that are objects, of which the gateway reads members."""
_THINKING_MEMBERS = frozenset({"type", "budget_tokens", "display", "block_binding"})
# Tools that run in the client, so that they cost only their tokens.  All others run at the
# provider, which bills them apart, or adds what they return to the input.
_CLIENT_TOOLS = re.compile(
    r"function|custom|local_shell|apply_patch|(bash|text_editor|computer|memory)_\d{8}"
)
_TOOL_CHOICES = frozenset({"allowed_tools", "any", "auto", "none", "tool"})
"""Choices beside those of a tool by its own type."""

_AUDIO_PARTS = frozenset({"input_audio", "audio", "output_audio", "audio_url"})
_FILE_PARTS = frozenset({"file", "input_file", "document", "container_upload", "video_url"})
_IMAGE_PARTS: Mapping[ApiOperation, frozenset[str]] = {
    ApiOperation.CHAT: frozenset({"image_url"}),
    ApiOperation.RESPONSES: frozenset({"input_image", "computer_screenshot"}),
    ApiOperation.MESSAGES: frozenset({"image"}),
}
# Parts whose tokens are at most their bytes.  What a provider sends encrypted is no shorter.
_TEXT_PARTS: Mapping[ApiOperation, frozenset[str]] = {
    ApiOperation.CHAT: frozenset({"text", "refusal"}),
    ApiOperation.RESPONSES: frozenset(
        {"input_text", "output_text", "refusal", "summary_text", "reasoning_text"}
    ),
    ApiOperation.MESSAGES: frozenset(
        {
            "text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use",
            "tool_result", "mcp_tool_result", "search_result", "web_search_tool_result",
            "web_fetch_tool_result", "web_fetch_result", "advisor_tool_result",
            "code_execution_tool_result", "bash_code_execution_tool_result",
            "text_editor_code_execution_tool_result", "tool_search_tool_result", "tool_reference",
            "tool_addition", "tool_removal", "mcp_tool_listing", "compaction", "fallback",
            "browser_state",
        }
    ),
}  # fmt: skip
_NESTING_PARTS = frozenset(
    {"tool_result", "mcp_tool_result", "search_result", "web_fetch_tool_result", "web_fetch_result"}
)
"""Parts whose `content` has parts again."""
# Items of Responses whose tokens are at most their bytes, and those that have parts as output.
_TEXT_ITEMS = frozenset(
    {
        "apply_patch_call", "apply_patch_call_output", "compaction", "computer_call",
        "custom_tool_call", "function_call", "local_shell_call", "local_shell_call_output",
        "mcp_approval_request", "mcp_approval_response", "mcp_call", "mcp_list_tools",
        "shell_call", "shell_call_output", "tool_search_call",
    }
)  # fmt: skip
_OUTPUT_ITEMS = frozenset(
    {"computer_call_output", "custom_tool_call_output", "function_call_output"}
)
_TOOL_ITEMS = frozenset({"additional_tools", "tool_search_output"})
_STORED_ITEMS = frozenset({"item_reference", "web_search_call", "file_search_call"})
"""Items of which the provider may have more than the request tells."""
# Members of a message that have lists or objects which are texts to the provider.
_MESSAGE_MEMBERS = frozenset(
    {
        "annotations", "cache_control", "content", "function_call", "output_config",
        "provider_specific_fields", "reasoning_details", "thinking_blocks", "tool_call_id",
        "tool_calls", "tool_name",
    }
)  # fmt: skip
# Members of parts and items that are texts to the provider, or are read below.
_PART_MEMBERS = frozenset(
    {
        "action", "annotations", "arguments", "cache_control", "caller", "citations", "content",
        "input", "operation", "output", "tool", "tool_changes", "tool_name", "tool_use_id", "tools",
    }
)  # fmt: skip
_IMAGE_MEMBERS = frozenset({"cache_control", "detail", "file_id", "image_url", "source", "type"})
_SOURCE_MEMBERS = frozenset({"data", "detail", "file_id", "format", "media_type", "type", "url"})
"""Members of the source of an image, or of the address of one."""
# Members of tools that run in the client.  With any other one a server may run something itself.
_TOOL_MEMBERS = frozenset(
    {
        "allowed_callers", "annotations", "async", "cache_control", "custom", "defer_loading",
        "description",
        "display_height_px", "display_number", "display_width_px", "eager_input_streaming",
        "enable_zoom", "format", "function", "input_examples", "input_schema", "max_characters",
        "name", "output_schema", "parameters", "strict", "tools", "type",
    }
)  # fmt: skip
_OTHER_PARTS = frozenset().union(_AUDIO_PARTS, _FILE_PARTS, *_IMAGE_PARTS.values())
# A lenient server may look at these members of a part instead of at its type.
_BILLED_APART: Mapping[str, str] = {
    "audio": "audio", "audio_url": "audio", "file": "files", "file_data": "files",
    "file_id": "files", "file_url": "files", "image_url": "image_url", "input_audio": "audio",
    "video": "video", "video_url": "files",
}  # fmt: skip
_BILLED_NAME = re.compile(
    r"audio|document|file|image|media|model|picture|source|tool|ur[il]\b|video", re.IGNORECASE
)
"""Names of and inside of an unknown member that may stand for more than text: what a server looks
up, shows to the model, or runs."""
EXTRA_BILLED_MODELS = re.compile(
    r"search|deep-research|sonar|audio|realtime|transcribe|tts|image|banana|-live|omni-(?!mod)",
    re.IGNORECASE,
)
"""Names of models that bill searches, requests, sounds or pictures beside their tokens."""
_IMAGE_DATA = re.compile(r"data:image/[a-z0-9.+-]+;base64,", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What the gateway needs to know of a request."""

    model: str
    input_tokens: int
    """An upper bound, unless `stored_input` is set."""
    output_limit: int | None
    """The limit that the client set, for one choice; None if it set none."""
    choices: int = 1
    streams: bool = False
    asks_usage: bool = True
    """Whether the reply tells the usage without a change of the request."""
    stored_input: bool = False
    """Whether the provider adds stored input, so that only the context length bounds it."""
    long_cache: bool = False
    unpriced: tuple[str, ...] = ()
    """The names of the parts whose price has no bound."""
    stream_options: Mapping[str, Any] | None = None
    body: bytes = field(default=b"", repr=False)
    """The request as it is sent, unless a limit is set in it."""
    doubt: str = ""
    """Why the request is refused under a cap; empty if its price is bounded."""
    limit_names: tuple[str, ...] = ()
    """The members in which the client set its output limit."""
    thinking_tokens: int = 0
    """What the client grants for thinking, below which no output limit may be."""
    turns: tuple[RequestTurn, ...] = ()
    """The messages, if the input of a later call with all of them is at least that of this one."""


def read_request(operation: ApiOperation, body: bytes) -> ReadRequest:
    """Read a request whose price must be bounded.  Raises `CallRefused`."""
    return bound_request(operation, compose_body(body))


def bound_request(operation: ApiOperation, composed: ComposedBody) -> ReadRequest:
    """Return what bounds the price of a request.  Raises `CallRefused` if nothing does."""
    request = composed.value
    if not isinstance(request, dict) or not isinstance(request.get("model"), str):
        raise refuse_unbounded("it is no JSON object with a model")
    _check_model(request["model"])
    _check_names(request)
    for name in _OPTION_MEMBERS:
        if isinstance(options := request.get(name), dict):
            _check_names(options)
    parts = _PartCounter(operation)
    parts.count(request)
    unpriced = [*map(show_name, _unpriced_members(operation, request))]
    unpriced += map(show_name, parts.unpriced)
    if EXTRA_BILLED_MODELS.search(request["model"]):
        unpriced.append(request["model"])
    overhead = CALL_OVERHEAD + FORM_OVERHEAD * any(
        name in request
        for name in (
            "tools", "functions", "response_format", "text", "output_config", "output_format"
        )
    )  # fmt: skip
    overhead += TOOL_OVERHEAD * parts.tools
    return ReadRequest(
        model=request["model"],
        input_tokens=count_text_bytes(composed) - parts.image_bytes + parts.image_tokens + overhead,
        output_limit=_read_output_limit(operation, request),
        choices=read_choices(request, "n"),
        streams=request.get("stream") is True,
        asks_usage=operation is not ApiOperation.CHAT or _asks_usage(request),
        stored_input=parts.has_references or any(request.get(n) for n in _STORED_MEMBERS),
        long_cache=parts.long_cache,
        unpriced=tuple(dict.fromkeys(unpriced)),
        stream_options=_flat_options(request),
        body=composed.data,
        limit_names=tuple(n for n in _LIMIT_MEMBERS[operation] if request.get(n) is not None),
        thinking_tokens=_read_thinking(request),
        turns=() if unpriced else _read_turns(operation, composed, parts),
    )


def _read_turns(
    operation: ApiOperation, composed: ComposedBody, parts: "_PartCounter"
) -> tuple[RequestTurn, ...]:
    """Return the messages of a request whose input only grows when messages are added."""
    name = _TURN_MEMBERS.get(operation)
    if name is None or not parts.is_steady:
        return ()
    raw = split_turns(composed.data, name)
    if not raw.messages:
        return ()
    tokens = []
    for message, value, more in zip(raw.messages, composed.value[name], parts.marks, strict=True):
        # With the comma after it.
        tokens.append(count_text_bytes(ComposedBody(message, value)) + 1 + more)
    return digest_turns(raw, tokens)


def read_loosely(body: bytes) -> ReadRequest:
    """Read the model of any request, for the record; never fails."""
    try:
        return read_composed(compose_body(body))
    except CallRefused:
        return ReadRequest(model="", input_tokens=0, output_limit=None, body=body)


def read_composed(composed: ComposedBody) -> ReadRequest:
    """Return what is read of a request whose price is not bounded by its body."""
    request = composed.value if isinstance(composed.value, dict) else {}
    model = request.get("model")
    model = model if isinstance(model, str) else ""
    _check_model(model)
    return ReadRequest(
        model=model,
        input_tokens=0,
        output_limit=None,
        streams=request.get("stream") is True,
        body=composed.data,
    )


def _check_model(model: str) -> None:
    if len(model) > MAX_NAME_CHARS:
        raise refuse_body(f"the name of its model is longer than {MAX_NAME_CHARS}")


def count_text_bytes(composed: ComposedBody) -> int:
    """Return how many bytes the texts of a request have at most, normalized or not."""
    if b"\\u" in composed.data:
        # As the provider reads it: one letter may be written as six.
        text = json.dumps(composed.value, ensure_ascii=False)  # noqa: TID251  measured, not kept
        return max(len(composed.data), count_normalized_bytes(text))
    if composed.data.isascii():
        return len(composed.data)
    return count_normalized_bytes(composed.data.decode())


_KNOWN_NAMES = frozenset(
    {
        "definition", "edits", "id", "mode", "role", "tool", "tool_changes", "ttl", "type",
        *_THINKING_MEMBERS, *_HARMLESS_VALUES, *_MESSAGE_MEMBERS, *_BILLED_APART,
        *(name for names in _PRICED_MEMBERS.values() for name in names),
    }
)  # fmt: skip


def _check_names(members: Mapping[str, Any]) -> None:
    try:
        check_names(members, _KNOWN_NAMES)
    except ValueError as error:
        raise refuse_unbounded(str(error)) from None


def _read_output_limit(operation: ApiOperation, request: Mapping[str, Any]) -> int | None:
    names = _LIMIT_MEMBERS[operation]
    limits = [limit for name in names if (limit := read_limit(request, name)) is not None]
    if 0 in limits:
        # Some servers take 0 for no limit at all.
        raise refuse_unbounded("an output limit is 0; set at least 1")
    if budget := _read_thinking(request):
        # With interleaved thinking its budget may be above the output limit, but never replaces it.
        if not limits:
            raise refuse_unbounded("it has a budget for thinking and no output limit; set both")
        limits.append(budget)
    # Where both limits are set, which one holds is the provider's choice.
    return max(limits, default=None)


def _read_thinking(request: Mapping[str, Any]) -> int:
    thinking = request.get("thinking")
    return (read_limit(thinking, "budget_tokens") or 0) if isinstance(thinking, dict) else 0


def read_limit(request: Mapping[str, Any], name: str) -> int | None:
    """Return a number of tokens, or None without one.  Raises `CallRefused`."""
    limit = request.get(name)
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit <= _MAX_LIMIT:
        raise refuse_unbounded(f"{name} is no number of tokens")
    return limit


def read_choices(request: Mapping[str, Any], name: str) -> int:
    """Return how many choices a request asks for.  Raises `CallRefused`."""
    choices = request.get(name, 1)
    if choices is None:
        return 1
    if (
        isinstance(choices, bool)
        or not isinstance(choices, int)
        or not 1 <= choices <= _MAX_CHOICES
    ):
        raise refuse_unbounded(f"{name} is no number from 1 to {_MAX_CHOICES}")
    return choices


def _asks_usage(request: Mapping[str, Any]) -> bool:
    options = request.get("stream_options")
    return request.get("stream") is not True or (
        isinstance(options, dict) and options.get("include_usage") is True
    )


def _flat_options(request: Mapping[str, Any]) -> Mapping[str, Any] | None:
    options = request.get("stream_options")
    return options if isinstance(options, dict) else None


def _unpriced_members(operation: ApiOperation, request: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of members that are not known to be priced by tokens alone."""
    for name in sorted(request.keys() - _PRICED_MEMBERS[operation]):
        value = request[name]
        # A flag must be false, not something that a lenient server takes for true.
        if value is None or value in _HARMLESS_VALUES.get(name, ()):
            continue
        if not _is_harmless(operation, name, value):
            yield name
    if isinstance(thinking := request.get("thinking"), dict):
        yield from (f"thinking.{name}" for name in sorted(thinking.keys() - _THINKING_MEMBERS))
    reasoning = request.get("reasoning")
    if isinstance(reasoning, dict) and reasoning.get("mode") not in (None, "standard"):
        yield "reasoning.mode"  # may think more than once, and bill all of it
    choice = request.get("tool_choice")
    kind = choice.get("type") if isinstance(choice, dict) else None
    if isinstance(kind, str) and kind not in _TOOL_CHOICES and not _CLIENT_TOOLS.fullmatch(kind):
        yield _tool_name(kind)


def _is_harmless(operation: ApiOperation, name: str, value: object) -> bool:
    """Return whether the value of a member is one that does not change the price."""
    match operation, name:
        case ApiOperation.MESSAGES, "context_management":
            return _only_clears(value)
        case ApiOperation.MESSAGES, "thread":
            return isinstance(value, dict) and value.get("type") in ("create", "continue")
        case ((ApiOperation.CHAT | ApiOperation.RESPONSES), "prompt_cache_options"):
            return isinstance(value, dict) and value.get("ttl") in (None, "30m")
        case _:
            return False


def _only_clears(management: object) -> bool:
    """Return whether context edits only remove parts of the input, which costs nothing."""
    if not isinstance(management, dict):
        return False
    _check_names(management)
    edits = management.get("edits")
    if not isinstance(edits, list) or not all(isinstance(edit, dict) for edit in edits):
        return False
    for edit in edits:
        _check_names(edit)
    return all(str(edit.get("type", "")).startswith("clear_") for edit in edits)


def _tool_name(kind: str) -> str:
    """Return the name of a tool: `web_search_20250305` is allowed by `web_search`."""
    return re.sub(r"_\d{8}$", "", kind)


class _PartCounter:
    """Counts the parts of a request that are not text, and names those that it does not know.

    It looks only where the API has parts.  Whatever looks like a part elsewhere (in the schema or
    the arguments of a tool) is the program's own text, and bounded by its bytes.
    """

    def __init__(self, operation: ApiOperation) -> None:
        self.image_bytes = 0
        """Bytes of images in the request, which are not billed as text."""
        self.image_tokens = 0
        self.tools = 0
        self.unpriced: list[str] = []
        self.long_cache = False
        self.has_references = False
        self.is_steady = True
        """Whether a later call with the same messages has at least the same input."""
        self.marks: list[int] = []
        """For each message, the tokens of its images and tools beyond its bytes."""
        self._operation = operation
        self._tokens = _IMAGE_TOKENS.get(operation, MAX_IMAGE_TOKENS)

    def count(self, request: Mapping[str, Any]) -> None:
        """Count the parts of the request."""
        self._note_cache(request)
        self.is_steady = not any(request.get(name) for name in _UNSTEADY_MEMBERS) and not any(
            request.get(name) for name in _STORED_MEMBERS
        )
        for name in ("tools", "functions"):
            self._count_tools(request.get(name), name)
        match self._operation:
            case ApiOperation.EMBEDDINGS:
                self._check_texts(request.get("input"))
            case ApiOperation.RESPONSES:
                self._count_items(request.get("input"), "input")
                instructions = request.get("instructions")
                if isinstance(instructions, list):
                    self._count_items(instructions, "instructions")
                self._name_billed({"instructions": instructions}, frozenset())
            case _:
                thread = request.get("thread")
                self.has_references = isinstance(thread, dict) and thread.get("type") == "continue"
                self._count_parts(request.get("system"))
                if self.image_tokens:
                    self.unpriced.append("image")  # the system's parts are texts
                for message in _objects(request.get("messages"), "messages"):
                    before = self._more_tokens
                    self._count_message(message)
                    self.marks.append(self._more_tokens - before)
        self.is_steady = self.is_steady and not self.has_references

    @property
    def _more_tokens(self) -> int:
        return self.image_tokens - self.image_bytes + TOOL_OVERHEAD * self.tools

    def _check_texts(self, texts: object) -> None:
        """Name an input that has more than texts and numbers of tokens."""
        rows = texts if isinstance(texts, list) else [texts]
        cells = (cell for row in rows for cell in (row if isinstance(row, list) else [row]))
        if not all(isinstance(cell, str | int | None) for cell in cells):
            self.unpriced.append("input")

    def _count_items(self, items: object, name: str) -> None:
        if isinstance(items, str):
            return
        for item in _objects(items, name):
            before = self._more_tokens
            self._count_listed(item)
            if name == "input":
                self.marks.append(self._more_tokens - before)

    def _count_listed(self, item: Mapping[str, Any]) -> None:
        _check_names(item)
        kind = item.get("type")
        if kind not in (None, "message"):
            self._count_item(kind if isinstance(kind, str) else "untyped", item)
        elif item.get("role") is not None and item.get("content") is not None:
            self._count_message(item)
        else:
            # An item without a type is a reference to a stored one.
            self.has_references = True

    def _count_item(self, kind: str, item: Mapping[str, Any]) -> None:
        self.is_steady = self.is_steady and kind in _STEADY_ITEMS
        if kind == "reasoning":
            # Without its content the provider looks it up by its id.
            self.has_references |= not item.get("encrypted_content")
            self._count_parts(item.get("content"))
        elif kind in _OUTPUT_ITEMS:
            self._count_parts(item.get("output"))
        elif kind in _TOOL_ITEMS:
            self._count_tools(item.get("tools"), kind)
        elif kind in _STORED_ITEMS:
            self.has_references = True
        elif kind not in _TEXT_ITEMS:
            self.unpriced.append(kind)
        else:
            self._count_tools(item.get("tools"), kind)
            self._name_hidden_parts(item.get("output"))
        self._name_billed(item, _PART_MEMBERS)

    def _count_message(self, message: Mapping[str, Any]) -> None:
        _check_names(message)
        self._note_cache(message)
        self._count_parts(message.get("content"))
        self._name_billed(message, _MESSAGE_MEMBERS)
        if isinstance(options := message.get("output_config"), dict):
            self._name_billed(options, frozenset({"format"}))

    def _name_billed(self, members: Mapping[str, Any], names: frozenset[str]) -> None:
        """Name what may be more than text, wherever the API has other members."""
        for name, value in members.items():
            if name in names:
                continue
            if name in _BILLED_APART and value is not None:
                self.unpriced.append(_BILLED_APART[name])
            elif _may_be_billed(name, value):
                self.unpriced.append(name)

    def _name_hidden_parts(self, content: object) -> None:
        """Name files, sounds and images in what should be text, however deep they are."""
        for part in _walk(content):
            kind = part.get("type")
            if isinstance(kind, str) and kind in _OTHER_PARTS:
                self.unpriced.append(_BILLED_APART.get(kind, kind))

    def _count_parts(self, content: object, depth: int = 0) -> None:
        if depth > _MAX_PART_DEPTH:
            raise refuse_unbounded("its parts are too deep inside of each other")
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, dict):
                self._count_part(part, depth)
            elif isinstance(part, list):
                self.unpriced.append("untyped")

    def _count_part(self, part: Mapping[str, Any], depth: int) -> None:
        _check_names(part)
        self._note_cache(part)
        kind = part.get("type")
        self.is_steady = self.is_steady and str(kind) in _STEADY_PARTS
        if not isinstance(kind, str):
            self.unpriced.append("untyped")
        elif kind in _AUDIO_PARTS:
            self.unpriced.append("audio")
        elif kind in _FILE_PARTS:
            self.unpriced.append("files")
        elif kind in _IMAGE_PARTS[self._operation]:
            self._count_image(part)
        elif kind not in _TEXT_PARTS[self._operation]:
            self.unpriced.append(kind)
        else:
            # Where a search was made is a text; elsewhere a source is a file.
            names = _PART_MEMBERS | {"source"} if kind == "search_result" else _PART_MEMBERS
            self._name_billed(part, names)
            if kind in _NESTING_PARTS:
                self._count_parts(part.get("content"), depth + 1)
            else:
                self._name_hidden_parts(part.get("content"))
            self._count_tool_changes(kind, part, depth)

    def _count_image(self, part: Mapping[str, Any]) -> None:
        self.image_tokens += self._tokens
        size = _inline_image_bytes(self._operation, part)
        # What is elsewhere may be another image the next time.
        self.is_steady = self.is_steady and size > 0
        self.image_bytes += size
        self._name_billed(part, _IMAGE_MEMBERS)
        for name in ("image_url", "source"):
            value = part.get(name)
            if isinstance(value, dict):
                _check_names(value)
                self._name_billed(value, _SOURCE_MEMBERS)
            elif not isinstance(value, str | None):
                self.unpriced.append(name)  # more than one image

    def _count_tool_changes(self, kind: str, part: Mapping[str, Any], depth: int) -> None:
        """Count the tools that a message adds to those of the request."""
        if kind == "compaction":
            self._count_parts(part.get("tool_changes"), depth + 1)
        tool = part.get("tool") if kind == "tool_addition" else None
        if isinstance(tool, dict):
            _check_names(tool)
            if tool.get("type") != "tool_reference" or "definition" in tool:
                self._count_tools([tool.get("definition")], kind)

    def _count_tools(self, tools: object, name: str) -> None:
        """Count tools, and name those that do not run in the client."""
        if tools is None:
            return
        if not isinstance(tools, list):
            self.unpriced.append(name)
            return
        self.tools += len(tools)
        for tool in tools:
            if not isinstance(tool, dict):
                self.unpriced.append(name)
                continue
            _check_names(tool)
            self._note_cache(tool)
            self._count_tool(tool, name)

    def _count_tool(self, tool: Mapping[str, Any], name: str) -> None:
        self.is_steady = self.is_steady and not any(map(tool.get, _UNSTEADY_TOOL_MEMBERS))
        kind = tool.get("type")
        if kind == "namespace" and name != kind:
            self._count_tools(tool.get("tools"), kind)
        elif not isinstance(kind, str | None) or (kind is None and not _is_untyped_tool(tool)):
            self.unpriced.append(name)
        elif kind is not None and not _CLIENT_TOOLS.fullmatch(kind):
            self.unpriced.append(_tool_name(kind))
        unknown = tool.keys() - _TOOL_MEMBERS
        self.unpriced += sorted(each for each in unknown if tool[each] is not None)

    def _note_cache(self, part: Mapping[str, Any]) -> None:
        control = part.get("cache_control")
        if isinstance(control, dict):
            _check_names(control)
            self.long_cache |= control.get("ttl") not in (None, "5m")
        mark = part.get("prompt_cache_breakpoint")
        if isinstance(mark, dict) and mark.get("ttl") not in (None, "30m"):
            self.unpriced.append("prompt_cache_breakpoint")


def _may_be_billed(name: str, value: object) -> bool:
    """Return whether an unknown member of a message may be billed as more than its bytes."""
    if not value or not isinstance(value, dict | list | str):
        return False
    return any(_BILLED_NAME.search(each) for part in _walk({name: value}) for each in part)


def _walk(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield all objects in a value."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def _is_untyped_tool(tool: Mapping[str, Any]) -> bool:
    """Return whether a tool without a type is one of the client: they are described by a schema."""
    if isinstance(tool.get("function"), dict):
        return True
    schemas = (tool.get("input_schema"), tool.get("parameters"))
    return isinstance(tool.get("name"), str) and any(isinstance(s, dict) for s in schemas)


def _objects(values: object, name: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list.  Raises `CallRefused` for any other value."""
    if values is None:
        return
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise refuse_unbounded(f"{name} is no list of objects")
    yield from values


def _inline_image_bytes(operation: ApiOperation, part: Mapping[str, Any]) -> int:
    """Return the size of an image inside of the request; 0 if it is elsewhere."""
    if operation is not ApiOperation.MESSAGES:
        url = part.get("image_url")
        if isinstance(url, dict):
            url = url.get("url")
        data = _IMAGE_DATA.match(url) if isinstance(url, str) else None
        return len(data.string) - data.end() if data else 0
    source = part.get("source")
    if isinstance(source, dict) and source.get("type") == "base64":
        text, media = source.get("data"), source.get("media_type")
        if isinstance(text, str) and isinstance(media, str) and media.startswith("image/"):
            return len(text)
    return 0


def refuse_unbounded(why: str) -> CallRefused:
    """Return the refusal of a request that nothing bounds, under a cap."""
    return refuse_body(f"its price has no bound, and this run has a cap: {why}")
