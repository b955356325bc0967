"""The queue between a program and the writer thread of its recorder.

Nothing is lost without being counted: a step takes a number of its run, stored in the spool, in the
same critical section in which it is queued or dropped.  So the number of steps that are recorded
and the number that are lost always add up to the number that were handed in.

The garbage collector and signal handlers run code of the program at any point of any thread, also
in the critical section.  What they hand in there is put aside, and whoever holds the lock takes it
before letting go: waiting for the lock would wait for the thread itself.
"""

from collections import deque
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from threading import Condition, RLock, get_ident
from time import monotonic

from forum import errors
from forum.features.recorder.report_items import MAX_BATCH_ITEMS, ReportItem
from forum.features.recorder.spool import SpoolSlot

_GATHER_S = 0.02
"""How long the writer waits for more steps, so that they share a commit."""
_LONGEST_WAIT_S = 1.0
"""After which a waiting thread looks again: a wake-up is lost if a signal comes just before."""


class LossPolicy(StrEnum):
    """What happens when a program makes steps faster than they are recorded."""

    DROP = "drop"
    """Steps are not recorded; a gap says how many."""
    BLOCK = "block"
    """The program waits."""
    RAISE = "raise"
    """A step that begins while the queue is full raises `RecorderQueueFull`, and is not made."""


class RunCounter:
    """How many steps of a run were handed in, dropped and refused; the queue's lock guards it."""

    __slots__ = (
        "direct",
        "dropped",
        "handed_in",
        "is_closed",
        "is_ended",
        "is_sealed",
        "refused",
        "slot",
    )

    def __init__(self) -> None:
        self.handed_in = self.dropped = self.refused = 0
        self.is_ended = False
        """Whether no more steps are taken; set before the end of the run is queued."""
        self.is_closed = False
        """Whether the end of the run is queued."""
        self.direct = 0
        """How many threads are recording a step of the run themselves."""
        self.is_sealed = False
        """Whether the writer records the end of the run, and no thread records a step of it."""
        self.slot: SpoolSlot | None = None


