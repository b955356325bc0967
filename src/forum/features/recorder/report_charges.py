"""Charge reported model calls to the caps of `[budgets]`, in the commits that record them.

A call that is recorded before it is made reserves its highest cost, and is refused where a cap
cannot pay for it.  A call that is recorded only afterwards is counted, whatever is left: its cost
has occurred, and the calls that follow are refused.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

from forum.engine import SharedBudgets, settle_charges
from forum.errors import CapReached, SharedCapExceeded, SpendingFrozen
from forum.ledger.ports import Amount, BudgetSliceCharge, Spend
from forum.runs.shared_caps import Caller, Limit

Charges = tuple[BudgetSliceCharge, ...]
_MAX_OPEN_CALLS = 100_000
_open_calls: "WeakKeyDictionary[SharedBudgets, OrderedDict[tuple[str, str], Charges]]" = (
    WeakKeyDictionary()
)
"""The charges of calls under way by run and span: a server has a writer for each request."""


class ChargedStep(NamedTuple):
    """A step, and the agent that caps know it by: the one that it names, or else the program."""

    span: str
    agent: str


class ReportCharges:
    """The caps over many runs that the calls of one reporter are charged to."""

    def __init__(self, budgets: SharedBudgets, actor: str) -> None:
        self._budgets, self._actor = budgets, actor
        self._open = _open_calls.setdefault(budgets, OrderedDict())

    @property
    def may_apply(self) -> bool:
        """Whether there are caps; which of them apply depends on the agent that calls."""
        self._budgets.read_if_stale()
        return self._budgets.has_caps

    def _limits(self, agent: str) -> tuple[Limit, ...]:
        self._budgets.read_if_stale()
        return self._budgets.limits(Caller(self._actor, agent=agent))

    def reserve(
        self, run: str, step: ChargedStep, bound: Amount, commit: Callable[[Charges], None]
    ) -> None:
        """Record a call with charges for its highest cost.  Raises `SharedCapExceeded`."""

        def keep(charges: Charges) -> None:
            commit(charges)
            self._open[run, step.span] = charges
            # One that is forgotten stays charged in full, as after a crash.
            while len(self._open) > _MAX_OPEN_CALLS:
                self._open.popitem(last=False)

        try:
            caller = Caller(self._actor, agent=step.agent)
            self._budgets.spend(caller, Spend(bound.usd, bound.tokens), keep)
        except SpendingFrozen as error:
            raise SharedCapExceeded(run, "usd", bound.usd, 0, 0, str(error)) from None
        except CapReached as error:
            raise SharedCapExceeded(
                run, error.limit, error.asked, error.used, error.cap, str(error)
            ) from None

    def settle(self, run: str, step: ChargedStep, bound: Amount, spent: Amount) -> Charges:
        """Return the charges that settle a call by what it has cost."""
        more = Spend(spent.usd - bound.usd, spent.tokens - bound.tokens)
        charged = self._open.get((run, step.span))
        if charged:
            return settle_charges(charged, more)
        # It began in another process, or before a cap applied: nobody knows which period has paid,
        # so nothing is given back.
        return self.count(step.agent, Amount(max(0, more.usd), max(0, more.tokens)))

    def forget(self, run: str, span: str) -> None:
        """Forget a call that has ended, once that is recorded."""
        self._open.pop((run, span), None)

    def count(self, agent: str, spent: Amount) -> Charges:
        """Return the charges for a call whose cost has occurred."""
        amount = Spend(spent.usd, spent.tokens)
        limits = [limit for limit in self._limits(agent) if limit.counts(amount)]
        return self._budgets.count(limits, amount)
