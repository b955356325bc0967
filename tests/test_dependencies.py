"""The page about dependencies: each package that Forum imports at run time has a row."""

import re
import tomllib

from tests.conftest import ROOT


def runtime_packages() -> set[str]:
    """Return the packages that pyproject.toml names, for the base and for the extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    named = [*project["dependencies"], *(package for extra in extras for package in extra)]
    packages = {re.split(r"[\\[<>=!~ ]", package)[0] for package in named}
    return packages - {"forumd"}


def test_every_runtime_dependency_has_a_row() -> None:
    """Whoever adds one says who keeps it, what it may do, and what would replace it."""
    page = (ROOT / "docs/reference/dependencies.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]

    assert {row[0].strip("| `") for row in rows} == runtime_packages()
    assert all(len(row) == 7 and all(cell.strip("| ") for cell in row) for row in rows)


def test_the_recipe_checks_the_locked_versions() -> None:
    """Advisories of the newest release say nothing about the one that is installed."""
    recipe = (ROOT / "justfile").read_text().partition("\nadvisories:\n")[2].partition("\n\n")[0]
    assert "requirements/ci.txt" in recipe
    assert "npm audit" in recipe
