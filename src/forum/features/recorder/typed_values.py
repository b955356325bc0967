"""Types of answers: their JSON schema for the model, and the parser of what it wrote."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

import msgspec

from forum import errors
from forum.engine import RunRequest
from forum.runs.acceptance_criteria import JSON_VALUE, strip_code_fence
from forum.runs.plan import Plan

ValueT = TypeVar("ValueT")


class AnswerType(Generic[ValueT]):
    """A type that answers are parsed to.  Raises `Malformed` for a type without a schema.

    It may be whatever `msgspec` knows (a `Struct`, a dataclass, a `TypedDict`, `list[int]`), or a
    model of pydantic.
    """

    def __init__(self, into: type[ValueT]) -> None:
        self.name = getattr(into, "__name__", str(into))
        self._parse: Callable[[str], ValueT]
        try:
            foreign: Any = into
            if hasattr(into, "model_json_schema"):  # a model of pydantic, which need not be there
                schema = foreign.model_json_schema()
                self._parse = foreign.model_validate_json
            else:
                schema = msgspec.json.schema(into)
                self._parse = msgspec.json.Decoder(into).decode
        except TypeError as error:
            raise errors.Malformed("result", f"{self.name} has no JSON schema: {error}") from None
        self.schema = _flatten(schema)

    def parse(self, answer: str) -> ValueT:
        """Return the value of an answer.  Raises `ValueError`."""
        return self._parse(strip_code_fence(answer.encode()))

    def demand(self, request: RunRequest) -> RunRequest:
        """Return a request whose answer must fit the schema.  Raises `BadPlan`."""
        if request.plan is None:
            raise errors.BadPlan(
                "result= needs a plan, or one agent: a team decides on its plan later"
            )
        final = request.plan.final_tasks
        if len(final) != 1 or final[0].is_delegated:
            raise errors.BadPlan(
                "result= needs a plan whose last task alone makes the answer, without an inner "
                "plan or panel"
            )
        line = f"{JSON_VALUE} {msgspec.json.encode(self.schema).decode()}"
        last = msgspec.structs.replace(
            final[0], done_when="\n".join(filter(None, (final[0].done_when, line)))
        )
        tasks = (last if task.id == last.id else task for task in request.plan.tasks)
        return replace(request, plan=Plan(tuple(tasks)))


def _flatten(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose root is no reference, and whose objects have no other members.

    Providers that enforce a schema demand both.
    """
    target = str(schema.get("$ref", "")).rpartition("/")[2]
    parts = schema.get("$defs", {})
    if target in parts:
        schema = {**parts[target], **{k: v for k, v in schema.items() if k != "$ref"}}
        if f'"#/$defs/{target}"' not in msgspec.json.encode(schema).decode():
            rest = {name: part for name, part in parts.items() if name != target}
            schema = {**schema, "$defs": rest} if rest else _without(schema, "$defs")
    closed: dict[str, Any] = _close(schema)
    return closed


def _close(part: Any) -> Any:  # noqa: ANN401  a part of a schema
    if isinstance(part, list):
        return [_close(item) for item in part]
    if not isinstance(part, dict):
        return part
    read = {name: _close(item) for name, item in part.items()}
    if read.get("type") == "object" and "properties" in read:
        read.setdefault("additionalProperties", False)
    return read


def _without(schema: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != name}
