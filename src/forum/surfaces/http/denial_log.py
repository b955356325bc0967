"""Record denied requests: the first one immediately, then a count per minute.

Any client can be denied, any number of times.  So what an unauthenticated client can add to the log
is bounded by the number of operations, not by the number of requests.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from forum.errors import BacklogFull, StoreConnectionLost, StoreFailed
from forum.ledger.kinds import AccessDenialFacts, DenialReason
from forum.surfaces.http.tenant import Tenant

WINDOW_S = 60.0
MAX_DENIAL_KEYS = 1000
"""Above this number of distinct denials in a window, further ones are counted together."""
OTHER_PRINCIPALS = "others"


@dataclass(frozen=True, slots=True)
class _DenialKey:
    """The denials that are counted together."""

    tenant: Tenant
    who: str
    why: DenialReason
    surface: str


class DenialRecorder:
    """Counts denials and records them.  Bound to one event loop."""

    def __init__(self, window: float = WINDOW_S) -> None:
        self._window = window
        self._pending: dict[_DenialKey, int] = {}
        """Denials since the last entry, for each key with an entry in this window."""

    async def record(self, tenant: Tenant, principal: str, why: DenialReason, surface: str) -> None:
        """Count a denial; if it is the first of its window, it is recorded when this returns."""
        case = _DenialKey(tenant, principal, why, surface)
        if len(self._pending) >= MAX_DENIAL_KEYS and case not in self._pending:
            case = _DenialKey(tenant, OTHER_PRINCIPALS, why, surface)
        is_first = case not in self._pending
        self._pending[case] = self._pending.get(case, 0) + 1
        if is_first:
            await self._append_entry(case)

    @asynccontextmanager
    async def flush_periodically(self) -> AsyncIterator[None]:
        """Record the counts once per window, and at the end of the block."""
        watching = asyncio.create_task(self._flush_loop())
        try:
            yield
        finally:
            watching.cancel()
            await self.flush()

    async def flush(self) -> None:
        """Record all pending counts; forget the keys without denials since the last flush."""
        for case in list(self._pending):
            # Looked up again, because denials may have been added while others were recorded.
            if self._pending.get(case):
                await self._append_entry(case)
            else:
                self._pending.pop(case, None)

    async def _flush_loop(self) -> None:
        while True:
            await asyncio.sleep(self._window)
            # Denials that could not be recorded stay counted for the next window.
            with suppress(BacklogFull, StoreFailed, StoreConnectionLost):
                await self.flush()

    async def _append_entry(self, case: _DenialKey) -> None:
        # Reset before the append, so that a concurrent
        # flush does not record the same denials again.
        times, self._pending[case] = self._pending[case], 0
        denied = AccessDenialFacts(case.who, case.why, case.surface, times)
        try:
            await asyncio.to_thread(case.tenant.forum.access.record_denial, denied, case.who)
        except Exception:
            self._pending[case] = self._pending.get(case, 0) + times
            raise
