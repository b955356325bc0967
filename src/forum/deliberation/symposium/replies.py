"""What agents say: the form in which they are asked for it, and reading it.

A reply is in the right form or it is not, and its author is told why not.  A single request in it
that is in none, or that no transcript can hold, costs that request and not the turn.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from forum.deliberation.symposium import reading
from forum.deliberation.symposium.forms import (
    DirectRequest,
    SchemaFailure,
    SynthesisContent,
    TurnOutput,
    Verdict,
)
from forum.deliberation.symposium.ijson import plain
from forum.deliberation.symposium.kinds import NextAction
from forum.errors import Malformed
from forum.work import a_text, an_array, an_object, form_of, read_json, unfenced

MOST_REQUESTS = 3
"""How many requests an agent is invited to make in one turn."""
MOST_LISTED = 5
"""How many disagreements or questions a coordinator is invited to list."""

_WORD, _LINE, _SHORTEST = 60, 300, 80

T = TypeVar("T")


class Turned(msgspec.Struct, frozen=True):
    """What an agent has said in its turn."""

    content: TurnOutput
    failures: tuple[SchemaFailure, ...] = ()
    """Requests that were none."""


# The form in which they are asked for it


def turn_form(peers: Sequence[str], room: int) -> bytes:
    """Return the form of a turn; requests take up to half of the room."""
    members = {"text": a_text(max(_SHORTEST, room // 2), 1)}
    if peers:
        request = {
            "target": {"enum": list(peers)},
            "type": a_text(_WORD, 1),
            "content": a_text(max(_SHORTEST, room // (2 * MOST_REQUESTS) - 2 * _WORD), 1),
        }
        members["direct_requests"] = an_array(an_object(request), MOST_REQUESTS)
    return form_of(members)


def verdict_form(panel: Sequence[str], room: int) -> bytes:
    """Return the form of a verdict."""
    line = _line(room)
    question = {"question": line | {"minLength": 1}, "context": line, "blocking": _BOOLEAN}
    research = {"query": line | {"minLength": 1}, "rationale": line}
    return form_of(
        {
            "next_action": {"enum": [action.value for action in NextAction]},
            "rationale": line | {"minLength": 1},
            "confidence": _SHARE,
            "focus": line | {"minLength": 1},
            "next_agents": an_array({"enum": list(panel)}, len(panel)),
            **_disagreements(panel, room),
            "user_input_request": _or_null(question),
            "external_research_request": _or_null(research),
        }
    )


def synthesis_form(panel: Sequence[str], room: int) -> bytes:
    """Return the form of a synthesis; the answer has half of the room."""
    return form_of(
        {
            "integrated_answer": a_text(max(_SHORTEST, room // 2), 1),
            **_disagreements(panel, room // 2),
            "confidence": _SHARE,
            "open_questions": an_array(_line(room) | {"minLength": 1}, MOST_LISTED),
        }
    )


_BOOLEAN = {"type": "boolean"}
_SHARE = {"type": "number", "minimum": 0, "maximum": 1}


def _line(room: int) -> dict[str, Any]:
    """Return the form of one of the many texts that have to share the room."""
    return a_text(max(_SHORTEST, min(_LINE, room // 20)))


def _or_null(members: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [an_object(members), {"type": "null"}]}


def _disagreements(panel: Sequence[str], room: int) -> dict[str, Any]:
    line = _line(room) | {"minLength": 1}
    most = max(1, min(MOST_LISTED, room // 1000))
    position = an_object({"agent": {"enum": list(panel)}, "claim": line})
    held = an_array(position, max(1, min(len(panel), 2 * most)), 1)
    resolved = an_object({"topic": line, "resolution": line})
    unresolved = an_object({"topic": line, "positions": held, "blocker": _BOOLEAN})
    return {
        "resolved_disagreements": an_array(resolved, most),
        "unresolved_disagreements": an_array(unresolved, most),
    }


# Reading it.  Each raises `ValueError`, whose words are for the one who said it.


def read_turn(said: bytes) -> Turned:
    """Return what was said in a turn; members that no turn has are left out."""
    value = _object_of(said)
    requests = value.get("direct_requests")
    if not isinstance(requests, list | None):
        raise ValueError("direct_requests is not a list")  # noqa: TRY004  as below
    good: list[DirectRequest] = []
    bad: list[SchemaFailure] = []
    for request in requests or ():
        try:
            good.append(reading.read_direct_request(request))
        except Malformed as error:
            bad.append(SchemaFailure(_stand_in(request), error.why))
    text = _checked(lambda: reading.read_turn({"text": value.get("text", "")})).text
    return Turned(TurnOutput(text, tuple(good)), tuple(bad))


def read_verdict(said: bytes) -> Verdict:
    """Return the verdict that was given."""
    value = _without_nulls(_object_of(said))
    return _checked(lambda: reading.read_verdict(value))


def read_synthesis(said: bytes) -> SynthesisContent:
    """Return the synthesis that was made."""
    value = _without_nulls(_object_of(said))
    return _checked(lambda: reading.read_synthesis(value))


def _object_of(said: bytes) -> dict[str, Any]:
    value = read_json(unfenced(said))  # of bounded depth, with numbers that are numbers
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004  the author's mistake, not ours
    return value


def _without_nulls(value: Any) -> Any:  # noqa: ANN401
    """Return the same without members that are null: whoever has to write all of them writes so."""
    match value:
        case dict():
            return {k: _without_nulls(v) for k, v in value.items() if v is not None}
        case list():
            return [_without_nulls(one) for one in value]
        case _:
            return value


def _checked(read: Callable[[], T]) -> T:
    try:
        return read()
    except Malformed as error:
        raise ValueError(error.why) from None


def _stand_in(request: object) -> dict[str, object]:
    """Return what is kept of a request that is none: all of it, if a transcript can hold it."""
    if not isinstance(request, dict):
        return {"content": f"left out: {type(request).__name__} is not an object"}
    try:
        plain(request, "request")
    except Malformed:
        kept = {name: _safe(request[name]) for name in ("target", "type") if name in request}
        return {**kept, "content": "left out: no transcript can hold it"}
    return request


def _safe(value: object) -> str:
    return str(value)[:_LINE].encode(errors="replace").decode()
