"""Text from elsewhere on a terminal."""

import time

import pytest

from forum.app.formatting import strip_control_characters
from forum.surfaces.cli.output import wrap_lines


@pytest.mark.parametrize("piece", [" ", "a", "a ", "\t", "-", "漢"])
def test_wrapping_leaves_out_only_spaces_and_its_time_grows_with_the_length(piece: str) -> None:
    """Content that waits for a decision is shown whole, also if it is one long line."""

    def wrap_seconds(length: int) -> float:
        text = piece * length
        began = time.process_time()
        lines = wrap_lines(text, 80, "  ")
        seconds = time.process_time() - began
        assert "".join("".join(lines).split()) == "".join(text.split())
        assert max(map(len, lines), default=0) < 80
        return seconds

    assert any(wrap_seconds(200_000) < 8 * max(0.01, wrap_seconds(50_000)) for _ in range(3))


@pytest.mark.parametrize(
    "hidden",
    [
        "\u200b",
        "\u202e",
        "\ufe00",
        "\U000e0100",
        "\u034f",
        "\u2800",
        "\u3164",
        "\u115f",
        "\u009b",
        "\U0001d159",
        "\U00016fe4",
    ],
    ids=ascii,
)
def test_no_character_is_printed_that_nobody_sees(hidden: str) -> None:
    """A text that is approved at a terminal holds nothing that its reader does not see."""
    assert strip_control_characters(f"a{hidden}b") == "a\ufffdb"


def test_characters_that_join_others_stay_where_they_join() -> None:
    """Emoji and scripts need them; behind a letter they only hide something."""
    for text in ("\u2764\ufe0f", "\U0001f468\u200d\U0001f469", "\u0915\u094d\u200d\u0937", "a\nb"):
        assert strip_control_characters(text) == text
    assert (
        strip_control_characters("\u2764\ufe0f\u200d\U0001f525") == "\u2764\ufe0f\u200d\U0001f525"
    )
    assert strip_control_characters("a\u200db") == "a\ufffdb"
    assert strip_control_characters("\u2764\ufe0f\ufe0e\ufe0f") == "\u2764\ufe0f\ufffd\ufffd"
