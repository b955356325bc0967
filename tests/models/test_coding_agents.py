"""Programs of coding agents: their environment, their options, their reports, and a fallback."""

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forum.engine import CallReply
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.models.command import CommandModel
from forum.models.process_environment import coding_agent_environment
from forum.models.program_report import read_report
from forum.runs.cli_agents import CLI_AGENTS, cli_agent_of
from forum.runs.kinds import Why
from forum.runs.policy import Command, ReportFormat, Role, models_of, read_policy, write_policy
from forum.runs.role_assignment import is_independent
from tests.models.asking import FORM, call_of, error_of, output_of
from tests.runs.test_team_settings import read

CLAUDE = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "Hello.",
    "total_cost_usd": 0.0005025,
    "usage": {"input_tokens": 11, "output_tokens": 7},
    "modelUsage": {
        "claude-small": {"inputTokens": 1, "outputTokens": 1},
        "claude-large": {
            "inputTokens": 21,
            "outputTokens": 13,
            "cacheReadInputTokens": 10,
            "cacheCreationInputTokens": 6,
        },
    },
}
CODEX = [
    {"type": "thread.started", "thread_id": "01a1"},
    {"type": "item.completed", "item": {"id": "0", "type": "error", "message": "A warning."}},
    {"type": "turn.started"},
    {"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": "First."}},
    {"type": "item.completed", "item": {"id": "2", "type": "agent_message", "text": "Hello."}},
    {"type": "turn.completed", "usage": {"input_tokens": 21, "output_tokens": 9}},
]
GEMINI = {
    "response": "Hello.",
    "stats": {"models": {"gemini-x": {"tokens": {"prompt": 31, "candidates": 6, "total": 40}}}},
}
REPORTS = {
    "claude-code": json.dumps(CLAUDE),
    "codex": "\n".join(map(json.dumps, CODEX)),
    "gemini": json.dumps(GEMINI),
}
"""What the programs print; the forms are those of Claude Code 2.1, Codex 0.169, Gemini CLI 0.61."""
COUNTED = {
    "claude-code": (Amount(502_500, 52, 1), 38, "claude-large"),
    "codex": (Amount(7, 30, 1), 21, "codex"),
    "gemini": (Amount(7, 40, 1), 31, "gemini-x"),
}


class Machine:
    """A folder of programs that come first in PATH."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def install(self, kind: str, script: str) -> None:
        """Install a program under the name of a coding agent."""
        file = self.folder / CLI_AGENTS[kind].program
        file.write_text(f"#!/bin/sh\ncat > {self.folder}/prompt\n{script}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)

    def report(self, kind: str, report: str, status: int = 0) -> None:
        """Install a program that prints a report, and its arguments to a file."""
        (self.folder / f"{kind}.json").write_text(report)
        self.install(
            kind,
            f'printf "%s\\n" "$@" > {self.folder}/arguments\n'
            f"cat {self.folder}/{kind}.json; exit {status}",
        )

    @property
    def arguments(self) -> list[str]:
        """The arguments of the last call."""
        return (self.folder / "arguments").read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a machine without any coding agent."""
    return Machine(tmp_path, monkeypatch)


def agent_of(kind: str, *lines: str) -> Command:
    """Return the agent of a section in forum.toml."""
    agent = read("\n".join(("[models.a]", f'kind = "{kind}"', *lines))).agents["a"]
    assert isinstance(agent, Command)
    return agent


def ask(agent: Command, **more: Any) -> CallReply:  # noqa: ANN401
    """Return what comes of one call."""
    return asyncio.run(CommandModel(agent).reply(call_of(b"Say hello.", **more)))


