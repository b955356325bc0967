"""Spending from caps over many runs: a process holds slices of them, and charges those.

A charge is part of the commit that it pays for, on a row of this process: no commit waits for one
that all processes share.  Only taking another slice does, in a commit of its own.  What a process
has charged is counted when it dies; what it held beyond that counts as spent until another process
needs it and takes it back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from hashlib import sha256
from typing import TypeVar

from forum.errors import BudgetSliceExhausted, StoreFailed
from forum.ledger import BudgetSlice, BudgetSliceCharge, Spend, Store
from forum.work import Limit, Period, SharedCap, limits_for

T = TypeVar("T")

_MAX_ATTEMPTS = 200
"""How often a slice is taken for one charge: near the end of a cap, others may take it back."""
_MAX_PAUSE_S = 0.05


class SharedBudgets:
    """The caps over many runs, as one process spends from them."""

    def __init__(self, store: Store, caps: tuple[SharedCap, ...], owner: str) -> None:
        self._store, self._caps, self._owner = store, caps, owner
        self._slices: dict[tuple[str, Period], BudgetSlice] = {}

    def limits(self, actor: str, lanes: Iterable[str]) -> tuple[Limit, ...]:
        """Return the limits that hold for a run of this actor, or a task of it, in these lanes."""
        return limits_for(self._caps, actor, lanes) if self._caps else ()

    def spend(
        self,
        limits: tuple[Limit, ...],
        amount: Spend,
        commit: Callable[[tuple[BudgetSliceCharge, ...]], T],
    ) -> T:
        """Commit something with what it costs.  Raises `CapReached`."""
        for _ in range(_MAX_ATTEMPTS):
            try:
                return commit(self._charges(limits, amount))
            except BudgetSliceExhausted as spent:
                self._take_slice(limits, amount, spent)
        raise StoreFailed("charging", "other processes take every slice back; try again")

    async def spend_async(
        self,
        limits: tuple[Limit, ...],
        amount: Spend,
        commit: Callable[[tuple[BudgetSliceCharge, ...]], Awaitable[T]],
    ) -> T:
        """Do the same on an event loop."""
        for attempt in range(_MAX_ATTEMPTS):
            try:
                return await commit(self._charges(limits, amount))
            except BudgetSliceExhausted as spent:
                await asyncio.sleep(self._retry_delay(attempt))
                await asyncio.to_thread(self._take_slice, limits, amount, spent)
        raise StoreFailed("charging", "other processes take every slice back; try again")

    def close(self) -> None:
        """Give back what was not spent; for when this process charges nothing any more."""
        while self._slices:
            _, taken = self._slices.popitem()
            self._store.return_slice(taken)

    def _retry_delay(self, attempt: int) -> float:
        """Return how long to wait: not at all at first, and then not as long as others do."""
        spread = sha256(f"{self._owner}/{attempt}".encode()).digest()[0] / 255
        return spread * _MAX_PAUSE_S if attempt > 1 else 0.0

    def _charges(self, limits: tuple[Limit, ...], amount: Spend) -> tuple[BudgetSliceCharge, ...]:
        """Return what a commit is charged with; without a slice, what is sure to be refused.

        So a commit that is refused for another reason, such as an idempotency key that was used,
        is refused for that one.
        """
        return tuple(
            BudgetSliceCharge(self._slice_of(limit), amount)
            for limit in limits
            if limit.counts(amount)
        )

    def _slice_of(self, limit: Limit) -> BudgetSlice:
        taken = self._slices.get((limit.scope, limit.per))
        return taken or BudgetSlice(limit.scope, limit.per.value, self._owner)

    def _take_slice(
        self, limits: tuple[Limit, ...], amount: Spend, spent: BudgetSliceExhausted
    ) -> None:
        for limit in limits:
            old = self._slice_of(limit)
            if (old.scope, old.period) == (spent.scope, spent.period):
                need = (amount, limit.cap)
                new = self._store.take_slice(limit.scope, limit.per.value, self._owner, *need)
                self._slices[limit.scope, limit.per] = new
                if old.period not in (new.period, limit.per.value):
                    self._store.return_slice(old)  # its day, or month, is over


def settle_charges(
    charges: tuple[BudgetSliceCharge, ...], more: Spend
) -> tuple[BudgetSliceCharge, ...]:
    """Return what settles charges with what was spent beyond them, or less."""
    return tuple(BudgetSliceCharge(charge.slice, more, guarded=False) for charge in charges)
