"""A missing extra is installed by the command that the error names, however Forum was installed."""

import json
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from forum import installation
from forum.surfaces.cli import doctor
from tests.test_repository import ROOT, package_sources

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def installed(folder: Path, source: dict[str, object] | None, made_by: str = "pip") -> Distribution:
    """Return the metadata of an installation from a source."""
    info = folder / "forumd-0.2.0.dist-info"
    info.mkdir()
    (info / "INSTALLER").write_text(made_by)
    if source is not None:
        (info / "direct_url.json").write_text(json.dumps(source))
    return Distribution.at(info)


@pytest.mark.parametrize(
    ("source", "requirement", "editable"),
    [
        ({"url": "file:///a%20b/forum", "dir_info": {}}, "/a b/forum[mcp]", False),
        ({"url": "file:///c", "dir_info": {"editable": True}}, "/c[mcp]", True),
        (
            {
                "url": "https://git.example/forum.git",
                "vcs_info": {"vcs": "git", "commit_id": COMMIT},
            },
            f"forumd[mcp] @ git+https://git.example/forum.git@{COMMIT}",
            False,
        ),
        (
            {"url": "file:///w/forumd-0.2.0-py3-none-any.whl", "archive_info": {}},
            "forumd[mcp] @ file:///w/forumd-0.2.0-py3-none-any.whl",
            False,
        ),
        (None, "forumd[mcp]", False),
    ],
)
def test_the_requirement_names_where_it_came_from(
    tmp_path: Path, source: dict[str, object] | None, requirement: str, *, editable: bool
) -> None:
    """PEP 610 tells a folder, a repository and a file; without it, it was an index."""
    distribution = installed(tmp_path, source)

    assert installation.requirement_of(distribution, "mcp") == (requirement, editable)


@pytest.mark.parametrize(
    ("file", "made_by", "active", "words"),
    [
        ("pipx_metadata.json", "pip", False, ["pipx", "install", "--force"]),
        ("uv-receipt.toml", "uv", False, ["uv", "tool", "install", "--force"]),
        ("", "uv", True, ["uv", "pip", "install", "--python", sys.executable]),
        ("", "pip", True, ["pip", "install"]),
        ("", "pip", False, [sys.executable, "-m", "pip", "install"]),
    ],
)
def test_the_installer_is_the_one_that_made_the_environment(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    made_by: str,
    words: list[str],
    *,
    active: bool,
) -> None:
    """`pip` of another environment would install into that one."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path) if active else "/elsewhere")
    if file:
        (tmp_path / file).touch()

    assert installation.installer_of(installed(tmp_path, None, made_by)) == words


def test_the_command_is_understood_by_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Typed as it is printed, it resolves to this checkout with the extra."""
    words = shlex.split(installation.install_command("server"))
    dry = [
        "--dry-run",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--disable-pip-version-check",
    ]

    done = subprocess.run([*words, *dry], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "forumd" in done.stdout + done.stderr  # pip and uv differ


def test_doctor_lists_every_extra() -> None:
    """An extra that nobody is told of is not found; `all` and the empty `server` are no extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert set(doctor.EXTRAS) == {*project["optional-dependencies"]} - {"all", "server"}


def test_no_file_of_the_package_names_the_distribution_on_an_index() -> None:
    """`installation` alone knows how this copy was installed; any other remedy may find nothing."""
    naming = {path for path, text in package_sources().items() if "pip install" in text}

    assert naming <= {"installation.py"}


def test_an_extra_in_a_package_that_is_missing_is_missing() -> None:
    """`find_spec` of a module in a missing package raises instead of returning None."""
    assert not doctor.is_installed("no_such_package.module")
    assert doctor.is_installed("opentelemetry.proto")
