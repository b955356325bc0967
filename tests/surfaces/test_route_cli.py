"""`forum route`: what it prints for people and for programs, and how it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.terminal import Terminal

ROSTER = """
[elsewhere]
examples = ["good morning"]

[[lane]]
name = "kitchen"
does = "Cooks whatever there is."
terms = ["soup"]
examples = ["Make a soup of these carrots", "The soup is too salty"]

[[lane]]
name = "garden"
does = "Plants and waters."
terms = ["roses"]
examples = ["Prune the roses", "The hedge needs water"]
"""


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    """Return a user who has a roster of his own."""
    terminal = Terminal(tmp_path)
    (terminal.folder / "team.toml").write_text(ROSTER)
    return terminal


def routes(terminal: Terminal, *words: str, given: bytes | None = None) -> list[dict[str, Any]]:
    """Return what `forum route --json` prints."""
    result = terminal.call("route", "--rung", "lexical", "--json", *words, given=given)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_request_is_routed_by_the_roster_that_comes_with_forum(terminal: Terminal) -> None:
    """Without any configuration, and without a ledger: nothing is recorded."""
    result = terminal.call("route", "--rung", "lexical", "terraform plan wants to replace our VPC")

    assert result.exit_code == 0
    assert result.stdout.startswith("cloud  ")
    assert "runner-up" in result.stdout
    assert "terraform" in result.stdout
    assert sorted(path.name for path in terminal.folder.iterdir()) == ["team.toml"]


@pytest.mark.parametrize(
    ("settings", "follows", "words"),
    [
        ("", "not-routed", "no model is configured"),
        ('[models.capable]\ncmd = "cat"\n', "no-lane", "carries it out without a lane"),
        (
            '[models.capable]\ncmd = "cat"\n[roles]\nclassifier = "capable"\n',
            "classifier",
            "left to the Classifier",
        ),
        ('[models.capable]\ncmd = "cat"\n[roles]\nteam = true\n', "classifier", "asks the Class"),
    ],
)
def test_what_is_not_sure_is_said_with_what_submit_does(
    terminal: Terminal, settings: str, follows: str, words: str
) -> None:
    """It is what `forum submit` does in this project; a person sees the two nearest as well."""
    (terminal.folder / "forum.toml").write_text(settings)
    result = terminal.call("route", "--rung", "lexical", "what a lovely evening")
    (document,) = routes(terminal, "what a lovely evening")

    assert words in result.stdout
    assert "nearest" in result.stdout
    assert "\\n" not in result.stdout  # a long line is wrapped
    assert (document["lane"], document["next"]) == (None, follows)
    assert (result.stdout.startswith("left to the Classifier")) == (follows == "classifier")


def test_many_requests_are_routed_line_by_line(terminal: Terminal) -> None:
    """Each line has its answer, whatever the line is, so that both can be put side by side."""
    given = b"soup soup soup\n\nprune the roses\r\n\xff\xfe\x00\n" + b"x" * 1_000_000
    found = routes(terminal, "--roster", "team.toml", "-", given=given)

    assert [document["lane"] for document in found] == ["kitchen", None, "garden", None, None]
    assert found[0].keys() >= {"confidence", "evidence", "runner_up", "margin", "rung"}
    assert found[0]["schema"] == "forum.route/1"
    assert found[0]["evidence"][0]["feature"] == "soup"
    assert found[0]["rung"] == "lexical"


def test_without_the_extra_words_decide(terminal: Terminal) -> None:
    """Who did not install it is served all the same; who asks for it is told what to install."""
    (terminal.folder / "numpy.py").write_text("raise ImportError('numpy is not installed')")
    words = ("route", "--roster", "team.toml", "--json", "soup soup soup")
    plain = terminal.type(*words, PYTHONPATH=str(terminal.folder))
    asked = terminal.type(*words, "--rung", "semantic", PYTHONPATH=str(terminal.folder))

    assert json.loads(plain.stdout)["rung"] == "lexical"
    assert asked.returncode == 1
    assert "numpy is not installed; install it with: " in asked.stderr


def test_a_bad_roster_is_wrong_usage(terminal: Terminal) -> None:
    """It is the user's file, and the error says what to change in it."""
    (terminal.folder / "bad.toml").write_text(ROSTER.replace('name = "garden"', 'name = "kitchen"'))
    result = terminal.call("route", "--roster", "bad.toml", "soup")

    assert result.exit_code == 2
    assert "bad.toml: this roster cannot be used: lane 'kitchen': 2 lanes" in result.stderr


def test_a_text_that_is_no_text_is_routed_too(terminal: Terminal) -> None:
    """Arguments may hold bytes that are not UTF-8; what is printed is."""
    result = terminal.type("route", "--json", "--rung", "lexical", "soup \udcff roses")

    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["lane"] is None


def test_the_project_file_says_by_what_is_routed(terminal: Terminal) -> None:
    """`forum route` tells what `forum submit` would do: roster and rung are those of forum.toml."""
    settings = '[roster]\nfile = "team.toml"\nrung = "lexical"\n'
    (terminal.folder / "forum.toml").write_text(settings)
    result = terminal.call("route", "--json", "the soup of roses")
    meant = terminal.call("route", "--json", "--rung", "auto", "the soup of roses")

    assert json.loads(result.stdout)["rung"] == "lexical"
    assert json.loads(result.stdout)["nearest"] in ("kitchen", "garden")
    assert meant.exit_code == 0


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_request_has_no_lane_and_is_refused(tmp_path: Path, text: str) -> None:
    """As `forum submit` refuses it."""
    refused = Terminal(tmp_path).call("route", text)

    assert refused.exit_code == 2
    assert "The request is empty." in refused.stderr
