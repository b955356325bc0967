"""Names that were probably meant by a misspelled one."""

from collections.abc import Iterable
from difflib import get_close_matches

_SIMILARITY = 0.65
"""From here on a name is taken for a misspelling of another: `prove` and `serve` have 0.6."""


def closest_names(name: str, names: Iterable[str], count: int = 1) -> list[str]:
    """Return the names that `name` may be a misspelling of, the most similar first."""
    # Dashes are left out: they would make all options similar to each other.
    plain = {each.lstrip("-"): each for each in names}
    near = get_close_matches(name.lstrip("-").casefold(), plain, count, _SIMILARITY)
    return [plain[each] for each in near]


def suggest_or_list(name: str, names: Iterable[str]) -> str:
    """Return which name was probably meant, or else all names in order."""
    choices = sorted(names)
    near = closest_names(name, choices)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(choices)}"
