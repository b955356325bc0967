"""The page of `forum --help`, and what `forum` alone prints: where to begin."""

import textwrap
from collections.abc import Iterator, Mapping

from forum.surfaces.cli.console import style

DOORS = {
    "cap and record the agent you have": "forum run --max-usd 5 -- python agent.py",
    "let Forum run it": 'forum submit "Name three rivers."',
    "check what somebody else ran": "forum verify run.zip --policy trust",
}
"""The three ways to use Forum, each with a command that begins it."""
WAYS_TO_BEGIN = {
    **DOORS,
    "look at it: the dashboard": "forum up --open",
    "see sample runs, without an account": "forum demo --open",
}
_WIDTH = 80
_TITLE_WIDTH, _NAME_WIDTH = 7, 12
_TEXT_WIDTH = 25
MAX_SUMMARY = _TEXT_WIDTH - 2
"""The longest summary of a command: two commands share a line of 80 columns."""

Sections = Mapping[str, Mapping[str, tuple[str, str]]]


def first_steps() -> str:
    """Return what `forum` without a command prints."""
    lines = ["Forum caps, runs and records AI agents.  Begin with one of these:", ""]
    for purpose, command in DOORS.items():
        lines += [f"  {purpose[0].upper()}{purpose[1:]}:", f"      {command}", ""]
    return "\n".join([*lines, "`forum demo --open` shows sample runs.  All commands: forum --help"])


def help_page(summary: str, sections: Sections, statuses: str) -> str:
    """Return the whole page: ways to begin, commands in groups, options, exit statuses."""
    return "\n".join(
        [
            "Usage: forum COMMAND [OPTIONS]       `forum COMMAND --help` explains a command",
            "",
            summary,
            "",
            style("Begin", bold=True),
            *_ways_to_begin(),
            "",
            *(line for title, commands in sections.items() for line in _group(title, commands)),
            "",
            f"{'':<{_TITLE_WIDTH}}-q, --quiet  Print only errors and prompts on stderr",
            f"{'':<{_TITLE_WIDTH}}--version    Print the version",
            "",
            *textwrap.wrap(statuses, _WIDTH, subsequent_indent=" " * _TITLE_WIDTH),
        ]
    )


def _ways_to_begin() -> Iterator[str]:
    width = max(map(len, WAYS_TO_BEGIN.values()))
    for purpose, command in WAYS_TO_BEGIN.items():
        yield f"  {command:<{width}}  {purpose}"


def _group(title: str, commands: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """Yield the commands of a group, two on a line, with the title before the first."""
    cells = [
        f"{name:<{_NAME_WIDTH}}{summary:<{_TEXT_WIDTH}}"
        for name, (_module, summary) in commands.items()
    ]
    lead = style(f"{title:<{_TITLE_WIDTH}}", bold=True)
    for number in range(0, len(cells), 2):
        yield lead + "".join(cells[number : number + 2]).rstrip()
        lead = " " * _TITLE_WIDTH
