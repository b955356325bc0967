"""Checking the frame of a session: request and route, its stop, the wish for its end, its close.

Every run has one.  Whoever asks writes the beginning of it in one commit; the engine writes the
rest, and nobody else can add to the run once it has closed.
"""

from collections.abc import Mapping, Sequence

from forum.deliberation.cost_audit import is_consistent_spend_table
from forum.deliberation.record_comparison import Breach, IndexedEntry, RecordComparer
from forum.deliberation.steps import TurnStatus
from forum.deliberation.turn_results import turn_status
from forum.ledger import MAIN_STRAND, Facts, RunCloseFacts, RunOpenFacts
from forum.work import (
    CONTROL,
    AcceptedFacts,
    AnswerFacts,
    CancelFacts,
    ControlCloseFacts,
    RouteFacts,
    Run,
    StopFacts,
    StopReason,
    TaskRun,
)

_OPENING_STEPS: dict[type[Facts], str] = {
    RunOpenFacts: "run/open",
    AcceptedFacts: "accepted",
    RouteFacts: "route",
}
_CLOSING_STEPS: dict[type[Facts], str] = {
    StopFacts: "stop",
    AnswerFacts: "answer",
    RunCloseFacts: "run/close",
}
SINGLE_ENTRY_FACTS = (*_OPENING_STEPS, *_CLOSING_STEPS)
"""What stands in the main strand besides notes: once, or not at all."""

_MAX_CLOCK_SKEW_US = 300 * 1_000_000
"""How far, in microseconds, the clocks of those may be apart who have worked on a session."""


class RunAuditor:
    """What every run consists of, in one that is a session."""

    def __init__(
        self, look: RecordComparer, strands: Mapping[str, Sequence[IndexedEntry]], state: Run
    ) -> None:
        self._comparer, self._state = look, state
        self._main, self._control = strands.get(MAIN_STRAND, ()), strands.get(CONTROL, ())
        own = (
            one for one in reversed(self._main) if isinstance(one.entry.facts, SINGLE_ENTRY_FACTS)
        )
        self._parts = {type(one.entry.facts): one for one in own}
        self.last_note = 0
        """Where the last note stands."""
        self._begun = 0
        """Where the note stands on which somebody was asked for the last time."""
        self._last: Sequence[TaskRun] = ()
        self._over: list[TaskRun] = []
        """The turns that were taken then, and those before."""
        self._stop_reported_at: int | None = None
        """Where the first note stands that tells of turns that were cut off, or the answer."""
        self._is_cut = False

    def check(self) -> None:
        """Check who has written each part, as which step, and for which cause."""
        for place, (kind, step) in enumerate(_OPENING_STEPS.items()):
            part = self._parts.get(kind)
            if part is None:
                continue
            self._comparer.compare_step(Breach.COURSE, part, step, self._main[0].entry.actor)
            self._comparer.compare_parents(part, ())
            if part.entry.n != place:
                self._comparer.report_fault(Breach.ORDER, f"{step}: a run begins with it", part)
        for kind, step in _CLOSING_STEPS.items():
            if kind in self._parts:
                self._comparer.compare_step(Breach.COURSE, self._parts[kind], step)
        self._check_control()
        self._check_stop()

    def _check_control(self) -> None:
        """Check that the place was taken in which somebody could wish for the end."""
        if not self._control:
            if RunCloseFacts in self._parts:
                self._comparer.report_fault(
                    Breach.MISSING, "control: nobody has closed it", self._main[-1]
                )
            return
        first = self._control[0]
        match first.entry.facts:
            case CancelFacts():  # by anybody
                self._comparer.compare_step(Breach.COURSE, first, "cancel", first.entry.actor)
            case ControlCloseFacts():
                self._comparer.compare_step(Breach.COURSE, first, "close")
            case _:
                return  # surplus, like all that follows
        self._comparer.compare_parents(first, (self._parts[AcceptedFacts].leaf,))

    # How far the session has come

    def record_note(self, note: IndexedEntry) -> None:
        """Hear of the next note."""
        self.last_note = note.entry.n
        if self._is_cut and self._stop_reported_at is None:
            self._stop_reported_at = self.last_note

    def record_turns(self, turns: Sequence[TaskRun]) -> None:
        """Hear of turns that are taken at the same time."""
        if any(turn.calls or turn.uses for turn in turns):
            self._over += self._last
            self._last, self._begun = turns, self.last_note
        self._is_cut = any(turn_status(turn) is TurnStatus.CUT for turn in turns)

    def record_answer(self, given: IndexedEntry) -> None:
        """Hear of the answer."""
        if self._stop_reported_at is None:
            self._stop_reported_at = given.entry.n

    def check_stop_position(self) -> None:
        """Check that the run was stopped where turns were cut off, and at the price of those."""
        where = self._parts.get(StopFacts)
        if where is None:
            return
        place = where.entry.n
        if place <= self._begun or (
            self._stop_reported_at is not None and place >= self._stop_reported_at
        ):
            self._comparer.report_fault(
                Breach.ORDER, f"{where.entry.step}: it has stopped nothing here", where
            )
        table = self._comparer.read_body_or_skip(where, "spent")
        if table is not None and not is_consistent_spend_table(table, self._over, self._last):
            detail = f"{where.entry.step}: spent is not what calls have cost"
            self._comparer.report_fault(Breach.COURSE, detail, where)

    # The stop

    def _check_stop(self) -> None:
        """Check that what has stopped the run was there: a wish, or a limit that was met."""
        where = self._parts.get(StopFacts)
        if where is None:
            return
        if not self._is_due(where):
            detail = f"{where.entry.step}: {where.entry.facts.reason.value} could not stop the run"
            self._comparer.report_fault(Breach.COURSE, detail, where)
        met = self._state.task(where.entry.facts.by)
        self._comparer.compare_parents(where, (met.last,) if met.stopped and met.last else ())

    def _is_due(self, where: IndexedEntry) -> bool:
        stopped: StopFacts = where.entry.facts
        accepted, deadline = self._state.accepted or AcceptedFacts(), self._state.deadline
        met = self._state.task(stopped.by).stopped == stopped
        match stopped.reason:
            case StopReason.CANCELLED:
                return self._state.cancelled and stopped == StopFacts(StopReason.CANCELLED)
            case StopReason.BUDGET:
                # A turn has met it: whether it could, is checked where that was to be taken.
                return met
            case StopReason.DEADLINE:
                most = accepted.milliseconds
                late = deadline is not None and where.entry.ts + _MAX_CLOCK_SKEW_US >= deadline
                alone = StopFacts(StopReason.DEADLINE, "milliseconds", 0, most, most)
                return late and (met or stopped == alone)
            case _:
                return False
