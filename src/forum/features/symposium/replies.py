"""Replies of agents: their JSON schemas, their parsers, and the routing of their requests.

An invalid reply is rejected with a reason for its author. An invalid request within a valid reply,
or one that no transcript can hold, is dropped and noted; the turn itself counts.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

import msgspec

from forum.errors import Malformed
from forum.features.symposium import decoders, schemas
from forum.features.symposium.canonical_json import normalize_json
from forum.features.symposium.kinds import NextAction
from forum.features.symposium.transcript import to_json_object
from forum.runs import reply_schemas
from forum.runs.acceptance_criteria import read_json, strip_code_fence

MAX_REQUESTS = 3
"""Maximum number of requests in the schema of a turn."""
MAX_LISTED = 5
"""Maximum number of disagreements or questions in the schema of a coordinator's reply."""

_MAX_WORD_LENGTH, _MAX_LINE_LENGTH = 60, 300
_MIN_LINE_LENGTH = 80

T = TypeVar("T")


class ParsedTurn(msgspec.Struct, frozen=True):
    """The content of an agent's turn."""

    content: schemas.TurnOutput
    failures: tuple[schemas.SchemaFailure, ...] = ()
    """Invalid requests."""


def turn_schema(peers: Sequence[str], room: int) -> bytes:
    """Return the schema of a turn; requests may take up to half of the `room` characters."""
    members = {"text": reply_schemas.text_schema(max(_MIN_LINE_LENGTH, room // 2), 1)}
    if peers:
        request = {
            "target": {"enum": list(peers)},
            "type": reply_schemas.text_schema(_MAX_WORD_LENGTH, 1),
            "content": reply_schemas.text_schema(
                max(_MIN_LINE_LENGTH, room // (2 * MAX_REQUESTS) - 2 * _MAX_WORD_LENGTH), 1
            ),
        }
        members["direct_requests"] = reply_schemas.array_schema(
            reply_schemas.object_schema(request), MAX_REQUESTS
        )
    return reply_schemas.build_schema(members)


def verdict_schema(panel: Sequence[str], room: int) -> bytes:
    """Return the schema of a verdict."""
    line = _line(room)
    question = {"question": line | {"minLength": 1}, "context": line, "blocking": _BOOLEAN}
    research = {"query": line | {"minLength": 1}, "rationale": line}
    return reply_schemas.build_schema(
        {
            "next_action": {"enum": [action.value for action in NextAction]},
            "rationale": line | {"minLength": 1},
            "confidence": _SHARE,
            "focus": line | {"minLength": 1},
            "next_agents": reply_schemas.array_schema({"enum": list(panel)}, len(panel)),
            **_disagreements(panel, room),
            "user_input_request": _or_null(question),
            "external_research_request": _or_null(research),
        }
    )


def synthesis_schema(panel: Sequence[str], room: int) -> bytes:
    """Return the schema of a synthesis; the answer may take half of the `room` characters."""
    return reply_schemas.build_schema(
        {
            "integrated_answer": reply_schemas.text_schema(max(_MIN_LINE_LENGTH, room // 2), 1),
            **_disagreements(panel, room // 2),
            "confidence": _SHARE,
            "open_questions": reply_schemas.array_schema(
                _line(room) | {"minLength": 1}, MAX_LISTED
            ),
        }
    )


_BOOLEAN = {"type": "boolean"}
_SHARE = {"type": "number", "minimum": 0, "maximum": 1}


def _line(room: int) -> dict[str, Any]:
    """Return the schema of one of the many short texts that share the `room` characters."""
    return reply_schemas.text_schema(max(_MIN_LINE_LENGTH, min(_MAX_LINE_LENGTH, room // 20)))


def _or_null(members: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [reply_schemas.object_schema(members), {"type": "null"}]}


def _disagreements(panel: Sequence[str], room: int) -> dict[str, Any]:
    line = _line(room) | {"minLength": 1}
    most = max(1, min(MAX_LISTED, room // 1000))
    position = reply_schemas.object_schema({"agent": {"enum": list(panel)}, "claim": line})
    held = reply_schemas.array_schema(position, max(1, min(len(panel), 2 * most)), 1)
    resolved = reply_schemas.object_schema({"topic": line, "resolution": line})
    unresolved = reply_schemas.object_schema(
        {"topic": line, "positions": held, "blocker": _BOOLEAN}
    )
    return {
        "resolved_disagreements": reply_schemas.array_schema(resolved, most),
        "unresolved_disagreements": reply_schemas.array_schema(unresolved, most),
    }


# The parsers raise `ValueError`, because its text is shown to the model, which then repairs its
# reply.
def parse_turn(reply: bytes) -> ParsedTurn:
    """Parse a turn; unknown members are ignored."""
    value = _parse_object(reply)
    requests = value.get("direct_requests")
    if not isinstance(requests, list | None):
        raise ValueError("direct_requests is not a list")  # noqa: TRY004  as below
    good: list[schemas.DirectRequest] = []
    bad: list[schemas.SchemaFailure] = []
    for request in requests or ():
        try:
            good.append(decoders.read_direct_request(request))
        except Malformed as error:
            bad.append(schemas.SchemaFailure(_describe_invalid_request(request), error.why))
    text = _as_value_error(lambda: decoders.read_turn({"text": value.get("text", "")})).text
    return ParsedTurn(schemas.TurnOutput(text, tuple(good)), tuple(bad))


def parse_verdict(reply: bytes) -> schemas.CoordinatorVerdict:
    """Parse a verdict."""
    value = _without_nulls(_parse_object(reply))
    return _as_value_error(lambda: decoders.read_verdict(value))


def parse_synthesis(reply: bytes) -> schemas.SynthesisContent:
    """Parse a synthesis."""
    value = _without_nulls(_parse_object(reply))
    return _as_value_error(lambda: decoders.read_synthesis(value))


def _parse_object(reply: bytes) -> dict[str, Any]:
    value = read_json(strip_code_fence(reply))  # bounds depth and numbers
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004  the author's mistake, not ours
    return value


def _without_nulls(value: Any) -> Any:  # noqa: ANN401
    """Return a value without null members: a model that must write them all uses null for none."""
    match value:
        case dict():
            return {k: _without_nulls(v) for k, v in value.items() if v is not None}
        case list():
            return [_without_nulls(item) for item in value]
        case _:
            return value


def _as_value_error(read: Callable[[], T]) -> T:
    try:
        return read()
    except Malformed as error:
        raise ValueError(error.why) from None


def _describe_invalid_request(request: object) -> dict[str, object]:
    """Return the record of an invalid request: all of it, if a transcript can hold it."""
    if not isinstance(request, dict):
        return {"content": f"left out: {type(request).__name__} is not an object"}
    try:
        normalize_json(request, "request")
    except Malformed:
        members = {
            name: _to_transcript_safe(request[name])
            for name in ("target", "type")
            if name in request
        }
        return {**members, "content": "left out: no transcript can hold it"}
    return request


def _to_transcript_safe(value: object) -> str:
    return str(value)[:_MAX_LINE_LENGTH].encode(errors="replace").decode()


class RoutedRequests(msgspec.Struct, frozen=True):
    """The fate of each request of a primary turn."""

    first: schemas.DirectRequest | None
    """Answered at once."""
    deferred: tuple[schemas.DirectRequest, ...]
    dropped: tuple[schemas.DirectRequest, ...]
    failures: tuple[schemas.SchemaFailure, ...]


def route_requests(
    turned: ParsedTurn, speaker: str, panel: Collection[str], coordinator: str, room: int
) -> RoutedRequests:
    """Route the requests of a turn; `room` is the number of free places in the deferred queue."""
    failures: list[schemas.SchemaFailure] = []
    routable: list[schemas.DirectRequest] = []
    for request in turned.content.direct_requests:
        if why := _find_routing_error(request.target, speaker, panel, coordinator):
            failures.append(schemas.SchemaFailure(to_json_object(request), why))
        else:
            routable.append(request)
    rest = routable[1:]
    return RoutedRequests(
        routable[0] if routable else None,
        tuple(rest[:room]),
        tuple(rest[room:]),
        (*failures, *turned.failures),
    )


def _find_routing_error(target: str, speaker: str, panel: Collection[str], coordinator: str) -> str:
    if target == speaker:
        return "target: nobody asks himself"
    if target == coordinator:
        return "target: the coordinator answers no requests"
    return "" if target in panel else "target: nobody on the panel has this id"
