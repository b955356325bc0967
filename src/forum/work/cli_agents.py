"""Coding agents with a command line, as programs that read a prompt and print a reply.

In `forum.toml` they are kinds of models.  A run records the command itself, so that its record does
not depend on this table.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from forum.work.policy import Command


class CliAgent(Struct, frozen=True):
    """How a program is called without a terminal."""

    program: str
    arguments: tuple[str, ...]
    """The flags with which it reads the prompt from standard input and prints only the reply."""
    context_tokens: int
    package: str
    """The npm package that installs it."""
    login_check: tuple[str, ...] = ()
    """Arguments that exit with 0 if there is a login or a key, at no cost; empty: it has none."""
    login: str = ""
    """The command that logs in."""

    def argv(self, model: str = "") -> tuple[str, ...]:
        """Return the command that answers one prompt, with the model's name if it is not empty."""
        return (self.program, *self.arguments, *(("--model", model) if model else ()))


CLI_AGENTS: Final[Mapping[str, CliAgent]] = {
    "claude-code": CliAgent(
        program="claude",
        arguments=("-p", "--output-format", "text"),
        context_tokens=200_000,
        package="@anthropic-ai/claude-code",
        login_check=("auth", "status"),
        login="claude auth login",
    ),
    "codex": CliAgent(
        program="codex",
        arguments=("exec", "--skip-git-repo-check", "-"),
        context_tokens=272_000,
        package="@openai/codex",
        login_check=("login", "status"),
        login="codex login",
    ),
    "gemini": CliAgent(
        program="gemini",
        # Without a terminal it refuses to start in a folder that nobody has trusted. The prompt of
        # the flag is appended to standard input.
        arguments=("--skip-trust", "--output-format", "text", "--prompt", ""),
        context_tokens=1_000_000,
        package="@google/gemini-cli",
        login="gemini",
    ),
}
"""By the kind in the settings."""


def cli_agent_of(agent: Command) -> CliAgent | None:
    """Return the known program that an agent runs, or None."""
    name = agent.argv[0].rpartition("/")[2] if agent.argv else ""
    return next((known for known in CLI_AGENTS.values() if known.program == name), None)