@pytest.mark.parametrize("kind", CLI_AGENTS)
def test_the_environment_of_the_callers_session_does_not_reach_a_coding_agent(
    kind: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forum may itself be started by a coding agent, as an MCP server or from its shell."""
    session = {
        f"{agent.variables}{rest}": "of the caller"
        for agent in CLI_AGENTS.values()
        for rest in ("", "CODE", "_CODE_SESSION_ID", "_CODE_EFFORT_LEVEL", "_CLI", "_SANDBOX")
    }
    own = {name: "mine" for agent in CLI_AGENTS.values() for name in agent.settings}
    for name, value in (session | own | {"ANTHROPIC_API_KEY": "mine", "EDITOR": "vi"}).items():
        monkeypatch.setenv(name, value)
    machine.install(kind, f"env > {machine.folder}/environment")
    ask(agent_of(kind))

    lines = (machine.folder / "environment").read_text().splitlines()
    got = dict(line.split("=", 1) for line in lines if "=" in line)
    assert not session.keys() & got.keys()
    assert {*own, "ANTHROPIC_API_KEY", "EDITOR", "FORUM_RUN", "HOME"} <= got.keys()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    prefix=st.sampled_from([agent.variables for agent in CLI_AGENTS.values()]),
    suffix=st.text("ABCXYZ_0189", max_size=12),
)
def test_only_settings_of_a_coding_agent_are_inherited(
    prefix: str, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their next release will have variables that nobody knows today."""
    name = prefix + suffix
    with monkeypatch.context() as patch:
        patch.setenv(name, "x")
        patch.setenv(f"MY_{name}", "x")
        environment = coding_agent_environment()

    texts = {setting for agent in CLI_AGENTS.values() for setting in agent.settings}
    assert (name in environment) == (name in texts)
    assert f"MY_{name}" in environment


@pytest.mark.parametrize("kind", CLI_AGENTS)
def test_reply_tokens_and_cost_are_what_the_program_reports(kind: str, machine: Machine) -> None:
    """Where it reports no cost, the declared one holds."""
    machine.report(kind, REPORTS[kind])
    reply = ask(agent_of(kind, "usd = 0.000000007"))

    assert (reply.outcome, output_of(reply)) == (Outcome.OK, b"Hello.")
    assert (reply.spent, reply.input_tokens, reply.model) == COUNTED[kind]
    assert (machine.folder / "prompt").read_bytes() == b"Say hello."


def test_the_declared_price_is_a_cap_where_the_program_takes_one(machine: Machine) -> None:
    """Forum reserves the price; the program stops before it spends more."""
    machine.report("claude-code", REPORTS["claude-code"])
    ask(agent_of("claude-code", "usd = 0.05", 'model = "sonnet"'))

    assert machine.arguments[-4:] == ["--max-budget-usd", "0.05", "--model", "sonnet"]


@pytest.mark.parametrize("kind", CLI_AGENTS)
def test_a_schema_is_passed_in_the_option_that_the_program_has(kind: str, machine: Machine) -> None:
    """The prompt says it as well; a schema that a provider would refuse is not passed."""
    machine.report(kind, REPORTS[kind])
    ask(agent_of(kind), schema=FORM)
    passed = machine.arguments
    ask(agent_of(kind), schema=b'{"type":"object","properties":{"a":{}}}')

    assert machine.arguments == [*agent_of(kind).argv[1:]]
    match kind:
        case "claude-code":
            assert passed[-2:] == ["--json-schema", FORM.decode()]
        case "codex":
            assert passed[-2] == "--output-schema"
            assert not Path(passed[-1]).exists(), "the file is removed after the call"
        case _:
            assert passed == machine.arguments


def test_structured_output_is_the_reply(machine: Machine) -> None:
    """The text beside it may be anything."""
    machine.report("claude-code", json.dumps(CLAUDE | {"structured_output": {"name": "Ada"}}))

    assert json.loads(output_of(ask(agent_of("claude-code"), schema=FORM))) == {"name": "Ada"}


FAILURES = {
    "claude-code": (CLAUDE | {"is_error": True, "result": "Not logged in"}, "Not logged in"),
    "codex": ({"type": "turn.failed", "error": {"message": "No credits"}}, "No credits"),
    "gemini": ({"error": {"type": "Error", "message": "Set an Auth method"}}, "Set an Auth method"),
}


@pytest.mark.parametrize("kind", CLI_AGENTS)
@pytest.mark.parametrize("status", [0, 1])
def test_a_reported_error_fails_the_call(kind: str, status: int, machine: Machine) -> None:
    """Whatever the exit status is: an error must never pass as an answer."""
    report, reason = FAILURES[kind]
    machine.report(kind, json.dumps(report), status)
    reply = ask(agent_of(kind))

    assert (reply.outcome, reply.why) == (Outcome.FAILED, Why.ERROR)
    assert error_of(reply).decode().splitlines()[-1] == reason
    assert output_of(reply) == b""


@pytest.mark.parametrize("kind", CLI_AGENTS)
def test_an_output_that_is_no_report_is_no_reply(kind: str, machine: Machine) -> None:
    """An older program prints something else."""
    machine.install(kind, "echo Hello.")
    assert (ask(agent_of(kind)).outcome, ask(agent_of(kind)).code) == (Outcome.FAILED, "malformed")

    machine.install(kind, "echo \"error: unknown option '--new'\" >&2; exit 1")
    assert f"npm install -g {CLI_AGENTS[kind].package}" in error_of(ask(agent_of(kind))).decode()


@given(st.sampled_from(ReportFormat), st.binary(max_size=80), st.binary(max_size=80))
def test_any_output_can_be_read(report_format: ReportFormat, output: bytes, errors: bytes) -> None:
    """A report never raises, whatever the program printed."""
    report = read_report(report_format, output, errors)

    assert report is None or report.tokens >= 0


def test_the_next_program_answers_where_one_cannot(machine: Machine) -> None:
    """The reply names who answered, and its error why the others did not."""
    agent = agent_of("codex", 'fallback = ["claude-code", "gemini"]', "usd = 0.000000007")
    machine.report("claude-code", json.dumps(FAILURES["claude-code"][0]), 1)
    machine.report("gemini", REPORTS["gemini"])
    reply = ask(agent)

    assert (reply.outcome, output_of(reply), reply.model) == (Outcome.OK, b"Hello.", "gemini-x")
    texts = error_of(reply).decode().splitlines()
    assert "codex did not answer (not-found)" in texts[0]
    assert texts[1:] == ["claude did not answer (exit 1): Not logged in", "gemini answered"]
    assert reply.spent == Amount(502_500 + 7, 52 + 40, 1), "the failed call was billed"
    assert CommandModel(agent).bound(call_of()) == Amount(21, 0, 1)


def test_a_program_that_has_worked_is_not_followed_by_another(machine: Machine) -> None:
    """After a timeout the next one would begin the same work again, and be billed for it."""
    machine.install("claude-code", "sleep 60")
    machine.report("gemini", REPORTS["gemini"])
    reply = ask(agent_of("claude-code", 'fallback = ["gemini"]'), seconds=0.3)

    assert reply.outcome is Outcome.TIMEOUT


def test_a_fallback_is_recorded_and_counts_for_independence() -> None:
    """Whoever may answer for a judge may not have done the work."""
    team = read(
        '[models.capable]\nkind = "codex"\n[models.judge]\nkind = "claude-code"\n'
        'fallback = ["codex"]\n[roles]\nvalidator = "judge"'
    )
    policy = read_policy(b"{}")
    policy = type(policy)(agents=team.agents, roles=team.roles)

    assert read_policy(write_policy(policy)) == policy
    assert models_of(policy.agents["judge"]) == {"claude", "codex"}
    assert not is_independent(policy, Role.VALIDATOR)


def test_every_kind_reads_the_report_of_its_own_program() -> None:
    """A new kind needs all of it."""
    assert {agent.report for agent in CLI_AGENTS.values()} == {*ReportFormat}
    for kind, agent in CLI_AGENTS.items():
        assert cli_agent_of(agent_of(kind)) is agent
        assert all(name.startswith(agent.variables) for name in agent.settings)
