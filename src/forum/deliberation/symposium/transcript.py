"""What a transcript is made of, in the one form in which it is written and hashed."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, assert_never

import msgspec
import rfc8785

from forum.deliberation.steps import TurnResult
from forum.deliberation.symposium.canonical_json import INTEGER_LIMIT, transcript_digest
from forum.deliberation.symposium.kinds import MessageType
from forum.deliberation.symposium.schemas import (
    BranchTurn,
    CoordinationTurn,
    CoordinatorVerdict,
    Message,
    MessageUsage,
    PanelContraction,
    PrimaryTurn,
    ProblemStatement,
    ProtocolStruct,
    Synthesis,
)
from forum.work import NANO_USD

ZERO_USAGE = MessageUsage(0, 0, 0, 0.0)
NO_USAGE = "no-usage"
"""The code of a reply whose provider has not said what it cost: that is what it can be at most."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)").fullmatch


def to_json_object(form: ProtocolStruct) -> dict[str, Any]:
    """Return a form as plain JSON: what is not there, or null, is left out."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(form))
    return plain


def canonical_bytes(form: ProtocolStruct) -> bytes:
    """Return the RFC 8785 bytes of a form."""
    return rfc8785.dumps(to_json_object(form))


def digest_messages(transcript: Iterable[Message]) -> str:
    """Return the digest of a transcript."""
    return transcript_digest([to_json_object(message) for message in transcript])


def format_time(at: int) -> str:
    """Return a time, given in microseconds since 1970, as the protocol writes it."""
    return (_EPOCH + timedelta(microseconds=at)).isoformat(timespec="microseconds")[:-6] + "Z"


def parse_time(text: str) -> datetime | None:
    """Return a time as RFC 3339 writes it; None if it is none."""
    try:
        return datetime.fromisoformat(text.upper()) if _TIME(text) else None
    except ValueError:
        return None


def turn_usage(said: TurnResult) -> MessageUsage:
    """Return what a turn has used: all its calls, whichever of them was the good one."""
    read = min(said.input_tokens, said.spent.tokens)
    return MessageUsage(
        prompt_tokens=read,
        completion_tokens=said.spent.tokens - read,
        total_tokens=said.spent.tokens,
        cost_usd=said.spent.usd / NANO_USD,
        estimated=said.code == NO_USAGE,
    )


def total_usage(transcript: Iterable[Message]) -> MessageUsage:
    """Return what all messages of a transcript have used; no more than a double can count."""
    used = [message.usage for message in transcript]
    return MessageUsage(
        prompt_tokens=min(INTEGER_LIMIT - 1, sum(one.prompt_tokens for one in used)),
        completion_tokens=min(INTEGER_LIMIT - 1, sum(one.completion_tokens for one in used)),
        total_tokens=min(INTEGER_LIMIT - 1, sum(one.total_tokens for one in used)),
        # In nano-dollars, which are whole: the sum of floats depends on their order.
        cost_usd=sum(round(one.cost_usd * NANO_USD) for one in used) / NANO_USD,
        estimated=any(one.estimated for one in used),
    )


def last_verdict(transcript: Sequence[Message]) -> CoordinatorVerdict | None:
    """Return what the coordinator has said last."""
    latest = reversed(transcript)
    return next((one.content for one in latest if isinstance(one, CoordinationTurn)), None)


def message_type(message: Message) -> MessageType:
    """Return what a message is."""
    match message:
        case ProblemStatement():
            return MessageType.PROBLEM
        case PrimaryTurn():
            return MessageType.PRIMARY
        case CoordinationTurn():
            return MessageType.COORDINATION
        case BranchTurn():
            return MessageType.BRANCH
        case Synthesis():
            return MessageType.SYNTHESIS
        case PanelContraction():
            return MessageType.CONTRACTION
        case never:
            assert_never(never)
