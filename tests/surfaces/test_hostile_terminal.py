"""Every command under a terminal, with hostile text in every place that it reads."""

import json
import os
import re
import subprocess
import sys
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from forum.surfaces.cli import cli
from tests.surfaces.hostile_project import HOSTILE, RUN, HostileProject, is_obeyed
from tests.test_repository import ROOT

_OWN = re.compile(
    r"\x1b\[(?:0|1|2|3[1-6]|[12];3[1-6])m"  # the styles of the console
    r"|\x1b\[\d+A\x1b\[J"  # a run that is drawn in place
    r"|\r(?=[a-z ]+ \[[#-]{30}\])"  # a progress bar
)


class Case(NamedTuple):
    """How a command is called."""

    words: list[str]
    given: str = ""
    """What is typed."""
    seconds: float = 60.0
    """A command that serves is ended after so long."""


Cases = Callable[[HostileProject], list[Case]]
_SERVES_S = 1.5


def _of(*calls: str, given: str = "", seconds: float = 60.0) -> Cases:
    """Return cases; `{}` in a call stands for names of the project, and HOSTILE for that text."""

    def make(project: HostileProject) -> list[Case]:
        names = {"run": project.run, "other": project.other, "policy": project.policy, "told": RUN}
        return [
            Case(
                [HOSTILE if word == "HOSTILE" else word.format(**names) for word in call.split()],
                given,
                seconds,
            )
            for call in calls
        ]

    return make


