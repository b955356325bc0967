"""OpenAI's responses API."""

from typing import Any

import msgspec

from forum.engine import Call, Hear
from forum.models.http import Event
from forum.models.prices import Tokens
from forum.models.wire import (
    ANSWER,
    Asked,
    Finish,
    Said,
    bearer,
    count,
    is_strict,
    merge,
    schema_of,
    system_of,
    turns_of,
    words,
)
from forum.work import OURS, Chat, Who

_KEEP_NOTHING = {"store": False}
_INCOMPLETE = {"max_output_tokens": Finish.LENGTH, "content_filter": Finish.REFUSED}


class ResponsesWire:
    """How the responses API is spoken."""

    path = "/responses"

    def headers(self, key: str) -> dict[str, str]:
        """Return what says who we are."""
        return bearer(key)

    def body(self, spec: Chat, call: Call) -> dict[str, Any]:
        """Return the request in this API's words."""
        own: dict[str, Any] = {
            "model": spec.model,
            "input": _items(call),
            "stream": True,
            "max_output_tokens": spec.max_tokens,
        }
        if system := system_of(turns_of(call)):
            own["instructions"] = system
        if call.offers:
            forms = [(offer, schema_of(offer.schema)) for offer in call.offers]
            own["tools"] = [
                {
                    "type": "function",
                    "name": offer.name,
                    "description": offer.description,
                    "parameters": form,
                    "strict": is_strict(form),
                }
                for offer, form in forms
            ]
        if call.schema:
            form = schema_of(call.schema)
            named = {"name": ANSWER, "schema": form, "strict": is_strict(form)}
            own["text"] = {"format": {"type": "json_schema", **named}}
        return merge(_KEEP_NOTHING | spec.options, own, OURS)

    def read(self, call: Call) -> "_Reading":
        """Return what will read the answer."""
        return _Reading(call.hear)


def _items(call: Call) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    asked = Asked(call.offers)
    for number, turn in enumerate(turns_of(call)):
        match turn.who:
            case Who.SYSTEM:
                continue
            case Who.AGENT:
                if turn.text:
                    items.append({"role": "assistant", "content": words(turn)})
                ids = asked.ids(number, turn.uses)
                items.extend(
                    {
                        "type": "function_call",
                        "call_id": name,
                        "name": use.tool,
                        "arguments": msgspec.json.encode(asked.arguments(use)).decode(),
                    }
                    for name, use in zip(ids, turn.uses, strict=True)
                )
            case Who.TOOL if (name := asked.id_of(turn.use)) is not None:
                output = {"type": "function_call_output", "call_id": name, "output": words(turn)}
                items.append(output)
            case Who.USER | Who.TOOL:
                items.append({"role": "user", "content": words(turn)})
    return items


class _Part(msgspec.Struct):
    type: str = ""
    text: str = ""
    refusal: str = ""


class _Item(msgspec.Struct):
    type: str = ""
    name: str = ""
    arguments: str = ""
    content: list[_Part] | None = None
    """What was said, where it is not streamed."""


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    model: str = ""
    usage: msgspec.Raw = msgspec.Raw(b"null")
    error: msgspec.Raw = msgspec.Raw(b"null")
    incomplete_details: _Incomplete | None = None
    object: str = ""
    status: str = ""
    output: list[_Item] = []


class _Event(msgspec.Struct):
    type: str = ""
    delta: msgspec.Raw = msgspec.Raw(b"null")
    """Text, where its kind says so."""
    item: _Item | None = None
    response: _Response | None = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = 0


class _Usage(msgspec.Struct):
    input_tokens: int
    output_tokens: int
    input_tokens_details: _Details | None = None


# Made once, here: two threads that let msgspec take in a type at the same time crash the process.
_event = msgspec.json.Decoder(_Event)
_response = msgspec.json.Decoder(_Response)
_text = msgspec.json.Decoder(str)
_usage = msgspec.json.Decoder(_Usage)


class _Reading:
    """An answer that is coming in."""

    def __init__(self, hear: Hear) -> None:
        self.said = Said(hear)
        self._refused = False

    def take(self, event: Event) -> bool:
        """Take in an event, and tell whether it was the last one."""
        told = _event.decode(event.data)
        match told.type or event.name:
            case "response.output_text.delta":
                self.said.add(_text.decode(told.delta))
            case "response.refusal.delta":
                self.said.add(_text.decode(told.delta))
                self._refused = True
            case "response.output_item.done" if told.item:
                self._use(told.item)
            case "response.completed":
                return self._end(told.response, Finish.COMPLETE)
            case "response.incomplete":
                return self._end(told.response, Finish.FAILED)
            case "response.failed":
                self.said.fail(Finish.FAILED, bytes(told.response.error) if told.response else b"")
                return True
            case "error":
                self.said.fail(Finish.FAILED, event.data)
                return True
            case _:
                pass  # the beginnings and ends of parts, and whatever comes to be
        return False

    def take_whole(self, body: bytes) -> bool:
        """Take in an answer that came in one piece: a `response`."""
        response = _response.decode(body)
        if bytes(response.error) != b"null":
            self.said.fail(Finish.FAILED, bytes(response.error))
            return True
        if response.object != "response" or response.status not in ("completed", "incomplete"):
            return False
        for item in response.output:
            for part in item.content or () if item.type == "message" else ():
                self.said.add(part.refusal or part.text)
                self._refused = self._refused or part.type == "refusal"
            self._use(item)
        ended = Finish.COMPLETE if response.status == "completed" else Finish.FAILED
        return self._end(response, ended)

    def _use(self, item: _Item) -> None:
        if item.type == "function_call":
            self.said.wish(len(self.said.wishes), item.name, item.arguments)

    def _end(self, response: _Response | None, finish: Finish) -> bool:
        if response is not None:
            details = response.incomplete_details
            finish = _INCOMPLETE.get(details.reason or "", finish) if details else finish
            self.said.model = response.model
            self.said.tokens = _tokens(bytes(response.usage))
        self.said.finish = Finish.REFUSED if self._refused else finish
        return True


def _tokens(usage: bytes) -> Tokens | None:
    """Read how much was used; what cannot be true was not said."""
    try:
        told = _usage.decode(usage)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    cached = (told.input_tokens_details.cached_tokens or 0) if told.input_tokens_details else 0
    if not count(told.input_tokens, told.output_tokens) or not count(cached):
        return None
    return Tokens(told.input_tokens, told.output_tokens, cached)
