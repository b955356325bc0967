"""Adapter for a model behind an HTTP API: one HTTP request per call, one outcome per request.

Every failure becomes a `CallReply`, never an exception.  The API key is read anew for each call and
is removed from everything that the call returns or streams.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import msgspec

from forum import engine
from forum.errors import KeyUnreadable
from forum.ledger.body import BytesContent, Content, text_content
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.ledger.secret_mask import SecretMask
from forum.models import provider_http, provider_outcome
from forum.models.prices import Price, bound_of, price_of
from forum.models.rate_limiter import RateLimiter, rate_limiter_for
from forum.models.urls import server_of
from forum.models.wire import Finish, ReplyBuilder, Wire
from forum.work.kinds import Why
from forum.work.policy import Chat, ToolCall


class HttpModel:
    """A model behind an HTTP API, spoken to through one `Wire`."""

    def __init__(self, spec: Chat, wire: Wire, clock: Callable[[], float] = time.monotonic) -> None:
        self._spec, self._wire, self._clock = spec, wire, clock
        self._price: Price = price_of(spec)
        self._rate_limiter: RateLimiter = rate_limiter_for(
            server_of(spec.url), spec.key_env or spec.key_file
        )

    @property
    def name(self) -> str:
        """The model's name, reduced to the characters that names in the ledger may have."""
        return provider_outcome.plain_label(self._spec.model)

    def bound(self, call: engine.ModelCall) -> Amount:
        """Return the upper bound of the cost of a call."""
        return bound_of(self._price, call, self._spec.max_tokens)

    async def reply(self, call: engine.ModelCall) -> engine.CallReply:
        """Send one request, without retries, and return its outcome."""
        began = self._clock()
        try:
            key = read_key(self._spec)
            request = self._request(call, key)
        except KeyUnreadable as error:
            reply = engine.CallReply(
                Outcome.DENIED, why=Why.ERROR, code="no-key", error=text_content(str(error))
            )
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            told = text_content(
                f"this call cannot be written as JSON: {error}; look at its schemas"
            )
            reply = engine.CallReply(Outcome.FAILED, why=Why.ERROR, code="bad-request", error=told)
        else:
            with _redact_stream(key, call) as heard:
                reply = _redact_reply(key, await self._send(heard, request, began))
        spent = round(1000 * (self._clock() - began))
        return replace(reply, milliseconds=spent, prices=self._price.id)

    def _request(self, call: engine.ModelCall, key: str) -> provider_http.HttpRequest:
        body = msgspec.json.encode(self._wire.body(self._spec, call))
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        url = self._spec.url.rstrip("/") + self._wire.path
        return provider_http.HttpRequest(url, headers | self._wire.headers(key), body)

    async def _send(
        self, call: engine.ModelCall, request: provider_http.HttpRequest, began: float
    ) -> engine.CallReply:
        try:
            async with self._rate_limiter.admit(self._spec.at_once, call.seconds) as place:
                # The time spent waiting for the rate limiter
                # counts against the call's own deadline.
                reading = self._wire.read(call)
                left = call.seconds - (self._clock() - began)
                answer = await provider_http.send_request(request, left, reading)
                reply = self._interpret(call, answer, reading.said)
                if reply.why is Why.THROTTLED:
                    self._rate_limiter.report_throttled(place, reply.retry_milliseconds)
                # Only a complete response shows that the provider
                # admits calls; a failed connection does not.
                elif answer.end is provider_http.HttpEnd.DONE or reply.outcome is Outcome.OK:
                    self._rate_limiter.report_success(place)
                return reply
        except TimeoutError:
            told = text_content(
                "the provider wants to be left alone for longer than this call has time"
            )
            return engine.CallReply(Outcome.TIMEOUT, why=Why.DEADLINE, code="gate", error=told)

    def _interpret(
        self, call: engine.ModelCall, answer: provider_http.HttpOutcome, said: ReplyBuilder
    ) -> engine.CallReply:
        if answer.end in (
            provider_http.HttpEnd.REFUSED,
            provider_http.HttpEnd.CONNECT,
            provider_http.HttpEnd.TLS,
        ):
            return provider_outcome.suggest_version(
                self._spec.url, provider_outcome.refused_reply(answer)
            )
        told = provider_outcome.ProviderOutcome(self._price, self.bound(call), call, said)
        # Some servers omit the final end-of-stream event.  A
        # reply with a finish reason is complete even without it.
        ended = (
            answer.end is provider_http.HttpEnd.EARLY
            and answer.status
            and said.finish is not Finish.NONE
        )
        if answer.end is provider_http.HttpEnd.DONE or ended:
            return told.complete_reply()
        return provider_outcome.suggest_version(self._spec.url, told.partial_reply(answer))


# Keys


_MAX_KEY_BYTES: Final = 1 << 16
_MIN_SECRET_CHARS: Final = 16
"""Minimum length of a key that is redacted.

A shorter string is no real secret, and could be an ordinary word in a model's output.
"""


def read_key(spec: Chat) -> str:
    """Return the current key, or "" when the agent names none.  Raises `KeyUnreadable`."""
    where = spec.key_env or spec.key_file
    if not where:
        return ""
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
    veiled = engine.RedactingStream(SecretMask.from_secrets({"key": key.encode()}), call.hear)
    try:
        yield replace(call, hear=veiled)
    finally:
        veiled.flush()


_KEY_PLACEHOLDER: Final = "[key]"


def _redact_content(key: str, content: Content) -> BytesContent:
    return BytesContent(b"".join(content.chunks()).replace(key.encode(), _KEY_PLACEHOLDER.encode()))
