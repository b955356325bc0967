"""Whether an answer is about its request, as far as its words show it.

The check is cheap and knows no meaning, so it only flags an answer and never rejects one. It is a
pure function of two texts: a replay and a verifier come to the same finding. All of it takes time
linear in the texts.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum

import msgspec

from forum.runs.asks import is_echo
from forum.runs.unicode_forms import normalize_text

MAX_SHORT_WORDS = 12
"""An answer of so few words may be right without a word of the request: a name, or a number."""
MAX_NEEDED_TERMS = 5
"""How many terms of a request an answer mentions at most to be about it: a request may be long."""
_NEEDED_SHARE = 5
"""An answer of some length mentions at least one of so many terms of the request."""
MAX_COMPARED_CHARS = 100_000
"""How much of each text is compared: its beginning shows what it is about."""
_STEM_CHARS, _KEPT_CHARS = 5, 3
_MAX_NAMED_TERMS = 12
_MAX_NAMED_CHARS = 40
_MAX_NAME_WORDS = 3
"""In an answer of so few words, the first one may be a name."""

_WORD = re.compile(r"[^\W_]+")
# Scripts that write no spaces between words: Thai to Lao, Myanmar, Khmer, Kana, Han.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_QUANTITY = re.compile(
    r"\b(?:how (?:many|much|long|far|old|tall|high|deep|wide|big|large|heavy|fast|often)"
    r"|what (?:year|percentage|number|amount|price)"
    r"|wie (?:viele?|lange?|weit|alt|hoch|tief|breit|gross|schwer|schnell|oft)"
    r"|in welchem jahr)\b"
)
"""A question whose answer is a number, in English or German."""
_NUMBER_WORDS = frozenset(
    _WORD.findall(
        """
        zero none half one two three four five six seven eight nine ten eleven twelve dozen
        hundred thousand million billion once twice never always null keine halb ein eine eins
        zwei drei vier funf sechs sieben acht neun zehn elf zwolf hundert tausend million
        millionen milliarde milliarden einmal zweimal nie immer
        """
    )
)
_OPENING = re.compile(r"(?:^|[.!?:]\s+|\n)[^\w\n]*([^\W_]+)")
_NO_NAMES = frozenset(
    _WORD.findall(
        """
        a an and but done fine he here i it no none not nothing of ok okay ready she so sorry sure
        that the there they this understood we yes you das es fertig ich ja nein nichts
        """
    )
)
"""Words that begin many sentences, and name nothing."""
_STOP_WORDS = frozenset(
    _WORD.findall(
        """
        about after again all also and another any anyone anything are because been before being
        both but can could did does doing down each either else ever every few for from further
        get give given gives had has have having her here his how into its itself just kind let
        like made make many may might more most much must need neither nor not now off once one
        only other our out over own per please same say says shall she should show some such take
        tell than that the their them then there these they this those three through too two under
        until upon use used using very via want was way well were what when where whether which
        while who whom whose why will with within without would yes yet you your answer brief
        briefly compare describe explain find help list name question request sentence sentences
        short shortly summarize text write words aber alle allem allen aller alles als also am
        andere anderen auch auf aus bei beim bin bis bitte damit dann das dass dein deine dem den
        denn der des die dies diese diesem diesen dieser dieses doch dort durch ein eine einem
        einen einer eines einige etwa etwas euch fur gab gegen geht gib gibt haben hat hatte hier
        hin ich ihm ihn ihr ihre immer ist jede jeder jedes jetzt kann kein keine keinen man mehr
        mein meine mich mir mit muss nach nein nicht noch nun nur oder ohne sag sage sehr sein
        seine sich sie sind soll sollte uber und uns unser unsere unter viel viele vom von vor war
        waren was weil welche welchem welchen welcher welches wenn wer werden wie wieder will wir
        wird wollen wurde zum zur zwei zwischen antwort antworte beschreibe erklare frage kurz
        nenne satz satze satzen schreibe vergleiche worte wortern zeige
        """
    )
)


class CoverageFinding(StrEnum):
    """What the words of an answer show."""

    NONE = ""
    """Nothing speaks against it."""
    ECHO = "echo"
    """It repeats the request and says nothing else."""
    OFF_TOPIC = "off-topic"
    """It mentions too few terms of the request."""
    NO_NUMBER = "no-number"
    """A number is asked for, and it is short and has none, nor a term of the request."""


class WordCoverage(msgspec.Struct, frozen=True):
    """How an answer covers the terms of its request."""

    finding: CoverageFinding
    terms: int = 0
    """How many terms the request has."""
    found: int = 0
    """How many of them the answer mentions."""
    missing: tuple[str, ...] = ()
    """Some of the terms that it does not mention, as the request writes them, in lower case."""

    @property
    def is_flagged(self) -> bool:
        """Whether the answer may be about something else."""
        return self.finding is not CoverageFinding.NONE

    def describe(self) -> str:
        """Return the finding in words."""
        if self.finding is CoverageFinding.ECHO:
            return "The answer repeats the request and answers nothing."
        named = f" Not mentioned: {', '.join(self.missing)}." if self.missing else ""
        counted = f"The answer mentions {self.found} of the {self.terms} terms of the request."
        if self.finding is CoverageFinding.NO_NUMBER:
            counted = f"The request asks for a number, and the answer has none. {counted}"
        return counted + named


def check_coverage(request: str, answer: str) -> WordCoverage:
    """Compare the words of an answer with those of its request."""
    request, answer = (
        _without_new_characters(text[:MAX_COMPARED_CHARS]) for text in (request, answer)
    )
    wanted, given = find_terms(request), find_terms(answer)
    missing = [word[:_MAX_NAMED_CHARS] for stem, word in wanted.items() if stem not in given]
    found_count = len(wanted) - len(missing)
    return WordCoverage(
        finding=_find(
            request, answer, found_count, len(wanted), is_comparable=bool(wanted and given)
        ),
        terms=len(wanted),
        found=found_count,
        missing=tuple(missing[:_MAX_NAMED_TERMS]),
    )


def _find(
    request: str, answer: str, found_count: int, terms: int, *, is_comparable: bool
) -> CoverageFinding:
    if is_echo(request, answer):
        return CoverageFinding.ECHO
    if not is_comparable:
        return CoverageFinding.NONE
    words = _WORD.findall(answer)
    if len(words) > MAX_SHORT_WORDS or _UNSPACED.search(answer):
        needed = max(1, min(MAX_NEEDED_TERMS, -(-terms // _NEEDED_SHARE)))
        return CoverageFinding.NONE if found_count >= needed else CoverageFinding.OFF_TOPIC
    if found_count:
        return CoverageFinding.NONE
    if _QUANTITY.search(_fold(request)):
        has_number = any(_is_number(word) for word in words)
        return CoverageFinding.NONE if has_number else CoverageFinding.NO_NUMBER
    # A name, a number or a piece of code can be the whole answer.
    is_named = "`" in answer or _has_name(answer, words)
    return CoverageFinding.NONE if is_named else CoverageFinding.OFF_TOPIC


def _has_name(answer: str, words: list[str]) -> bool:
    """Tell whether a short answer has a number, or a word with a capital that may be a name.

    A sentence begins with a capital, too, so its first word counts only in an answer of few words.
    """
    openings = [] if len(words) <= _MAX_NAME_WORDS else _OPENING.findall(answer)
    counted = Counter(words) - Counter(openings)
    return any(not word.islower() and _fold(word) not in _NO_NAMES for word in counted)


def _is_number(word: str) -> bool:
    return any(character.isdigit() for character in word) or _fold(word) in _NUMBER_WORDS


def find_terms(text: str) -> dict[str, str]:
    """Return the significant words of a text by their stems, each as it occurs first."""
    terms: dict[str, str] = {}
    for word in _words_of(_fold(text)):
        terms.setdefault(_stem(word), word)
    return terms


def _words_of(folded: str) -> Iterator[str]:
    for run in _UNSPACED.findall(folded):
        # Two characters are a word more often than one or three.
        yield from (run[at : at + 2] for at in range(max(1, len(run) - 1)))
    for word in _WORD.findall(_UNSPACED.sub(" ", folded)):
        if len(word) >= _KEPT_CHARS and word not in _STOP_WORDS and not word.isdigit():
            yield word


def _stem(word: str) -> str:
    """Return the beginning of a word, without the endings that inflection adds most often."""
    return word[:_KEPT_CHARS] + word[_KEPT_CHARS:_STEM_CHARS].rstrip("sen")


def _fold(text: str) -> str:
    """Return a text without case, accents and other marks."""
    folded = text.casefold()
    if folded.isascii():
        return folded
    # Marks are removed before letters are decomposed, so that no run of marks has to be sorted:
    # that takes time quadratic in its length.
    return _without_marks(normalize_text("NFKD", _without_marks(folded)))


def _without_new_characters(text: str) -> str:
    """Return a text with spaces in place of characters that are newer than Unicode 3.2.

    Each release of Python knows more characters, and a verifier must come to the same finding as
    the engine. All have the tables of Unicode 3.2, and agree on its characters.
    """
    if text.isascii():
        return text
    unicode_3_2 = unicodedata.ucd_3_2_0
    new = [character for character in set(text) if unicode_3_2.category(character) == "Cn"]
    return text.translate({ord(character): " " for character in new}) if new else text


def _without_marks(text: str) -> str:
    marks = [character for character in set(text) if unicodedata.category(character)[0] == "M"]
    return text.translate(dict.fromkeys(map(ord, marks))) if marks else text