_CASES: dict[str, Cases] = {
    "demo": _of("", given="q\n"),
    "demo agent": _of(""),
    "demo cheat": _of("--keep plan.json"),
    "demo crash": _of("--keep plan.json"),
    "demo panel": _of("--keep plan.json"),
    "demo provider": _of("HOSTILE"),
    "demo team": _of("HOSTILE --keep plan.json"),
    "init": _of(""),
    "doctor": _of("", "--json"),
    "import forum-engine": _of(".", "HOSTILE"),
    "config": _of(""),
    "config show": _of("", "--json"),
    "completion": _of("bash", "HOSTILE"),
    "run": _of("--max-calls 1 -- true", "-- HOSTILE"),
    "submit": _of("--plan plan.json --script script.json", "--plan hostile.json", "HOSTILE"),
    "deliberate ask": _of("HOSTILE --seats HOSTILE", "HOSTILE"),
    "deliberate execution-replay": _of("hostile.json", "{other}"),
    "deliberate export": _of("{other} --output out"),
    "deliberate metrics": _of("{other}", "hostile.json"),
    "deliberate replay": _of("{other}", "hostile.json"),
    "deliberate validate": _of("hostile.json", "plan.json"),
    "eval": _of("hostile.jsonl", "hostile.txt", "plan.json"),
    "models check": _of("", "--cmd HOSTILE", "--json"),
    "models pull": _of("HOSTILE"),
    "route": _of("HOSTILE", "HOSTILE --json", "HOSTILE --roster hostile.txt"),
    "plan": _of("HOSTILE", "--plan plan.json --script script.json", "--plan hostile.txt"),
    "lanes": _of("", "--roster hostile.txt"),
    "score": _of("{other} --name HOSTILE --value 1", "{other} --name good --value HOSTILE"),
    "scores": _of("{other}", "{other} --json", "HOSTILE"),
    "runs": _of("", "--json", "--text FORGED", "--state HOSTILE", "--lane HOSTILE"),
    "show": _of(
        *("{run}", "{other}", "{told}", "run-kinds", "HOSTILE", "{told} --all"),
        *("{other} --transcript", "{told} --transcript", "{other} --answer", "{other} --json"),
        *("{told} --json", "run.zip", "reported.zip", "origin.zip", "run.zip --transcript"),
    ),
    "watch": _of("{other}", "{told}", "HOSTILE"),
    "why": _of("", "9", "HOSTILE"),
    "diff": _of("{run} {other}", "{other} {told}", "{run} HOSTILE"),
    "bench": _of("{run} {other}", "{other} HOSTILE"),
    "costs": _of("", "--by model", "--by agent", "--json", "--by HOSTILE"),
    "budgets": _of("", "--json"),
    "budgets freeze": _of("--reason HOSTILE --json", "--reason HOSTILE"),
    "budgets raise": _of("HOSTILE 1/day", "ledger HOSTILE"),
    "budgets set": _of("team:HOSTILE 5/month", "HOSTILE 5/month", "ledger HOSTILE"),
    "budgets team": _of("HOSTILE HOSTILE", "good HOSTILE --within HOSTILE --json"),
    "budgets unfreeze": _of("", "--json"),
    "budgets unset": _of("HOSTILE month", "ledger HOSTILE"),
    "review": _of("", "{told}", "{told} --done --remark HOSTILE"),
    "incident close": _of("0 HOSTILE", "HOSTILE text"),
    "incident list": _of("", "--json"),
    "incident open": _of("--severity high HOSTILE", "--severity HOSTILE text"),
    "gate approve": _of("HOSTILE", "{run} HOSTILE"),
    "gate edit": _of("{run} task/publish --file hostile.txt"),
    "gate list": _of("", "--json"),
    "gate reject": _of("{run} --reason HOSTILE HOSTILE"),
    "gate show": _of("", "{run} task/publish", "--json", "HOSTILE"),
    "resume": _of("{other}", "HOSTILE"),
    "cancel": _of("{other}", "HOSTILE"),
    "fork": _of("{other} --at 9 --script script.json", "{other} --at HOSTILE"),
    "replay": _of("{other}", "{told}", "HOSTILE"),
    "ledger archive": _of("--before HOSTILE --to archive", "--before 2020-01-01 --to archive"),
    "ledger checkpoint": _of("", "--json"),
    "ledger epoch": _of("--reason HOSTILE", given="n\n"),
    "ledger export": _of("{other} --output x.zip", "HOSTILE"),
    "ledger get": _of("9", "9 --json", "{told}/main/0", "{told}/main/0 --body names", "HOSTILE"),
    "ledger note": _of("HOSTILE", "HOSTILE --json"),
    "ledger policy": _of("", "--json"),
    "ledger proof": _of("9", "HOSTILE", "9 --json"),
    "ledger quarantine": _of("", "--json"),
    "ledger requests": _of("", "--json"),
    "ledger reconcile": _of("hostile.txt", "HOSTILE", "hostile.txt --provider HOSTILE --json"),
    "ledger redact": _of("HOSTILE text", "9 HOSTILE"),
    "ledger show": _of("", "{told}", "run-kinds", "run-kinds --json", "HOSTILE"),
    "ledger summary": _of("{told}", "{other}", "run-kinds", "HOSTILE"),
    "ledger verify": _of(
        "", "--policy {policy}", "--policy policy", "--seen note", "--key HOSTILE"
    ),
    "ledger why": _of("9", "HOSTILE"),
    "verify": _of(
        *("run.zip --policy {policy}", "reported.zip --policy {policy}", "run.zip --json"),
        *("run.zip --policy {policy} --json", "run.zip --policy policy", "run.zip --seen note"),
        *(f"{name}.zip --policy {{policy}}" for name in ("v", "origin", "run", "note", "name")),
        *("origin.zip --json", "plan.json", "HOSTILE", "run.zip --key HOSTILE"),
    ),
    "evidence": _of("--from 2020-01-01 --until 2099-01-01 --output pack.zip", "--from HOSTILE"),
    "witness serve": _of("--log HOSTILE", "--port 0", seconds=_SERVES_S),
    "retention apply": _of("", "--json"),
    "retention list": _of("", "--json"),
    "retention set": _of("HOSTILE 1d", "texts HOSTILE"),
    "hold list": _of("", "--json"),
    "hold place": _of("HOSTILE --reason HOSTILE", "case --run HOSTILE", "case --reason HOSTILE"),
    "hold release": _of("HOSTILE --reason HOSTILE", "case --reason HOSTILE"),
    "up": _of("--port 0 --tasks 1", "--port HOSTILE", seconds=_SERVES_S),
    "serve": _of("--port 0", "--host HOSTILE", "--tls-cert hostile.txt", seconds=_SERVES_S),
    "worker": _of("--runs 1", "--tenant HOSTILE", seconds=_SERVES_S),
    "mcp gateway": _of("-- HOSTILE", "--pin HOSTILE -- true", seconds=_SERVES_S),
    "hook": _of("--project HOSTILE", "", seconds=_SERVES_S),
    "token": _of("", "--json"),
    "keys create": _of("--name HOSTILE --scope read", "--name x --scope HOSTILE"),
    "keys list": _of("", "--json"),
    "keys revoke": _of("HOSTILE"),
    "keys rotate-log": _of("", given="n\n"),
    "keys rotate-write": _of("", "--json"),
    "tenant add": _of("HOSTILE"),
    "tenant epoch": _of("HOSTILE --reason HOSTILE", given="n\n"),
    "tenant list": _of("", "--json"),
    "tenant move": _of("HOSTILE --to HOSTILE", "HOSTILE --to HOSTILE --json"),
    "tenant role": _of("HOSTILE", "HOSTILE --json"),
    "otel push": _of("{told} --endpoint http://127.0.0.1:9/", "HOSTILE", seconds=_SERVES_S),
    "webhooks list": _of("", "--json"),
    "webhooks test": _of("HOSTILE"),
    "db partition": _of(""),
    "db upgrade": _of("", "--json"),
    "backup": _of("copy", "HOSTILE", "copy"),
    "restore": _of("plan.json", "HOSTILE", "copy"),
    "mcp": _of("", seconds=_SERVES_S),
}
"""Each command with calls that make it read what others wrote, and calls that make it fail."""


