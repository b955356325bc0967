"""JSON that can be read in one way only.

Two parsers may read the same text differently: one takes the first of two members with one name and
the other the last, and some servers take `Name` for `name`.  Whoever checks a message that another
program will read must refuse such a text, or the check is about another message.
"""

import json
import math
import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NoReturn

from forum.runs.unicode_forms import normalize_text

MAX_NAME_CHARS = 256
_SHOWN_CHARS = 100
_BLANK = re.compile(r"[ \t\r\n]*")
_BLANKS = re.compile(r'("(?:[^"\\]|\\.)*")|[ \t\r\n]+')
"""A string, which is kept, or blanks between tokens."""
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_ESCAPES = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.")


def reject_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object.  Raises `ValueError` if a name is there twice."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError(f"it has the member {show_name(_find_twin(pairs, str))!r} twice")
    return members


def reject_folded_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object.  Raises `ValueError` if two names differ only in form."""
    if len({fold_name(name) for name, _ in pairs}) != len(pairs):
        raise ValueError(f"it has the member {show_name(_find_twin(pairs, fold_name))!r} twice")
    return dict(pairs)


def reject_constant(name: str) -> NoReturn:
    """Raise `ValueError`: `NaN` and the infinities are no JSON, though Python reads them."""
    raise ValueError(f"{name} is no JSON")


def parse_strictly(data: bytes) -> Any:  # noqa: ANN401  any JSON
    """Return the only value in UTF-8 bytes.

    Raises `ValueError` for more than one value, a member that is there twice, and numbers that a
    double cannot hold; and `RecursionError`.
    """
    # Decoded here: the parser would take bytes for UTF-16 where they look like it.
    return json.loads(
        data.decode(),
        object_pairs_hook=reject_twins,
        parse_constant=reject_constant,
        parse_float=_parse_finite,
    )


def write_compactly(text: str) -> str:
    """Return a JSON text on one line of ASCII, without blanks between its tokens.

    Numbers keep their spelling and strings their value.  Some readers take a carriage return, or
    U+2028 and the like in a string, for the end of a line.
    """
    return _NOT_ASCII.sub(_escape, _BLANKS.sub(r"\1", text))


def write_readably(text: str) -> str:
    """Return a JSON text with the same tokens, and letters where it has escapes for them.

    Characters that cannot be seen stay escaped.
    """
    return _ESCAPES.sub(_unescape, _BLANKS.sub(r"\1", text))


def split_members(text: str) -> dict[str, str]:
    """Return the text of each member of an object that `parse_strictly` has accepted."""
    members, at = {}, _skip(text, 0) + 1
    while text[at := _skip(text, at)] != "}":
        name, at = _decode(text, at)
        value = _skip(text, _skip(text, at) + 1)
        _, at = _decode(text, value)
        members[name] = text[value:at]
        at = _skip(text, at)
        at += text[at] == ","
    return members


def split_items(text: str) -> list[str]:
    """Return the text of each item of a list that `parse_strictly` has accepted."""
    items, at = [], _skip(text, 0) + 1
    while text[at := _skip(text, at)] != "]":
        value = at
        _, at = _decode(text, value)
        items.append(text[value:at])
        at = _skip(text, at)
        at += text[at] == ","
    return items


def measure_depth(value: object) -> int:
    """Return how many levels of lists and objects a JSON value has; 0 for a scalar."""
    depth, level = 0, [value]
    while level := [part for part in level if isinstance(part, list | dict)]:
        depth += 1
        level = [
            item for part in level for item in (part.values() if isinstance(part, dict) else part)
        ]
    return depth


def check_names(members: Iterable[str], allowed: frozenset[str]) -> None:
    """Raise `ValueError` for `Max_Tokens` where `max_tokens` is known.

    Some servers take one for the other, or fold other letters so.  A long name is refused too.
    """
    forms = _fold_known(allowed)
    for name in members:
        if len(name) > MAX_NAME_CHARS:
            shown = show_name(name)
            raise ValueError(f"the name of the member {shown!r} is longer than {MAX_NAME_CHARS}")
        if name not in allowed and (form := forms.get(fold_name(name))) is not None:
            raise ValueError(f"it has the member {show_name(name)!r}; write {form!r}")


@cache
def _fold_known(names: frozenset[str]) -> dict[str, str]:
    return {fold_name(name): name for name in names}


def fold_name(name: str) -> str:
    """Return a form that is equal for names that differ only in case or width."""
    return normalize_text("NFKC", normalize_text("NFKC", name).casefold())


def fold_tool_name(name: str) -> str:
    """Return a form that is equal whatever the case, width, blanks and unseen characters.

    Rules compare it: a client may take one name for the other.
    """
    return "".join(c for c in fold_name(name) if c.isprintable()).strip()


def show_name(name: str) -> str:
    """Return a name from a message in a form that can be shown."""
    shown = name if len(name) <= _SHOWN_CHARS else f"{name[:_SHOWN_CHARS]}..."
    return shown.encode(errors="backslashreplace").decode()


def _find_twin(pairs: list[tuple[str, Any]], fold: Callable[[str], str]) -> str:
    seen: set[str] = set()
    for name, _ in pairs:
        if fold(name) in seen:
            return name
        seen.add(fold(name))
    return ""


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{show_name(text)} is too large a number")
    return number


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", errors="surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _unescape(match: re.Match[str]) -> str:
    if match[0][1] != "u":
        return match[0]
    character: str = json.loads(f'"{match[0]}"')
    readable = len(character) == 1 and character > "\x7f" and character.isprintable()
    return character if readable else match[0]


def _skip(text: str, at: int) -> int:
    """Return where the next token begins."""
    match = _BLANK.match(text, at)
    return match.end() if match else at


_decode = json.JSONDecoder().raw_decode
