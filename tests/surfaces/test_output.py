"""Text from elsewhere on a terminal."""

import time

import pytest

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
