"""Finding and comparing runs: filters, watching, answers side by side, gates with their results."""

import os
import signal
import subprocess
import time

import pytest

from forum.app import Forum
from forum.app.formatting import RUN_LABELS
from forum.config import load_settings
from forum.runs.run_fold import RunState
from tests.surfaces.terminal import FORUM, Terminal

pytestmark = pytest.mark.slow

GATED = """
request = "Release it"

[[tasks]]
id = "notes"
instruction = "Write the notes."

[[tasks]]
id = "send"
instruction = "Send them."
needs = ["notes"]
"""


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """Return a user with four runs: answered twice, in a lane, failed, and waiting at a gate."""
    terminal = Terminal(tmp_path_factory.mktemp("home"))
    (terminal.folder / "gated.toml").write_text(GATED)
    for words in (
        ("Name a river", "--cmd", "sh -c 'cat >/dev/null; echo The Po'", "--lane", "backend"),
        ("Name a river", "--cmd", "cat"),
        ("Name a Mountain", "--cmd", "no-such-program"),
        ("--plan", "gated.toml", "--gate", "task:send", "--cmd", "sed s/Write/Wrote/"),
    ):
        assert terminal.type("submit", *words).returncode in (0, 1, 6)
    return terminal


def requests(user: Terminal, *words: str) -> list[str]:
    """Return what was asked for in the runs that are listed."""
    return [run["request"] for run in user.ask("runs", *words)["runs"]]


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        ((), ["Release it", "Name a Mountain", "Name a river", "Name a river"]),
        (("--state", "failed"), ["Name a Mountain"]),
        (("--state", "failed", "--state", "waiting"), ["Release it", "Name a Mountain"]),
        (("--state", "ended", "--limit", "1"), ["Name a Mountain"]),
        (("--text", "mountain"), ["Name a Mountain"]),
        (("--lane", "backend"), ["Name a river"]),
        (("--since", "1h", "--state", "ok"), ["Name a river", "Name a river"]),
        (("--since", "2100-01-01"), []),
        (("--state", "denied"), []),
    ],
)
def test_runs_are_found_by_what_one_knows_of_them(
    user: Terminal, words: tuple[str, ...], texts: list[str]
) -> None:
    """State, time, words and lane; all that are named must hold."""
    assert requests(user, *words) == texts


def test_the_states_come_from_where_they_are_defined() -> None:
    """A state that is added there can be asked for at once."""
    assert set(RUN_LABELS) >= set(RunState)


@pytest.mark.parametrize("words", [("--since", "soon"), ("--state", "happy")])
def test_wishes_that_are_none_are_wrong_usage(user: Terminal, words: tuple[str, ...]) -> None:
    """Nothing is listed by mistake."""
    assert user.call("runs", *words).exit_code == 2


def test_nothing_found_is_told(user: Terminal) -> None:
    """Not as if there were no runs at all."""
    assert "no run matches" in user.call("runs", "--text", "xyz").stderr


def test_a_comparison_begins_with_the_answers(user: Terminal) -> None:
    """They are what most people want to compare."""
    first, second = (run["run"] for run in user.ask("runs", "--state", "ok")["runs"])
    shown = user.call("diff", first[:18], second[:18])
    result = user.call("diff", first, second, "--json")

    lines = shown.stdout.split("\n")
    assert shown.exit_code == 1
    assert lines[:4] == [
        f"answer of A ({first[:18]})",
        "    - Name a river",
        f"answer of B ({second[:18]})",
        "    + The Po",
    ]
    assert "first difference: " in shown.stdout
    assert '"answer_b": "The Po\\n"' in result.stdout


def test_a_gate_is_shown_with_the_results_that_it_is_about(user: Terminal) -> None:
    """What waits is alone on stdout, to be edited; whoever decides sees the rest beside it."""
    run = user.ask("runs", "--state", "waiting")["runs"][0]["run"]
    shown = user.call("gate", "show", run[:18], "task:send")
    document = user.ask("gate", "show", run, "task:send")

    assert shown.stdout == "Send them.\n"
    assert "request\n  Release it\nresult of notes\n  Wrote the notes.\n" in shown.stderr
    assert document["results"] == [{"task": "notes", "result": "Wrote the notes."}]


def test_a_run_is_watched_until_it_waits(user: Terminal) -> None:
    """With the exit status of the run."""
    run = user.ask("runs", "--state", "waiting")["runs"][0]["run"]
    watched = user.type("watch", run[:18])

    assert watched.returncode == 6
    assert "forum gate approve" in watched.stderr


def test_of_an_interrupted_run_is_told_how_to_go_on(user: Terminal) -> None:
    """Nobody works on it: a task must not be told as running."""
    run = user.type("submit", "Wait", "--cmd", "cat", "--detach").stdout.strip()
    with Forum(load_settings(user.folder, user.environment)) as forum:
        forum.runs.interrupt(run)
    watched = user.type("watch", run)
    user.type("cancel", run)

    assert watched.returncode == 130
    assert f"interrupted; go on with: forum resume {run[:18]}\n" in watched.stderr
    assert "running" not in watched.stderr


def test_ctrl_c_ends_the_watching_and_not_the_run(user: Terminal) -> None:
    """Whoever watches does nothing but read."""
    taken = user.type("submit", "Wait", "--cmd", "cat", "--detach")
    run = taken.stdout.strip()
    process = subprocess.Popen(
        [FORUM, "watch", run],
        cwd=user.folder,
        env=user.environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert run in process.stderr.readline()
    assert "no worker is running" in process.stderr.readline()
    time.sleep(0.3)
    os.kill(process.pid, signal.SIGINT)
    text = process.communicate(timeout=30)[1]

    assert process.returncode == 130
    assert f"stopped watching; the run goes on: forum watch {run[:18]}" in text
    assert user.ask("show", run)["state"] == "running"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(("sumbit", "x"), "submit"), (("gate", "aprove"), "approve"), (("ledger", "shwo"), "show")],
)
def test_a_typo_is_met_with_what_was_meant(
    user: Terminal, typed: tuple[str, ...], meant: str
) -> None:
    """Of commands and of the commands of a group."""
    wrong = user.call(*typed)

    assert wrong.exit_code == 2
    assert f"Did you mean {meant}?" in wrong.stderr


def test_outside_of_a_project_it_is_told_where_the_ledger_is(user: Terminal) -> None:
    """Nobody looks for it in a folder that they have never heard of."""
    outside = user.type("submit", "x", "--cmd", "cat")
    (user.folder / "forum.toml").write_text("")
    inside = user.type("submit", "x", "--cmd", "cat")
    (user.folder / "forum.toml").unlink()

    assert f"the ledger is {user.environment['FORUM_DATA_DIR']}/ledger.db" in outside.stderr
    assert "the ledger is" not in inside.stderr
