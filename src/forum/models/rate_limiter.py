"""The gate before a provider: who was told to wait makes everybody wait who has the same key.

After a refusal nobody sends until the pause is over, and then calls are let in as TCP lets in
packets: one, and two more for each that is answered.  So a burst that was refused once is not
sent again as a burst.

Gates are shared by all threads of a process and all their event loops.
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
    """A place in the queue, and then among those who are calling."""

    at_once: int
    """How many may be calling, with this one; 0: any number."""
    wake: Callable[[], object] = field(repr=False)
    era: int = -1
    """In which era it was let in; an era ends with a refusal."""

    @property
    def is_admitted(self) -> bool:
        """Whether it was let in."""
        return self.era >= 0


class RateLimiter:
    """Who may call now, and who has to wait."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._queue: deque[QueueTicket] = deque()
        self._calling = 0
        self._closed_until = 0.0
        self._pause = MIN_PAUSE_S
        self._window: int | None = None
        """How many may call while it is found out how many may call."""
        self._era = 0

    @asynccontextmanager
    async def admit(self, at_once: int, seconds: float) -> AsyncIterator[QueueTicket]:
        """Wait to be let in.  Raises `TimeoutError` when that takes too long."""
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
                    # It may have been let in since, and be woken already: then it looks again.
                    async with asyncio.timeout(left if wait is None else min(left, wait)):
                        await woken.wait()
            yield place
        finally:
            self.release(place)

    def enqueue(self, place: QueueTicket) -> None:
        """Stand behind those who came before."""
        with self._lock:
            self._queue.append(place)

    def wait_time(self, place: QueueTicket) -> float | None:
        """Let in who may come in, and tell for how long this one has to wait; None: for others."""
        with self._lock:
            self._admit_waiting()
            if place.is_admitted:
                return 0.0
            closed = self._closed_until - self._clock()
            return closed if closed > 0 else None

    def report_throttled(self, place: QueueTicket, milliseconds: int) -> None:
        """Close the gate for so long as the provider wants, or as seems right."""
        with self._lock:
            # Those who had been let in before the first refusal are refused with it: one burst.
            anew = place.era == self._era
            pause = milliseconds / 1000 or (self._pause if anew else 0.0)
            self._closed_until = max(self._closed_until, self._clock() + pause)
            if anew:
                self._pause = min(2 * self._pause, MAX_PAUSE_S)
                self._era += 1
                self._window = 1
            # Who waits for somebody to leave has to wait for the clock now.
            for waiting in self._queue:
                with suppress(RuntimeError):
                    waiting.wake()

    def report_success(self, place: QueueTicket) -> None:
        """Open the gate a little more."""
        with self._lock:
            if place.era != self._era:
                return
            self._pause = MIN_PAUSE_S
            if self._window is not None:
                self._window += 1
                if self._window > self._calling + len(self._queue):
                    self._window = None

    def release(self, place: QueueTicket) -> None:
        """Make room for the next one."""
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
                continue  # its event loop is gone, and nobody waits any more
            place.era = self._era
            self._calling += 1

    def _has_room(self, place: QueueTicket) -> bool:
        limits = (place.at_once or None, self._window)
        free = all(limit is None or self._calling < limit for limit in limits)
        return free and self._closed_until <= self._clock()


_limiters: dict[tuple[str, str], RateLimiter] = {}
_limiters_lock = Lock()


def rate_limiter_for(server: str, key: str) -> RateLimiter:
    """Return the gate before a server, for all who have the key of this name."""
    with _limiters_lock:
        return _limiters.setdefault((server, key), RateLimiter())
