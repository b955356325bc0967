"""What all workers share: an id, a lease that says that they live, and threads that repeat steps.

A worker holds a lease while it lives.  When the lease expires, other workers take over its work.
"""

import asyncio
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from threading import Event, Thread
from time import monotonic, sleep

from forum import errors
from forum.config import WorkerCapacity
from forum.engine import Engine
from forum.ledger.ports import WorkerStore
from forum.metrics import Sample

LEASE_S = 2.5
BEAT_INTERVAL_S = 0.4
EARLY_TAKEOVER_S = LEASE_S - 0.6
"""How long before its lease expires a worker is lost if its session in the database is gone."""
_RETRY_DELAY_S = 0.5
_DRAIN_POLL_INTERVAL_S = 0.02


def make_worker_id() -> str:
    """Return a new id, which tells the machine and the process."""
    return f"{socket.gethostname()}-{os.getpid()}-{os.urandom(4).hex()}"


class LeasedWorker(ABC):
    """The worker of one process, which drives runs of one ledger while it holds a lease."""

    def __init__(
        self,
        engine: Engine,
        store: WorkerStore,
        capacity: WorkerCapacity | None = None,
        report: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        self._engine, self._store = engine, store
        self._report = report
        self._capacity = capacity or WorkerCapacity()
        engine.limit_tasks(self._capacity.tasks)
        self.id = make_worker_id()
        self._stop, self._gone = Event(), Event()
        self._threads: list[Thread] = []
        self._sure = -inf
        """When this worker last renewed an expired lease, on the clock of this process."""
        self._lost: list[str] = []
        self._lost_workers_found = Event()
        self._beats = self._takeovers = 0
        self._closing = False
        self.last_error: Exception | None = None
        """The last error; the failed operation is retried."""

    @abstractmethod
    def start(self, url: str) -> None:
        """Drive runs until `close` is called; `url` is the address of a queue, if there is one."""

    def close(self, patience: float = 0) -> None:
        """Stop, after waiting up to `patience` seconds for running calls and tools.

        Other workers take over the rest.  The lease is held until the end: if it expired while
        this worker waits, another worker would pay for the same calls again.
        """
        self._closing = True
        self._engine.stop_starting_tasks()
        deadline = monotonic() + patience
        self._stop_taking_work()
        while self._engine.is_working and monotonic() < deadline:
            sleep(_DRAIN_POLL_INTERVAL_S)
        self._stop.set()
        self._lost_workers_found.set()
        # The first thread renews the lease, and ends after everything that works.
        for thread in self._threads[1:]:
            thread.join()
        self._end_work()
        self._gone.set()
        for thread in self._threads[:1]:
            thread.join()
        # Expire the lease at once.  It is not deleted: an expired lease tells the other workers to
        # take over.
        with suppress(errors.StoreFailed):  # then the lease expires by itself
            self._store.renew_lease(self.id, 0)
            self._release_work()

    def _stop_taking_work(self) -> None:  # noqa: B027  a worker may have nothing to stop
        """Take no more work, before the wait for what is in hand."""

    def _end_work(self) -> None:  # noqa: B027  a worker may have nothing to end
        """End what still works after the wait; the lease is still held."""

    def _release_work(self) -> None:  # noqa: B027  other workers find expired leases
        """Release what is left, after the lease has expired."""

    @abstractmethod
    def samples(self) -> list[Sample]:
        """Return the metrics of this worker."""

    def can_drive(self, run: str) -> bool:
        """Return whether this worker drives a run, or would drive it as the only live worker."""
        others = set(self._store.live_workers()) - {self.id}
        return not others or self._engine.is_driving_run(run)

    def _start_thread(self, name: str, step: Callable[[], None], pause: float, stop: Event) -> None:
        thread = Thread(target=self._repeat, args=(step, pause, stop), name=f"forum-{name}")
        thread.daemon = True
        thread.start()
        self._threads.append(thread)

    def _repeat(self, step: Callable[[], None], pause: float, stop: Event) -> None:
        while not stop.is_set():
            try:
                step()
            except Exception as error:  # noqa: BLE001  reported; a restarting database recovers
                self._report_error(error)
            stop.wait(pause)

    async def _drive(self, work: Callable[[], Awaitable[None]]) -> None:
        """Drive a run or a task; after an error, the run is driven again when its timer is due."""
        while True:
            try:
                return await work()
            except (errors.StoreConnectionLost, errors.StoreBlocked) as error:
                # The server is restarting, or cannot be written, and this worker still owns the
                # work.
                self._report_error(error)
                await asyncio.sleep(_RETRY_DELAY_S)
            except Exception as error:  # noqa: BLE001  reported, and kept from whoever called
                return self._report_error(error)

    def _report_error(self, error: Exception) -> None:
        self.last_error = error
        self._report(error)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is driven here, as far as this worker can tell."""
        return False

    def _beat(self) -> None:
        """Renew the lease of this worker, and note which other workers are lost.

        This has its own thread, so that no other work can delay the renewal.  While nothing is
        driven here, nobody waits for this worker, and every other beat is left out.
        """
        self._beats += 1
        if self.is_idle and self._beats % 2:
            return
        lost = self._store.beat(self.id, LEASE_S, EARLY_TAKEOVER_S)
        if self.id in lost:
            # This worker itself was away: the machine slept, or the database was unavailable.
            # That may have hit the other workers too; give them time to renew their leases.
            self._sure = monotonic()
        self._lost = lost
        if lost:
            self._lost_workers_found.set()

    def _find_lost_workers(self) -> list[str]:
        """Wait for a beat that finds lost workers, and return those whose work may be taken over.

        If this worker was just away, the others may have been away for the same reason.  They get
        the time of one lease to renew theirs before their work is taken over.
        """
        self._lost_workers_found.wait()
        self._lost_workers_found.clear()
        lost, self._lost = self._lost, []
        if self._stop.is_set() or self.id in lost or monotonic() - self._sure <= LEASE_S:
            return []
        return lost
