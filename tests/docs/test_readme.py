"""What the documents tell a reader to type works when it is pasted."""

import re
import shlex
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import FIRST_PAGES, PASTED, commands, saved, shown, statuses
from tests.features.gateway.running import local_provider, provider_variables
from tests.support import free_port
from tests.surfaces.command_server import command_server
from tests.surfaces.terminal import FORUM, Terminal

Pasted = subprocess.CompletedProcess[str]

PORTS = ("8808", "8809")
"""The ports that pages serve at; they are exchanged for free ones."""
_SEPARATOR = "\x1e"
_COMMAND = re.compile(r"\bforum ([a-z]+(?: [a-z]+)?)")
# What differs from run to run: ids, times, durations, and how many entries a bundle has: it holds
# the records of the cosignatures of earlier checkpoints, whose number depends on the time.
_VARIES = re.compile(
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4,12})*\b|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\d+\.\d s\b"
    r"|\d+(?= entries, each proven)"
)


@cache
def new_lines() -> frozenset[tuple[str, str]]:
    """Return the lines, by their pages, that type a command which no page before has typed.

    On a page that kills a command, all of them: what is killed has to be the command itself.
    """
    seen, lines = set[str](), set[tuple[str, str]]()
    for page, section in PASTED.items():
        for line in commands(page, section):
            typed = set(_COMMAND.findall(line))
            if typed - seen or any("kill" in each for each in commands(page, section)):
                lines.add((page, line))
            seen |= typed
    return frozenset(lines)


def paste(page: str, folder: Path, section: str | None, **variables: str) -> Pasted:
    """Type the commands of a page, or of some sections of it, in a folder of its own.

    A command that a page before has typed is forked; each is started afresh once.
    """
    terminal = Terminal(folder)
    path = f"{FORUM.parent}:{terminal.environment['PATH']}"
    environment = terminal.environment | {"PATH": path} | variables
    forked = folder / "bin/forum"
    forked.parent.mkdir()
    forked.write_text(f'#!/bin/sh\nexec {shlex.join(command_server().argv())} "$@"\n')
    forked.chmod(0o700)
    return paste_into(terminal.folder, environment, page, section, forked=forked)


def paste_into(
    folder: Path,
    environment: Mapping[str, str],
    page: str,
    section: str | None,
    forked: Path | None = None,
) -> Pasted:
    """Save the files of a page in a folder, and type its commands there."""
    # Pages are typed side by side, by tests and by whoever else uses this machine.
    ports = {port: str(free_port()) for port in PORTS}
    for name, text in saved(page).items():
        (folder / name).write_text(_replace_all(text, ports))
    # What a page starts in the background must not outlive it, whichever command fails.
    script = ["exec 2>&1", "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT"]
    for line in commands(page, section):
        script.append(f"echo -n {_SEPARATOR}")
        if forked:
            first = [] if (page, line) in new_lines() else [str(forked.parent)]
            script.append(f"PATH={shlex.quote(':'.join([*first, environment['PATH']]))}")
        script.append(_replace_all(line, ports))
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", "\n".join(script)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def _replace_all(text: str, values: Mapping[str, str]) -> str:
    for old, new in values.items():
        text = text.replace(old, new)
    return text


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PASTED if page not in FIRST_PAGES])
def test_the_commands_of_a_page_work(page: str, tmp_path: Path) -> None:
    """A command that fails is where most readers stop; so each ends as the page says.

    The first pages are typed by a newcomer (tests/e2e/test_first_contact.py).
    """
    assert any(command.startswith("forum ") for command in commands(page, PASTED[page]))
    check_pasted(paste(page, tmp_path, PASTED[page]), page, PASTED[page])


def check_pasted(pasted: Pasted, page: str, section: str | None) -> None:
    """Compare statuses and outputs with what the page shows."""
    assert pasted.returncode == 0, pasted.stdout
    told = re.findall(r"status \d+$", pasted.stdout, re.MULTILINE)
    assert told == statuses(page, section), pasted.stdout
    printed = pasted.stdout.split(_SEPARATOR)[1:]
    for lines, output in zip(shown(page, section), printed, strict=True):
        if [line for line in lines if not line.startswith("status ")]:
            assert output_pattern(lines).fullmatch(_VARIES.sub("X", output)), output


def output_pattern(lines: list[str]) -> re.Pattern[str]:
    """Return the pattern of an output that a page shows."""
    parts = [
        r"(?:.*\n)*" if line == "..." else re.escape(_VARIES.sub("X", line)) + r"\n"
        for line in lines
    ]
    return re.compile("".join(parts))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "calls"), [("docs/guides/cap-any-agent.md", 3), ("docs/guides/record-python.md", 1)]
)
def test_a_real_client_is_capped_as_the_guides_say(page: str, calls: int, tmp_path: Path) -> None:
    """With a provider on this machine, and the client that most agents use."""
    with local_provider(tmp_path / "provider.log") as url:
        pasted = paste(page, tmp_path / "guide", None, **provider_variables(url))

    assert pasted.returncode == 0, pasted.stdout
    assert f"{calls} call" in pasted.stdout


@pytest.mark.slow
def test_the_guide_for_users_of_litellm_works(tmp_path: Path) -> None:
    """Two teams, their caps, an alert, a fallback and a freeze, typed as a reader would."""
    page = "docs/guides/replace-litellm.md"
    with local_provider(tmp_path / "provider.log") as url:
        pasted = paste(page, tmp_path / "guide", None, **provider_variables(url))

    check_pasted(pasted, page, None)
