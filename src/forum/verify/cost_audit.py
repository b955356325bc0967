"""Bounds on the spending of a session, to check whether a turn was rightly refused budget.

Turns of one step run concurrently, so the record does not show how much the other turns had used
when one was refused: at least nothing, at most everything that was reserved or billed.
"""

from collections.abc import Iterable, Sequence

import msgspec

from forum.ledger.ports import Amount
from forum.runs import kinds, run_fold
from forum.runs.session_steps import ZERO_AMOUNT
from forum.runs.shared_caps import read_limit_name

_tables = msgspec.json.Decoder(dict[str, Amount])


class SpendBounds(msgspec.Struct):
    """Lower and upper bounds on the spending of finished turns."""

    cap: Amount
    least: Amount = ZERO_AMOUNT
    most: Amount = ZERO_AMOUNT
    overrun: Amount = ZERO_AMOUNT
    """Amounts billed beyond their reservation: they are spent even if that exceeds the cap."""

    def find_wrong_refusals(self, turns: Sequence[run_fold.TaskRun]) -> list[run_fold.TaskRun]:
        """Return the turns of a step that were stopped by a budget that was not used up."""
        stopped = ((turn, turn.stopped) for turn in turns if turn.stopped)
        return [
            turn
            for turn, stop in stopped
            if stop.reason is kinds.StopReason.BUDGET and not self._is_due(turn, stop, turns)
        ]

    def add_turns(self, turns: Iterable[run_fold.TaskRun]) -> None:
        """Add finished turns."""
        calls = [call for turn in turns for call in turn.calls]
        self.least = self.least.plus(run_fold.sum_amounts(map(_least, calls)))
        self.most = self.most.plus(run_fold.sum_amounts(call.spent for call in calls))
        self.overrun = self.overrun.plus(run_fold.sum_amounts(map(_overrun, calls)))

    def is_exceeded(self) -> bool:
        """Return whether more was spent than any order of reservations could have allowed."""
        return self.least.exceeds(self.cap.plus(self.overrun))

    def _is_due(
        self, turn: run_fold.TaskRun, stop: kinds.StopFacts, turns: Sequence[run_fold.TaskRun]
    ) -> bool:
        if read_limit_name(stop.limit) is not None:
            # A cap shared by many runs: this record does not contain the spending of the others.
            return stop.used + stop.asked > stop.cap
        if stop.limit not in Amount._fields:
            return False
        beside = [call for other in turns if other is not turn for call in other.calls]
        least = self.least.plus(run_fold.sum_amounts(map(_least, turn.calls)))
        most = self.most.plus(turn.spent).plus(run_fold.sum_amounts(map(_most, beside)))
        lowest, highest, cap = (getattr(amount, stop.limit) for amount in (least, most, self.cap))
        one_call = stop.limit != "calls" or stop.asked == 1
        passed = stop.cap == cap and stop.used + stop.asked > cap
        return one_call and passed and lowest <= stop.used <= highest


def is_consistent_spend_table(
    data: bytes, over: Sequence[run_fold.TaskRun], last: Sequence[run_fold.TaskRun]
) -> bool:
    """Return whether a spending table is possible with `over` finished and `last` running.

    The progress of running turns is unknown: a call costs nothing before it is made, its
    reservation while it runs, and its bill once it is answered.
    """
    try:
        table = _tables.decode(data)
    except (msgspec.MsgspecError, UnicodeError):
        return False
    least: dict[str, Amount] = {}
    most: dict[str, Amount] = {}
    for call in (call for turn in over for call in turn.calls):
        _add(least, call, call.spent)
        _add(most, call, call.spent)
    for call in (call for turn in last for call in turn.calls):
        _add(most, call, _most(call))
    if {"", run_fold.UNNAMED_AGENT} <= {
        call.called.agent for turn in (*over, *last) for call in turn.calls
    }:
        least.pop(run_fold.UNNAMED_AGENT, None)  # in the table one replaces the other
    return msgspec.json.encode(table) == data and all(
        agent in most
        and not spent.exceeds(most[agent])
        and not least.get(agent, ZERO_AMOUNT).exceeds(spent)
        for agent, spent in {**dict.fromkeys(least, ZERO_AMOUNT), **table}.items()
    )


def _add(spent: dict[str, Amount], call: run_fold.CallRecord, cost: Amount) -> None:
    agent = call.called.agent or run_fold.UNNAMED_AGENT
    spent[agent] = spent.get(agent, ZERO_AMOUNT).plus(cost)


def _overrun(call: run_fold.CallRecord) -> Amount:
    reply = call.replied
    return Amount(reply.overrun_usd, reply.overrun_tokens) if reply else ZERO_AMOUNT


def _least(call: run_fold.CallRecord) -> Amount:
    """Return the certain cost of a call to its run; a forked run's reply was paid elsewhere."""
    reply = call.replied
    lost_for_free = reply is not None and reply.why is kinds.Why.LOST and not any(call.spent[:2])
    if lost_for_free or (reply is not None and reply.source is kinds.ReplyOrigin.RECORDED):
        return call.spent._replace(calls=0)
    return call.spent


def _most(call: run_fold.CallRecord) -> Amount:
    """Return the highest cost of a call at any time, while it ran or since."""
    return Amount(*map(max, call.called.reserved, call.spent))
