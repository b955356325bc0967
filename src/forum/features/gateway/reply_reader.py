"""Read from a reply what it cost, and which tools it calls.

A reply passes through unchanged, but for Forum's own keys; these readers see a copy.  A reply that
cannot be read has no usage, and is charged with the whole reservation.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from forum.features.gateway.routes import ApiOperation
from forum.models.prices import BilledTokens
from forum.runs.server_sent_events import ReplyTooLarge, SseParser
from forum.units import to_cost

_MAX_READ_BYTES = 1 << 25
"""Size up to which a reply that is not streamed is read."""
_MIN_SECRET_BYTES = 8
_STANDARD_TIERS = frozenset({"", "auto", "default", "flex", "standard", "batch"})
"""Tiers that cost no more than the table says."""


class _TokenDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    audio_tokens: int | None = None


class _CacheCreation(msgspec.Struct):
    ephemeral_1h_input_tokens: int | None = None


class _ReportedUsage(msgspec.Struct):
    """The usage in any of the forms; each API has members of its own."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _TokenDetails | None = None
    completion_tokens_details: _TokenDetails | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _TokenDetails | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation: _CacheCreation | None = None
    service_tier: str | None = None
    cost: Any = None
    """What the call cost, in dollars, where a provider says so."""
    cost_details: Any = None


class _GeminiUsage(msgspec.Struct, rename="camel"):
    """The usage of Gemini, where a count of 0 is left out."""

    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int = 0
    cached_content_token_count: int = 0
    total_token_count: int | None = None
    prompt_tokens_details: list["_ModalityCount"] = []
    candidates_tokens_details: list["_ModalityCount"] = []
    service_tier: str | None = None


class _ModalityCount(msgspec.Struct, rename="camel"):
    modality: str = ""
    token_count: int = 0


class _FunctionName(msgspec.Struct):
    name: str | None = None


class _ToolCallPart(msgspec.Struct):
    function: _FunctionName | None = None
    custom: _FunctionName | None = None


class _ChatPart(msgspec.Struct):
    tool_calls: list[_ToolCallPart] | None = None


class _ChatChoice(msgspec.Struct):
    delta: _ChatPart | None = None
    message: _ChatPart | None = None


class _OutputItem(msgspec.Struct):
    type: str = ""
    name: str | None = None


class _GeminiPart(msgspec.Struct, rename="camel"):
    function_call: _FunctionName | None = None


class _GeminiContent(msgspec.Struct):
    parts: list[_GeminiPart] = []


class _GeminiCandidate(msgspec.Struct, rename="camel"):
    content: _GeminiContent | None = None
    finish_reason: str | None = None


class _PromptFeedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None


class _ReplyPart(msgspec.Struct):
    """A whole reply, or one event of a stream, of any of the APIs."""

    type: str = ""
    model: str | None = None
    usage: _ReportedUsage | None = None
    choices: list[_ChatChoice] | None = None
    output: list[_OutputItem] | None = None
    content: list[_OutputItem] | msgspec.Raw | None = None
    content_block: _OutputItem | None = None
    message: "_ReplyPart | str | None" = None
    response: "_ReplyPart | None" = None
    service_tier: str | None = None
    error: msgspec.Raw | None = None
    gemini_model: str | None = msgspec.field(default=None, name="modelVersion")
    gemini_usage: _GeminiUsage | None = msgspec.field(default=None, name="usageMetadata")
    candidates: list[_GeminiCandidate] | None = None
    prompt_feedback: _PromptFeedback | None = msgspec.field(default=None, name="promptFeedback")


_decoder = msgspec.json.Decoder(_ReplyPart)
_list_decoder = msgspec.json.Decoder(list[_ReplyPart])
_FINAL_RESPONSES = frozenset({"response.completed", "response.incomplete", "response.failed"})
_TOOL_ITEMS = frozenset({"function_call", "custom_tool_call", "tool_use", "mcp_call"})


