"""Caps within caps: whatever processes do, a charge is in all caps or in none, and none is passed.

A model counts what the databases must have counted: one number for each scope, period and unit.
"""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from forum.app.runs import period_at
from forum.engine import CapFeed, SharedBudgets
from forum.engine.shared_budgets import settle_charges
from forum.errors import CapReached, SpendingFrozen
from forum.ledger.cap_orders import BUDGETS_STRAND, read_cap_orders
from forum.ledger.entry import LOG_RUN, Facts
from forum.ledger.kinds import (
    LEDGER_KINDS,
    CapChange,
    CapFacts,
    CapUnit,
    FreezeAct,
    FreezeFacts,
    Period,
)
from forum.ledger.ports import NO_LIMIT, BudgetSliceCharge, Spend, Store
from forum.ledger.strand import Draft
from forum.runs.shared_caps import (
    UNCAPPED,
    Caller,
    Limit,
    SharedCap,
    Team,
    check_teams,
    limits_for,
)
from tests.support import Chain, StoreFactory, ledger_on

TEAMS = {
    "org": Team("org"),
    "research": Team("research", ("ann", "ci-*"), within="org"),
    "sales": Team("sales", ("bob", "ann"), within="org"),
}
CALLERS = (
    Caller("key/ann/1", agent="claude"),
    Caller("key/ci-1/2", ("law",)),
    Caller("key/bob/3", agent="codex"),
    Caller("oidc/eve@host"),
)
PATTERNS = {
    "": ("",), "key": ("*", "ann"), "person": ("*",), "team": ("*", "org", "research"),
    "lane": ("law",), "agent": ("*", "claude"),
}  # fmt: skip


@pytest.fixture
def factory(store_factory: StoreFactory) -> StoreFactory:
    """Return one log, in each database."""
    return store_factory


@st.composite
def nested_caps(draw: st.DrawFn) -> tuple[SharedCap, ...]:
    """Draw caps of any subject, period and unit."""
    caps = []
    for number in range(draw(st.integers(1, 5))):
        subject = draw(st.sampled_from(sorted(PATTERNS)))
        pattern = {subject: draw(st.sampled_from(PATTERNS[subject]))} if subject else {}
        most = draw(st.integers(0, 60))
        unit = draw(st.sampled_from(("usd", "tokens")))
        per = draw(st.sampled_from(sorted(Period)))
        cap = UNCAPPED._replace(**{unit: most})
        caps.append(SharedCap(f"cap-{number}", per, cap=cap, **pattern))
    return tuple(caps)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), st.integers(0, 2), st.integers(0, 3), st.integers(0, 25)),
        st.tuples(st.just("settle"), st.integers(0, 9), st.integers(0, 25)),
        st.tuples(st.just("die"), st.integers(0, 2)),
        st.tuples(st.just("close"), st.integers(0, 2)),
        st.tuples(st.just("end"), st.sampled_from(sorted(Period))),
        st.tuples(st.just("set_cap"), st.integers(0, 4), st.integers(0, 60)),
        st.tuples(st.just("set_cap"), st.integers(0, 4), st.just(NO_LIMIT)),
        st.tuples(st.just("freeze"), st.booleans()),
    ),
    max_size=25,
)


