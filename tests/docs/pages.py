"""The pages of the documentation, and the commands in them that a reader would paste."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
REFERENCE = ROOT / "docs/reference/cli.md"
FINDINGS = ROOT / "docs/reference/findings.md"

# Every console block of these is run, in order; what stands in other blocks is to be read.
PASTED = {
    "README.md": "Quickstart",
    "docs/guides/verify-a-bundle.md": None,
    "docs/guides/redact.md": None,
}

_BLOCK = re.compile(r"^```console\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def commands(page: str, section: str | None) -> list[str]:
    """Return the commands of a page, or of one section of it."""
    text = (ROOT / page).read_text()
    if section is not None:
        text = text.split(f"\n## {section}\n")[1].split("\n## ")[0]
    lines = [line for block in _BLOCK.findall(text) for line in block.split("\n")]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
