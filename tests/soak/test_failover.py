"""The drill of a failover, cut short; `just drill-failover` is the long one."""

import pytest

from tests.soak.cluster import server_binaries
from tests.soak.failover import PGBOUNCER, drill

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


@pytest.fixture(autouse=True)
def installed() -> None:
    """Skip where there is no server, or no pooler."""
    if server_binaries() is None or not PGBOUNCER.exists():
        pytest.skip("no Postgres server, or no pgbouncer, is installed")


def test_a_synchronous_failover_loses_and_repeats_nothing() -> None:
    """The workers go on by themselves, and the log verifies."""
    figures = drill("synchronous", seconds=3)

    assert figures.acknowledged > 0
    assert (figures.lost, figures.repeated, figures.verified, figures.epochs) == (0, 0, 0, 1)
    assert figures.ended >= figures.acknowledged


@pytest.mark.nightly  # in the gate, a database is restored (test_short.py) and an epoch begun (e2e)
def test_an_asynchronous_failover_is_found_and_the_next_epoch_goes_on() -> None:
    """Nothing begins before a person has looked; then both epochs verify."""
    figures = drill("asynchronous", seconds=3)

    assert figures.refusals
    assert figures.lost > 0
    assert (figures.repeated, figures.verified, figures.epochs) == (0, 0, 2)
