"""Read a request to Gemini's API just far enough to bound its price.

The bound rests on the same facts as in `request_reader`.  Gemini's servers take each name in two
spellings, `maxOutputTokens` and `max_output_tokens`, and its clients mix them.  So members are
compared in the first spelling, and a request with both is refused.  Of each object that is not the
program's own text all members are listed here; any other one is named, so that it can be refused.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from forum.features.gateway.composed_body import ComposedBody, refuse_body
from forum.features.gateway.request_reader import (
    CALL_OVERHEAD,
    EXTRA_BILLED_MODELS,
    FORM_OVERHEAD,
    MAX_IMAGE_TOKENS,
    TOOL_OVERHEAD,
    ReadRequest,
    count_text_bytes,
    read_choices,
    read_limit,
    refuse_unbounded,
)
from forum.features.gateway.routes import ApiOperation, ApiRoute
from forum.runs.strict_json import MAX_NAME_CHARS, show_name

_UNDERSCORE: Final = re.compile(r"(?<=[A-Za-z0-9])_([a-z0-9])")
_SETTINGS: Final = "generationConfig"

_CONTENT_MEMBERS: Final = frozenset({"parts", "role"})
_PART_MEMBERS: Final = frozenset(
    {
        "codeExecutionResult", "executableCode", "functionCall", "functionResponse", "inlineData",
        "mediaResolution", "text", "thought", "thoughtSignature",
    }
)  # fmt: skip
"""Parts whose tokens are at most their bytes, and images."""
_RESULT_MEMBERS: Final = frozenset({"id", "name", "parts", "response", "scheduling"})
_DATA_MEMBERS: Final = frozenset({"data", "displayName", "mimeType"})
_TOOL_MEMBERS: Final = frozenset({"functionDeclarations"})
"""The tools that run in the client.  All others run at the provider, which bills them apart, or
adds what they return to the input."""
_FUNCTION_MEMBERS: Final = frozenset(
    {
        "behavior", "description", "name", "parameters", "parametersJsonSchema", "response",
        "responseJsonSchema",
    }
)  # fmt: skip
_CHOICE_MEMBERS: Final = frozenset({"functionCallingConfig", "includeServerSideToolInvocations"})
_SETTING_MEMBERS: Final = frozenset(
    {
        "candidateCount", "frequencyPenalty", "logprobs", "maxOutputTokens", "mediaResolution",
        "presencePenalty", "responseJsonSchema", "_responseJsonSchema", "responseLogprobs",
        "responseMimeType", "responseSchema", "seed", "stopSequences", "temperature",
        "thinkingConfig", "topK", "topP",
    }
)  # fmt: skip
_SCHEMAS: Final = frozenset({"_responseJsonSchema", "responseJsonSchema", "responseSchema"})
_THINKING_MEMBERS: Final = frozenset({"includeThoughts", "thinkingBudget", "thinkingLevel"})
_REQUEST_MEMBERS: Final = frozenset(
    {
        "contents", "generationConfig", "model", "safetySettings", "systemInstruction",
        "toolConfig", "tools",
    }
)  # fmt: skip
_EMBEDDING_MEMBERS: Final = frozenset(
    {"content", "model", "outputDimensionality", "taskType", "title"}
)
_HARMLESS_VALUES: Final[Mapping[str, tuple[object, ...]]] = {
    "responseModalities": (["TEXT"], []),
    "serviceTier": ("standard",),
}
_MAX_PART_DEPTH: Final = 2
"""How deep parts are inside of each other: the result of a function has parts."""


def spell_members(composed: ComposedBody) -> ComposedBody:
    """Return a request with the names of its own members, and of its settings, in one spelling.

    So a limit is set where it counts.  Raises `CallRefused` for a member in both spellings.
    """
    if not isinstance(composed.value, dict):
        return composed
    data, value = composed.data, _fold(composed.value)
    if value.keys() != composed.value.keys():
        data = _spell(data)
    settings = value.get(_SETTINGS)
    if isinstance(settings, dict) and (folded := _fold(settings)).keys() != settings.keys():
        members = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        spelled = msgspec.Raw(_spell(bytes(members[_SETTINGS])))
        data = msgspec.json.encode({**members, _SETTINGS: spelled})
        value = {**value, _SETTINGS: folded}
    return ComposedBody(data, value)


def bound_gemini_request(route: ApiRoute, composed: ComposedBody) -> ReadRequest:
    """Return what bounds the price of a request.  Raises `CallRefused` if nothing does."""
    request = composed.value
    if not isinstance(request, dict):
        raise refuse_unbounded("it is no JSON object")
    if len(route.model) > MAX_NAME_CHARS:
        raise refuse_body(f"the name of its model is longer than {MAX_NAME_CHARS}")
    parts = _ContentCounter(route.model)
    if route.operation is ApiOperation.EMBED_CONTENT:
        parts.count_embeddings(request)
        settings: Mapping[str, Any] = {}
    else:
        settings = parts.count_request(request)
    if EXTRA_BILLED_MODELS.search(route.model):
        parts.unpriced.append(route.model)
    overhead = CALL_OVERHEAD + TOOL_OVERHEAD * parts.tools
    overhead += FORM_OVERHEAD * bool(parts.tools or _SCHEMAS & settings.keys())
    images = parts.images * MAX_IMAGE_TOKENS - parts.image_bytes
    return ReadRequest(
        model=route.model,
        input_tokens=count_text_bytes(composed) + images + overhead,
        output_limit=_read_output_limit(settings),
        thinking_tokens=_read_thinking(settings),
        choices=read_choices(settings, "candidateCount"),
        streams=route.path.endswith(":streamGenerateContent"),
        unpriced=tuple(dict.fromkeys(map(show_name, parts.unpriced))),
        body=composed.data,
    )


def _read_output_limit(settings: Mapping[str, Any]) -> int | None:
    limit = read_limit(settings, "maxOutputTokens")
    if limit == 0:
        raise refuse_unbounded("an output limit is 0; set at least 1")
    return None if limit is None else max(limit, _read_thinking(settings))


def _read_thinking(settings: Mapping[str, Any]) -> int:
    thinking = settings.get("thinkingConfig")
    folded = _fold(thinking) if isinstance(thinking, dict) else {}
    if folded.get("thinkingBudget") == -1:  # leaves it to the model, within the limit
        return 0
    return read_limit(folded, "thinkingBudget") or 0


@dataclass(slots=True)
class _ContentCounter:
    """Counts the parts of a request that are not text, and names what it does not know."""

    model: str
    unpriced: list[str] = field(default_factory=list)
    images: int = 0
    image_bytes: int = 0
    """Bytes of images in the request, which are not billed as text."""
    tools: int = 0

    def count_request(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Count the parts of a request, and return its settings."""
        request = self._check(request, _REQUEST_MEMBERS)
        self._check_model(request)
        for name in ("contents", "systemInstruction"):
            for content in _objects(request.get(name)):
                self._count_content(content)
        self._count_tools(request)
        settings = request.get(_SETTINGS, {})
        if not isinstance(settings, dict | None):
            raise refuse_unbounded(f"{_SETTINGS} is no object")
        settings = self._check(settings or {}, _SETTING_MEMBERS)
        for thinking in _objects(settings.get("thinkingConfig")):
            self._check(thinking, _THINKING_MEMBERS)
        return settings

    def _count_tools(self, request: Mapping[str, Any]) -> None:
        for tool in _objects(request.get("tools")):
            members = self._check(tool, _TOOL_MEMBERS)
            for function in _objects(members.get("functionDeclarations")):
                self._check(function, _FUNCTION_MEMBERS)
                self.tools += 1
        for choice in _objects(request.get("toolConfig")):
            self._check(choice, _CHOICE_MEMBERS)

    def count_embeddings(self, request: Mapping[str, Any]) -> None:
        """Count the parts of one request for vectors, or of several in one."""
        batch = request.get("requests")
        if batch is not None:
            self._check(request, frozenset({"requests"}))
        for each in [request] if batch is None else _objects(batch):
            members = self._check(each, _EMBEDDING_MEMBERS)
            self._check_model(members)
            for content in _objects(members.get("content")):
                self._count_content(content)

    def _check(self, members: Mapping[str, Any], accepted: frozenset[str]) -> Mapping[str, Any]:
        """Return an object in one spelling, and name the members that are not known."""
        folded = _fold(members)
        for name in sorted(folded.keys() - accepted):
            value = folded[name]
            if value is not None and value not in _HARMLESS_VALUES.get(name, ()):
                self.unpriced.append(name)
        return folded

    def _check_model(self, members: Mapping[str, Any]) -> None:
        """Refuse a body that names another model than the path."""
        if members.get("model") not in (None, self.model, f"models/{self.model}"):
            raise refuse_unbounded("its body names another model than its path")

    def _count_content(self, content: Mapping[str, Any]) -> None:
        members = self._check(content, _CONTENT_MEMBERS)
        self._count_parts(members.get("parts"), 1)

    def _count_parts(self, parts: object, depth: int) -> None:
        if depth > _MAX_PART_DEPTH:
            raise refuse_unbounded("its parts are too deep inside of each other")
        for part in _objects(parts):
            members = self._check(part, _PART_MEMBERS)
            for data in _objects(members.get("inlineData")):
                self._count_data(data)
            for result in _objects(members.get("functionResponse")):
                self._count_parts(self._check(result, _RESULT_MEMBERS).get("parts"), depth + 1)

    def _count_data(self, data: Mapping[str, Any]) -> None:
        members = self._check(data, _DATA_MEMBERS)
        media, content = members.get("mimeType"), members.get("data")
        kind = media.partition("/")[0].lower() if isinstance(media, str) else ""
        if kind == "image" and isinstance(content, str):
            self.images += 1
            self.image_bytes += len(content)
        else:
            self.unpriced.append("audio" if kind == "audio" else "files")


def _objects(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list, or the one that stands in its place.

    Raises `CallRefused` for any other value.
    """
    values = value if isinstance(value, list) else [] if value is None else [value]
    for each in values:
        if not isinstance(each, dict):
            raise refuse_unbounded("a part of it that should be an object is none")
        yield each


def _fold(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with its names in one spelling.  Raises `CallRefused` for a twin."""
    folded = {_spell_name(name): value for name, value in members.items()}
    if len(folded) != len(members):
        raise refuse_body("it has a member in two spellings, such as topP and top_p")
    return folded


def _spell(data: bytes) -> bytes:
    """Return an object with its own names in one spelling, and every value unchanged."""
    members = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({_spell_name(name): value for name, value in members.items()})


def _spell_name(name: str) -> str:
    return _UNDERSCORE.sub(lambda match: match[1].upper(), name)
