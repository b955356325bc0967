"""The engine: takes requests on, and carries runs and tasks out when its runner calls."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from threading import Lock
from typing import NoReturn

from forum.config import WorkerCapacity
from forum.engine.context import (
    RunContext,
    RunInput,
    fold_new_entries,
    read_last_facts,
    read_run_context,
    read_run_input,
)
from forum.engine.local_runner import LocalRunner
from forum.engine.model_calls import Services
from forum.engine.ports import DeltaSink, ModelFactory, ReplySource, Runner, ToolFactory
from forum.engine.recorded_runs import ForkSource
from forum.engine.role_driver import RoleDriver
from forum.engine.run_driver import RunDriver
from forum.engine.session import TurnDriver, TurnRegistry
from forum.engine.shared_budgets import SharedBudgets
from forum.engine.signals import CancelToken, RunSignals
from forum.engine.task_driver import TaskDriver
from forum.engine.worker_slots import WorkerSlot
from forum.errors import ConcurrentUpdate
from forum.ledger import MAIN_STRAND, Facts, Ledger, Timer, TimerClaim, due_now_limit
from forum.work import (
    CONTROL,
    ROLE_PREFIX,
    TURN_PREFIX,
    GateRule,
    InterruptionFacts,
    ResumptionFacts,
    Run,
    StopFacts,
)

_MAX_CACHED_CONTEXTS = 1000
"""How many cases are known without reading them again."""

HEARTBEAT_S = 15.0
"""How long a run that is being driven may go without anybody looking whether it still is."""

_MIN_REDELIVERY_S = 1.0
MAX_CLAIMED_TIMERS = 50
"""How many timers are claimed at once: they are handed on before the first rings again, and a
worker that has to stop does not first hand on a whole backlog."""


class Engine:
    """Carries out runs and tasks of one ledger, in one process."""

    def __init__(  # noqa: PLR0913  what it works with, and the operator's rules
        self,
        ledger: Ledger,
        models: ModelFactory,
        tools: ToolFactory,
        prior: Callable[[RunInput], ReplySource | None] | None = None,
        *,
        unhurried: bool = True,
        whispers: DeltaSink | None = None,
        gate_rules: tuple[GateRule, ...] = (),
        budgets: SharedBudgets | None = None,
    ) -> None:
        self._ledger = ledger
        self._services = Services(
            ledger,
            models,
            tools,
            prior or self._fork_source,
            unhurried=unhurried,
            whispers=whispers,
            gate_rules=gate_rules,
            budgets=budgets,
        )
        self._signals, self._pending_turns = RunSignals(), TurnRegistry()
        self._contexts: OrderedDict[str, RunContext] = OrderedDict()
        self._lock = Lock()
        self.limit_tasks(WorkerCapacity().tasks)
        self._is_draining, self._active_tasks = False, 0

    def limit_tasks(self, most: int) -> None:
        """Carry out at most so many tasks at once; to be said before the first one begins."""
        self._slots = asyncio.Semaphore(most)

    def _fork_source(self, intake: RunInput) -> ReplySource | None:
        """Return what a fork takes from the run that it forks."""
        origin = intake.accepted
        if not origin.fork_run:
            return None
        return ForkSource(self._ledger, origin.fork_run, origin.fork_index)

    async def drive_run(self, run: str, runner: Runner) -> None:
        """Go on with a run until it has ended, or waits for somebody."""
        missed = True
        while missed:
            with self._signals.listen(run) as attention:
                here = LocalRunner(self)
                driver = RunDriver(
                    self._services, runner, here, attention, self._signals, self._pending_turns
                )
                try:
                    await driver.drive(run)
                except ConcurrentUpdate:
                    return  # somebody else drives it now
                finally:
                    await here.cancel_all()
            # Whoever came too late to be heard was told that somebody listens.
            missed = attention.has_missed_signal

    async def drive_task(self, run: str, task: str) -> None:
        """Go on with a task until it has ended, or waits for somebody."""
        # A task that was left because of an interruption goes on if the run was resumed since.
        while await self._drive_task(run, task):
            pass

    async def _drive_task(self, run: str, task: str) -> bool:
        """Go on with a task; return True if it was left, and may have to go on."""
        with self._signals.register_task(run, self._slots) as stop:
            if isinstance(await asyncio.to_thread(self._check_for_stop, run), InterruptionFacts):
                return False
            left = False
            async with self._hold_slot(stop.slot):
                try:
                    driver = await asyncio.to_thread(self._driver_of, run, task, stop)
                    await driver.drive()
                except ConcurrentUpdate:
                    left = stop.left
                finally:
                    self._signals.notify(run, task)
            if left and self._is_draining:
                await _never()
            return left

    @asynccontextmanager
    async def _hold_slot(self, place: WorkerSlot) -> AsyncIterator[None]:
        """Work at a place, once it is free."""
        try:
            await place.acquire()
            if self._is_draining:
                place.release()
                await _never()
            self._active_tasks += 1
            try:
                yield
            finally:
                self._active_tasks -= 1
        finally:
            place.release()

    def _driver_of(
        self, run: str, task: str, stop: CancelToken
    ) -> TaskDriver | RoleDriver | TurnDriver:
        """Return who carries out a task, a role, or a turn."""
        if task.startswith(TURN_PREFIX):
            return TurnDriver(self._services, self._pending_turns.find(run, task), task, stop)
        if task.startswith(ROLE_PREFIX):
            return RoleDriver(self._services, read_run_input(self._ledger, run), task, stop)
        return TaskDriver(self._services, self._run_context(run), task, stop)

    @property
    def is_driving(self) -> bool:
        """Whether any run is driven in this process."""
        return bool(self._signals.driven_runs())

    def is_driving_run(self, run: str) -> bool:
        """Tell whether a run is driven in this process."""
        return run in self._signals.driven_runs()

    def stop_starting_tasks(self) -> None:
        """Begin no more calls or effects here: the worker that takes over begins them."""
        self._is_draining = True
        self._signals.leave_tasks()

    @property
    def is_working(self) -> bool:
        """Whether a task, a role or a turn is being carried out here."""
        return self._active_tasks > 0

    def check_for_stops(self) -> None:
        """See whether runs that are worked on here were stopped elsewhere; to be called often."""
        for run in self._signals.active_runs():
            self._check_for_stop(run)

    def _check_for_stop(self, run: str) -> Facts | None:
        """Stop what is done here for a run that was stopped, and return the last entry of `main`.

        Nothing new is begun for an interrupted run.  Calls and effects that are under way are
        finished and recorded: they are paid for, and need not be made again.
        """
        last = read_last_facts(self._ledger, run)
        if self._ledger.store.last_entry(run, CONTROL) is not None:
            self._signals.stop_run(run, cut=True)
        elif isinstance(last, InterruptionFacts):
            self._signals.interrupt(run)
        elif isinstance(last, StopFacts) or (
            isinstance(last, ResumptionFacts) and self._is_stopped(run)
        ):
            self._signals.stop_run(run, cut=False)
        return last

    def _is_stopped(self, run: str) -> bool:
        """Tell whether a run was stopped before it was interrupted and resumed."""
        return fold_new_entries(self._ledger, run, Run(), [MAIN_STRAND]).stopped is not None

    def _run_context(self, run: str) -> RunContext:
        """Read a case, or remember it: tasks run only after their plan was settled."""
        with self._lock:
            known = self._contexts.get(run)
        if known is None:
            known = read_run_context(self._ledger, run)
            with self._lock:
                self._contexts[run] = known
                while len(self._contexts) > _MAX_CACHED_CONTEXTS:
                    self._contexts.popitem(last=False)
        return known

    async def dispatch_due_runs(self, runner: Runner) -> bool:
        """Look after some of the runs whose time has come, and tell whether there may be more."""
        claimed = await asyncio.to_thread(self.claim_due)
        await self.dispatch_timers(claimed, runner)
        return len(claimed) == MAX_CLAIMED_TIMERS

    def claim_due(self, worker: str = "") -> list[Timer]:
        """Claim timers whose time has come: no other worker gets them for a while.

        A timer is put off in the commit that claims it.  It rings again, soon where the driver of
        its run may not have heard it, and later each time: a run may wait in a queue for long,
        behind many others, and handing it on again and again would keep everybody from working.
        Only the driver of a run clears its timer.
        """
        claim = TimerClaim(
            worker=worker,
            limit=MAX_CLAIMED_TIMERS,
            anew=due_now_limit(self._ledger.now()),
            own=self._signals.driven_runs(),
            shortest=_MIN_REDELIVERY_S,
            longest=HEARTBEAT_S,
        )
        return self._ledger.store.claim_due_timers(claim)

    async def dispatch_timers(self, claimed: Sequence[Timer], runner: Runner) -> None:
        """Tell the drivers of runs that are driven here, and hand all others to the runner.

        The runner drops what is going on elsewhere.
        """
        for run in dict.fromkeys(alarm.run for alarm in claimed):
            if not self._signals.notify(run):
                await runner.enqueue_run(run)


async def _never() -> NoReturn:
    """Wait until this process ends, so that the queue hands the task to another worker then.

    Returning would tell the queue that the task is done.
    """
    while True:
        await asyncio.Event().wait()
