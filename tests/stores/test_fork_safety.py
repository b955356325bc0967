"""A process that forks while it writes: nothing hangs, nothing is lost, nothing is doubled."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forum.app import Forum
from forum.errors import StoreFailed
from forum.stores.postgres_schema import upgrade_schema
from forum.verify import State
from tests.conftest import ROOT
from tests.soak.cluster import scratch_database
from tests.stores.forking_server import ENTRIES, THREADS, settings_of, wait_for
from tests.support import Chain, StoreFactory, wait_until

SECONDS = 150


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the address of a database of this test's own; none for SQLite."""
    if request.param == "sqlite":
        yield ""
        return
    with scratch_database(str(request.getfixturevalue("postgres_url"))) as address:
        upgrade_schema(address)
        yield address


def run_server(mode: str, folder: Path, url: str, children: int = 0) -> dict[str, Any]:
    """Run the forking server to its end; what hangs is killed, with all that it has forked."""
    command = [sys.executable, "-m", "tests.stores.forking_server", mode, str(folder), url]
    environment = os.environ | {"FORKED_CHILDREN": str(children)}
    server = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        text = server.communicate(timeout=SECONDS)[0]
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.communicate()
        pytest.fail(f"{mode}: nothing happened for {SECONDS} s")
    assert server.returncode == 0
    answer: dict[str, Any] = json.loads(text)
    return answer


def lengths(forum: Forum, runs: list[str]) -> list[int]:
    """Return how many entries each of these runs has."""
    return [sum(forum.store.strand_lengths(run).values()) for run in runs]


@pytest.mark.slow
@pytest.mark.parametrize("children", [30, pytest.param(100, marks=pytest.mark.nightly)])
def test_forked_children_append_and_nothing_is_lost_or_doubled(
    tmp_path: Path, url: str, children: int
) -> None:
    """A server that forks its workers has opened the ledger before, and has threads that write."""
    server = run_server("crowd", tmp_path, url, children)
    with Forum(settings_of(tmp_path, url or None)) as forum:
        report = forum.log.verify(forum.log.read_trust())
        written = lengths(forum, [f"child-{nth}" for nth in range(children)])
        parents = lengths(forum, [*(f"parent-{nth}" for nth in range(THREADS)), "afterwards"])
        (own,), size = lengths(forum, ["log"]), forum.store.head().size
        waiting = [str(row.position) for row in forum.store.unsequenced_rows() if row is not None]

    assert {nth: code for nth, code in enumerate(server["codes"]) if code} == {}
    assert (len(server["codes"]), server["went_on"]) == (children, True)
    assert written == [ENTRIES + 2] * children  # with the opening and the close of the run
    # The last who closed the ledger has given all of them an index.
    assert not waiting
    # Beside the log's own first entries there is nothing that nobody has written.
    assert size == sum(written) + sum(parents) + own
    assert report.ok, report


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["slow", "spawn"])
def test_a_child_appends_whatever_its_parent_is_doing(tmp_path: Path, url: str, mode: str) -> None:
    """A lock that another thread holds at the moment of a fork stays locked in the child."""
    server = run_server(mode, tmp_path, url)
    with Forum(settings_of(tmp_path, url or None)) as forum:
        report = forum.log.verify(forum.log.read_trust())
        runs = ["child"] if mode == "slow" else [f"child-{nth}" for nth in range(3)]
        written = lengths(forum, [*runs])

    assert set(server["codes"]) == {0}
    assert written == [ENTRIES + 2] * len(runs)
    assert report.ok, report


@pytest.mark.slow
def test_a_child_goes_on_when_its_parent_has_ended(tmp_path: Path, url: str) -> None:
    """On SQLite the last who closes a ledger removes its log: it must see that there is another.

    The child's locks have to be its own for that, not what it believes to have inherited.
    """
    run_server("outlived", tmp_path, url)
    with Forum(settings_of(tmp_path, url or None)) as forum:
        wait_until(lambda: lengths(forum, ["child"]) == [ENTRIES + 2])
        forum.log.publish()
        report = forum.log.verify(forum.log.read_trust())

    assert report.intact.state is report.complete.state is State.HOLDS, report


def test_a_moment_that_a_parent_reads_is_not_read_by_its_child(store_factory: StoreFactory) -> None:
    """Two processes that read through one connection would get each other's rows."""
    store, chain = store_factory(), Chain(store_factory.origin)
    store.append(chain.take(3))
    with store.snapshot() as reader:
        child = os.fork()
        if not child:
            try:
                list(reader.read_strand("run", "main"))
                os._exit(1)
            except StoreFailed:
                os._exit(0 if len(list(store.read_strand("run", "main"))) == 3 else 2)
            except BaseException:  # noqa: BLE001  it must not go on as if it were the test
                os._exit(3)
        codes = wait_for([child])
        strand = list(reader.read_strand("run", "main"))

    assert codes == [0]
    assert len(strand) == 3


@pytest.mark.postgres
@pytest.mark.slow
def test_a_killed_leader_is_succeeded_though_a_child_of_it_lives(
    tmp_path: Path, postgres_url: str
) -> None:
    """With the leader's socket open in a child, the server would believe that it still leads."""
    with scratch_database(postgres_url) as url:
        upgrade_schema(url)
        command = [sys.executable, "-m", "tests.stores.forking_server", "leader"]
        server = subprocess.Popen(
            [*command, str(tmp_path), url], cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True
        )
        assert server.stdout is not None
        try:
            assert server.stdout.readline() == b"leads\n"
            server.kill()
            server.wait()
            with Forum(settings_of(tmp_path, url)) as forum:
                wait_until(forum.store.try_lead)
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.stdout.close()