@dataclass
class World:
    """Three processes that spend from the caps of one log, and the model of what they spent."""

    factory: StoreFactory
    caps: tuple[SharedCap, ...]
    stores: Sequence[Store]
    used: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    open: list[tuple[Spend, tuple[BudgetSliceCharge, ...], tuple[Limit, ...]]] = field(
        default_factory=list
    )

    def __post_init__(self) -> None:
        self.chain, self.owners = Chain(self.factory.origin), 0
        self.is_frozen, self.revision = False, 0
        self.now: dict[tuple[object, ...], SharedCap] = {}
        begun = Chain(self.factory.origin, LOG_RUN)
        self.stores[0].append([begun.next()])
        self.opening = begun.records[0].leaf
        self.budgets = [self.begin(n) for n in range(len(self.stores))]
        for number, cap in enumerate(self.caps):
            self.set_cap(number, min(cap.cap))

    def begin(self, number: int) -> SharedBudgets:
        """Return what a new process spends with."""
        self.owners += 1
        store = self.stores[number]
        read = partial(read_cap_orders, store, LEDGER_KINDS)
        return SharedBudgets(store, (), f"p{self.owners}", teams=TEAMS, feed=CapFeed(read))

    def record(self, facts: Facts) -> None:
        """Record what an operator sets, as another process does."""
        ledger = ledger_on(self.stores[0])
        strand = ledger.open_log_strand(BUDGETS_STRAND)
        draft = Draft(f"set/{strand.length}", "operator", facts, parents=(self.opening,))
        strand.append_exclusive(draft)
        self.stores[0].recall_slices()
        self.revision += 1

    def set_cap(self, number: int, most: int) -> None:
        """Set one of the caps, or remove it."""
        if number < len(self.caps):
            cap = self.caps[number]
            (unit,) = (u for u in ("usd", "tokens") if getattr(cap.cap, u) < NO_LIMIT)
            names = (cap.subject, cap.per, CapUnit(unit), cap.pattern)
            act = CapChange.SET if most < NO_LIMIT else CapChange.REMOVE
            subject, per, of, pattern = names
            most_set = most if most < NO_LIMIT else 0
            self.record(CapFacts(subject, per, of, act, name=pattern, most=most_set))
            now = replace(cap, cap=UNCAPPED._replace(**{unit: most}))
            self.now[names] = now

    def freeze(self, frozen: bool) -> None:  # noqa: FBT001  drawn
        """Freeze all spending, or end that."""
        self.is_frozen = frozen
        self.record(FreezeFacts(FreezeAct.FREEZE if frozen else FreezeAct.UNFREEZE))

    def count(self, limits: Sequence[Limit], amount: Spend) -> None:
        """Count an amount in every cap."""
        for limit in limits:
            for unit in ("usd", "tokens"):
                self.used[limit.scope, limit.per.value, unit] += getattr(amount, unit)

    def room(self, limits: Sequence[Limit], amount: Spend) -> bool:
        """Return whether an amount fits all caps."""
        return all(
            not getattr(amount, unit)
            or self.used[limit.scope, limit.per.value, unit] + getattr(amount, unit)
            <= getattr(limit.cap, unit)
            for limit in limits
            for unit in ("usd", "tokens")
        )

    def limits(self, caller: int, amount: Spend) -> tuple[Limit, ...]:
        """Return the limits in force that count an amount."""
        limits = limits_for(self.now.values(), CALLERS[caller], TEAMS)
        return tuple(limit for limit in limits if limit.counts(amount))

    def reserve(self, process: int, caller: int, most: int) -> None:
        """Reserve an amount; it is refused exactly where a cap has no room."""
        budgets, amount = self.budgets[process], Spend(most, 2 * most)
        if budgets.revision and not any(x.counts(amount) for x in budgets.limits(CALLERS[caller])):
            # Nothing is charged by the caps that this process knows, so nothing tells it of others:
            # its clock stands still here, and otherwise it reads them again after a second.
            is_aware = budgets.revision == self.revision or budgets.is_frozen
        else:
            is_aware = True
        limits = self.limits(caller, amount) if is_aware else ()
        record = self.chain.next()
        charged: list[tuple[BudgetSliceCharge, ...]] = []

        def commit(charges: tuple[BudgetSliceCharge, ...]) -> None:
            self.stores[process].append([record._replace(effects=charges)])
            charged.append(charges)

        fits = self.room(limits, amount) and not (is_aware and self.is_frozen)
        try:
            budgets.spend(CALLERS[caller], amount, commit)
        except SpendingFrozen:
            self.chain.records.pop()
            assert self.is_frozen
            return
        except CapReached:
            self.chain.records.pop()
            assert not fits
            assert not self.is_frozen
            return
        assert fits
        self.count(limits, amount)
        self.open.append((amount, charged[-1], limits))

    def settle(self, number: int, less: int) -> None:
        """Give back a part of a reservation."""
        if self.open:
            amount, charges, limits = self.open.pop(number % len(self.open))
            more = Spend(-min(less, amount.usd), -min(less, amount.tokens))
            effects = settle_charges(charges, more)
            self.stores[0].append([self.chain.next()._replace(effects=effects)])
            self.count(limits, more)

    def end(self, per: Period) -> None:
        """Let a period be over, for all processes: its rows get the name of an earlier one."""
        if per is Period.EVER:
            return
        name, _ = period_at(per, self.stores[0].now())
        self.open.clear()
        change(self.factory, "UPDATE {budget} SET until = 1, period = 'past ' || period || {n} "
               "WHERE period = {name}", name, str(len(self.chain.records)))  # fmt: skip
        for scope, period, unit in list(self.used):
            if period == per:
                del self.used[scope, period, unit]

    def check(self) -> None:
        """Compare the database with the model, and both with the caps."""
        names = {period_at(per, self.stores[0].now())[0]: per.value for per in Period}
        counted = {
            (use.scope, names[use.period], unit): getattr(use.used, unit)
            for use in self.stores[0].budget_use()
            for unit in ("usd", "tokens")
        }
        assert {k: v for k, v in counted.items() if v} == {k: v for k, v in self.used.items() if v}


