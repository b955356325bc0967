"""What reads and writes the files of sessions of the open protocol: a part of its feature."""

from pathlib import Path
from typing import Protocol

from forum.app import Forum
from forum.errors import FeatureMissing
from forum.feature import load_only_part
from forum.features import FEATURES
from forum.runs.panel import Symposium
from forum.runs.policy import Agent


class SessionFiles(Protocol):
    """Configs and scripts to read, and folders to write."""

    def read_panel(self, config: Path) -> Symposium:
        """Read a config in JSON or YAML. Raises `click.UsageError`."""
        ...

    def play_scripts(
        self, panel: Symposium, problem: str, script: Path, selector: Path | None
    ) -> tuple[Symposium, dict[str, Agent]]:
        """Return a panel and the agent that follows these scripts. Raises `click.UsageError`."""
        ...

    def create_folder(self, output: Path, panel: Symposium) -> Path:
        """Create the folder of a new session. Raises `click.UsageError` if it exists."""
        ...

    def write_folder(self, forum: Forum, run: str, folder: Path) -> list[str]:
        """Write the recorded files of a session, and return their names."""
        ...


def load_session_files() -> SessionFiles:
    """Load what reads and writes the files of sessions.  Raises `FeatureMissing`."""
    files: SessionFiles | None = load_only_part(FEATURES, "session_files", None)
    if files is None:
        raise FeatureMissing("sessions of the protocol symposium", "symposium")
    return files
