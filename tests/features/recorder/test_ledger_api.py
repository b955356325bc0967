"""`forum.ledger`: what a program reads of a ledger is what the ledger holds."""

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

import forum
from forum.app import Forum
from forum.app.planner import load_roster
from forum.config import load_settings
from forum.errors import NoLedger, NoSuchEntry
from forum.ledger.kinds import Outcome
from tests.features.recorder.recording import make_project
from tests.support import upgraded


@forum.agent
def deny(_prompt: str) -> str:
    """Answer without what is asked for."""
    return "no"


@forum.agent(usd="0.01", tokens=100)
def agree(_prompt: str) -> str:
    """Answer with what is asked for."""
    return "yes, " * 20


class Played(NamedTuple):
    """A project with a run that failed and a run that passed."""

    folder: Path
    failed: str
    passed: str


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def played(
    request: pytest.FixtureRequest, project: Path, monkeypatch: pytest.MonkeyPatch
) -> Played:
    """Return a project with two runs, in each database that we have."""
    if request.param == "postgres":
        url = upgraded(request.getfixturevalue("postgres_url"))
        monkeypatch.setenv("FORUM_DATABASE_URL", url)
    plan = {"tasks": [{"id": "ask", "instruction": "Yes?", "done_when": "contains yes"}]}
    with forum.engine_of(project) as engine:
        runs = [
            engine.submit(f"Ask {agent.__name__}.", plan=plan, agents=[agent]).wait(60).run
            for agent in (deny, agree)
        ]
    return Played(project, *runs)


@pytest.mark.slow
def test_a_program_reads_the_ledger(played: Played) -> None:
    """Verified, listed, replayed, explained and measured, on each database; nothing is written."""
    ledger = forum.ledger(played.folder)
    before = ledger.checkpoint()
    report = ledger.verify()
    newest, oldest = ledger.runs()
    comparison = ledger.compare(played.failed, played.passed)
    whole, ledger_summary = ledger.summary(), ledger.summary(played.passed[:18])

    assert report.ok
    assert before is not None
    assert (before.size, before.root) == (report.size, report.root)
    assert (newest.id, newest.state, newest.calls, newest.usd) == (played.passed, "ok", 1, 0.01)
    assert (oldest.id, oldest.outcome, oldest.title) == (played.failed, Outcome.FAILED, "Ask deny.")
    assert [run.id for run in ledger.runs(state="failed")] == [played.failed]
    assert [run.id for run in ledger.runs(before=newest.id)] == [played.failed]
    assert (whole.runs, whole.outcomes, whole.verified) == (2, {"failed": 1, "ok": 1}, whole.size)
    assert whole.verdicts == {"accept": 1, "give-up": 1, "retry": 2}
    assert (ledger_summary.run, ledger_summary.runs, ledger_summary.calls, ledger_summary.usd) == (
        played.passed,
        1,
        1,
        0.01,
    )
    assert comparison.difference.usd == 0.01
    assert comparison.difference.passed == 1
    assert comparison.difference.body_bytes == comparison.b.body_bytes - comparison.a.body_bytes
    assert forum.ledger(played.folder).checkpoint() == before


@pytest.mark.slow
def test_a_run_is_replayed_up_to_each_of_its_entries(played: Played) -> None:
    """The states at the entries are those of its course, and the last is the state now."""
    ledger = forum.ledger(played.folder)
    with Forum(load_settings(played.folder, os.environ)) as opened:
        entries = opened.reads.read_run_record(played.passed).entries
    # The request is the second entry; before it there is nothing to be seen of the run.
    indexes = [located.index for located in entries if located.index is not None][1:]
    states = [ledger.replay(played.passed, until=index) for index in indexes]
    now = ledger.replay(played.passed)

    assert [state.until for state in states] == indexes
    assert sorted(state.entries for state in states) == [state.entries for state in states]
    assert states[0].answer is None
    assert [task.state for task in states[0].tasks.values()] in ([], ["pending"])
    assert msgspec.structs.replace(states[-1], until=None) == now
    (verdict,) = now.tasks["ask"].verdicts
    assert (now.tasks["ask"].state, verdict.passed) == ("passed", True)
    assert (now.outcome, now.answer, now.usd) == (Outcome.OK, "yes, " * 20, 0.01)


