"""A process that spends from a shared cap until there is nothing left, an entry for each charge.

What it has charged follows from how many entries its run has: it draws amounts by its name.
"""

import sys
from itertools import islice
from pathlib import Path
from random import Random

from forum.engine import SharedBudgets
from forum.errors import CapReached
from forum.ledger.kinds import Period
from forum.ledger.ports import NO_LIMIT, BudgetSliceCharge, Spend
from forum.runs.shared_caps import (
    Caller,
    SharedCap,
)
from tests.support import Chain, StoreFactory

MOST = 9
"""The largest charge."""


def amounts(name: str, number: int) -> list[int]:
    """Return the first amounts that a process charges."""
    drawn = Random(name)
    return list(islice(iter(lambda: drawn.randint(1, MOST), 0), number))


def spend_all(factory: StoreFactory, name: str, cap: int) -> None:
    """Charge one amount after another, until one would pass the cap."""
    caps = (SharedCap("all", Period.DAY, cap=Spend(cap, NO_LIMIT, NO_LIMIT)),)
    store = factory()
    budgets, chain = SharedBudgets(store, caps, name), Chain(factory.origin, name)
    for amount in amounts(name, cap):
        record = chain.next()

        def commit(charges: tuple[BudgetSliceCharge, ...], record=record) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
            store.append([record._replace(effects=charges)])

        try:
            budgets.spend(Caller("tester"), Spend(amount), commit)
        except CapReached:
            return


if __name__ == "__main__":
    where = sys.argv[1]
    place = where if "://" in where else Path(where)
    spend_all(StoreFactory(place, sys.argv[2]), sys.argv[3], int(sys.argv[4]))
