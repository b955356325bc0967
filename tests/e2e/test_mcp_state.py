"""An agent with a server that has state, and a worker that is killed in the middle of a call."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from forum.engine import RunRequest
from forum.ledger.kinds import Outcome
from forum.runs.plan import single_task_plan
from forum.runs.policy import Answer, McpServer, Policy, Scripted, ScriptStep, ToolCall, ToolSpec
from tests.e2e.project import Project, eventually, project
from tests.models.test_mcp_tools import SERVERS, lives

NOTES = ("a", "b", "wait", "c", "d")


def noting(file: Path) -> RunRequest:
    """Return a request for an agent that makes one note after the other."""
    server = McpServer((sys.executable, str(SERVERS / "notebook.py"), str(file)))
    steps = [ScriptStep(use=(ToolCall("note", json.dumps({"text": text})),)) for text in NOTES]
    policy = Policy(
        agents={"": Scripted({"*": (*steps, ScriptStep("noted"))})},
        tools={"note": ToolSpec(server=server, name="note")},
    )
    return RunRequest("Go.", single_task_plan("Go."), policy)


def written(file: Path) -> list[list[str]]:
    """Return the notes in the file, each with the process that wrote it."""
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def transcript(home: Project, run: str) -> list[tuple[str, str]]:
    """Return the arguments of the tool calls and their results, as a transcript has them."""
    argv = [sys.executable, "-m", "forum", "show", run, "--transcript", "--json"]
    printed = subprocess.run(argv, cwd=home.home, env=home.environ, capture_output=True, check=True)
    bodies = [step["bodies"] for step in json.loads(printed.stdout)["steps"]]
    return [
        (name, body[name])
        for body in bodies
        for name in ("arguments", "result")
        if body.get(name) is not None
    ]


@pytest.mark.slow
def test_each_call_is_made_and_told_once_though_the_worker_is_killed(tmp_path: Path) -> None:
    """The server's state lasts from call to call, and neither it nor an effect is left twice."""
    file = tmp_path / "notes"
    with project(tmp_path / "project", None) as home:
        with home.worker() as first:
            run = home.submit(noting(file))
            eventually(lambda: len(written(file)) == 3, 60)
            first.kill()
            first.wait()
        server = int(written(file)[0][0])
        eventually(lambda: not lives(server))
        with home.worker():
            gate = home.wait(run, 90).open_gates[0]
            # The file shows that it has happened.
            home.forum.runs.decide_gate(run, gate.opened.subject, Answer.APPROVE, gate.digest)
            state = home.end(run, 60)
        calls = transcript(home, run)

    pids = [int(pid) for pid, _ in written(file)]
    assert state.outcome is Outcome.OK
    assert [text for _, text in written(file)] == list(NOTES)
    assert len({*pids[:3]}) == len({*pids[3:]}) == 1
    eventually(lambda: not any(map(lives, pids)))
    arguments = [json.loads(text)["text"] for name, text in calls if name == "arguments"]
    assert arguments == list(NOTES)
    # The call that was under way has no result; the server of the second worker counts anew.
    results = [text for name, text in calls if name == "result"]
    assert results == ["note 1", "note 2", "note 1", "note 2"]
