"""A model behind an HTTP API: one request for each call, and an outcome for all that comes of it.

Its key is read for each call, and is in nothing that comes of it.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import msgspec

from forum.engine import Call, Reply, Veiled, nobody
from forum.errors import KeyUnreadable
from forum.ledger import Amount, Bytes, Content, Mask, Outcome, text
from forum.models.address import server_of
from forum.models.http import Answer, End, Post, post
from forum.models.prices import Price, bound_of, price_of
from forum.models.rategate import Gate, gate_of
from forum.models.verdict import Told, label, refusal, suggest_version
from forum.models.wire import Finish, Said, Wire
from forum.work import Chat, Use, Why


class RemoteModel:
    """An agent that is a model behind an HTTP API."""

    def __init__(self, spec: Chat, wire: Wire, clock: Callable[[], float] = time.monotonic) -> None:
        self._spec, self._wire, self._clock = spec, wire, clock
        self._price: Price = price_of(spec)
        self._gate: Gate = gate_of(server_of(spec.url), spec.key_env or spec.key_file)

    @property
    def name(self) -> str:
        """The model's name, as plain as the record wants names to be."""
        return label(self._spec.model)

    def bound(self, call: Call) -> Amount:
        """Return the most that a call can cost."""
        return bound_of(self._price, call, self._spec.max_tokens)

    async def reply(self, call: Call) -> Reply:
        """Make the call, once."""
        began = self._clock()
        try:
            key = read_key(self._spec)
            request = self._request(call, key)
        except KeyUnreadable as error:
            reply = Reply(Outcome.DENIED, why=Why.ERROR, code="no-key", error=text(str(error)))
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            told = text(f"this call cannot be written as JSON: {error}; look at its schemas")
            reply = Reply(Outcome.FAILED, why=Why.ERROR, code="bad-request", error=told)
        else:
            with _unheard(key, call) as heard:
                reply = _without(key, await self._send(heard, request, began))
        spent = round(1000 * (self._clock() - began))
        return replace(reply, milliseconds=spent, prices=self._price.id)

    def _request(self, call: Call, key: str) -> Post:
        body = msgspec.json.encode(self._wire.body(self._spec, call))
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        url = self._spec.url.rstrip("/") + self._wire.path
        return Post(url, headers | self._wire.headers(key), body)

    async def _send(self, call: Call, request: Post, began: float) -> Reply:
        try:
            async with self._gate.place(self._spec.at_once, call.seconds) as place:
                reading = self._wire.read(call)
                left = call.seconds - (self._clock() - began)
                answer = await post(request, left, reading)
                reply = self._verdict(call, answer, reading.said)
                if reply.why is Why.THROTTLED:
                    self._gate.refused(place, reply.retry_milliseconds)
                elif answer.end is End.DONE or reply.outcome is Outcome.OK:
                    self._gate.answered(place)
                return reply
        except TimeoutError:
            told = text("the provider wants to be left alone for longer than this call has time")
            return Reply(Outcome.TIMEOUT, why=Why.DEADLINE, code="gate", error=told)

    def _verdict(self, call: Call, answer: Answer, said: Said) -> Reply:
        if answer.end in (End.REFUSED, End.CONNECT, End.TLS):
            return suggest_version(self._spec.url, refusal(answer))
        told = Told(self._price, self.bound(call), call, said)
        # Some servers forget the last mark.  All was said by one who has said why it stopped.
        ended = answer.end is End.EARLY and answer.status and said.finish is not Finish.NONE
        if answer.end is End.DONE or ended:
            return told.whole()
        return suggest_version(self._spec.url, told.part(answer))


# Keys and names


_MOST_KEY: Final = 1 << 16
_SECRET: Final = 16
"""A key shorter than this is no secret, and too likely to be a word that a model says."""


def read_key(spec: Chat) -> str:
    """Return the key as it is now, or nothing where none is named.  Raises `KeyUnreadable`."""
    where = spec.key_env or spec.key_file
    if not where:
        return ""
    key = os.environ.get(spec.key_env, "") if spec.key_env else ""
    if not key and spec.key_file:
        key = _key_in(spec.key_file)
    key = key.strip()
    if not key:
        raise KeyUnreadable(where, f"it is empty; {_advice(spec)}")
    # Whoever builds the request would quote what it does not like.
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise KeyUnreadable(where, f"it has letters that no key has; {_advice(spec)}")
    return key


def _key_in(path: str) -> str:
    try:
        # Not to wait for somebody who writes into a pipe of this name.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return (file.read(_MOST_KEY) or b"").decode(errors="replace")
    except (OSError, ValueError) as error:
        raise KeyUnreadable(path, str(error)) from None


def _advice(spec: Chat) -> str:
    if spec.key_env:
        return f"set the variable {spec.key_env} where the worker runs"
    return "write the key into this file"


def _without(key: str, reply: Reply) -> Reply:
    """Take the key out of a reply, in case that the provider repeats it."""
    if len(key) < _SECRET:
        return reply
    return replace(
        reply,
        output=_hide(key, reply.output),
        error=_hide(key, reply.error),
        uses=tuple(
            Use(use.tool.replace(key, _HIDDEN), use.arguments.replace(key, _HIDDEN))
            for use in reply.uses
        ),
        model=reply.model.replace(key, _HIDDEN),
    )


@contextmanager
def _unheard(key: str, call: Call) -> Iterator[Call]:
    """Take the key out of what is heard of a call, too: one from a file is known only here."""
    if len(key) < _SECRET or call.hear is nobody:
        yield call
        return
    veiled = Veiled(Mask.of({"key": key.encode()}), call.hear)
    try:
        yield replace(call, hear=veiled)
    finally:
        veiled.end()


_HIDDEN: Final = "[key]"


def _hide(key: str, content: Content) -> Bytes:
    return Bytes(b"".join(content.chunks()).replace(key.encode(), _HIDDEN.encode()))
