"""Spend from caps that many runs share: a process holds slices of the caps, and charges those.

A charge is part of the commit that it pays for, on a row that only this process writes, so no
commit waits for a row that all processes share.  Only taking another slice locks such a row, in a
commit of its own.  When a process dies, its charges stay counted; the rest of its slices counts as
spent until another process needs it and takes it back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from types import MappingProxyType
from typing import TypeVar

from forum.errors import (
    BudgetSliceExhausted,
    ConcurrentUpdate,
    SpendingFrozen,
    StoreFailed,
)
from forum.ledger import ports
from forum.ledger.cap_orders import CapOrders
from forum.ledger.database_memory import DatabaseMemory
from forum.ledger.kinds import CapAlertFacts
from forum.runs import shared_caps
from forum.runs.shared_caps import find_period

T = TypeVar("T")

_MAX_ATTEMPTS = 200
"""The maximum number of slices taken for one charge.

Near the end of a cap, other processes may take a slice back before it is charged.
"""
_MAX_PAUSE_S = 0.05

REFRESH_S = 1.0
"""How long a process goes on by the caps that it knows, where no charge tells it of others."""


@dataclass(frozen=True, slots=True)
class CapFeed:
    """What tells a process of caps that are set while it runs."""

    read_orders: Callable[[CapOrders], CapOrders] = lambda orders: orders
    """Returns the caps with those that were set since; raises where it cannot tell."""
    monotonic: Callable[[], float] = lambda: 0.0
    """A clock that never goes back, in seconds."""
    tell: Callable[[CapAlertFacts], None] = lambda _: None
    """Records that a share of a cap was used, once for all processes."""


_NO_FEED = CapFeed()


class SharedBudgets:
    """The shared caps, and the slices of them that this process holds."""

    def __init__(
        self,
        store: ports.BudgetStore,
        caps: tuple[shared_caps.SharedCap, ...],
        owner: str,
        quota: tuple[shared_caps.Limit, ...] = (),
        teams: shared_caps.Teams = MappingProxyType({}),
        feed: CapFeed = _NO_FEED,
    ) -> None:
        self._store, self._feed = store, feed
        self._caps, self._teams = caps, teams
        self._orders = DatabaseMemory(store.lineage, _KnownOrders)
        self._owner, self.quota = owner, quota
        self._slices: DatabaseMemory[dict[tuple[str, str], ports.BudgetSlice]] = DatabaseMemory(
            store.lineage, dict
        )
        """By scope and period."""

    @property
    def revision(self) -> int:
        """A number that grows with each change of the caps."""
        return self._orders.value.orders.length

    def read_if_stale(self) -> None:
        """Read what was set of caps, if this process has not within a second."""
        if self._is_stale():
            self.refresh()

    def check_open(self) -> None:
        """Read what was set of caps, if this process has not within a second.

        Raises `SpendingFrozen`, and `StoreFailed` if it cannot be read: then nothing is spent.
        """
        if self._is_stale() or self.is_frozen:  # who waits for the end of a freeze sees it at once
            self.refresh()
        if self.is_frozen:
            raise SpendingFrozen

    async def check_open_async(self) -> None:
        """Do the same as `check_open` without blocking the event loop."""
        if self._is_stale() or self.is_frozen:
            await asyncio.to_thread(self.refresh)
        if self.is_frozen:
            raise SpendingFrozen

    @property
    def is_frozen(self) -> bool:
        """Whether all spending is frozen, as this process knows it."""
        return self._orders.value.orders.is_frozen

    def _is_stale(self) -> bool:
        read_at = self._orders.value.read_at
        return read_at is None or self._feed.monotonic() - read_at > REFRESH_S

    def refresh(self) -> None:
        """Read what was set of caps since.  Raises `StoreFailed`."""
        memory, began = self._orders.value, self._feed.monotonic()
        before = memory.orders
        orders = self._feed.read_orders(before)
        if orders.length != before.length:
            # Before the orders: a thread with these rules and the earlier revision is refused, and
            # one with the earlier rules and this revision would not be.
            memory.rules = (
                (*self._caps, *shared_caps.recorded_caps(orders)),
                {**self._teams, **shared_caps.recorded_teams(orders)},
            )
        memory.orders = orders
        memory.read_at = began
        if orders.length != before.length:
            self.close()  # what this process holds was allotted by the caps as they were
        caps, _ = self._rules()
        memory.uses = (
            tuple(shared_caps.find_cap_uses(caps, self._store.budget_use())) if caps else ()
        )
        alerts = {alert for use in memory.uses for alert in shared_caps.find_alerts(use)}
        for alert in alerts:
            name = (alert.scope, alert.period, alert.unit, alert.percent)
            if name not in memory.told:
                self._feed.tell(alert)
                memory.told.add(name)

    def left(self, caller: shared_caps.Caller) -> ports.Spend:
        """Return what a caller may spend at most, as it was known within the last second."""
        limits = self.limits(caller)
        used: dict[tuple[str, object], ports.Spend] = {
            (use.scope, find_period(use.period)): use.used for use in self._orders.value.uses
        }
        left = shared_caps.UNCAPPED
        for limit in limits:
            spent = used.get((limit.scope, limit.per), ports.Spend())
            rest = (
                m if m == ports.NO_LIMIT else max(0, m - u)
                for m, u in zip(limit.cap, spent, strict=True)
            )
            left = ports.Spend(*map(min, left, rest))
        return left

    def percent(self, caller: shared_caps.Caller) -> int:
        """Return the highest share of a cap of a caller of which its operator was told; 0: none."""
        scopes = {(limit.scope, limit.per) for limit in self.limits(caller)}
        mine = (u for u in self._orders.value.uses if (u.scope, find_period(u.period)) in scopes)
        return max((a.percent for use in mine for a in shared_caps.find_alerts(use)), default=0)

    @property
    def has_caps(self) -> bool:
        """Whether there is any cap, for whomever, as this process knows it."""
        caps, _ = self._rules()
        return bool(caps)

    def limits(self, caller: shared_caps.Caller) -> tuple[shared_caps.Limit, ...]:
        """Return the limits that apply to what a caller does, as this process knows them."""
        caps, teams = self._rules()
        return shared_caps.limits_for(caps, caller, teams) if caps else ()

    def _rules(self) -> tuple[tuple[shared_caps.SharedCap, ...], shared_caps.Teams]:
        """Return the caps and the teams in force, as this process knows them."""
        return self._orders.value.rules or (self._caps, self._teams)

    def run_limits(self, caller: shared_caps.Caller) -> tuple[shared_caps.Limit, ...]:
        """Return the limits that apply to the acceptance of a run: the quota of a tenant, too."""
        return self.quota + self.limits(caller)

    def attempts(
        self, caller: shared_caps.Caller, amount: ports.Spend, *, is_run: bool = False
    ) -> "ChargeAttempts":
        """Return the attempts of a commit that charges an amount to the caps of a caller.

        With `is_run`, the quota of a tenant is charged as well.
        """

        def find() -> list[tuple[shared_caps.Limit, ports.Spend]]:
            limits = self.run_limits(caller) if is_run else self.limits(caller)
            return [(limit, amount) for limit in limits]

        return ChargeAttempts(self, find)

    def spend(
        self,
        caller: shared_caps.Caller,
        amount: ports.Spend,
        commit: Callable[[tuple[ports.BudgetSliceCharge, ...]], T],
        *,
        is_run: bool = False,
    ) -> T:
        """Call `commit` with the charges for an amount, taking slices as needed.

        Raises `CapReached` if a cap is used up, `SpendingFrozen`, and `StoreFailed` if other
        processes keep taking the slices back.
        """
        self.check_open()
        return _commit_charged(self.attempts(caller, amount, is_run=is_run), commit)

    def spend_each(
        self,
        amounts: Sequence[tuple[shared_caps.Limit, ports.Spend]],
        commit: Callable[[tuple[ports.BudgetSliceCharge, ...]], T],
    ) -> T:
        """Call `commit` with charges to limits that are no caps, such as sums of a gate rule."""
        return _commit_charged(self.attempts_each(amounts), commit)

    def attempts_each(
        self, amounts: Sequence[tuple[shared_caps.Limit, ports.Spend]]
    ) -> "ChargeAttempts":
        """Return the attempts of a commit that charges limits that are no caps."""
        return ChargeAttempts(self, lambda: amounts, is_fixed=True)

    async def spend_async(
        self,
        caller: shared_caps.Caller,
        amount: ports.Spend,
        commit: Callable[[tuple[ports.BudgetSliceCharge, ...]], Awaitable[T]],
    ) -> T:
        """Do the same as `spend` without blocking the event loop."""
        await self.check_open_async()
        attempts = self.attempts(caller, amount)
        while True:
            try:
                return await commit(attempts.charges())
            except BudgetSliceExhausted as refused:
                await attempts.take_slice_async(refused)

    def count(
        self, limits: Iterable[shared_caps.Limit], amount: ports.Spend
    ) -> tuple[ports.BudgetSliceCharge, ...]:
        """Return charges for what is spent already, which no cap can refuse.

        They are those of the current periods.
        """
        charges = []
        for limit in limits:
            old = self.slice_of(limit)
            exhausted = BudgetSliceExhausted(old.scope, old.period)
            self.take_slice([(limit, ports.Spend())], exhausted, None)
            charges.append(ports.BudgetSliceCharge(self.slice_of(limit), amount, guarded=False))
        return tuple(charges)

    def close(self) -> None:
        """Return all slices; call this when the process makes no more charges."""
        while self._slices.value:
            _, budget_slice = self._slices.value.popitem()
            self._store.return_slice(budget_slice)

    def retry_delay(self, attempt: int) -> float:
        """Return the delay before taking another slice: none at first, then up to the maximum.

        The delay depends on the owner, so that competing processes do not retry in step.
        """
        spread = sha256(f"{self._owner}/{attempt}".encode()).digest()[0] / 255
        return spread * _MAX_PAUSE_S if attempt > 1 else 0.0

    def slice_of(self, limit: shared_caps.Limit) -> ports.BudgetSlice:
        """Return the slice of a cap that this process holds, or an empty one."""
        budget_slice = self._slices.value.get((limit.scope, limit.per))
        return budget_slice or ports.BudgetSlice(limit.scope, limit.per.value, self._owner)

    def take_slice(
        self,
        amounts: Sequence[tuple[shared_caps.Limit, ports.Spend]],
        spent: BudgetSliceExhausted,
        revision: int | None,
    ) -> None:
        """Take a slice in place of one that does not cover its amount.

        Raises `CapReached`, and `ConcurrentUpdate` if the caps are not those of the revision.
        """
        for limit, amount in amounts:
            old = self.slice_of(limit)
            if (old.scope, old.period) == (spent.scope, spent.period):
                new = self._store.take_slice(
                    limit.scope, limit.per.value, self._owner, amount, cap=limit.cap,
                    known_orders=revision,
                )  # fmt: skip
                if limit.per is not shared_caps.GatePeriod.RUN:  # which is found by its scope
                    self._slices.value[limit.scope, limit.per] = new
                if old.period not in (new.period, limit.per.value):
                    self._store.return_slice(old)  # the slice's period is over


class _KnownOrders:
    """What a process knows of the caps that were set, and since when by its own clock."""

    def __init__(self) -> None:
        self.orders = CapOrders()
        self.rules: tuple[tuple[shared_caps.SharedCap, ...], shared_caps.Teams] | None = None
        """All caps and teams with those of the orders; None while there are none of these."""
        self.read_at: float | None = None
        self.uses: tuple[shared_caps.CapUse, ...] = ()
        self.told: set[tuple[str, str, str, int]] = set()
        """The alerts that this process need not record."""


def _commit_charged(
    attempts: "ChargeAttempts", commit: Callable[[tuple[ports.BudgetSliceCharge, ...]], T]
) -> T:
    while True:
        try:
            return commit(attempts.charges())
        except BudgetSliceExhausted as refused:
            attempts.take_slice(refused)


class ChargeAttempts:
    """The charges of one commit; the store refuses a charge without a slice that covers it.

    Commit with `charges`; after each `BudgetSliceExhausted` take a slice, and commit again.
    """

    def __init__(
        self,
        budgets: SharedBudgets,
        find_amounts: Callable[[], Sequence[tuple[shared_caps.Limit, ports.Spend]]],
        *,
        is_fixed: bool = False,
    ) -> None:
        """With `is_fixed`, the limits do not follow from caps that may be set at any time."""
        self._budgets, self._find_amounts = budgets, find_amounts
        self._is_fixed, self._refused = is_fixed, 0
        self._find()

    def _find(self) -> None:
        # In this order: if the caps change in between, the store finds the revision too old.
        self._revision = None if self._is_fixed else self._budgets.revision
        self._amounts = self._find_amounts()

    def charges(self) -> tuple[ports.BudgetSliceCharge, ...]:
        """Return the charges of a commit; without a slice, a charge that the store refuses.

        So no slice is taken for a commit that is refused for another reason, such as an idempotency
        key that was used.
        """
        return tuple(
            ports.BudgetSliceCharge(self._budgets.slice_of(limit), amount)
            for limit, amount in self._amounts
            if limit.counts(amount)
        )

    def take_slice(self, refused: BudgetSliceExhausted) -> None:
        """Take a slice for the charge that was refused.

        Raises `CapReached` if the cap is used up, `SpendingFrozen`, and `StoreFailed` if other
        processes keep taking the slices back.
        """
        try:
            self._budgets.take_slice(self._amounts, refused, self._revision)
        except ConcurrentUpdate:
            self._budgets.refresh()
            self._budgets.check_open()
            self._find()
        self._refused += 1
        if self._refused == _MAX_ATTEMPTS:
            raise StoreFailed("charging", "other processes take every slice back; try again")

    async def take_slice_async(self, refused: BudgetSliceExhausted) -> None:
        """Do the same as `take_slice` without blocking the event loop, after a short delay."""
        await asyncio.sleep(self._budgets.retry_delay(self._refused))
        await asyncio.to_thread(self.take_slice, refused)


def settle_charges(
    charges: tuple[ports.BudgetSliceCharge, ...], more: ports.Spend
) -> tuple[ports.BudgetSliceCharge, ...]:
    """Return the charges that settle these by the difference to the amount actually spent."""
    # Unguarded: the cost has occurred, so the correction must be recorded even above the cap.
    return tuple(ports.BudgetSliceCharge(charge.slice, more, guarded=False) for charge in charges)
