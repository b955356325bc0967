"""Following a run or the log: who is let go, who is sent away, and who is woken."""

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from forum.app import Forum
from forum.errors import StoreFailed
from forum.ledger.kinds import Outcome, Scope
from forum.ledger.run_events import RunEventReader, SequencedEntry
from forum.ledger.sequencer import Sequencer
from forum.surfaces.http import events
from forum.surfaces.http.auth import ServerConfig
from forum.surfaces.http.log_follower import LogFollower
from forum.surfaces.http.tenant import Tenant
from tests.e2e.project import eventually
from tests.support import SOON, Wrapped
from tests.surfaces.halls import hall, open_forum, showing

RUN = "0-run"
EVENTS = f"/api/v1/runs/{RUN}/events"
LOG_EVENTS = "/api/v1/events"


@pytest.fixture
def forum(tmp_path: Path) -> Iterator[Forum]:
    """Return a ledger of its own."""
    with open_forum(tmp_path) as opened:
        yield opened


def test_a_follower_who_has_the_end_is_let_go(forum: Forum) -> None:
    """Browsers connect again after every end, and would be kept for ever; 204 is their last."""
    strand = forum.ledger.open_run(RUN, "me")
    Sequencer(forum.store).drain()
    with hall(ServerConfig([Tenant(forum)]), operator=True) as client:
        open_run = client.head(EVENTS, headers={"Last-Event-ID": str(forum.store.head().size - 1)})
        forum.ledger.close_run(strand, "me", Outcome.OK)
        eventually(lambda: forum.store.backlog() == 0)
        *_, before, last = [entry.index for entry in RunEventReader(forum.store, RUN).read_new()]
        behind = client.get(EVENTS, params={"after": before})
        by_header = client.head(EVENTS, headers={"Last-Event-ID": str(last)})
        by_query = client.head(EVENTS, params={"after": last})

    assert open_run.status_code == 200
    assert (behind.status_code, behind.text.count("\nevent: ")) == (200, 1)
    assert f"id: {last}\nevent: run.close/1\n" in behind.text
    assert [by_header.status_code, by_query.status_code] == [204, 204]


def test_a_revocation_ends_what_is_followed(forum: Forum, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run can be followed for days; a stolen key must not open what happens in it after that."""
    monkeypatch.setattr("forum.surfaces.http.auth.KEY_CACHE_TTL_S", 0.0)
    tenant, strand = Tenant(forum), forum.ledger.open_run(RUN, "me")
    stolen, good = (
        forum.access.grant("stolen", {Scope.READ}),
        forum.access.grant("good", {Scope.READ}),
    )
    with ThreadPoolExecutor(2) as threads, hall(ServerConfig([tenant])) as client:
        eventually(lambda: forum.store.backlog() == 0)
        ends = [threads.submit(client.get, EVENTS, headers=showing(key)) for key in (stolen, good)]
        eventually(lambda: tenant.log_follower.listener_count == 2)
        forum.access.revoke(stolen.id)
        forum.ledger.close_run(strand, "me", Outcome.OK)
        responses = [end.result(SOON) for end in ends]

    assert [answer.status_code for answer in responses] == [200, 200]
    assert ["event: run.close/1" in answer.text for answer in responses] == [False, True]


def test_the_log_is_followed_over_the_ends_of_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client has every entry of its own ledger, from where it goes on until it is revoked."""
    sent: list[int] = []
    plain = events._encode_entry_event  # noqa: SLF001

    def encode(entry: SequencedEntry) -> bytes:
        sent.append(entry.index)
        return plain(entry)

    monkeypatch.setattr(events, "_encode_entry_event", encode)
    monkeypatch.setattr("forum.surfaces.http.auth.KEY_CACHE_TTL_S", 0.0)
    with open_forum(tmp_path / "own") as forum, open_forum(tmp_path / "other") as other:
        tenant = Tenant(forum)
        key = forum.access.grant("reader", {Scope.READ})
        with (
            ThreadPoolExecutor(1) as threads,
            hall(ServerConfig([tenant, Tenant(other)])) as client,
        ):
            eventually(lambda: forum.store.backlog() == 0)
            first = forum.store.head().size
            headers = {**showing(key), "Last-Event-ID": str(first - 1)}
            followed = threads.submit(client.get, LOG_EVENTS, headers=headers)
            eventually(lambda: tenant.log_follower.listener_count == 1)
            for run in ("0-run", "1-run"):
                for ledger in (forum.ledger, other.ledger):
                    ledger.close_run(ledger.open_run(run, "me"), "me", Outcome.OK)
                    eventually(lambda: forum.store.backlog() == 0)
            last = forum.store.head().size - 1
            # When a later entry is made ready, all before it were sent.
            forum.ledger.open_run("2-run", "me")
            eventually(lambda: bool(sent) and sent[-1] > last)
            forum.access.revoke(key.id)
            response = followed.result(SOON)
            refused = client.get(LOG_EVENTS, headers=headers)
            unfit = client.get(LOG_EVENTS, headers={"Last-Event-ID": "the last"})

    indexes = [int(text) for text in re.findall(r"^id: (\d+)$", response.text, re.MULTILINE)]
    assert indexes == list(range(first, indexes[-1] + 1))
    assert indexes[-1] >= last
    assert response.text.count("event: run.close/1") == 2
    assert other.origin not in response.text
    assert [refused.status_code, unfit.status_code] == [401, 401]


def test_a_look_that_fails_is_made_up_for(forum: Forum) -> None:
    """Whoever waits while a database restarts would wait for ever: news come once."""
    store, failures = forum.store, ["the connection broke"]

    def entries(start: int, end: int) -> Iterator[bytes | None]:
        if start < end and failures:
            raise StoreFailed("reading", failures.pop())
        return store.entries(start, end)

    async def wait() -> bool:
        tail = LogFollower(Wrapped(store, entries=entries))
        with tail.subscribe(RUN) as news:
            watching = asyncio.create_task(tail.poll())
            async with asyncio.timeout(SOON):
                await news.wait()  # the first look wakes everybody
                news.clear()
                forum.ledger.open_run(RUN, "me")
                Sequencer(store).drain()
                await news.wait()
            return watching.cancel()

    assert asyncio.run(wait())
    assert failures == []
