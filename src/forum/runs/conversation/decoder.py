"""Decode a recorded body into messages, by the members that its values have.

The formats share their shapes, and frameworks mix them, so values are read by member and not by
format: OpenAI's chat completions and responses, Anthropic's messages, Gemini, the conventions of
OpenTelemetry, OpenInference and Traceloop, and the messages of Pydantic AI, the OpenAI Agents SDK,
LangChain, CrewAI and Google's ADK.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from forum.runs.conversation.json_values import (
    MAX_CUT_BYTES,
    UNREADABLE,
    as_count,
    as_list,
    as_object,
    as_text,
    clean_text,
    decode_cut_json,
    decode_json,
    encode_json,
)
from forum.runs.conversation.messages import (
    ChatAttachment,
    ChatMessage,
    ChatRole,
    ChatToolCall,
    ChatToolResult,
    DecodedBody,
    ExchangeUsage,
    ModelExchange,
)
from forum.runs.conversation.streams import is_stream, join_stream

MAX_TEXT_CHARS = 1 << 20
"""How many characters of one body are kept in its messages."""
MAX_MESSAGES = 5_000
MAX_VALUES = 50_000
"""How many messages and parts of one body are read, also empty ones."""
_NO_LIMIT = 1 << 62
_MAX_DEPTH = 20

_ROLES = {
    "system": ChatRole.SYSTEM,
    "developer": ChatRole.SYSTEM,
    "user": ChatRole.USER,
    "human": ChatRole.USER,
    "assistant": ChatRole.ASSISTANT,
    "ai": ChatRole.ASSISTANT,
    "AIMessageChunk": ChatRole.ASSISTANT,
    "model": ChatRole.ASSISTANT,
    "tool": ChatRole.TOOL,
    "function": ChatRole.TOOL,
}
_PART_ROLES = {
    "system-prompt": ChatRole.SYSTEM,
    "instruction": ChatRole.SYSTEM,
    "user-prompt": ChatRole.USER,
    "retry-prompt": ChatRole.USER,
    "gen_ai.system.message": ChatRole.SYSTEM,
    "gen_ai.user.message": ChatRole.USER,
    "gen_ai.assistant.message": ChatRole.ASSISTANT,
    "gen_ai.tool.message": ChatRole.TOOL,
    "gen_ai.choice": ChatRole.ASSISTANT,
    "gen_ai.content.prompt": ChatRole.USER,
    "gen_ai.content.completion": ChatRole.ASSISTANT,
}
"""The roles of parts and events that have none of their own."""
_TEXT_PARTS = frozenset(
    {
        "text", "input_text", "output_text", "summary_text", "refusal", "user-prompt",
        "system-prompt", "retry-prompt", "instruction", "compaction",
    }
)  # fmt: skip
_REASONING_PARTS = frozenset(
    {"thinking", "redacted_thinking", "reasoning", "reasoning_text", "reasoning_content"}
)
_ATTACHMENTS = {
    "image": "image", "image_url": "image", "input_image": "image", "image-url": "image",
    "computer_screenshot": "image", "audio": "audio", "input_audio": "audio",
    "audio-url": "audio", "output_audio": "audio", "video": "video", "video_url": "video",
    "video-url": "video", "file": "file", "input_file": "file", "document": "file",
    "document-url": "file", "binary": "file", "blob": "file", "uri": "file",
    "container_upload": "file", "media": "file",
}  # fmt: skip
_CALL_NAMES = frozenset({"tool_use", "tool_call", "tool-call", "builtin-tool-call", "function"})
_RESULT_NAMES = frozenset({"tool-return", "builtin-tool-return", "tool_call_response"})


def decode_exchange(
    request: bytes | None,
    reply: bytes | None,
    roles: tuple[ChatRole, ChatRole] = (ChatRole.USER, ChatRole.ASSISTANT),
) -> ModelExchange:
    """Return a request and its reply as messages; None for a body that was erased.

    Messages without a role have these.
    """
    asked = decode_body(request or b"", roles[0])
    answered = decode_body(reply or b"", roles[1])
    return ModelExchange(
        request=asked.messages,
        reply=answered.messages,
        model=answered.model or asked.model,
        stop_reason=answered.stop_reason,
        usage=answered.usage,
    )


def decode_body(body: bytes, role: ChatRole, *, is_limited: bool = True) -> DecodedBody:
    """Return what a body says; a message without a role has this one.  Never raises."""
    if not body.strip():
        return DecodedBody()
    value, note = _parse(body)
    reader = MessageReader(is_limited=is_limited)
    if value is None:
        text = body.decode(errors="replace")
        reader.add_message(role if not note else ChatRole.RAW, text, note)
        return DecodedBody(tuple(reader.messages))
    reader.read(value, role, 0)
    messages = reader.finish()
    if note:
        # A note of its own, behind what could be read.
        messages.append(ChatMessage(ChatRole.RAW, note=note))
    return describe_body(messages, as_object(value))


def describe_body(messages: Sequence[ChatMessage], members: dict[str, Any]) -> DecodedBody:
    """Return a body with these messages and what its other members say of them."""
    return DecodedBody(
        messages=tuple(messages),
        model=_find_text(members, "model", "modelVersion", "model_name"),
        stop_reason=_stop_reason(members),
        usage=_usage(members),
    )


def _parse(body: bytes) -> tuple[Any, str]:
    """Return the value of a body, or None for a plain text, and what is wrong with it."""
    if is_stream(body):
        joined = join_stream(body)
        if joined is None:
            return None, "a stream of an unknown format"
        return joined.value, joined.note
    if body.lstrip()[:1] not in (b"{", b"["):
        return None, ""
    try:
        return decode_json(body), ""
    except UNREADABLE as error:
        why = str(error)
    with suppress(*UNREADABLE):
        if value := decode_cut_json(body):
            is_long = len(body) > MAX_CUT_BYTES
            rest = f"; only its first {MAX_CUT_BYTES:,} bytes are shown" if is_long else ""
            return value, f"the recorded body is cut{rest}"
    return None, f"no JSON: {why}"


class OpenMessage:
    """A message while it is read."""

    __slots__ = ("attachments", "calls", "reasoning", "results", "role", "texts")

    def __init__(self, role: ChatRole) -> None:
        self.role = role
        self.texts: list[str] = []
        self.reasoning: list[str] = []
        self.calls: list[ChatToolCall] = []
        self.results: list[ChatToolResult] = []
        self.attachments: list[ChatAttachment] = []

    @property
    def size(self) -> int:
        """The number of its parts."""
        tools = len(self.calls) + len(self.results)
        return len(self.texts) + len(self.reasoning) + tools + len(self.attachments)

    def copy(self) -> "OpenMessage":
        """Return a message that can be read on by itself."""
        copied = OpenMessage(self.role)
        copied.texts, copied.reasoning = self.texts.copy(), self.reasoning.copy()
        copied.calls, copied.results = self.calls.copy(), self.results.copy()
        copied.attachments = self.attachments.copy()
        return copied

    def close(self) -> ChatMessage | None:
        """Return the message; None if there is nothing in it."""
        message = ChatMessage(
            role=self.role,
            text="\n".join(filter(None, self.texts)),
            reasoning="\n".join(filter(None, self.reasoning)),
            calls=tuple(self.calls),
            results=tuple(self.results),
            attachments=tuple(self.attachments),
        )
        return None if message == ChatMessage(self.role) else message


def limit_messages(messages: Sequence[ChatMessage]) -> tuple[ChatMessage, ...]:
    """Return as many messages as may be shown at once, and say how much is left out.

    What an earlier request has does not count, so the limit is no part of decoding a request.
    """
    kept: list[ChatMessage] = []
    left, values_left = MAX_TEXT_CHARS, MAX_VALUES
    cut = 0
    for message in messages:
        shown = message
        if len(kept) >= MAX_MESSAGES or values_left <= 0:
            shown = ChatMessage(message.role)
        elif message.size > left or message.parts > values_left:
            shown = _shorten(message, left, values_left)
        cut += message.size - shown.size
        left -= shown.size
        values_left -= 1 + shown.parts
        if shown is message or shown != ChatMessage(message.role):
            kept.append(shown)
    return (*kept, _cut_note(cut)) if cut else tuple(kept)


def _shorten(message: ChatMessage, chars: int, parts: int) -> ChatMessage:
    """Return a message with at most so many characters, and so many parts of a kind."""

    def keep(text: str) -> str:
        nonlocal chars
        kept = text[:chars]
        chars -= len(kept)
        return kept

    return ChatMessage(
        message.role,
        keep(message.text),
        keep(message.reasoning),
        tuple(replace(call, arguments=keep(call.arguments)) for call in message.calls[:parts]),
        results=tuple(
            replace(result, text=keep(result.text)) for result in message.results[:parts]
        ),
        attachments=message.attachments[:parts],
        note=keep(message.note),
    )


def _cut_note(count: int) -> ChatMessage:
    note = f"{count:,} characters are left out here; the recorded body has them"
    return ChatMessage(ChatRole.RAW, note=note)


class MessageReader:
    """Reads messages out of a decoded value, up to a number of characters."""

    def __init__(self, *, is_limited: bool = True) -> None:
        self.messages: list[ChatMessage] = []
        self.open: OpenMessage | None = None
        """The message that is being read."""
        self._most = MAX_MESSAGES if is_limited else _NO_LIMIT
        self._left = MAX_TEXT_CHARS if is_limited else _NO_LIMIT
        self._values_left = MAX_VALUES if is_limited else _NO_LIMIT
        self._cut = 0

    def resume(self, messages: Sequence[ChatMessage], unfinished: OpenMessage | None) -> None:
        """Go on where an earlier body of the same beginning was read up to."""
        self.messages += messages
        self.open = unfinished and unfinished.copy()

    def finish(self) -> list[ChatMessage]:
        """Return the messages."""
        self.end_message()
        if self._cut:
            self.messages.append(_cut_note(self._cut))
        return self.messages

    def add_message(self, role: ChatRole, text: str, note: str = "") -> None:
        """Add a message that is a text."""
        self.end_message()
        kept = self._keep(text)
        if kept or note:
            self.messages.append(ChatMessage(role, kept, note=note))

    def read(self, value: object, role: ChatRole, depth: int) -> None:
        """Read a value: a request, a reply, a list of messages, a message, or a part of one."""
        self._values_left -= 1
        if len(self.messages) >= self._most or self._values_left < 0:
            self._cut += len(encode_json(value))
        elif isinstance(value, str):
            self._message(role).texts.append(self._keep(value))
        elif isinstance(value, list) and depth <= _MAX_DEPTH:
            self._read_list(value, role, depth + 1)
        elif isinstance(value, dict) and depth <= _MAX_DEPTH:
            self._read_object(value, role, depth + 1)
        elif value is not None:
            self._message(role).texts.append(self._keep(encode_json(value)))

    def _read_list(self, values: list[Any], role: ChatRole, depth: int) -> None:
        if values and all(isinstance(value, int) for value in values):
            # The input of an embedding may be tokens.
            self._message(role).texts.append(f"({len(values)} numbers)")
            return
        for value in values:
            self.read(value, role, depth)

    def _read_object(self, value: dict[str, Any], role: ChatRole, depth: int) -> None:
        is_known = (
            self._read_whole(value, depth)
            or self._read_message(value, role, depth)
            or self._read_part(value, role, depth)
        )
        if is_known:
            return
        self._message(role).texts.append(self._keep(encode_json(value)))

    def _read_whole(self, value: dict[str, Any], depth: int) -> bool:
        """Read a request or a reply; return whether it is one."""
        if value.get("error"):
            self._read_error(value["error"])
            if not any(value.get(name) for name in ("choices", "output", "content")):
                return True
        if value.get("object") == "list" and isinstance(value.get("data"), list):
            # The reply with embeddings, or a list of models.
            count = len(value["data"])
            self._message(ChatRole.OUTPUT).texts.append(
                f"(a list of {count} {'item' if count == 1 else 'items'})"
            )
            return True
        return self._read_reply(value, depth) or self._read_request(value, depth)

    def _read_request(self, value: dict[str, Any], depth: int) -> bool:
        if PART_MEMBERS & value.keys():
            return False
        self.read_system(value, depth)
        for name in MESSAGE_LISTS:
            if name in value:
                self.read(value[name], ChatRole.USER, depth)
                return True
        return False

    def read_system(self, value: dict[str, Any], depth: int) -> None:
        """Read what a request has beside its list of messages."""
        for name in ("system", "instructions", "systemInstruction", "system_instruction"):
            if value.get(name):
                self.read(value[name], ChatRole.SYSTEM, depth)
                self.end_message()

    def _read_reply(self, value: dict[str, Any], depth: int) -> bool:
        for choice in map(as_object, as_list(value.get("choices"))):
            self.end_message()
            message = choice.get("message") or choice.get("delta") or choice.get("text")
            self.read(message, ChatRole.ASSISTANT, depth)
        for candidate in map(as_object, as_list(value.get("candidates"))):
            self.end_message()
            self.read(candidate.get("content"), ChatRole.ASSISTANT, depth)
        if isinstance(value.get("output"), list) and "type" not in value:
            self.read(value["output"], ChatRole.ASSISTANT, depth)
            return True
        return "choices" in value or "candidates" in value

    def _read_error(self, error: object) -> None:
        message = as_text(as_object(error).get("message"))
        self.add_message(ChatRole.ERROR, message or as_text(error) or encode_json(error))

    def _read_message(self, value: dict[str, Any], role: ChatRole, depth: int) -> bool:
        """Read a message with a role of its own; return whether it is one."""
        inner = value.get("message")
        if isinstance(inner, dict):
            self.read(inner, role, depth)
            return True
        own = _own_role(value)
        if own is None and value.get("kind") in ("request", "response"):
            # The parts of a message of Pydantic AI have the roles.
            own = ChatRole.USER if value["kind"] == "request" else ChatRole.ASSISTANT
        if own is None:
            return False
        self.end_message()
        message = self._message(own)
        reasoning = as_text(value.get("reasoning_content")) or as_text(value.get("reasoning"))
        message.reasoning.append(self._keep(reasoning))
        answered = as_text(value.get("tool_call_id"))
        content = next((value[n] for n in _CONTENTS if value.get(n)), None)
        if own is ChatRole.TOOL and (answered or not isinstance(content, list)):
            name = as_text(value.get("name"))
            message.results.append(ChatToolResult(self._flatten(content, depth), answered, name))
        else:
            self.read(content, own, depth)
        if refusal := as_text(value.get("refusal")):
            self._message(own).texts.append(self._keep(refusal))
        called = as_list(value.get("tool_calls"))
        if isinstance(value.get("function_call"), dict):
            called = [*called, value["function_call"]]
        for call in map(as_object, called):
            self._read_call(call.get("tool_call") or call)
        self.end_message()
        return True

    def _read_part(self, part: dict[str, Any], role: ChatRole, depth: int) -> bool:
        """Read a part of a message; return whether its form is known."""
        while isinstance(part.get("message_content"), dict):
            part = part["message_content"]
        kind = next((as_text(part[n]) for n in ("part_kind", "type", "kind") if part.get(n)), "")
        own = _PART_ROLES.get(kind, role)
        if kind in _TEXT_PARTS:
            text = next((part[n] for n in ("text", "content", "refusal") if part.get(n)), "")
            self.read(text, own, depth)
        elif kind in _REASONING_PARTS:
            self._read_reasoning(part, depth)
        elif kind in _CALL_NAMES or kind.endswith(("_call", "tool_use")):
            self._read_call(part)
        elif kind in _RESULT_NAMES or kind.endswith(("_call_output", "tool_result")):
            self._read_result(part, depth)
        elif kind in _ATTACHMENTS:
            self._message(own).attachments.append(_attachment(kind, part))
        else:
            return self._read_untyped_part(part, role, depth)
        return True

    def _read_untyped_part(self, part: dict[str, Any], role: ChatRole, depth: int) -> bool:
        """Read a part of Gemini, which has no type; return whether it is one."""
        called = part.get("functionCall") or part.get("function_call")
        answered = part.get("functionResponse") or part.get("function_response")
        data = part.get("inlineData") or part.get("inline_data") or part.get("fileData")
        if isinstance(called, dict):
            self._read_call(called)
        elif isinstance(answered, dict):
            self._read_result(answered, depth)
        elif isinstance(data, dict):
            self._message(role).attachments.append(_attachment("file", data))
        elif isinstance(part.get("text"), str) and "type" not in part:
            target = self._message(role)
            texts = target.reasoning if part.get("thought") else target.texts
            texts.append(self._keep(part["text"]))
        elif isinstance(part.get("parts"), list) and part.keys() <= {"parts", "role"}:
            self.read(part["parts"], role, depth)
        else:
            return False
        return True

    def _read_reasoning(self, part: dict[str, Any], depth: int) -> None:
        names = ("thinking", "summary", "content", "text")
        part_text = next((part[name] for name in names if part.get(name)), None)
        text = self._flatten(part_text, depth) if part_text else "(encrypted)"
        self._message(ChatRole.ASSISTANT).reasoning.append(text)

    def _read_call(self, call: object) -> None:
        """Read a tool call.  Only a model makes one, in whatever list it stands."""
        members = as_object(call)
        function = as_object(members.get("function")) or as_object(members.get("custom"))
        source = function or members
        name = _find_text(source, "name", "tool_name") or _find_text(members, "type")
        given = next(
            (
                source[n]
                for n in ("arguments", "args", "input", "action", "queries")
                if source.get(n)
            ),
            "",
        )
        arguments = given if isinstance(given, str) else encode_json(given)
        number = _find_text(members, "call_id", "id", "tool_call_id")
        self._message(ChatRole.ASSISTANT).calls.append(
            ChatToolCall(name=name, arguments=self._keep(arguments), id=number)
        )

    def _read_result(self, part: dict[str, Any], depth: int) -> None:
        """Read the result of a tool, which some formats have in a message of the user."""
        names = ("content", "output", "response", "result")
        returned = next((part[name] for name in names if part.get(name)), "")
        number = _find_text(part, "tool_use_id", "call_id", "tool_call_id", "id")
        name = _find_text(part, "tool_name", "name")
        text = self._flatten(returned, depth)
        self._message(ChatRole.TOOL).results.append(ChatToolResult(text, number, name))

    def _flatten(self, value: object, depth: int) -> str:
        """Return a value that may have parts as one text."""
        if value is None or value == "":
            return ""
        if isinstance(value, str):
            return self._keep(value)
        if not _has_parts(value):
            return self._keep(encode_json(value))
        inner = MessageReader()
        inner._most, inner._left = self._most, self._left
        inner._values_left = self._values_left
        inner.read(value, ChatRole.TOOL, depth + 1)
        self._values_left = inner._values_left
        self._cut += inner._cut
        pieces = []
        for message in inner.finish():
            pieces += [message.text, message.reasoning]
            pieces += [result.text for result in message.results]
            pieces += [f"({describe_attachment(a)})" for a in message.attachments]
        return self._keep("\n".join(filter(None, pieces)))

    def _message(self, role: ChatRole) -> OpenMessage:
        """Return the message that is being read, or a new one if it is another's."""
        if self.open is None or self.open.role is not role:
            self.end_message()
            self.open = OpenMessage(role)
        return self.open

    def end_message(self) -> None:
        """End the message that is being read, if there is one."""
        message = self.open.close() if self.open else None
        self.open = None
        if message is not None:
            self.messages.append(message)

    def _keep(self, text: str) -> str:
        """Return as much of a text as may still be kept."""
        kept = clean_text(text[: self._left])
        self._left -= len(kept)
        self._cut += max(0, len(text) - len(kept))
        return kept


