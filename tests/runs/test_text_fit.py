"""Token estimates are near a real tokenizer, and excerpts keep what a task needs."""

import pytest

from forum.runs import text_fit

MEASURED = {
    "The crew met before lunch and talked about the old pump, which had leaked again during the "
    "night. Nobody could say why the valve had been left open, but everyone agreed that it should "
    "be replaced before the winter.": 43,
    "Die Verbraucherzentralen begrüßten die Entscheidung, wiesen jedoch auf lange "
    "Bearbeitungszeiten und fehlende Unterlagen hin.": 38,
    'def total(items: list[Item]) -> int:\n    """Return the sum."""\n'
    "    return sum(item.price * item.count for item in items if item.count > 0)\n": 41,
    "117756281a42596cc8df61866156ce84 0163eb1b867da62f8f8d07146f56d181": 33,
    "| 17 | 23.29 | ok |\n| 18 | 24.66 | ok |\n| 19 | 26.03 | ok |\n": 30,
    "@@ -17,4 +17,3 @@ def load():\n-    if not token:\n-        raise ValueError(token)\n"
    "+    token = read(path)\n     return token\n": 41,
}
"""Texts, with the number of tokens that the tokenizer of the anthropic package 0.20 counts."""


@pytest.mark.parametrize(("text", "tokens"), MEASURED.items())
def test_the_estimate_is_near_what_a_real_tokenizer_counts(text: str, tokens: int) -> None:
    """Too low, a provider refuses the prompt; too high, a request that fits is cut."""
    assert 0.9 * tokens <= text_fit.estimate_tokens(text.encode()) <= 1.35 * tokens


def test_a_section_is_found_by_its_heading() -> None:
    """The paragraphs of a section seldom repeat its name."""
    prose = "Nothing of interest happened in this part of the year, as far as anyone knows. " * 6
    sections = {
        name: f"## {name}\n\n{prose}\n\nThe {name[0]} value." for name in ("Ada", "Bob", "Cyd")
    }
    text = "Tell me all.\n\n" + "\n\n".join((*sections.values(), prose))

    shown = text_fit.excerpt_by_relevance(text.encode(), "section Bob", 500).text

    assert b"The B value." in shown
    assert b"The A value." not in shown


def test_an_excerpt_names_the_section_of_what_it_shows() -> None:
    """Without the heading, a reader takes a passage for a part of the section before it."""
    filler = "\n\n".join(
        f"Remark {number} on the usual routine of the house." for number in range(9)
    )
    text = f"Start.\n\n## Ada\n\nThe pump works.\n\n## Bob\n\n{filler}\n\nThe valve leaks.\n\nEnd."

    shown = text_fit.excerpt_by_relevance(text.encode(), "pump valve leaks works", 300).text

    assert (
        shown.index(b"The pump works.") < shown.index(b"## Bob") < shown.index(b"The valve leaks.")
    )


def test_the_lines_of_a_diff_stay_together_and_are_found_by_their_file() -> None:
    """A hunk does not name its file, and single lines of it say nothing."""
    hunk = "@@ -1,3 +1,3 @@\n-    if not key:\n+    if key:\n     return key\n"
    files = [f"--- a/{name}.py\n+++ b/{name}.py\n{hunk * 9}" for name in ("ada", "bob", "cyd")]
    text = "Review it.\n\n" + "".join(files) + "\nEnd."

    shown = text_fit.excerpt_by_relevance(text.encode(), "bob", 700).text

    assert shown.count(b"left out here") <= 3
    assert b"+++ b/bob.py\n@@ -1,3" in shown


SECTIONS = "\n\n".join(
    f"## {name}\n\n" + "The report says nothing of interest about Ada, Bob and Cyd.\n\n" * 9
    for name in ("Ada", "Bob", "Cyd")
)


@pytest.mark.parametrize(
    ("task", "is_named"),
    [
        ("Describe the section Bob.", True),
        ("Compare Ada and Cyd.", True),
        ("Translate the text below into French.", False),
        ("Summarize the report.", False),
        ("Zähle die Wörter der ganzen Seite.", False),
        ("", False),
    ],
)
def test_a_task_needs_the_whole_text_unless_it_names_parts(task: str, *, is_named: bool) -> None:
    """Words that stand everywhere, or nowhere, say nothing about what can be left out."""
    text = f"{task} Do it well.\n\n{SECTIONS}\n\nThank you."

    assert text_fit.names_passages(text.encode(), task) is is_named


def test_a_named_section_comes_before_its_mentions_elsewhere() -> None:
    """Other sections mention a name more often than its own section, which is about it."""
    remark = "Nothing of interest happened there, as far as anyone can tell from the notes."
    parts = [
        "Start.",
        *("## Ada", *[f"{remark} Bob knew."] * 9),
        *("## Bob", *[remark] * 8, "The value of this is 7."),
        *("## Cyd", *[f"{remark} Bob left."] * 9),
        "End.",
    ]
    text = "\n\n".join(parts).encode()

    by_words, by_section = (
        text_fit.excerpt_by_relevance(text, "section Bob", 400, by_section=is_on).text
        for is_on in (False, True)
    )

    assert by_section.count(b"Bob knew.") < by_words.count(b"Bob knew.")
    assert b"The value of this is 7." in by_section
    assert b"The value of this is 7." not in by_words
