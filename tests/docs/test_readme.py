"""What the documents tell a reader to type works when it is pasted."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import PASTED, commands, saved, statuses
from tests.surfaces.terminal import FORUM, Terminal

Pasted = subprocess.CompletedProcess[str]


def paste(page: str, folder: Path, section: str | None) -> Pasted:
    """Type the commands of a page, or of some sections of it, in a folder of its own."""
    terminal = Terminal(folder)
    path = f"{FORUM.parent}:{terminal.environment['PATH']}"
    for name, text in saved(page).items():
        (terminal.folder / name).write_text(text)
    # What a page starts in the background must not outlive it, whichever command fails.
    script = ["trap 'kill $(jobs -p) 2> /dev/null || true' EXIT", *commands(page, section)]
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", "\n".join(script)],
        cwd=terminal.folder,
        env=terminal.environment | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("page", PASTED)
def test_the_commands_of_a_page_work(page: str, tmp_path: Path) -> None:
    """A first command that fails is where most readers stop; so each ends as the page says."""
    pasted = paste(page, tmp_path, PASTED[page])

    assert any(command.startswith("forum ") for command in commands(page, PASTED[page]))
    assert pasted.returncode == 0, pasted.stdout + pasted.stderr
    told = re.findall(r"status \d+$", pasted.stdout, re.MULTILINE)
    assert told == statuses(page, PASTED[page]), pasted.stdout + pasted.stderr
