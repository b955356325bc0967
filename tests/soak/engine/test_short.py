"""The chaos of workers, cut short: the worst places to die at, both databases, in seconds.

`just soak-engine` runs the long one, in which workers die at every place.
"""

from typing import Any

import pytest

from tests.soak.cluster import server_binaries
from tests.soak.engine.campaign import Goals
from tests.soak.engine.orders import Moment, Plan, Point
from tests.soak.engine.soak import soak

pytestmark = pytest.mark.slow

LEDGER_HAS_IT = Plan(Point.DRIVE_TASK, Moment.AFTER)
"""Between the last commit to the ledger and the engine's checkpoint."""


def check(result: dict[str, Any]) -> None:
    """See that every run ended, and nothing was done twice."""
    assert result["violations"] == []
    assert result["verified"]
    assert (result["calls_repeated"], result["tools_repeated"]) == (0, 0)
    assert result["takeovers"] + result["takeovers_in_storms"] > 0


@pytest.mark.nightly  # with DBOS; the gate kills workers with claims, in both databases
@pytest.mark.postgres
def test_every_run_ends_once_whoever_dies_and_whatever_the_queues_forget() -> None:
    """The ledger alone says what was done: neither workers nor their queues have to survive."""
    if server_binaries() is None:
        pytest.skip("no Postgres server is installed")
    first = (LEDGER_HAS_IT, Plan(Point.CALL, Moment.AFTER), Plan(Point.CLAIM_RUN, Moment.AFTER))
    goals = Goals(20, 4, 0, 0, amnesias=1, first=first, everywhere=False, runner="dbos")
    result = soak("postgres", goals)

    check(result)
    assert result["killed"] >= 4


def test_every_run_ends_once_whoever_dies_with_its_claims() -> None:
    """Also if it dies just after it has taken over from another one."""
    first = (
        LEDGER_HAS_IT,
        Plan(Point.CLAIM_RUNS, Moment.AFTER),
        Plan(Point.TAKE_OVER, Moment.AFTER),
    )
    result = soak("sqlite", Goals(20, 4, 0, 0, first=first, everywhere=False))

    check(result)
    assert result["killed"] >= 4


@pytest.mark.postgres
def test_every_run_ends_once_whoever_dies_and_whatever_becomes_of_the_server() -> None:
    """A zombie must find its strands taken, and a server that crashes must cost nothing."""
    if server_binaries() is None:
        pytest.skip("no Postgres server is installed")
    first = (LEDGER_HAS_IT, Plan(Point.MODEL, Moment.STOP), Plan(Point.MODEL, Moment.AFTER))
    result = soak("postgres", Goals(20, 4, 1, 1, amnesias=0, first=first, everywhere=False))

    check(result)
    assert result["killed"] >= 4
    assert (result["zombies"], result["server_faults"]) == (1, {"restarted": 1})
