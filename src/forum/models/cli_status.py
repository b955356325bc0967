"""Ask a coding agent's program for its version and its login, without spending anything."""

import subprocess
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from forum.models.process_environment import coding_agent_environment
from forum.runs.cli_agents import CliAgent

CHECK_TIMEOUT_S: Final = 20.0


class CliStatus(Struct, frozen=True):
    """What the program says of itself."""

    version: str
    """Its version; empty if it could not say it in time."""
    is_logged_in: bool | None
    """None if the program cannot tell without a paid call."""


def read_cli_status(program: str, agent: CliAgent) -> CliStatus:
    """Run a program with the arguments that print its version and check its login."""
    version = _run((program, "--version"))
    lines = version.stdout.split("\n") if version and version.returncode == 0 else []
    named = next((line.strip() for line in reversed(lines) if line.strip()), "")
    if not named or not agent.login_check:
        return CliStatus(named, None)
    login = _run((program, *agent.login_check))
    return CliStatus(named, None if login is None else login.returncode == 0)


def _run(argv: Sequence[str]) -> "subprocess.CompletedProcess[str] | None":
    """Run a command, and return None if it could not be started or took too long."""
    try:
        return subprocess.run(  # noqa: S603  # the operator configured the program
            argv,
            env=coding_agent_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=CHECK_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
