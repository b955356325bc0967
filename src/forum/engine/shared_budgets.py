"""Spend from caps that many runs share: a process holds slices of the caps, and charges those.

A charge is part of the commit that it pays for, on a row that only this process writes, so no
commit waits for a row that all processes share.  Only taking another slice locks such a row, in a
commit of its own.  When a process dies, its charges stay counted; the rest of its slices counts as
spent until another process needs it and takes it back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import TypeVar

from forum.errors import BudgetSliceExhausted, StoreFailed
from forum.ledger import ports
from forum.ledger.database_memory import DatabaseMemory
from forum.runs import shared_caps

T = TypeVar("T")

_MAX_ATTEMPTS = 200
"""The maximum number of slices taken for one charge.

Near the end of a cap, other processes may take a slice back before it is charged.
"""
_MAX_PAUSE_S = 0.05


class SharedBudgets:
    """The shared caps, and the slices of them that this process holds."""

    def __init__(
        self,
        store: ports.BudgetStore,
        caps: tuple[shared_caps.SharedCap, ...],
        owner: str,
        quota: tuple[shared_caps.Limit, ...] = (),
        teams: shared_caps.Teams = MappingProxyType({}),
    ) -> None:
        self._store, self._caps, self._teams = store, caps, teams
        self._owner, self.quota = owner, quota
        self._slices: DatabaseMemory[dict[tuple[str, str], ports.BudgetSlice]] = DatabaseMemory(
            store.lineage, dict
        )
        """By scope and period."""

    def limits(self, caller: shared_caps.Caller) -> tuple[shared_caps.Limit, ...]:
        """Return the limits that apply to what a caller does."""
        return shared_caps.limits_for(self._caps, caller, self._teams) if self._caps else ()

    def run_limits(self, caller: shared_caps.Caller) -> tuple[shared_caps.Limit, ...]:
        """Return the limits that apply to the acceptance of a run: the quota of a tenant, too."""
        return self.quota + self.limits(caller)

    def attempts(
        self, limits: Iterable[shared_caps.Limit], amount: ports.Spend
    ) -> "ChargeAttempts":
        """Return the attempts of a commit that charges an amount to these limits."""
        return self.attempts_each([(limit, amount) for limit in limits])

    def attempts_each(
        self, amounts: Sequence[tuple[shared_caps.Limit, ports.Spend]]
    ) -> "ChargeAttempts":
        """Return the attempts of a commit that charges an amount to each limit."""
        return ChargeAttempts(self, amounts)

    def spend(
        self,
        limits: tuple[shared_caps.Limit, ...],
        amount: ports.Spend,
        commit: Callable[[tuple[ports.BudgetSliceCharge, ...]], T],
    ) -> T:
        """Call `commit` with the charges for an amount, taking slices as needed.

        Raises `CapReached` if a cap is used up, and `StoreFailed` if other processes keep taking
        the slices back.
        """
        return self.spend_each([(limit, amount) for limit in limits], commit)

    def spend_each(
        self,
        amounts: Sequence[tuple[shared_caps.Limit, ports.Spend]],
        commit: Callable[[tuple[ports.BudgetSliceCharge, ...]], T],
    ) -> T:
        """Do the same as `spend`, with an amount for each limit."""
        attempts = self.attempts_each(amounts)
        while True:
            try:
                return commit(attempts.charges())
            except BudgetSliceExhausted as refused:
                attempts.take_slice(refused)

    async def spend_async(
        self,
        limits: tuple[shared_caps.Limit, ...],
        amount: ports.Spend,
        commit: Callable[[tuple[ports.BudgetSliceCharge, ...]], Awaitable[T]],
    ) -> T:
        """Do the same as `spend` without blocking the event loop."""
        attempts = self.attempts(limits, amount)
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
            self.take_slice([(limit, ports.Spend())], exhausted)
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
    ) -> None:
        """Take a slice in place of one that does not cover its amount.  Raises `CapReached`."""
        for limit, amount in amounts:
            old = self.slice_of(limit)
            if (old.scope, old.period) == (spent.scope, spent.period):
                need = (amount, limit.cap)
                new = self._store.take_slice(limit.scope, limit.per.value, self._owner, *need)
                if new.period != limit.per.value:  # that of a run is found by its scope
                    self._slices.value[limit.scope, limit.per] = new
                if old.period not in (new.period, limit.per.value):
                    self._store.return_slice(old)  # the slice's day or month is over


class ChargeAttempts:
    """The charges of one commit; the store refuses a charge without a slice that covers it.

    Commit with `charges`; after each `BudgetSliceExhausted` take a slice, and commit again.
    """

    def __init__(
        self, budgets: SharedBudgets, amounts: Sequence[tuple[shared_caps.Limit, ports.Spend]]
    ) -> None:
        self._budgets, self._amounts = budgets, amounts
        self._refused = 0

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

        Raises `CapReached` if the cap is used up, and `StoreFailed` if other processes keep taking
        the slices back.
        """
        self._budgets.take_slice(self._amounts, refused)
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
