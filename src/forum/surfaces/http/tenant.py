"""One ledger as a server holds it: what its handlers call, and what follows its log."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager

from starlette.concurrency import run_in_threadpool

from forum.app import Forum
from forum.engine import IdempotencyKey, RunRequest
from forum.planning import AgentRegistry, ClientRequest
from forum.surfaces.cpu_limits import run_cpu_bounded
from forum.surfaces.http.delta_queue import DeltaBroadcaster
from forum.surfaces.http.log_follower import LogFollower
from forum.surfaces.logs import LOG, format_error_line

_ADMITTED_PER_LOOP_ITERATION = 8
"""How many requests are taken on before the loop looks after something else."""

HoldOpen = Callable[[], AbstractContextManager[object]]


class AdmissionLimiter:
    """Lets a few through in each turn of the event loop, so that nobody else waits for all."""

    def __init__(self, few: int) -> None:
        self._places = asyncio.Semaphore(few)

    async def wait_for_slot(self) -> None:
        """Wait for a place; it is free again in the next turn."""
        await self._places.acquire()
        asyncio.get_running_loop().call_soon(self._places.release)


class Tenant:
    """A ledger with those who work for it, and an ear at its log."""

    def __init__(self, forum: Forum, hold: HoldOpen | None = None) -> None:
        self.forum = forum
        self.hold: HoldOpen = hold or forum.open_writer
        """Keeps the ledger open for writing while it is served; it may work on runs too."""
        self.staff = AgentRegistry(forum.settings)
        self.log_follower = LogFollower(forum.store)
        self.deltas = DeltaBroadcaster()
        self.admission = AdmissionLimiter(_ADMITTED_PER_LOOP_ITERATION)
        self.monitor = forum.monitor
        self.warm_up_error = "the router is being loaded"
        """Why requests would have to wait for something else than the database; empty if not."""

    @property
    def not_ready_reason(self) -> str:
        """Why no request should be sent here; empty if requests can be."""
        if self.log_follower.closed:
            return "this process is about to end"
        if not self.monitor.is_available:
            return "the database does not answer"
        return self.warm_up_error

    def warm_up(self) -> None:
        """Load what the first request would have to wait for; without it, none is asked for."""
        try:
            self.staff.warm_up()
        except Exception as error:  # noqa: BLE001  the log has it, and `unready` tells of it
            self.warm_up_error = "the router cannot be loaded"
            LOG.error(
                "%s: %s. Repair it and restart this process",
                self.warm_up_error,
                format_error_line(error),
            )
        else:
            self.warm_up_error = ""

    async def build_run_request(self, ask: Callable[[], ClientRequest]) -> RunRequest:
        """Return what is to be carried out, of whatever size.

        A server of tools or a model may have to be asked.  Raises `CheckTooExpensive`, and whatever
        making         the order raises.
        """
        # A server that does not answer must not keep the threads that others wait for.
        await run_in_threadpool(self.staff.refresh_server_tools)
        return await run_cpu_bounded(lambda: self.staff.make_run_request(ask()))

    async def submit(
        self, order: RunRequest, actor: str, ticket: Callable[[], IdempotencyKey | None]
    ) -> str:
        """Have an order of whatever size carried out, and return its run."""
        return await run_cpu_bounded(lambda: self.forum.submit(order, actor=actor, ticket=ticket()))
