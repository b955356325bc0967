"""Those who were turned away: the first time is on record at once, and then a number a minute.

Anybody can be turned away, and as often as anybody likes: what a stranger can have written is
bounded by the number of operations, and not by the number of requests.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from forum.errors import Backlogged, StoreFailed, StoreLost
from forum.ledger import AccessDenied, Denial
from forum.surfaces.http.desk import Desk

WINDOW_SECONDS = 60.0
MOST_CASES = 1000
"""Those who come within a window when so many others have, are counted together."""
OTHERS = "others"


@dataclass(frozen=True, slots=True)
class _Case:
    """What is counted together."""

    desk: Desk
    who: str
    why: Denial
    door: str


class Denials:
    """Counts, and puts on record.  It belongs to one event loop."""

    def __init__(self, window: float = WINDOW_SECONDS) -> None:
        self._window = window
        self._untold: dict[_Case, int] = {}
        """How often since the last entry, for each of which there was one in this window."""

    async def note(self, desk: Desk, who: str, why: Denial, door: str) -> None:
        """Count one; it is on record when this returns, if it is the first of its window."""
        case = _Case(desk, who, why, door)
        if len(self._untold) >= MOST_CASES and case not in self._untold:
            case = _Case(desk, OTHERS, why, door)
        is_first = case not in self._untold
        self._untold[case] = self._untold.get(case, 0) + 1
        if is_first:
            await self._tell(case)

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Have what is counted told once in each window, and at the end."""
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            await self.flush()

    async def flush(self) -> None:
        """Put on record what is not; forget what did not happen since the last time."""
        for case in list(self._untold):
            # Asked now: while others were told, it may have happened again.
            if self._untold.get(case):
                await self._tell(case)
            else:
                self._untold.pop(case, None)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._window)
            # What could not be written is still counted, and told in the next window.
            with suppress(Backlogged, StoreFailed, StoreLost):
                await self.flush()

    async def _tell(self, case: _Case) -> None:
        # Taken before it is told: whoever tells in the meantime must not tell the same again.
        times, self._untold[case] = self._untold[case], 0
        denied = AccessDenied(case.who, case.why, case.door, times)
        try:
            await asyncio.to_thread(case.desk.forum.deny, denied, case.who)
        except Exception:
            self._untold[case] = self._untold.get(case, 0) + times
            raise
