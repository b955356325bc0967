"""Each feature can be left out: the rest works, and nothing of it is loaded."""

import json
import subprocess
import sys
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
PROGRAM = f"{WITHOUT}from forum.__main__ import main\nmain()\n"
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


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    """Return an empty project."""
    return Terminal(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [feature.name for feature in FEATURES])
def test_the_rest_works_without_a_feature(terminal: Terminal, name: str) -> None:
    """Help, a run from request to answer, its view, and a verification need no feature."""

    def call(*arguments: str, status: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.replace("MISSING", name), *arguments],
            cwd=terminal.folder,
            env=terminal.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    shown = call("--help")
    for feature in FEATURES:
        for command in feature.commands:
            assert (command.summary in shown) == (feature.name != name)
    call("init")
    run = json.loads(call("submit", "Name a river.", "--cmd", "cat", "--json"))["run"]
    call("runs")
    call("show", run)
    # Nobody cosigns without witnesses, and a verification does not say otherwise.
    verified = call("ledger", "verify", status=3 if name == "witness" else 0)
    assert ("not-witnessed" in verified) == (name == "witness")


@pytest.mark.slow
@pytest.mark.parametrize("name", [feature.name for feature in FEATURES])
def test_the_lists_of_the_surfaces_need_no_feature(name: str) -> None:
    """Endpoints, tools, checks and subcommands are those of the others."""
    done = subprocess.run(
        [sys.executable, "-c", LISTS.replace("MISSING", name)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
