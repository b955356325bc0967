"""Common parts of models with a price: translate responses into recorded outcomes and costs.

A call that may have been billed is charged: if the provider reports no usage, the whole reserved
amount counts as spent.
"""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final, Generic, TypeVar

import msgspec

from forum import engine
from forum.ledger.body import BytesContent, text_content
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.models.names import plain_name
from forum.models.prices import BilledTokens, Price, bound_of, price_of
from forum.models.provider_http import HttpEnd, HttpOutcome
from forum.models.urls import address_of, is_loopback, path_of
from forum.models.wire import Finish, ReplyBuilder, tool_calls_of
from forum.runs.kinds import Why, sanitize_name
from forum.runs.policy import Chat, Library

# 529 is Anthropic's status for an overloaded API.
_THROTTLED_STATUSES: Final = frozenset({429, 503, 529})
_TRANSIENT_STATUSES: Final = frozenset({408, 409, 421, 423, 425})
"""Client errors that may not recur when the same request is repeated."""
_PERMANENT_STATUSES: Final = frozenset({501, 505})
CONTEXT_CODE = "context-length"
"""The code of a call whose prompt passes the context of its model."""
_SIZE_STATUSES: Final = frozenset({400, 413, 422})
_CONTEXT_ERROR = re.compile(
    rb"context[_ -]?(?:length|window|size)|prompt is too long|too many (?:input )?tokens"
    rb"|input token count .{0,40}exceeds",
    re.IGNORECASE,
)
"""How OpenAI, Anthropic, Gemini, vLLM, llama.cpp and Ollama say so."""
_VERSIONED = re.compile(r"/v\d")
_Spec = TypeVar("_Spec", Chat, Library)


class PricedModel(ABC, Generic[_Spec]):
    """A model that bills tokens; its subclasses make the calls."""

    def __init__(self, spec: _Spec) -> None:
        self._spec: _Spec = spec
        self._price: Price = price_of(spec)

    @property
    def name(self) -> str:
        """The model's name, reduced to the characters that names in the ledger may have."""
        return plain_name(self._spec.model) or "model"

    def bound(self, call: engine.ModelCall) -> Amount:
        """Return the upper bound of the cost of a call."""
        return bound_of(self._price, call, self._spec.max_tokens)

    async def reply(self, call: engine.ModelCall) -> engine.CallReply:
        """Make the call once, without retries, and return its outcome."""
        began = monotonic()
        reply = await self._call(call)
        spent = round(1000 * (monotonic() - began))
        return replace(reply, milliseconds=spent, prices=self._price.id)

    @abstractmethod
    async def _call(self, call: engine.ModelCall) -> engine.CallReply:
        """Make the call; its duration and price table are added to the reply."""


@dataclass(frozen=True, slots=True)
class ProviderOutcome:
    """A model's reply and the basis for computing its cost."""

    price: Price
    bound: Amount
    call: engine.ModelCall
    received: ReplyBuilder

    def partial_reply(self, answer: HttpOutcome) -> engine.CallReply:
        """Return the reply for an incomplete response, charged with the whole reserved amount."""
        reply = self._reply(Outcome.FAILED, Why.CUT)
        error = BytesContent(answer.error) if answer.error else engine.EMPTY_CONTENT
        reply = replace(reply, uses=(), spent=self.bound, input_tokens=0, error=error)
        match answer.end:
            case HttpEnd.LATE:
                return replace(reply, outcome=Outcome.TIMEOUT, why=Why.DEADLINE)
            case HttpEnd.OVERSIZE:
                return replace(reply, why=Why.OVERSIZE)
            case HttpEnd.MALFORMED:
                return replace(reply, why=Why.ERROR, code="malformed")
            case _:
                return reply

    def complete_reply(self) -> engine.CallReply:
        """Return the reply for a complete response."""
        match self.received.finish:
            case Finish.FAILED:
                return self._reply(Outcome.FAILED, Why.ERROR, "provider")
            case Finish.OVERLOADED:
                return self._reply(Outcome.FAILED, Why.THROTTLED, "overloaded")
            case Finish.REFUSED:
                return self._reply(Outcome.DENIED, Why.ERROR, "refused")
            # Truncated JSON or tool arguments are useless; truncated text may still be of use.
            case Finish.LENGTH if (
                self.call.schema or self.received.tool_calls or not self.received.text
            ):
                return replace(self._reply(Outcome.FAILED, Why.CUT, "length"), uses=())
            case Finish.LENGTH:
                return self._reply(Outcome.OK, code="length")
            case Finish.NONE | Finish.COMPLETE:
                code = "" if self._tokens else "no-usage"
                return self._reply(Outcome.OK, code=code)

    @property
    def _tokens(self) -> BilledTokens | None:
        """The reported usage, or None.

        Some providers report 0 for tokens that they did not count.
        """
        tokens = self.received.tokens
        return tokens if tokens and (tokens.input or tokens.output) else None

    def _reply(self, outcome: Outcome, why: Why = Why.NONE, code: str = "") -> engine.CallReply:
        tokens = self._tokens
        usd = self.price.cost(tokens) if tokens else 0
        return engine.CallReply(
            outcome,
            text_content(self.received.text),
            Amount(usd, tokens.input + tokens.output, 1) if tokens else self.bound,
            uses=tool_calls_of(self.received, self.call.offers) if outcome is Outcome.OK else (),
            why=why,
            code=code,
            error=BytesContent(self.received.error)
            if self.received.error
            else engine.EMPTY_CONTENT,
            input_tokens=tokens.input if tokens else 0,
            model=sanitize_name(self.received.model),
        )


