"""Each feature can be left out: the rest works, and nothing of it is loaded."""

import json
import subprocess
import sys
from ast import literal_eval
from pathlib import Path

import pytest

from forum.features import FEATURES
from tests.surfaces.terminal import Terminal

WITHOUT = """
import importlib.abc, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.startswith("forum.features.MISSING."):
            raise ModuleNotFoundError(f"{name} was deleted", name=name)

from forum import features
features.FEATURES = tuple(each for each in features.FEATURES if each.name != "MISSING")
sys.meta_path.insert(0, Missing())
"""
PROGRAM = f"""{WITHOUT}
import json, os
import forum.app, forum.surfaces.cli
from forum.__main__ import main
for line in sys.stdin:
    words, *streams = json.loads(line)
    command = os.fork()
    if not command:
        for number, stream in enumerate((os.devnull, *streams)):
            os.dup2(os.open(stream, os.O_RDWR | os.O_CREAT), number)
        sys.argv[1:] = words
        main()
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(command, 0)[1]), flush=True)
"""
"""Forks a process for each command: to import Forum takes most of the time of each."""
LISTS = f"""{WITHOUT}
from forum.surfaces.cli.doctor import all_checks
from forum.surfaces.cli.ledger import ledger
from forum.surfaces.cli.mcp_server import mcp
from forum.surfaces.http.application import all_endpoints
from forum.surfaces.http.openapi import build_document
from forum.surfaces.mcp.tools import all_tools

build_document(all_endpoints())
assert all_tools() and all_checks() and ledger.commands and mcp
"""
FORK_LISTS = """
import os, sys, traceback
# Of other packages: most of the time of each goes into them.  None of them is Forum's.
import mcp.server.stdio, mcp.server.streamable_http_manager, uvicorn
assert not any(name.partition(".")[0] == "forum" for name in sys.modules)
program, *names = sys.argv[1:]
for name in names:
    reader, writer = os.pipe()
    if not os.fork():
        with open(writer, "w") as told:
            try:
                exec(program.replace("MISSING", name), {})
            except BaseException:
                traceback.print_exc(file=told)
        os._exit(0)
    os.close(writer)
    with open(reader) as told:
        print(repr(told.read()), flush=True)
    os.wait()
"""


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    """Return an empty project."""
    return Terminal(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [feature.name for feature in FEATURES])
def test_the_rest_works_without_a_feature(terminal: Terminal, name: str) -> None:
    """Help, a run from request to answer, its view, and a verification need no feature."""
    program = [sys.executable, "-c", PROGRAM.replace("MISSING", name)]
    folder, pipe = terminal.folder, subprocess.PIPE
    shown, complaint = folder.with_name("shown"), folder.with_name("complaint")
    with subprocess.Popen(
        program, cwd=folder, env=terminal.environment, stdin=pipe, stdout=pipe, text=True
    ) as process:
        asked, answers = process.stdin, process.stdout
        assert asked is not None
        assert answers is not None

        def call(*arguments: str, status: int = 0) -> str:
            for path in (shown, complaint):
                path.unlink(missing_ok=True)
            asked.write(f"{json.dumps([arguments, str(shown), str(complaint)])}\n")
            asked.flush()
            assert answers.readline() == f"{status}\n", shown.read_text() + complaint.read_text()
            return shown.read_text()

        listed = call("--help")
        for feature in FEATURES:
            for command in feature.commands:
                assert (command.summary in listed) == (feature.name != name)
        call("init")
        run = json.loads(call("submit", "Name a river.", "--cmd", "cat", "--json"))["run"]
        call("runs")
        call("show", run)
        # Nobody cosigns without witnesses, and a verification does not say otherwise.
        verified = call("ledger", "verify", status=3 if name == "witness" else 0)
        asked.close()
    assert ("not-witnessed" in verified) == (name == "witness")


@pytest.fixture(scope="module")
def list_faults() -> dict[str, str]:
    """Make the lists without each feature in turn, and return what went wrong."""
    names = [feature.name for feature in FEATURES]
    done = subprocess.run(
        [sys.executable, "-c", FORK_LISTS, LISTS, *names],
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(names, map(literal_eval, done.stdout.splitlines()), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", [feature.name for feature in FEATURES])
def test_the_lists_of_the_surfaces_need_no_feature(list_faults: dict[str, str], name: str) -> None:
    """Endpoints, tools, checks and subcommands are those of the others."""
    assert list_faults[name] == ""
