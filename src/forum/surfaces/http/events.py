"""Events of a run (SSE): an entry's event has the entry's index as its id.

Whoever reconnects, here or to another process, says which was the last (`Last-Event-ID`) and
misses none.  What a model says meanwhile comes in between as `delta`, without an id: it is heard
or not, and the reply that is recorded in the end has all of it.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from msgspec import Meta, Struct, json
from starlette.responses import Response, StreamingResponse

from forum.errors import NoSuchRun, StoreFailed
from forum.ledger import MAIN, Feed, Reader, Sequenced, leaf_of, peek_kind
from forum.surfaces.http.deltas import Delta
from forum.surfaces.http.desk import Desk
from forum.surfaces.http.endpoints import NEVER, READERS, Endpoint, Visit
from forum.surfaces.http.problems import Problem, Refusal
from forum.surfaces.http.tail import heard

MOST_FOLLOWERS = 1500
"""How many may follow runs of one ledger in one process; there must be room for other clients."""
STREAM = "text/event-stream"
# Proxies that gather what they pass on would keep it to themselves.
STREAMED = {**NEVER, "X-Accel-Buffering": "no"}
CLOSE = b"run.close/1"
"""The kind of the last event."""


class After(Struct, frozen=True, forbid_unknown_fields=True):
    """From where on."""

    after: Annotated[int, Meta(ge=-1, lt=2**53)] | None = None


async def follow(visit: Visit) -> Response:
    """Tell what happens in a run, until it has ended."""
    run, desk = visit.path("run"), visit.desk
    if desk.tail.listeners >= MOST_FOLLOWERS:
        raise Refusal(Problem.UNAVAILABLE, "too many follow runs here", {"Retry-After": "5"})
    if not await asyncio.to_thread(desk.forum.store.strands, run):
        raise NoSuchRun(run)
    feed = Feed(desk.forum.store, run, _after(visit))
    if await asyncio.to_thread(_is_over, feed.reader, run, feed.after):
        # Browsers connect again after every end, but not after this status (HTML, 9.2.3).
        return Response(None, 204, NEVER)
    return StreamingResponse(_events(desk, feed), 200, STREAMED, STREAM)


def _is_over(reader: Reader, run: str, after: int) -> bool:
    """Tell whether a run has ended, and the client has heard of it."""
    last = reader.last(run, MAIN)
    if last is None or peek_kind(last) != CLOSE:
        return False
    index = reader.indexes([leaf_of(last)])[0]
    return index is not None and index <= after


def _after(visit: Visit) -> int:
    """Return the last entry that the client has: by its header, as browsers do, or by the query."""
    named = visit.request.headers.get("last-event-id")
    if named is None:
        return -1 if visit.query.after is None else int(visit.query.after)
    if not named.isascii() or not named.isdecimal() or len(named) > 15:
        raise Refusal(Problem.BAD_REQUEST, "Last-Event-ID is the index of an entry")
    return int(named)


async def _events(desk: Desk, feed: Feed) -> AsyncIterator[bytes]:
    with desk.tail.listening(feed.run) as news, desk.deltas.listening(feed.run, news) as deltas:
        while True:
            news.clear()
            for delta in deltas.take():
                yield _delta(delta)
            for entry in await _read(feed):
                yield _event(entry)
                if peek_kind(entry.data) == CLOSE:
                    return
            if desk.tail.closed:
                return
            if not await heard(news):
                yield b": still here\n\n"


async def _read(feed: Feed) -> list[Sequenced]:
    try:
        return await asyncio.to_thread(feed.read)
    except StoreFailed:  # the database restarts; the client need not notice
        return []


def _event(entry: Sequenced) -> bytes:
    kind = peek_kind(entry.data)
    told = json.encode({"id": leaf_of(entry.data).hex(), "index": entry.index})
    data = told[:-1] + b',"entry":' + entry.data + b"}"
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (entry.index, kind, data)


def _delta(delta: Delta) -> bytes:
    return b"event: delta\ndata: %s\n\n" % json.encode(delta)


EVENTS = Endpoint(
    "GET", "/api/v1/runs/{run}/events", "follow_run", READERS,
    "Follow a run: an event for each entry, with its index as the event's id", follow,
    reply=STREAM, query=After, tag="runs",
    also={204: "The run has ended, and the client has all of it"},
)  # fmt: skip
