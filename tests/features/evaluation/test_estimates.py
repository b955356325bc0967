"""Means and intervals, against values from the literature and from tables."""

from statistics import fmean, stdev

import pytest

from forum.runs.estimates import (
    IntervalMethod,
    estimate_amount,
    estimate_difference,
    estimate_mean,
    estimate_quality,
    estimate_share,
    t_quantile,
)


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [(1, 12.7062), (4, 2.7764), (20, 2.0860), (21, 2.0796), (30, 2.0423), (60, 2.0003),
     (120, 1.9799), (1000, 1.9623)],
)  # fmt: skip
def test_the_quantiles_are_those_of_the_tables(degrees: int, quantile: float) -> None:
    """Of Student's distribution, two-sided 95 %; also behind the end of our own table."""
    assert t_quantile(degrees) == pytest.approx(quantile, abs=1e-4)


@pytest.mark.parametrize(
    ("passed", "count", "low", "high"),
    # Newcombe, Statistics in Medicine 17 (1998) 857-872, table I, method 3.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611),
     (1, 29, 0.0061, 0.1718)],
)  # fmt: skip
def test_a_share_has_the_interval_of_wilson(
    passed: int, count: int, low: float, high: float
) -> None:
    """As Newcombe tabulates it."""
    estimate = estimate_share(passed, count)

    assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=5e-5)


def test_a_mean_has_the_interval_of_student() -> None:
    """Computed by the standard library, with the quantile of nine degrees of freedom."""
    values = [0.31, 0.95, 0.5, 0.77, 0.62, 0.4, 0.88, 0.59, 0.7, 0.66]
    estimate, margin = estimate_mean(values), 2.2622 * stdev(values) / 10**0.5

    assert estimate.mean == pytest.approx(fmean(values))
    assert (estimate.low, estimate.high) == pytest.approx(
        (fmean(values) - margin, fmean(values) + margin)
    )


def test_pass_or_fail_is_a_share_and_anything_else_a_mean() -> None:
    """One half-right answer makes the difference."""
    assert estimate_quality([1.0, 0.0, 1.0]).method is IntervalMethod.WILSON
    assert estimate_quality([1.0, 0.5, 1.0]).method is IntervalMethod.STUDENT
    assert estimate_quality([0.5]).method is IntervalMethod.NONE


def test_paired_shares_have_the_interval_of_agresti_and_min() -> None:
    """The approval ratings of Agresti, Categorical Data Analysis: 1600 people asked twice."""
    pairs = [(1.0, 1.0)] * 794 + [(0.0, 1.0)] * 86 + [(1.0, 0.0)] * 150 + [(0.0, 0.0)] * 570
    first, second = ([pair[n] for pair in pairs] for n in (0, 1))
    estimate = estimate_difference(first, second)

    assert estimate.method is IntervalMethod.AGRESTI_MIN
    assert (estimate.low, estimate.high) == pytest.approx((0.0212, 0.0587), abs=5e-4)


@pytest.mark.parametrize(("cases", "shown"), [(2, False), (4, False), (6, True), (20, True)])
def test_a_few_equal_cases_show_a_difference_only_if_there_are_enough(
    cases: int,
    shown: bool,  # noqa: FBT001
) -> None:
    """The interval does not collapse to a point when all cases agree."""
    estimate = estimate_difference([1.0] * cases, [0.0] * cases)

    assert estimate.includes_zero is not shown
    assert estimate_difference([1.0] * cases, [1.0] * cases).includes_zero


def test_an_interval_ends_where_its_values_do() -> None:
    """No run costs less than nothing, and no answer is better than right."""
    assert estimate_amount([0.0, 9.0]).low == 0
    assert estimate_quality([0.5, 1.0]).high == 1
    assert estimate_difference([0.5, 1.0], [0.0, 0.25]).high == 1


def test_one_case_has_no_interval_and_shows_nothing() -> None:
    """However large the difference is."""
    estimate = estimate_difference([0.9], [0.1])

    assert (estimate.low, estimate.includes_zero) == (None, True)
