"""Group commit: one transaction for the records that all writers of a process submit together.

A submission is committed as a whole or not at all, and its future is resolved only after the
commit is durable.  A submission that the store refuses does not fail the others in its group.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext, suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from time import monotonic, sleep
from typing import NamedTuple

from forum import errors
from forum.ledger.ports import EntryStore, EntryWrite
from forum.stores.fork_safety import ForkAware, register_fork_aware
from forum.stores.threads import start_thread

_MAX_BATCH_ENTRIES = 4000
_MAX_QUEUED = 10_000
"""The maximum number of queued submissions: they stay in memory while a database is down."""
_RETRY_TIMEOUT_S = 30.0
_RETRY_DELAY_S = 0.2
_POLL_INTERVAL_S = 0.25


WatchAppend = Callable[[Sequence[EntryWrite]], AbstractContextManager[None]]
"""Returns what surrounds the wait of a writer for the commit of its records."""


class _CommitRequest(NamedTuple):
    """Submitted records, and the future of the thread or task that waits for their commit."""

    records: Sequence[EntryWrite]
    waiter: "Future[None] | asyncio.Future[None]"


class GroupCommitter(ForkAware):
    """A committer that serves many writers with one thread and one transaction per group."""

    def __init__(
        self,
        store: EntryStore,
        backlog_limit: int = 1_000_000,
        watch: WatchAppend = lambda _: nullcontext(),
    ) -> None:
        self._store, self._limit = store, backlog_limit
        self._watch = watch
        self._closed = False
        self._start_thread()
        register_fork_aware(self)

    def _start_thread(self) -> None:
        self._queue: SimpleQueue[_CommitRequest | None] = SimpleQueue()
        self._backlog, self._polled_at = 0, monotonic()
        self._lock = Lock()
        self._thread: Thread | None = None

    def append(self, records: Sequence[EntryWrite]) -> None:
        """Commit all records or none, and return when the commit is durable."""
        with self._watch(records):
            self.submit(records).result()

    def submit(self, records: Sequence[EntryWrite]) -> Future[None]:
        """Submit records, and return a future that resolves when they are durable or refused."""
        waiter: Future[None] = Future()
        # A submission cannot be withdrawn: mark the future as running, so that it cannot be
        # cancelled.  A caller can only stop waiting.
        waiter.set_running_or_notify_cancel()
        self._enqueue(_CommitRequest(records, waiter))
        return waiter

    async def append_async(self, records: Sequence[EntryWrite]) -> None:
        """Commit all records or none, without blocking the event loop."""
        with self._watch(records):
            waiter = asyncio.get_running_loop().create_future()
            self._enqueue(_CommitRequest(records, waiter))
            await waiter

    def close(self) -> None:
        """Commit all submitted records, then stop the thread."""
        with self._lock:
            if not self._closed:
                self._queue.put(None)
            self._closed = True
        if self._thread is not None:
            self._thread.join()

    def after_fork_in_child(self) -> None:
        """Start with an empty queue: the parent commits its submissions in its own thread."""
        self._start_thread()

    def _enqueue(self, request: _CommitRequest) -> None:
        if (waiting := self._queue.qsize()) > _MAX_QUEUED:
            raise errors.BacklogFull(waiting, _MAX_QUEUED)
        if self._backlog > self._limit:
            # The committer thread updates the backlog only after a commit.  Poll here, or refused
            # writers would never see that the sequencer has caught up.
            self._poll_backlog(0)
            if self._backlog > self._limit:
                raise errors.BacklogFull(self._backlog, self._limit)
        # Under the lock: nothing is queued behind the end marker that `close` puts there.
        with self._lock:
            if self._closed:
                raise errors.StoreFailed("appending", "the committer is closed")
            if self._thread is None:
                thread = Thread(target=self._run, name="forum-committer", daemon=True)
                self._thread = thread if start_thread(thread) else None
            if self._thread is not None:
                self._queue.put(request)
                return
        self._commit_batch([request])

    def _run(self) -> None:
        failure: Exception | None = None
        while (first := self._queue.get()) is not None:
            group, last = self._take_batch(first)
            if failure is None:
                self._commit_batch(group)
            else:
                # If this error had ended the thread, all later writers would wait for ever.
                _notify_waiters(group, failure)
            failure = None
            try:
                self._poll_backlog(_POLL_INTERVAL_S)
            except Exception as error:  # noqa: BLE001  raised in the next writers
                failure = error
            if last:
                return

    def _take_batch(self, first: _CommitRequest) -> tuple[list[_CommitRequest], bool]:
        """Take the queued submissions without waiting for more, up to the maximum batch.

        Returns them, and whether the end marker was reached.
        """
        group, entries = [first], len(first.records)
        while entries < _MAX_BATCH_ENTRIES:
            try:
                item = self._queue.get_nowait()
            except Empty:
                break
            if item is None:
                return group, True
            group.append(item)
            entries += len(item.records)
        return group, False

    def _commit_batch(self, group: list[_CommitRequest]) -> None:
        try:
            self._append_with_retry([record for request in group for record in request.records])
        except (
            errors.IdempotencyKeyUsed,
            errors.PositionTaken,
            errors.BudgetExceeded,
            errors.BudgetSliceExhausted,
        ) as error:
            if len(group) == 1:
                _notify_waiters(group, error)
                return
            # The store commits the whole group or nothing.  A refused submission must not fail the
            # others: bisect the group, which costs a few commits and not one per submission.
            middle = len(group) // 2
            self._commit_batch(group[:middle])
            self._commit_batch(group[middle:])
        except Exception as error:  # noqa: BLE001  raised in the waiting writers
            _notify_waiters(group, error)
        else:
            _notify_waiters(group, None)

    def _append_with_retry(self, records: list[EntryWrite]) -> None:
        """Commit, and retry for some seconds if the connection is lost.

        The outcome of a lost commit is unknown.  If it did happen, the retry raises
        `PositionTaken`, and the writer finds its own entries at the positions.  The work that led
        to the entries is never repeated.
        """
        deadline = monotonic() + _RETRY_TIMEOUT_S
        while True:
            try:
                return self._store.append(records)
            except errors.StoreConnectionLost:
                if monotonic() > deadline:
                    raise
                sleep(_RETRY_DELAY_S)

    def _poll_backlog(self, pause: float) -> None:
        """Update the number of pending entries, unless that was done less than `pause` ago."""
        if monotonic() - self._polled_at > pause:
            with suppress(
                errors.StoreFailed
            ):  # only limits the load: the next commit reports the error
                self._backlog = self._store.backlog()
            self._polled_at = monotonic()


def _notify_waiters(group: list[_CommitRequest], error: Exception | None) -> None:
    """Resolve the futures of a group: one call per thread, one call per event loop."""
    tasks: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for _, waiter in group:
        if isinstance(waiter, asyncio.Future):
            tasks.setdefault(waiter.get_loop(), []).append(waiter)
        else:
            _resolve_futures([waiter], error)
    for loop, waiters in tasks.items():
        with suppress(RuntimeError):  # the loop is closed, so no task waits
            loop.call_soon_threadsafe(_resolve_futures, waiters, error)


def _resolve_futures(
    waiters: "Sequence[Future[None] | asyncio.Future[None]]", error: Exception | None
) -> None:
    for waiter in waiters:
        if waiter.done():
            continue  # the task was cancelled; its entries were committed or refused all the same
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(error)