class ReplyReader:
    """Reads a reply as it passes: its usage, its tool calls, and whether it reports an error."""

    def __init__(self, operation: ApiOperation, *, streams: bool) -> None:
        self._operation = operation
        self._events = SseParser() if streams else None
        self._body = bytearray()
        self._usage: _ReportedUsage | None = None
        self._is_final = False
        self._has_finish_reason = False
        self._has_output_usage = False
        self._tier = ""
        self.model = ""
        """The model that the reply names last, which is the one that is billed."""
        self.tools: list[str] = []
        self.has_error = False
        self._unreadable = False

    def feed(self, chunk: bytes) -> None:
        """Read the next bytes of the reply."""
        if self._unreadable:
            return
        if self._events is None:
            self._body += chunk
            if len(self._body) > _MAX_READ_BYTES:
                self._unreadable = True
            return
        try:
            for event in self._events.feed(chunk):
                self._read_event(event.data)
        except ReplyTooLarge:
            self._unreadable = True

    def finish(self) -> None:
        """Read what can be read only of a reply that is whole."""
        if self._events is None and not self._unreadable:
            parts = _decode_all(bytes(self._body))
            self._body.clear()
            self._unreadable = parts is None
            for part in parts or ():
                self._read_part(part)
            # Gemini sends a stream as one list of parts to clients that do not ask for events.
            self._is_final = parts is not None and len(parts) == 1
        if self._operation is ApiOperation.GENERATE:
            # Each choice ends by itself, so that none is missing only where the stream ends too.
            self._is_final |= self._has_finish_reason

    @property
    def tokens(self) -> tuple[BilledTokens, int] | None:
        """The billed tokens, and how many were written to the cache for an hour; None if unknown.

        Some providers report 0 for tokens that they did not count.
        """
        return self.seen_tokens if self._is_final and not self._unreadable else None

    @property
    def seen_tokens(self) -> tuple[BilledTokens, int] | None:
        """The tokens that were billed so far, of a reply that may have broken off."""
        usage = self._usage
        if usage is None:
            return None
        if self._operation is ApiOperation.MESSAGES:
            return _anthropic_tokens(usage)
        if self._operation is ApiOperation.RESPONSES:
            return _openai_tokens(
                usage.input_tokens, usage.output_tokens, usage.total_tokens,
                usage.input_tokens_details,
            )  # fmt: skip
        return _openai_tokens(
            usage.prompt_tokens, usage.completion_tokens or 0, usage.total_tokens,
            usage.prompt_tokens_details,
        )  # fmt: skip

    @property
    def stated_usd(self) -> int | None:
        """The cost that the reply states, in nano-dollars; 0 for none, None if unreadable.

        With a key of one's own, the provider behind a router bills its part apart.
        """
        if self._usage is None:
            return 0
        cost, details = self._usage.cost, self._usage.cost_details
        total = cost.get("total_cost", cost) if isinstance(cost, dict) else cost
        upstream = details.get("upstream_inference_cost") if isinstance(details, dict) else None
        stated = [read_dollars(each) for each in (total, upstream)]
        return None if None in stated else max(usd for usd in stated if usd is not None)

    @property
    def has_unpriced_tokens(self) -> bool:
        """Whether the bill has parts that the table does not price: a dear tier, or audio."""
        usage = self._usage
        details = (usage.prompt_tokens_details, usage.completion_tokens_details) if usage else ()
        audio = any(part.audio_tokens for part in details if part is not None)
        return audio or self._tier not in _STANDARD_TIERS

    def _read_event(self, data: bytes) -> None:
        if data == b"[DONE]":
            self._is_final = self._is_final or self._operation is ApiOperation.CHAT
            return
        part = _decode(data)
        if part is None:
            self._unreadable = True
            return
        # Some servers tell in each chunk what was used up to it, so a usage is that of the whole
        # reply only once the stream says that it ends.
        if self._operation is ApiOperation.MESSAGES:
            # The usage at the start of a message does not have its output yet.
            self._has_output_usage |= part.type == "message_delta" and part.usage is not None
            self._is_final |= part.type == "message_stop" and self._has_output_usage
        elif part.type in _FINAL_RESPONSES:
            self._is_final = True
            self._usage = None
        self._read_part(part)

    def _read_part(self, part: _ReplyPart) -> None:
        if part.type == "error" or part.error not in (None, b"null"):
            self.has_error = True
        self._tier = part.service_tier or self._tier
        self.model = part.model or part.gemini_model or self.model
        if part.prompt_feedback is not None:
            self._has_finish_reason |= bool(part.prompt_feedback.block_reason)
        self._has_finish_reason |= any(each.finish_reason for each in part.candidates or ())
        if part.gemini_usage is not None:
            part.usage = _read_gemini_usage(part.gemini_usage)
        for inner in (part.message, part.response):
            if not isinstance(inner, _ReplyPart):
                continue
            if part.type == "response.created":
                # It has no output yet, and the tier that was asked for, not the billed one.
                self.model = inner.model or self.model
            else:
                self._read_part(inner)
        if part.usage is not None:
            self._tier = part.usage.service_tier or self._tier
            self._usage = _merge_usage(self._usage, part.usage)
        self.tools += _tool_names(part)


