"""Server-sent events of a run or of the log: the id of an event is the index of its entry.

A client that reconnects, to this or to another process, sends the last id (`Last-Event-ID`) and
misses no entry.  Streamed text of models is sent between the entries of a run as `delta` events
without an id: it is best effort, and the recorded reply contains all of it.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from msgspec import Meta, Struct, json
from starlette.responses import Response, StreamingResponse

from forum.errors import NoSuchRun, StoreFailed
from forum.ledger.entry import MAIN_STRAND, leaf_of, peek_kind
from forum.ledger.ports import EntryReader
from forum.ledger.run_events import LogEventReader, RunEventReader, SequencedEntry
from forum.surfaces.http import endpoints
from forum.surfaces.http.admission import held_shares
from forum.surfaces.http.delta_queue import Delta, DeltaQueue
from forum.surfaces.http.log_follower import wait_for_news
from forum.surfaces.http.problems import ProblemError, ProblemType
from forum.surfaces.http.tenant import Tenant

EVENT_STREAM = "text/event-stream"
# Without this header, nginx would buffer the stream, and events would arrive late.
STREAM_HEADERS = {**endpoints.NO_STORE, "X-Accel-Buffering": "no"}
RUN_CLOSE_KIND = b"run.close/1"
"""The kind of the last event."""


class After(Struct, frozen=True, forbid_unknown_fields=True):
    """The position from which events are sent."""

    after: Annotated[
        Annotated[int, Meta(ge=-1, lt=2**53)] | None,
        Meta(
            description="The index of the last entry that the client has; without it, from the "
            "first one. `Last-Event-ID` goes before it."
        ),
    ] = None


async def follow_run(context: endpoints.RequestContext) -> Response:
    """Tell what happens in a run, until it has ended."""
    run, tenant = context.path_param("run"), context.tenant
    if not await asyncio.to_thread(tenant.forum.store.strands, run):
        raise NoSuchRun(run)
    feed = RunEventReader(tenant.forum.store, run, _last_event_index(context))
    if await asyncio.to_thread(_is_over, feed.reader, run, feed.after):
        # EventSource reconnects after every end of a stream, but not after a 204 (HTML, 9.2.3).
        return Response(None, 204, endpoints.NO_STORE)
    held_shares(context.request).follow()
    return StreamingResponse(_stream_run(tenant, feed), 200, STREAM_HEADERS, EVENT_STREAM)


async def follow_log(context: endpoints.RequestContext) -> Response:
    """Tell what happens in the log, in all runs and besides, without an end."""
    held_shares(context.request).follow()
    feed = LogEventReader(context.tenant.forum.store, _last_event_index(context))
    return StreamingResponse(_stream_log(context.tenant, feed), 200, STREAM_HEADERS, EVENT_STREAM)


def _is_over(reader: EntryReader, run: str, after: int) -> bool:
    """Return whether a run has ended and the client has received its last event."""
    last = reader.last_entry(run, MAIN_STRAND)
    if last is None or peek_kind(last) != RUN_CLOSE_KIND:
        return False
    index = reader.indexes([leaf_of(last)])[0]
    return index is not None and index <= after


def _last_event_index(context: endpoints.RequestContext) -> int:
    """Return the index of the client's last entry: from Last-Event-ID, else from the query."""
    named = context.request.headers.get("last-event-id")
    if named is None:
        return -1 if context.query.after is None else int(context.query.after)
    if not named.isascii() or not named.isdecimal() or len(named) > 15:
        raise ProblemError(ProblemType.BAD_REQUEST, "Last-Event-ID is the index of an entry")
    return int(named)


async def _stream_run(tenant: Tenant, feed: RunEventReader) -> AsyncIterator[bytes]:
    with (
        tenant.log_follower.subscribe(feed.run) as news,
        tenant.deltas.subscribe(feed.run, news) as deltas,
    ):
        async for event in _stream_events(tenant, feed, news, deltas):
            yield event


async def _stream_log(tenant: Tenant, feed: LogEventReader) -> AsyncIterator[bytes]:
    with tenant.log_follower.subscribe_log() as news:
        async for event in _stream_events(tenant, feed, news, None):
            yield event


async def _stream_events(
    tenant: Tenant,
    feed: RunEventReader | LogEventReader,
    news: asyncio.Event,
    deltas: DeltaQueue | None,
) -> AsyncIterator[bytes]:
    """Yield entries as they come, and deltas in between; those of a run until it has ended."""
    while True:
        # Cleared before reading: a change after the read sets it again, so no entry is missed.
        news.clear()
        for delta in deltas.drain() if deltas else ():
            yield _encode_delta_event(delta)
        entries = await _read_entries(feed)
        for entry in entries:
            yield _encode_entry_event(entry)
            if deltas and peek_kind(entry.data) == RUN_CLOSE_KIND:
                return
        if tenant.log_follower.closed:
            return
        # A reader of the log returns only some entries at once.
        if not entries and not await wait_for_news(news):
            yield b": still here\n\n"


async def _read_entries(feed: RunEventReader | LogEventReader) -> list[SequencedEntry]:
    try:
        return await asyncio.to_thread(feed.read_new)
    except StoreFailed:  # the database restarts; the next poll reads the same entries
        return []


def _encode_entry_event(entry: SequencedEntry) -> bytes:
    kind = peek_kind(entry.data)
    head = json.encode({"id": leaf_of(entry.data).hex(), "index": entry.index})
    data = head[:-1] + b',"entry":' + entry.data + b"}"
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (entry.index, kind, data)


def _encode_delta_event(delta: Delta) -> bytes:
    return b"event: delta\ndata: %s\n\n" % json.encode(delta)


RUN_EVENTS = endpoints.Endpoint(
    "GET", path="/api/v1/runs/{run}/events", name="follow_run", scopes=endpoints.READERS,
    summary="Follow a run: an event for each entry, with its index as the event's id",
    handle=follow_run,
    reply=EVENT_STREAM, query=After, tag="runs",
    also={204: "The run has ended, and the client has all of it"},
)  # fmt: skip

LOG_EVENTS = endpoints.Endpoint(
    "GET", path="/api/v1/events", name="follow_log", scopes=endpoints.READERS,
    summary="Follow the whole log: an event for each entry, with its index as the event's id",
    handle=follow_log,
    reply=EVENT_STREAM, query=After, tag="ledger",
)  # fmt: skip
