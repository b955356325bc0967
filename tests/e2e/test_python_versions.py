"""Forum works with every Python that it says it works with.

The gate makes an environment for each newer Python in `.ci/pythons`, from the lock.  The tests of
what a user meets first are run there: install, quickstart, `forum run`, recorder, verify.
"""

import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.test_repository import ROOT

pytestmark = pytest.mark.slow

ENVIRONMENTS = Path(os.environ.get("FORUM_PYTHONS", ROOT / ".ci/pythons"))
VERSIONS = ("3.12", "3.13")
SELECTED = (
    "tests/test_installation.py",
    "tests/test_packaging.py::test_five_minutes_work_with_nothing_but_the_wheel",
    "tests/features/gateway/test_forum_run.py",
    "tests/test_platform_calls.py",
    "tests/features/recorder/test_recorder.py",
    "tests/surfaces/test_verify_cli.py",
    "tests/verify/test_bundle.py",
)
LEFT_OUT = (
    "sdks_in_a_loop or killed_gateway or flipped_bit or linux_is_found or uses_what_only"
    " or very_many_files"
)
"""Tests of much work, or of the sources, whose result does not depend on the version."""


@pytest.mark.parametrize(
    # What works with the oldest and the newest is only tried nightly with those between.
    "version",
    [*(pytest.param(name, marks=pytest.mark.nightly) for name in VERSIONS[:-1]), VERSIONS[-1]],
)
def test_what_a_user_meets_first_works_with(version: str) -> None:
    """The same tests as with the oldest one."""
    python = ENVIRONMENTS / version / "bin/python"
    if not python.exists():
        pytest.skip(f"no Python {version} in {ENVIRONMENTS}: `just pythons` makes it")
    # The variables of this pytest are not for that one.
    variables = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    variables["PATH"] = f"{python.parent}{os.pathsep}{variables['PATH']}"
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", f"not ({LEFT_OUT})",
         *SELECTED],
        cwd=ROOT, env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_the_package_names_the_versions_that_are_tested() -> None:
    """Of the oldest one, the gate runs everything."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=")
    prefix = "Programming Language :: Python :: 3."
    named = [text for text in project["classifiers"] if text.startswith(prefix)]

    assert named == [f"{prefix}{version.removeprefix('3.')}" for version in (oldest, *VERSIONS)]
