"""The page about scale: what it derives follows from its own coefficients."""

from pathlib import Path

import pytest

from benchmarks.capacity import DERIVED, Coefficients, Rows, read_coefficients, read_table
from benchmarks.capacity_simulation import Machine, ServiceTimes, find_knee, simulate

PAGE = (Path(__file__).parents[2] / "docs/concepts/scale.md").read_text()
TIMES = ServiceTimes(accept=2.0, worker=6.0, postgres=4.0, sync=3.0, commits=2)


@pytest.mark.parametrize("title", DERIVED)
def test_the_tables_follow_from_the_coefficients(title: str) -> None:
    """Who changes a coefficient changes all that follows, with the command."""
    derive = DERIVED[title]
    rows: Rows = derive(_coefficients())

    assert read_table(PAGE, title) == rows


def _coefficients() -> Coefficients:
    return read_coefficients(read_table(PAGE, "Coefficients"))


def test_the_knee_is_where_the_busiest_part_has_no_more_room() -> None:
    """One thread of a worker, or all cores together: known without a simulation."""
    by_worker = find_knee(TIMES, Machine(servers=4, workers=1, cores=64))
    by_cores = find_knee(TIMES, Machine(servers=4, workers=8, cores=2))
    by_slow_cores = find_knee(TIMES, Machine(servers=4, workers=8, cores=2, speed=0.5))

    # At the knee, a tenth of the runs ends too late: a little more than can be done.
    assert by_worker == pytest.approx(1000 / 6 / 0.9, rel=0.1)
    assert by_cores == pytest.approx(2 * 1000 / 12 / 0.9, rel=0.1)
    assert by_slow_cores == pytest.approx(by_cores / 2, rel=0.1)


def test_a_sync_serves_all_commits_that_wait() -> None:
    """Without that, 400 runs a second would need 1,200 syncs of 3 ms each."""
    machine = Machine(servers=8, workers=8, cores=64)
    load = simulate(TIMES, machine, 400)

    assert load.achieved > 0.95
    assert load == simulate(TIMES, machine, 400)
    assert simulate(TIMES, machine, 40).start_p99_ms < load.start_p99_ms