MESSAGE_LISTS = ("messages", "contents", "input", "prompt")
"""The members of a request that hold its messages; the first that is there counts."""
PART_MEMBERS = frozenset({"role", "name", "type", "kind", "part_kind"})
"""What a message or a part has, and a request has not."""
_CONTENTS = ("content", "parts", "contents", "body", "gen_ai.prompt", "gen_ai.completion")


def describe_attachment(attachment: ChatAttachment) -> str:
    """Return an attachment in a few words."""
    named = attachment.name or attachment.media_type
    size = f", {attachment.size:,} bytes" if attachment.size else ""
    return f"{attachment.kind}{f' {named}' if named else ''}{size}"


def _own_role(value: dict[str, Any]) -> ChatRole | None:
    """Return the role that a message states; None if it states none."""
    role = _ROLES.get(as_text(value.get("role")))
    if role is None and isinstance(value.get("role"), str):
        role = ChatRole.USER
    if role is None and "content" in value:
        # LangChain has the role as the type.
        role = _ROLES.get(as_text(value.get("type")))
    return role or _PART_ROLES.get(as_text(value.get("event")))


def _has_parts(value: object) -> bool:
    """Return whether a value is a list of parts, or one, and no plain data."""
    items = value if isinstance(value, list) else [value]
    return any(
        isinstance(item, str)
        or (isinstance(item, dict) and bool({"type", "text", "parts"} & item.keys()))
        for item in items
    )


