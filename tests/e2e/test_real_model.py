"""A real model, from a plain request to a verified answer: routed, planned, worked on, judged.

The model is very small.  Nothing is asserted of what its replies mean, everything of what becomes
of them.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from forum.engine import RunRequest
from forum.ledger.kinds import Outcome
from forum.work.kinds import CallFacts, Independence, ReplyFacts
from forum.work.plan import Plan, RunBudget, Task
from forum.work.policy import Chat, LaneBrief, Policy, Role
from forum.work.run_fold import TaskState
from tests.e2e.project import Project, project

pytestmark = pytest.mark.slow

MODEL = "smollm2-135m"


@pytest.fixture
def home(tmp_path: Path) -> Any:  # noqa: ANN401  a generator of a project
    """Make a project whose ledger is a file."""
    with project(tmp_path / "project", None) as made:
        yield made


def forum(home: Project, *argv: str) -> subprocess.CompletedProcess[str]:
    """Type a command in the project."""
    return subprocess.run(
        [sys.executable, "-m", "forum", *argv],
        cwd=home.home,
        env=home.environ,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def calls_of(home: Project, run: str) -> list[tuple[CallFacts, ReplyFacts | None]]:
    """Return every call of a run with its reply."""
    tasks = home.forum.reads.read_run(run).tasks.values()
    return [(call.called, call.replied) for task in tasks for call in task.calls]


def test_a_plain_request_is_answered_by_a_team_of_real_models(home: Project, smollm2: str) -> None:
    """Typed as a user would: the answer, then the record, verified and played again.

    A model of this size may not be able to judge its own answer: then the command says why.
    """
    request = "Explain to a beginner what a hash function is."
    (home.home / "forum.toml").write_text(
        "[models.capable]\n"
        f'url = "{smollm2}"\nmodel = "{MODEL}"\nmax_tokens = 320\n'
        "context_tokens = 2048\noptions = { temperature = 0 }\n"
    )
    said = forum(home, "submit", request, "--team", "--max-calls", "30", "--json")
    told = json.loads(said.stdout)
    run = told["run"]
    state = home.forum.reads.read_run(run)

    assert said.returncode in (0, 1), said.stderr
    assert (state.outcome is Outcome.OK) == (said.returncode == 0)
    assert said.returncode == 0 or "It failed: the answer did not pass the check" in said.stderr
    assert told["answer"].strip()
    assert state.routed is not None
    assert state.routed.lane == "teaching"
    roles = {called.role for called, _ in calls_of(home, run)}
    assert {"", Role.COORDINATOR, Role.VALIDATOR} <= roles
    for called, replied in calls_of(home, run):
        assert replied is not None
        assert (called.model, replied.model, replied.prices) == (MODEL, MODEL, "free")
        assert 0 < replied.input_tokens < replied.tokens <= called.tokens
    judged = [verdict for task in state.tasks.values() for verdict in task.verdicts]
    assert Independence.NO in [verdict.independence for verdict in judged]
    for command in (["ledger", "verify"], ["replay", run]):
        done = forum(home, *command)
        assert done.returncode == 0, done.stdout + done.stderr


def test_two_results_of_a_real_model_become_one_answer(home: Project, smollm2: str) -> None:
    """The Synthesizer keeps the references, and the whole is played again from its record."""
    chat = Chat(smollm2, MODEL, max_tokens=120, options={"temperature": 0})
    tasks = Plan(
        (
            Task("river", "Name a river of Germany.", lane="geography"),
            Task("peak", "Name a mountain of Austria.", "a mountain is named", lane="geography"),
        )
    )
    lanes = {"geography": LaneBrief("Knows places.", "Answer in one short sentence.", "worker")}
    roles = dict.fromkeys((Role.VALIDATOR, Role.SYNTHESIZER, Role.INTENT), "judge")
    policy = Policy(agents={"worker": chat, "judge": chat}, lanes=lanes, roles=roles)
    with home.forum.runs.run_worker():
        run = home.submit(RunRequest("A river and a mountain?", tasks, policy, RunBudget(calls=40)))
        state = home.wait(run, 240)

    assert state.task("@synthesizer").state is TaskState.PASSED
    assert all(f"[{name}]".encode() in home.answer(run) for name in ("river", "peak"))
    home.forum.log.publish()
    assert home.forum.log.verify(home.forum.log.read_trust()).ok
    assert home.forum.runs.replay(run) == []
