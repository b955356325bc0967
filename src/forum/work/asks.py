"""Asks: the parts of a request that an answer has to meet, as far as code can find them."""

import re

_FENCE = re.compile(r"(?ms)^(```|~~~).*?^\1[^\n]*$")
_SENTENCE = re.compile(r"[^.?!\n]+(?:[.?!](?=\S)[^.?!\n]+)*[.?!]?")
_WORD = re.compile(r"\w+")
_MAX_QUESTIONS, _MAX_QUESTION_CHARS = 16, 400
_MIN_ECHOED_WORDS = 4
_MIN_QUOTED_SHARE = 0.8
"""The share of a quotation's words that must stand in the text: judges quote inexactly."""


def find_questions(request: str) -> tuple[str, ...]:
    """Return the questions of a request outside of code blocks, in their order."""
    sentences = (match.group().strip() for match in _SENTENCE.finditer(_FENCE.sub("", request)))
    questions = (
        " ".join(sentence.split())
        for sentence in sentences
        if sentence.endswith("?") and len(sentence) <= _MAX_QUESTION_CHARS
    )
    return tuple(dict.fromkeys(questions))[:_MAX_QUESTIONS]


def is_echo(request: str, answer: str) -> bool:
    """Tell whether an answer only repeats the request, or its questions.

    A short request such as a greeting may well have itself as its answer.
    """
    words, asked = _normalize(answer), _normalize(request)
    if not words or len(asked.split()) < _MIN_ECHOED_WORDS:
        return False
    rest = words
    for question in find_questions(request):
        rest = rest.replace(_normalize(question), " ")
    return words == asked or not rest.split()


def is_quoted_from(span: str, text: str) -> bool:
    """Tell whether a span stands in a text, apart from spaces, case and punctuation."""
    words, quoted = _normalize(span), _normalize(text)
    if not words:
        return False
    if f" {words} " in f" {quoted} ":
        return True
    there = set(quoted.split())
    shared = sum(1 for word in words.split() if word in there)
    return shared >= _MIN_QUOTED_SHARE * len(words.split())


def is_repetition(span: str, ask: str) -> bool:
    """Tell whether a span is the ask itself, word for word."""
    return _normalize(span) == _normalize(ask)


def _normalize(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))
