"""Deliver webhooks for log entries: at least once, from any number of processes.

The log is the queue.  Pending events are found by following it, and deliveries are recorded in it,
so nothing depends on the memory of a process.  An attempt is made by the process that records it
first; thus processes share the work without knowing each other.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import islice, zip_longest
from typing import Final

import httpx2

from forum.app import Forum
from forum.errors import BacklogFull, ConcurrentUpdate, StoreFailed
from forum.features.webhooks import messages as webhooks
from forum.features.webhooks import retries
from forum.features.webhooks.client import open_client, post_message
from forum.features.webhooks.retries import DeliveryState, PendingDelivery, webhook_strand
from forum.features.webhooks.section import WebhookEvent
from forum.ledger import entry
from forum.ledger.log import find_index
from forum.runs.kinds import AcceptedFacts
from forum.surfaces.http.auth import ServerConfig
from forum.surfaces.http.extensions import ServerExtension
from forum.surfaces.logs import LOG, format_error_line
from forum.tlog import Hash

MAX_CONCURRENT_DELIVERIES: Final = 8
"""Maximum number of concurrent attempts per endpoint, in one process."""
MAX_OPEN_DELIVERIES: Final = 1000
"""Above this number of unfinished deliveries, new events wait in the log."""
POLL_INTERVAL_S: Final = 0.25
DRAIN_TIMEOUT_S: Final = 5.0
_PAGE: Final = 1000
_ACCEPTED_WITHIN: Final = 4
"""Number of entries at the start of a run among which its acceptance is found."""
_EVENT_BY_KIND: Final = {
    b"run.close/1": WebhookEvent.RUN_ENDED,
    b"gate.open/1": WebhookEvent.GATE_OPENED,
    b"budget.alert/1": WebhookEvent.BUDGET_ALERT,
}
_RETRYABLE_ERRORS = (StoreFailed, BacklogFull)
"""Transient errors (a database restart, a full backlog); the next poll tries again."""


class WebhookSender:
    """Delivers the events of one log to one endpoint."""

    def __init__(self, forum: Forum, webhook: webhooks.Webhook, secrets: Sequence[bytes]) -> None:
        self._forum, self.webhook = forum, webhook
        self._secrets = secrets
        self._strand = webhook_strand(webhook)
        self._state = DeliveryState()
        self._next_index = 0
        """All events before this index were claimed."""
        self._newest_claimed = ""
        """The newest claimed entry, from which `_next_index` was last derived."""
        self._wake = asyncio.Event()
        self._stopping = False

    def start_at_log_end(self) -> None:
        """Record the end of the log as the starting point of a new endpoint."""
        self._refresh_state()
        while not self._state.length:
            ledger = self._forum.ledger
            size = ledger.store.head().size
            newest = next(ledger.store.entries(size - 1, size)) if size else None
            draft = retries.draft_begin(self.webhook, entry.leaf_of(newest) if newest else None)
            ledger.append_log_entry(draft, self._strand)
            self._refresh_state()

    async def run(self) -> None:
        """Deliver events until stopped."""
        async with open_client(self.webhook) as client, asyncio.TaskGroup() as group:
            under_way: set[asyncio.Task[None]] = set()
            while not self._stopping:
                self._wake.clear()
                with suppress(*_RETRYABLE_ERRORS):
                    room = MAX_CONCURRENT_DELIVERIES - len(under_way)
                    for delivery in await asyncio.to_thread(self._claim_due, room):
                        task = group.create_task(self._deliver(client, delivery))
                        under_way.add(task)
                        task.add_done_callback(under_way.discard)
                        # A slot is free: look for more work at once.
                        task.add_done_callback(lambda _: self._wake.set())
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_INTERVAL_S):
                        await self._wake.wait()

    def stop(self) -> None:
        """Start no new attempts."""
        self._stopping = True
        self._wake.set()

    def _claim_due(self, room: int) -> list[PendingDelivery]:
        """Claim deliveries for this process; return none if another process was faster."""
        self._refresh_state()
        if self._state.stopped or not room:
            return []
        chosen = self._select_due(room)
        return chosen if chosen and self._record_attempts(chosen) else []

    def _record_attempts(self, chosen: Sequence[PendingDelivery]) -> bool:
        strand = self._forum.ledger.open_log_strand(self._strand)
        if strand.length != self._state.length:
            return False  # the entries added since may claim the same events
        try:
            # Recorded before any request is sent, and exclusively: a process that adopted the claim
            # of another would send the same message a second time.
            strand.append_exclusive(
                *(retries.draft_attempt(self.webhook, delivery) for delivery in chosen)
            )
        except ConcurrentUpdate:
            return False
        return True

    def _refresh_state(self) -> None:
        """Apply the entries of the strand that were recorded since, by any process."""
        store, state = self._forum.store, self._state
        for data in store.read_strand(entry.LOG_RUN, self._strand, state.length):
            state.apply_entry(self._forum.ledger.kinds.read(data))
        if state.newest != self._newest_claimed:
            index = find_index(store, Hash.from_hex(state.newest))
            self._next_index = max(self._next_index, 0 if index is None else index + 1)
            self._newest_claimed = state.newest

    def _select_due(self, room: int) -> list[PendingDelivery]:
        """Return new and due deliveries alternately, so that neither delays the other."""
        at = self._forum.store.now()
        waiting = self._state.open.values()
        due = sorted((e for e in waiting if e.is_due(self.webhook, at)), key=lambda e: e.at)
        new = self._find_new_events(room) if len(waiting) < MAX_OPEN_DELIVERIES else []
        both = (
            delivery for pair in zip_longest(new, due) for delivery in pair if delivery is not None
        )
        return [replace(e, attempts=e.attempts + 1, code="") for e in islice(both, room)]

    def _find_new_events(self, most: int) -> list[PendingDelivery]:
        """Scan the log for new events; those that are not claimed are found again next time."""
        store, deliveries = self._forum.store, list[PendingDelivery]()
        first = None
        size, start = store.head().size, self._next_index
        while start < size and len(deliveries) < most:
            stop = min(start + _PAGE, size)
            for index, data in enumerate(store.entries(start, stop), start):
                event = self._event_for(data) if data is not None else None
                if data is not None and event is not None:
                    first = index if first is None else first
                    deliveries.append(PendingDelivery(entry.leaf_of(data).hex(), event))
            start = stop
        # Stop in front of the first event: the claim may
        # fail, and then the scan must find it again.
        self._next_index = start if first is None else first
        return deliveries[:most]

    def _event_for(self, data: bytes) -> WebhookEvent | None:
        """Return the event that an entry stands for, or None if the endpoint does not want it."""
        event = _EVENT_BY_KIND.get(entry.peek_kind(data))
        if event not in self.webhook.events:
            return None
        if event is WebhookEvent.RUN_ENDED and not self._is_top_level_run(entry.peek_run(data)):
            return None
        return event

    def _is_top_level_run(self, run: str) -> bool:
        """Return whether a run was submitted by a client; runs within a run are not announced."""
        ledger = self._forum.ledger
        for data in islice(ledger.store.read_strand(run, entry.MAIN_STRAND), _ACCEPTED_WITHIN):
            facts = ledger.kinds.read(data).facts
            if isinstance(facts, AcceptedFacts):
                return not facts.parent_run
        return False

    async def _deliver(self, client: httpx2.AsyncClient, delivery: PendingDelivery) -> None:
        # If the outcome cannot be recorded, the delivery is repeated, as after a crash.
        with suppress(*_RETRYABLE_ERRORS):
            located = await asyncio.to_thread(self._forum.ledger.find_entry, delivery.entry)
            origin = await asyncio.to_thread(self._forum.reads.find_gate_origin, located.entry.run)
            message = webhooks.build_message(located, origin)
            answer = await post_message(client, self.webhook, self._secrets, message)
            draft = retries.draft_outcome(self.webhook, delivery, answer)
            await asyncio.to_thread(self._forum.ledger.append_log_entry, draft, self._strand)


class WebhookExtension(ServerExtension):
    """The senders of a server, for the webhooks in the project files of its ledgers."""

    def __init__(self, config: ServerConfig) -> None:
        self._senders = [
            WebhookSender(tenant.forum, webhook, webhooks.read_secrets(webhook, os.environ))
            for tenant in config.desks
            for webhook in webhooks.read_webhooks(tenant.forum.settings.sections)
        ]

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Run all senders while the server runs."""
        senders = self._senders
        for sender in senders:
            # Before the first request can arrive: otherwise the end of a short run would be missed.
            await asyncio.to_thread(sender.start_at_log_end)
        tasks = [asyncio.create_task(s.run(), name=f"webhooks.{s.webhook.name}") for s in senders]
        for task in tasks:
            task.add_done_callback(_log_failure)
        try:
            yield
        finally:
            for sender in senders:
                sender.stop()
            await _drain(tasks)


async def _drain(tasks: Sequence["asyncio.Task[None]"]) -> None:
    """Wait briefly for attempts in progress; another process repeats those that are cut off."""
    late = (await asyncio.wait(tasks, timeout=DRAIN_TIMEOUT_S))[1] if tasks else set()
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)


def _log_failure(task: "asyncio.Task[None]") -> None:
    """Log why a sender ended."""
    error = None if task.cancelled() else task.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is not None:
        LOG.error("%s ended: %s", task.get_name(), format_error_line(error))
