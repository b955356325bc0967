"""Unambiguous JSON (I-JSON, RFC 7493) and the digest of a transcript.

Values that two readers could interpret differently are rejected before decoding: duplicate members,
lone surrogates, integers that a double cannot hold, NaN and infinities, and nesting that only a
reader's stack would limit. All of these conform to a JSON schema, and each of them would keep a
transcript from having a digest.
"""

import json
import math
from collections import Counter
from hashlib import sha256
from typing import TypeAlias

import rfc8785

from forum.errors import Malformed

MAX_NESTING = 64
"""Maximum nesting of arrays and objects."""
INTEGER_LIMIT = 2**53
"""Integers must have a smaller absolute value than this."""
DIGITS = 1e21
"""RFC 8785 writes doubles with a smaller absolute value than this without an exponent."""


def read_json(data: bytes, what: str) -> object:
    """Parse JSON bytes. Raises `Malformed` for ambiguous input; `what` names it in the error."""
    try:
        value = json.loads(
            data.decode(), object_pairs_hook=_unique_members, parse_constant=_refuse_constant
        )
    except RecursionError:
        raise Malformed(what, f"nested more than {MAX_NESTING} deep") from None
    except ValueError as error:
        raise Malformed(what, str(error)) from None
    return normalize_json(value, what)


def normalize_json(value: object, what: str) -> object:
    """Return parsed JSON with each number in its only form: 1.0 becomes 1. Raises `Malformed`."""
    return _normalize(value, what, None, MAX_NESTING)


def transcript_digest(messages: object) -> str:
    """Return the digest of a stored transcript: SHA-256 of its RFC 8785 bytes."""
    try:
        return sha256(rfc8785.dumps(messages)).hexdigest()  # type: ignore[arg-type]
    except (rfc8785.CanonicalizationError, RecursionError) as error:
        raise Malformed("transcript", str(error)) from None


def _unique_members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"a member is there twice: {name!r}")
    return members


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_Path: TypeAlias = "tuple[_Path, str | int] | None"
"""Position of a value, innermost part first.

It is formatted only for errors, since member names may be as long as the whole document.
"""


def _at(path: _Path) -> str:
    parts: list[str] = []
    while path is not None:
        path, part = path
        parts.append(f"[{part}]" if isinstance(part, int) else f".{part}")
    return f"at `${''.join(reversed(parts))}`"


def _normalize(value: object, what: str, path: _Path, depth: int) -> object:
    match value:
        case None | bool():
            return value
        case str():
            return _text(value, what, path)
        case int() | float():
            return _number(value, what, path)
        case list() | tuple() | dict() if not depth:
            raise Malformed(what, f"nested more than {MAX_NESTING} deep - {_at(path)}")
        case list() | tuple():
            return [_normalize(v, what, (path, i), depth - 1) for i, v in enumerate(value)]
        case dict():
            return {
                _name(k, what, path): _normalize(v, what, (path, k), depth - 1)
                for k, v in value.items()
            }
        case _:
            raise Malformed(what, f"{type(value).__name__} is not JSON - {_at(path)}")


def _name(value: object, what: str, path: _Path) -> str:
    if not isinstance(value, str):
        raise Malformed(what, f"a member's name is no string - {_at(path)}")
    return _text(value, what, path)


def _text(value: str, what: str, path: _Path) -> str:
    # The path may contain a name with a lone surrogate: print it escaped.
    if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        raise Malformed(what, f"a lone surrogate - {ascii(_at(path))[1:-1]}")
    return value


def _number(value: float, what: str, path: _Path) -> float:
    if not math.isfinite(value):
        raise Malformed(what, f"a number that no double holds - {_at(path)}")
    # RFC 8785 writes 1e20 with all its digits, and readers parse those as an integer.
    whole = isinstance(value, int) or (value.is_integer() and abs(value) < DIGITS)
    if whole and abs(value) >= INTEGER_LIMIT:
        raise Malformed(what, f"an integer of 2^53 or more - {_at(path)}")
    return int(value) if whole else value
