"""Worker slots: they limit how many tasks one process drives at once."""

import asyncio


class WorkerSlot:
    """The slot of one task.

    A stopped task proceeds without a slot, because it starts nothing new.
    """

    def __init__(self, free: asyncio.Semaphore, halt: asyncio.Event) -> None:
        self._free, self._halt, self._taken = free, halt, False

    async def acquire(self) -> None:
        """Wait for a free slot, or until the task is stopped."""
        taking = asyncio.ensure_future(self._free.acquire())
        halted = asyncio.ensure_future(self._halt.wait())
        try:
            await asyncio.wait((taking, halted), return_when=asyncio.FIRST_COMPLETED)
        finally:
            halted.cancel()
            # `cancel` returns False if the future is done: then the semaphore was acquired, perhaps
            # in the same moment as the stop, and must be released later.
            self._taken = not taking.cancel() and taking.result()

    def release(self) -> None:
        """Release the slot if it is held."""
        if self._taken:
            self._taken = False
            self._free.release()
