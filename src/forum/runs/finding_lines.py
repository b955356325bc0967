"""Lines of the text that tells what a panel found."""

from collections.abc import Iterator

MAX_FINDINGS = 10
"""How many claims, positions, objections and questions of each kind are told."""
MAX_FINDING_CHARS = 500
"""How much of each is told."""


def list_section(title: str, lines: list[str]) -> Iterator[str]:
    """Yield a title and the first lines of a list, or nothing if it is empty."""
    if lines:
        yield f"{title}:"
        yield from (f"- {line}" for line in lines[:MAX_FINDINGS])
    if len(lines) > MAX_FINDINGS:
        yield f"- and {len(lines) - MAX_FINDINGS} more"


def clip_line(text: str) -> str:
    """Return the beginning of a text as one line."""
    line = " ".join(text[: 2 * MAX_FINDING_CHARS].split())
    return line if len(line) <= MAX_FINDING_CHARS else f"{line[: MAX_FINDING_CHARS - 1]}…"
