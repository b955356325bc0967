"""The examples do what they say: each is run as a reader would run it."""

import os
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.terminal import FORUM, Terminal

FOLDER = Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))


PRINTED = {
    "approve": ("waits for approval: task/pay", "Paid."),
    "cap": ("denied: $0.06 of $0.07 spent",),
    "council": ("ok yes",),
    "demo": (
        "route    backend",
        "plan     schema -> endpoint",
        "judge    2 attempts at the endpoint, the first was not accepted",
        "answer   ok - POST /invoices",
        "verify   0 - ✓ Intact",
        "tampered 3 - ✗ Intact         fails: body-mismatch",
    ),
    "record_from_python": ("intact, complete, self-witnessed",),
    "redact": ("erased: True", "intact, complete, self-witnessed"),
}
"""What each example prints, as its docstring promises it."""


def test_every_example_is_run() -> None:
    """A new one says what it prints."""
    assert PRINTED.keys() == {example.stem for example in EXAMPLES}


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

    assert [line for line in PRINTED[example.stem] if line not in printed] == []
    if example.stem == "demo":
        assert not any(tmp_path.iterdir()), "it leaves nothing behind"
        return
    verified = run("-m", "forum", "ledger", "verify")
    assert [word in verified for word in ("✓ Intact", "✓ Complete", "! Self-witnessed")] == [
        True
    ] * 3


@pytest.mark.slow
def test_an_agent_reads_and_writes_notes_through_a_server(tmp_path: Path) -> None:
    """The MCP server of the example does what its tools promise, and the record tells of it."""
    terminal = Terminal(tmp_path)
    path = f"{FORUM.parent}:{terminal.environment['PATH']}"
    shutil.copytree(FOLDER / "mcp_notes", terminal.folder, dirs_exist_ok=True)
    (terminal.folder / "notes/day-trip.md").unlink(missing_ok=True)
    done = terminal.type("submit", "--plan", "plan.toml", PATH=path)
    shown = terminal.type("show").stdout
    entry = next(
        line.split()[-1] for line in shown.splitlines() if "trip" in line and "passed" in line
    )
    why = terminal.type("why", entry).stdout

    assert done.returncode == 0, done.stderr
    assert (terminal.folder / "notes/day-trip.md").read_text() == "9:40 pier 3, back by 18:15\n"
    assert "notes-read_note" in why
    assert "notes-write_note" in why
    assert why.count("the tool was used: ok") == 2


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", ".", "..", ".hidden", "a/b", "", "link"]
)
def test_no_name_of_a_note_leads_out_of_its_folder(name: str, tmp_path: Path) -> None:
    """An agent that was talked into it must not read or write what is not a note."""
    notes, secret = tmp_path / "notes", tmp_path / "secret.md"
    notes.mkdir()
    secret.write_text("secret")
    (notes / "link.md").symlink_to(secret)
    notebook = _notebook(notes)

    with pytest.raises(Exception, match=r"a name has|is not a file"):
        notebook.read_note(name)
    if name != "link":
        with pytest.raises(Exception, match="a name has"):
            notebook.write_note(name, "mine now")
    assert notebook.list_notes() == []
    assert secret.read_text() == "secret"
    assert [path.name for path in notes.iterdir()] == ["link.md"]


def test_a_note_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """What is written can be read again, by its name, and nothing else is left in the folder."""
    notebook = _notebook(tmp_path)
    for text in ("first", "Zürich \u2028 \n"):
        notebook.write_note("a", text)

    assert (notebook.list_notes(), notebook.read_note("a")) == (["a"], "Zürich \u2028 \n")
    assert [path.name for path in tmp_path.iterdir()] == ["a.md"]


def _notebook(folder: Path) -> Any:  # noqa: ANN401  # the example is no module of ours
    """Return the notebook of the example."""
    spec = spec_from_file_location("mcp_notes_server", FOLDER / "mcp_notes/server.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Notebook(folder)
