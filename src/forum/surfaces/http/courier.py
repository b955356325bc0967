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
from forum.errors import Backlogged, Overtaken, StoreFailed
from forum.ledger import LOG_RUN, MAIN, index_of, leaf_of, peek_kind, peek_run
from forum.surfaces.http import notices
from forum.surfaces.http.notices import Errand, Notices, strand_of
from forum.surfaces.http.posting import opened, post
from forum.surfaces.http.webhooks import (
    Event,
    Message,
    Webhook,
    message_of,
    read_secrets,
    read_webhooks,
)
from forum.surfaces.logs import LOG, one_line
from forum.tlog import Hash
from forum.work import Accepted

AT_ONCE: Final = 8
"""How many attempts one process makes at a time, for each endpoint."""
MOST_OPEN: Final = 1000
"""Where so many wait to be told again, the rest wait in the log."""
LOOK_SECONDS: Final = 0.25
DRAIN_SECONDS: Final = 5.0
_PAGE: Final = 1000
_FIRST: Final = 4
"""Among how many entries of a run the one is that accepts it."""
_KINDS: Final = {b"run.close/1": Event.RUN_ENDED, b"gate.open/1": Event.GATE_OPENED}
_LATER = (StoreFailed, Backlogged)
"""A database that restarts, a log that cannot keep up: look again."""


class Courier:
    """Tells one endpoint what happens in one log."""

    def __init__(self, forum: Forum, webhook: Webhook, secrets: Sequence[bytes]) -> None:
        self._forum, self.webhook, self._secrets = forum, webhook, secrets
        self._strand = strand_of(webhook)
        self._told = Notices()
        self._next = 0
        """Before this index there is nothing that was not taken up."""
        self._reached = ""
        """The entry behind which that is, at least."""
        self._wake = asyncio.Event()
        self._stopping = False

    def begin(self) -> None:
        """Let a new endpoint begin at the end of the log."""
        self._read_on()
        while not self._told.length:
            ledger = self._forum.ledger
            size = ledger.store.head().size
            newest = next(ledger.store.entries(size - 1, size)) if size else None
            draft = notices.beginning(self.webhook, leaf_of(newest) if newest else None)
            ledger.log_entry(draft, self._strand)
            self._read_on()

    async def work(self) -> None:
        """Tell what there is to tell, until stopped."""
        async with opened(self.webhook) as client, asyncio.TaskGroup() as group:
            under_way: set[asyncio.Task[None]] = set()
            while not self._stopping:
                self._wake.clear()
                with suppress(*_LATER):
                    room = AT_ONCE - len(under_way)
                    for errand in await asyncio.to_thread(self._take_up, room):
                        task = group.create_task(self._tell(client, errand))
                        under_way.add(task)
                        task.add_done_callback(under_way.discard)
                        task.add_done_callback(lambda _: self._wake.set())
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._wake.wait()

    def stop(self) -> None:
        """Begin nothing new."""
        self._stopping = True
        self._wake.set()

    # What there is to tell

    def _take_up(self, room: int) -> list[Errand]:
        """Choose what is told now, and record it; nothing if somebody else was faster."""
        self._read_on()
        if self._told.stopped or not room:
            return []
        chosen = self._choose(room)
        return chosen if chosen and self._claim(chosen) else []

    def _claim(self, chosen: Sequence[Errand]) -> bool:
        strand = self._forum.ledger.end_of(LOG_RUN, self._strand)
        if strand.length != self._told.length:
            return False  # what was added since may be the very thing
        try:
            strand.claim(*(notices.attempt(self.webhook, errand) for errand in chosen))
        except Overtaken:
            return False
        return True

    def _read_on(self) -> None:
        """Take in what was recorded since, here or elsewhere."""
        store, told = self._forum.store, self._told
        for data in store.strand(LOG_RUN, self._strand, told.length):
            told.take_in(self._forum.ledger.kinds.read(data))
        if told.newest != self._reached:
            index = index_of(store, Hash.from_hex(told.newest))
            self._next = max(self._next, 0 if index is None else index + 1)
            self._reached = told.newest

    def _choose(self, room: int) -> list[Errand]:
        """Return what is new and what is due again, in turns: neither holds up the other."""
        at = self._forum.store.now()
        waiting = self._told.open.values()
        due = sorted((e for e in waiting if e.is_due(self.webhook, at)), key=lambda e: e.at)
        new = self._news(room) if len(waiting) < MOST_OPEN else []
        both = (one for pair in zip_longest(new, due) for one in pair if one is not None)
        return [replace(e, attempts=e.attempts + 1, code="") for e in islice(both, room)]

    def _news(self, most: int) -> list[Errand]:
        """Follow the log; what is found and not taken up is found again."""
        store, found, first = self._forum.store, list[Errand](), None
        size, start = store.head().size, self._next
        while start < size and len(found) < most:
            stop = min(start + _PAGE, size)
            for index, data in enumerate(store.entries(start, stop), start):
                event = self._event(data) if data is not None else None
                if data is not None and event is not None:
                    first = index if first is None else first
                    found.append(Errand(leaf_of(data).hex(), event))
            start = stop
        self._next = start if first is None else first
        return found[:most]

    def _event(self, data: bytes) -> Event | None:
        """Return what an entry is to those who want to be told of it."""
        event = _KINDS.get(peek_kind(data))
        if event not in self.webhook.events:
            return None
        if event is Event.RUN_ENDED and not self._was_asked_for(peek_run(data)):
            return None
        return event

    def _was_asked_for(self, run: str) -> bool:
        """Tell whether somebody has submitted a run; one within another is that one's business."""
        ledger = self._forum.ledger
        for data in islice(ledger.store.strand(run, MAIN), _FIRST):
            facts = ledger.kinds.read(data).facts
            if isinstance(facts, Accepted):
                return not facts.parent_run
        return False

    # Telling it

    async def _tell(self, client: httpx2.AsyncClient, errand: Errand) -> None:
        # What cannot be recorded, or read, was told or not: as after a crash, it is told again.
        with suppress(*_LATER):
            message = await asyncio.to_thread(self._message, errand)
            answer = await post(client, self.webhook, self._secrets, message)
            draft = notices.outcome(self.webhook, errand, answer)
            await asyncio.to_thread(self._forum.ledger.log_entry, draft, self._strand)

    def _message(self, errand: Errand) -> Message:
        return message_of(self._forum.ledger.find(errand.entry))


