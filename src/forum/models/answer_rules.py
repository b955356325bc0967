"""Rules on the words of two free-text answers, for what a sentence encoder does not see.

An encoder places "ship it" near "do not ship it", and one date near another.  These rules find such
differences: other numbers or units, another date, the opposite decision, a negation, other names.
They are made for English; in other languages they find numbers, units and names.
"""

import re
import tomllib
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise, takewhile

import msgspec

_MAX_REPLACED = 3
"""Largest number of words that count as one replaced expression."""
_NAME_HEAD = 4
"""How many letters two forms of one name have in common."""
_PREFIXES = ("un", "in", "im", "il", "ir", "dis", "non")
_NEGATION_REACH = 4
"""How many words after a negation it can refer to."""


def _by_word(table: dict[str, str]) -> dict[str, str]:
    return {word: meaning for meaning, words in table.items() for word in words.split()}


_WORD = re.compile(r"\d+(?:[.,:]\d+)*|[$€£%]|[a-z]+'[a-z]+|[^\W\d_]\w*", re.IGNORECASE)
_NAME = re.compile(r"(?<![.!?:;]\s)(?<!^)\b(?!I\b)[A-Z]\w*")
"""A word with a capital letter within a sentence."""
_SUBJECT = re.compile(
    r"\b[A-Z]\w*(?<!s|g)(?<!ion)(?=\s(?:should|must|will|would|can|could|is|was|has|did)\b)"
)
"""A word at the start of a sentence that may be a name, because a verb follows it."""
_TABLES = tomllib.loads((files("forum.models") / "answer_words.toml").read_text("utf-8"))
_NUMBERS = _by_word(_TABLES["numbers"])
_UNITS = _by_word(_TABLES["units"])
_NEGATIONS = frozenset(_TABLES["negations"].split())
_NO_NEGATION = (("enough",), ("only",), ("just",), ("doubt",))
"""Words after "not" or "no" that make it no negation: "not enough" is "too little"."""
_AXES: dict[str, tuple[tuple[int, int], ...]] = {}
for _axis, _sides in enumerate(_TABLES["opposites"]):
    for _sign, _listed in zip((1, -1), _sides, strict=True):
        for _word in _listed.split():
            _AXES[_word] = (*_AXES.get(_word, ()), (_axis, _sign))
_CALENDAR = frozenset(_TABLES["calendar"].split())
_FILLERS = frozenset(_TABLES["fillers"].split())


class _Words(msgspec.Struct, frozen=True):
    """The words of an answer, and what the rules look at."""

    words: tuple[str, ...]
    names: frozenset[str]
    """Lower-case words that are written like names."""

    @property
    def numbers(self) -> frozenset[str]:
        return frozenset(word for word in self.words if word[0].isdigit())

    @property
    def units(self) -> frozenset[str]:
        """The units of the numbers: a unit without a number may be any word."""
        near = {second for first, second in pairwise(self.words) if first[0].isdigit()}
        near |= {first for first, second in pairwise(self.words) if second[0].isdigit()}
        return frozenset(_UNITS[word] for word in near if word in _UNITS)

    @property
    def calendar(self) -> frozenset[str]:
        return frozenset(self.words) & _CALENDAR

    @property
    def stems(self) -> frozenset[str]:
        """The stems of all words."""
        return frozenset(map(_stem, self.words))

    @property
    def content(self) -> list[str]:
        """The words without articles, auxiliary verbs and the like."""
        return [word for word in self.words if word not in _FILLERS or word in self.names]

    def polarity(self) -> tuple[dict[int, int], frozenset[str]]:
        """Return the side taken on each axis of opposites, and the words that are negated.

        A negation turns the next word with an opposite around; one that meets none within its
        reach negates the next word that is not an auxiliary.
        """
        sides: dict[int, int] = {}
        negated: dict[str, bool] = {}
        reach, target = 0, ""
        for place, word in enumerate(self.words):
            is_reply = place == 0 and word in ("yes", "no")
            following = self.words[place + 1 : place + 2]
            if word in _NEGATIONS and not is_reply and following not in _NO_NEGATION:
                _toggle(negated, target)
                reach, target = _NEGATION_REACH + 1, ""
                continue
            axes = _AXES.get(word, ())
            sign = -1 if reach and not is_reply else 1
            for axis, side in axes:
                sides[axis] = side * sign if sides.get(axis, side * sign) == side * sign else 0
            target = target or (_stem(word) if reach and word not in _FILLERS else "")
            reach = 0 if axes else max(0, reach - 1)
            if axes:
                target = ""
            elif not reach:
                _toggle(negated, target)
                target = ""
        _toggle(negated, target)
        return sides, frozenset(word for word, is_odd in negated.items() if is_odd)


def _toggle(negated: dict[str, bool], word: str) -> None:
    """Note one more negation of a word: two of them cancel out."""
    if word:
        negated[word] = not negated.get(word, False)


