"""Errors of requests that do not have the form of their operation, with the nearest name."""

import re
from typing import Any

from msgspec import inspect

from forum.spelling import suggest_or_list

_UNKNOWN = re.compile(r"Object contains unknown field `(.+?)`(?: - at `\$(.*)`)?")
_OTHER_NAMES = {"problem": "request", "question": "request"}
"""What other programs, and other surfaces, call a field."""
_PLACE = re.compile(r"\.([A-Za-z_]\w*)|\[[^\]]*\]")


def describe_field_error(error: Exception, into: Any) -> str:  # noqa: ANN401  a type
    """Return the text of a decoding error; for an unknown field also the one that was meant."""
    match = _UNKNOWN.fullmatch(str(error))
    if match is None:
        return str(error)
    name, place = match.groups(default="")
    names = sorted(_names_at(inspect.type_info(into), place))
    if not place and _OTHER_NAMES.get(name) in names:
        return f"{error}; it is called `{_OTHER_NAMES[name]}` here, for every kind of run"
    return f"{error}; {suggest_or_list(name, names)}" if names else str(error)


def _names_at(info: inspect.Type, place: str) -> set[str]:
    """Return the names that fields at a place of a value may have."""
    types = [info]
    for part in _PLACE.finditer(place):
        types = [inner for each in types for inner in _step(each, part[1])]
    return {field.encode_name for each in types for field in _fields(each)}


def _step(info: inspect.Type, name: str | None) -> list[inspect.Type]:
    """Return the types of a member, or of the items if there is no name."""
    match info:
        case inspect.UnionType():
            return [inner for each in info.types for inner in _step(each, name)]
        case inspect.Metadata():
            return _step(info.type, name)
        case inspect.StructType() if name:
            return [field.type for field in info.fields if field.encode_name == name]
        case inspect.DictType():
            return [info.value_type]
        case inspect.ListType() | inspect.VarTupleType() if not name:
            return [info.item_type]
        case _:
            return []


def _fields(info: inspect.Type) -> tuple[inspect.Field, ...]:
    match info:
        case inspect.UnionType():
            return tuple(field for each in info.types for field in _fields(each))
        case inspect.Metadata():
            return _fields(info.type)
        case inspect.StructType():
            return info.fields
        case _:
            return ()
