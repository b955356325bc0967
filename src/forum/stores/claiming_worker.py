"""A worker that claims due runs from the timers of the ledger, without a queue beside it.

A timer is set in the commit of the entry that causes it, so no accepted run can be lost between two
databases.  The worker claims due runs, some in one statement, and drives each of them and all of
its tasks in one event loop.  Other workers leave a claimed run alone until it is released, or until
the lease of its worker expires.  A claim only prevents work from being done twice: two drivers of
one run are safe, because a position is taken once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from threading import Event, Thread

from forum.config import WorkerCapacity
from forum.engine import ClaimedRun, Engine
from forum.ledger.ports import WorkerStore
from forum.metrics import TAKEOVERS, Sample
from forum.stores.leased_worker import (
    BEAT_INTERVAL_S,
    EARLY_TAKEOVER_S,
    LEASE_S,
    LeasedWorker,
)

_POLL_INTERVAL_S = 1.0
"""How often due runs are looked for without a signal: for timers that become due by time."""
_IDLE_POLL_INTERVAL_S = 2.0
"""The same while nothing is driven here."""
_STOP_CHECK_INTERVAL_S = 0.1
_QUIET_STOP_CHECK_INTERVAL_S = 0.5
"""How often runs in hand are checked for a stop while there are no signals."""
_RECONNECT_DELAY_S = 0.5
_END_CHECK_INTERVAL_S = 0.02
_LISTEN_S = 0.2
"""How long the thread that listens waits before it looks whether the worker stops."""
_GATHER_S = 0.004
"""How long signals are gathered before runs are claimed, and again for each 50 runs in hand."""


class ClaimingWorker(LeasedWorker):
    """The worker of one process: drives the runs of one ledger that it has claimed."""

    shares_tasks = True
    """Whether tasks of large plans are claimed, too."""

    def __init__(
        self,
        engine: Engine,
        store: WorkerStore,
        capacity: WorkerCapacity | None = None,
        report: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        super().__init__(engine, store, capacity, report)
        self._drivers: dict[str, asyncio.Task[None]] = {}
        self._tasks: dict[str, dict[str, asyncio.Task[None]]] = {}
        """The tasks that are driven here, by run and by their names."""
        self._requeued: dict[str, ClaimedRun] = {}
        """Runs to be driven once more when their driver has returned."""
        self._idle: set[str] = set()
        """Claimed runs on which nothing is done any more; they are released with the next claim."""
        self._is_claiming = False
        """Whether this worker may have claimed a run that it does not drive yet."""
        self._news: asyncio.Event | None = None
        """Set when something may be due; made by the event loop that drives runs."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._heard = Event()

    def take_claim(self, claim: ClaimedRun) -> None:
        """Drive a run that this worker has claimed; if it is being driven, wake its driver.

        A driver that does not wait any more may have made its last look at the ledger: then the
        run is driven once more afterwards.
        """
        if self._engine.wake_driver(claim):
            return
        if claim.run in self._drivers:
            self._requeued[claim.run] = claim
        else:
            self._start_driver(claim)

    def start_tasks(self, run: str, tasks: tuple[str, ...]) -> None:
        """Drive tasks here, except those that are being driven.

        The engine limits how many tasks proceed at once, and checks for a cancellation of the run
        before it drives each of them.
        """
        driven = self._tasks.setdefault(run, {})
        for task in tasks:
            if task not in driven:
                driven[task] = self._start(
                    lambda task=task: self._engine.drive_task(run, task),  # type: ignore[misc]
                    lambda task=task: self._end_task(run, task),  # type: ignore[misc]
                )

    def start(self, url: str) -> None:  # noqa: ARG002  there is no queue
        """Claim and drive runs until `close` is called."""
        self._engine.pause_calls()  # until `_listen` holds the lock
        self._store.renew_lease(self.id, LEASE_S)
        # Hold the lease before any run is claimed: a claim without a lease keeps nobody away.
        self._start_thread("lease", self._beat, BEAT_INTERVAL_S, self._gone)
        self._start_thread("takeover", self._take_over_lost, 0, self._stop)
        self._start_thread("stops", self._check_for_stops, _STOP_CHECK_INTERVAL_S, self._stop)
        self._start_thread("signal", self._listen, _RECONNECT_DELAY_S, self._stop)
        runs = Thread(target=lambda: asyncio.run(self._serve()), name="forum-runs", daemon=True)
        runs.start()
        self._threads.append(runs)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is driven or claimed here."""
        return not (self._is_claiming or self._drivers or self._tasks or self._idle)

    @property
    def runs_in_hand(self) -> int:
        """How many runs are driven here."""
        return len(self._drivers)

    @property
    def wanted_tasks(self) -> int:
        """How many tasks are driven here or wait for a slot."""
        return self._engine.wanted_tasks

    def set_capacity(self, capacity: WorkerCapacity) -> None:
        """Do so much at once from now on; what is driven beyond it goes on.  From any thread."""
        if capacity == self._capacity:
            return
        self._capacity = capacity
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._engine.limit_tasks, capacity.tasks)
        self._wake()

    def _release_work(self) -> None:
        self._store.take_over(self.id)

    def samples(self) -> list[Sample]:
        """Return the metrics of this worker: the number of runs that it took over."""
        return [Sample(TAKEOVERS, self._takeovers)]

    def _take_over_lost(self) -> None:
        """Release the runs of workers whose lease has expired, so that any worker claims them."""
        for worker in self._find_lost_workers():
            self._takeovers += self._store.take_over(worker, EARLY_TAKEOVER_S)

    def _listen(self) -> None:
        """Wake the event loop when something may be due, until an error or the end.

        The session that listens also holds the lock by which others see that this worker lives.
        Without it no call begins: the others may soon take its runs over, and pay for the call too.
        """
        signal = self._store.open_signal(self.id)
        try:
            self._engine.resume_calls()
            self._wake()  # something may have become due while nobody listened
            while not self._stop.is_set():
                if signal.wait(_LISTEN_S):
                    self._wake()
                    self._heard.set()
        finally:
            self._engine.pause_calls()
            signal.close()

    def _check_for_stops(self) -> None:
        """Look for stops of runs in hand, soon after a signal: cancellations come with one."""
        self._heard.wait(_QUIET_STOP_CHECK_INTERVAL_S)
        self._heard.clear()
        self._engine.check_for_stops()

    def _wake(self) -> None:
        """Let the event loop look for due runs, from any thread."""
        if self._loop is not None and self._news is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._news.set)

    async def _serve(self) -> None:
        self._news, self._loop = asyncio.Event(), asyncio.get_running_loop()
        self._engine.limit_tasks(self._capacity.tasks)  # it may have changed meanwhile
        while not self._closing:
            more = False
            self._news.clear()
            try:
                more = await self._claim_runs()
            except Exception as error:  # noqa: BLE001  reported; a restarting database recovers
                self._report_error(error)
            if not more:
                with suppress(TimeoutError):
                    pause = _IDLE_POLL_INTERVAL_S if self.is_idle else _POLL_INTERVAL_S
                    async with asyncio.timeout(pause):
                        await self._news.wait()
                await asyncio.sleep(_GATHER_S * (1 + len(self._drivers) // 50))
        # What is in hand goes on until `close` has waited long enough for it.  Not in a thread of
        # the executor, which is closed first if the interpreter ends.
        while not self._stop.is_set():  # noqa: ASYNC110
            await asyncio.sleep(_END_CHECK_INTERVAL_S)
        left = [*self._drivers.values(), *(t for run in self._tasks.values() for t in run.values())]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _claim_runs(self) -> bool:
        """Release idle runs, claim due ones and drive them; return whether more may be due."""
        # First: an idle run whose timer was set again meanwhile is claimed like any other.
        await self._release_idle_runs()
        # A run that waits for shared tasks takes no room: its tasks may need it.  A worker that
        # has one claims at least one more, whatever its capacity, so that the run can end.
        sharing = self._engine.sharing_runs
        room = max(self._capacity.runs - len(self._drivers) + sharing, min(sharing, 1))
        self._is_claiming = True
        try:
            batch = await asyncio.to_thread(self._engine.claim_runs, self.id, room)
            for claim in batch.claims:
                self.take_claim(claim)
        finally:
            self._is_claiming = False
        return batch.is_full

    async def _release_idle_runs(self) -> None:
        idle = [run for run in self._idle if not self._is_in_hand(run)]
        if idle:
            await asyncio.to_thread(self._store.release_runs, self.id, idle)
            self._idle.difference_update(idle)

    def _is_in_hand(self, run: str) -> bool:
        return run in self._drivers or run in self._tasks

    def _start_driver(self, claim: ClaimedRun) -> None:
        self._drivers[claim.run] = self._start(
            lambda: self._drive_claim(claim), lambda: self._end_driver(claim.run)
        )

    async def _drive_claim(self, claim: ClaimedRun) -> None:
        async with aclosing(self._engine.drive(claim)) as wanted:
            async for tasks in wanted:
                self.start_tasks(claim.run, tasks)

    def _start(
        self, work: Callable[[], Awaitable[None]], when_ended: Callable[[], None]
    ) -> asyncio.Task[None]:
        task = asyncio.ensure_future(self._drive(work))
        task.add_done_callback(lambda _: when_ended())
        return task

    def _end_driver(self, run: str) -> None:
        del self._drivers[run]
        claim = self._requeued.pop(run, None)
        if claim is not None and not self._closing:
            self._start_driver(claim)
        self._release_if_idle(run)

    def _end_task(self, run: str, task: str) -> None:
        del self._tasks[run][task]
        if not self._tasks[run]:
            del self._tasks[run]
        self._release_if_idle(run)

    def _release_if_idle(self, run: str) -> None:
        if len(self._drivers) >= self._capacity.runs - 1:
            self._wake()  # there is room again
        # A run stays claimed while one of its tasks is driven, even if its driver has failed:
        # another worker would drive the same task, and pay for its call again.
        if not self._is_in_hand(run):
            self._idle.add(run)
