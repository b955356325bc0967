"""What code can tell of an answer before it is given.

Does it speak of what was asked, is it longer than it need be, has a shorter version lost anything?
"""

import re
from collections.abc import Iterator

MIN_COVERAGE = 0.5
"""The share of the request's words that an answer should take up."""
MAX_CONCISE_WORDS = 220
"""Up to how many words an answer is short enough, whatever it says."""
_STEM_CHARS = 5

_WORD = re.compile(r"[^\W\d_]{4,}")
_NEGATIONS = ("no", "not", "never", "only", "must", "except", "unless")
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
    """Return the beginnings of the words that carry a text."""
    words = (match.group().casefold() for match in _WORD.finditer(text))
    return frozenset(word[:_STEM_CHARS] for word in words if word not in _STOP_WORDS)


def term_coverage(request: str, answer: str) -> float:
    """Return which share of what the request speaks of is spoken of in the answer."""
    wanted = terms_of(request)
    return len(wanted & terms_of(answer)) / len(wanted) if wanted else 1.0


def is_long(answer: str) -> bool:
    """Tell whether an answer is so long that a shorter one is worth asking for."""
    return len(answer.split()) > MAX_CONCISE_WORDS


def find_lost_facts(request: str, before: str, after: str) -> tuple[str, ...]:
    """Return what a revision has lost: terms of the request, and facts of the answer.

    Facts are what can be told apart without understanding: numbers, code, references, addresses,
    and, each time that they stand there, the small words that turn a sentence around.
    """
    terms = (terms_of(request) & terms_of(before)) - terms_of(after)
    facts = _count_facts(before)
    kept = _count_facts(after)
    missing = [
        fact
        for fact, times in facts.items()
        if kept.get(fact, 0) < (times if fact in _NEGATIONS else 1)
    ]
    return (*sorted(terms), *sorted(missing))


def _count_facts(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for fact in _facts(text):
        found[fact] = found.get(fact, 0) + 1
    return found


def _facts(text: str) -> Iterator[str]:
    for match in _FACT.finditer(text):
        yield match.group().casefold().rstrip(".,:;-/")
