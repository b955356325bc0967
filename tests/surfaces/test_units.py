"""Money and time as they are typed and shown: nothing is lost on the way to integers."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.app.formatting import format_usd
from forum.ledger.ports import NO_LIMIT
from forum.surfaces.cli.units import format_age, format_count, format_duration, format_price
from forum.work.team_settings import NANO_USD, to_exact_units


@given(st.integers(0, NO_LIMIT - 1))
def test_dollars_that_were_printed_are_read_as_the_same(nano: int) -> None:
    """Whoever copies a sum from one run into the cap of another gets that very sum."""
    assert to_exact_units(format_usd(nano), NANO_USD) == nano


@given(st.decimals(0, 1_000_000, places=9))
def test_decimal_fractions_stay_exact(amount: Decimal) -> None:
    """A tenth of a cent is a whole number of nano-dollars, however it would be as a float."""
    assert Decimal(to_exact_units(amount, NANO_USD)) == amount * NANO_USD


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("abc", "'abc' is not a number"),
        (True, "True is not a number"),
        (0.1, "0.1 is not a number"),
        (None, "None is not a number"),
        ("-1", "-1 is out of range"),
        ("nan", "nan is out of range"),
        (Decimal("inf"), "Infinity is out of range"),
        ("9007199254740993", "9007199254740993 is out of range"),
        ("0.0000000001", "0.0000000001 is more exact than one 1,000,000,000th"),
    ],
)
def test_what_is_no_amount_is_refused(value: object, why: str) -> None:
    """A cap that was rounded or misread would be believed."""
    with pytest.raises(ValueError, match=f"^{why}$"):
        to_exact_units(value, NANO_USD)


def test_what_is_shown_fits_into_a_column() -> None:
    """A column grows with the number of digits, not with the exactness of a price."""
    assert [format_price(n) for n in (0, 1, NANO_USD // 100, 123_456_789)] == [
        "-",
        "<$0.0001",
        "$0.01",
        "$0.1235",
    ]
    assert [format_count(n) for n in (0, 1234, 12_345_678)] == ["-", "1,234", "12M"]
    assert [format_duration(n * 1_000_000) for n in (0, 99, 100, 6000, 200_000, -5)] == [
        "0.0 s",
        "99.0 s",
        "1m40s",
        "1h40m",
        "2d07h",
        "0.0 s",
    ]
    assert [format_age(n * 1_000_000) for n in (5, 600, 7200, 999_999)] == [
        "5s",
        "10m",
        "2h",
        "11d",
    ]
