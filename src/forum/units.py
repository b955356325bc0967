"""Amounts and times: parsed from input, and formatted for output.

Recorded values are integers: nano-dollars, nano-dollars per thousand tokens, milliseconds,
microseconds since 1970.  Every way in uses these parsers, so that the same text means the same
everywhere.  They raise `ValueError` with words for the author of the text.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from decimal import Context, Decimal

NANO_USD: Final = 1_000_000_000
NANO_USD_PER_MILLION: Final = NANO_USD // 1000
"""One dollar per million tokens, in nano-dollars per thousand."""
MILLISECONDS: Final = 1000
"""One second, in milliseconds."""
MAX_AMOUNT: Final = 2**53 - 1
"""The largest integer of an entry; as a limit it means that there is none."""

_FLOAT_NOISE: Final = "0.000001"
"""A smaller part of the smaller unit is left by a way through binary floats, and nobody's wish."""
_SECONDS_BY_UNIT: Final = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 366 * 86_400}
_PERIOD: Final = re.compile(r"([0-9]{1,6})([mhdwy])").fullmatch
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


# Amounts


def to_exact_units(value: object, unit: int) -> int:
    """Return a number, such as a price, in a smaller unit.  Refuse one that is more exact."""
    number = _multiply(value, unit)
    if number != int(number):
        raise ValueError(_too_exact(value, unit))
    return int(number)


def to_limit_units(value: object, unit: int) -> int:
    """Return a limit in a smaller unit, rounded down, so that nobody gets more than was said.

    A part of a token or a call is refused, and a limit that would become 0.
    """
    number = _multiply(value, unit)
    if number != int(number) and (unit == 1 or number < 1):
        raise ValueError(_too_exact(value, unit))
    return int(number)


def _too_exact(value: object, unit: int) -> str:
    if unit == 1:
        return f"{value} is not a whole number"
    return f"{value} is more exact than one {unit:,}th"


def to_cost(value: object) -> int:
    """Return what something has cost, in nano-dollars: rounded up, and at most `MAX_AMOUNT`.

    Rounded down, a budget could be spent in parts too small to count.
    """
    from decimal import ROUND_CEILING  # noqa: PLC0415  only for amounts

    return int(_multiply(value, NANO_USD, is_capped=True).to_integral_value(ROUND_CEILING))


def _multiply(value: object, unit: int, *, is_capped: bool = False) -> "Decimal":
    """Return a number in a smaller unit.  Raises `ValueError` if it is below 0 or too large."""
    from decimal import Decimal, InvalidOperation, Overflow  # noqa: PLC0415  only for amounts

    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise ValueError(f"{value!r} is not a number")  # noqa: TRY004  a user's mistake, not ours
    text = str(value)
    if unit in (NANO_USD, NANO_USD_PER_MILLION) and isinstance(value, str):
        text = text.removeprefix("$")
    exact = _exact_context()
    try:
        number = exact.multiply(Decimal(text), unit)
    except InvalidOperation:
        raise ValueError(f"{value!r} is not a number") from None
    except Overflow:
        raise ValueError(f"{value} is out of range") from None
    if is_capped and number.is_finite():
        number = min(number, Decimal(MAX_AMOUNT))
    if not number.is_finite() or number < 0 or (number >= MAX_AMOUNT and not is_capped):
        raise ValueError(f"{value} is out of range")
    # A program that adds 0.1 and 0.2 gets 0.30000000000000004, and means 0.3.
    whole = number.to_integral_value()
    is_noise = bool(whole) and abs(exact.subtract(number, whole)) < Decimal(_FLOAT_NOISE)
    return whole if is_noise else number


@cache
def _exact_context() -> "Context":
    """Return a context for exact numbers: a program may change its own."""
    from decimal import Context  # noqa: PLC0415  only for amounts

    return Context(prec=60)


def format_usd(nano: int) -> str:
    """Return nano-dollars as dollars: exact, with at least two decimals."""
    whole, part = divmod(nano, NANO_USD)
    digits = f"{part:09d}".rstrip("0")
    return f"{whole}.{digits:0<2}"


def format_price(nano: int) -> str:
    """Return dollars for a column, with at most four decimals."""
    if nano == 0:
        return "-"
    tenth_of_a_cent = NANO_USD // 10_000
    if nano < tenth_of_a_cent:
        return "<$0.0001"
    rounded = (nano + tenth_of_a_cent // 2) // tenth_of_a_cent * tenth_of_a_cent
    return f"${format_usd(rounded)}"


def format_count(number: int) -> str:
    """Return a count for a column."""
    if number == 0:
        return "-"
    return f"{number:,}" if number < 10_000_000 else f"{number / 1e6:,.0f}M"


# Times


def parse_period(text: str) -> int:
    """Return a period such as 12h, 30d, 4w or 1y in seconds; a year has 366 days."""
    period = _PERIOD(text)
    # What is kept for 1m might be meant to be kept for a month.
    if period is None or period[2] == "m" or not int(period[1]):
        raise ValueError(f"{text!r} is no period; write 12h, 30d, 4w or 1y")
    return int(period[1]) * _SECONDS_BY_UNIT[period[2]]


def parse_moment(text: str, now: int) -> int:
    """Return an age such as 12h, or a date or time in ISO 8601, in microseconds since 1970."""
    if (age := _PERIOD(text)) is not None:
        return max(0, now - 1_000_000 * int(age[1]) * _SECONDS_BY_UNIT[age[2]])
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        hint = "write 90m, 12h, 2d or 1w, or a date such as 2026-11-16 or 2026-11-16T08:00"
        raise ValueError(f"{text!r} is no time; {hint}") from None
    # Without an offset the time is in UTC, like all times that are printed.
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - _EPOCH) // _MICROSECOND


def format_rfc3339(microseconds: int) -> str:
    """Return a time in RFC 3339 format, in UTC."""
    return f"{_to_datetime(microseconds).replace(tzinfo=None).isoformat()}Z"


def format_moment(microseconds: int) -> str:
    """Return a time in UTC for people, to the second."""
    return _to_datetime(microseconds).strftime("%Y-%m-%d %H:%M:%S UTC")


def format_day(microseconds: int) -> str:
    """Return the day of a time, in UTC."""
    return _to_datetime(microseconds).strftime("%Y-%m-%d")


def _to_datetime(microseconds: int) -> datetime:
    return _EPOCH + microseconds * _MICROSECOND


def format_duration(microseconds: int) -> str:
    """Return a duration, with a precision that suits its length."""
    exact = max(0, microseconds) / 1e6
    if exact < 99.95:
        return f"{exact:.1f} s"
    minutes, rest = divmod(round(exact), 60)
    if minutes < 100:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours < 48 else f"{hours // 24}d{hours % 24:02d}h"


def format_age(microseconds: int) -> str:
    """Return an age as one number with a unit."""
    passed = max(0, microseconds) // 1_000_000
    for most, size, letter in ((120, 1, "s"), (120 * 60, 60, "m"), (48 * 3600, 3600, "h")):
        if passed < most:
            return f"{passed // size}{letter}"
    return f"{passed // 86400}d"
