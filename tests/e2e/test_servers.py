"""Servers over one Postgres, behind a balancer: whichever dies, nothing is missed or repeated."""

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import httpx2
import msgspec
import pytest

from forum.ledger.kinds import Outcome
from tests.e2e.balancer import balanced
from tests.e2e.project import Project, eventually, project
from tests.surfaces.serving import Served, serving

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

OPENED = ("--open-loopback",)
SLOW = """
[models.default]
kind = "scripted"

[models.default.moves]
"*" = [{ say = "done, word by word", milliseconds = 300 }]
"""
CHAIN = [
    {"id": f"t{n}", "instruction": "Go on.", "after": [f"t{n - 1}"] if n else []} for n in range(12)
]


@pytest.fixture
def home(tmp_path: Path, postgres_url: str) -> Iterator[Project]:
    """Make a project on Postgres whose agent takes its time."""
    with project(tmp_path / "project", postgres_url, SLOW) as made:
        yield made


def events(url: str, run: str, after: int | None) -> Generator[int]:
    """Yield the ids of a run's events, until it ends or the server goes away."""
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    try:
        with httpx2.stream(
            "GET", f"{url}/api/v1/runs/{run}/events", headers=headers, timeout=60
        ) as stream:
            assert stream.status_code == 200
            for line in stream.iter_lines():
                if line.startswith("id: "):
                    yield int(line.removeprefix("id: "))
    except httpx2.TransportError:
        return


def port_of(served: Served) -> int:
    """Return where a server listens."""
    return int(served.url.rpartition(":")[2])


def expected(home: Project, run: str) -> list[int]:
    """Return the indexes of a run's entries, as the log has them."""
    store = home.forum.store
    entries = enumerate(store.entries(0, store.head().size))
    return [index for index, data in entries if data and msgspec.json.decode(data)["run"] == run]


def submit(url: str, tasks: Sequence[object]) -> str:
    """Have something done, and return its run."""
    ask = {"request": "Go.", "tasks": list(tasks)}
    taken = httpx2.post(f"{url}/api/v1/runs", json=ask, timeout=30)
    assert taken.status_code == 202, taken.text
    run: str = taken.json()["run"]
    return run


def test_a_follower_misses_nothing_when_its_server_is_killed(home: Project) -> None:
    """An event's id is an index in the log, which every server reads: none of them is special."""
    with (
        home.worker(),
        home.worker(),
        serving(home, OPENED) as first,
        serving(home, OPENED) as second,
        balanced([port_of(first), port_of(second)]) as balancer,
    ):
        url = f"http://127.0.0.1:{balancer.port}"
        run = submit(url, CHAIN)
        servers = {port_of(served): served for served in (first, second)}
        seen: list[int] = []
        killed = False
        while not home.forum.reads.read_run(run).outcome or seen[-1:] != expected(home, run)[-1:]:
            for index in events(url, run, seen[-1] if seen else None):
                seen.append(index)
                if len(seen) >= 5 and not killed:
                    killed = True
                    servers[balancer.visited[-1]].server.kill()

    assert killed
    assert len(set(balancer.visited)) == 2
    assert seen == expected(home, run)
    assert home.forum.reads.read_run(run).outcome is Outcome.OK


def test_a_client_that_goes_away_does_not_stop_its_run(home: Project) -> None:
    """A run belongs to the ledger, not to a connection."""
    with home.worker(), serving(home, OPENED) as served:
        run = submit(served.url, CHAIN[:4])
        stream = events(served.url, run, None)
        next(stream)
        stream.close()
        state = home.end(run)

    assert state.outcome is Outcome.OK


def test_the_same_key_gives_the_same_run_from_every_server(home: Project) -> None:
    """A client that did not hear the answer asks again, of whoever is there."""
    headers = {"Idempotency-Key": "order-66"}
    with serving(home, OPENED) as first, serving(home, OPENED) as second:
        asks = [
            httpx2.post(f"{served.url}/api/v1/runs", json=body, headers=headers, timeout=30)
            for served in (first, second)
            for body in ({"request": "Pay."}, {"request": "Pay twice."})
        ]

    assert [ask.status_code for ask in asks] == [202, 409, 202, 409]
    assert asks[0].json()["run"] == asks[2].json()["run"]
    assert asks[1].json()["type"] == "urn:forum:problem:idempotency-key-reused"
    assert len(home.forum.reads.recent_runs(None, 10)) == 1


def test_a_server_that_is_stopped_lets_its_clients_go(home: Project) -> None:
    """A deploy must not wait for those who follow a run: they find it again elsewhere."""
    with home.worker(), serving(home, OPENED) as served:
        run = submit(served.url, CHAIN)
        stream = events(served.url, run, None)
        seen = [next(stream)]
        served.server.terminate()
        seen += list(stream)

        eventually(lambda: served.server.poll() is not None, 15)

    assert served.server.returncode == 0
    assert seen == expected(home, run)[: len(seen)]
