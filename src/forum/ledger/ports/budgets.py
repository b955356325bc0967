"""The part of a store that holds budgets: accounts of runs, and slices of caps that runs share."""

from collections.abc import Container, Sequence
from typing import NamedTuple, Protocol

from forum.ledger.ports.identity import LogIdentity
from forum.units import MAX_AMOUNT

NO_LIMIT = MAX_AMOUNT
"""The cap of an account without a limit: the largest integer that an entry can hold."""


class Amount(NamedTuple):
    """What a step of work costs: nano-dollars, tokens, calls."""

    usd: int = 0
    tokens: int = 0
    calls: int = 0

    def plus(self, other: "Amount") -> "Amount":
        """Return the sum, each part capped at `NO_LIMIT`, the largest integer in an entry."""
        return Amount(*(min(a + b, NO_LIMIT) for a, b in zip(self, other, strict=True)))

    def minus(self, other: "Amount") -> "Amount":
        """Return the difference; its parts may be negative."""
        return Amount(*(mine - its for mine, its in zip(self, other, strict=True)))

    def exceeds(self, cap: "Amount") -> bool:
        """Return whether any of the three parts is greater than that of the cap."""
        return any(mine > its for mine, its in zip(self, cap, strict=True))


UNLIMITED = Amount(NO_LIMIT, NO_LIMIT, NO_LIMIT)


class BudgetAccount(NamedTuple):
    """The budget of a run: its cap, and the amount spent or reserved so far."""

    cap: Amount
    used: Amount


class OpenBudgetAccount(NamedTuple):
    """Effect: open the budget account of a run.  An existing account is not changed."""

    run: str
    cap: Amount


class BudgetCharge(NamedTuple):
    """Effect: add an amount to the usage of a run; a negative amount is returned to the budget.

    A guarded charge is refused when it would exceed the cap.  An unguarded charge settles money
    that is already spent, so it is never refused.
    """

    run: str
    amount: Amount
    guarded: bool = True


class Spend(NamedTuple):
    """What counts against a cap over many runs: nano-dollars, tokens, runs."""

    usd: int = 0
    tokens: int = 0
    runs: int = 0


class BudgetSlice(NamedTuple):
    """A part of a shared cap, reserved by one process, which charges it in its own commits."""

    scope: str
    period: str
    """A day (`2026-11-16`) or a month (`2026-11`), in UTC by the database's clock, or `run`."""
    owner: str
    """The process that holds the slice; empty for the usage of processes that have ended."""


class BudgetSliceCharge(NamedTuple):
    """Effect: add an amount to the usage of a slice; a negative amount is returned to it.

    A guarded charge is refused with `BudgetSliceExhausted` when the rest of the slice is too small
    or its period is over.  An unguarded charge settles an amount already spent and is not refused.
    """

    slice: BudgetSlice
    amount: Spend
    guarded: bool = True


class BudgetUse(NamedTuple):
    """The amount used or reserved in one scope and period."""

    scope: str
    period: str
    until: int
    """The end of the period, in microseconds since 1970."""
    used: Spend


class BudgetReader(LogIdentity, Protocol):
    """Reads accounts, and the usage of shared caps."""

    def accounts(self, runs: Sequence[str]) -> dict[str, BudgetAccount]:
        """Return the budget accounts of these runs; runs without an account are left out."""

    def account_runs(self, after: str, limit: int) -> list[str]:
        """Return the next runs after a name that have an account, in ascending order."""

    def budget_use(self) -> list[BudgetUse]:
        """Return the usage of shared caps in the current minute, day and month."""

    def run_budget_use(self, runs: Container[str]) -> list[BudgetUse]:
        """Return what was added up for these runs, each of which counts by itself."""


class BudgetStore(BudgetReader, Protocol):
    """Reads one account at a time, and hands out slices of shared caps.

    Accounts and slices are charged by effects, in the commits of the entries that cost something.
    """

    def account(self, run: str) -> BudgetAccount | None:
        """Return the budget account of a run, or None if it has none."""

    def take_slice(
        self,
        scope: str,
        per: str,
        owner: str,
        need: Spend,
        cap: Spend,
        known_orders: int | None = None,
    ) -> BudgetSlice:
        """Reserve a slice of a shared cap, at least `need`, for one process to charge.

        `per` is `minute`, `run`, or a period of caps.  When nothing else is left of the cap, the
        unspent parts of other processes' slices are taken back, whether those processes live or
        not.  Raises `CapReached`, and `ConcurrentUpdate` if caps were set since the process read
        them, which is told by the number of those entries.
        """

    def recall_slices(self) -> None:
        """Take back what all processes hold of shared caps and have not spent."""

    def return_slice(self, budget_slice: BudgetSlice) -> None:
        """Return the unspent part of a slice to the cap; the spent part stays counted."""

    def report_overrun(self, slices: Sequence[BudgetSlice]) -> None:
        """Take back what other processes hold of these caps, and count an overrun of each."""

    def overruns(self) -> dict[str, int]:
        """Return how often calls under shared caps were billed above their bound, by scope."""

    def restore_budget_use(self, uses: Sequence[BudgetUse]) -> None:
        """Count what was used of shared caps in the earlier epoch of the log."""