@lru_cache(maxsize=1000)
def _read_words(answer: str) -> _Words:
    plain = answer.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    words = (match[0].lower() for match in _WORD.finditer(plain))
    names = {match[0].lower() for match in _NAME.finditer(plain)}
    names |= {match[0].lower() for match in _SUBJECT.finditer(plain)} - _FILLERS
    return _Words(
        tuple(_NUMBERS.get(word, word).replace(",", "") for word in words), frozenset(names)
    )


def _stem(word: str) -> str:
    """Return a word without the usual endings of English."""
    for ending in ("ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word


def find_difference(first: str, second: str) -> str:
    """Return the rule by which two answers are different, or "" if only their vectors can tell.

    The rules are `number`, `unit`, `date`, `opposite`, `negation` and `name`.
    """
    first_words, second_words = _split_prefixes(_read_words(first), _read_words(second))
    if _disagree(first_words.numbers, second_words.numbers):
        return "number"
    if _disagree(first_words.units, second_words.units):
        return "unit"
    if _disagree(first_words.calendar, second_words.calendar):
        return "date"
    (sides, negated), (other_sides, other_negated) = first_words.polarity(), second_words.polarity()
    shared = sides.keys() & other_sides.keys()
    if any(sides[axis] * other_sides[axis] < 0 for axis in shared):
        return "opposite"
    # A negation tells something only if the other answer has the negated word, too.
    if (negated - other_negated) & second_words.stems or (
        other_negated - negated
    ) & first_words.stems:
        return "negation"
    return "name" if _has_other_names(first_words, second_words) else ""


def _split_prefixes(first: _Words, second: _Words) -> tuple[_Words, _Words]:
    """Write "ineffective" as "not effective" if the other answer has "effective"."""

    def split(words: tuple[str, ...], others: frozenset[str]) -> tuple[str, ...]:
        parts: list[str] = []
        for word in words:
            prefix = next(
                (p for p in _PREFIXES if word.startswith(p) and word.removeprefix(p) in others), ""
            )
            parts += ["not", word.removeprefix(prefix)] if prefix else [word]
        return tuple(parts)

    return (
        msgspec.structs.replace(first, words=split(first.words, frozenset(second.words))),
        msgspec.structs.replace(second, words=split(second.words, frozenset(first.words))),
    )


def _disagree(first: frozenset[str], second: frozenset[str]) -> bool:
    """Return whether both state something, and each something that the other does not."""
    return bool(first - second) and bool(second - first)


def _has_other_names(first: _Words, second: _Words) -> bool:
    """Return whether each answer names something that the other does not mention at all."""
    return _lacks_name(first.names, second.words) and _lacks_name(second.names, first.words)


def _lacks_name(names: frozenset[str], words: tuple[str, ...]) -> bool:
    """Return whether a name does not occur: "Canadian" mentions "Canada"."""
    heads = {word[:_NAME_HEAD] for word in words}
    return any(
        name not in words and (len(name) < _NAME_HEAD or name[:_NAME_HEAD] not in heads)
        for name in names
    )


def find_replaced_words(first: str, second: str) -> tuple[str, str] | None:
    """Return the words by which alone two answers differ, or None if they differ in more.

    "Invest in solar panels" and "invest in wind turbines" are near each other because all the
    other words are the same, and yet the answer is in the words that are not.
    """
    first_words, second_words = _read_words(first).content, _read_words(second).content
    stems, other_stems = (
        [_stem(word) for word in first_words],
        [_stem(word) for word in second_words],
    )
    start = _count_equal(zip(stems, other_stems, strict=False))
    rest = min(len(stems), len(other_stems)) - start
    end = min(rest, _count_equal(zip(reversed(stems), reversed(other_stems), strict=False)))
    replaced = (
        first_words[start : len(first_words) - end],
        second_words[start : len(second_words) - end],
    )
    if not start + end or not all(0 < len(words) <= _MAX_REPLACED for words in replaced):
        return None
    if {*stems[start : len(first_words) - end]} & {*other_stems[start : len(second_words) - end]}:
        return None  # the same words in another order
    first, second = (" ".join(words) for words in replaced)
    return None if _take_same_side(first, second) else (first, second)


def _take_same_side(first: str, second: str) -> bool:
    """Return whether the words decide the same: "reject" and "do not merge" do."""
    (sides, _), (other_sides, _) = _read_words(first).polarity(), _read_words(second).polarity()
    return any(sides[axis] * other_sides[axis] > 0 for axis in sides.keys() & other_sides.keys())


def have_equal_words(first: str, second: str) -> bool:
    """Return whether two answers have the same words, but for articles, auxiliaries and endings."""
    first_words, second_words = _read_words(first).content, _read_words(second).content
    return bool(first_words) and [_stem(word) for word in first_words] == [
        _stem(word) for word in second_words
    ]


def _count_equal(pairs: Iterable[tuple[str, str]]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
