"""Sessions of the open protocol from Python: held, recorded, written, executed again."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import forum
from forum.errors import BadPlan, ForumError, Malformed
from forum.features.symposium.artifact_rules import check_artifact
from forum.features.symposium.kinds import ReplayPin
from tests.features.recorder.recording import assert_verified
from tests.features.symposium.own_examples import SCRIPT, write_examples
from tests.spoken import synthesis, verdict

FIXED = "2026-01-01T00:00:00Z"


def speak(prompt: str) -> dict[str, Any]:
    """Take a turn, decide that it is enough, and put the answer together, as the prompt asks."""
    if "integrated_answer" in prompt:
        return json.loads(synthesis("Dig it.", "the lock"))  # type: ignore[no-any-return]
    if "next_action" in prompt:
        return json.loads(verdict("finalize"))  # type: ignore[no-any-return]
    return {"text": "I looked twice.", "direct_requests": []}


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """Return the folder of our own configs and scripts."""
    return write_examples(tmp_path / "examples")


@pytest.fixture
def config(examples: Path) -> dict[str, Any]:
    """Return a config whose models nobody serves."""
    document: dict[str, Any] = json.loads((examples / "configs/two-rounds.yaml").read_bytes())
    return document


@pytest.mark.slow
def test_a_session_of_functions_is_recorded_and_executed_again(
    project: Path, config: dict[str, Any]
) -> None:
    """The result has all that came of it; the folder is one of the protocol."""
    held = forum.symposium.run(config, speak, project=project, output=project / "out")
    again = forum.symposium.replay(project / "out" / config["session_id"], project=project)
    assert_verified(project)

    assert (held.outcome, held.reason, held.answer) == ("synthesis", None, "Dig it.")
    assert [left.topic for left in held.dissent] == ["the lock"]
    assert held.folder is not None
    assert (held.folder / "artifact.json").read_bytes() == held.artifact
    assert check_artifact(held.artifact) == ()
    assert held.messages[0].text == config["problem_statement"]
    assert held.usage.total_tokens == 0
    assert (again.holds, again.digest, again.first_difference) == (True, held.digest, "")
    assert sorted((*again.conditions_checked, *again.conditions_assumed)) == sorted(ReplayPin)
    with pytest.raises(FileExistsError, match="Give another session_id or another output"):
        forum.symposium.run(config, speak, project=project, output=project / "out")


def test_under_a_fixed_clock_two_sessions_are_the_same_bytes(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    """Nothing is recorded: no ledger gets times that are made up."""
    (tmp_path / "forum.toml").write_text("")  # so that its ledger would be in this folder
    clock = forum.symposium.fixed_clock
    first, second = (
        forum.symposium.run(config, speak, clock=clock(FIXED, step=0.5), project=tmp_path)
        for _ in range(2)
    )
    other = forum.symposium.run(config, speak, clock=clock("2026-01-02"), project=tmp_path)

    assert first.artifact == second.artifact
    assert json.loads(first.artifact)["started_at"].startswith("2026-01-01T00:00:0")
    assert other.digest != first.digest
    assert first.run is None
    assert {file.name for file in tmp_path.iterdir()} == {"examples", "forum.toml"}


def test_a_script_plays_a_session_and_its_pins_are_named(
    tmp_path: Path, examples: Path, config: dict[str, Any]
) -> None:
    """Without its script, nothing can be executed again, and the error has the pin as a fact."""
    held = forum.symposium.run(
        examples / "configs/two-rounds.yaml",
        script=examples / SCRIPT,
        clock=forum.symposium.fixed_clock(FIXED),
        project=tmp_path,
        output=tmp_path / "out",
    )
    folder = tmp_path / "out" / config["session_id"]
    again = forum.symposium.replay(folder, script=examples / SCRIPT, project=tmp_path)
    altered = json.loads((examples / SCRIPT).read_bytes())
    altered["entries"][0]["result"]["structured_output"]["text"] = "Another."
    parted = forum.symposium.replay(folder, script=altered, project=tmp_path)
    with pytest.raises(forum.symposium.PinningViolation) as refused:
        forum.symposium.replay(folder, project=tmp_path)

    assert (again.holds, again.digest) == (True, held.digest)
    assert (parted.holds, parted.first_difference) == (False, held.messages[1].id)
    assert refused.value.pin == ReplayPin.ADAPTER


@pytest.mark.parametrize("name", ["nosuch", "."])
def test_a_folder_without_a_session_is_refused_with_what_to_do(tmp_path: Path, name: str) -> None:
    """A path that is not there, and a folder that holds something else."""
    with pytest.raises(ForumError, match="forum deliberate export RUN"):
        forum.symposium.replay(tmp_path / name, project=tmp_path)


def test_what_cannot_be_held_is_refused_and_leaves_no_folder(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    """Whoever speaks has to be in the config; a model that costs money needs a record."""
    clock = forum.symposium.fixed_clock(FIXED)
    (tmp_path / "forum.toml").write_text('[models.paid]\ncmd = "cat"\nusd = 1\n')
    everybody = dict.fromkeys([agent["id"] for agent in config["agents"]], speak)
    chair = config["coordinator"]["id"]

    def hold(agents: Any, **options: Any) -> None:  # noqa: ANN401
        forum.symposium.run(
            config, agents, clock=clock, project=tmp_path, output=tmp_path / "out", **options
        )

    with pytest.raises(BadPlan, match="no agent 'nobody'"):
        hold({"nobody": speak})
    with pytest.raises(BadPlan, match="costs money"):
        hold({**everybody, chair: "paid"})
    with pytest.raises(Malformed):
        forum.symposium.run({"session_id": "x"}, speak, clock=clock, project=tmp_path)
    with pytest.raises(TypeError, match="no option 'questions'"):
        hold(speak, questions="Why?")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_decorated_function_brings_its_price(tmp_path: Path, config: dict[str, Any]) -> None:
    """What a call costs is reserved and recorded, which a made-up clock does not allow."""

    @forum.agent(usd="0.01")
    def paid(prompt: str) -> Any:  # noqa: ANN401  what becomes JSON
        return speak(prompt)

    clock = forum.symposium.fixed_clock(FIXED)
    with pytest.raises(BadPlan, match="costs money"):
        forum.symposium.run(config, paid, clock=clock, project=tmp_path)


def test_a_session_can_be_held_where_an_event_loop_runs(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    """As in a notebook."""

    async def hold() -> str | None:
        clock = forum.symposium.fixed_clock(FIXED)
        return forum.symposium.run(config, speak, clock=clock, project=tmp_path).answer

    assert asyncio.run(hold()) == "Dig it."
