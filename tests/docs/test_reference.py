"""The reference says what the code says, and leaves nothing out."""

import re

from forum.runs.model_weights import MODEL_WEIGHTS
from forum.verify import Problem
from tests.docs import python_reference
from tests.docs.cli_reference import render
from tests.docs.pages import COMMANDS, FINDINGS, REFERENCE, ROOT


def test_the_reference_of_the_command_line_is_up_to_date() -> None:
    """It is generated: `just docs` writes it anew."""
    written = {path: path.read_text() for path in (REFERENCE, *COMMANDS.iterdir())}

    assert written == render()


def test_the_reference_of_python_is_up_to_date() -> None:
    """It is generated: `just docs` writes it anew."""
    assert python_reference.PAGE.read_text() == python_reference.render()


def test_every_exit_status_of_a_command_is_in_the_list_of_all() -> None:
    """Whoever gets one looks there first: at the head of the page, and at `forum --help`."""
    said = re.findall(
        r"exit status:(.*?)(?:\n\n|\nWith)", "\n".join(render().values()), re.DOTALL | re.IGNORECASE
    )
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

    # A section behind them says what to do.
    assert {claim: explained.get(str(claim)) for claim in problems} == problems
    assert set(explained) - {str(claim) for claim in problems} == {"ways out"}


def test_the_guide_lists_every_file_of_the_weights() -> None:
    """Whoever downloads them by hand compares names, sizes and digests with this page."""
    page = (ROOT / "docs/guides/pull-weights.md").read_text()
    listed = re.findall(r"\| `([\w.-]+)` \| (\d+) \| `([0-9a-f]{64})` \|", page)
    files = [file for model in MODEL_WEIGHTS.values() for file in model.files]

    assert listed == [(file.name, str(file.size), file.sha256) for file in files]
    assert all(f"`{model.repository}`, {model.licence}" in page for model in MODEL_WEIGHTS.values())