def _commands(command: click.Command, *path: str) -> Iterator[str]:
    """Yield the commands that do something, with the groups that they are in."""
    if not isinstance(command, click.Group):
        yield " ".join(path)
        return
    context = click.Context(command)
    if command.invoke_without_command and path:
        yield " ".join(path)
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        yield from _commands(child, *path, name)


def test_every_command_has_a_case() -> None:
    """Also one that is added later."""
    assert set(_commands(cli)) == set(_CASES)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> HostileProject:
    """Make the project once for all commands."""
    return HostileProject(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def terminal(project: HostileProject) -> Iterator[Callable[[Case], str]]:
    """Return what runs a command under a terminal, and returns what that is sent."""
    driver = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("pty_driver.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": f"{ROOT}/src:{ROOT}"},
    )
    assert driver.stdin is not None
    assert driver.stdout is not None
    stdin, stdout = driver.stdin, driver.stdout

    def run(case: Case) -> str:
        asked = {
            "arguments": case.words,
            "folder": str(project.folder),
            "environment": project.user.environment | {"TERM": "xterm", "COLUMNS": "100"},
            "given": case.given,
            "seconds": case.seconds,
        }
        stdin.write(f"{json.dumps(asked)}\n".encode())
        stdin.flush()
        return b64decode(json.loads(stdout.readline())["shown"]).decode()

    yield run
    stdin.close()
    assert driver.wait() == 0
    stdout.close()


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted(_CASES))
def test_a_command_sends_nothing_to_the_terminal_but_its_own(
    command: str, project: HostileProject, terminal: Callable[[Case], str]
) -> None:
    """No sequence, no invisible character and no line that looks like one of the command."""
    for case in _CASES[command](project):
        shown = terminal(case._replace(words=[*command.split(), *case.words]))
        # A typed line is shown with the return that ends it.
        typed = case.given.replace("\n", "\r")
        rest = _OWN.sub("", shown.replace(typed, "", 1))
        obeyed = {character for character in rest if is_obeyed(character)}
        assert not obeyed, (case.words, sorted(map(ascii, obeyed)), ascii(shown))
        forged = [line for line in rest.split("\n") if line.startswith("\u2713 FORGED")]
        assert not forged, (case.words, ascii(shown))
        assert "Traceback" not in shown, (case.words, shown)
