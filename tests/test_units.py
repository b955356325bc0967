"""Amounts in smaller units: a limit is never more than was said, and a cost never less."""

from decimal import Context, Decimal

from hypothesis import given
from hypothesis import strategies as st

from forum.units import NANO_USD, to_cost, to_limit_units

EXACT = Context(prec=60)
NOISE = Decimal("0.000001")
AMOUNTS = st.decimals(min_value="0.000001", max_value="5000000", places=16)


@given(AMOUNTS)
def test_a_limit_is_rounded_down_and_a_cost_up(amount: Decimal) -> None:
    """Both by less than one unit; only the noise of binary floats may count the other way."""
    decimal = EXACT.multiply(amount, NANO_USD)
    limit, cost = to_limit_units(str(amount), NANO_USD), to_cost(str(amount))

    assert decimal - 1 < limit < decimal + NOISE
    assert decimal - NOISE < cost < decimal + 1
