"""What the documents tell a reader to type works when it is pasted."""

import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import PASTED, commands
from tests.surfaces.terminal import FORUM, Terminal


@pytest.mark.slow
@pytest.mark.parametrize("page", PASTED)
def test_the_commands_of_a_page_work(page: str, tmp_path: Path) -> None:
    """A first command that fails is where most readers stop; so each has to end with status 0."""
    terminal = Terminal(tmp_path)
    path = f"{FORUM.parent}:{terminal.environment['PATH']}"
    typed = commands(page, PASTED[page])
    pasted = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", "\n".join(typed)],
        cwd=terminal.folder,
        env=terminal.environment | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )

    assert any(command.startswith("forum ") for command in typed)
    assert pasted.returncode == 0, pasted.stdout + pasted.stderr
