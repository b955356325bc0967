"""Projects on both databases."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.project import Project, project


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out DBOS with a ledger in a file: it needs Postgres."""
    impossible = [item for item in items if _is_dbos_in_a_file(item)]
    config.hook.pytest_deselected(items=impossible)
    items[:] = [item for item in items if item not in impossible]


def _is_dbos_in_a_file(item: pytest.Item) -> bool:
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return (params.get("runner"), params.get("home")) == ("dbos", "sqlite")


@pytest.fixture
def runner() -> str:
    """Return how workers find runs, where a test does not say so."""
    return "claims"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def home(request: pytest.FixtureRequest, tmp_path: Path, runner: str) -> Iterator[Project]:
    """Make a project whose ledger is in a SQLite file, or in Postgres."""
    database = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    with project(tmp_path / "project", database, runner=runner) as made:
        yield made
