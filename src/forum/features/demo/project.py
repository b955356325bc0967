"""The project of a demo: a folder of its own, with a ledger that nobody else uses."""

import os
from pathlib import Path

from forum.config import Settings, load_settings


def create_project(home: Path) -> tuple[Settings, dict[str, str]]:
    """Create a project in a folder; return its settings and the environment for its processes."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "forum.toml").touch()
    environ = {**os.environ, "FORUM_STATE_DIR": str(home / "state")}
    # The demo must not write to the user's database.
    environ.pop("FORUM_DATABASE_URL", None)
    return load_settings(home, environ), environ