def change(factory: StoreFactory, query: str, name: str, number: str) -> None:
    """Change rows of the table of caps, as time would."""
    if isinstance(factory.place, Path):
        with closing(sqlite3.connect(factory.place)) as db, db:
            table, mine = "budget", "(SELECT id FROM log WHERE origin = ?)"
            statement = query.format(budget=table, n="?", name="?") + f" AND log = {mine}"
            db.execute(statement, (number, name, factory.origin))
        return
    with psycopg.connect(factory.place) as pg:
        mine = "(SELECT id FROM forum.log WHERE origin = %s)"
        statement = query.format(budget="forum.budget", n="%s", name="%s") + f" AND log = {mine}"
        pg.execute(statement, (number, name, factory.origin))


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(caps=nested_caps(), steps=STEPS)
def test_no_nesting_and_no_order_of_processes_passes_a_cap(
    factory: StoreFactory, caps: tuple[SharedCap, ...], steps: list[tuple[str, ...]]
) -> None:
    """A charge is in every cap that applies or in none, and is refused only where one is full.

    Caps are set, raised, lowered and removed between the charges, and all spending is frozen.
    """
    log = factory.beside()
    try:
        world = World(log, caps, [log() for _ in range(3)])
        for action, *arguments in steps:
            match action:
                case "die":
                    (number,) = map(int, arguments)
                    world.budgets[number] = world.begin(number)
                case "close":
                    world.budgets[int(arguments[0])].close()
                case _:
                    getattr(world, action)(*arguments)
        world.check()
    finally:
        log.close()


def test_periods_have_the_names_that_the_database_gives_them(factory: StoreFactory) -> None:
    """Otherwise a cap that was not used yet would be listed for another period."""
    store = factory()
    spans: dict[Period, tuple[str, int]] = {}
    while not spans or any(until <= store.now() for _, until in spans.values()):
        moment = store.now()
        spans = {per: period_at(per, moment) for per in Period}
    for per, (name, _) in spans.items():
        taken = store.take_slice(
            "ledger", per.value, "p", Spend(1), cap=Spend(9, NO_LIMIT, NO_LIMIT)
        )
        assert taken.period == name
    uses = {use.period: use.until for use in store.budget_use()}
    assert uses == dict(spans.values())


def test_members_of_a_team_are_charged_to_every_team_around_it() -> None:
    """A person in two teams of one organisation is counted once in it."""
    caps = (
        SharedCap("each", Period.WEEK, team="*", cap=UNCAPPED._replace(usd=5)),
        SharedCap("key", Period.HOUR, key="ann", cap=UNCAPPED._replace(usd=1)),
    )
    scopes = {
        caller.actor: [x.scope for x in limits_for(caps, caller, TEAMS)] for caller in CALLERS
    }

    assert scopes == {
        "key/ann/1": ["key:key/ann/1", "team:org", "team:research", "team:sales"],
        "key/ci-1/2": ["team:org", "team:research"],
        "key/bob/3": ["team:org", "team:sales"],
        "oidc/eve@host": [],
    }


@pytest.mark.parametrize(
    "teams",
    [{"a": Team("a", within="b")}, {"a": Team("a", within="b"), "b": Team("b", within="a")}],
)
def test_a_team_within_itself_is_refused(teams: dict[str, Team]) -> None:
    """Its members would be charged for ever."""
    with pytest.raises(ValueError, match="within"):
        check_teams(teams)
