"""Caps over many runs: what a key, a lane or the whole ledger may use in a day or a month.

A cap names whom it is about and what they may use in one period.  What was used is counted by
scope and period, whatever a cap is called, so a cap that is renamed or changed does not begin
anew.
"""

from collections.abc import Iterable
from enum import StrEnum
from fnmatch import fnmatchcase

import msgspec

from forum.ledger import NO_LIMIT, Spend

UNCAPPED = Spend(NO_LIMIT, NO_LIMIT, NO_LIMIT)

LEDGER = "ledger"
"""The scope of a cap that is about everybody."""


class Period(StrEnum):
    """For how long a cap counts: in UTC, by the clock of the database."""

    DAY = "day"
    MONTH = "month"


class SharedCap(msgspec.Struct, frozen=True):
    """One cap of an operator; each key, or each lane, that fits its pattern has it for itself."""

    name: str
    per: Period
    key: str = ""
    """A pattern for who has submitted a run: the key's name or id, or the name in the ledger."""
    lane: str = ""
    """A pattern for names of lanes."""
    cap: Spend = UNCAPPED

    def scope_of(self, actor: str, lane: str) -> str | None:
        """Return whose account it is that counts here; nothing where the cap does not hold."""
        if self.key:
            names = (actor, *actor.split("/")[1:])
            return f"key:{actor}" if any(fnmatchcase(name, self.key) for name in names) else None
        if self.lane:
            return f"lane:{lane}" if lane and fnmatchcase(lane, self.lane) else None
        return LEDGER

    def holds_for(self, scope: str) -> bool:
        """Tell whether an account is under this cap."""
        kind, _, name = scope.partition(":")
        match kind:
            case "key":
                return bool(self.key) and self.scope_of(name, "") == scope
            case "lane":
                return bool(self.lane) and self.scope_of("", name) == scope
            case _:
                return not self.key and not self.lane


class Limit(msgspec.Struct, frozen=True):
    """What one account may have used at the end of a period."""

    scope: str
    per: Period
    cap: Spend

    def counts(self, amount: Spend) -> bool:
        """Tell whether any of this is capped here."""
        return any(n and most < NO_LIMIT for n, most in zip(amount, self.cap, strict=True))


def limits_for(caps: Iterable[SharedCap], actor: str, lanes: Iterable[str]) -> tuple[Limit, ...]:
    """Return all limits that hold for a run, or a task of it; of several, the lowest."""
    named = set(lanes) | {""}
    found: dict[tuple[str, Period], Spend] = {}
    for cap in caps:
        for scope in {cap.scope_of(actor, lane) for lane in named}:
            if scope is not None:
                before = found.get((scope, cap.per), cap.cap)
                found[scope, cap.per] = Spend(*map(min, before, cap.cap))
    return tuple(Limit(scope, per, cap) for (scope, per), cap in sorted(found.items()))


def limit_name(amount: str, per: str, scope: str) -> str:
    """Return how a stop calls the limit that it has met: `usd/day/key:ci`."""
    return f"{amount}/{per}/{scope}"


def read_limit_name(limit: str) -> tuple[str, str, str] | None:
    """Return what is counted, per what, and for whom; nothing for a limit of the run itself."""
    amount, _, rest = limit.partition("/")
    per, _, scope = rest.partition("/")
    return (amount, per, scope) if scope else None
