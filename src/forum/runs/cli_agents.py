"""Coding agents with a command line, as programs that read a prompt and print a reply.

In `forum.toml` they are kinds of models.  A run records the command itself, so that its record does
not depend on this table.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from forum.runs.policy import Command, ReportFormat


class CliAgent(Struct, frozen=True):
    """How a program is called without a terminal."""

    program: str
    arguments: tuple[str, ...]
    """The flags with which it reads the prompt from standard input and reports its reply."""
    report: ReportFormat
    variables: str
    """How the names of its environment variables begin."""
    settings: frozenset[str]
    """Its variables that are settings or logins; every other one belongs to a session."""
    context_tokens: int
    package: str
    """The npm package that installs it."""
    login_check: tuple[str, ...] = ()
    """Arguments that exit with 0 if there is a login or a key, at no cost; empty: it has none."""
    login: str = ""
    """The command that logs in."""

    cap_option: str = ""
    """The option that takes the most dollars that one call may spend; empty: it has none."""

    def argv(self, model: str = "", usd: str = "") -> tuple[str, ...]:
        """Return the command that answers one prompt, with a model and a cap if they are given."""
        cap = (self.cap_option, usd) if self.cap_option and usd else ()
        return (self.program, *self.arguments, *cap, *(("--model", model) if model else ()))


CLI_AGENTS: Final[Mapping[str, CliAgent]] = {
    "claude-code": CliAgent(
        program="claude",
        # Its login works as usual; the hooks, instructions and servers of the user do not apply.
        arguments=("-p", "--safe-mode", "--no-session-persistence", "--output-format", "json"),
        report=ReportFormat.CLAUDE_CODE,
        variables="CLAUDE",
        settings=frozenset(
            {
                "CLAUDE_CONFIG_DIR",
                "CLAUDE_CODE_OAUTH_TOKEN",
                "CLAUDE_CODE_USE_BEDROCK",
                "CLAUDE_CODE_USE_VERTEX",
                "CLAUDE_CODE_USE_FOUNDRY",
                "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
                "CLAUDE_CODE_SKIP_VERTEX_AUTH",
                "CLAUDE_CODE_SKIP_FOUNDRY_AUTH",
                "CLAUDE_CODE_CLIENT_CERT",
                "CLAUDE_CODE_CLIENT_KEY",
                "CLAUDE_CODE_CLIENT_KEY_PASSPHRASE",
                "CLAUDE_CODE_CERT_STORE",
            }
        ),
        cap_option="--max-budget-usd",
        context_tokens=200_000,
        package="@anthropic-ai/claude-code",
        login_check=("auth", "status"),
        login="claude auth login",
    ),
    "codex": CliAgent(
        program="codex",
        arguments=(
            *("exec", "--skip-git-repo-check", "--ephemeral"),
            *("--ignore-user-config", "--ignore-rules", "--json", "-"),
        ),
        report=ReportFormat.CODEX,
        variables="CODEX",
        settings=frozenset({"CODEX_HOME", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN"}),
        context_tokens=272_000,
        package="@openai/codex",
        login_check=("login", "status"),
        login="codex login",
    ),
    "gemini": CliAgent(
        program="gemini",
        # Without a terminal it refuses to start in a folder that nobody has trusted. The prompt of
        # the flag is appended to standard input.
        arguments=("--skip-trust", "--output-format", "json", "--prompt", ""),
        report=ReportFormat.GEMINI,
        variables="GEMINI",
        settings=frozenset({"GEMINI_API_KEY", "GEMINI_MODEL", "GEMINI_CLI_SYSTEM_SETTINGS_PATH"}),
        context_tokens=1_000_000,
        package="@google/gemini-cli",
        login="gemini",
    ),
}
"""By the kind in the settings."""


def cli_agent_of(agent: Command) -> CliAgent | None:
    """Return the known program that an agent runs, or None."""
    name = agent.argv[0].rpartition("/")[2] if agent.argv else ""
    return next((agent for agent in CLI_AGENTS.values() if agent.program == name), None)


def is_session_variable(name: str) -> bool:
    """Return whether an environment variable describes a running session of a coding agent.

    Inside a session Forum inherits such variables. A program that inherits them in turn takes
    itself for a part of that session, with its id, its effort and its sandbox.
    """
    return any(
        name.startswith(agent.variables) and name not in agent.settings
        for agent in CLI_AGENTS.values()
    )