def couriers_of(forum: Forum, environ: Mapping[str, str]) -> list[Courier]:
    """Return who tells what happens in a ledger, as its project file says."""
    webhooks = read_webhooks(forum.settings.doors.get("webhooks", {}))
    return [Courier(forum, webhook, read_secrets(webhook, environ)) for webhook in webhooks]


@asynccontextmanager
async def telling(couriers: Sequence[Courier]) -> AsyncIterator[None]:
    """Have everybody told who wants to be, until the end of the block."""
    for courier in couriers:
        # Before anything can be asked for: a run that ends at once is told of.
        await asyncio.to_thread(courier.begin)
    tasks = [asyncio.create_task(c.work(), name=f"webhooks.{c.webhook.name}") for c in couriers]
    for task in tasks:
        task.add_done_callback(_complain)
    try:
        yield
    finally:
        for courier in couriers:
            courier.stop()
        await _end(tasks)


async def _end(tasks: Sequence["asyncio.Task[None]"]) -> None:
    """Let attempts end that are under way, but not for long; another process makes them again."""
    late = (await asyncio.wait(tasks, timeout=DRAIN_SECONDS))[1] if tasks else set()
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)


def _complain(task: "asyncio.Task[None]") -> None:
    """Write down why somebody is not told any more."""
    error = None if task.cancelled() else task.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is not None:
        LOG.error("%s ended: %s", task.get_name(), one_line(error))
