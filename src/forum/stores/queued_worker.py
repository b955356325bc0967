"""What workers share whose runs are assigned by an engine that somebody operates beside the ledger.

The other engine has a queue of runs, and says which worker drives which.  It knows names only, and
may forget everything: a due timer puts its run into the queue again.  The worker claims each run
that it is assigned in the ledger.  So a run that is delivered twice is driven once, whatever the
queue promises, and the runs of a lost worker become due when others release its claims.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context
from hashlib import sha256

from forum.config import WorkerCapacity
from forum.engine import ClaimedRun, Engine
from forum.ledger.ports import WorkerStore
from forum.stores.claiming_worker import ClaimingWorker

_VERSION = 2
"""The version of what is in the queue.  It is not that of the package: engines hand a workflow only
to workers of its own version, and each deploy would strand all earlier runs."""


class QueuedWorker(ClaimingWorker):
    """A worker that drives the runs of one ledger which the queue of another engine assigns it."""

    # A queue of runs and tasks could be full of runs that wait for their tasks.
    shares_tasks = False

    def __init__(
        self,
        engine: Engine,
        store: WorkerStore,
        capacity: WorkerCapacity | None = None,
        report: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        super().__init__(engine, store, capacity, report)
        # Several ledgers may use one server.  Each has its own queue, because a worker serves only
        # one ledger.
        self.queue = f"forum-{sha256(store.origin.encode()).hexdigest()[:16]}-{_VERSION}"
        self._url = ""
        self._connected: Future[None] = Future()
        self._releasing = asyncio.Lock()

    @abstractmethod
    async def connect(self, url: str) -> None:
        """Connect to the engine at an address, and begin to take runs from its queue."""

    @abstractmethod
    async def disconnect(self) -> None:
        """Leave the engine, if it was reached; nothing is driven here any more."""

    @abstractmethod
    async def put(self, run: str) -> None:
        """Put a run into the queue, unless it is in it or assigned to a live worker."""

    def start(self, url: str) -> None:
        """Drive runs that the queue assigns until `close`; raise if it cannot be reached."""
        self._url = url
        super().start(url)
        try:
            self._connected.result()
        except BaseException:
            self.close()
            raise

    async def drive(self, run: str) -> None:
        """Drive a run that the queue has assigned, with its tasks, unless another worker has it."""
        async with self._releasing:
            if not self._is_in_hand(run):
                if not await asyncio.to_thread(self._store.claim_run, run, self.id):
                    return
                if self._closing:
                    return  # the end of this worker makes the run due again
                self._start_driver(ClaimedRun(run))
        while self._is_in_hand(run):
            tasks = [*self._tasks.get(run, {}).values()]
            await asyncio.wait([*tasks, *filter(None, [self._drivers.get(run)])])

    async def drive_from_elsewhere(self, run: str) -> None:
        """Drive a run as `drive` does, for a caller in the event loop of the engine."""
        if self._loop is not None:
            # In a context of its own: what a driver does must not be taken for a step of the
            # workflow that has called this.
            future = Context().run(asyncio.run_coroutine_threadsafe, self.drive(run), self._loop)
            await asyncio.wrap_future(future)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            await self.connect(self._url)
        except Exception as error:  # noqa: BLE001  raised by `start`
            self._connected.set_exception(error)
        else:
            self._connected.set_result(None)
            await super()._serve()
        await self.disconnect()

    async def _claim_runs(self) -> bool:
        """Put due runs into the queue; return whether more may be due."""
        async with self._releasing:
            await self._release_idle_runs()
        batch = await asyncio.to_thread(self._engine.claim_due, self.id)
        for claim in batch.claims:
            if self._is_in_hand(claim.run):
                self.take_claim(claim)
            elif not await self._engine.attend_to_reported(claim):
                await self.put(claim.run)
        return batch.is_full
