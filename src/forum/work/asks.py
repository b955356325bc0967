"""Asks: the parts of a request that an answer has to meet, as far as code can find them."""

import re

_FENCE = re.compile(r"(?ms)^(```|~~~).*?^\1[^\n]*$")
_SENTENCE = re.compile(r"[^.?!\n]+(?:[.?!](?=\S)[^.?!\n]+)*[.?!]?")
_WORD = re.compile(r"\w+")
_MAX_QUESTIONS, _MAX_QUESTION_CHARS = 16, 400
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
    """Tell whether an answer only repeats the request, or its questions."""
    words = _normalize(answer)
    if not words:
        return False
    if words == _normalize(request):
        return True
    rest = words
    for question in find_questions(request):
        rest = rest.replace(_normalize(question), " ")
    return rest != words and len(rest.split()) < 2


def is_quoted_from(span: str, text: str) -> bool:
    """Tell whether a span stands in a text, apart from spaces, case and punctuation."""
    words = _normalize(span)
    if not words:
        return False
    if f" {words} " in f" {_normalize(text)} ":
        return True
    there = set(_normalize(text).split())
    shared = sum(1 for word in words.split() if word in there)
    return shared >= _MIN_QUOTED_SHARE * len(words.split())


def is_repetition(span: str, ask: str) -> bool:
    """Tell whether a span is the ask itself, or most of it, word for word."""
    words, ask_words = _normalize(span), _normalize(ask)
    is_part = f" {words} " in f" {ask_words} "
    return is_part and len(words.split()) > max(2, len(ask_words.split()) // 2)


def _normalize(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))
