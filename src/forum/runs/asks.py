"""Asks: the parts of a request that an answer has to meet, as far as code can find them."""

import re
from collections.abc import Iterable
from itertools import pairwise

from forum.runs.answer_checks import term_coverage

_FENCE = re.compile(r"(?ms)^(```|~~~).*?^\1[^\n]*$")
_SENTENCE = re.compile(r"[^.?!\n]+(?:[.?!](?=\S)[^.?!\n]+)*[.?!]?")
_WORD = re.compile(r"\w+")
_MAX_QUESTIONS, _MAX_QUESTION_CHARS = 16, 400
_MIN_ECHOED_WORDS = 4
_MIN_QUOTED_SHARE = 0.7
"""The share of a quotation's pairs of words that the text has: judges quote inexactly."""
_ELLIPSIS = re.compile(r"\.{3,}|…")
_MAX_QUESTIONING_CHARS = 2000
"""Above this length a request may hold a document, whose questions nobody asks."""
_MAX_SINGLE_CHARS = 4000
"""Above this length a request is left to a Coordinator, whatever it seems to ask."""
_VERBS = (
    "add analy[sz]e answer assess build calculate check choose classify collect combine compare "
    "compute convert count create decide define deploy describe design develop discuss draft "
    "draw estimate evaluate examine explain extract find fix generate give identify implement "
    "improve investigate list make measure merge migrate name outline plan prepare propose prove "
    "provide rank read recommend refactor remove rename repair report research review rewrite say "
    "search show sketch solve sort state suggest summari[sz]e tell test translate update verify "
    "write "
    "analysiere beantworte begrunde beschreibe begründe berechne bestimme bewerte bau baue entwirf "
    "entwickle erklare erkläre ermittle erstelle finde formuliere gib liste mach mache nenne plane "
    "prufe prüfe sag sage schatze schätze schreib schreibe skizziere suche teste ubersetze "
    "übersetze untersuche vergleiche verbessere wahle wähle zahle zähle zeige fasse empfiehl"
)
_VERB = rf"(?:{'|'.join(_VERBS.split())})"
_ORDER = re.compile(
    rf"(?:please |bitte |then |dann |now |also |first |finally |next )*{_VERB}\b", re.IGNORECASE
)
_JOINED_ORDER = re.compile(
    rf"(?:[,;:]|\band\b|\bthen\b|\bund\b|\bdann\b)\s+(?:then |also |dann |auch )?{_VERB}\b"
    r"|\b(?:and|und|as well as|sowie)\s+(?:what|which|who|when|where|why|how|was|welche[rsnm]?|wer"
    r"|wann|wo|warum|wie)\b",
    re.IGNORECASE,
)
_MANNER = re.compile(
    r"(?:please |bitte )?(?:"
    r"(?:answer|reply|respond|write|say|state|give|list|name|report|show|tell)\s+(?:it|them|nothing|"
    r"only|just|briefly|concisely|(?:me\s+)?(?:in|with|from|as|using|by|at most|no more)\b)"
    r"|(?:give|write|state)\s+(?:the|your)\s+(?:answer|reply|result)\b"
    r"|(?:show|explain|give|state|list|describe)\s+your\s+(?:work|working|steps|reasoning|answer|"
    r"calculations?|sources?)\b"
    r"|antworte\s+(?:in|mit|auf|aus|nur|kurz)\b|schreibe?\s+(?:in|nur|kurz|auf)\b"
    r"|(?:sag|sage|nenne)\s+(?:nichts|nur)\b)",
    re.IGNORECASE,
)
"""An order about the answer itself, such as its length or language: it asks for nothing more."""
_LIST_ITEM = re.compile(r"(?m)^[ \t]*(?:[-*+\u2022]|\(?[0-9a-z]{1,2}[.)])[ \t]+\S")
_NUMBERED_QUESTION = re.compile(
    r"(?m)^[ \t]*(?P<number>[0-9]{1,2})[.)][ \t]+(?P<question>[^\n?]+\?)"
)
_ANSWER_LIST = re.compile(r"(?:[Pp]lease |[Bb]itte )?(?:[Aa]nswer|[Bb]eantworte)\b")
_REFERENCES = frozenset(
    _WORD.findall(
        """
        it its they them their this that these those he she his her him same former latter
        previous above question answer other others another then there er sie es ihr ihre sein
        seine dies diese diesem diesen dieser dieses dort dann derselbe dieselbe dasselbe vorige
        vorigen frage
        """
    )
)
"""Words of a question that may refer to another one."""
MAX_LISTED = 8
"""Above this number of questions, a task for each of them costs too much."""
_MIN_TERM_SHARE = 0.5
"""The share of a question's terms that an answer to it mentions."""


