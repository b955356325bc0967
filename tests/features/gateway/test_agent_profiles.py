"""What `forum run` sets for known agents, and what it keeps from every program."""

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from forum.features.gateway.agent_profiles import AGENT_PROFILES, apply_profile
from forum.features.gateway.program import RemovalReason, find_removed, program_environment
from forum.features.gateway.routes import ApiProvider
from forum.features.gateway.settings import PROVIDER_SECRETS, RELAYED_SECRETS
from forum.runs.cli_agents import CLI_AGENTS
from tests.features.gateway.real_clients import CLIENTS
from tests.features.gateway.running import RecordedCalls, provider_variables
from tests.surfaces.terminal import Terminal

URLS = {provider: f"http://127.0.0.1:1/{provider}" for provider in ApiProvider}
TOKEN = "forum-run-secret"  # noqa: S105  # of the tests
GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "cap-any-agent.md"


def test_every_coding_agent_has_a_profile() -> None:
    """An agent that Forum drives must be capped when a person starts it as well."""
    assert {agent.program for agent in CLI_AGENTS.values()} <= AGENT_PROFILES.keys()


@pytest.mark.parametrize("name", AGENT_PROFILES)
@pytest.mark.parametrize("keyed", [frozenset(ApiProvider), frozenset[ApiProvider]()])
def test_no_argument_has_a_credential(
    name: str, keyed: frozenset[ApiProvider], tmp_path: Path
) -> None:
    """All users of a machine can read arguments; and no place of a value is left unfilled."""
    given = {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:1/{TOKEN}/anthropic"}
    argv = (f"/opt/{name}", "a")
    start = apply_profile(argv, URLS, given, tmp_path, token=TOKEN, keyed=keyed)
    confined = apply_profile(argv, URLS, given, None, token=TOKEN, keyed=keyed)
    values = [*start.variables.values(), *(f.read_text() for f in tmp_path.iterdir())]

    assert start.argv == (f"/opt/{name}", *start.arguments, "a")
    assert not any(TOKEN in word for word in start.argv)
    assert not any(f"{{{p}}}" in text for p in ApiProvider for text in (*start.argv, *values))
    assert not any("{token}" in value or "_URL}" in value for value in values)
    assert not any(str(tmp_path) in text for text in (*confined.argv, *confined.variables.values()))


def test_the_guide_has_the_table() -> None:
    """It names each agent, and each variable and option that it gets or does not get."""
    text = GUIDE.read_text()
    for name, profile in AGENT_PROFILES.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
        file = profile.settings
        settings = [] if file is None else [file.option or file.variable]
        options = [
            word.partition("=")[0].removeprefix("model_providers.forum.")
            for word in (*profile.arguments, *profile.with_key, *profile.with_login)
            if word != "-c"
        ]
        for word in (*profile.variables, *profile.bypasses, *settings, *options):
            assert f"`{word}" in row, (name, word)


def test_the_guide_says_of_each_client_what_was_tried() -> None:
    """The recipe prints the rows of the table; no agent is named there that it does not try."""
    lines = GUIDE.read_text().splitlines()
    rows = [line for line in lines if "(npm) |" in line or "(PyPI) |" in line]
    tried = {
        (f"`{client.packages[0].partition('[')[0]}`", client.does) for client in CLIENTS.values()
    }
    told = {(row.split()[1], row.split("|")[4].strip()) for row in rows}
    assert told == tried


@pytest.mark.parametrize("program", [*AGENT_PROFILES, "agent.sh"])
def test_each_variable_that_is_removed_is_named(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that fails without its key must not leave its user guessing."""
    bypasses = {name for profile in AGENT_PROFILES.values() for name in profile.bypasses}
    for number, name in enumerate(sorted({*PROVIDER_SECRETS, *bypasses, "TEAM_KEY"})):
        monkeypatch.setenv(name, f"secret-{number:08}")
    monkeypatch.setenv("FORUM_DATABASE_URL", "postgresql://a:b@localhost/c")
    monkeypatch.setenv("AN_OLD_NAME", f"Bearer {os.environ['GROQ_API_KEY']}")
    monkeypatch.setenv("HARMLESS", "x")
    removed = find_removed((program,), ["TEAM_KEY"])
    kept = program_environment({}, removed)

    assert os.environ.keys() - kept.keys() == removed.keys() | RELAYED_SECRETS
    assert kept["HARMLESS"] == "x"
    assert not any("secret-" in value for name, value in kept.items() if name not in bypasses)
    assert removed["GROQ_API_KEY"] is RemovalReason.NOT_RELAYED
    assert removed["AN_OLD_NAME"] is RemovalReason.HOLDS_A_KEY
    assert removed["TEAM_KEY"] is removed["FORUM_DATABASE_URL"] is RemovalReason.OF_FORUM
    profile = AGENT_PROFILES.get(program)
    by_profile = {name for name, why in removed.items() if why is RemovalReason.BYPASS}
    assert by_profile == (profile.bypasses if profile is not None else frozenset())


def make_program(folder: Path, name: str) -> Path:
    """Make a program that prints its arguments and some variables."""
    program = folder / name
    program.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        "print(json.dumps([sys.argv[1:], dict(os.environ)]))\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def test_codex_gets_its_provider_by_arguments_that_are_recorded(tmp_path: Path) -> None:
    """It reads no variable for the address; without the arguments it would go round the cap."""
    terminal = Terminal(tmp_path)
    assert terminal.call("init").exit_code == 0
    program = make_program(tmp_path, "codex")
    done = terminal.type(
        "run", "--max-usd", "1", "--json", "--", str(program), "exec", "hello",
        **provider_variables("http://127.0.0.1:9"),
    )  # fmt: skip
    arguments, variables = json.loads(done.stdout)
    summary = json.loads(done.stderr.splitlines()[-1])
    root = variables["OPENAI_BASE_URL"]
    record = RecordedCalls(terminal)

    assert arguments == [*summary["added_arguments"], "exec", "hello"]
    assert f"model_providers.forum.base_url={root}" in arguments
    assert "model_providers.forum.env_key=OPENAI_API_KEY" in arguments
    assert variables["OPENAI_API_KEY"].startswith("forum-run-")
    (begun,) = record.read_bodies("report.begin/1", "attributes")
    described = json.loads(begun)
    assert described["profile"] == "codex"
    assert described["arguments"] == summary["added_arguments"]
    assert "OPENAI_API_KEY" in described["variables"]
    assert variables["OPENAI_API_KEY"] not in done.stderr + begun.decode()
