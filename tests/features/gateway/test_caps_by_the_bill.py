"""Caps hold by the bill of a provider; the long count is `python -m benchmarks caps`."""

import pytest

from benchmarks.caps.bills import Account, find_overshoot
from benchmarks.caps.measure import SCENARIOS, count_stint
from forum.models.prices import Price


@pytest.mark.slow
@pytest.mark.parametrize("name", ["high", "keys"])
def test_no_cap_is_passed(name: str) -> None:
    """Whatever the provider does: what it bills is under each cap, but for what no bound has."""
    counts = count_stint(SCENARIOS[name].play, 15)
    assert counts["runs"] == 15
    assert counts["calls"] > 0 < counts["refused"]
    assert counts["over_nano"] == 0
    assert (counts["overruns"] > 0) == (name == "high")


@pytest.mark.slow
def test_no_cap_is_passed_by_gateways_that_are_killed() -> None:
    """The caps of keys and of the day count what the lost calls may have cost."""
    counts = count_stint(SCENARIOS["kill-gateway"].play, 3)
    assert counts["kills"] == 3
    assert counts["calls"] > 0
    assert counts["over_nano"] == 0


@pytest.mark.slow
def test_a_bound_that_is_too_low_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the other tests of this file would show nothing."""

    def lower(_: Price, read: int, written: int, **_more: object) -> int:
        return (read + written) // 1000

    monkeypatch.setattr(Price, "highest_cost", lower)
    assert count_stint(SCENARIOS["cuts"].play, 15)["over_nano"] > 0


def test_overshoot_is_rounded_up_and_leaves_out_what_no_bound_has() -> None:
    """A pico-dollar above a cap is above it; what was billed above the bound is an overrun."""
    bills = {"a": Account(1_001, 0, 1), "b": Account(1_000, 0, 1), "c": Account(5_000, 4_000, 1)}
    assert find_overshoot(dict.fromkeys("abcd", 1), bills) == {"a": 1}
