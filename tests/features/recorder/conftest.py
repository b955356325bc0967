"""A project of its own for each test of the SDK."""

from pathlib import Path

import pytest

from tests.features.recorder.recording import make_project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a project, whose state is in the folder."""
    environment = make_project(tmp_path / "project")
    monkeypatch.setenv("FORUM_STATE_DIR", environment["FORUM_STATE_DIR"])
    for name in ("FORUM_URL", "FORUM_KEY", "FORUM_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "project"
