"""What a run may still reserve, and the calls that wait until others settle.

The database has the last word: each reservation is charged in the commit of its `report.begin/1`.
This copy in memory decides which calls wait, and spares the database the attempts that would fail.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from typing import Protocol

from forum.errors import CapReached, SpendingFrozen, StoreFailed
from forum.ledger.ports import NO_LIMIT, Amount, BudgetSliceCharge, Spend
from forum.ledger.strand import Strand
from forum.runs.report_kinds import ReportBeginFacts

WAIT_SECONDS = 60.0
"""How long a call waits that would fit once the calls in flight have settled."""


WATCH_SECONDS = 1.0
"""How often a process with calls under a shared cap looks for overruns of other processes."""


@dataclass(slots=True)
class _WaitingCall:
    amount: Amount
    granted: "asyncio.Future[bool]"

    @property
    def is_granted(self) -> bool:
        """Whether the amount is reserved for the call, even if it has not been told yet."""
        return self.granted.done() and not self.granted.cancelled() and self.granted.result()


def expire(limit: asyncio.Timeout) -> None:
    """Let a time limit be over now."""
    with suppress(RuntimeError):  # it is over already
        limit.reschedule(asyncio.get_running_loop().time())


@dataclass(slots=True, eq=False)
class OpenCall:
    """A call that was recorded and not yet settled."""

    strand: Strand
    facts: ReportBeginFacts
    charges: tuple[BudgetSliceCharge, ...] = ()
    overruns: Mapping[str, int] = field(default_factory=dict)
    """How often calls under shared caps were billed too high when this one began, by scope."""
    limit: asyncio.Timeout | None = None
    """The time limit of the call, once it is made."""
    is_ended: bool = False
    """Whether the call must not be made, or not go on, because of the bill of another one."""

    @property
    def scopes(self) -> set[str]:
        """The caps over many runs that the call has reserved of."""
        return {charge.slice.scope for charge in self.charges}

    end_reason: str = "a call of another run under the same cap was billed above its bound"

    def end(self, reason: str = "") -> None:
        """Let the time of the call be over."""
        self.is_ended = True
        self.end_reason = reason or self.end_reason
        if self.limit is not None:
            expire(self.limit)


class Reservations:
    """The cap of a run, the amount used or reserved, and the calls that wait."""

    def __init__(self, cap: Amount, used: Amount) -> None:
        self.cap = cap
        self._used, self._in_flight = used, Amount()
        self._waiting: deque[_WaitingCall] = deque()

    @property
    def left(self) -> Amount:
        """What is neither used nor reserved."""
        return self.cap.minus(self._used)

    @property
    def used(self) -> Amount:
        """What is used or reserved."""
        return self._used

    async def reserve(self, amount: Amount, seconds: float = WAIT_SECONDS) -> bool:
        """Reserve an amount; wait for calls in flight if it would fit once they have settled.

        Return whether it is reserved.
        """
        # First come, first served: otherwise small calls could keep a large one waiting.
        if not self._waiting and self._fits(amount):
            self._take(amount)
            return True
        if not self._may_fit(amount):
            return False
        call = _WaitingCall(amount, asyncio.get_running_loop().create_future())
        self._waiting.append(call)
        try:
            async with asyncio.timeout(seconds):
                return await call.granted
        except TimeoutError:
            # Both may happen in one turn of the loop: what was granted then is used.
            return call.is_granted
        except asyncio.CancelledError:
            if call.is_granted:
                self.settle(amount, Amount())
            raise
        finally:
            with suppress(ValueError):
                self._waiting.remove(call)
            if call.granted.cancelled():
                self._serve_waiting()

    def settle(self, reserved: Amount, spent: Amount) -> None:
        """Replace a reservation by what was spent, and let waiting calls go on."""
        self._used = self._used.plus(spent.minus(reserved))
        self._in_flight = self._in_flight.minus(reserved)
        self._serve_waiting()

    def refuse_waiting(self) -> None:
        """Refuse all calls that wait."""
        while self._waiting:
            call = self._waiting.popleft()
            if not call.granted.done():
                call.granted.set_result(False)

    def _take(self, amount: Amount) -> None:
        self._used, self._in_flight = self._used.plus(amount), self._in_flight.plus(amount)

    def _fits(self, amount: Amount) -> bool:
        return not self._used.plus(amount).exceeds(self.cap)

    def _may_fit(self, amount: Amount) -> bool:
        """Return whether an amount fits if the calls in flight turn out to cost nothing."""
        settled = self._used.minus(self._in_flight)
        # Calls are charged in full before they are made: no settling gives one back.
        settled = settled._replace(calls=self._used.calls)
        return not settled.plus(amount).exceeds(self.cap)

    def _serve_waiting(self) -> None:
        while self._waiting:
            call = self._waiting[0]
            if call.granted.done():
                self._waiting.popleft()
            elif self._fits(call.amount):
                self._take(call.amount)
                self._waiting.popleft()
                call.granted.set_result(True)
            elif not self._may_fit(call.amount):
                self._waiting.popleft()
                call.granted.set_result(False)
            else:
                return


class WatchedCaps(Protocol):
    """What ends calls that are under way."""

    async def check_open(self) -> None:
        """Raise `SpendingFrozen` if nothing may be spent."""
        ...

    async def overruns(self) -> Mapping[str, int]:
        """Return how often calls were billed above their bound, by the scope of the cap."""
        ...


class CallsInFlight:
    """The calls in flight of a process, and what they have reserved of caps over many runs."""

    def __init__(self) -> None:
        self._reserved: dict[str, Spend] = {}
        """By the scope of a cap."""
        self._calls: set[OpenCall] = set()
        self._watch: asyncio.Task[None] | None = None
        self._overruns: Mapping[str, int] = {}
        self._read_at = -inf
        """When the overruns were read."""

    def add(self, call: OpenCall) -> None:
        """Count a call that is recorded."""
        self._calls.add(call)
        for charge in call.charges:
            self._change(charge, 1)

    def remove(self, call: OpenCall) -> None:
        """Count a call that is settled."""
        self._calls.discard(call)
        for charge in call.charges:
            self._change(charge, -1)

    def end_others(self, overrun: OpenCall) -> None:
        """End the calls, of any run, that share a cap with one that was billed above its bound.

        Their bounds cannot hold either, and what they cost more would pass the cap.
        """
        for call in self._calls - {overrun}:
            if call.scopes & overrun.scopes:
                call.end()

    def watch(self, shared: WatchedCaps) -> None:
        """End calls when another process reports an overrun of their cap, or all is frozen."""
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._watch_caps(shared))

    async def recent_overruns(
        self, read_overruns: Callable[[], Awaitable[Mapping[str, int]]]
    ) -> Mapping[str, int]:
        """Return the overruns as they are, or were a moment ago.

        A call is ended when they become more than they were at its beginning.  So to begin with an
        older number can end it for nothing, and cannot let it go on.
        """
        if monotonic() - self._read_at > WATCH_SECONDS:
            await self._read_overruns(read_overruns)
        return self._overruns

    def forget_overruns(self) -> None:
        """Let the next call read the overruns: this process has just reported one."""
        self._read_at = -inf

    async def _read_overruns(
        self, read_overruns: Callable[[], Awaitable[Mapping[str, int]]]
    ) -> Mapping[str, int]:
        begun = monotonic()
        overruns = await read_overruns()
        self._overruns, self._read_at = overruns, begun
        return overruns

    async def _watch_caps(self, shared: WatchedCaps) -> None:
        while calls := await self._open_calls():
            # Without the database nothing is known; calls end by their own limits.
            with suppress(StoreFailed):
                try:
                    await shared.check_open()
                except SpendingFrozen as frozen:
                    for call in calls:
                        call.end(str(frozen))
                charged = [call for call in calls if call.charges]
                overruns = await self._read_overruns(shared.overruns) if charged else {}
                for call in charged:
                    earlier = call.overruns
                    if any(overruns.get(scope, 0) > earlier.get(scope, 0) for scope in call.scopes):
                        call.end()

    async def _open_calls(self) -> list[OpenCall]:
        """Wait for a moment, and return the calls that are still under way."""
        await asyncio.sleep(WATCH_SECONDS)
        return [call for call in self._calls if not call.is_ended]

    def may_give_back(self, error: CapReached) -> bool:
        """Return whether a refused amount fits if the calls in flight turn out to cost nothing."""
        reserved: int = getattr(self._reserved.get(error.scope, Spend()), error.limit)
        return error.used - reserved + error.asked <= error.cap

    def _change(self, charge: BudgetSliceCharge, sign: int) -> None:
        scope = charge.slice.scope
        reserved = self._reserved.get(scope, Spend())
        changed = Spend(*(a + sign * b for a, b in zip(reserved, charge.amount, strict=True)))
        self._reserved[scope] = changed
        if changed == Spend():
            del self._reserved[scope]


def describe_limit(asked: Amount, left: Amount) -> str:
    """Return the name of the limit that an amount does not fit: usd, tokens or calls."""
    for name in Amount._fields:
        if getattr(asked, name) > getattr(left, name):
            return name
    return ""


def is_limited(limit: int) -> bool:
    """Return whether a limit is set."""
    return limit < NO_LIMIT
