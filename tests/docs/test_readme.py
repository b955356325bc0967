"""What the documents tell a reader to type works when it is pasted."""

import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.docs.pages import PASTED, commands, saved, statuses
from tests.surfaces.terminal import FORUM, Terminal

READERS = 2
"""How many read at once: most of the time a command waits for something."""

Pasted = subprocess.CompletedProcess[str]


def paste(page: str, folder: Path) -> Pasted:
    """Type all commands of a page, in a folder of its own."""
    terminal = Terminal(folder)
    path = f"{FORUM.parent}:{terminal.environment['PATH']}"
    for name, text in saved(page).items():
        (terminal.folder / name).write_text(text)
    # What a page starts in the background must not outlive it, whichever command fails.
    script = ["trap 'kill $(jobs -p) 2> /dev/null || true' EXIT", *commands(page, PASTED[page])]
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", "\n".join(script)],
        cwd=terminal.folder,
        env=terminal.environment | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def pages(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Pasted]]]:
    """Have the pages read that are asked for, in their order."""
    asked = [item.name for item in request.session.items]
    wanted = [page for page in PASTED if any(f"[{page}]" in name for name in asked)]
    with ThreadPoolExecutor(READERS) as readers:
        yield {
            page: readers.submit(paste, page, tmp_path_factory.mktemp("page")) for page in wanted
        }


@pytest.mark.slow
@pytest.mark.parametrize("page", PASTED)
def test_the_commands_of_a_page_work(page: str, pages: dict[str, Future[Pasted]]) -> None:
    """A first command that fails is where most readers stop; so each ends as the page says."""
    pasted = pages[page].result()

    assert any(command.startswith("forum ") for command in commands(page, PASTED[page]))
    assert pasted.returncode == 0, pasted.stdout + pasted.stderr
    told = re.findall(r"status \d+$", pasted.stdout, re.MULTILINE)
    assert told == statuses(page, PASTED[page]), pasted.stdout + pasted.stderr
