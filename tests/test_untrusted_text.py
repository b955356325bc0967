"""Text that others wrote, on a terminal and in HTML."""

import json
import re
import unicodedata
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.untrusted_text import (
    HIDDEN_RANGES,
    JOINERS,
    UntrustedText,
    escape_html,
    escape_line,
    isolate_html,
)
from tests.test_repository import ROOT

_HOSTILE = "\x00\x07\x08\t\n\r\x1b\x7f\x9b\u061c\u200b\u200e\u2028\u202e\u2066\u2069\ufeff\ud800"
_text = st.text(st.one_of(st.characters(), st.sampled_from(_HOSTILE + "e\u0301\u200d\ufe0f\u2764")))


def _is_listed(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in HIDDEN_RANGES)


@given(_text)
def test_a_line_holds_nothing_that_a_terminal_obeys_or_nobody_sees(text: str) -> None:
    """Joiners stand only where they join; everything else of the table is a visible escape."""
    line = escape_line(text)
    assert "\n" not in line
    assert not any(
        unicodedata.category(each) in ("Cc", "Cf", "Cs", "Zl", "Zp") for each in set(line) - JOINERS
    )
    assert not any(map(_is_listed, set(line) - JOINERS))
    assert not line or unicodedata.category(line[0])[0] != "M"
    assert str(UntrustedText(text)) == f"{UntrustedText(text)}" == line
    line.encode()


@given(_text)
def test_html_holds_no_markup_and_no_hidden_character(text: str) -> None:
    """And what is visible is all there."""
    shown = escape_html(text)
    assert not re.search(r"""[<>"']|&(?!(amp|lt|gt|quot|#x27);)""", shown)
    assert not any(map(_is_listed, shown))
    assert isolate_html(text) == f"<bdi>{chr(10).join(map(escape_html, text.split(chr(10))))}</bdi>"
    kept = [each for each in text if each not in "\t\n" and not _is_listed(each)]
    rest = iter(unescape(shown))
    assert all(each in rest for each in kept)


@pytest.mark.parametrize(
    "text", ["plain", "漢字 ✓ é", "e\u0301", "\u2764\ufe0f", "\u0915\u094d\u200d\u0937"]
)
def test_what_people_write_stays_as_it_is(text: str) -> None:
    """Emoji, accents and scripts need marks and joiners."""
    assert escape_line(text) == text


def test_a_pile_of_marks_is_cut() -> None:
    """It would cover the lines above."""
    assert escape_line("a" + 20 * "\u0301").count("\u0301") == 8


def test_no_format_of_untrusted_text_is_raw() -> None:
    """Width, alignment, repr, and the containers that use repr."""
    hostile = UntrustedText("\x1b[2J\u202e")
    for shown in (
        f"{hostile:>20}",
        f"{hostile!r}",
        repr([hostile]),
        f"{hostile!s}",
    ):
        assert "\\x1b[2J" in shown.replace("\\\\", "\\")
        assert shown.isprintable()


def test_the_table_has_every_control_and_format_character() -> None:
    """One that a new release of Unicode adds must be added."""
    missing = [
        f"{code:04X}"
        for code in range(0x110000)
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        and chr(code) not in "\t\n"
        and not _is_listed(chr(code))
    ]
    assert missing == []


def test_the_dashboard_has_the_same_table() -> None:
    """It is built without Python."""
    listed = json.loads((ROOT / "web/src/model/hidden_characters.json").read_text())
    ranges = tuple((int(first, 16), int(last, 16)) for first, last in listed["ranges"])
    assert ranges == HIDDEN_RANGES
    assert {chr(int(joiner, 16)) for joiner in listed["joiners"]} == JOINERS


def test_the_page_that_verifies_has_the_same_table() -> None:
    """It shows texts of bundles, and is one file without Python."""
    source = (ROOT / "src/forum/features/evidence/verify_page/text.js").read_text()
    listed = re.findall(r"\\u\{([0-9A-F]+)\}-\\u\{([0-9A-F]+)\}", source)
    assert tuple((int(first, 16), int(last, 16)) for first, last in listed) == HIDDEN_RANGES
