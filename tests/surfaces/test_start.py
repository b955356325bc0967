"""Ways to start without a project file that names agents."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forum.app.planner import load_team_settings
from forum.config import load_settings
from forum.errors import BadSettings
from forum.runs.policy import Api, Chat, Command, ReportFormat
from forum.surfaces.cli.environment_models import offered_models
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
        model = ("--chat-url", provider.url, "--model", "tiny", "--key-env", "A_KEY_OF_MINE")
        options = (*model, "--price-in", "0", "--price-out", "0")
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
    result = Terminal(tmp_path).call("serve", "--cmd", "cat", "--model", "m")

    assert result.exit_code == 2
    assert "one agent cannot be both" in result.stderr


# Variables of the environment

VARIABLES = {
    "OPENAI_API_KEY": SECRET,
    "ANTHROPIC_API_KEY": f"{SECRET}-2",
    "OPENAI_BASE_URL": f"https://{SECRET}.example/v1",
}


def section_of(file: str, name: str) -> str:
    """Return a section of the project file that is commented out, without the marks."""
    _, head, rest = file.partition(f"# [models.{name}]\n")
    return (head + rest.partition("\n\n")[0]).replace("# ", "")


@pytest.mark.parametrize("command", [("init",), ("init", "--json"), ("models", "check")])
def test_models_of_the_environment_are_offered_by_name(tmp_path: Path, command: list[str]) -> None:
    """Whoever has a key can begin; and neither a file nor a terminal holds what it is."""
    terminal = Terminal(tmp_path)
    done = terminal.type(*command, **VARIABLES)
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]

    assert done.returncode == 0, done.stderr
    for name in VARIABLES:
        assert name in done.stdout + done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert not any(SECRET.encode() in content for content in files)


def test_an_offer_is_ready_to_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the comment marks it is a model, with the address and the key of the variables."""
    terminal = Terminal(tmp_path)
    terminal.type("init", **VARIABLES)
    written = (terminal.folder / "forum.toml").read_text()
    sections = "\n\n".join(section_of(written, name) for name in ("openai", "anthropic"))
    (terminal.folder / "forum.toml").write_text(sections)
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    agents = load_team_settings(load_settings(terminal.folder, {})).agents

    openai, anthropic = agents["openai"], agents["anthropic"]
    assert isinstance(openai, Chat)
    assert (openai.url, openai.key_env) == (VARIABLES["OPENAI_BASE_URL"], "OPENAI_API_KEY")
    assert isinstance(anthropic, Chat)
    assert (anthropic.api, anthropic.key_env) == (Api.ANTHROPIC, "ANTHROPIC_API_KEY")
    assert offered_models(VARIABLES, agents.values()) == ()
    monkeypatch.delenv("OPENAI_BASE_URL")
    with pytest.raises(BadSettings, match=r"models.openai\] url_env: set the variable"):
        load_team_settings(load_settings(terminal.folder, {}))


# Coding agents

PROGRAM = """#!/bin/sh
case "$1" in
  --version) echo "1.2.3 (of a test)" ;;
  auth|login) exit {login} ;;
  *) sed 's/$/ \\\\n/' | tr -d '\\n"' > prompt
     printf '{{"result": "%s\\\\n%s", "total_cost_usd": 0.02}}' "claude $*" "$(cat prompt)" ;;
esac
"""


@pytest.fixture
def programs(tmp_path: Path) -> Terminal:
    """Make a project with all coding agents, of which one is logged in, and one is missing."""
    terminal, folder = Terminal(tmp_path), tmp_path / "bin"
    folder.mkdir()
    for name, login in (("claude", 0), ("gemini", 1)):
        (folder / name).write_text(PROGRAM.format(login=login))
        (folder / name).chmod(0o755)
    terminal.environment["PATH"] = f"{folder}:{os.environ['PATH']}"
    (terminal.folder / "forum.toml").write_text(
        """
        [models.default]
        kind = "claude-code"
        model = "sonnet"
        [models.other]
        kind = "codex"
        [models.third]
        kind = "gemini"
        context_tokens = 5000
        """
    )
    return terminal


def test_a_coding_agent_is_a_command_with_the_flags_for_headless_use(programs: Terminal) -> None:
    """The record has the command, so that it can be read without our table."""
    answer = programs.type("submit", "Name a river.", "--no-route")
    agents = load_team_settings(load_settings(programs.folder, {})).agents

    assert answer.stdout.splitlines()[0] == (
        "claude -p --safe-mode --no-session-persistence --output-format json --model sonnet"
    )
    assert "Name a river." in answer.stdout
    assert "$0.02" in programs.type("show").stdout
    assert agents["other"] == Command(
        (
            *("codex", "exec", "--skip-git-repo-check", "--ephemeral"),
            *("--ignore-user-config", "--ignore-rules", "--json", "-"),
        ),
        context_tokens=272_000,
        report=ReportFormat.CODEX,
    )
    assert agents["third"] == Command(
        ("gemini", "--skip-trust", "--output-format", "json", "--prompt", ""),
        context_tokens=5000,
        report=ReportFormat.GEMINI,
    )


def test_doctor_tells_version_and_login_of_coding_agents(programs: Terminal) -> None:
    """Without a login every call fails, and the program says so only in the middle of a run."""

    def models() -> list[str]:
        findings = json.loads(programs.type("doctor", "--json").stdout)["checks"]
        return [f"{f['found']} > {f['next']}" for f in findings if f["check"] == "model"]

    missing = "other: there is no program 'codex' on this machine > npm install -g @openai/codex"
    assert models() == [
        missing,
        "third: gemini, 1.2.3 (of a test); login not checked > None",
    ]
    (programs.folder / "forum.toml").write_text('[models.a]\nkind = "claude-code"')
    assert models() == ["a: claude, 1.2.3 (of a test); logged in > None"]
    claude = programs.folder.parent / "bin/claude"
    claude.write_text(PROGRAM.format(login=1))
    assert models() == ["a: claude, 1.2.3 (of a test); not logged in > claude auth login"]
    claude.write_text("#!/bin/sh\nexit 1")
    assert models() == ["a: claude does not say its version > run it by hand: claude --version"]
