"""A user at a terminal: a project folder and a state directory of his own, nothing of ours."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from forum.app import CostAxis, CostTable, Forum, RunQuery
from forum.config import load_settings
from forum.surfaces.cli import cli
from tests.surfaces import command_server

FORUM = command_server.FORUM


class Terminal:
    """Types commands into a folder; every command is one of a fresh user."""

    def __init__(self, home: Path) -> None:
        self.folder, self.state = home / "project", home / "state"
        self.folder.mkdir(parents=True)
        mine = {name: text for name, text in os.environ.items() if not name.startswith("FORUM_")}
        self.environment = mine | {
            "HOME": str(home),
            "FORUM_DATA_DIR": str(home / "data"),
            "FORUM_STATE_DIR": str(self.state),
        }
        # Colours are the user's choice; and an installed command comes compiled.
        for name in ("NO_COLOR", "PYTHONDONTWRITEBYTECODE"):
            self.environment.pop(name, None)

    @property
    def database(self) -> Path:
        """The ledger's file."""
        return self.folder / ".forum/ledger.db"

    @property
    def policy(self) -> Path:
        """The policy that `forum init` wrote."""
        (path,) = self.state.glob("logs/*/policy")
        return path

    def type(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the command in a process of its own; a fresh one, if a variable is for Python."""
        return command_server.run_command(words, self.folder, self.environment | variables)

    def costs(self) -> CostTable:
        """Return what the runs of the project have cost, and which caps were reached."""
        with Forum(load_settings(self.folder, self.environment)) as forum:
            return forum.reads.add_up_costs(CostAxis.DAY, RunQuery(), None)

    def call(self, *words: str, given: bytes | None = None) -> Result:
        """Run the command in this process, which is faster; errors of ours are not caught."""
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            for name in os.environ.keys() - self.environment.keys():
                patch.delenv(name)
            for name, text in self.environment.items():
                patch.setenv(name, text)
            return CliRunner().invoke(cli, words, input=given)

    def ask(self, *words: str, given: bytes | None = None) -> dict[str, Any]:
        """Run the command with --json, and return the one object that it prints."""
        result = self.call(*words, "--json", given=given)
        assert result.exit_code in (0, 3), result.output
        document = json.loads(result.stdout)
        assert isinstance(document, dict)
        return document

    def note(self, words: str) -> dict[str, Any]:
        """Put a remark on record."""
        return self.ask("ledger", "note", words)
