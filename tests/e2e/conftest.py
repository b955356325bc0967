"""Projects on both databases."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.project import Project, project


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Project]:
    """Make a project whose ledger is in a SQLite file, or in Postgres.

    A runner may be named behind the database: `postgres-dbos`.
    """
    database, _, runner = request.param.partition("-")
    url = request.getfixturevalue("postgres_url") if database == "postgres" else None
    with project(tmp_path / "project", url, runner=runner or "claims") as made:
        yield made