def _find_text(members: dict[str, Any], *names: str) -> str:
    return next((text for name in names if (text := as_text(members.get(name)))), "")


def _stop_reason(reply: dict[str, Any]) -> str:
    for name in ("choices", "candidates"):
        for choice in map(as_object, as_list(reply.get(name))[:1]):
            return _find_text(choice, "finish_reason", "finishReason")
    details = as_object(reply.get("incomplete_details"))
    return _find_text(reply, "stop_reason") or _find_text(details, "reason")


def _usage(reply: dict[str, Any]) -> ExchangeUsage | None:
    usage = as_object(reply.get("usage")) or as_object(reply.get("usageMetadata"))
    read = _find_count(usage, "prompt_tokens", "input_tokens", "promptTokenCount")
    written = _find_count(usage, "completion_tokens", "output_tokens", "candidatesTokenCount")
    if read is None and written is None:
        return None
    # Anthropic counts the tokens of the cache beside the others.
    cached = ("cache_creation_input_tokens", "cache_read_input_tokens")
    total = (read or 0) + sum(_find_count(usage, name) or 0 for name in cached)
    return ExchangeUsage(total, written or 0)


def _find_count(members: dict[str, Any], *names: str) -> int | None:
    return next(
        (count for name in names if (count := as_count(members.get(name))) is not None), None
    )


def _attachment(kind: str, part: dict[str, Any]) -> ChatAttachment:
    """Return what is told of an attachment; its data only by their size."""
    source = part
    for name in ("source", "image_url", "input_audio", "file", "audio"):
        if isinstance(part.get(name), dict):
            source = part[name]
    url = _find_text(source, "url", "uri", "image_url", "file_url", "fileUri", "file_uri")
    data = _find_text(source, "data", "file_data", "content")
    media = _find_text(source, "media_type", "mime_type", "mimeType", "format")
    if url.startswith("data:"):
        head, _, data = url.partition(",")
        media, url = media or head[5:].partition(";")[0], ""
    if data.startswith("data:"):
        media, data = media or data[5:].partition(";")[0], data.partition(",")[2]
    word = _ATTACHMENTS[kind]
    if word == "file" and media.partition("/")[0] in ("image", "audio", "video"):
        word = media.partition("/")[0]
    return ChatAttachment(
        kind=word,
        media_type=media[:100],
        size=len(data) * 3 // 4 - data[-2:].count("="),
        name=(_find_text(source, "filename", "title", "file_id", "name") or url)[:200],
    )
