"""One word for each state of a run, whatever surface shows it."""

from itertools import product
from pathlib import Path

import pytest

from forum.app import RunView
from forum.app.formatting import explain_task_state
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Position
from forum.runs.kinds import CHILD_RUN, CallFacts, DelegationFacts, StopReason
from forum.runs.run_fold import CallRecord, Run, RunState, TaskRun, TaskState
from forum.runs.run_words import RUN_WORDS, choose_run_word
from forum.surfaces.cli.run_view import mark_word
from forum.tlog import Hash

ROOT = Path(__file__).parents[2]
EVERY_CASE = tuple(product(RunState, (None, *Outcome), (None, *StopReason), *([(False, True)] * 2)))


def test_every_state_has_a_word_of_the_table() -> None:
    """And a mark, which depends on the word alone."""
    for state, outcome, stopped, waits, overrun in EVERY_CASE:
        word = choose_run_word(state, outcome, stopped, waits=waits, has_overrun=overrun)

        assert word in RUN_WORDS
        assert mark_word(word)[1] == word
        if outcome not in (None, Outcome.OK) and stopped is StopReason.BUDGET:
            assert word == ("overrun" if overrun else "budget")


def test_the_dashboard_has_a_mark_for_every_word() -> None:
    """A word without one would be shown as nothing in particular."""
    source = (ROOT / "web/src/parts/StateMark.tsx").read_text()
    marks = source.split("const STATES")[1].split("};")[0]
    named = {line.split(":")[0].strip().strip('"') for line in marks.splitlines() if ": [" in line}

    assert set(RUN_WORDS) - {"ended"} <= named


def test_the_glossary_has_every_word() -> None:
    """Readers find what a word of a list means."""
    table = (ROOT / "docs/guides/cap-any-agent.md").read_text()
    assert [word for word in RUN_WORDS if f"| `{word}` |" not in table] == []


@pytest.mark.parametrize("word", ["over budget", "stopped: budget", "denied: budget"])
def test_no_surface_has_another_word_for_a_used_up_budget(word: str) -> None:
    """`budget` is the word."""
    sources = [
        *(ROOT / "src/forum").rglob("*.py"),
        *(ROOT / "clients/python/src").rglob("*.py"),
        *(ROOT / "web/src").rglob("*.ts*"),
        *(ROOT / "docs/guides").glob("*.md"),
    ]
    assert [path for path in sources if word in path.read_text()] == []


def test_a_task_whose_judges_sit_waits_for_their_run_and_not_for_a_person() -> None:
    """Nobody can approve it."""
    called = CallFacts(CHILD_RUN, CHILD_RUN, attempt=1, turn=1, role="validator")
    at = Position("run-1", "task/s", 0)
    call = CallRecord(at=at, entry=Hash(bytes(32)), called=called, begun=0)
    inner = DelegationFacts("01a1ebd5-fcc0-7bdf-a000-000000000000")
    task = TaskRun("s", TaskState.WAITING, calls=(call,), children=(inner,))
    view = RunView(
        run="run-1",
        state=Run(tasks={"s": task}),
        at=0,
        request="",
        plan=None,
        answer=None,
        errors={},
        gates=(),
    )

    assert explain_task_state(view, task) == "for run 01a1ebd5-fcc0-7bdf"
