"""One ledger as a server holds it: what its handlers call, and what follows its log."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager

from starlette.concurrency import run_in_threadpool

from forum.app import Forum
from forum.engine import Order, Ticket
from forum.staff import Ask, Staff
from forum.surfaces.http.deltas import Deltas
from forum.surfaces.http.tail import Tail
from forum.surfaces.logs import LOG, one_line
from forum.surfaces.preparing import prepare

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
        self.monitor = forum.monitor
        self.unprepared = "the router is being loaded"
        """Why requests would have to wait for something else than the database; empty if not."""

    @property
    def unready(self) -> str:
        """Why no request should be sent here; empty if requests can be."""
        if self.tail.closed:
            return "this process is about to end"
        if not self.monitor.answers:
            return "the database does not answer"
        return self.unprepared

    def make_ready(self) -> None:
        """Load what the first request would have to wait for; without it, none is asked for."""
        try:
            self.staff.make_ready()
        except Exception as error:  # noqa: BLE001  the log has it, and `unready` tells of it
            self.unprepared = "the router cannot be loaded"
            LOG.error(
                "%s: %s. Repair it and restart this process", self.unprepared, one_line(error)
            )
        else:
            self.unprepared = ""

    async def order(self, ask: Callable[[], Ask]) -> Order:
        """Return what is to be carried out, of whatever size.

        A server of tools or a model may have to be asked.  Raises `TooCostly`, and whatever making
        the order raises.
        """
        # A server that does not answer must not keep the threads that others wait for.
        await run_in_threadpool(self.staff.ask_servers)
        return await prepare(lambda: self.staff.order(ask()))

    async def submit(self, order: Order, actor: str, ticket: Callable[[], Ticket | None]) -> str:
        """Have an order of whatever size carried out, and return its run."""
        return await prepare(lambda: self.forum.submit(order, actor=actor, ticket=ticket()))
