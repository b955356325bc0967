"""Projects on both databases."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.project import Project, project


@pytest.fixture
def runner() -> str:
    """Return how workers find runs, where a test does not say so."""
    return "claims"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def home(request: pytest.FixtureRequest, tmp_path: Path, runner: str) -> Iterator[Project]:
    """Make a project whose ledger is in a SQLite file, or in Postgres."""
    if runner == "dbos" and request.param == "sqlite":
        pytest.skip("DBOS needs Postgres")
    database = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    with project(tmp_path / "project", database, runner=runner) as made:
        yield made
