"""Money, time and counts: parsed from input and formatted for output.

Recorded values are integers: nano-dollars, milliseconds, microseconds since 1970.
"""

import re
from datetime import UTC, datetime

import click

from forum.app.formatting import format_usd
from forum.work.team_settings import NANO_USD, NANO_USD_PER_MILLION, to_exact_units


def usd(value: str) -> int:
    """Parse dollars as nano-dollars."""
    return _parse_units(value, NANO_USD)


def parse_usd_per_million(value: str) -> int:
    """Parse dollars per million tokens as nano-dollars per thousand."""
    return _parse_units(value, NANO_USD_PER_MILLION)


def seconds(value: str) -> int:
    """Parse seconds as milliseconds."""
    return _parse_units(value, 1000)


_SECONDS_BY_UNIT = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SECONDS_BY_PERIOD = {"h": 3600, "d": 86_400, "w": 604_800, "y": 366 * 86_400}
_parse_period = re.compile(r"([1-9][0-9]{0,5})([hdwy])").fullmatch


def parse_period(value: str) -> int:
    """Parse a period such as 12h, 90d or 1y as seconds; a year has 366 days."""
    period = _parse_period(value)
    if period is None:
        raise click.BadParameter(f"{value!r}: write 12h, 90d, 4w or 1y", param_hint="PERIOD")
    return int(period[1]) * _SECONDS_BY_PERIOD[period[2]]


def parse_moment(value: str, at: int, option: str = "--since") -> int:
    """Parse an age such as 12h, or a date, as microseconds since 1970."""
    number, unit = value[:-1], value[-1:]
    if number.isascii() and number.isdigit() and unit in _SECONDS_BY_UNIT:
        return at - 1_000_000 * int(number) * _SECONDS_BY_UNIT[unit]
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        hint = "write 90m, 12h, 2d or 1w, or a date such as 2026-11-16 or 2026-11-16T08:00"
        raise click.BadParameter(f"{value!r}: {hint}", param_hint=option) from None
    # Without an offset the time is in UTC, like all times that are printed.
    return int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1_000_000)


def _parse_units(value: str, unit: int) -> int:
    try:
        return to_exact_units(value, unit)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


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


def format_moment(microseconds: int) -> str:
    """Return a point in time, in UTC."""
    return datetime.fromtimestamp(microseconds / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
