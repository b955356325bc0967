"""The words in which people write caps: `team:research` and `500/month`."""

import re

from forum.ledger.kinds import CapSubject, CapUnit, Period
from forum.units import NANO_USD, to_limit_units

_AMOUNT = re.compile(r"\$?([0-9][0-9_.]*)(usd|tokens|runs)?/([a-z]+)").fullmatch


def parse_subject(text: str) -> tuple[CapSubject, str]:
    """Return the subject of a cap, and the pattern for its names.  Raises `ValueError`."""
    kind, _, name = text.partition(":")
    kinds = ", ".join(f"{s}:NAME" for s in CapSubject if s is not CapSubject.LEDGER)
    if kind not in list(CapSubject) or (kind == CapSubject.LEDGER) == bool(name):
        raise ValueError(f"{text!r} is nothing that has a cap; write ledger, or one of {kinds}")
    return CapSubject(kind), name


def parse_amount(text: str) -> tuple[int, CapUnit, Period]:
    """Return an amount in recorded units, its unit and its period.  Raises `ValueError`."""
    written = _AMOUNT(text)
    if written is None or written[3] not in list(Period):
        periods = ", ".join(Period)
        raise ValueError(
            f"{text!r} is no amount for a period; write 500/month, 2000000tokens/day or "
            f"100runs/hour; the periods are {periods}"
        )
    unit = CapUnit(written[2] or "usd")
    factor = NANO_USD if unit is CapUnit.USD else 1
    return to_limit_units(written[1].replace("_", ""), factor), unit, Period(written[3])
