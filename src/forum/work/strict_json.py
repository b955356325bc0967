"""JSON that can be read in one way only.

Two parsers may read the same text differently: one takes the first of two members with one name and
the other the last, and some servers take `Name` for `name`.  Whoever checks a message that another
program will read must refuse such a text, or the check is about another message.
"""

import json
import math
import unicodedata
from collections.abc import Callable, Collection, Iterable
from typing import Any, NoReturn

_SHOWN_CHARS = 100


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


def check_names(members: Iterable[str], known: Collection[str]) -> None:
    """Raise `ValueError` for `Max_Tokens` where `max_tokens` is known.

    Some servers take one for the other, or fold other letters so.
    """
    for name in members:
        if name not in known and (folded := fold_name(name)) in known:
            raise ValueError(f"it has the member {show_name(name)!r}; write {folded!r}")


def fold_name(name: str) -> str:
    """Return a form that is equal for names that differ only in case or width."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


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
