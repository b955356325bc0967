"""The stand-in provider and the agent of the five-minute page, beside what that page runs."""

from pathlib import Path

from tests.features.gateway.running import local_provider, read_log
from tests.surfaces.terminal import FORUM, Terminal


def test_the_agent_calls_no_provider_but_the_stand_in(tmp_path: Path) -> None:
    """A reader who leaves a part of the command out must not pay a real provider."""
    log = tmp_path / "provider.log"
    with local_provider(log) as url:
        ended = Terminal(tmp_path).type("demo", "agent", OPENAI_BASE_URL=f"{url}/v1")

    assert ended.returncode == 1
    assert "forum demo provider -- forum run" in ended.stderr
    assert read_log(log) == (0, 0)


def test_the_command_of_the_stand_in_gives_its_exit_status(tmp_path: Path) -> None:
    """The wrapper does not hide how a program ended, nor that there is none."""
    terminal = Terminal(tmp_path)

    assert terminal.type("demo", "provider", "--", "sh", "-c", "exit 7").returncode == 7
    missing = terminal.type("demo", "provider", "no-such-program")
    assert missing.returncode == 2
    assert "no-such-program" in missing.stderr


def test_the_agent_ends_without_a_cap(tmp_path: Path) -> None:
    """It is a runaway, but one of a bounded length."""
    ended = Terminal(tmp_path).type("demo", "provider", str(FORUM), "demo", "agent")

    assert ended.returncode == 0
    assert ended.stdout.splitlines()[-1].startswith("50 ")
