"""The check of an answer's words: what it flags, what it leaves alone, and how long it takes."""

import re
import sys
import time
import unicodedata
from hashlib import sha256

import pytest

from forum.runs.coverage import MAX_COMPARED_CHARS, CoverageFinding, check_coverage, find_terms

NONSENSE = (
    "The specialist finds and fixes weaknesses in systems, deals with leaks, phishing and other "
    "attacks on companies, and reports to the management."
)


@pytest.mark.parametrize(
    ("request_text", "answer", "finding"),
    [
        ("How long is the Danube?", "bananas", CoverageFinding.NO_NUMBER),
        ("Wie lang ist die Donau?", "Bananen", CoverageFinding.NO_NUMBER),
        ("What is the capital of France?", "bananas", CoverageFinding.OFF_TOPIC),
        ("Explain photosynthesis and how plants use light.", "Done.", CoverageFinding.OFF_TOPIC),
        ("What is the capital of France?", "I do not know.", CoverageFinding.OFF_TOPIC),
        (
            "What is the capital of France?",
            "Ripe bananas are rather soft.",
            CoverageFinding.OFF_TOPIC,
        ),
        (
            "Which high-availability setup for Postgres is best?",
            NONSENSE,
            CoverageFinding.OFF_TOPIC,
        ),
        (
            "Welche Hochverfügbarkeit empfiehlst du für PostgreSQL, mit welchen Risiken?",
            (
                "Die Fachkraft findet und behebt Schwächen, kümmert sich um Lecks, um Phishing und "
                "um andere Angriffe auf Unternehmen."
            ),
            CoverageFinding.OFF_TOPIC,
        ),
        ("多瑙河有多长?", "香蕉是一种水果", CoverageFinding.OFF_TOPIC),
        ("Compare the Elbe with the Oder.", "compare the elbe with the oder", CoverageFinding.ECHO),
    ],
)
def test_an_answer_about_something_else_is_flagged(
    request_text: str, answer: str, finding: CoverageFinding
) -> None:
    """Short or long, in English, German and a script without spaces."""
    assert check_coverage(request_text, answer).finding is finding


@pytest.mark.parametrize(
    ("request_text", "answer"),
    [
        ("How long is the Danube?", "2,850 km"),
        ("How long is the Danube?", "about two thousand eight hundred kilometres"),
        ("Wie lang ist die Donau?", "etwa 2857 Kilometer"),
        ("Wie lang ist die Donau?", "Die Donau ist länger als der Rhein."),
        ("Name three rivers.", "Elbe, Oder, Rhine"),
        ("Wer schrieb den Faust?", "Goethe"),
        ("Wer schrieb den Faust?", "Das war der alte Goethe."),
        ("Is the sky blue?", "yes"),
        ("What is 2 + 2?", "4"),
        ("多瑙河有多长?", "多瑙河长2850公里"),
        (
            "Prüfe die Häuser.",
            "Das Haus ist in Ordnung: kein Zimmer ist feucht, kein Dach undicht.",
        ),
        ("Write a function that adds two numbers.", "def add(a, b):\n    return a + b"),
        (
            "Résumé: où est l'école ?",
            "L'ECOLE est pres de la gare, derriere le grand parc, a gauche.",
        ),
        ("", NONSENSE),
    ],
)
def test_a_right_answer_is_not_flagged(request_text: str, answer: str) -> None:
    """Terse answers share no word with their request, and inflection changes words."""
    assert not check_coverage(request_text, answer).is_flagged


def test_what_is_not_mentioned_is_named_in_words_of_the_request() -> None:
    """A reader sees at once whether the flag is right."""
    coverage = check_coverage("Which risks has Patroni?", NONSENSE)

    assert coverage.describe() == (
        "The answer mentions 0 of the 2 terms of the request. Not mentioned: risks, patroni."
    )


@pytest.mark.parametrize(
    "unit",
    ["a\u0301\u0327\u0316", "word ", "多", "?", "```\n", "ä", "a.b?", "How long is it? ", "\ufdfa"],
)
def test_the_time_grows_with_the_text_and_no_faster(unit: str) -> None:
    """Both texts come from strangers: marks to sort, questions to find, words to cut."""

    def seconds(size: int) -> float:
        text = (unit * size)[:size]
        begun = time.process_time()
        check_coverage(text, text + " other")
        return time.process_time() - begun

    small = max(min(seconds(MAX_COMPARED_CHARS // 10) for _ in range(3)), 0.001)
    assert min(seconds(MAX_COMPARED_CHARS) for _ in range(2)) < 60 * small
    assert len(find_terms(unit * 100)) <= 100


def test_every_release_of_python_reads_the_characters_in_the_same_way() -> None:
    """The digest is over all that the check asks about each character that it looks at.

    A Python for which it differs would find a flag of another one to be made up.
    """
    ucd, digest = unicodedata.ucd_3_2_0, sha256()
    for number in range(sys.maxunicode + 1):
        character = chr(number)
        if ucd.category(character) in ("Cn", "Cs"):
            continue
        asked = (
            character.casefold(),
            unicodedata.normalize("NFKD", character.casefold()),
            unicodedata.category(character)[0] == "M",
            bool(re.match(r"[^\W_]", character)),
            bool(re.match(r"\w", character)),
            character.islower(),
            character.isdigit(),
        )
        digest.update(repr((number, asked)).encode())
    assert digest.hexdigest()[:32] == "50ba455a3d27c655694f1ff6d76acef9"


def test_a_character_that_only_newer_pythons_know_is_no_part_of_a_word() -> None:
    """U+1C89 is a letter since Unicode 16."""
    with_new = check_coverage("Describe harbour\u1c89towers", "The harbour has towers.")
    assert with_new == check_coverage("Describe harbour towers", "The harbour has towers.")
