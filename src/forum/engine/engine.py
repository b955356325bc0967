"""The engine: takes requests on, and carries runs and tasks out when its runner calls."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from threading import Lock

from forum.config import Capacity
from forum.engine.attention import Stop, Switchboard
from forum.engine.calls import World
from forum.engine.case import Case, Intake, last_of, read_case, read_intake
from forum.engine.local import LocalRunner
from forum.engine.past import Fork
from forum.engine.places import Place
from forum.engine.ports import Models, Prior, Runner, Tools, Whispers
from forum.engine.roles import RoleDriver
from forum.engine.run import RunDriver
from forum.engine.sitting import Agenda, TurnDriver
from forum.engine.task import TaskDriver
from forum.errors import Overtaken
from forum.ledger import (
    Alarm,
    Ledger,
)
from forum.work import (
    CONTROL,
    ROLE,
    TURN,
    Stopped,
)

_REMEMBERED = 1000
"""How many cases are known without reading them again."""

HEARTBEAT_SECONDS = 15.0
"""How long a run that is being driven may go without anybody looking whether it still is."""

_ELSEWHERE_SECONDS = 1.0
_MOST_RUNG = 100_000
_MOST_DOUBLED = 4
"""How often a pause is doubled: by then it is a heartbeat, and an alarm may ring for days."""
_ALARMS_AT_ONCE = 200
"""How many alarms are looked after before whoever does it looks up: it may have to stop."""


class Engine:
    """Carries out runs and tasks of one ledger, in one process."""

    def __init__(
        self,
        ledger: Ledger,
        models: Models,
        tools: Tools,
        prior: Callable[[Intake], Prior | None] | None = None,
        *,
        unhurried: bool = True,
        whispers: Whispers | None = None,
    ) -> None:
        self._ledger = ledger
        self._world = World(ledger, models, tools, prior or self._forked, unhurried, whispers)
        self._board, self._agenda = Switchboard(), Agenda()
        self._cases: OrderedDict[str, Case] = OrderedDict()
        self._lock = Lock()
        self.admit(Capacity().tasks)
        self._resting, self._working = False, 0
        self._rung: dict[str, int] = {}
        """How often the alarms of runs have rung that are not driven here."""

    def admit(self, most: int) -> None:
        """Carry out at most so many tasks at once; to be said before the first one begins."""
        self._places = asyncio.Semaphore(most)

    def _forked(self, intake: Intake) -> Prior | None:
        """Return what a fork takes from the run that it forks."""
        origin = intake.accepted
        if not origin.fork_run:
            return None
        return Fork(self._ledger, origin.fork_run, origin.fork_index)

    async def drive_run(self, run: str, runner: Runner) -> None:
        """Go on with a run until it has ended, or waits for somebody."""
        missed = True
        while missed:
            with self._board.listening(run) as attention:
                here = LocalRunner(self)
                driver = RunDriver(self._world, runner, here, attention, self._board, self._agenda)
                try:
                    await driver.drive(run)
                except Overtaken:
                    return  # somebody else drives it now
                finally:
                    await here.leave()
            # Whoever came too late to be heard was told that somebody listens.
            missed = attention.missed

    async def drive_task(self, run: str, task: str) -> None:
        """Go on with a task until it has ended, or waits for somebody."""
        with self._board.working(run, self._places) as stop:
            await asyncio.to_thread(self._watch, run)
            async with self._at(stop.place):
                try:
                    driver = await asyncio.to_thread(self._driver_of, run, task, stop)
                    await driver.drive()
                except Overtaken:
                    return
                finally:
                    self._board.tell(run, task)

    @asynccontextmanager
    async def _at(self, place: Place) -> AsyncIterator[None]:
        """Work at a place, once it is free."""
        try:
            await place.take()
            if self._resting:
                # Not ours any more: it stays as it is until somebody else takes it over.
                place.leave()
                await asyncio.Event().wait()
            self._working += 1
            try:
                yield
            finally:
                self._working -= 1
        finally:
            place.leave()

    def _driver_of(self, run: str, task: str, stop: Stop) -> TaskDriver | RoleDriver | TurnDriver:
        """Return who carries out a task, a role, or a turn."""
        if task.startswith(TURN):
            return TurnDriver(self._world, self._agenda.find(run, task), task, stop)
        if task.startswith(ROLE):
            return RoleDriver(self._world, read_intake(self._ledger, run), task, stop)
        return TaskDriver(self._world, self._case(run), task, stop)

    def rest(self) -> None:
        """Let no more work begin here: whoever takes it over begins it."""
        self._resting = True

    @property
    def is_working(self) -> bool:
        """Whether a task, a role or a turn is being carried out here."""
        return self._working > 0

    def watch(self) -> None:
        """See whether runs that are worked on here were stopped elsewhere; to be called often."""
        for run in self._board.worked_on():
            self._watch(run)

    def _watch(self, run: str) -> None:
        last = last_of(self._ledger, run)
        if self._ledger.store.last(run, CONTROL) is not None:
            self._board.stop(run, cut=True)
        elif isinstance(last, Stopped):
            self._board.stop(run, cut=False)

    def _case(self, run: str) -> Case:
        """Read a case, or remember it: tasks run only after their plan was settled."""
        with self._lock:
            known = self._cases.get(run)
        if known is None:
            known = read_case(self._ledger, run)
            with self._lock:
                self._cases[run] = known
                while len(self._cases) > _REMEMBERED:
                    self._cases.popitem(last=False)
        return known

    async def attend(self, runner: Runner) -> bool:
        """Look after some of the runs whose time has come, and tell whether there may be more.

        A run that is driven here is told; any other is handed to the runner, which drops what is
        going on elsewhere.  The alarm stays, and rings again, soon where the one who drives the
        run may not have heard it: only the run itself puts it out.
        """
        store = self._ledger.store
        page = await asyncio.to_thread(store.alarms, None, _ALARMS_AT_ONCE, due=True)
        here = [alarm for alarm in page if self._board.drives(alarm.run)]
        elsewhere = [alarm for alarm in page if alarm not in here]
        # Snooze first: what a run does with its alarm once it was called must stand.
        await asyncio.to_thread(store.snooze, here, HEARTBEAT_SECONDS)
        for seconds, some in self._by_patience(elsewhere).items():
            await asyncio.to_thread(store.snooze, some, seconds)
        for run in dict.fromkeys(alarm.run for alarm in page):
            if not self._board.tell(run):
                await runner.enqueue_run(run)
        return len(page) == _ALARMS_AT_ONCE

    def _by_patience(self, alarms: list[Alarm]) -> dict[float, list[Alarm]]:
        """Return for how long to leave alarms alone: longer each time that one rings unchanged.

        A run may wait in a queue for long, behind many others: handing it on again and again would
        keep everybody from working.  An alarm that was set anew rings at once, and soon again.
        """
        found: dict[float, list[Alarm]] = {}
        if len(self._rung) > _MOST_RUNG:
            self._rung.clear()
        anew = self._ledger.now() >> 3  # see `at_once`: no snoozed alarm is that early
        for alarm in alarms:
            before = 0 if (alarm.at or 0) < anew else self._rung.get(alarm.run, 0)
            self._rung[alarm.run] = min(before + 1, _MOST_DOUBLED)
            seconds = min(_ELSEWHERE_SECONDS * 2**before, HEARTBEAT_SECONDS)
            found.setdefault(seconds, []).append(alarm)
        return found
