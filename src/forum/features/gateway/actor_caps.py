"""The caps of `[budgets]` that apply to one actor: over many runs, and over all processes."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from forum.app import Forum
from forum.ledger.ports import BudgetSliceCharge, Spend
from forum.runs.report_kinds import ReportSourceFacts
from forum.runs.reported_run import ReportedRunWriter, open_reported_run
from forum.runs.shared_caps import Caller, Limit

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ActorCaps:
    """The caps of one actor, and what they are charged with."""

    forum: Forum
    caller: Caller

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits that apply now; caps may be set at any time."""
        return self.forum.runs.budgets.limits(self.caller)

    @property
    def is_capped(self) -> bool:
        """Whether any cap applies."""
        return bool(self.limits)

    @property
    def revision(self) -> int:
        """A number that grows with each change of the caps."""
        return self.forum.runs.budgets.revision

    @property
    def left(self) -> Spend:
        """What may be spent at most, as it was known within the last second."""
        return self.forum.runs.budgets.left(self.caller)

    @property
    def percent(self) -> int:
        """The highest share of a cap that is used, of those at which the operator is told."""
        return self.forum.runs.budgets.percent(self.caller)

    async def check_open(self) -> None:
        """Raise `SpendingFrozen` if nothing may be spent, and `StoreFailed` if that is unknown."""
        await self.forum.runs.budgets.check_open_async()

    def open_run(
        self, run: str, actor: str, name: str, source: ReportSourceFacts
    ) -> ReportedRunWriter:
        """Open a run, which counts against the cap of runs.  Raises `CapReached`."""

        def commit(charges: tuple[BudgetSliceCharge, ...]) -> ReportedRunWriter:
            ledger = self.forum.ledger
            return open_reported_run(ledger, run, name, source, charges=charges, actor=actor)

        return self.forum.runs.budgets.spend(self.caller, Spend(runs=1), commit, is_run=True)

    async def spend(
        self, amount: Spend, commit: Callable[[tuple[BudgetSliceCharge, ...]], Awaitable[T]]
    ) -> T:
        """Call `commit` with the charges for an amount.  Raises `CapReached`."""
        return await self.forum.runs.budgets.spend_async(self.caller, amount, commit)

    async def report_overrun(self, charges: Sequence[BudgetSliceCharge]) -> None:
        """Let other processes end their calls under the caps of these charges."""
        slices = [charge.slice for charge in charges]
        await asyncio.to_thread(self.forum.store.report_overrun, slices)

    async def overruns(self) -> Mapping[str, int]:
        """Return how often calls were billed above their bound, by the scope of the cap."""
        return await asyncio.to_thread(self.forum.store.overruns)


def find_actor_caps(forum: Forum, actor: str, agent: str = "") -> ActorCaps:
    """Return the caps of an actor, and of the agent or program that calls for it."""
    return ActorCaps(forum, Caller(actor, agent=agent))
