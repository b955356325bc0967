"""Means with 95 % confidence intervals, for the comparison of configurations on the same cases.

The unit is the case: repeated plays of a case are averaged first, because they are not independent
of each other. Pass or fail has intervals that do not collapse when all cases agree.
"""

from collections.abc import Sequence
from enum import StrEnum
from math import inf, sqrt

import msgspec

_Z = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""
_T = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
)  # fmt: skip
"""The 97.5 % quantiles of Student's distribution for 1 to 20 degrees of freedom."""


class IntervalMethod(StrEnum):
    """How an interval was computed."""

    NONE = "none"
    """There is no interval: fewer than two cases."""
    WILSON = "wilson"
    """Wilson's score interval of a share."""
    STUDENT = "student-t"
    """Student's interval of a mean."""
    AGRESTI_MIN = "agresti-min"
    """The interval of Agresti and Min (2005) of the difference of two paired shares."""


class Estimate(msgspec.Struct, frozen=True):
    """A mean over cases, with its 95 % confidence interval."""

    mean: float
    low: float | None
    high: float | None
    cases: int
    method: IntervalMethod

    @property
    def includes_zero(self) -> bool:
        """Whether zero is possible; also if there is no interval."""
        return self.low is None or self.high is None or self.low <= 0 <= self.high


def t_quantile(degrees: int) -> float:
    """Return the 97.5 % quantile of Student's distribution."""
    if degrees <= len(_T):
        return _T[degrees - 1]
    # The expansion of Cornish and Fisher; beyond the table its error is below 0.0001.
    z, n = _Z, degrees
    first = (z**3 + z) / (4 * n)
    second = (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    return z + first + second + third


def estimate_mean(values: Sequence[float]) -> Estimate:
    """Return the mean of at least one value, with Student's interval."""
    count = len(values)
    mean = sum(values) / count
    if count < 2:
        return Estimate(mean, low=None, high=None, cases=count, method=IntervalMethod.NONE)
    spread = sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    margin = t_quantile(count - 1) * spread / sqrt(count)
    return Estimate(
        mean, low=mean - margin, high=mean + margin, cases=count, method=IntervalMethod.STUDENT
    )


def estimate_share(passed: int, count: int) -> Estimate:
    """Return the share that passed, with Wilson's interval."""
    share = passed / count
    scale = 1 + _Z**2 / count
    center = (share + _Z**2 / (2 * count)) / scale
    margin = _Z / scale * sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    low, high = max(0.0, center - margin), min(1.0, center + margin)
    return Estimate(share, low, high, cases=count, method=IntervalMethod.WILSON)


def estimate_quality(values: Sequence[float]) -> Estimate:
    """Return the mean quality of cases, each from 0 to 1; of pass or fail, a share."""
    if _is_pass_or_fail(values):
        return estimate_share(round(sum(values)), len(values))
    return _clamp(estimate_mean(values), 0.0, 1.0)


def estimate_amount(values: Sequence[float]) -> Estimate:
    """Return the mean of amounts that cannot be negative, with Student's interval."""
    return _clamp(estimate_mean(values), 0.0, inf)


def estimate_difference(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Return the mean quality of `first` minus that of `second`, over the same cases in order."""
    differences = [a - b for a, b in zip(first, second, strict=True)]
    if _is_pass_or_fail(first) and _is_pass_or_fail(second):
        return _difference_of_shares(differences)
    return _clamp(estimate_mean(differences), -1.0, 1.0)


def _clamp(estimate: Estimate, least: float, most: float) -> Estimate:
    """Return an estimate with an interval that ends where its values can."""
    if estimate.low is None or estimate.high is None:
        return estimate
    low, high = max(least, estimate.low), min(most, estimate.high)
    return msgspec.structs.replace(estimate, low=low, high=high)


def _difference_of_shares(differences: Sequence[float]) -> Estimate:
    """Return the difference of two shares over the same cases (Agresti and Min 2005).

    Half a case is added to each of the four outcomes, so that the interval keeps a width when
    all cases agree. Cases are few, so the quantile is Student's in place of the normal one:
    otherwise three cases out of three would already show a difference.
    """
    count = len(differences)
    mean = sum(differences) / count
    if count < 2:
        return Estimate(mean, low=None, high=None, cases=count, method=IntervalMethod.NONE)
    better = sum(difference > 0 for difference in differences) + 0.5
    worse = sum(difference < 0 for difference in differences) + 0.5
    total = count + 2
    center = (better - worse) / total
    spread = sqrt(better + worse - (better - worse) ** 2 / total) / total
    margin = t_quantile(count - 1) * spread
    low, high = max(-1.0, center - margin), min(1.0, center + margin)
    return Estimate(mean, low, high, cases=count, method=IntervalMethod.AGRESTI_MIN)


def _is_pass_or_fail(values: Sequence[float]) -> bool:
    return all(value in (0.0, 1.0) for value in values)
