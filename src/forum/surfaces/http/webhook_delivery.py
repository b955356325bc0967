"""Tells those outside what happens in a log: at least once, from any number of processes.

The log is the queue.  What is to be told is found by following it, and what was told is recorded in
it; nothing depends on the memory of a process.  Who makes an attempt is decided by who records it
first, so that processes share the work without knowing each other.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import islice, zip_longest
from typing import Final

import httpx2

from forum.app import Forum
from forum.errors import BacklogFull, ConcurrentUpdate, StoreFailed
from forum.ledger import LOG_RUN, MAIN_STRAND, find_index, leaf_of, peek_kind, peek_run
from forum.surfaces.http import webhook_state
from forum.surfaces.http.webhook_client import open_client, post_message
from forum.surfaces.http.webhook_state import DeliveryState, PendingDelivery, webhook_strand
from forum.surfaces.http.webhooks import (
    Webhook,
    WebhookEvent,
    WebhookMessage,
    build_message,
    read_secrets,
    read_webhooks,
)
from forum.surfaces.logs import LOG, format_error_line
from forum.tlog import Hash
from forum.work import AcceptedFacts

MAX_CONCURRENT_DELIVERIES: Final = 8
"""How many attempts one process makes at a time, for each endpoint."""
MAX_OPEN_DELIVERIES: Final = 1000
"""Where so many wait to be told again, the rest wait in the log."""
POLL_INTERVAL_S: Final = 0.25
DRAIN_TIMEOUT_S: Final = 5.0
_PAGE: Final = 1000
_ACCEPTED_WITHIN: Final = 4
"""Among how many entries of a run the one is that accepts it."""
_EVENT_BY_KIND: Final = {
    b"run.close/1": WebhookEvent.RUN_ENDED,
    b"gate.open/1": WebhookEvent.GATE_OPENED,
}
_RETRYABLE_ERRORS = (StoreFailed, BacklogFull)
"""A database that restarts, a log that cannot keep up: look again."""


class WebhookSender:
    """Tells one endpoint what happens in one log."""

    def __init__(self, forum: Forum, webhook: Webhook, secrets: Sequence[bytes]) -> None:
        self._forum, self.webhook, self._secrets = forum, webhook, secrets
        self._strand = webhook_strand(webhook)
        self._state = DeliveryState()
        self._next_index = 0
        """Before this index there is nothing that was not taken up."""
        self._newest_claimed = ""
        """The entry behind which that is, at least."""
        self._wake = asyncio.Event()
        self._stopping = False

    def start_at_log_end(self) -> None:
        """Let a new endpoint begin at the end of the log."""
        self._refresh_state()
        while not self._state.length:
            ledger = self._forum.ledger
            size = ledger.store.head().size
            newest = next(ledger.store.entries(size - 1, size)) if size else None
            draft = webhook_state.draft_begin(self.webhook, leaf_of(newest) if newest else None)
            ledger.append_log_entry(draft, self._strand)
            self._refresh_state()

    async def run(self) -> None:
        """Tell what there is to tell, until stopped."""
        async with open_client(self.webhook) as client, asyncio.TaskGroup() as group:
            under_way: set[asyncio.Task[None]] = set()
            while not self._stopping:
                self._wake.clear()
                with suppress(*_RETRYABLE_ERRORS):
                    room = MAX_CONCURRENT_DELIVERIES - len(under_way)
                    for errand in await asyncio.to_thread(self._claim_due, room):
                        task = group.create_task(self._deliver(client, errand))
                        under_way.add(task)
                        task.add_done_callback(under_way.discard)
                        task.add_done_callback(lambda _: self._wake.set())
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_INTERVAL_S):
                        await self._wake.wait()

    def stop(self) -> None:
        """Begin nothing new."""
        self._stopping = True
        self._wake.set()

    # What there is to tell

    def _claim_due(self, room: int) -> list[PendingDelivery]:
        """Choose what is told now, and record it; nothing if somebody else was faster."""
        self._refresh_state()
        if self._state.stopped or not room:
            return []
        chosen = self._select_due(room)
        return chosen if chosen and self._record_attempts(chosen) else []

    def _record_attempts(self, chosen: Sequence[PendingDelivery]) -> bool:
        strand = self._forum.ledger.open_strand_at_end(LOG_RUN, self._strand)
        if strand.length != self._state.length:
            return False  # what was added since may be the very thing
        try:
            strand.append_exclusive(
                *(webhook_state.draft_attempt(self.webhook, errand) for errand in chosen)
            )
        except ConcurrentUpdate:
            return False
        return True

    def _refresh_state(self) -> None:
        """Take in what was recorded since, here or elsewhere."""
        store, told = self._forum.store, self._state
        for data in store.read_strand(LOG_RUN, self._strand, told.length):
            told.apply_entry(self._forum.ledger.kinds.read(data))
        if told.newest != self._newest_claimed:
            index = find_index(store, Hash.from_hex(told.newest))
            self._next_index = max(self._next_index, 0 if index is None else index + 1)
            self._newest_claimed = told.newest

    def _select_due(self, room: int) -> list[PendingDelivery]:
        """Return what is new and what is due again, in turns: neither holds up the other."""
        at = self._forum.store.now()
        waiting = self._state.open.values()
        due = sorted((e for e in waiting if e.is_due(self.webhook, at)), key=lambda e: e.at)
        new = self._find_new_events(room) if len(waiting) < MAX_OPEN_DELIVERIES else []
        both = (one for pair in zip_longest(new, due) for one in pair if one is not None)
        return [replace(e, attempts=e.attempts + 1, code="") for e in islice(both, room)]

    def _find_new_events(self, most: int) -> list[PendingDelivery]:
        """Follow the log; what is found and not taken up is found again."""
        store, found, first = self._forum.store, list[PendingDelivery](), None
        size, start = store.head().size, self._next_index
        while start < size and len(found) < most:
            stop = min(start + _PAGE, size)
            for index, data in enumerate(store.entries(start, stop), start):
                event = self._event_for(data) if data is not None else None
                if data is not None and event is not None:
                    first = index if first is None else first
                    found.append(PendingDelivery(leaf_of(data).hex(), event))
            start = stop
        self._next_index = start if first is None else first
        return found[:most]

    def _event_for(self, data: bytes) -> WebhookEvent | None:
        """Return what an entry is to those who want to be told of it."""
        event = _EVENT_BY_KIND.get(peek_kind(data))
        if event not in self.webhook.events:
            return None
        if event is WebhookEvent.RUN_ENDED and not self._is_top_level_run(peek_run(data)):
            return None
        return event

    def _is_top_level_run(self, run: str) -> bool:
        """Tell whether somebody has submitted a run; one within another is that one's business."""
        ledger = self._forum.ledger
        for data in islice(ledger.store.read_strand(run, MAIN_STRAND), _ACCEPTED_WITHIN):
            facts = ledger.kinds.read(data).facts
            if isinstance(facts, AcceptedFacts):
                return not facts.parent_run
        return False

    # Telling it

    async def _deliver(self, client: httpx2.AsyncClient, errand: PendingDelivery) -> None:
        # What cannot be recorded, or read, was told or not: as after a crash, it is told again.
        with suppress(*_RETRYABLE_ERRORS):
            message = await asyncio.to_thread(self._build_message, errand)
            answer = await post_message(client, self.webhook, self._secrets, message)
            draft = webhook_state.draft_outcome(self.webhook, errand, answer)
            await asyncio.to_thread(self._forum.ledger.append_log_entry, draft, self._strand)

    def _build_message(self, errand: PendingDelivery) -> WebhookMessage:
        return build_message(self._forum.ledger.find_entry(errand.entry))


