"""Read JSON of foreign programs: members of any type, and documents that end too early."""

import re
from typing import Any

import msgspec

UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\],:"]|[^\s{}\[\],:"]++', re.DOTALL)
_CUT_TEXT = re.compile(rb'"(?:[^"\\]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
MAX_CUT_BYTES = 1 << 22
"""How much of a document that is no JSON is read; recorders cut bodies at less."""
_OPENING = {b"{": b"}", b"[": b"]"}
_CLOSING = frozenset(_OPENING.values())


def as_text(value: object) -> str:
    """Return a member that is a text; empty for any other."""
    return clean_text(value) if isinstance(value, str) else ""


def as_object(value: object) -> dict[str, Any]:
    """Return a member that is an object; empty for any other."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Return a member that is a list; empty for any other."""
    return value if isinstance(value, list) else []


def as_count(value: object) -> int | None:
    """Return a member that is a count; None for any other."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53
    return value if is_count else None  # type: ignore[return-value]  # checked


def clean_text(text: str) -> str:
    """Return a text that has a UTF-8 form; JSON can escape half a character."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def encode_json(value: object) -> str:
    """Return a decoded value as JSON."""
    try:
        return msgspec.json.encode(value).decode(errors="replace")
    except (*UNREADABLE, TypeError, OverflowError):
        return str(type(value).__name__)


def decode_json(data: bytes) -> Any:  # noqa: ANN401  any JSON
    """Return the value in a document.  Raises one of `UNREADABLE`."""
    return msgspec.json.decode(data)


def decode_cut_json(data: bytes) -> Any:  # noqa: ANN401  any JSON
    """Return what the beginning of a document says; a text that is cut off ends where it ends.

    Raises one of `UNREADABLE`.
    """
    data = data[:MAX_CUT_BYTES]
    closers: list[bytes] = []
    end, tail = 0, b""
    last = b""
    for match in _TOKEN.finditer(data):
        token = match[0]
        if token in _OPENING:
            closers.append(_OPENING[token])
            end = match.end()
        elif token in _CLOSING:
            if not closers or closers.pop() != token:
                break
            end = match.end()
        elif token == b",":
            end = match.start()  # all before a comma is complete
        elif token == b'"':
            if last == b":" or (closers and closers[-1] == b"]"):
                end, text = match.start(), _CUT_TEXT.match(data, match.start())
                tail = (text[0].decode(errors="ignore").encode() if text else b'"') + b'"'
            break
        last = token
    return decode_json(data[:end] + tail + b"".join(reversed(closers)))
