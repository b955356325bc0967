"""Group commit: what all writers of a process hand in at about the same time is one transaction."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from time import monotonic, sleep
from typing import NamedTuple

from forum.backends.fork_safety import ForkAware, register_fork_aware
from forum.errors import (
    BacklogFull,
    BudgetExceeded,
    BudgetSliceExhausted,
    IdempotencyKeyUsed,
    PositionTaken,
    StoreConnectionLost,
    StoreFailed,
)
from forum.ledger import EntryWrite, Store

_MAX_BATCH_ENTRIES = 4000
_MAX_QUEUED = 10_000
"""How many may wait for their commit: while a database is away, they are kept in memory."""
_RETRY_TIMEOUT_S = 30.0
_RETRY_DELAY_S = 0.2
_POLL_INTERVAL_S = 0.25


class _CommitRequest(NamedTuple):
    """Records that were handed in, and the one who waits for them: a thread, or a task."""

    records: Sequence[EntryWrite]
    waiter: "Future[None] | asyncio.Future[None]"


class GroupCommitter(ForkAware):
    """Commits for many writers through one thread.  An append returns when it is durable."""

    def __init__(self, store: Store, backlog_limit: int = 1_000_000) -> None:
        self._store, self._limit = store, backlog_limit
        self._closed = False
        self._start_thread()
        register_fork_aware(self)

    def _start_thread(self) -> None:
        self._queue: SimpleQueue[_CommitRequest | None] = SimpleQueue()
        self._backlog, self._looked = 0, monotonic()
        self._door = Lock()
        self._thread: Thread | None = None

    def append(self, records: Sequence[EntryWrite]) -> None:
        """Commit all of these or none, and return when they are durable."""
        self.submit(records).result()

    def submit(self, records: Sequence[EntryWrite]) -> Future[None]:
        """Hand these in; the future is done when they are durable, or tells why they are not."""
        waiter: Future[None] = Future()
        # What was handed in cannot be called back: only waiting for it can be given up.
        waiter.set_running_or_notify_cancel()
        self._enqueue(_CommitRequest(records, waiter))
        return waiter

    async def append_async(self, records: Sequence[EntryWrite]) -> None:
        """Commit all of these or none; other tasks go on while this one waits."""
        waiter = asyncio.get_running_loop().create_future()
        self._enqueue(_CommitRequest(records, waiter))
        await waiter

    def close(self) -> None:
        """Commit what was handed in, then stop."""
        with self._door:
            if not self._closed:
                self._queue.put(None)
            self._closed = True
        if self._thread is not None:
            self._thread.join()

    def after_fork_in_child(self) -> None:
        """Begin anew: what was handed in is the parent's, and so is the thread."""
        self._start_thread()

    def _enqueue(self, handed: _CommitRequest) -> None:
        if (waiting := self._queue.qsize()) > _MAX_QUEUED:
            raise BacklogFull(waiting, _MAX_QUEUED)
        if self._backlog > self._limit:
            self._poll_backlog(0)
            if self._backlog > self._limit:
                raise BacklogFull(self._backlog, self._limit)
        with self._door:
            if self._closed:
                raise StoreFailed("appending", "the committer is closed")
            if self._thread is None:
                self._thread = Thread(target=self._run, name="forum-committer", daemon=True)
                self._thread.start()
            self._queue.put(handed)

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            group, last = self._take_batch(first)
            self._commit_batch(group)
            self._poll_backlog(_POLL_INTERVAL_S)
            if last:
                return

    def _take_batch(self, first: _CommitRequest) -> tuple[list[_CommitRequest], bool]:
        """Take what is waiting; nobody waits for a group to fill."""
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
            self._append_with_retry([record for handed in group for record in handed.records])
        except (IdempotencyKeyUsed, PositionTaken, BudgetExceeded, BudgetSliceExhausted) as error:
            if len(group) == 1:
                _notify_waiters(group, error)
                return
            # All of the group or none of it: one that comes too late, or asks for too much, must
            # not cost the others; by halves, it costs them a few commits and not one each.
            middle = len(group) // 2
            self._commit_batch(group[:middle])
            self._commit_batch(group[middle:])
        except Exception as error:  # noqa: BLE001  it belongs to those who wait for this commit
            _notify_waiters(group, error)
        else:
            _notify_waiters(group, None)

    def _append_with_retry(self, records: list[EntryWrite]) -> None:
        """Commit; where the connection broke, again: the positions tell what became of it.

        If the lost commit did happen, the positions are taken, and the writer finds its own
        entries there.  The work that led to the entries is never done again.
        """
        deadline = monotonic() + _RETRY_TIMEOUT_S
        while True:
            try:
                return self._store.append(records)
            except StoreConnectionLost:
                if monotonic() > deadline:
                    raise
                sleep(_RETRY_DELAY_S)

    def _poll_backlog(self, pause: float) -> None:
        """See now and then how many entries wait for the sequencer."""
        if monotonic() - self._looked > pause:
            with suppress(StoreFailed):  # it is about liveness only: the next commit tells
                self._backlog = self._store.backlog()
            self._looked = monotonic()


def _notify_waiters(group: list[_CommitRequest], error: Exception | None) -> None:
    """Wake all who wait: threads one by one, the tasks of a loop all at once."""
    tasks: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for _, waiter in group:
        if isinstance(waiter, asyncio.Future):
            tasks.setdefault(waiter.get_loop(), []).append(waiter)
        else:
            _resolve_futures([waiter], error)
    for loop, waiters in tasks.items():
        with suppress(RuntimeError):  # the loop is closed: nobody waits there any more
            loop.call_soon_threadsafe(_resolve_futures, waiters, error)


def _resolve_futures(
    waiters: "Sequence[Future[None] | asyncio.Future[None]]", error: Exception | None
) -> None:
    for waiter in waiters:
        if waiter.done():
            continue  # a task that was cancelled no longer waits; its entries are durable
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(error)
