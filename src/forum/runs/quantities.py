"""Units of measurement, as far as answers confuse them: which are of one kind, and by what factor.

Only ASCII letters are read, so that every release of Unicode gives the same.
"""

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import msgspec

_KINDS: Final = (
    {"mg": "0.001", "g": "1", "kg": "1000", "t": "1000000"},
    {"mm": "0.001", "cm": "0.01", "m": "1", "km": "1000"},
    {"ms": "0.001", "s": "1", "min": "60", "h": "3600"},
    {"ml": "0.001", "l": "1", "m3": "1000"},
    {"W": "1", "kW": "1000", "MW": "1000000"},
    {"Wh": "1", "kWh": "1000", "MWh": "1000000"},
    {"kB": "1", "MB": "1000", "GB": "1000000", "TB": "1000000000"},
)
_SPELLINGS: Final = {
    "kilograms": "kg", "kilogram": "kg", "grams": "g", "tonnes": "t", "tonne": "t", "tons": "t",
    "kilometres": "km", "kilometers": "km", "metres": "m", "meters": "m", "seconds": "s",
    "minutes": "min", "minute": "min", "hours": "h", "hour": "h", "litres": "l", "liters": "l",
    "L": "l", "litre": "l", "liter": "l",
}  # fmt: skip
_FACTORS: Final = {
    unit: (kind, Fraction(factor))
    for kind, units in enumerate(_KINDS)
    for unit, factor in units.items()
}
_QUANTITY = re.compile(
    r"(?<![A-Za-z0-9.,_^])((?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,15})(?:\.[0-9]{1,9})?) ?"
    r"([A-Za-z]{1,10}3?)(?![A-Za-z0-9/^])"
)


class Quantity(msgspec.Struct, frozen=True):
    """A number with a unit that is known here."""

    value: Fraction
    unit: str

    def convert_to(self, unit: str) -> "Quantity | None":
        """Return the same quantity in another unit; None if that is of another kind."""
        kind, factor = _FACTORS[self.unit]
        other, divisor = _FACTORS.get(unit, (None, Fraction(1)))
        return Quantity(self.value * factor / divisor, unit) if kind == other else None

    def __str__(self) -> str:
        """Return the number and the unit."""
        return f"{float(self.value):.10g} {self.unit}"


def find_quantities(text: str) -> Iterator[Quantity]:
    """Return the quantities of a text whose units are known, in their order."""
    for number, written in _QUANTITY.findall(text):
        unit = _SPELLINGS.get(written, written)
        if unit in _FACTORS:
            yield Quantity(Fraction(number.replace(",", "")), unit)
