"""Checking the frame of a session: request and route, its stop, the wish for its end, its close.

Every run has one.  Whoever asks writes the beginning of it in one commit; the engine writes the
rest, and nobody else can add to the run once it has closed.
"""

from collections.abc import Mapping, Sequence

from forum.deliberation.comparing import Breach, Indexed, Look
from forum.deliberation.record import fate_of
from forum.deliberation.spending import is_table_of
from forum.deliberation.steps import Fate
from forum.ledger import MAIN, Facts, RunClose, RunOpen
from forum.work import (
    CONTROL,
    Accepted,
    Answered,
    CancelAsked,
    ControlClosed,
    Routed,
    Run,
    Stopped,
    StopReason,
    TaskRun,
)

_BEGINNING: dict[type[Facts], str] = {RunOpen: "run/open", Accepted: "accepted", Routed: "route"}
_END: dict[type[Facts], str] = {Stopped: "stop", Answered: "answer", RunClose: "run/close"}
ONCE = (*_BEGINNING, *_END)
"""What stands in the main strand besides notes: once, or not at all."""

_CLOCKS = 300 * 1_000_000
"""How far, in microseconds, the clocks of those may be apart who have worked on a session."""


class Frame:
    """What every run consists of, in one that is a session."""

    def __init__(self, look: Look, strands: Mapping[str, Sequence[Indexed]], state: Run) -> None:
        self._look, self._state = look, state
        self._main, self._control = strands.get(MAIN, ()), strands.get(CONTROL, ())
        own = (one for one in reversed(self._main) if isinstance(one.entry.facts, ONCE))
        self._parts = {type(one.entry.facts): one for one in own}
        self.noted = 0
        """Where the last note stands."""
        self._begun = 0
        """Where the note stands on which somebody was asked for the last time."""
        self._last: Sequence[TaskRun] = ()
        self._over: list[TaskRun] = []
        """The turns that were taken then, and those before."""
        self._told: int | None = None
        """Where the first note stands that tells of turns that were cut off, or the answer."""
        self._is_cut = False

    def check(self) -> None:
        """Check who has written each part, as which step, and for which cause."""
        for place, (kind, step) in enumerate(_BEGINNING.items()):
            part = self._parts.get(kind)
            if part is None:
                continue
            self._look.compare_place(Breach.COURSE, part, step, self._main[0].entry.actor)
            self._look.compare_parents(part, ())
            if part.entry.n != place:
                self._look.find(Breach.ORDER, f"{step}: a run begins with it", part)
        for kind, step in _END.items():
            if kind in self._parts:
                self._look.compare_place(Breach.COURSE, self._parts[kind], step)
        self._check_control()
        self._check_stop()

    def _check_control(self) -> None:
        """Check that the place was taken in which somebody could wish for the end."""
        if not self._control:
            if RunClose in self._parts:
                self._look.find(Breach.MISSING, "control: nobody has closed it", self._main[-1])
            return
        first = self._control[0]
        match first.entry.facts:
            case CancelAsked():  # by anybody
                self._look.compare_place(Breach.COURSE, first, "cancel", first.entry.actor)
            case ControlClosed():
                self._look.compare_place(Breach.COURSE, first, "close")
            case _:
                return  # surplus, like all that follows
        self._look.compare_parents(first, (self._parts[Accepted].leaf,))

    # How far the session has come

    def take_note(self, note: Indexed) -> None:
        """Hear of the next note."""
        self.noted = note.entry.n
        if self._is_cut and self._told is None:
            self._told = self.noted

    def take_turns(self, turns: Sequence[TaskRun]) -> None:
        """Hear of turns that are taken at the same time."""
        if any(turn.calls or turn.uses for turn in turns):
            self._over += self._last
            self._last, self._begun = turns, self.noted
        self._is_cut = any(fate_of(turn) is Fate.CUT for turn in turns)

    def take_answer(self, given: Indexed) -> None:
        """Hear of the answer."""
        if self._told is None:
            self._told = given.entry.n

    def check_course(self) -> None:
        """Check that the run was stopped where turns were cut off, and at the price of those."""
        where = self._parts.get(Stopped)
        if where is None:
            return
        place = where.entry.n
        if place <= self._begun or (self._told is not None and place >= self._told):
            self._look.find(Breach.ORDER, f"{where.entry.step}: it has stopped nothing here", where)
        table = self._look.read_or_leave_out(where, "spent")
        if table is not None and not is_table_of(table, self._over, self._last):
            detail = f"{where.entry.step}: spent is not what calls have cost"
            self._look.find(Breach.COURSE, detail, where)

    # The stop

    def _check_stop(self) -> None:
        """Check that what has stopped the run was there: a wish, or a limit that was met."""
        where = self._parts.get(Stopped)
        if where is None:
            return
        if not self._is_due(where):
            detail = f"{where.entry.step}: {where.entry.facts.reason.value} could not stop the run"
            self._look.find(Breach.COURSE, detail, where)
        met = self._state.task(where.entry.facts.by)
        self._look.compare_parents(where, (met.last,) if met.stopped and met.last else ())

    def _is_due(self, where: Indexed) -> bool:
        stopped: Stopped = where.entry.facts
        accepted, deadline = self._state.accepted or Accepted(), self._state.deadline
        met = self._state.task(stopped.by).stopped == stopped
        match stopped.reason:
            case StopReason.CANCELLED:
                return self._state.cancelled and stopped == Stopped(StopReason.CANCELLED)
            case StopReason.BUDGET:
                # A turn has met it: whether it could, is checked where that was to be taken.
                return met
            case StopReason.DEADLINE:
                most = accepted.milliseconds
                late = deadline is not None and where.entry.ts + _CLOCKS >= deadline
                alone = Stopped(StopReason.DEADLINE, "milliseconds", 0, most, most)
                return late and (met or stopped == alone)
            case _:
                return False
