"""What calls and steps cost, and which of them are open: the one fold of spending.

A call that has no end yet counts with what is reserved for it, because it may still be billed in
full.  Its end replaces the reservation by the bill, also by a higher one.  Views, lists, accounts
and metrics use these rules, so that they state the same; `verify.standalone` recomputes them
without this code.
"""

from collections.abc import MutableMapping
from typing import TypeVar

import msgspec

from forum.ledger.ports import Amount
from forum.runs.kinds import CallFacts, ReplyFacts, ReplyOrigin, is_inner_run
from forum.runs.report_kinds import ReportBeginFacts, ReportStepFacts

Key = TypeVar("Key")
Beginning = CallFacts | ReportBeginFacts
End = ReplyFacts | ReportStepFacts


class CallCost(msgspec.Struct, frozen=True):
    """A call or a step with its cost, by its beginning and its end as far as they are recorded."""

    begun: Beginning | None
    ended: End | None
    ts: int
    """The time of the last of them."""

    @property
    def spent(self) -> Amount:
        """The bill, or the reservation if no end is recorded."""
        return cost_of(self.begun, self.ended)

    @property
    def agent(self) -> str:
        """The agent that called; empty if it is not known."""
        return getattr(self._named_by, "agent", "")

    @property
    def model(self) -> str:
        """The model that was called."""
        return self._named_by.model if self._named_by else ""

    @property
    def _named_by(self) -> Beginning | End | None:
        # Providers answer calls of ours under names of their own; a program may know the model of
        # a step only at its end.
        ended = self.ended
        return ended if isinstance(ended, ReportStepFacts) else self.begun or ended

    @property
    def is_priced(self) -> bool:
        """Whether the price is known; otherwise the call counts as free of charge."""
        last = self.ended or self.begun
        return bool(getattr(last, "usd", 0) or getattr(last, "prices", "") or self.is_recorded)

    @property
    def is_recorded(self) -> bool:
        """Whether the reply was taken over from another run, which has paid for it."""
        ended = self.ended
        return isinstance(ended, ReplyFacts) and ended.source is ReplyOrigin.RECORDED

    @property
    def is_inner_run(self) -> bool:
        """Whether the engine had another run answer it, where the same cost is counted."""
        # A reporter names agents and models as it likes: its steps are none of the engine's.
        begun = self.begun
        return isinstance(begun, CallFacts) and is_inner_run(begun.agent, begun.model)


def cost_of(begun: Beginning | None, ended: End | None) -> Amount:
    """Return what a call or a step costs, by its beginning and its end as far as recorded."""
    if ended is None:
        return begun.reserved if begun else Amount()
    if begun is None or isinstance(ended, ReplyFacts):
        return ended.spent
    # The calls of a step were counted before it began, and are not settled; only those of one that
    # was not made are given back.
    return ended.spent._replace(calls=0 if ended.is_taken_back else begun.calls)


def fold_cost(
    open_calls: MutableMapping[Key, CallCost], key: Key, ts: int, facts: Beginning | End
) -> CallCost | None:
    """Fold a beginning or an end into the open calls; return the call that is over with it.

    A strand has one open call at a time, under its key.  A call that another one follows never got
    an end and keeps its reservation.  An end counts by itself if its beginning is not known.
    """
    last = open_calls.pop(key, None)
    if isinstance(facts, (CallFacts, ReportBeginFacts)):
        open_calls[key] = CallCost(facts, None, ts)
        return last
    return CallCost(last.begun if last else None, facts, ts)
