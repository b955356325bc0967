"""Auditing the frame of a session: request, route, stop, cancellation and close.

Every run has this frame. Its beginning is written in one commit when the request is accepted; the
engine writes the rest, and nothing can be added to the run once it is closed.
"""

from collections.abc import Mapping, Sequence

from forum.ledger.entry import MAIN_STRAND, MAX_CLOCK_SKEW_US, Facts
from forum.ledger.kinds import RunCloseFacts, RunOpenFacts
from forum.runs import kinds
from forum.runs.record_comparison import Breach, IndexedEntry, RecordComparer
from forum.runs.run_fold import Run, TaskRun
from forum.runs.session_steps import TurnStatus
from forum.runs.turn_results import turn_status
from forum.verify.cost_audit import is_consistent_spend_table

_OPENING_STEPS: dict[type[Facts], str] = {
    RunOpenFacts: "run/open",
    kinds.AcceptedFacts: "accepted",
    kinds.RouteFacts: "route",
    kinds.AboutFacts: "about",
}
_OPTIONAL_OPENINGS = (kinds.RouteFacts, kinds.AboutFacts)
_CLOSING_STEPS: dict[type[Facts], str] = {
    kinds.StopFacts: "stop",
    kinds.AnswerFacts: "answer",
    RunCloseFacts: "run/close",
}
SINGLE_ENTRY_FACTS = (*_OPENING_STEPS, *_CLOSING_STEPS)
"""Facts of entries in the main strand other than notes: each occurs at most once."""


class RunAuditor:
    """The audit of the entries that every run has, in a run that is a session."""

    def __init__(
        self, look: RecordComparer, strands: Mapping[str, Sequence[IndexedEntry]], state: Run
    ) -> None:
        self._comparer, self._state = look, state
        self._main, self._control = strands.get(MAIN_STRAND, ()), strands.get(kinds.CONTROL, ())
        own = (
            item
            for item in reversed(self._main)
            if isinstance(item.entry.facts, SINGLE_ENTRY_FACTS)
        )
        self._parts = {type(item.entry.facts): item for item in own}
        self.last_note = 0
        """Position of the last note."""
        self._begun = 0
        """Position of the note before the last turns that made calls."""
        self._last: Sequence[TaskRun] = ()
        self._over: list[TaskRun] = []
        """`_last`: turns of the last batch that made calls; `_over`: those of earlier batches."""
        self._stop_reported_at: int | None = None
        """Position of the first note, or the answer, that follows from turns that were cut off."""
        self._is_cut = False

    def check(self) -> None:
        """Check the writer, the step and the parents of each entry."""
        # Only what a run may lack gives its place to the next: a missing beginning is found.
        expected = [
            kind for kind in _OPENING_STEPS if kind in self._parts or kind not in _OPTIONAL_OPENINGS
        ]
        for place, kind in enumerate(expected):
            part, step = self._parts.get(kind), _OPENING_STEPS[kind]
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
        """Check the control strand: its first entry is a cancellation or the close.

        A closed run must have that entry: it takes the position that a later cancellation would
        need.
        """
        if not self._control:
            if RunCloseFacts in self._parts:
                self._comparer.report_fault(
                    Breach.MISSING, "control: nobody has closed it", self._main[-1]
                )
            return
        first = self._control[0]
        match first.entry.facts:
            case kinds.CancelFacts():  # any client may cancel
                self._comparer.compare_step(Breach.COURSE, first, "cancel", first.entry.actor)
            case kinds.ControlCloseFacts():
                self._comparer.compare_step(Breach.COURSE, first, "close")
            case _:
                return  # the session audit reports it as surplus, with all that follows
        self._comparer.compare_parents(first, (self._parts[kinds.AcceptedFacts].leaf,))

    def record_note(self, note: IndexedEntry) -> None:
        """Update the progress with the next note."""
        self.last_note = note.entry.n
        if self._is_cut and self._stop_reported_at is None:
            self._stop_reported_at = self.last_note

    def record_turns(self, turns: Sequence[TaskRun]) -> None:
        """Update the progress with a batch of turns."""
        if any(turn.calls or turn.uses for turn in turns):
            self._over += self._last
            self._last, self._begun = turns, self.last_note
        self._is_cut = any(turn_status(turn) is TurnStatus.CUT for turn in turns)

    def record_answer(self, answer: IndexedEntry) -> None:
        """Update the progress with the answer."""
        if self._stop_reported_at is None:
            self._stop_reported_at = answer.entry.n

    def check_stop_position(self) -> None:
        """Check that the stop is where turns were cut off, with a possible spending table."""
        where = self._parts.get(kinds.StopFacts)
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

    def _check_stop(self) -> None:
        """Check that the stop had its reason: a cancellation, or a limit reached."""
        where = self._parts.get(kinds.StopFacts)
        if where is None:
            return
        if not self._is_due(where):
            detail = f"{where.entry.step}: {where.entry.facts.reason.value} could not stop the run"
            self._comparer.report_fault(Breach.COURSE, detail, where)
        met = self._state.task(where.entry.facts.by)
        self._comparer.compare_parents(where, (met.last,) if met.stopped and met.last else ())

    def _is_due(self, where: IndexedEntry) -> bool:
        stopped: kinds.StopFacts = where.entry.facts
        accepted, deadline = self._state.accepted or kinds.AcceptedFacts(), self._state.deadline
        met = self._state.task(stopped.by).stopped == stopped
        match stopped.reason:
            case kinds.StopReason.CANCELLED:
                return self._state.cancelled and stopped == kinds.StopFacts(
                    kinds.StopReason.CANCELLED
                )
            case kinds.StopReason.BUDGET:
                # Here it is enough that a turn recorded this stop: `SpendBounds` checks whether the
                # spending could have reached the limit.
                return met
            case kinds.StopReason.DEADLINE:
                most = accepted.milliseconds
                late = deadline is not None and where.entry.ts + MAX_CLOCK_SKEW_US >= deadline
                alone = kinds.StopFacts(
                    reason=kinds.StopReason.DEADLINE,
                    limit="milliseconds",
                    asked=0,
                    used=most,
                    cap=most,
                )
                return late and (met or stopped == alone)
            case _:
                return False
