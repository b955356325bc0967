"""Canonical form, digest, times and usage of a transcript."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import rfc8785

from forum.features.symposium import schemas
from forum.features.symposium.canonical_json import INTEGER_LIMIT, transcript_digest
from forum.runs.personas import Persona
from forum.runs.session_steps import TurnResult
from forum.runs.symposium_end import MessageType
from forum.units import NANO_USD

ZERO_USAGE = schemas.MessageUsage(0, 0, 0, 0.0)
NO_USAGE = "no-usage"
"""Code of a reply without usage from its provider; its cost is then an upper bound."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)").fullmatch


def to_json_object(form: schemas.ProtocolStruct | Persona) -> dict[str, Any]:
    """Return a protocol object as plain JSON, without members that are unset or null."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(form))
    return plain


def canonical_bytes(form: schemas.ProtocolStruct) -> bytes:
    """Return the RFC 8785 bytes of a protocol object."""
    return rfc8785.dumps(to_json_object(form))


def digest_messages(transcript: Iterable[schemas.Message]) -> str:
    """Return the digest of a transcript."""
    return transcript_digest([to_json_object(message) for message in transcript])


def format_time(at: int) -> str:
    """Return a time, in microseconds since 1970, in the protocol's format."""
    return (_EPOCH + timedelta(microseconds=at)).isoformat(timespec="microseconds")[:-6] + "Z"


def parse_time(text: str) -> datetime | None:
    """Parse an RFC 3339 time; return None if it is invalid."""
    try:
        return datetime.fromisoformat(text.upper()) if _TIME(text) else None
    except ValueError:
        return None


def parse_time_us(text: str) -> int:
    """Parse a time to microseconds since 1970; one that is invalid or earlier is 0."""
    time = parse_time(text)
    return max(0, (time - _EPOCH) // timedelta(microseconds=1)) if time else 0


def turn_usage(result: TurnResult) -> schemas.MessageUsage:
    """Return the usage of a turn: the sum of all its calls, including failed ones."""
    read = min(result.input_tokens, result.spent.tokens)
    return schemas.MessageUsage(
        prompt_tokens=read,
        completion_tokens=result.spent.tokens - read,
        total_tokens=result.spent.tokens,
        cost_usd=result.spent.usd / NANO_USD,
        estimated=result.code == NO_USAGE,
    )


def total_usage(transcript: Iterable[schemas.Message]) -> schemas.MessageUsage:
    """Return the usage of all messages, limited to integers that a double can hold."""
    used = [message.usage for message in transcript]
    return schemas.MessageUsage(
        prompt_tokens=min(INTEGER_LIMIT - 1, sum(usage.prompt_tokens for usage in used)),
        completion_tokens=min(INTEGER_LIMIT - 1, sum(usage.completion_tokens for usage in used)),
        total_tokens=min(INTEGER_LIMIT - 1, sum(usage.total_tokens for usage in used)),
        # Summed in integer nano-dollars: a sum of floats depends on their order.
        cost_usd=sum(round(usage.cost_usd * NANO_USD) for usage in used) / NANO_USD,
        estimated=any(usage.estimated for usage in used),
    )


def last_verdict(transcript: Sequence[schemas.Message]) -> schemas.CoordinatorVerdict | None:
    """Return the coordinator's last verdict, or None."""
    latest = reversed(transcript)
    return next(
        (message.content for message in latest if isinstance(message, schemas.CoordinationTurn)),
        None,
    )


def message_type(message: schemas.Message) -> MessageType:
    """Return the type of a message."""
    return MessageType(str(message.__struct_config__.tag))


def message_text(message: schemas.Message) -> str:
    """Return what a message says, in words."""
    match message:
        case schemas.ProblemStatement():
            return message.content
        case schemas.CoordinationTurn():
            return f"{message.content.next_action}: {message.content.rationale}"
        case schemas.Synthesis():
            return message.content.integrated_answer
        case schemas.PanelContraction():
            return f"{message.content.agent_id} has left: {message.content.reason}"
        case _:
            return message.content.text


def pending_request(ending: schemas.TerminationArtifact | None) -> str | None:
    """Return what a panel has to know first, if it ended with a question."""
    if ending and ending.pending_user_input_request:
        return ending.pending_user_input_request.question
    if ending and ending.pending_external_research_request:
        return ending.pending_external_research_request.query
    return None
