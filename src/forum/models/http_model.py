"""Adapter for a model behind an HTTP API: one HTTP request per call, one outcome per request.

Every failure becomes a `CallReply`, never an exception.  The API key is read anew for each call and
is removed from everything that the call returns or streams.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import msgspec

from forum import engine
from forum.config import SecretRules
from forum.errors import KeyUnreadable
from forum.ledger.body import BytesContent, Content, text_content
from forum.ledger.kinds import Outcome
from forum.ledger.secret_mask import SecretMask
from forum.models import provider_http, provider_outcome
from forum.models.anthropic import AnthropicWire
from forum.models.openai_chat import ChatWire
from forum.models.openai_responses import ResponsesWire
from forum.models.process_environment import OPERATOR
from forum.models.rate_limiter import RateLimiter, rate_limiter_for
from forum.models.urls import server_of
from forum.models.wire import UNREADABLE, Finish, Wire
from forum.runs.kinds import Why
from forum.runs.policy import Api, Chat, ToolCall

_WIRES: Final[dict[Api, type[Wire]]] = {
    Api.CHAT: ChatWire,
    Api.RESPONSES: ResponsesWire,
    Api.ANTHROPIC: AnthropicWire,
}
_NOT_SENT: Final = (
    provider_http.HttpEnd.REFUSED,
    provider_http.HttpEnd.CONNECT,
    provider_http.HttpEnd.TLS,
)


class HttpModel(provider_outcome.PricedModel[Chat]):
    """A model behind an HTTP API, spoken to through the `Wire` of that API."""

    def __init__(self, spec: Chat, rules: SecretRules = OPERATOR) -> None:
        super().__init__(spec)
        self._rules = rules
        self._rate_limiter: RateLimiter = rate_limiter_for(
            server_of(spec.url), spec.key_env or spec.key_file
        )

    async def _call(self, call: engine.ModelCall) -> engine.CallReply:
        began = time.monotonic()
        try:
            key = read_key(self._spec, self._rules)
        except KeyUnreadable as error:
            message = text_content(str(error))
            return engine.CallReply(Outcome.DENIED, why=Why.ERROR, code="no-key", error=message)
        with _redact_stream(key, call) as redacted:
            wire = _WIRES[self._spec.api](self._spec, redacted)
            try:
                request = self._request(wire, key)
            except UNREADABLE as error:
                return provider_outcome.unencodable_reply(error)
            return _redact_reply(key, await self._send(wire, request, began + call.seconds))

    def _request(self, wire: Wire, key: str) -> provider_http.HttpRequest:
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        url = self._spec.url.rstrip("/") + wire.path
        body = msgspec.json.encode(wire.body())
        return provider_http.HttpRequest(url, headers | wire.headers(key), body)

    async def _send(
        self, wire: Wire, request: provider_http.HttpRequest, deadline: float
    ) -> engine.CallReply:
        try:
            async with self._rate_limiter.admit(self._spec.at_once, wire.call.seconds) as place:
                # The time spent waiting for the rate limiter
                # counts against the call's own deadline.
                left = deadline - time.monotonic()
                answer = await provider_http.send_request(request, left, wire)
                reply = self._interpret(wire, answer)
                if reply.why is Why.THROTTLED:
                    self._rate_limiter.report_throttled(place, reply.retry_milliseconds)
                # Only a complete response shows that the provider
                # admits calls; a failed connection does not.
                elif answer.end is provider_http.HttpEnd.DONE or reply.outcome is Outcome.OK:
                    self._rate_limiter.report_success(place)
                return reply
        except TimeoutError:
            message = text_content(
                "the provider limits the rate of calls, and asked for a longer pause than this "
                "call has time"
            )
            return engine.CallReply(Outcome.TIMEOUT, why=Why.DEADLINE, code="gate", error=message)

    def _interpret(self, wire: Wire, answer: provider_http.HttpOutcome) -> engine.CallReply:
        if answer.end in _NOT_SENT:
            return provider_outcome.add_advice(self._spec, provider_outcome.refused_reply(answer))
        call, received = wire.call, wire.reply
        outcome = provider_outcome.ProviderOutcome(self._price, self.bound(call), call, received)
        # Some servers omit the final end-of-stream event.  A
        # reply with a finish reason is complete even without it.
        ended = (
            answer.end is provider_http.HttpEnd.EARLY
            and answer.status
            and received.finish is not Finish.NONE
        )
        if answer.end is provider_http.HttpEnd.DONE or ended:
            return outcome.complete_reply()
        return provider_outcome.add_advice(self._spec, outcome.partial_reply(answer))


_MAX_KEY_BYTES: Final = 1 << 16
_MIN_SECRET_CHARS: Final = 16
"""Minimum length of a key that is redacted.

A shorter string is no real secret, and could be an ordinary word in a model's output.
"""


def read_key(spec: Chat, rules: SecretRules = OPERATOR) -> str:
    """Return the current key, or "" when the agent names none.  Raises `KeyUnreadable`."""
    where = spec.key_env or spec.key_file
    if not where:
        return ""
    for name, refuse in ((spec.key_env, rules.refuse_variable), (spec.key_file, rules.refuse_file)):
        if name and (why := refuse(name)):
            raise KeyUnreadable(name, why)
    key = os.environ.get(spec.key_env, "") if spec.key_env else ""
    if not key and spec.key_file:
        key = _read_key_file(spec.key_file)
    key = key.strip()
    if not key:
        raise KeyUnreadable(where, f"it is empty; {_advice(spec)}")
    # The HTTP library quotes a header value that it rejects,
    # which would put the key into an error message.
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise KeyUnreadable(where, f"it has letters that no key has; {_advice(spec)}")
    return key


def _read_key_file(path: str) -> str:
    try:
        # O_NONBLOCK: if the path is a FIFO, opening it must not wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return (file.read(_MAX_KEY_BYTES) or b"").decode(errors="replace")
    except (OSError, ValueError) as error:
        raise KeyUnreadable(path, str(error)) from None


def _advice(spec: Chat) -> str:
    if spec.key_env:
        return f"set the variable {spec.key_env} where the worker runs"
    return "write the key into this file"


def _redact_reply(key: str, reply: engine.CallReply) -> engine.CallReply:
    """Remove the key from a reply, in case the provider echoes it."""
    if len(key) < _MIN_SECRET_CHARS:
        return reply
    return replace(
        reply,
        output=_redact_content(key, reply.output),
        error=_redact_content(key, reply.error),
        uses=tuple(
            ToolCall(
                use.tool.replace(key, _KEY_PLACEHOLDER),
                use.arguments.replace(key, _KEY_PLACEHOLDER),
            )
            for use in reply.uses
        ),
        model=reply.model.replace(key, _KEY_PLACEHOLDER),
    )


@contextmanager
def _redact_stream(key: str, call: engine.ModelCall) -> Iterator[engine.ModelCall]:
    """Remove the key from streamed deltas as well.

    A key from a file is known only here, so no other filter can redact it.
    """
    if len(key) < _MIN_SECRET_CHARS or call.hear is engine.ignore_delta:
        yield call
        return
    redacting = engine.RedactingStream(SecretMask.from_secrets({"key": key.encode()}), call.hear)
    try:
        yield replace(call, hear=redacting)
    finally:
        redacting.flush()


_KEY_PLACEHOLDER: Final = "[key]"


def _redact_content(key: str, content: Content) -> BytesContent:
    return BytesContent(b"".join(content.chunks()).replace(key.encode(), _KEY_PLACEHOLDER.encode()))
