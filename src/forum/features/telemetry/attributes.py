"""Values of OTLP attributes as plain Python, and their encodings as bodies."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import msgspec
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from forum.ledger.strand import Attachment
from forum.runs.report_drafts import cut_body

Value = Any
"""What JSON can hold: texts, numbers, truth values, lists and mappings."""

MAX_COUNT: Final = 2**53 - 1
"""The largest number that an entry can hold."""
MAX_TOKENS: Final = 1 << 40
"""The largest number of tokens that is believed of one call; far above every context."""


def read_value(value: AnyValue) -> Value:
    """Return the value of an attribute; bytes in hexadecimal."""
    kind = value.WhichOneof("value")
    match kind:
        case None:
            return None
        case "array_value":
            return [read_value(member) for member in value.array_value.values]
        case "kvlist_value":
            return read_attributes(value.kvlist_value.values)
        case "bytes_value":
            return value.bytes_value.hex()
        case _:
            return getattr(value, kind)


def read_attributes(pairs: Iterable[KeyValue]) -> dict[str, Value]:
    """Return attributes by name."""
    return {pair.key: read_value(pair.value) for pair in pairs}


class AttributeReader:
    """Takes attributes by their names of any convention, and keeps those that nobody took."""

    def __init__(self, attributes: dict[str, Value]) -> None:
        self.rest = attributes

    def take(self, names: Sequence[str]) -> Value:
        """Remove and return the first of these attributes that is there; None if none is."""
        for name in names:
            value = self.rest.get(name)
            if value is not None:
                del self.rest[name]
                return value
        return None

    def take_text(self, *tables: Sequence[str]) -> str:
        """Remove and return the first of these attributes as text; "" if none is there."""
        for names in tables:
            value = self.take(names)
            if value is not None:
                return value if isinstance(value, str) else str(value)
        return ""

    def take_count(self, *tables: Sequence[str], most: int = MAX_COUNT) -> int:
        """Remove and return the first of these attributes as a count; 0 if there is none.

        A count above `most` stays among the attributes, and is 0.
        """
        for name in chain.from_iterable(tables):
            value = self.rest.get(name)
            if value is not None:
                number = to_count(value)
                if number > most:
                    return 0
                del self.rest[name]
                return number
        return 0

    def take_family(self, prefixes: Sequence[str]) -> Value:
        """Remove the attributes that begin with a prefix, and return them as one nested value."""
        for prefix in prefixes:
            names = [name for name in self.rest if name.startswith(prefix)]
            if names:
                return _nest({name.removeprefix(prefix): self.rest.pop(name) for name in names})
        return None


def to_count(value: Value) -> int:
    """Return a number as a count that an entry can hold; 0 for what is no number."""
    try:
        return min(max(int(value), 0), MAX_COUNT)
    except (TypeError, ValueError, OverflowError):
        return 0


def encode_body(name: str, value: Value) -> tuple[Attachment, int]:
    """Return a value as a body, and the number of bytes that were left out."""
    if isinstance(value, str):
        looks_like_json = value[:1] in ("[", "{")
        media_type = "application/json" if looks_like_json else "text/plain"
        return cut_body(name, value.encode(errors="replace"), media_type)
    return cut_body(name, msgspec.json.encode(value), "application/json")


def _nest(flat: Mapping[str, Value]) -> Value:
    """Return `{"0.role": "user"}` as `[{"role": "user"}]`."""
    tree: dict[str, Value] = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        node = tree
        for part in path:
            below = node.setdefault(part, {})
            if not isinstance(below, dict):
                # Two names contradict each other: `a` and `a.b`.  Keep both.
                below = node[part] = {"": below}
            node = below
        node[last] = value
    return _to_lists(tree)


def _to_lists(node: Value) -> Value:
    if not isinstance(node, dict):
        return node
    members = {name: _to_lists(member) for name, member in node.items()}
    if members and all(name.isdecimal() and len(name) < 8 for name in members):
        return [members[name] for name in sorted(members, key=int)]
    return members
