"""The engine from Python: functions as agents and tools, driven and recorded like all others."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import forum
from forum.errors import BadSettings, ExtensionMissing, IdempotencyKeyUsed, Malformed
from forum.features.recorder.public import EngineSession
from forum.ledger.kinds import Outcome
from forum.models import make_model
from forum.runs.plan import Task
from forum.runs.policy import Extension, PythonEntry, ToolSpec
from tests.features.recorder.recording import assert_verified, make_project, open_forum

calls: list[str] = []


@forum.agent(usd="0.01")
def clerk(prompt: str) -> str:
    """Answer with the last line of the prompt."""
    calls.append(prompt)
    return f"done: {prompt.strip().splitlines()[-1]}"


@forum.agent
async def voter(prompt: str) -> str:
    """Cast a ballot."""
    return '{"answer": "A", "confidence": 0.9, "claims": [], "reason": "so"}'


@forum.tool
def is_short(text: str = "", limit: int = 100) -> str:
    """Tell whether a text is short."""
    return "ok"


@pytest.fixture
def engine(project: Path) -> Iterator[EngineSession]:
    """Return the engine of a new project."""
    with forum.engine_of(project) as session:
        yield session


@pytest.mark.slow
def test_a_request_is_answered_by_a_function(engine: EngineSession, project: Path) -> None:
    """The run is driven: planned, budgeted, recorded step by step, and verified."""
    run = engine.submit("Name a river.", agents=[clerk], usd=0.05, idempotency_key="k1")
    states = list(run.follow())
    again = engine.submit("Name a river.", agents=[clerk], usd=0.05, idempotency_key="k1")
    with pytest.raises(IdempotencyKeyUsed):
        engine.submit("Name a river.", agents=[clerk], usd=0.5, idempotency_key="k1")
    result = run.wait(30)

    assert again.id == run.id
    assert states[-1].outcome is Outcome.OK
    assert result.answer == "done: Name a river."
    assert result.usd == 0.01
    assert engine.run(run.id[:18]).result() == result
    assert_verified(project)


@pytest.mark.slow
def test_a_plan_waits_at_its_gate(engine: EngineSession) -> None:
    """A program submits tasks, sees what waits, and decides."""
    tasks = [Task("a", "First."), Task("b", "Second.", done_when="contains done", needs=("a",))]

    async def drive() -> forum.RunResult[None]:
        run = engine.submit("Two things", plan=tasks, agents=[clerk], gates=["plan"])
        waiting = await run.wait_async(30)
        assert waiting.waiting == ("plan",)
        assert "Second." in run.shown_at("plan")
        run.decide("plan", "approve")
        return await run.wait_async(30)

    result = asyncio.run(drive())
    assert result.outcome is Outcome.OK


@pytest.mark.slow
def test_a_tool_is_a_function(engine: EngineSession, project: Path) -> None:
    """A criterion of a task is checked by a function, whose use is recorded."""
    tasks = [Task("a", "Short.", done_when="command is_short")]
    run = engine.submit("Check", plan=tasks, agents=[clerk], tools=[is_short])
    result = run.wait(30)

    assert result.outcome is Outcome.OK, result
    with open_forum(project) as opened:
        policy = opened.reads.read_run_request(run.id).policy
    assert policy.tools["is_short"].entry == PythonEntry("is_short")
    assert policy.tools["is_short"].description == "Tell whether a text is short."
    assert policy.tools["is_short"].schema["properties"]["limit"] == {"type": "integer"}


@pytest.mark.slow
def test_functions_deliberate(engine: EngineSession) -> None:
    """A council of functions agrees, by the rules of every council."""
    result = engine.deliberate("A or B?", agents=[voter], options=["A", "B"]).wait(60)

    assert result.outcome is Outcome.OK, result
    assert result.answer is not None
    assert "A" in result.answer


def test_only_decorated_functions_are_agents(engine: EngineSession) -> None:
    """A function that nobody registered could not be found by a worker."""
    with pytest.raises(Malformed, match=r"forum\.agent"):
        engine.submit("x", agents=[len])


PLUGIN = {
    "plugin_model.py": "def echo(prompt, **options): return 'plugin: ' + prompt[-5:]\n",
    "acme_forum-1.2.dist-info/METADATA": "Metadata-Version: 2.1\nName: acme-forum\nVersion: 1.2\n",
    "acme_forum-1.2.dist-info/entry_points.txt": (
        "[forum.models]\nacme = plugin_model:echo\n\n[forum.tools]\nacme-tool = plugin_model:echo\n"
    ),
}


def test_a_plugin_is_named_by_distribution_and_version(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy records what was used; another version, or none, is refused with what to do."""
    site = tmp_path / "site"
    for name, content in PLUGIN.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(content)
    monkeypatch.syspath_prepend(str(site))
    (project / "forum.toml").write_text(
        '[models.default]\nextension = "acme"\nusd = 0.02\n\n[tools.t]\nextension = "acme-tool"\n'
    )
    with forum.engine_of(project) as engine:
        run = engine.submit("Hello there", route=False)
        result = run.wait(30)
        with open_forum(project) as opened:
            policy = opened.reads.read_run_request(run.id).policy

    entry = PythonEntry("acme", "acme-forum", "1.2")
    assert result.answer == "plugin: there"
    assert policy.agents[""] == Extension(entry, usd=20_000_000)
    assert policy.tools["t"] == ToolSpec(entry=PythonEntry("acme-tool", "acme-forum", "1.2"))
    for other, why in (
        (PythonEntry("acme", "acme-forum", "1.3"), "1.2 is installed; the run names 1.3"),
        (PythonEntry("nobody", "gone", "1"), "install gone==1"),
        (PythonEntry("nobody"), "no such function"),
    ):
        with pytest.raises(ExtensionMissing, match=why):
            make_model(Extension(other))


def test_the_settings_of_an_extension_are_checked(project: Path) -> None:
    """A misspelled setting is an error, as for every agent."""
    (project / "forum.toml").write_text('[models.default]\nextension = "acme"\nurl = "x"\n')

    with pytest.raises(BadSettings, match="url"):
        forum.engine_of(project)


def test_a_short_program_submits_and_waits(project: Path) -> None:
    """Without a session, the engine of the current folder is used and closed at exit."""
    program = (
        "import forum\n"
        "@forum.agent\n"
        "def echo(prompt): return prompt.upper()\n"
        "print(forum.submit('hello', agents=[echo]).wait(30).answer)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=project,
        env=make_project(project),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "HELLO\n", "")