def _decode(data: bytes) -> _ReplyPart | None:
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _decode_all(data: bytes) -> list[_ReplyPart] | None:
    """Return the parts of a whole reply, which may be a list of them; None if it is unreadable."""
    if data.lstrip()[:1] != b"[":
        part = _decode(data)
        return None if part is None else [part]
    try:
        return _list_decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _read_gemini_usage(usage: _GeminiUsage) -> _ReportedUsage:
    """Return a usage in the form of the others."""
    read = usage.prompt_token_count
    counts = (usage.candidates_token_count, usage.thoughts_token_count)
    written = [count for count in counts if count is not None]
    # What is not text costs more, in the output always and in the input as sound.
    heard = sum(c.token_count for c in usage.prompt_tokens_details if c.modality == "AUDIO")
    shown = sum(c.token_count for c in usage.candidates_tokens_details if c.modality != "TEXT")
    return _ReportedUsage(
        prompt_tokens=None if read is None else read + usage.tool_use_prompt_token_count,
        completion_tokens=sum(written) if written else None,
        total_tokens=usage.total_token_count,
        prompt_tokens_details=_TokenDetails(
            cached_tokens=usage.cached_content_token_count, audio_tokens=heard
        ),
        completion_tokens_details=_TokenDetails(audio_tokens=shown),
        service_tier=usage.service_tier.lower() if usage.service_tier else None,
    )


def _merge_usage(before: _ReportedUsage | None, later: _ReportedUsage) -> _ReportedUsage:
    """Return a usage that takes from the later one what it tells: counts are cumulative."""
    if before is None:
        return later
    for name in later.__struct_fields__:
        if getattr(later, name) is None:
            setattr(later, name, getattr(before, name))
    return later


def _chat_functions(part: _ReplyPart) -> Iterator[_FunctionName | None]:
    for choice in part.choices or ():
        for piece in filter(None, (choice.delta, choice.message)):
            yield from (call.function or call.custom for call in piece.tool_calls or ())


def _gemini_functions(part: _ReplyPart) -> Iterator[_FunctionName | None]:
    for candidate in part.candidates or ():
        if candidate.content is not None:
            yield from (piece.function_call for piece in candidate.content.parts)


def _tool_names(part: _ReplyPart) -> Iterator[str]:
    functions = (*_chat_functions(part), *_gemini_functions(part))
    yield from (function.name for function in functions if function and function.name)
    items: list[_OutputItem] = list(part.output or ())
    if isinstance(part.content, list):
        items += part.content
    if part.content_block is not None:
        items.append(part.content_block)
    yield from (item.name for item in items if item.type in _TOOL_ITEMS and item.name)


def _openai_tokens(
    read: int | None, written: int | None, total: int | None, details: _TokenDetails | None
) -> tuple[BilledTokens, int] | None:
    if read is None or written is None or not (read or written) or min(read, written) < 0:
        return None
    # Some servers leave the tokens of the reasoning out of the output, but not out of the total.
    written = max(written, (total or 0) - read)
    cached = max(0, (details.cached_tokens or 0) if details else 0)
    stored = max(0, (details.cache_write_tokens or 0) if details else 0)
    return BilledTokens(read, written, cached, stored), 0


def _anthropic_tokens(usage: _ReportedUsage) -> tuple[BilledTokens, int] | None:
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    stored = usage.cache_creation_input_tokens or 0
    cached = usage.cache_read_input_tokens or 0
    creation = usage.cache_creation
    hour = (creation.ephemeral_1h_input_tokens or 0) if creation else 0
    counts = (usage.input_tokens, usage.output_tokens, stored, cached, hour)
    if min(counts) < 0 or not any(counts):
        return None
    total = usage.input_tokens + stored + cached
    return BilledTokens(total, usage.output_tokens, cached, stored), hour


_NULL_USAGE = re.compile(rb',\s*"usage"\s*:\s*null|"usage"\s*:\s*null\s*,')
_EVENT_END = re.compile(rb"\r?\n\r?\n")


class UsageHider:
    """Removes from a stream the usage that the gateway asked for and the client did not.

    The provider answers `include_usage` with one more chunk, and with a null in each other one.
    Both are removed; every other byte stays, and every event passes as soon as it is complete.
    """

    def __init__(self) -> None:
        self._rest = b""

    def pass_on(self, chunk: bytes) -> bytes:
        """Return the complete events, without the hidden parts."""
        data, passed = self._rest + chunk, bytearray()
        start = 0
        for end in _EVENT_END.finditer(data):
            passed += _hide_usage(data[start : end.end()])
            start = end.end()
        self._rest = data[start:]
        return bytes(passed)

    def finish(self) -> bytes:
        """Return what follows the last complete event."""
        rest, self._rest = self._rest, b""
        return rest