@pytest.mark.slow
def test_the_causes_of_an_answer_lead_to_its_request(played: Played) -> None:
    """Each with its facts; an entry that does not exist is an error with a reason."""
    ledger = forum.ledger(played.folder)
    summary = ledger.summary()
    newest = (ledger.why(index, 1)[0] for index in reversed(range(summary.size)))
    closed = next(cause for cause in newest if cause.kind == "run.close/1")
    causes = ledger.why(closed.id)

    assert [cause.depth for cause in causes] == sorted(cause.depth for cause in causes)
    kinds = [cause.kind for cause in causes]
    assert {"run.close/1", "verdict/1", "reply/1", "call/1", "accepted/1"} <= {*kinds}
    verdict = next(cause for cause in causes if cause.kind == "verdict/1")
    assert (verdict.run, verdict.facts["next"]) == (played.passed, "accept")
    assert ledger.why(verdict.id[:16])[0] == ledger.why(verdict.index or 0)[0]
    with pytest.raises(NoSuchEntry, match="entries"):
        ledger.why(summary.size)


def test_lanes_are_those_of_the_roster(project: Path) -> None:
    """Of the one that is shipped, or of the one that the project names."""
    with forum.engine_of(project):
        pass
    shipped = load_roster()
    assert [lane.name for lane in forum.ledger(project).lanes()] == list(shipped.by_name)
    (project / "own.toml").write_text(
        "".join(
            f'[[lane]]\nname = "{name}"\ndoes = "{name}"\nterms = ["{name}"]\n' for name in "ab"
        )
    )
    (project / "forum.toml").write_text('[roster]\nfile = "own.toml"\n')
    assert [lane.name for lane in forum.ledger(project).lanes()] == ["a", "b"]


def test_a_folder_without_a_ledger_is_an_error_and_stays_as_it_is(project: Path) -> None:
    """Reading makes no ledger."""
    before = sorted(project.rglob("*"))
    with pytest.raises(NoLedger):
        forum.ledger(project)
    assert sorted(project.rglob("*")) == before


def test_the_package_can_be_called_and_imported_in_any_order(project: Path) -> None:
    """`forum.ledger` is a function and a package, whichever is used first."""
    make_project(project)
    orders = [
        "import forum; f = forum.ledger; import forum.ledger.entry as e",
        "import forum.ledger.entry as e; import forum; f = forum.ledger",
        "from forum import ledger as f; from forum.ledger import entry as e",
    ]
    for text in orders:
        check = f"{text}; assert callable(f) and forum.ledger is f and e.MAIN_STRAND"
        done = subprocess.run(
            [sys.executable, "-c", f"import forum\n{check}"], capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
    assert "folder" in inspect.signature(forum.ledger).parameters


def test_every_public_name_is_listed_and_explained() -> None:
    """In a fresh interpreter, where nothing is loaded yet; completion and `help` show them."""
    code = "import forum; print(*dir(forum)); assert 'TYPE_CHECKING' not in dir(forum)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {*forum.__all__} <= {*done.stdout.split()}
    for name in set(forum.__all__) - {"__version__"}:
        assert inspect.getdoc(getattr(forum, name)), name
    for kind in (
        value for name in forum.__all__ if isinstance(value := getattr(forum, name), type)
    ):
        for method, function in inspect.getmembers(kind, inspect.isfunction):
            if not method.startswith("_"):
                assert inspect.getdoc(function), f"{kind.__name__}.{method}"


@pytest.mark.slow
def test_what_a_notebook_shows_is_short(played: Played) -> None:
    """A line for each thing, and a table for each set of figures."""
    ledger = forum.ledger(played.folder)
    (newest, _), report = ledger.runs(), ledger.verify()

    assert played.passed in repr(newest)
    assert len(repr(newest)) < 120
    assert repr(report).startswith("<Report: intact, complete, self-witnessed")
    assert repr(ledger.summary()).count("\n") in range(8, 25)
    table = repr(ledger.compare(played.failed, played.passed))
    assert "\nusd " in table
    assert "+0.01" in table
    assert ledger.origin in repr(ledger)
    assert f"size {report.size}" in repr(ledger.checkpoint())


@pytest.mark.parametrize("asked", [{"limit": -1}, {"state": "nonsense"}])
def test_a_list_that_nobody_can_mean_is_refused(played: Played, asked: dict[str, Any]) -> None:
    """A part of the runs, or none, would be taken for an answer."""
    with pytest.raises(ValueError, match=r"limit is -1|no run is ever 'nonsense'; known: "):
        forum.ledger(played.folder).runs(**asked)
