"""Divide what a process has between ledgers, and within a ledger between keys.

A share is a limit and no reservation: what nobody uses is there for everybody, up to the share.
Everything here is used on the event loop of a server only.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

from forum.errors import ProcessFull, ShareExceeded


class Requester(NamedTuple):
    """Who asks: a ledger, and a key of it."""

    ledger: str
    key: str


ANONYMOUS: Final = Requester("", "")
"""Everybody who has shown no key."""
current_client: ContextVar[Requester] = ContextVar("current_client", default=ANONYMOUS)
"""The client of the request that this task answers."""


class Shares(NamedTuple):
    """The most that may be held at once: in all, by one ledger, by one key."""

    total: int
    ledger: int
    key: int


def divide(total: int, ledgers: int, least: int = 0) -> Shares:
    """Return the shares of a total: a tenth of it for a key, an equal part for a ledger.

    The parts of all ledgers leave a tenth free.  Where there are many ledgers, a part is a tenth of
    the total too.  No share is less than `least`.
    """
    key = max(1, least, total // 10)
    return Shares(total, max(key, 9 * total // (10 * max(1, ledgers))), key)


class Meter:
    """Counts what clients hold of something that is divided."""

    def __init__(self, name: str, shares: Shares) -> None:
        self.name, self.shares = name, shares
        self.held = 0
        self.refused: Counter[str] = Counter()
        """Refusals by whose share was exceeded."""
        self._by_ledger: Counter[str] = Counter()
        self._by_key: Counter[Requester] = Counter()

    def take(self, client: Requester, amount: int = 1) -> None:
        """Count an amount as held.

        Raises `ShareExceeded` and `ProcessFull`, and then holds nothing of it.
        """
        limits = (
            ("key", self._by_key[client], self.shares.key),
            ("ledger", self._by_ledger[client.ledger], self.shares.ledger),
        )
        for whose, held, most in limits:
            if held + amount > most:
                self.refused[whose] += 1
                raise ShareExceeded(self.name, whose, most)
        if self.held + amount > self.shares.total:
            self.refused["process"] += 1
            raise ProcessFull(self.name, self.shares.total)
        self._add(client, amount)

    def give_back(self, client: Requester, amount: int = 1) -> None:
        """Count an amount as free again."""
        self._add(client, -amount)

    def held_by(self, ledger: str) -> int:
        """Return what one ledger holds."""
        return self._by_ledger[ledger]

    def _add(self, client: Requester, amount: int) -> None:
        self.held += amount
        self._by_ledger[client.ledger] += amount
        self._by_key[client] += amount
        if not self._by_key[client]:
            del self._by_key[client]
        if not self._by_ledger[client.ledger]:
            del self._by_ledger[client.ledger]


class FairSlots:
    """A few slots, which waiting clients get in turn: by ledger first, then by key.

    One ledger has all slots but one at most, so that another never waits for all of its work.
    """

    def __init__(self, count: int) -> None:
        self._free, self._most = count, max(1, count - 1)
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, dict[str, deque[asyncio.Future[None]]]] = {}
        """In the order of turns: whoever got a slot goes to the end."""

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Hold a slot for the current client, after its turn has come."""
        client = current_client.get()
        await self._enter(client)
        try:
            yield
        finally:
            self._leave(client.ledger)

    async def _enter(self, client: Requester) -> None:
        turn = asyncio.get_running_loop().create_future()
        keys = self._waiting.setdefault(client.ledger, {})
        keys.setdefault(client.key, deque()).append(turn)
        self._give_turns()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the slot came at the same moment
                self._leave(client.ledger)
            raise

    def _leave(self, ledger: str) -> None:
        self._free += 1
        self._held[ledger] -= 1
        if not self._held[ledger]:
            del self._held[ledger]
        self._give_turns()

    def _give_turns(self) -> None:
        while self._free:
            ledgers = (ledger for ledger in self._waiting if self._held[ledger] < self._most)
            ledger = next(ledgers, None)
            if ledger is None:
                return
            turn = self._next_turn(ledger)
            if not turn.done():  # whoever is gone had it cancelled
                self._free -= 1
                self._held[ledger] += 1
                turn.set_result(None)

    def _next_turn(self, ledger: str) -> "asyncio.Future[None]":
        keys = self._waiting.pop(ledger)
        key = next(iter(keys))
        turns = keys.pop(key)
        turn = turns.popleft()
        if turns:
            keys[key] = turns
        if keys:
            self._waiting[ledger] = keys
        return turn