def refused_reply(answer: HttpOutcome) -> engine.CallReply:
    """Return the reply for a request that was not sent or was refused: nothing is charged."""
    code = f"http {answer.status}" if answer.end is HttpEnd.REFUSED else answer.end.value
    error = BytesContent(answer.error)
    reply = engine.CallReply(
        Outcome.FAILED, spent=engine.NO_COST, why=Why.ERROR, code=code, error=error
    )
    if answer.status in _THROTTLED_STATUSES:
        return replace(reply, why=Why.THROTTLED, retry_milliseconds=answer.pause)
    if answer.status in _SIZE_STATUSES and _CONTEXT_ERROR.search(answer.error):
        return replace(reply, outcome=Outcome.DENIED, code=CONTEXT_CODE)
    if _is_permanent(answer.status):
        return replace(reply, outcome=Outcome.DENIED)
    return reply


def _is_permanent(status: int) -> bool:
    """Return whether the same request would be refused again; it is denied and not retried."""
    return status in _PERMANENT_STATUSES or (
        300 <= status < 500 and status not in _TRANSIENT_STATUSES
    )


def add_advice(spec: Chat, reply: engine.CallReply) -> engine.CallReply:
    """Append one line to an error: the provider's message out of its JSON, and what to do.

    The last line of an error is the one that people are shown.
    """
    error = b"".join(reply.error.chunks()).rstrip()
    message, advice = _message_in(error), _advise(spec, reply.code, error)
    line = "; ".join(part for part in (message.rstrip("."), advice) if part)
    if not line:
        return reply
    content = b"\n".join(filter(None, [error, line.encode(errors="replace")]))
    return replace(reply, error=BytesContent(content))


def _message_in(error: bytes) -> str:
    """Return the message in an error body of JSON, as OpenAI, Anthropic and others write it."""
    try:
        body = msgspec.json.decode(error)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ""
    inner = body.get("error", body) if isinstance(body, dict) else body
    message = inner.get("message", "") if isinstance(inner, dict) else inner
    return " ".join(message.split()) if isinstance(message, str) else ""


def _advise(spec: Chat, code: str, error: bytes) -> str:
    """Return what to do about a call that was refused or could not be made, if that is known."""
    if code == HttpEnd.CONNECT.value:
        where = address_of(spec.url)
        if is_loopback(spec.url):
            return f"no connection to {where}: is the server running? Start it, or correct url"
        return f"no connection to {where}: check url, the network and the proxy"
    if code in ("http 401", "http 403", CONTEXT_CODE):
        return _advise_about_context(spec) if code == CONTEXT_CODE else _advise_about_key(spec)
    # An error that mentions a model comes from the API itself, so its URL is right.
    if b"model" in error.lower():
        return f"correct the name of the model, {spec.model!r}" if code == "http 404" else ""
    if code in ("http 404", "http 405", "malformed") and not _VERSIONED.search(path_of(spec.url)):
        return f"there is no model API at {spec.url}; did you mean {spec.url.rstrip('/')}/v1?"
    return ""


def _advise_about_context(spec: Chat) -> str:
    return (
        f"the prompt passes the context of {spec.model!r}: set context_tokens to what it has, "
        "choose a model with a larger context, or send less"
    )


def _advise_about_key(spec: Chat) -> str:
    if spec.key_env:
        return f"the key is from the variable {spec.key_env}: set the right one there"
    if spec.key_file:
        return f"the key is from the file {spec.key_file}: write the right one there"
    return "no key was sent: name the variable that holds it, with key_env or --key-env"


def unencodable_reply(error: Exception) -> engine.CallReply:
    """Return the reply for a call that cannot be written as JSON and was not sent."""
    text = text_content(f"this call cannot be encoded as JSON: {error}; check its schemas")
    return engine.CallReply(Outcome.FAILED, why=Why.ERROR, code="bad-request", error=text)
