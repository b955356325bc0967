"""Caps over many runs: limits for a key, a person, a team, a lane, an agent or the whole ledger.

A cap names its subject and the limits for one period. Use is counted by scope and period, not by
the name of the cap, so that renaming or changing a cap does not reset the count. Caps are nested:
a call is charged to every cap that applies to it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import NamedTuple, assert_never

import msgspec

from forum.errors import TENANT_SCOPE
from forum.ledger.cap_orders import CapOrders
from forum.ledger.kinds import CapAlertFacts, CapSubject, CapUnit, Period
from forum.ledger.ports import NO_LIMIT, BudgetUse, Spend

UNCAPPED = Spend(NO_LIMIT, NO_LIMIT, NO_LIMIT)

LEDGER = "ledger"
"""The scope of a cap for the whole ledger."""


class GatePeriod(StrEnum):
    """For how long a gate rule adds up amounts; a day is one of the caps."""

    USE = "use"
    RUN = "run"
    DAY = "day"


class QuotaPeriod(StrEnum):
    """For how long a quota of a tenant counts."""

    MINUTE = "minute"


class Team(msgspec.Struct, frozen=True):
    """Submitters who share a cap."""

    name: str
    members: tuple[str, ...] = ()
    """Patterns for submitters, as those of the caps for keys."""
    within: str = ""
    """The team that this one is a part of; empty for none."""


Teams = Mapping[str, Team]
"""Teams by name."""


def check_teams(teams: Teams) -> None:
    """Raise `ValueError` for a team that is within itself, or within one that does not exist."""
    for team in teams.values():
        seen, outer = {team.name}, team.within
        while outer:
            if outer not in teams:
                raise ValueError(f"the team {team.name} is within {outer}, which is no team")
            if outer in seen:
                raise ValueError(f"the team {team.name} is within itself")
            seen.add(outer)
            outer = teams[outer].within


def _find_teams(teams: Teams, actor: str) -> Iterator[str]:
    """Yield the teams of a submitter, and those that they are within."""
    for team in teams.values():
        if any(_fits(actor, pattern) for pattern in team.members):
            # Each source of teams is checked; those of two sources may still form a circle.
            name, seen = team.name, set[str]()
            while name in teams and name not in seen:
                seen.add(name)
                yield name
                name = teams[name].within


def _fits(actor: str, pattern: str) -> bool:
    # The actor of an API key is recorded as a path, whose parts are its name and id.
    return any(_is_like(name, pattern) for name in (actor, *actor.split("/")[1:]))


_ENCODED = re.compile(r"[^!-~]|[\"%/\\]")
"""Characters of names of keys and people that are recorded percent-encoded."""


def _is_like(name: str, pattern: str) -> bool:
    """Tell whether a pattern is for a name, written as it is recorded or as people write it.

    A name with characters of patterns is meant by itself too: no cap passes over its own name.
    """
    recorded = _ENCODED.sub(
        lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), pattern
    )
    return any(name == each or fnmatchcase(name, each) for each in {pattern, recorded})


class Caller(msgspec.Struct, frozen=True):
    """Who makes a call, or submits a run, as far as caps know it."""

    actor: str
    lanes: tuple[str, ...] = ()
    agent: str = ""
    """The agent that is called, or the program that calls; empty if nothing names one."""


_PERSON_ACTOR = "oidc/"


class SharedCap(msgspec.Struct, frozen=True):
    """One cap of an operator; it applies separately to each key or lane that fits its pattern.

    At most one of the patterns is set; without one the cap is for the whole ledger.
    """

    name: str
    per: Period
    key: str = ""
    """A pattern for the submitter: the API key's name or id, or the actor as recorded."""
    lane: str = ""
    """A pattern for names of lanes."""
    cap: Spend = UNCAPPED
    person: str = ""
    """A pattern for people who sign in."""
    team: str = ""
    """A pattern for names of teams, each of which shares the cap."""
    agent: str = ""
    """A pattern for names of agents."""

    @property
    def subject(self) -> CapSubject:
        """What the cap is for."""
        return next((s for s in CapSubject if getattr(self, s, "")), CapSubject.LEDGER)

    @property
    def pattern(self) -> str:
        """The pattern for the names of the subject; empty for the whole ledger."""
        return getattr(self, self.subject, "")

    def scopes(self, caller: Caller, teams: Teams) -> set[str]:
        """Return the scopes whose use counts; empty if the cap does not apply."""
        match self.subject:
            case CapSubject.LEDGER:
                return {LEDGER}
            case CapSubject.KEY:
                return {f"key:{caller.actor}"} if _fits(caller.actor, self.key) else set()
            case CapSubject.PERSON:
                names = {caller.actor.removeprefix(_PERSON_ACTOR)} - {caller.actor}
            case CapSubject.TEAM:
                names = set(_find_teams(teams, caller.actor))
            case CapSubject.LANE:
                names = set(caller.lanes) - {""}
            case CapSubject.AGENT:
                names = {caller.agent} - {""}
            case _:
                assert_never(self.subject)
        return {f"{self.subject}:{name}" for name in names if _is_like(name, self.pattern)}

    def holds_for(self, scope: str) -> bool:
        """Tell whether a scope is under this cap."""
        kind, _, name = scope.partition(":")
        if kind != self.subject:
            return False
        if self.subject is CapSubject.KEY:
            return _fits(name, self.key)
        return self.subject is CapSubject.LEDGER or _is_like(name, self.pattern)


