"""What the documents tell a reader to type works when it is pasted."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import PASTED, ROOT, commands, saved, statuses
from tests.gateway.running import local_provider, provider_variables
from tests.surfaces.terminal import FORUM, Terminal

Pasted = subprocess.CompletedProcess[str]


def paste(page: str, folder: Path, section: str | None, **variables: str) -> Pasted:
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
        env=terminal.environment | {"PATH": path} | variables,
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


@pytest.mark.slow
def test_an_agent_is_run_under_a_cap_as_the_pages_say(tmp_path: Path) -> None:
    """The second section of the README, and its guide, with a provider on this machine."""
    section = re.findall(r"^## (.+)$", (ROOT / "README.md").read_text(), re.MULTILINE)[1]
    with local_provider(tmp_path / "provider.log") as url:
        variables = provider_variables(url)
        first = paste("README.md", tmp_path / "readme", section, **variables)
        second = paste("docs/guides/cap-any-agent.md", tmp_path / "guide", None, **variables)

    assert any(line.startswith("forum run ") for line in commands("README.md", section))
    for pasted, calls in ((first, 1), (second, 3)):
        assert pasted.returncode == 0, pasted.stdout + pasted.stderr
        assert f"{calls} call" in pasted.stderr
        assert "✓ Complete" in pasted.stdout