def _hide_usage(event: bytes) -> bytes:
    if b'"usage"' not in event or not event.startswith(b"data:"):
        return event
    try:
        members: dict[str, Any] = msgspec.json.decode(
            event[len(b"data:") :], type=dict[str, msgspec.Raw]
        )
    except msgspec.MsgspecError:
        return event
    usage = bytes(members.get("usage", b"null"))
    if usage == b"null":
        return _NULL_USAGE.sub(b"", event) if len(_NULL_USAGE.findall(event)) == 1 else event
    # The chunk that tells the usage has no choices.
    if bytes(members.get("choices", b"")).strip(b"[] \t\r\n") == b"" and "choices" in members:
        return b""
    return event


def read_dollars(stated: object) -> int | None:
    """Return an amount that a provider states, in nano-dollars, rounded up.

    It is 0 if none is stated, and None if it is no amount.
    """
    if stated is None or stated == "":
        return 0
    try:
        return to_cost(stated)
    except ValueError:
        return None


class SecretHider:
    """Removes Forum's own keys from a reply: a provider may echo what it was sent.

    Each character of a key may be written as an escape of JSON, also of JSON within a string of
    JSON.  A key may stand across the border of two chunks.  So the end of a chunk is held back
    while it is the beginning of a key, and only then.  What is removed is replaced by as many other
    bytes.
    """

    def __init__(self, secrets: Iterable[bytes]) -> None:
        self._secrets = [_SpelledSecret(s) for s in secrets if len(s) >= _MIN_SECRET_BYTES]
        self._rest = b""

    def pass_on(self, chunk: bytes) -> bytes:
        """Return what can be passed on, without the keys."""
        data = self.hide(self._rest + chunk)
        held = max((secret.begun_length(data) for secret in self._secrets), default=0)
        self._rest = data[len(data) - held :]
        return data[: len(data) - held]

    def finish(self) -> bytes:
        """Return what was held back."""
        rest, self._rest = self._rest, b""
        return rest

    def hide(self, data: bytes) -> bytes:
        """Return data as a whole, without the keys."""
        for secret in self._secrets:
            data = secret.hide(data)
        return data


_MAX_BACKSLASHES = 8
"""Backslashes before an escape: JSON in a string of JSON doubles them."""
_ESCAPE_BYTES = _MAX_BACKSLASHES + len("u0041")
_BEGUN_ESCAPE = re.compile(rb"\\{1,%d}(?:u0{0,2})?" % _MAX_BACKSLASHES)


class _SpelledSecret:
    """A key, and the ways in which JSON may write it."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._spellings = [re.compile(_spell(byte)) for byte in secret]
        self._whole = re.compile(b"".join(map(_spell, secret)))
        self._start = re.compile(b"[%s\\\\]" % re.escape(secret[:1]))

    def hide(self, data: bytes) -> bytes:
        """Return data without the key."""
        data = data.replace(self._secret, b"*" * len(self._secret))
        if b"\\" not in data:
            return data
        return self._whole.sub(lambda match: b"*" * len(match[0]), data)

    def begun_length(self, data: bytes) -> int:
        """Return how many of the last bytes are the beginning of the key."""
        last = max(0, len(data) - len(self._secret) * _ESCAPE_BYTES)
        starts = (match.start() for match in self._start.finditer(data, last))
        return next((len(data) - at for at in starts if self._begins(data, at)), 0)

    def _begins(self, data: bytes, at: int) -> bool:
        for byte, spelling in zip(self._secret, self._spellings, strict=True):
            if at == len(data):
                return True
            match = spelling.match(data, at)
            if match is None:
                return _is_begun_escape(data[at:], byte)
            at = match.end()
        return False


def _spell(byte: int) -> bytes:
    """Return a pattern of all ways to write a byte of a key, which is ASCII."""
    plain, code = re.escape(bytes([byte])), b"%02x" % byte
    short = rb"\\{0,%d}" % _MAX_BACKSLASHES if byte in b"/" else b""
    return rb"(?:\\{1,%d}u00(?i:%s)|%s%s)" % (_MAX_BACKSLASHES, code, short, plain)


def _is_begun_escape(data: bytes, byte: int) -> bool:
    """Return whether data is an escape of a byte as far as it goes."""
    match = _BEGUN_ESCAPE.match(data)
    if match is None:
        return False
    rest = data[match.end() :].lower()
    return not rest or (match[0].endswith(b"u00") and rest == b"%x" % (byte >> 4))


def count_names(names: Iterable[str]) -> dict[str, int]:
    """Return how often each name occurs."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return counts
