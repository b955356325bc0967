"""The pages of the documentation, and what a reader would do with them: save files, paste commands.

A page marks a file with `<!-- file: NAME -->` above a fenced block that holds it.  A console block
shows the exit status of a command where it is not 0, as `status N` below it.  `<!-- output -->`
marks a block with what the last command above it prints; a line `...` stands for any lines.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
REFERENCE = ROOT / "docs/reference/cli.md"
COMMANDS = ROOT / "docs/reference/cli"
FINDINGS = ROOT / "docs/reference/findings.md"

# Every console block of these is run, in order; what stands in other blocks is to be read.
PASTED = {
    "README.md": None,
    "docs/guides/five-minutes.md": None,
    "docs/guides/verify-a-bundle.md": None,
    "docs/guides/verify-in-a-browser.md": None,
    "docs/guides/review.md": None,
    "docs/guides/hand-evidence-to-an-auditor.md": None,
    "docs/guides/redact.md": None,
    "docs/guides/run-a-plan.md": None,
    "docs/guides/cap-the-bill.md": None,
    "docs/guides/measure.md": None,
    "docs/guides/approve.md": None,
    "docs/guides/survive-crashes.md": None,
    "docs/guides/replay-and-fork.md": None,
    "docs/guides/read-the-ledger-in-python.md": None,
    "docs/guides/write-a-verifier.md": None,
    "docs/guides/use-tools.md": None,
    "docs/guides/connect-a-model.md": None,
    "docs/guides/write-a-lane.md": None,
    "docs/guides/give-access.md": None,
    "docs/guides/on-a-laptop.md": None,
    "docs/guides/use-a-chat-client.md": None,
    "docs/guides/deliberate.md": None,
    "docs/guides/let-a-council-decide.md": None,
    "docs/guides/back-up.md": None,
    "docs/guides/use-the-python-client.md": None,
}

FIRST_PAGES = ("README.md", "docs/guides/five-minutes.md")
"""What a newcomer reads."""

_BLOCK = re.compile(
    r"^(?:```console|<!-- output -->\n```text)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL
)
_FILE = re.compile(
    r"^<!-- file: ([\w.-]+) -->\n```[a-z]*\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL
)


def commands(page: str, section: str | None) -> list[str]:
    """Return the commands of a page, or of one section of it."""
    return [line[2:] for line in _console(page, section) if line.startswith("$ ")]


def statuses(page: str, section: str | None) -> list[str]:
    """Return the exit statuses that a page says its commands have, where they are not 0."""
    return [line for line in _console(page, section) if line.startswith("status ")]


def shown(page: str, section: str | None) -> list[list[str]]:
    """Return the lines that a page shows below each of its commands."""
    output: list[list[str]] = []
    for line in _console(page, section):
        if line.startswith("$ "):
            output.append([])
        elif line and output:
            output[-1].append(line)
    return output


def _console(page: str, section: str | None) -> list[str]:
    text = (ROOT / page).read_text()
    if section is not None:
        text = text.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return [line for block in _BLOCK.findall(text) for line in block.split("\n")]


def saved(page: str) -> dict[str, str]:
    """Return the files that a page has its reader save, by their names."""
    return dict(_FILE.findall((ROOT / page).read_text()))
