"""The examples do what they say: each is run as a reader would run it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_leaves_a_ledger_that_holds(example: Path, tmp_path: Path) -> None:
    """What is copied from an example must work, and be verified by the command line too."""
    folders = {"FORUM_DATA_DIR": str(tmp_path / "data"), "FORUM_STATE_DIR": str(tmp_path / "state")}
    environment = {k: v for k, v in os.environ.items() if k != "FORUM_DATABASE_URL"} | folders

    def run(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    printed = run(str(example))

    assert printed.count("holds") == 3
    assert run("-m", "forum", "ledger", "verify").count("✓") == 3
