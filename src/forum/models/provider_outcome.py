"""What an answer means for the record: an outcome, and what it cost.

What is not known to be free is paid: where a call may have been billed and nobody says how much,
it cost all that was reserved for it.
"""

import re
from dataclasses import dataclass, replace
from typing import Final

from forum.engine import EMPTY_CONTENT, NO_COST, CallReply, ModelCall
from forum.ledger import Amount, BytesContent, Outcome, text_content
from forum.models.prices import BilledTokens, Price
from forum.models.provider_http import HttpEnd, HttpOutcome
from forum.models.urls import path_of
from forum.models.wire import Finish, ReplyBuilder, tool_calls_of
from forum.work import Why, sanitize_name

_THROTTLED_STATUSES: Final = frozenset({429, 503, 529})
_TRANSIENT_STATUSES: Final = frozenset({408, 409, 421, 423, 425})
"""Refusals that the same request may not meet again, beside those of the busy."""
_PERMANENT_STATUSES: Final = frozenset({501, 505})
_VERSIONED = re.compile(r"/v\d")
_NOT_PLAIN = re.compile(r"[^!#-\[\]-~]+")


@dataclass(frozen=True, slots=True)
class ProviderOutcome:
    """What a model has said, and what that cost."""

    price: Price
    bound: Amount
    call: ModelCall
    said: ReplyBuilder

    def partial_reply(self, answer: HttpOutcome) -> CallReply:
        """Return the outcome of an answer of which not all came."""
        reply = self._reply(Outcome.FAILED, Why.CUT)
        error = BytesContent(answer.error) if answer.error else EMPTY_CONTENT
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

    def complete_reply(self) -> CallReply:
        """Return the outcome of an answer that is complete."""
        match self.said.finish:
            case Finish.FAILED:
                return self._reply(Outcome.FAILED, Why.ERROR, "provider")
            case Finish.OVERLOADED:
                return self._reply(Outcome.FAILED, Why.THROTTLED, "overloaded")
            case Finish.REFUSED:
                return self._reply(Outcome.DENIED, Why.ERROR, "refused")
            case Finish.LENGTH if self.call.schema or self.said.tool_calls or not self.said.text:
                return replace(self._reply(Outcome.FAILED, Why.CUT, "length"), uses=())
            case Finish.LENGTH:
                return self._reply(Outcome.OK, code="length")
            case Finish.NONE | Finish.COMPLETE:
                code = "" if self._tokens else "no-usage"
                return self._reply(Outcome.OK, code=code)

    @property
    def _tokens(self) -> BilledTokens | None:
        """What was used, if the provider says so: some say 0 of what they have not counted."""
        tokens = self.said.tokens
        return tokens if tokens and (tokens.read or tokens.said) else None

    def _reply(self, outcome: Outcome, why: Why = Why.NONE, code: str = "") -> CallReply:
        tokens = self._tokens
        usd = self.price.cost(tokens) if tokens else 0
        return CallReply(
            outcome,
            text_content(self.said.text),
            Amount(usd, tokens.read + tokens.said, 1) if tokens else self.bound,
            uses=tool_calls_of(self.said, self.call.offers) if outcome is Outcome.OK else (),
            why=why,
            code=code,
            error=BytesContent(self.said.error) if self.said.error else EMPTY_CONTENT,
            input_tokens=tokens.read if tokens else 0,
            model=sanitize_name(self.said.model),
        )


def refused_reply(answer: HttpOutcome) -> CallReply:
    """Return the outcome where nobody was reached, or was let in: nothing is paid."""
    code = f"http {answer.status}" if answer.end is HttpEnd.REFUSED else answer.end.value
    error = BytesContent(answer.error)
    reply = CallReply(Outcome.FAILED, spent=NO_COST, why=Why.ERROR, code=code, error=error)
    if answer.status in _THROTTLED_STATUSES:
        return replace(reply, why=Why.THROTTLED, retry_milliseconds=answer.pause)
    if _is_permanent(answer.status):
        return replace(reply, outcome=Outcome.DENIED)
    return reply


def _is_permanent(status: int) -> bool:
    """Tell whether the same request would be refused again: it is denied, not tried again."""
    return status in _PERMANENT_STATUSES or (
        300 <= status < 500 and status not in _TRANSIENT_STATUSES
    )


def suggest_version(url: str, reply: CallReply) -> CallReply:
    """Return a reply that ends in the address that was probably meant, where /v1 is missing.

    A server that knows the model by name, or does not, has the API at this address.
    """
    told = b"".join(reply.error.chunks())
    if _VERSIONED.search(path_of(url)) or b"model" in told.lower():
        return reply
    if reply.code not in ("http 404", "http 405", "malformed"):
        return reply
    advice = f"there is no model API at {url}; did you mean {url.rstrip('/')}/v1?"
    lines = [told.rstrip(), advice.encode(errors="replace")]
    return replace(reply, error=BytesContent(b"\n".join(filter(None, lines))))


def plain_label(name: str) -> str:
    """Return a name as plain as the record wants names to be."""
    return _NOT_PLAIN.sub("-", name)[:128] or "model"
