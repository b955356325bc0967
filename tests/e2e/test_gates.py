"""Gates, while workers come and go."""

import signal
from pathlib import Path
from statistics import median
from time import monotonic

import pytest

from forum.engine import RunRequest
from forum.errors import GateChanged
from forum.ledger.kinds import Outcome
from forum.runs.kinds import Decider
from forum.runs.plan import single_task_plan
from forum.runs.policy import Answer, Policy
from tests.e2e.project import ALL_HOMES, Project, eventually
from tests.soak.gates import measure
from tests.support import flaky


def order(milliseconds: int = 60_000, default: Answer = Answer.REJECT) -> RunRequest:
    """Ask for something that has to be approved."""
    policy = Policy(gates=("tasks",), gate_milliseconds=milliseconds, gate_default=default)
    return RunRequest("Deploy.", single_task_plan("Deploy."), policy)


@ALL_HOMES
def test_what_was_approved_while_nobody_worked_is_done_when_somebody_does(home: Project) -> None:
    """An approval must not be lost because all workers were down when it was given."""
    with home.worker():
        run = home.submit(order())
        gate = home.wait(run).open_gates[0]
    home.forum.runs.decide_gate(run, "task/answer", Answer.APPROVE, gate.digest)
    with home.worker():
        state = home.end(run)

    assert state.outcome is Outcome.OK
    assert state.gates[gate.strand].decided is not None


@ALL_HOMES
def test_a_deadline_that_passes_while_nobody_works_holds(home: Project) -> None:
    """The default is recorded once somebody looks, and nothing else can be decided then."""
    with home.worker():
        run = home.submit(order(milliseconds=1500, default=Answer.APPROVE))
        gate = home.wait(run).open_gates[0]
    eventually(lambda: home.forum.store.now() > gate.deadline)
    with home.worker():
        state = home.end(run)
    decided = state.gates[gate.strand].decided

    assert state.outcome is Outcome.OK
    assert decided is not None
    assert (decided.answer, decided.by) == (Answer.APPROVE, Decider.DEADLINE)


@pytest.mark.slow
@ALL_HOMES
def test_a_deadline_outlives_a_kill(home: Project) -> None:
    """Neither earlier because a worker died, nor later than the next look at the alarms."""
    with home.worker() as worker:
        run = home.submit(order(milliseconds=4000))
        gate = home.wait(run).open_gates[0]
        worker.send_signal(signal.SIGKILL)
    with home.worker():
        state = home.end(run, seconds=40)
    home.forum.log.publish()  # the worker may have been killed before it came to that
    decision = home.forum.ledger.find_entry(state.gates[gate.strand].entry.hex()).entry

    assert state.outcome is Outcome.FAILED
    assert 0 <= decision.ts - gate.deadline < 20_000_000


@ALL_HOMES
def test_an_approval_of_what_was_edited_since_is_refused(home: Project) -> None:
    """Whoever approves has seen exactly what is then done."""
    with home.worker():
        run = home.submit(order())
        gate = home.wait(run).open_gates[0]
        fresh = home.forum.runs.edit_gate(run, "task/answer", gate.digest, b"Deploy on Monday.")
        with pytest.raises(GateChanged):
            home.forum.runs.decide_gate(run, "task/answer", Answer.APPROVE, gate.digest)
        waiting = home.forum.reads.read_run(run)
        home.forum.runs.decide_gate(run, "task/answer", Answer.APPROVE, fresh)
        state = home.end(run)

    assert waiting.open_gates
    assert state.outcome is Outcome.OK
    assert home.answer(run) == b"Done: Deploy on Monday."


@flaky("a decision is promised to wake its run within a second")
@ALL_HOMES
def test_a_decision_wakes_its_run_in_less_than_a_second(home: Project) -> None:
    """Somebody sits there and waits."""
    with home.worker():
        run = home.submit(order())
        gate = home.wait(run).open_gates[0]
        home.forum.runs.decide_gate(run, "task/answer", Answer.APPROVE, gate.digest)
        decided = monotonic()
        eventually(lambda: bool(home.forum.reads.read_run(run).tasks))
        woken = monotonic() - decided

    assert woken < 1.0


@pytest.mark.postgres
def test_runs_that_wait_are_rows(tmp_path: Path, postgres_url: str) -> None:
    """No workflow and no memory for any of them, and a decision wakes its run at once.

    `just soak-gates` does the same with ten thousand.
    """
    figures = measure(tmp_path / "project", 300, postgres_url)

    assert figures.claimed == 0
    assert figures.waiting_mb - figures.empty_mb < 15
    assert median(figures.woken_ms) < 1000, figures.woken_ms