class Limit(msgspec.Struct, frozen=True):
    """The limits of one scope in a period."""

    scope: str
    per: Period | GatePeriod | QuotaPeriod
    cap: Spend

    def counts(self, amount: Spend) -> bool:
        """Tell whether any part of this amount is capped here."""
        return any(n and most < NO_LIMIT for n, most in zip(amount, self.cap, strict=True))


def limits_for(caps: Iterable[SharedCap], caller: Caller, teams: Teams) -> tuple[Limit, ...]:
    """Return all limits for a run or a call; of several for one scope, the lowest."""
    lowest: dict[tuple[str, Period], Spend] = {}
    for cap in caps:
        for scope in cap.scopes(caller, teams):
            # Two caps for one scope and period count in the same account, so only the lower limit
            # matters.
            before = lowest.get((scope, cap.per), cap.cap)
            lowest[scope, cap.per] = Spend(*map(min, before, cap.cap))
    return tuple(Limit(scope, per, cap) for (scope, per), cap in sorted(lowest.items()))


ALERT_PERCENTS = (50, 75, 90)
"""The shares of a cap at which its operator is told, each once in a period."""


def find_period(name: str) -> Period | None:
    """Return the period that a name of one is of; None for what is no period of caps."""
    word = name.partition(" ")[0]
    if word in list(Period):
        return Period(word)
    dashes = name.count("-")
    return {2: Period.DAY, 1: Period.MONTH}.get(dashes) if name[:1].isdigit() else None


class CapUse(NamedTuple):
    """What was used of a cap, and in which period."""

    scope: str
    period: str
    cap: Spend
    used: Spend


def find_cap_uses(caps: Iterable[SharedCap], uses: Iterable[BudgetUse]) -> Iterator[CapUse]:
    """Yield the use of every account under a cap, with the lowest limits for it."""
    all_caps = tuple(caps)
    for use in uses:
        per = find_period(use.period)
        mine = [cap.cap for cap in all_caps if cap.per is per and cap.holds_for(use.scope)]
        if mine:
            lowest = Spend(*map(min, *mine)) if len(mine) > 1 else mine[0]
            yield CapUse(use.scope, use.period, lowest, use.used)


def find_alerts(use: CapUse) -> Iterator[CapAlertFacts]:
    """Yield the shares of a cap that are used: all of those, told or not."""
    for unit in CapUnit:
        most, used = getattr(use.cap, unit), getattr(use.used, unit)
        if 0 < most < NO_LIMIT:
            for percent in ALERT_PERCENTS:
                if 100 * used >= percent * most:
                    yield CapAlertFacts(use.scope, use.period, unit, percent, used=used, cap=most)


def recorded_caps(orders: CapOrders) -> tuple[SharedCap, ...]:
    """Return the caps that were set by command."""
    return tuple(
        SharedCap(
            name=f"{name.subject}:{name.name}" if name.name else name.subject.value,
            per=name.per,
            cap=UNCAPPED._replace(**{name.unit.value: most}),
            **({name.subject.value: name.name} if name.name else {}),
        )
        for name, most in sorted(orders.caps.items())
    )


def recorded_teams(orders: CapOrders) -> dict[str, Team]:
    """Return the teams that were set by command."""
    return {name: Team(name, t.members, t.within) for name, t in orders.teams.items()}


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
