"""Rate limiter for calls to a provider, shared by all callers that use the same server and key.

After a throttled reply (429), no call starts until the pause is over.  Then calls are admitted as
in TCP slow start: first one, and two more for each success.  A burst that was refused once is thus
not repeated as a burst.

Limiters are shared by all threads of the process and by all their event loops.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Lock

MIN_PAUSE_S = 1.0
MAX_PAUSE_S = 60.0


@dataclass(eq=False, slots=True)
class QueueTicket:
    """A caller's position: first in the queue, then among the calls in flight."""

    at_once: int
    """Maximum number of concurrent calls, including this one; 0 means unlimited."""
    wake: Callable[[], object] = field(repr=False)
    era: int = -1
    """The era in which the caller was admitted; -1 while it waits.  An era ends with a refusal."""

    @property
    def is_admitted(self) -> bool:
        """Whether the caller was admitted."""
        return self.era >= 0


class RateLimiter:
    """Decides which callers may start a call now and which must wait."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._queue: deque[QueueTicket] = deque()
        self._calling = 0
        self._closed_until = 0.0
        self._pause = MIN_PAUSE_S
        self._window: int | None = None
        """Current congestion window (slow start); None when unlimited."""
        self._era = 0

    @asynccontextmanager
    async def admit(self, at_once: int, seconds: float) -> AsyncIterator[QueueTicket]:
        """Wait for admission and hold it during the block.

        Raises `TimeoutError` if it takes too long.
        """
        deadline = self._clock() + seconds
        loop, woken = asyncio.get_running_loop(), asyncio.Event()
        place = QueueTicket(at_once, partial(loop.call_soon_threadsafe, woken.set))
        self.enqueue(place)
        try:
            while (wait := self.wait_time(place)) is None or wait > 0:
                left = deadline - self._clock()
                if left <= 0:
                    raise TimeoutError
                woken.clear()
                with suppress(TimeoutError):
                    # Between `wait_time` and `clear` another thread may have admitted this caller.
                    # The wake-up is scheduled on this event loop, so it arrives after `clear`.
                    async with asyncio.timeout(left if wait is None else min(left, wait)):
                        await woken.wait()
            yield place
        finally:
            self.release(place)

    def enqueue(self, place: QueueTicket) -> None:
        """Add a caller at the end of the queue."""
        with self._lock:
            self._queue.append(place)

    def wait_time(self, place: QueueTicket) -> float | None:
        """Admit all callers that may start, then return how long this caller must still wait.

        Returns 0 when the caller is admitted, and None when it waits for another call to end.
        """
        with self._lock:
            self._admit_waiting()
            if place.is_admitted:
                return 0.0
            closed = self._closed_until - self._clock()
            return closed if closed > 0 else None

    def report_throttled(self, place: QueueTicket, milliseconds: int) -> None:
        """Stop admissions for the requested delay, or for the current backoff if none was given."""
        with self._lock:
            # Calls admitted before the first refusal belong to the same
            # burst: their refusals must not double the backoff again.
            anew = place.era == self._era
            pause = milliseconds / 1000 or (self._pause if anew else 0.0)
            self._closed_until = max(self._closed_until, self._clock() + pause)
            if anew:
                self._pause = min(2 * self._pause, MAX_PAUSE_S)
                self._era += 1
                self._window = 1
            # Wake the callers that wait for a free slot: they must now wait for the clock.
            for waiting in self._queue:
                with suppress(RuntimeError):
                    waiting.wake()

    def report_success(self, place: QueueTicket) -> None:
        """Widen the window by one and reset the backoff."""
        with self._lock:
            # A call of an earlier era says nothing about the state after the last refusal.
            if place.era != self._era:
                return
            self._pause = MIN_PAUSE_S
            if self._window is not None:
                self._window += 1
                # The window is larger than the demand: slow start is over.
                if self._window > self._calling + len(self._queue):
                    self._window = None

    def release(self, place: QueueTicket) -> None:
        """Give back the slot, or leave the queue, and admit the next callers."""
        with self._lock:
            if place.is_admitted:
                self._calling -= 1
            elif place in self._queue:
                self._queue.remove(place)
            self._admit_waiting()

    def _admit_waiting(self) -> None:
        while self._queue and self._has_room(self._queue[0]):
            place = self._queue.popleft()
            try:
                place.wake()
            except RuntimeError:
                continue  # its event loop is closed, so no task waits for it
            place.era = self._era
            self._calling += 1

    def _has_room(self, place: QueueTicket) -> bool:
        limits = (place.at_once or None, self._window)
        free = all(limit is None or self._calling < limit for limit in limits)
        return free and self._closed_until <= self._clock()


_limiters: dict[tuple[str, str], RateLimiter] = {}
_limiters_lock = Lock()


def rate_limiter_for(server: str, key: str) -> RateLimiter:
    """Return the limiter shared by all callers of a server that use the key of this name."""
    with _limiters_lock:
        return _limiters.setdefault((server, key), RateLimiter())