def make_webhook_senders(forum: Forum, environ: Mapping[str, str]) -> list[WebhookSender]:
    """Return who tells what happens in a ledger, as its project file says."""
    webhooks = read_webhooks(forum.settings.doors.get("webhooks", {}))
    return [WebhookSender(forum, webhook, read_secrets(webhook, environ)) for webhook in webhooks]


@asynccontextmanager
async def deliver_webhooks(couriers: Sequence[WebhookSender]) -> AsyncIterator[None]:
    """Have everybody told who wants to be, until the end of the block."""
    for courier in couriers:
        # Before anything can be asked for: a run that ends at once is told of.
        await asyncio.to_thread(courier.start_at_log_end)
    tasks = [asyncio.create_task(c.run(), name=f"webhooks.{c.webhook.name}") for c in couriers]
    for task in tasks:
        task.add_done_callback(_log_failure)
    try:
        yield
    finally:
        for courier in couriers:
            courier.stop()
        await _drain(tasks)


async def _drain(tasks: Sequence["asyncio.Task[None]"]) -> None:
    """Let attempts end that are under way, but not for long; another process makes them again."""
    late = (await asyncio.wait(tasks, timeout=DRAIN_TIMEOUT_S))[1] if tasks else set()
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)


def _log_failure(task: "asyncio.Task[None]") -> None:
    """Write down why somebody is not told any more."""
    error = None if task.cancelled() else task.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is not None:
        LOG.error("%s ended: %s", task.get_name(), format_error_line(error))
