"""Places to work at: there are only so many in one process."""

import asyncio


class WorkerSlot:
    """The place of one task.  Who was stopped needs none: nothing new is begun."""

    def __init__(self, free: asyncio.Semaphore, halt: asyncio.Event) -> None:
        self._free, self._halt, self._taken = free, halt, False

    async def acquire(self) -> None:
        """Wait for a place, as long as nobody stops the run."""
        taking = asyncio.ensure_future(self._free.acquire())
        halted = asyncio.ensure_future(self._halt.wait())
        try:
            await asyncio.wait((taking, halted), return_when=asyncio.FIRST_COMPLETED)
        finally:
            halted.cancel()
            self._taken = not taking.cancel() and taking.result()

    def release(self) -> None:
        """Let somebody else have it."""
        if self._taken:
            self._taken = False
            self._free.release()
