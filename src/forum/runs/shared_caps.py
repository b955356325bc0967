"""Caps over many runs: limits for a key, a lane or the whole ledger in a day or a month.

A cap names its subject and the limits for one period. Use is counted by scope and period, not by
the name of the cap, so that renaming or changing a cap does not reset the count.
"""

from collections.abc import Iterable
from enum import StrEnum
from fnmatch import fnmatchcase

import msgspec

from forum.errors import TENANT_SCOPE
from forum.ledger.ports import NO_LIMIT, Spend

UNCAPPED = Spend(NO_LIMIT, NO_LIMIT, NO_LIMIT)

LEDGER = "ledger"
"""The scope of a cap for the whole ledger."""


class Period(StrEnum):
    """For how long a cap counts: in UTC, by the clock of the database."""

    DAY = "day"
    MONTH = "month"


class GatePeriod(StrEnum):
    """For how long a gate rule adds up amounts; a day is one of the caps."""

    USE = "use"
    RUN = "run"
    DAY = "day"


class QuotaPeriod(StrEnum):
    """For how long a quota of a tenant counts."""

    MINUTE = "minute"


class SharedCap(msgspec.Struct, frozen=True):
    """One cap of an operator; it applies separately to each key or lane that fits its pattern."""

    name: str
    per: Period
    key: str = ""
    """A pattern for the submitter: the API key's name or id, or the actor as recorded."""
    lane: str = ""
    """A pattern for names of lanes."""
    cap: Spend = UNCAPPED

    def scope_of(self, actor: str, lane: str) -> str | None:
        """Return the scope whose use counts; None if the cap does not apply."""
        if self.key:
            # The actor of an API key is recorded as a path, whose parts are its name and id.
            names = (actor, *actor.split("/")[1:])
            return f"key:{actor}" if any(fnmatchcase(name, self.key) for name in names) else None
        if self.lane:
            return f"lane:{lane}" if lane and fnmatchcase(lane, self.lane) else None
        return LEDGER

    def holds_for(self, scope: str) -> bool:
        """Tell whether a scope is under this cap."""
        kind, _, name = scope.partition(":")
        match kind:
            case "key":
                return bool(self.key) and self.scope_of(name, "") == scope
            case "lane":
                return bool(self.lane) and self.scope_of("", name) == scope
            case _:
                return scope == LEDGER and not self.key and not self.lane


class Limit(msgspec.Struct, frozen=True):
    """The limits of one scope in a period."""

    scope: str
    per: Period | GatePeriod | QuotaPeriod
    cap: Spend

    def counts(self, amount: Spend) -> bool:
        """Tell whether any part of this amount is capped here."""
        return any(n and most < NO_LIMIT for n, most in zip(amount, self.cap, strict=True))


def limits_for(caps: Iterable[SharedCap], actor: str, lanes: Iterable[str]) -> tuple[Limit, ...]:
    """Return all limits for a run or a task; of several for one scope, the lowest."""
    named = set(lanes) | {""}
    lowest: dict[tuple[str, Period], Spend] = {}
    for cap in caps:
        for scope in {cap.scope_of(actor, lane) for lane in named}:
            if scope is not None:
                # Two caps for one scope and period count in the same account, so only the lower
                # limit matters.
                before = lowest.get((scope, cap.per), cap.cap)
                lowest[scope, cap.per] = Spend(*map(min, before, cap.cap))
    return tuple(Limit(scope, per, cap) for (scope, per), cap in sorted(lowest.items()))


def tenant_limits(runs_per_minute: int | None) -> tuple[Limit, ...]:
    """Return the limits of a tenant that hold for every run, whoever submits it."""
    if runs_per_minute is None:
        return ()
    cap = UNCAPPED._replace(runs=runs_per_minute)
    return (Limit(TENANT_SCOPE, QuotaPeriod.MINUTE, cap),)


def limit_name(amount: str, per: str, scope: str) -> str:
    """Return the name of a limit in a stop entry: `usd/day/key:ci`."""
    return f"{amount}/{per}/{scope}"


def read_limit_name(limit: str) -> tuple[str, str, str] | None:
    """Return the amount, period and scope of a limit name; None for a limit of the run itself."""
    amount, _, rest = limit.partition("/")
    per, _, scope = rest.partition("/")
    return (amount, per, scope) if scope else None
