"""The engine: takes requests on, and carries runs and tasks out when its runner calls."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from threading import Lock
from typing import NoReturn

from forum.config import Capacity
from forum.engine.attention import Stop, Switchboard
from forum.engine.budgets import SharedBudgets
from forum.engine.calls import World
from forum.engine.case import Case, Intake, last_of, read_case, read_intake, refresh
from forum.engine.local import LocalRunner
from forum.engine.past import Fork
from forum.engine.places import Place
from forum.engine.ports import Models, Prior, Runner, Tools, Whispers
from forum.engine.roles import RoleDriver
from forum.engine.run import RunDriver
from forum.engine.sitting import Agenda, TurnDriver
from forum.engine.task import TaskDriver
from forum.errors import Overtaken
from forum.ledger import MAIN, Alarm, Facts, Ledger, TimerClaim, before_any_delay
from forum.work import (
    CONTROL,
    ROLE,
    TURN,
    GateRule,
    Interruption,
    Resumption,
    Run,
    Stopped,
)

_REMEMBERED = 1000
"""How many cases are known without reading them again."""

HEARTBEAT_SECONDS = 15.0
"""How long a run that is being driven may go without anybody looking whether it still is."""

_ELSEWHERE_SECONDS = 1.0
MAX_CLAIMED = 50
"""How many timers are claimed at once: they are handed on before the first rings again, and a
worker that has to stop does not first hand on a whole backlog."""


class Engine:
    """Carries out runs and tasks of one ledger, in one process."""

    def __init__(  # noqa: PLR0913  what it works with, and the operator's rules
        self,
        ledger: Ledger,
        models: Models,
        tools: Tools,
        prior: Callable[[Intake], Prior | None] | None = None,
        *,
        unhurried: bool = True,
        whispers: Whispers | None = None,
        gate_rules: tuple[GateRule, ...] = (),
        budgets: SharedBudgets | None = None,
    ) -> None:
        self._ledger = ledger
        self._world = World(
            ledger,
            models,
            tools,
            prior or self._forked,
            unhurried=unhurried,
            whispers=whispers,
            gate_rules=gate_rules,
            budgets=budgets,
        )
        self._board, self._agenda = Switchboard(), Agenda()
        self._cases: OrderedDict[str, Case] = OrderedDict()
        self._lock = Lock()
        self.admit(Capacity().tasks)
        self._resting, self._working = False, 0

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
        # A task that was left because of an interruption goes on if the run was resumed since.
        while await self._drive_task(run, task):
            pass

    async def _drive_task(self, run: str, task: str) -> bool:
        """Go on with a task; return True if it was left, and may have to go on."""
        with self._board.working(run, self._places) as stop:
            if isinstance(await asyncio.to_thread(self._watch, run), Interruption):
                return False
            left = False
            async with self._at(stop.place):
                try:
                    driver = await asyncio.to_thread(self._driver_of, run, task, stop)
                    await driver.drive()
                except Overtaken:
                    left = stop.left
                finally:
                    self._board.tell(run, task)
            if left and self._resting:
                await _never()
            return left

    @asynccontextmanager
    async def _at(self, place: Place) -> AsyncIterator[None]:
        """Work at a place, once it is free."""
        try:
            await place.take()
            if self._resting:
                place.leave()
                await _never()
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

    @property
    def is_driving(self) -> bool:
        """Whether any run is driven in this process."""
        return bool(self._board.driven())

    def drives(self, run: str) -> bool:
        """Tell whether a run is driven in this process."""
        return run in self._board.driven()

    def rest(self) -> None:
        """Begin no more calls or effects here: the worker that takes over begins them."""
        self._resting = True
        self._board.leave_tasks()

    @property
    def is_working(self) -> bool:
        """Whether a task, a role or a turn is being carried out here."""
        return self._working > 0

    def watch(self) -> None:
        """See whether runs that are worked on here were stopped elsewhere; to be called often."""
        for run in self._board.worked_on():
            self._watch(run)

    def _watch(self, run: str) -> Facts | None:
        """Stop what is done here for a run that was stopped, and return the last entry of `main`.

        Nothing new is begun for an interrupted run.  Calls and effects that are under way are
        finished and recorded: they are paid for, and need not be made again.
        """
        last = last_of(self._ledger, run)
        if self._ledger.store.last(run, CONTROL) is not None:
            self._board.stop(run, cut=True)
        elif isinstance(last, Interruption):
            self._board.leave(run)
        elif isinstance(last, Stopped) or (isinstance(last, Resumption) and self._is_stopped(run)):
            self._board.stop(run, cut=False)
        return last

    def _is_stopped(self, run: str) -> bool:
        """Tell whether a run was stopped before it was interrupted and resumed."""
        return refresh(self._ledger, run, Run(), [MAIN]).stopped is not None

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
        """Look after some of the runs whose time has come, and tell whether there may be more."""
        claimed = await asyncio.to_thread(self.claim_due)
        await self.hand_on(claimed, runner)
        return len(claimed) == MAX_CLAIMED

    def claim_due(self, worker: str = "") -> list[Alarm]:
        """Claim timers whose time has come: no other worker gets them for a while.

        A timer is put off in the commit that claims it.  It rings again, soon where the driver of
        its run may not have heard it, and later each time: a run may wait in a queue for long,
        behind many others, and handing it on again and again would keep everybody from working.
        Only the driver of a run clears its timer.
        """
        claim = TimerClaim(
            worker=worker,
            limit=MAX_CLAIMED,
            anew=before_any_delay(self._ledger.now()),
            own=self._board.driven(),
            shortest=_ELSEWHERE_SECONDS,
            longest=HEARTBEAT_SECONDS,
        )
        return self._ledger.store.claim_due(claim)

    async def hand_on(self, claimed: Sequence[Alarm], runner: Runner) -> None:
        """Tell the drivers of runs that are driven here, and hand all others to the runner.

        The runner drops what is going on elsewhere.
        """
        for run in dict.fromkeys(alarm.run for alarm in claimed):
            if not self._board.tell(run):
                await runner.enqueue_run(run)


async def _never() -> NoReturn:
    """Wait until this process ends, so that the queue hands the task to another worker then.

    Returning would tell the queue that the task is done.
    """
    while True:
        await asyncio.Event().wait()