class StepQueue:
    """A bounded queue with one reader."""

    def __init__(self, limit: int, loss: LossPolicy) -> None:
        self._limit, self._loss = limit, loss
        # Re-entrant only because it knows its owner; it is never taken twice to change something.
        self.lock = RLock()
        self._filled, self._emptied = Condition(self.lock), Condition(self.lock)
        self._items: deque[tuple[RunCounter, ReportItem]] = deque()
        self._late: deque[Callable[[], None]] = deque()
        """What interrupted the critical section of its own thread, and is done at its end."""
        self._is_waiting = self._is_urgent = self._is_stopping = False
        self._reader = 0
        self.dropped = 0
        """How many steps were dropped, in all runs."""
        self._put = self._done = 0
        """How many items were ever queued, and how many of them the writer is done with."""

    def raise_if_full(self) -> None:
        """Raise `RecorderQueueFull` if the program asked for that and the queue is full."""
        if self._loss is LossPolicy.RAISE and len(self._items) >= self._limit:
            raise errors.RecorderQueueFull(self._limit)

    def run_locked(self, action: Callable[[], None]) -> None:
        """Run an action in the critical section, or at its end if this thread is in it already.

        An action does not wait.
        """
        if self._is_interrupting:
            self._late.append(action)
            return
        with self.lock:
            # What was put aside was handed in before.
            self._take_late()
            action()
            self._take_late()

    @property
    def _is_interrupting(self) -> bool:
        """Whether this thread holds the lock, so that the caller has interrupted it."""
        is_owned: bool = self.lock._is_owned()  # type: ignore[attr-defined]  # noqa: SLF001
        return is_owned

    def _take_late(self) -> None:
        while self._late:
            action = self._late.popleft()
            try:
                action()
            except Exception:  # noqa: BLE001  it would be raised in an unrelated part of the program
                self.dropped += 1

    def put_step(self, counter: RunCounter, item: ReportItem) -> bool:
        """Hand in a step; return False if its run has ended, and the step was not counted."""
        if self._is_interrupting:
            if counter.is_ended:
                return False
            self._late.append(partial(self._take_step, counter, item))
            return True
        with self.lock:
            if self._loss is LossPolicy.BLOCK:
                self._wait_while_longer(self._limit)
            if self._late:
                self._take_late()
            if counter.is_ended:
                return False
            self._take_step(counter, item)
            if self._late:
                self._take_late()
            return True

    def _take_step(self, counter: RunCounter, item: ReportItem) -> None:
        # From here on a kill makes the step a lost one.
        _count_step(counter)
        if len(self._items) >= self._limit and self._loss is LossPolicy.DROP:
            counter.dropped += 1
            self.dropped += 1
            if counter.slot is not None:
                counter.slot.store_counts(counter.handed_in, counter.dropped)
            return
        self.append(counter, item)

    def _wait_while_longer(self, limit: int) -> None:
        # The collector also runs in the writer, which would wait for itself.
        while len(self._items) >= limit and not self._is_stopping and get_ident() != self._reader:
            self._emptied.wait(_LONGEST_WAIT_S)

    def count_direct(self, counter: RunCounter) -> bool:
        """Count a step that its caller records itself; return False if its run has ended."""
        if self._is_interrupting:
            if counter.is_ended:
                return False
            self._late.append(partial(_count_step, counter))
            return True
        with self.lock:
            if counter.is_ended:
                return False
            _count_step(counter)
            self._take_late()
            return True

    def count_refused(self, counter: RunCounter) -> None:
        """Note that a step that was handed in cannot be recorded."""

        def count() -> None:
            counter.refused += 1

        self.run_locked(count)

    def enter_direct(self, counter: RunCounter) -> bool:
        """Note that this thread records a step itself; return False if its run is closing."""
        with self.lock:
            counter.direct += not counter.is_sealed
            return not counter.is_sealed

    def leave_direct(self, counter: RunCounter) -> None:
        """Note that this thread has recorded its step."""
        with self.lock:
            counter.direct -= 1
            self._emptied.notify_all()

    def seal(self, counter: RunCounter) -> None:
        """Wait for the threads that record steps of a run, and let no more of them begin.

        The close of a run lists the ends of its strands: none of them may grow meanwhile.
        """
        with self.lock:
            counter.is_sealed = True
            while counter.direct:
                self._emptied.wait(_LONGEST_WAIT_S)

    def wait_for_room(self) -> None:
        """Wait while the queue is much too full: many short runs would fill the memory."""
        if not self._is_interrupting:
            with self.lock:
                self._wait_while_longer(2 * self._limit)

    def put_control(self, counter: RunCounter, item: ReportItem) -> None:
        """Hand in something that is never dropped, and that the caller has counted."""
        self.wait_for_room()
        self.run_locked(partial(self.append, counter, item))

    def append(self, counter: RunCounter, item: ReportItem) -> None:
        """Queue an item, in an action of `run_locked`."""
        self._items.append((counter, item))
        self._put += 1
        if self._is_waiting:
            self._filled.notify()

    def take_batch(self) -> list[tuple[RunCounter, ReportItem]]:
        """Wait for items, and return up to `MAX_BATCH_ITEMS`; empty when the queue has stopped."""
        self._reader = get_ident()
        with self.lock:
            self._take_late()
            while not self._items and not self._is_stopping:
                self._is_waiting = True
                self._filled.wait(_LONGEST_WAIT_S)
                self._take_late()
            self._is_waiting = False
            if not self._is_urgent and not self._is_stopping and len(self._items) < self._limit:
                # The first item of a burst: wait a little, without a wake-up for each item.
                self._filled.wait(_GATHER_S)
            self._take_late()
            count = min(len(self._items), MAX_BATCH_ITEMS)
            batch = [self._items.popleft() for _ in range(count)]
            self._emptied.notify_all()
            return batch

    def mark_done(self, count: int) -> None:
        """Note that the writer is done with some items."""
        with self.lock:
            self._done += count
            self._emptied.notify_all()

    def wait_until_done(self, seconds: float) -> bool:
        """Wait until everything queued so far is recorded or refused; return whether it is."""
        if self._is_interrupting:
            return False  # the writer cannot go on before this thread does
        deadline = monotonic() + seconds
        with self.lock:
            self._take_late()
            target = self._put
            self._is_urgent = True
            self._filled.notify()
            try:
                while self._done < target:
                    left = deadline - monotonic()
                    if left <= 0:
                        return False
                    self._emptied.wait(min(left, _LONGEST_WAIT_S))
            finally:
                self._is_urgent = False
            return True

    def stop(self) -> None:
        """Let the writer end once the queue is empty."""
        self.run_locked(self._stop)

    def _stop(self) -> None:
        self._is_stopping = True
        self._filled.notify_all()
        self._emptied.notify_all()


def _count_step(counter: RunCounter) -> None:
    counter.handed_in += 1
    if counter.slot is not None:
        counter.slot.store_handed_in(counter.handed_in)
