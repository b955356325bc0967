"""Ways to start without a project file that names agents."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from forum.work.policy import Chat, Command
from tests.e2e.project import Project, project
from tests.models.provider import say, serving
from tests.surfaces.serving import served
from tests.surfaces.talks import Talk, over_pipes, talk
from tests.surfaces.terminal import Terminal

SECRET = "sk-canary-8d1f0c93e7b24a68"  # noqa: S105  # it opens nothing


def agent_of(made: Project, run: str) -> object:
    """Return the default agent that is recorded with a run."""
    return made.forum.reads.read_run_request(run).policy.agents[""]


def test_a_server_asks_the_model_that_its_options_name(tmp_path: Path) -> None:
    """On a laptop there is a model and no project file; the worker learns of it from the record."""
    with serving(say("The Rhine.")) as provider:
        options = ("--chat-url", provider.url, "--model", "tiny", "--price-in", "0")
        options += ("--price-out", "0", "--key-env", "A_KEY_OF_MINE")
        with served(tmp_path / "project", options=options, workers=0) as made:
            run = made.begin("Name a river.")
            environ = {**made.project.environ, "A_KEY_OF_MINE": SECRET}
            with replace(made.project, environ=environ).worker():
                ended = made.project.end(run)
                answer, agent = made.project.answer(run), agent_of(made.project, run)

    assert answer == b"The Rhine."
    assert ended.outcome == "ok"
    assert isinstance(agent, Chat)
    assert (agent.url, agent.model, agent.key_env) == (provider.url, "tiny", "A_KEY_OF_MINE")
    assert provider.seen[0].headers["authorization"] == f"Bearer {SECRET}"


def test_an_editor_asks_the_program_that_the_options_name(tmp_path: Path) -> None:
    """The program gets the request as it is, as with `forum submit --cmd`."""

    async def submit(begun: Talk) -> dict[str, Any]:
        return await begun.well("submit", request="Name a river.", seconds=60)

    with project(tmp_path / "project", None) as made:
        command = f"{sys.executable} -c 'print(input())'"
        run = talk(over_pipes(made, "--cmd", command), submit, "legacy")
        agent = agent_of(made, run["run"])

    assert (run["outcome"], run["answer"].strip()) == ("ok", "Name a river.")
    assert isinstance(agent, Command)


def test_a_server_refuses_options_that_name_two_agents(tmp_path: Path) -> None:
    """As `forum submit` does: before anything is served."""
    said = Terminal(tmp_path).call("serve", "--cmd", "cat", "--model", "m")

    assert said.exit_code == 2
    assert "one agent cannot be both" in said.stderr
