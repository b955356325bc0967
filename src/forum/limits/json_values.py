"""Check large JSON without decoding it.

This module imports little, because a process that reads a body has to start quickly.
"""

import re
from typing import Final

import msgspec

MAX_LARGE_BODY_VALUES: Final = 200_000
"""Maximum number of values in a body that is first checked in another process: decoding as many
takes a few milliseconds, in which no other thread runs."""
_PART: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[,\[{]', re.DOTALL)


def has_more_values(data: bytes, most: int) -> bool:
    """Return whether JSON may have more values than these: items, members and containers.

    It stops as soon as that is known, and keeps nothing.  A member has a name and may be a text, so
    that there are at most twice as many texts.
    """
    if data.count(b",") + data.count(b"[") + data.count(b"{") < most:
        return False
    values, texts = 1, 0
    for part in _PART.finditer(data):
        if part[0][:1] == b'"':
            texts += 1
        else:
            values += 1
        if values > most or texts > 2 * most:
            return True
    return False


def check_json(data: bytes, most: int) -> str:
    """Return what is wrong with large JSON; nothing if it is quickly decoded.

    It runs in a process of its own, because a decoder holds the interpreter's lock, and a client
    can write a body of millions of values.
    """
    if has_more_values(data, most):
        return f"more than {most} values"
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return f"no valid JSON ({type(error).__name__})"
    return ""
