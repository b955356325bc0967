"""The engine of one process: drives runs and tasks whenever its worker calls.

A worker claims runs, calls `drive` for each, and calls `drive_task` for each task that `drive`
yields.  The engine never calls its worker.

All durable state is in the ledger.  The signals, slots and cached contexts held here can be lost at
any time: the next driver folds the entries and continues from there.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from threading import Lock
from typing import NoReturn

from forum.config import WorkerCapacity
from forum.engine import context, ports
from forum.engine.gates import expire_gate, find_gate
from forum.engine.local_runner import LocalRunner
from forum.engine.model_calls import Services
from forum.engine.recorded_runs import ForkSource
from forum.engine.role_driver import RoleDriver
from forum.engine.run_driver import RunDriver, StartTasks
from forum.engine.run_memory import RunMemory
from forum.engine.session import TurnDriver, TurnRegistry
from forum.engine.shared_budgets import SharedBudgets
from forum.engine.signals import CancelToken, RunSignals
from forum.engine.task_driver import TaskDriver
from forum.engine.worker_slots import TaskLimit, WorkerSlot
from forum.errors import ConcurrentUpdate, NoSuchGate
from forum.ledger.database_memory import DatabaseMemory
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.log import Ledger, read_strand_entries
from forum.ledger.ports import RunClaim, Timer, TimerClaim, due_now_limit
from forum.runs import kinds, shared_tasks
from forum.runs.claims import ClaimFinder
from forum.runs.gate_rules import GateRule
from forum.runs.report_closing import (
    CLOSE_TIMER,
    DEFAULT_PATIENCE,
    ReportPatience,
    close_if_quiet,
)
from forum.runs.run_fold import Run, TaskState, fold
from forum.tracing import SpanName, begin_span

_MAX_CACHED_CONTEXTS = 1000
"""The number of run contexts kept in memory; the oldest is dropped first and read again."""

HEARTBEAT_S = 15.0
"""The longest delay, in seconds, before the claimed timer of a run becomes due again."""

_MIN_REDELIVERY_S = 1.0
MAX_CLAIMED_TIMERS = 50
"""The number of timers claimed at once.