def find_questions(request: str) -> tuple[str, ...]:
    """Return the questions of a request outside of code blocks, in their order."""
    sentences = (match.group().strip() for match in _SENTENCE.finditer(_FENCE.sub("", request)))
    questions = (
        " ".join(sentence.split())
        for sentence in sentences
        if sentence.endswith("?") and len(sentence) <= _MAX_QUESTION_CHARS
    )
    return tuple(dict.fromkeys(questions))[:_MAX_QUESTIONS]


def is_single_ask(request: str) -> bool:
    """Tell whether a request asks for one thing, so that one task does all of it.

    It does if it has one question or one order, and no list. Sentences that ask for nothing, or
    say how to answer, are background. Where the words leave it open, the answer is no: a
    Coordinator decides.
    """
    if len(request) > _MAX_SINGLE_CHARS:
        return False
    text = _FENCE.sub("", request)
    if len(_LIST_ITEM.findall(text)) > 1:
        return False
    sentences = _find_sentences(text)
    sentences = [each for each in sentences if not _MANNER.match(each)] or sentences[:1]
    asking = _find_asking(sentences)
    if not asking:
        return len(sentences) == 1 and not _JOINED_ORDER.search(sentences[0])
    return len(asking) == 1 and not _JOINED_ORDER.search(asking[0])


def _find_sentences(text: str) -> list[str]:
    sentences = (match.group().strip() for match in _SENTENCE.finditer(text))
    return [sentence for sentence in sentences if _WORD.search(sentence)]


def _find_asking(sentences: Iterable[str]) -> list[str]:
    return [each for each in sentences if each.endswith("?") or _ORDER.match(each)]


def is_order(word: str) -> bool:
    """Tell whether a word is a verb that orders something, such as "compare"."""
    return _ORDER.fullmatch(word) is not None


def split_questions(request: str) -> tuple[str, ...]:
    """Return, for each question of a numbered list, the request with this question alone.

    Return nothing unless the list is all that the request asks for, and no question refers to
    another one: then only a Coordinator can say what belongs together.
    """
    if len(request) > _MAX_SINGLE_CHARS:
        return ()
    items = list(_NUMBERED_QUESTION.finditer(request))
    if not 1 < len(items) <= MAX_LISTED or len(_LIST_ITEM.findall(request)) != len(items):
        return ()
    gaps = [request[before.end() : after.start()] for before, after in pairwise(items)]
    numbers = [int(item["number"]) for item in items]
    if "".join(gaps).strip() or numbers != list(range(1, len(items) + 1)):
        return ()
    if any(_REFERENCES & set(_normalize(item["question"]).split()) for item in items):
        return ()
    head, tail = request[: items[0].start()], request[items[-1].end() :]
    around = [*_find_sentences(head), *_find_sentences(tail)]
    if _find_asking(s for s in around if not (_MANNER.match(s) or _ANSWER_LIST.match(s))):
        return ()
    return tuple(f"{head}{item['question']}{tail}" for item in items)


def is_question_list(instructions: Iterable[str], request: str) -> bool:
    """Tell whether these are the instructions of tasks for each question of a request."""
    listed = split_questions(request)
    return bool(listed) and tuple(instructions) == listed


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


def find_ignored_questions(request: str, listed: str, answer: str) -> tuple[str, ...]:
    """Return the questions of a request that neither a list of its asks nor an answer mentions.

    Words of the answer that repeat a question do not count. A long request has none, because its
    questions may belong to a document.
    """
    if len(request) > _MAX_QUESTIONING_CHARS:
        return ()
    questions, rest = find_questions(request), _normalize(answer)
    for question in questions:
        rest = rest.replace(_normalize(question), " ")
    return tuple(
        question
        for question in questions
        if term_coverage(question, listed) < _MIN_TERM_SHARE
        and term_coverage(question, rest) < _MIN_TERM_SHARE
    )


def is_quoted_from(span: str, text: str) -> bool:
    """Tell whether a span stands in a text, apart from spaces, case and punctuation.

    A few words of it may differ, and an ellipsis may stand for words that are left out.
    """
    parts = [words for part in _ELLIPSIS.split(span) if (words := _normalize(part))]
    quoted = _normalize(text)
    return bool(parts) and all(_is_part(words, quoted) for words in parts)


def _is_part(words: str, quoted: str) -> bool:
    if f" {words} " in f" {quoted} ":
        return True
    # Pairs, because single words say too little: those of a made-up answer stand in the question.
    pairs, there = list(pairwise(words.split())), set(pairwise(quoted.split()))
    shared = sum(1 for pair in pairs if pair in there)
    return bool(pairs) and shared >= _MIN_QUOTED_SHARE * len(pairs)


def is_repetition(span: str, ask: str) -> bool:
    """Tell whether a span is the ask itself, word for word."""
    return _normalize(span) == _normalize(ask)


def _normalize(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))
