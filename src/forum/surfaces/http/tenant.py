"""One ledger in a server: the services that its handlers use, and the follower of its log."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

from starlette.concurrency import run_in_threadpool

from forum.app import Forum
from forum.app.planner import AgentRegistry
from forum.app.served_configuration import record_configuration
from forum.engine import IdempotencyKey, RunRequest
from forum.errors import StoreFailed
from forum.ledger.conditions import Ability
from forum.runs.team_settings import TeamSettings
from forum.surfaces.cpu_limits import run_cpu_bounded
from forum.surfaces.http.delta_queue import DeltaBroadcaster
from forum.surfaces.http.log_follower import LogFollower
from forum.surfaces.logs import LOG, format_error_line

_ADMITTED_PER_LOOP_ITERATION = 4
"""Requests admitted per iteration of the event loop, before it serves other tasks."""

_WORKER_POLL_INTERVAL_S = 2.0
_MAX_MISSED_LOOKS = 5
"""How often a worker may not be seen before it counts as gone: after the database was away, it
takes a moment until the workers have renewed their leases."""

HoldOpen = Callable[[], AbstractContextManager[object]]


class AdmissionLimiter:
    """Limits admissions per iteration of the event loop, so that a burst blocks no other task."""

    def __init__(self, few: int) -> None:
        self._places = asyncio.Semaphore(few)

    async def wait_for_slot(self) -> None:
        """Wait for a slot, which is free again in the next iteration of the event loop."""
        await self._places.acquire()
        asyncio.get_running_loop().call_soon(self._places.release)


class Tenant:
    """A ledger with its agents, its log follower and its limits."""

    def __init__(
        self, forum: Forum, hold: HoldOpen | None = None, team: TeamSettings | None = None
    ) -> None:
        """Take a ledger, and the settings of its team if they are not those of its file."""
        self.forum = forum
        self.hold: HoldOpen = hold or forum.log.open_writer
        """Keeps the ledger open for writing while it is served; may also run a worker."""
        self.registry = AgentRegistry(forum.settings, team)
        self.log_follower = LogFollower(forum.store)
        self.deltas = DeltaBroadcaster()
        self.admission = AdmissionLimiter(_ADMITTED_PER_LOOP_ITERATION)
        self.monitor = forum.monitor
        self.warm_up_error = "the router is being loaded"
        """Why the router is not ready; empty when it is."""

        self.has_worker = True
        """Whether a worker was seen when it was last looked for, possibly a moment ago."""
        self._missed_looks = _MAX_MISSED_LOOKS  # at the start, the first look decides

    async def watch_workers(self) -> None:
        """Look for workers until cancelled, and log when the last one is gone or one is back.

        A server accepts runs without a worker, because any number of either may come and go.
        """
        while True:
            with suppress(StoreFailed):
                await self.look_for_worker()
            await asyncio.sleep(_WORKER_POLL_INTERVAL_S)

    async def look_for_worker(self) -> None:
        """Look once whether a worker carries out the runs of this ledger."""
        try:
            seen = await asyncio.to_thread(lambda: self.forum.reads.has_workers)
        except StoreFailed:
            self._missed_looks = 0
            raise
        self._missed_looks = 0 if seen else self._missed_looks + 1
        if seen == self.has_worker or (not seen and self._missed_looks < _MAX_MISSED_LOOKS):
            return
        self.has_worker = seen
        if seen:
            LOG.info("%s: a worker carries out its runs", self.forum.origin)
        else:
            LOG.warning(
                "%s: no worker is running, so accepted runs wait. Start one with `forum worker`, "
                "or serve and work in one process with `forum up`",
                self.forum.origin,
            )

    def not_ready_reason(self, ability: Ability) -> str:
        """Why this process should receive no requests of a kind; empty when it should."""
        if self.log_follower.closed:
            return "this process is about to end"
        if trouble := self.monitor.find_trouble(ability):
            return trouble.condition.sentence
        return self.warm_up_error if ability is Ability.WRITE else ""

    def record_configuration(self) -> None:
        """Record with which agents, tools and rules this process serves, if that is new."""
        record_configuration(self.forum, self.registry.team_settings, self.registry.roster)

    def warm_up(self) -> None:
        """Load the router before the first request; on failure, log it and stay not ready."""
        try:
            self.registry.warm_up()
        except Exception as error:  # noqa: BLE001  the log has it, and `unready` tells of it
            self.warm_up_error = "the router cannot be loaded"
            LOG.error(
                "%s: %s. Repair it and restart this process",
                self.warm_up_error,
                format_error_line(error),
            )
        else:
            self.warm_up_error = ""

    async def build_run_request(self, build: Callable[[], RunRequest]) -> RunRequest:
        """Return a run request of any size, built in a thread.

        May contact a tool server or a model.  Raises `CheckTooExpensive`, and the errors of
        `build`.
        """
        if self.registry.team_settings.servers:
            # Not in the CPU-bounded pool: a tool server that hangs must not occupy its few threads.
            await run_in_threadpool(self.registry.refresh_server_tools)
        return await run_cpu_bounded(build)

    async def submit(
        self, request: RunRequest, actor: str, make_key: Callable[[], IdempotencyKey | None]
    ) -> str:
        """Submit a run request of any size and return its run."""
        return await run_cpu_bounded(
            lambda: self.forum.runs.submit(request, actor=actor, idempotency_key=make_key())
        )
