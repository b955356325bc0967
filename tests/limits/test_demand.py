"""What a process does at once is divided by demand and by weight, and none of it lies idle."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from forum.limits.demand import Demand, divide_by_demand

TOTALS = st.integers(1, 500)
DEMANDS = st.lists(st.builds(Demand, st.integers(0, 1000), st.integers(1, 9)), min_size=1)


@given(TOTALS, DEMANDS)
def test_nothing_that_somebody_wants_lies_idle(total: int, demands: list[Demand]) -> None:
    """Shares add up to the total; more only where each of many ledgers has its one."""
    shares = divide_by_demand(total, demands)

    raised = sum(share == 1 for share in shares)
    assert total <= sum(shares) <= total + raised
    used = sum(min(share, demand.wanted) for share, demand in zip(shares, demands, strict=True))
    assert used >= min(total, sum(demand.wanted for demand in demands))


@given(TOTALS, DEMANDS)
def test_nobody_has_less_than_its_part_while_another_has_more(
    total: int, demands: list[Demand]
) -> None:
    """Whoever wants more than it got has, for its weight, as much as any other, but for one."""
    shares = divide_by_demand(total, demands)

    for share, demand in zip(shares, demands, strict=True):
        if share < demand.wanted:
            assert all(
                other - 1 <= (share + 1) * rival.weight / demand.weight
                for other, rival in zip(shares, demands, strict=True)
                if other > 1
            )


def test_a_ledger_without_demand_keeps_nothing_from_others() -> None:
    """It has room for one, so that its next run begins before demand is measured again."""
    assert divide_by_demand(64, [Demand(500), Demand(0), Demand(3)]) == [61, 1, 3]
    assert divide_by_demand(64, [Demand(500), Demand(0)]) == [64, 1]
    assert divide_by_demand(9, [Demand(0), Demand(0, 2)]) == [3, 6]


def test_over_time_each_ledger_gets_its_weight() -> None:
    """Of 1,200 places in 100 rounds, and what one does not want goes to the other two by weight."""
    waiting, served = {"a": 600, "b": 600, "c": 20}, Counter[str]()
    weights = {"a": 1, "b": 3, "c": 1}
    rounds = 0
    while all(waiting[name] for name in "ab"):
        demands = [Demand(waiting[name], weights[name]) for name in waiting]
        shares = divide_by_demand(12, demands)
        for name, share in zip(waiting, shares, strict=True):
            done = min(share, waiting[name])
            waiting[name] -= done
            served[name] += done
        rounds += 1

    assert served["b"] == 600
    assert served["c"] == 20
    assert abs(served["a"] - 200) <= rounds
    assert served.total() >= 12 * (rounds - 1)
