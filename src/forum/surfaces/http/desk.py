"""One ledger as a server holds it: what its handlers call, and what follows its log."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager

from starlette.concurrency import run_in_threadpool

from forum.app import Forum
from forum.engine import Order
from forum.staff import Ask, Staff
from forum.surfaces.http.deltas import Deltas
from forum.surfaces.http.tail import Tail

_A_TURN = 8
"""How many requests are taken on before the loop looks after something else."""

Hold = Callable[[], AbstractContextManager[object]]


class Turnstile:
    """Lets a few through in each turn of the event loop, so that nobody else waits for all."""

    def __init__(self, few: int) -> None:
        self._places = asyncio.Semaphore(few)

    async def enter(self) -> None:
        """Wait for a place; it is free again in the next turn."""
        await self._places.acquire()
        asyncio.get_running_loop().call_soon(self._places.release)


class Desk:
    """A ledger with those who work for it, and an ear at its log."""

    def __init__(self, forum: Forum, hold: Hold | None = None) -> None:
        self.forum = forum
        self.hold: Hold = hold or forum.writing
        """Keeps the ledger open for writing while it is served; it may work on runs too."""
        self.staff = Staff(forum.settings)
        self.tail = Tail(forum.store)
        self.deltas = Deltas()
        self.turnstile = Turnstile(_A_TURN)

    async def order(self, ask: Ask) -> Order:
        """Return what is to be carried out; a server of tools or a model may have to be asked."""
        return await run_in_threadpool(self.staff.order, ask)
