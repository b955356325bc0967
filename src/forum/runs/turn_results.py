"""Reads the result of a turn from its record. The engine and the auditor share this function."""

from collections.abc import Callable

from forum.ledger.kinds import Outcome
from forum.ledger.ports import Position
from forum.runs.kinds import TURN_PREFIX, StopReason
from forum.runs.run_fold import TaskRun, TaskState
from forum.runs.session_steps import TurnResult, TurnStatus

ReadBody = Callable[[Position, str], bytes]
"""Returns the beginning of a body, or b"" if the body is missing."""

_STOPS = frozenset({StopReason.BUDGET, StopReason.DEADLINE, StopReason.CANCELLED})
"""Reasons that end the whole session, not only the turn that met them."""


def build_turn_result(task: TaskRun, read: ReadBody) -> TurnResult | None:
    """Return the result of a turn, or None while it is not over."""
    if not task.state.is_end:
        return None
    turn, fate = task.id.removeprefix(TURN_PREFIX), turn_status(task)
    call = task.calls[-1] if task.calls else None
    if call is None or call.replied is None or call.reply_at is None:
        return TurnResult(turn, fate, spent=task.spent, entry=task.last)
    failed = call.replied.outcome is not Outcome.OK
    replies = [c.replied for c in task.calls if c.replied]
    return TurnResult(
        turn=turn,
        fate=fate,
        output=read(call.reply_at, "output"),
        outcome=call.replied.outcome,
        why=call.replied.why,
        code=call.replied.code,
        error=read(call.reply_at, "error") if failed else b"",
        model=call.replied.model or call.called.model,
        spent=task.spent,
        input_tokens=sum(reply.input_tokens for reply in replies),
        milliseconds=sum(reply.milliseconds for reply in replies),
        at=call.ended,
        entry=task.last,
        commitment=call.commitment,
    )


def turn_status(task: TaskRun) -> TurnStatus:
    """Return the status of a turn that is over."""
    if task.state is TaskState.PASSED:
        return TurnStatus.SAID
    reason = task.stopped.reason if task.stopped else None
    cut = task.state is TaskState.SKIPPED or reason in _STOPS
    return TurnStatus.CUT if cut else TurnStatus.FAILED
