"""Entries that were dated by a wrong clock: the reader explains them, and nobody else can."""

import json
from pathlib import Path

import pytest

from forum.app import Forum, clock_ids_and_kinds, project
from forum.config import load_settings
from forum.ledger.body import text_content
from forum.verify import ExplainedTimes, Problem, State
from forum.verify.report import Findings
from tests.surfaces.terminal import Terminal

AHEAD_US = 1200_000_000
EXPLANATION = """
[[clock]]
log = "{log}"
first = {first}
last = {last}
reason = "the clock of worker 3 was 20 minutes ahead until 2026-11-03"
"""


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return a project with a note that was dated by a clock 20 minutes ahead."""
    made = Terminal(tmp_path)
    made.call("init")
    made.note("before")
    right = clock_ids_and_kinds.now
    with monkeypatch.context() as wrong:
        wrong.setattr(project, "now", lambda: right() + AHEAD_US)
        with Forum(load_settings(made.folder, made.environment), lambda _: None) as forum:
            forum.log.record_note(text_content("by a wrong clock"))
    made.note("after")
    return made


def verify(terminal: Terminal, *words: str) -> tuple[int, dict[str, object]]:
    """Return the exit status of a verification, and its report."""
    done = terminal.call(*words, "--json")
    return done.exit_code, json.loads(done.stdout)


def wrong_entries(terminal: Terminal) -> list[int]:
    """Return the indexes of the entries whose times witnesses contradict."""
    status, report = verify(terminal, "ledger", "verify")
    findings = report["findings"]
    assert isinstance(findings, list)
    assert status == 3
    assert {finding["problem"] for finding in findings} == {"time-impossible"}
    return [finding["index"] for finding in findings]


def explain(terminal: Terminal, **parts: object) -> str:
    """Write a file of explanations; return its path."""
    path = terminal.folder / "explained.toml"
    path.write_text(EXPLANATION.format(**parts))
    return str(path)


def origin_of(terminal: Terminal) -> str:
    """Return the name of the log."""
    with Forum(load_settings(terminal.folder, terminal.environment)) as forum:
        return forum.origin


def test_what_the_reader_explains_is_listed_and_condemns_nothing(terminal: Terminal) -> None:
    """The times prove nothing, and the report says so, whenever it is made."""
    wrong, log = wrong_entries(terminal), origin_of(terminal)
    file = explain(terminal, log=log, first=wrong[0], last=wrong[-1])
    reports = [verify(terminal, "ledger", "verify", "--explained", file) for _ in range(2)]
    shown = terminal.call("ledger", "verify", "--explained", file)
    again = wrong_entries(terminal)

    for status, report in reports:
        assert status == 0
        assert report["findings"] == []
        assert "some times are wrong, as you say, and prove nothing" in str(report["independent"])
        (notice,) = [note for note in report["notices"] if "explained by you" in note]  # type: ignore[attr-defined]
        assert f"the times of {len(wrong)} entries are wrong" in notice
        assert "worker 3" in notice
    assert "explained by you" in shown.stdout
    assert again == wrong


@pytest.mark.parametrize(
    ("log", "first", "last"), [("another.example/log", 0, 999), ("", 0, 0), ("", 500, 999)]
)
def test_an_explanation_of_something_else_explains_nothing(
    terminal: Terminal, log: str, first: int, last: int
) -> None:
    """Of another log, or of other entries."""
    file = explain(terminal, log=log or origin_of(terminal), first=first, last=last)

    assert verify(terminal, "ledger", "verify", "--explained", file)[0] == 3


@pytest.mark.parametrize("problem", Problem)
def test_an_explanation_excuses_nothing_but_a_time(problem: Problem) -> None:
    """Whatever else is found of an entry counts as before, and a time without an index does."""
    findings = Findings([ExplainedTimes("log", 0, 9, "a clock was off")])
    findings.add(problem, "detail", 9)
    findings.add(problem, "detail", 10)
    findings.add(problem, "detail")
    expected = 2 if problem is Problem.TIME_IMPOSSIBLE else 3

    assert findings.count == expected
    assert findings.has_explained is (expected == 2)
    assert findings.judge_claim(problem.claim, "").state is State.FAILS


def test_a_bundle_is_explained_by_its_reader_too(terminal: Terminal) -> None:
    """The log cannot enclose an explanation; whoever was told nothing finds the time."""
    wrong, log = wrong_entries(terminal), origin_of(terminal)
    file = explain(terminal, log=log, first=wrong[0], last=wrong[-1])
    _, report = verify(terminal, "ledger", "verify")
    run = report["findings"][0]["entry"].split("/")[0]  # type: ignore[index]
    terminal.call("ledger", "export", run, "--output", "run.zip")
    trust = str(terminal.policy)
    result = terminal.call("verify", "run.zip", "--policy", trust, "--explained", file)
    untold = terminal.call("verify", "run.zip", "--policy", trust)

    assert (result.exit_code, untold.exit_code) == (0, 3)


def test_a_file_that_explains_nothing_is_refused(terminal: Terminal) -> None:
    """A word that is wrong must not leave an entry unexplained without a sign."""
    file = terminal.folder / "explained.toml"
    for text in ("x", "[[clock]]\nlog = 'a'\nfirst = 1\n", "[[clock]]\nextra = 1\n"):
        file.write_text(text)
        done = terminal.call("ledger", "verify", "--explained", str(file))
        assert done.exit_code == 2
        assert "explains nothing" in done.stderr