Small enough that all are begun before the first becomes due again, and that a worker that is
shutting down does not begin a whole backlog first.
"""


class Engine:
    """Drives the runs and tasks of one ledger in one process."""

    def __init__(  # noqa: PLR0913  what it works with, and the operator's rules
        self,
        ledger: Ledger,
        models: ports.ModelFactory,
        open_tools: ports.ToolOpener,
        find_reply_source: Callable[[context.RunInput], ports.ReplySource | None] | None = None,
        *,
        real_time: bool = True,
        delta_sink: ports.DeltaSink | None = None,
        gate_rules: tuple[GateRule, ...] = (),
        budgets: SharedBudgets | None = None,
        open_encoder: ports.OpenEncoder = lambda: None,
        find_claims: ClaimFinder = lambda _text, _receipts: (),
        report_patience: ReportPatience = DEFAULT_PATIENCE,
        shares_tasks: bool = False,
    ) -> None:
        """`shares_tasks` says that the workers of the ledger claim tasks of large plans."""
        self._signals = RunSignals()
        # One process at a time drives a run, with all tasks that are not shared.
        ledger = ledger.with_memory(RunMemory(ledger.store.lineage))
        self._ledger, self._report_patience = ledger, report_patience
        self._services = Services(
            ledger,
            models,
            open_tools,
            find_reply_source or self._fork_source,
            real_time=real_time,
            delta_sink=delta_sink,
            gate_rules=gate_rules,
            budgets=budgets,
            open_encoder=open_encoder,
            find_claims=find_claims,
            is_driven_here=self.is_driving_run,
            shares_tasks=shares_tasks,
        )
        self._pending_turns = TurnRegistry()
        self._contexts: DatabaseMemory[OrderedDict[str, context.RunContext]] = DatabaseMemory(
            ledger.store.lineage, OrderedDict
        )
        self._lock = Lock()
        self._slots = TaskLimit(WorkerCapacity().tasks)
        self._is_draining, self._active_tasks = False, 0
        self._shared_in_hand: set[str] = set()
        """The keys of shared tasks that are driven here."""

    @property
    def wanted_tasks(self) -> int:
        """How many tasks are driven here or wait for a slot."""
        return self._slots.wanted

    def limit_tasks(self, most: int) -> None:
        """Set the number of tasks driven at once; tasks that are driven beyond it go on.

        Call this in the event loop that drives tasks, or before it starts.
        """
        self._slots.resize(most)

    def _fork_source(self, run_input: context.RunInput) -> ports.ReplySource | None:
        """Return the replies that a fork reuses, or None if the run is not a fork."""
        origin = run_input.accepted
        if not origin.fork_run:
            return None
        return ForkSource(self._ledger, origin.fork_run, origin.fork_index)

    async def drive(self, claim: ports.ClaimedRun) -> AsyncGenerator[tuple[str, ...], None]:
        """Do what is due for a claimed run, and yield the tasks that are to be driven beside it.

        A run is driven until it has ended or waits for a decision, a child run or its deadline;
        under the key of a shared task, that task is driven.  Call `drive_task` for what is yielded,
        except for tasks that are being driven: a task is yielded again if it seems to be lost.
        """
        if await self.attend_to_reported(claim):
            return
        wanted: asyncio.Queue[tuple[str, ...] | None] = asyncio.Queue()
        with begin_span(SpanName.RUN, run=shared_tasks.run_of(claim.run)):
            driving = asyncio.ensure_future(self._drive(claim.run, wanted.put_nowait))
            driving.add_done_callback(lambda _: wanted.put_nowait(None))
            try:
                while (tasks := await wanted.get()) is not None:
                    yield tasks
                await driving
            finally:
                if not driving.done():
                    driving.cancel()
                    # Until its turns have ended, another driver must not start them again.
                    await asyncio.gather(driving, return_exceptions=True)

    async def _drive(self, run: str, start_tasks: StartTasks) -> None:
        shared = shared_tasks.split_key(run)
        if shared is not None:
            await self._drive_shared_task(run, *shared)
            return
        missed = True
        while missed:
            with self._signals.listen(run) as attention:
                here = LocalRunner(self)
                driver = RunDriver(
                    services=self._services,
                    start_tasks=start_tasks,
                    here=here,
                    attention=attention,
                    run_signals=self._signals,
                    turn_registry=self._pending_turns,
                )
                try:
                    await driver.drive(run)
                except ConcurrentUpdate:
                    return  # another driver took the next position, or the run was interrupted
                finally:
                    # A turn left running would be a second writer of its strand when the next
                    # driver of the session starts the same turn.
                    await here.cancel_all()
                    self._ledger.writer.forget(run)
            # A signal that arrived after the driver's last look was still reported as delivered,
            # so its sender did not have the run driven.  Drive the run once more.
            missed = attention.has_missed_signal

    async def _drive_shared_task(self, key: str, run: str, task: str) -> None:
        self._shared_in_hand.add(key)
        try:
            await self.drive_task(run, task)
        finally:
            self._shared_in_hand.discard(key)
        await asyncio.to_thread(self._clear_timer, key, run, task)

    def _clear_timer(self, key: str, run: str, task: str) -> None:
        """Clear the timer of a shared task that has ended or waits.

        Not if this worker was refused: another one drives the task then, and if that one is lost,
        the timer is what others find.  And not if the run has started the task again.
        """
        strand = read_strand_entries(self._ledger, run, kinds.task_strand(task))
        is_left = (
            fold(strand).task(task).state.is_end
            or self._check_for_stop(run)
            or context.read_run(self._ledger, run).task(task).state is TaskState.WAITING
        )
        if not is_left:
            return
        timer = self._ledger.store.timer(key, MAIN_STRAND)
        if timer is not None and (timer.at or 0) >= due_now_limit(self._ledger.now()):
            self._ledger.store.reschedule([timer], None)

    async def drive_task(self, run: str, task: str) -> None:
        """Drive a task until it has ended or waits for a decision or a child run."""
        # Without the name of the task: it is a text of whoever wrote the plan.
        with begin_span(SpanName.TASK, run=run):
            # If it was left because of an interruption, it continues once the run is resumed.
            while await self._drive_task(run, task):
                pass

    async def _drive_task(self, run: str, task: str) -> bool:
        """Drive a task once; return True if it was left unfinished and may have to continue."""
        with self._signals.register_task(run, self._slots) as stop:
            # A queued task of an interrupted run does nothing: after the resumption, the driver of
            # the run starts it again.
            if await asyncio.to_thread(self._check_for_stop, run):
                return False
            left = False
            async with self._hold_slot(stop.slot):
                try:
                    driver = await context.read_remembered(
                        self._ledger, run, lambda: self._driver_of(run, task, stop)
                    )
                    await driver.drive()
                except ConcurrentUpdate:
                    left = stop.left
                finally:
                    # Also after a failure, so that the driver does not wait for its next poll.
                    self._signals.notify(run, task)
            if left and self._is_draining:
                await _never()
            return left

    @asynccontextmanager
    async def _hold_slot(self, place: WorkerSlot) -> AsyncIterator[None]:
        """Hold a worker slot, waiting until one is free."""
        try:
            await place.acquire()
            # Draining may have begun during the wait: a task that starts now would delay shutdown.
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
        """Return the driver for a task, a role or a turn, chosen by the prefix of its name."""
        if task.startswith(kinds.TURN_PREFIX):
            return TurnDriver(self._services, self._pending_turns.find(run, task), task, stop)
        if task.startswith(kinds.ROLE_PREFIX):
            return RoleDriver(self._services, context.read_run_input(self._ledger, run), task, stop)
        return TaskDriver(self._services, self._run_context(run), task, stop)

    @property
    def sharing_runs(self) -> int:
        """The number of runs driven here that wait for tasks which any worker may drive."""
        return self._signals.count_sharing_runs()

    def is_driving_run(self, run: str) -> bool:
        """Return whether a run is driven in this process."""
        return run in self._signals.driven_runs()

    def stop_starting_tasks(self) -> None:
        """Start no more calls or effects here; the worker that takes over starts them."""
        self._is_draining = True
        self._signals.leave_tasks()

    def pause_calls(self) -> None:
        """Begin no call or effect, and claim no run, until `resume_calls`; from any thread."""
        self._services.calls_paused.set()

    def resume_calls(self) -> None:
        """Begin calls and effects again; from any thread."""
        self._services.calls_paused.clear()

    @property
    def is_working(self) -> bool:
        """Whether a task, a role or a turn is being driven in this process."""
        return self._active_tasks > 0

    def check_for_stops(self) -> None:
        """Stop the work on runs that another process has stopped; call this periodically."""
        self._check_runs_for_stops(self._signals.active_runs())

    def _check_for_stop(self, run: str) -> bool:
        """Stop local work on a run that was stopped; return whether it is interrupted."""
        return run in self._check_runs_for_stops([run])

    def _check_runs_for_stops(self, runs: Sequence[str]) -> set[str]:
        """Stop local work on runs that were stopped; return those that are interrupted.

        Nothing new is started for an interrupted run.  Its calls and effects under way are finished
        and recorded: they are paid for, and need not be made again.
        """
        interrupted = set()
        places = [(run, strand) for run in runs for strand in (MAIN_STRAND, kinds.CONTROL)]
        # From the store, and never remembered: other processes write these entries.
        ends = iter(self._ledger.store.last_entries(places)) if places else iter(())
        for run, main, control in zip(runs, ends, ends, strict=True):
            last = self._ledger.kinds.read(main).facts if main else None
            if control is not None:
                # The first entry of `control` asks for an end or closes the run: abort open calls.
                self._signals.stop_run(run, cut=True)
            elif isinstance(last, kinds.InterruptionFacts):
                self._signals.interrupt(run)
            elif isinstance(last, kinds.StopFacts) or (
                isinstance(last, kinds.ResumptionFacts) and self._is_stopped(run)
            ):
                self._signals.stop_run(run, cut=False)
            if isinstance(last, kinds.InterruptionFacts):
                interrupted.add(run)
        return interrupted

    def _is_stopped(self, run: str) -> bool:
        """Return whether a run was stopped before it was interrupted and resumed.

        Its last entry is the resumption then, so the stop is found only by folding `main`.
        """
        return context.fold_new_entries(self._ledger, run, Run(), [MAIN_STRAND]).stopped is not None

    def _run_context(self, run: str) -> context.RunContext:
        """Return the context of a run, cached: no task starts before the plan is final."""
        with self._lock:
            contexts = self._contexts.value
            run_context = contexts.get(run)
        if run_context is None:
            run_context = context.read_run_context(self._ledger, run)
            with self._lock:
                # Another thread may have stored its context meanwhile.  Both were read from the
                # same entries, so either may be kept.
                contexts[run] = run_context
                while len(contexts) > _MAX_CACHED_CONTEXTS:
                    contexts.popitem(last=False)
        return run_context

    def claim_due(self, worker: str = "") -> ports.ClaimBatch:
        """Claim due timers, so that no other worker gets them until they become due again.

        The commit that claims a timer also reschedules it, so a worker that dies after the claim
        only delays the run.  The delay starts short, in case the run's driver missed the wake-up,
        and grows each time: a run may wait long in a queue, and having it driven again and again
        would cost the workers their time.  Only the driver of a run clears its timer.

        Raises `ClockOff` if this process may not write: then others carry the runs out.
        """
        self._ledger.check_clock()
        claim = TimerClaim(
            worker=worker,
            limit=MAX_CLAIMED_TIMERS,
            anew=due_now_limit(self._ledger.now()),
            own=self._signals.driven_runs(),
            shortest=_MIN_REDELIVERY_S,
            longest=HEARTBEAT_S,
        )
        return _batch_by_run(self._ledger.store.claim_due_timers(claim))

    def claim_runs(self, worker: str, room: int) -> ports.ClaimBatch:
        """Claim due runs for a worker that has room for some; those that it has are among them.

        Timers are rescheduled as by `claim_due`, for the case that the run cannot be driven.
        Raises `ClockOff` as it does.
        """
        self._ledger.check_clock()
        is_paused = self._services.calls_paused.is_set()
        claim = RunClaim(
            worker=worker,
            limit=0 if is_paused else max(0, min(MAX_CLAIMED_TIMERS, room)),
            own_limit=MAX_CLAIMED_TIMERS,
            anew=due_now_limit(self._ledger.now()),
            shortest=_MIN_REDELIVERY_S,
            longest=HEARTBEAT_S,
        )
        return _batch_by_run(self._ledger.store.claim_runs(claim))

    def wake_driver(self, claim: ports.ClaimedRun) -> bool:
        """Wake the driver of a claimed run; return False if it is to be driven (once more)."""
        again = due_now_limit(self._ledger.now())
        if claim.run in self._shared_in_hand and all((t.at or 0) >= again for t in claim.timers):
            return True  # nobody has set the timer: it is due again because the task takes long
        return self._signals.notify(claim.run)

    async def attend_to_reported(self, claim: ports.ClaimedRun) -> bool:
        """Do what is due for a run that another program records; return False for others.

        There is nothing to drive: a timer says that the run may be closed, or that nobody has
        decided at a gate in time.
        """
        due = [timer.strand for timer in claim.timers if timer.strand != CLOSE_TIMER]
        if len(due) < len(claim.timers):
            await asyncio.to_thread(close_if_quiet, self._ledger, claim.run, self._report_patience)
        if not due:
            return bool(claim.timers)
        # Only runs that are driven have a timer of `main`.
        if MAIN_STRAND in due or await asyncio.to_thread(
            context.is_driven, self._ledger, claim.run
        ):
            return False
        await asyncio.to_thread(self._expire_gates, claim.run, due)
        return True

    def _expire_gates(self, run: str, strands: Sequence[str]) -> None:
        for strand in strands:
            with suppress(NoSuchGate):
                subject = strand.removeprefix(kinds.gate_strand(""))
                expire_gate(self._ledger, run, find_gate(self._ledger, run, subject))


def _batch_by_run(timers: Sequence[Timer]) -> ports.ClaimBatch:
    by_run: dict[str, list[Timer]] = {}
    for timer in timers:
        by_run.setdefault(timer.run, []).append(timer)
    claims = tuple(ports.ClaimedRun(run, tuple(due)) for run, due in by_run.items())
    return ports.ClaimBatch(claims, is_full=len(timers) >= MAX_CLAIMED_TIMERS)


async def _never() -> NoReturn:
    """Wait until this process ends, so that the queue then gives the task to another worker.

    Returning would report the task to the queue as done.
    """
    while True:
        await asyncio.Event().wait()
