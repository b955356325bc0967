"""Worker slots: they limit how many tasks one process drives at once."""

import asyncio
from collections import deque
from contextlib import suppress


class TaskLimit:
    """The number of tasks that may hold a slot at once; it can change while they wait."""

    def __init__(self, most: int) -> None:
        self._most, self._held = most, 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def wanted(self) -> int:
        """How many tasks hold a slot or wait for one."""
        return self._held + len(self._waiting)

    async def acquire(self) -> bool:
        """Wait until fewer tasks than allowed hold a slot, the longest waiting first."""
        if self._held < self._most and not self._waiting:
            self._held += 1
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                with suppress(ValueError):  # skipped by `_admit` meanwhile
                    self._waiting.remove(waiter)
            else:
                self.release()  # admitted in the moment of the cancellation
            raise
        return True

    def release(self) -> None:
        """Let another task have the slot."""
        self._held -= 1
        self._admit()

    def resize(self, most: int) -> None:
        """Change the number of slots; tasks beyond it keep theirs."""
        self._most = most
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._held < self._most:
            waiter = self._waiting.popleft()
            if not waiter.done():
                self._held += 1
                waiter.set_result(None)


class WorkerSlot:
    """The slot of one task.

    A stopped task proceeds without a slot, because it starts nothing new.
    """

    def __init__(self, free: TaskLimit, halt: asyncio.Event) -> None:
        self._free, self._halt = free, halt
        self._taken = False

    async def acquire(self) -> None:
        """Wait for a free slot, or until the task is stopped."""
        taking = asyncio.ensure_future(self._free.acquire())
        halted = asyncio.ensure_future(self._halt.wait())
        try:
            await asyncio.wait((taking, halted), return_when=asyncio.FIRST_COMPLETED)
        finally:
            halted.cancel()
            # `cancel` returns False if the future is done: then the slot was acquired, perhaps
            # in the same moment as the stop, and must be released later.
            self._taken = not taking.cancel() and taking.result()

    def release(self) -> None:
        """Release the slot if it is held."""
        if self._taken:
            self._taken = False
            self._free.release()
