"""Those who were turned away: the first time is on record at once, and then a number a minute.

Anybody can be turned away, and as often as anybody likes: what a stranger can have written is
bounded by the number of operations, and not by the number of requests.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from forum.errors import BacklogFull, StoreConnectionLost, StoreFailed
from forum.ledger import AccessDenialFacts, DenialReason
from forum.surfaces.http.tenant import Tenant

WINDOW_S = 60.0
MAX_DENIAL_KEYS = 1000
"""Those who come within a window when so many others have, are counted together."""
OTHER_PRINCIPALS = "others"


@dataclass(frozen=True, slots=True)
class _DenialKey:
    """What is counted together."""

    desk: Tenant
    who: str
    why: DenialReason
    door: str


class DenialRecorder:
    """Counts, and puts on record.  It belongs to one event loop."""

    def __init__(self, window: float = WINDOW_S) -> None:
        self._window = window
        self._pending: dict[_DenialKey, int] = {}
        """How often since the last entry, for each of which there was one in this window."""

    async def record(self, desk: Tenant, who: str, why: DenialReason, door: str) -> None:
        """Count one; it is on record when this returns, if it is the first of its window."""
        case = _DenialKey(desk, who, why, door)
        if len(self._pending) >= MAX_DENIAL_KEYS and case not in self._pending:
            case = _DenialKey(desk, OTHER_PRINCIPALS, why, door)
        is_first = case not in self._pending
        self._pending[case] = self._pending.get(case, 0) + 1
        if is_first:
            await self._append_entry(case)

    @asynccontextmanager
    async def flush_periodically(self) -> AsyncIterator[None]:
        """Have what is counted told once in each window, and at the end."""
        watching = asyncio.create_task(self._flush_loop())
        try:
            yield
        finally:
            watching.cancel()
            await self.flush()

    async def flush(self) -> None:
        """Put on record what is not; forget what did not happen since the last time."""
        for case in list(self._pending):
            # Asked now: while others were told, it may have happened again.
            if self._pending.get(case):
                await self._append_entry(case)
            else:
                self._pending.pop(case, None)

    async def _flush_loop(self) -> None:
        while True:
            await asyncio.sleep(self._window)
            # What could not be written is still counted, and told in the next window.
            with suppress(BacklogFull, StoreFailed, StoreConnectionLost):
                await self.flush()

    async def _append_entry(self, case: _DenialKey) -> None:
        # Taken before it is told: whoever tells in the meantime must not tell the same again.
        times, self._pending[case] = self._pending[case], 0
        denied = AccessDenialFacts(case.who, case.why, case.door, times)
        try:
            await asyncio.to_thread(case.desk.forum.record_denial, denied, case.who)
        except Exception:
            self._pending[case] = self._pending.get(case, 0) + times
            raise
