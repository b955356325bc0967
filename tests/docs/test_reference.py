"""The reference says what the code says, and leaves nothing out."""

import re

from forum.verify import Problem
from tests.docs.cli_reference import render
from tests.docs.pages import FINDINGS, REFERENCE


def test_the_reference_of_the_command_line_is_up_to_date() -> None:
    """It is generated: `just docs` writes it anew."""
    assert REFERENCE.read_text() == render()


def test_every_exit_status_of_a_command_is_in_the_list_of_all() -> None:
    """Whoever gets one looks there first: at the head of the page, and at `forum --help`."""
    said = re.findall(r"exit status:(.*?)(?:\n\n|\nWith)", render(), re.DOTALL | re.IGNORECASE)
    head, every, *others = (set(re.findall(r"\b[0-9]\b", words)) for words in said)

    assert head == every
    assert set().union(*others) <= every


def test_every_finding_is_explained() -> None:
    """Whoever is shown a finding can look it up, under the word that it takes away."""
    sections = FINDINGS.read_text().split("\n## ")[1:]
    explained = {
        section.split("\n")[0].lower(): re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)
        for section in sections
    }
    problems: dict[str, list[str]] = {}
    for problem in Problem:
        problems.setdefault(problem.claim, []).append(problem)

    assert explained == problems
