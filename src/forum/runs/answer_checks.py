"""Checks of an answer by code: coverage of the request, length, and facts lost in a revision."""

import re
from collections.abc import Iterator

MIN_COVERAGE = 0.5
"""The share of the request's terms that an answer should mention."""
MAX_CONCISE_WORDS = 220
"""The number of words up to which no shorter answer is requested."""
_STEM_CHARS = 5

_WORD = re.compile(r"[^\W\d_]{4,}")
_NEGATIONS = ("no", "not", "never", "only", "must", "except", "unless")
# All repetitions are bounded, so that no text takes more than linear time.
_FACT = re.compile(
    r"`[^`\n]{1,200}`"  # code
    r"|\[[A-Za-z0-9][A-Za-z0-9_.-]{0,39}\]"  # a reference to a result
    r"|https?://[^\s)>\]]{1,500}"
    r"|(?:(?<!\w)[-\u2212])?\b\d[\d.,:/%-]{0,40}"
    rf"|\b(?:{'|'.join(_NEGATIONS)})\b",
    re.IGNORECASE,
)
_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        about after also another been before being could does doing each else every from give have
        here into just like make many more most much need only other over please same should show
        some such tell than that their them then there these they this those through under very want
        were what when where which while will with would write your explain describe find help
        answer question request sentence sentences words short brief
        """,
    )
)


def terms_of(text: str) -> frozenset[str]:
    """Return the stems of the significant words of a text."""
    words = (match.group().casefold() for match in _WORD.finditer(text))
    return frozenset(word[:_STEM_CHARS] for word in words if word not in _STOP_WORDS)


def term_coverage(request: str, answer: str) -> float:
    """Return the share of the request's terms that occur in the answer."""
    wanted = terms_of(request)
    return len(wanted & terms_of(answer)) / len(wanted) if wanted else 1.0


def is_long(answer: str) -> bool:
    """Tell whether an answer is so long that a shorter one is worth a call."""
    return len(answer.split()) > MAX_CONCISE_WORDS


def find_lost_facts(request: str, before: str, after: str) -> tuple[str, ...]:
    """Return what a revision has lost: terms of the request, and facts of the answer.

    Facts are recognised without understanding the text: numbers, code, references and URLs.
    Negations and restrictions such as "not" and "only" must occur as often as before, because
    dropping one reverses a sentence.
    """
    # A term that the longer answer lacked as well is not a fault of the revision.
    terms = (terms_of(request) & terms_of(before)) - terms_of(after)
    facts = _count_facts(before)
    remaining = _count_facts(after)
    missing = [
        fact
        for fact, times in facts.items()
        if remaining.get(fact, 0) < (times if fact in _NEGATIONS else 1)
    ]
    return (*sorted(terms), *sorted(missing))


def _count_facts(text: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for fact in _facts(text):
        counts[fact] = counts.get(fact, 0) + 1
    return counts


def _facts(text: str) -> Iterator[str]:
    for match in _FACT.finditer(text):
        yield match.group().casefold().rstrip(".,:;-/")


_ANY_MARK = re.compile(
    rb"^--- (?:[0-9]{8}|[0-9a-f]{32}) (?:begin: [^\n]*|end)[ \t]*$", re.MULTILINE
)


def has_marks(text: bytes) -> bool:
    """Tell whether a text has a line that looks like the mark of a quotation."""
    return _ANY_MARK.search(text) is not None
