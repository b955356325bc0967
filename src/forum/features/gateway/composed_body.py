"""Write the JSON of a request anew, so that the provider reads what the gateway has checked.

What is sent is composed first and checked afterwards: the bytes that are checked are the bytes that
are sent.  Numbers and strings keep their spelling (`1.0`, `1e400`, escapes), members their order.
Whatever two parsers could read in two ways is refused: a member that is there twice, a name with a
NUL, half of a surrogate pair, `NaN`, bytes that are not UTF-8, a compressed body, another charset.

All of it are pure functions of bytes, so that they can run in another thread or process.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from forum.features.gateway.refusals import CallRefused, RefusalReason
from forum.runs.strict_json import reject_constant, reject_twins, show_name

JSON_TYPE = "application/json"
_CHARSET = re.compile(r";\s*charset\s*=\s*(\"[^\"]*\"|[^;\s]*)", re.IGNORECASE)
_UTF8 = frozenset({"utf-8", "utf8"})
_SURROGATES = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_HALF_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_ESCAPED_BACKSLASH = rb"\\"
_MAX_DIGITS = 4300
"""Digits of the longest whole number that Python reads."""


class ComposedBody(NamedTuple):
    """JSON as it is sent, and its value."""

    data: bytes
    value: Any


def check_media(content_type: str, encoding: str) -> str:
    """Return the media type of a body, without parameters.

    Raises `CallRefused` for a body that is compressed, or is to be read in another charset: the
    provider would read another text than the gateway.
    """
    if encoding.strip().lower() not in ("", "identity"):
        raise refuse_body(f"its Content-Encoding is {show_name(encoding)}; send it without")
    charsets = [charset.strip('"').lower() for charset in _CHARSET.findall(content_type)]
    if content_type.lower().count("charset") != len(charsets) or not _UTF8.issuperset(charsets):
        raise refuse_body("its charset is not utf-8; send it as application/json")
    return content_type.partition(";")[0].strip().lower()


def compose_body(body: bytes) -> ComposedBody:
    """Return the JSON of a request written anew.

    Raises `CallRefused` for what is no JSON, and for what two parsers could read in two ways.
    """
    try:
        body.decode()
    except UnicodeDecodeError:
        raise refuse_body("it is no UTF-8") from None
    has_escapes = b"\\u" in body
    if has_escapes and _has_half_surrogate(body):
        raise refuse_body("a string in it has half of a surrogate pair")
    try:
        data = msgspec.json.format(body, indent=-1)
        # Not msgspec, which silently takes one of two members with the same name.  The numbers of
        # Python hold every number but the very large, and those are limits of nothing.
        value = json.loads(
            data.decode(),
            object_pairs_hook=_reject_twins_and_nul if has_escapes else reject_twins,
            parse_constant=reject_constant,
        )
    except RecursionError:
        raise refuse_body("its objects and lists are too deep inside of each other") from None
    except (msgspec.MsgspecError, ValueError) as error:
        is_long = str(error).startswith("Exceeds the limit")
        why = f"a number in it has more than {_MAX_DIGITS} digits" if is_long else str(error)
        raise refuse_body(why) from None
    return ComposedBody(data, value)


def set_inner_member(data: bytes, names: Sequence[str], value: object) -> bytes:
    """Do the same as `set_member` within objects, each of which is added if there is none."""
    name, *inner = names
    if not inner:
        return set_member(data, name, value)
    member = bytes(msgspec.json.decode(data, type=dict[str, msgspec.Raw]).get(name, b"null"))
    changed = set_inner_member(b"{}" if member == b"null" else member, inner, value)
    return set_member(data, name, msgspec.Raw(changed))


def set_member(data: bytes, name: str, value: object) -> bytes:
    """Return a composed object with one member set, and every other value unchanged."""
    members = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    encoded = msgspec.Raw(msgspec.json.encode(value))
    if name in members:
        return msgspec.json.encode({**members, name: encoded})
    first = msgspec.json.encode({name: encoded})[:-1]
    return first + (b"," if members else b"") + data[1:]


def refuse_body(why: str) -> CallRefused:
    """Return the refusal of a body that can be read in two ways, or not at all."""
    return CallRefused(RefusalReason.MALFORMED, f"this request is refused: {why}.")


def _has_half_surrogate(body: bytes) -> bool:
    # Escaped backslashes first: two of them before `ud800` are a backslash and five letters.
    bare = body.replace(_ESCAPED_BACKSLASH, b".")
    return _HALF_SURROGATE.search(_SURROGATES.sub(b"", bare)) is not None


def _reject_twins_and_nul(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    for name, _ in pairs:
        if "\0" in name:
            # A program in C would take it for the name before the NUL.
            raise ValueError(f"it has the member {show_name(name)!r}, with a NUL in its name")
    return reject_twins(pairs)
