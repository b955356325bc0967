"""Group commit: what all writers of a process hand in at about the same time is one transaction."""

from collections.abc import Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic, sleep

from forum.errors import Backlogged, PositionTaken, StoreLost
from forum.ledger import Record, Store

_MOST_ENTRIES = 4000
_PATIENCE_SECONDS = 30.0
_PAUSE_SECONDS = 0.2
_LOOK_SECONDS = 0.25

_Handed = tuple[Sequence[Record], Future[None]]


class Committer:
    """Commits for many writers through one thread.  An append returns when it is durable."""

    def __init__(self, store: Store, backlog_limit: int = 1_000_000) -> None:
        self._store, self._limit = store, backlog_limit
        self._queue: SimpleQueue[_Handed | None] = SimpleQueue()
        self._backlog, self._looked = 0, monotonic()
        self._thread = Thread(target=self._run, name="forum-committer", daemon=True)
        self._thread.start()

    def append(self, records: Sequence[Record]) -> None:
        """Commit all of these or none, and return when they are durable."""
        self.submit(records).result()

    def submit(self, records: Sequence[Record]) -> Future[None]:
        """Hand these in; the future is done when they are durable, or tells why they are not."""
        if self._backlog > self._limit:
            raise Backlogged(self._backlog, self._limit)
        future: Future[None] = Future()
        self._queue.put((records, future))
        return future

    def close(self) -> None:
        """Commit what was handed in, then stop."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            group, last = self._gather(first)
            self._commit(group)
            self._look()
            if last:
                return

    def _gather(self, first: _Handed) -> tuple[list[_Handed], bool]:
        """Take what is waiting; nobody waits for a group to fill."""
        group, entries = [first], len(first[0])
        while entries < _MOST_ENTRIES:
            try:
                item = self._queue.get_nowait()
            except Empty:
                break
            if item is None:
                return group, True
            group.append(item)
            entries += len(item[0])
        return group, False

    def _commit(self, group: list[_Handed]) -> None:
        try:
            self._persist([record for records, _ in group for record in records])
        except PositionTaken as error:
            if len(group) == 1:
                group[0][1].set_exception(error)
                return
            # All of the group or none of it: one that comes too late must not cost the others.
            for item in group:
                self._commit([item])
        except Exception as error:  # noqa: BLE001  it belongs to those who wait for this commit
            for _, future in group:
                future.set_exception(error)
        else:
            for _, future in group:
                future.set_result(None)

    def _persist(self, records: list[Record]) -> None:
        """Commit; where the connection broke, again: the positions tell what became of it.

        If the lost commit did happen, the positions are taken, and the writer finds its own
        entries there.  The work that led to the entries is never done again.
        """
        deadline = monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return self._store.append(records)
            except StoreLost:
                if monotonic() > deadline:
                    raise
                sleep(_PAUSE_SECONDS)

    def _look(self) -> None:
        """See now and then how many entries wait for the sequencer."""
        if monotonic() - self._looked > _LOOK_SECONDS:
            self._backlog, self._looked = self._store.backlog(), monotonic()
