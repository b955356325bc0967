"""The API keys of all ledgers of a server, cached for a moment.

A known key is checked against a recent read of its own ledger, whatever the other databases do.
For an unknown key, all ledgers are read, together and within a time limit: neither the response nor
its timing depends on the ledger that the key names.  So an attacker cannot learn which ledgers a
server has, not even while one of their databases is unavailable.
"""

import asyncio
from collections.abc import Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from math import inf
from time import monotonic

from forum.errors import ForumError, StoreFailed
from forum.ledger.access import AccessState, ApiKey
from forum.ledger.database_memory import DatabaseMemory
from forum.surfaces.http.tenant import Tenant

_PAUSE_SECONDS = 0.05
"""Minimum time between two reads of a ledger's keys."""
_PATIENCE_SECONDS = 2.0
"""How long a round waits for a ledger."""
_LITTLE_PATIENCE_SECONDS = 0.5
"""The same for a ledger whose database does not answer its monitor: it may just be slow."""
_NO_KEYS = AccessState()


class _LedgerKeys:
    """The keys of one ledger."""

    def __init__(self, tenant: Tenant, threads: Executor) -> None:
        self._tenant, self._threads = tenant, threads
        self._access: DatabaseMemory[AccessState] = DatabaseMemory(
            tenant.forum.store.lineage, lambda: _NO_KEYS
        )
        self.failed: ForumError | None = None
        """The error of the last read, if it failed."""
        self._read_at = -inf
        """When the last read began."""
        self._reading: asyncio.Task[None] | None = None

    @property
    def access(self) -> AccessState:
        """The keys, as of the last read."""
        return self._access.value

    @property
    def patience(self) -> float:
        """How long a round should wait for this ledger, in seconds."""
        return _PATIENCE_SECONDS if self._tenant.monitor.is_available else _LITTLE_PATIENCE_SECONDS

    def knows(self, key: ApiKey) -> bool:
        """Return whether a key with this id was granted, as of the last read."""
        return key.id in self.access.granted

    async def check(self, fresh_seconds: float) -> AccessState:
        """Return the keys, not older than `fresh_seconds`.  Raises the error of a failed read."""
        arrived = monotonic()
        # A failure is not cached, so that requests succeed as soon as the database answers again.
        await self.read(arrived if self.failed else arrived - fresh_seconds)
        if self.failed:
            raise self.failed.with_traceback(None)
        return self.access

    async def read(self, since: float) -> None:
        """Read the keys, unless a read that began at `since` or later has ended."""
        while self._read_at < since:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._read())
            # Requests share one read, so that a database that hangs holds only one thread.
            # `shield`: a client that disconnects must not cancel the read of the others.
            await asyncio.shield(self._reading)

    async def _read(self) -> None:
        # The pause keeps requests with invented key ids from flooding the store with reads.
        await asyncio.sleep(self._read_at + _PAUSE_SECONDS - monotonic())
        began, loop = monotonic(), asyncio.get_running_loop()
        try:
            forum = self._tenant.forum
            self._access.value = await loop.run_in_executor(
                self._threads, forum.access.read_access, self.access
            )
            self.failed = None
        except ForumError as error:
            self.failed = error
        finally:
            self._read_at = began


class _Round:
    """One read of all ledgers, shared by all requests that arrived before it began."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.reads: dict[str, asyncio.Task[None]] = {}
        self.task: asyncio.Task[None] | None = None
        self.is_complete = False
        """Whether every ledger could be read."""


class KnownKeys:
    """The keys of all ledgers of a server.  Bound to one event loop."""

    def __init__(self, tenants: Iterable[Tenant]) -> None:
        served = {tenant.forum.access.tenants: tenant for tenant in tenants}
        # One thread per ledger: databases that hang take none from the others.
        threads = ThreadPoolExecutor(len(served), "forum-keys")
        keys = {names: _LedgerKeys(tenant, threads) for names, tenant in served.items()}
        self._ledgers = {name: ledger for names, ledger in keys.items() for name in names}
        self._next: _Round | None = None
        """The round that has not begun yet, which new requests join."""
        self._lock = asyncio.Lock()

    async def access(
        self, key: ApiKey, fresh_seconds: float, *, is_probe: bool = False
    ) -> AccessState:
        """Return the keys of the ledger that a key names; empty if the key is unknown.

        For a probe, a known key is good as it was last read if its database does not answer at
        once: what the probe answers tells of that very outage.  Raises `StoreFailed` for an
        unknown key while any ledger cannot be read.
        """
        own = self._ledgers.get(key.ledger)
        if own is not None and own.knows(key):
            if not is_probe:
                return await own.check(fresh_seconds)
            with suppress(TimeoutError, StoreFailed):
                async with asyncio.timeout(_LITTLE_PATIENCE_SECONDS):
                    return await own.check(fresh_seconds)
            return own.access
        # An unknown key may have been created just now, so it is never judged by the cache.
        turn = self._join_round()
        await turn.begun.wait()
        if key.ledger in turn.reads:
            await _wait_for_first(turn.reads[key.ledger], turn.task)
        if own is not None and own.knows(key):
            return await own.check(fresh_seconds)
        # Wait for all ledgers and not only for the named one: the timing must not reveal it.
        await _wait_for_first(turn.task)
        if not turn.is_complete:
            raise StoreFailed("reading keys", "a database of this server does not answer")
        return _NO_KEYS

    def _join_round(self) -> _Round:
        if self._next is None:
            self._next = _Round()
            self._next.task = asyncio.create_task(self._carry_out(self._next))
        return self._next

    async def _carry_out(self, turn: _Round) -> None:
        try:
            async with self._lock:
                self._next = None
                since = monotonic()
                reads = {
                    name: asyncio.create_task(self._read_within(ledger, since))
                    for name, ledger in self._ledgers.items()
                }
                turn.reads = reads
                turn.begun.set()
                await asyncio.wait(reads.values())
                turn.is_complete = all(
                    read.exception() is None and ledger.failed is None
                    for read, ledger in zip(reads.values(), self._ledgers.values(), strict=True)
                )
        finally:
            if self._next is turn:  # cancelled before it began: no other request may join it
                self._next = None
            turn.begun.set()

    async def _read_within(self, ledger: _LedgerKeys, since: float) -> None:
        async with asyncio.timeout(ledger.patience):
            await ledger.read(since)


async def _wait_for_first(*tasks: asyncio.Task[None] | None) -> None:
    """Wait until one of the tasks has ended; cancelling the wait cancels none of them."""
    await asyncio.wait({task for task in tasks if task}, return_when=asyncio.FIRST_COMPLETED)
