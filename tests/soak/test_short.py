"""The crash loop, cut short: every kind of crash, both databases, in seconds.

`just soak-ledger` and `just soak-stops` run the long ones.
"""

from pathlib import Path

import pytest

from tests.soak.cluster import scratch_database, server_binaries
from tests.soak.ledger import Goals, soak
from tests.soak.restore import restore_an_older_database
from tests.soak.stops import measure

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest) -> str:
    """Return the name of each database that can be set up here."""
    if request.param == "postgres" and server_binaries() is None:
        pytest.skip("no Postgres server is installed")
    return str(request.param)


def test_no_crash_loses_or_doubles_what_was_acknowledged(database: str) -> None:
    """An acknowledgement is a promise that must outlive every process which had a part in it."""
    result = soak(database, Goals(crashes=14, entries=2000))

    assert result["violations"] == []
    assert result["crashes"] >= 12
    assert result["acknowledged"] >= 2000
    assert (result["lost"], result["doubled"]) == (0, 0)


def test_nothing_is_signed_over_a_restored_database(database: str) -> None:
    """A second tree under the log's key would end all belief in it, whatever the backup was for."""
    result = restore_an_older_database(database)

    assert result["violations"] == []
    assert result["refusals"] == 4


@pytest.mark.postgres
def test_a_worker_that_is_stopped_under_load_ends(postgres_url: str, tmp_path: Path) -> None:
    """Whatever it is doing: one that has to be killed has its calls paid for again."""
    with scratch_database(postgres_url) as url:
        figures = measure(tmp_path, url, cycles=3, seed=1)

    assert (figures.late, figures.failed) == (0, 0)
    assert figures.submitted > 0
