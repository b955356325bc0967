"""Divide what a process does at once between ledgers: by weight, and by what each can use."""

from collections.abc import Sequence
from typing import NamedTuple


class Demand(NamedTuple):
    """What one ledger could use now, and its weight."""

    wanted: int
    weight: int = 1


def divide_by_demand(total: int, demands: Sequence[Demand]) -> list[int]:
    """Return the share of each ledger: at least one, and together the total.

    No ledger gets more than it wants while another wants more than it gets.  Those that want more
    share by weight what the others leave.  What nobody wants is divided by weight too: work that
    comes before demand is measured again finds room.  With more ledgers than the total, each has
    one.
    """
    shares = [0] * len(demands)
    left, weight = total, sum(demand.weight for demand in demands)
    # By rising demand for each unit of weight: whoever wants less than its part leaves the rest to
    # those that follow.
    ranked = sorted(range(len(demands)), key=lambda i: demands[i].wanted / demands[i].weight)
    for place, i in enumerate(ranked):
        wanted = demands[i].wanted
        if wanted * weight > left * demands[i].weight:
            rest = ranked[place:]
            for j, part in zip(rest, _apportion(left, demands, rest), strict=True):
                shares[j] = part
            left = 0
            break
        shares[i] = wanted
        left, weight = left - wanted, weight - demands[i].weight
    for i, part in zip(ranked, _apportion(left, demands, ranked), strict=True):
        shares[i] += part
    return [max(1, share) for share in shares]


def _apportion(total: int, demands: Sequence[Demand], places: Sequence[int]) -> list[int]:
    """Return parts of a total by weight, in whole numbers."""
    weights = [demands[i].weight for i in places]
    parts = [total * weight // sum(weights) for weight in weights]
    more = total - sum(parts)
    return [part + (place < more) for place, part in enumerate(parts)]
