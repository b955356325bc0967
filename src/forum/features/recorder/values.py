"""Turn the arguments and results of a program into bodies of entries.

A value is encoded in the thread that made it, before the program can change it.  Encoding never
raises: a value that has no JSON form is recorded by its `repr`.
"""

import dataclasses
from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec

from forum.ledger.body import BytesContent
from forum.ledger.strand import Attachment
from forum.runs.report_drafts import MAX_BODY_BYTES

REDACTED = "(redacted)"
_MAX_REPR_CHARS = 100_000
_MAX_LABEL_CHARS = 128
_MAX_DEPTH = 60
_MAX_NODES = 100_000
"""How many values within a value are recorded, if it cannot be encoded as it is."""
_INTEGERS = range(-(2**63), 2**64)
"""The integers that the encoder knows."""


class JsonValue(msgspec.Struct, frozen=True, gc=False):
    """A value as JSON, and the number of bytes that were cut from it."""

    raw: bytes
    cut: int = 0


def encode_value(value: object, limit: int = MAX_BODY_BYTES) -> JsonValue:
    """Return a value as JSON, cut to a number of bytes."""
    try:
        raw = _encoder.encode(value)
    except Exception:  # noqa: BLE001  something in it has no JSON form
        raw = _encode_copy(value)
    if len(raw) <= limit:
        return JsonValue(raw)
    # Part of a JSON document is no JSON: what is kept becomes a text.  Escaping can double it, and
    # the text that is stored is measured after unescaping.
    text = raw[:limit].decode(errors="ignore")
    return JsonValue(_encoder.encode(text), len(raw) - len(text.encode()))


def _encode_copy(value: object) -> bytes:
    try:
        return _encoder.encode(_PlainCopy().copy(value))
    except Exception:  # noqa: BLE001  whatever the program's classes raise is none of its concern
        return _encoder.encode(describe(value))


def to_attachment(name: str, raw: bytes) -> Attachment:
    """Return a body: a JSON string as plain text, any other value as JSON."""
    if raw[:1] == b'"':
        text: str = msgspec.json.decode(raw)
        return Attachment(name, BytesContent(text.encode(errors="replace")), "text/plain")
    return Attachment(name, BytesContent(raw), "application/json")


def redact_arguments(arguments: Mapping[str, Any], redacted: frozenset[str]) -> dict[str, Any]:
    """Return arguments with the values of these names left out."""
    return {name: REDACTED if name in redacted else v for name, v in arguments.items()}


def clean_text(value: object, limit: int) -> str:
    """Return a name or a label as valid text of limited length, whatever the program has set."""
    if value is None:
        return ""
    text = str.__str__(value) if isinstance(value, str) else describe(value)
    return text[:limit].encode(errors="replace").decode()


def clean_label(value: object) -> str:
    """Return a label such as the name of a model: an entry refuses control characters."""
    text = clean_text(value, _MAX_LABEL_CHARS)
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def describe(value: object) -> str:
    """Return the `repr` of an object, or its type if that fails."""
    try:
        text = repr(value)[:_MAX_REPR_CHARS]
        return text.encode(errors="replace").decode()
    except KeyboardInterrupt:
        raise  # of the user, who wants the program to end
    except BaseException:  # noqa: BLE001  a broken `__repr__` must not break the program
        return f"({type(value).__name__})"


class _PlainCopy:
    """Copies a value into what the encoder knows, down to a depth and up to a number of values.

    The encoder itself must not run code of the program: code that changes a list while the encoder
    reads it crashes the process.  Here each container is read at once, before its items are.
    """

    def __init__(self) -> None:
        self._left = _MAX_NODES
        self._within: set[int] = set()

    def copy(self, value: object) -> object:
        self._left -= 1
        if isinstance(value, Enum):
            value = value._value_
        if value is None or isinstance(value, bool | str | int | float | bytes | bytearray):
            return _copy_scalar(value)
        if type(value) in _LEAVES or isinstance(value, date):
            return _to_builtins(value)
        return self._copy_container(value)

    def _copy_container(self, value: object) -> object:
        # A value within itself, or too deep, or one of too many.
        if id(value) in self._within or len(self._within) >= _MAX_DEPTH or self._left <= 0:
            return f"({type(value).__name__})"
        self._within.add(id(value))
        try:
            items = _read_items(value)
            if isinstance(items, dict):
                pairs = list(items.items())[: max(0, self._left)]
                return {_to_key(key): self.copy(item) for key, item in pairs}
            if isinstance(items, list):
                copied = [self.copy(item) for item in items[: max(0, self._left)]]
                left_out = len(items) - len(copied)
                return [*copied, f"({left_out} more)"] if left_out else copied
            return describe(value)
        finally:
            self._within.discard(id(value))


def _copy_scalar(value: object) -> object:
    """Return a scalar without what a class of the program has added to it."""
    if isinstance(value, str):
        return str.__str__(value).encode(errors="replace").decode()
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, int) and not isinstance(value, bool):
        number = int.__int__(value)
        return number if number in _INTEGERS else hex(number)
    return bytes(value[:MAX_BODY_BYTES]) if isinstance(value, bytes | bytearray) else value


def _read_items(value: object) -> dict[Any, Any] | list[Any] | None:
    """Return what a value holds, without methods that a class of the program has overridden.

    Classes are recognised by their own attributes: a proxy or a mock has every attribute, and to
    call one may be to call a server.
    """
    kind = type(value)
    if isinstance(value, dict):
        return dict.copy(value)  # without hashing keys, which may run code
    for sequence in (list, tuple, set, frozenset):
        if issubclass(kind, sequence):
            return list(sequence.__iter__(value))  # type: ignore[arg-type]  # it is one of them
    if _defines(kind, "__pydantic_fields__") and _defines(kind, "model_dump"):
        dumped = _call(value, "model_dump")
        return dumped if isinstance(dumped, dict) else None
    names: tuple[str, ...] = ()
    if _defines(kind, "__dataclass_fields__"):
        names = tuple(field.name for field in dataclasses.fields(value))  # type: ignore[arg-type]
    elif issubclass(kind, msgspec.Struct):
        names = kind.__struct_fields__
    elif _defines(kind, "__attrs_attrs__"):
        names = tuple(field.name for field in kind.__attrs_attrs__)  # type: ignore[attr-defined]
    return {name: _call(value, name, is_called=False) for name in names} if names else None


def _defines(kind: type, name: str) -> bool:
    return any(name in vars(base) for base in type.mro(kind))


def _call(value: object, name: str, *, is_called: bool = True) -> object:
    """Read an attribute, and call it; None if that fails."""
    try:
        method = getattr(value, name)
        return method() if is_called else method
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001  whatever the program's classes raise is none of its concern
        return None


def _to_key(key: object) -> str:
    return clean_text(key if isinstance(key, str) else describe(key), _MAX_REPR_CHARS)


def _to_builtins(value: object) -> object:
    try:
        return msgspec.to_builtins(value, enc_hook=describe)
    except Exception:  # noqa: BLE001  a time zone of the program may fail
        return describe(value)


_LEAVES = frozenset({time, timedelta, UUID, Decimal})
# Without a hook: it would run code of the program while the encoder reads a container.
_encoder = msgspec.json.Encoder(decimal_format="string")
