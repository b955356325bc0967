"""Another server takes over: what a process remembers is compared, and nothing is lost silently."""

from collections.abc import Iterator

import psycopg
import pytest
from msgspec.structs import replace

from forum.errors import CommitsLost, PositionTaken, ServerReplaced, StoreConnectionLost
from forum.ledger.entry import leaf_of
from forum.ledger.kinds import LEDGER_KINDS
from forum.ledger.sequencer import Sequencer
from forum.stores.postgres import PostgresStore
from forum.stores.postgres_schema import upgrade_schema
from tests.soak.cluster import Cluster, Standby
from tests.support import Chain, data_of, fresh_origin

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


@pytest.fixture
def pair() -> Iterator[tuple[Cluster, Standby]]:
    """Return a primary and its standby."""
    with Cluster() as primary, Standby(primary) as standby:
        upgrade_schema(primary.url)
        yield primary, standby


def both(primary: Cluster, standby: Standby) -> str:
    """Return the address of whichever of two servers takes writes."""
    hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
    return f"postgresql://postgres@{hosts}/test?target_session_attrs=read-write"


def append_through_failover(store: PostgresStore, chain: Chain) -> None:
    """Append one entry; the first attempts find the sessions of the old server broken."""
    record = chain.next()
    for _ in range(20):
        try:
            store.append([record])
        except StoreConnectionLost:
            continue
        return
    raise AssertionError(record.position)


def test_a_failover_that_loses_nothing_goes_on(pair: tuple[Cluster, Standby]) -> None:
    """What is remembered is forgotten, and the strand is compared with the record."""
    primary, standby = pair
    store = PostgresStore(both(primary, standby), fresh_origin(), connections=2)
    chain = Chain(store.origin)
    store.append(chain.take(3))
    Sequencer(store).drain()
    standby.wait_for(primary)
    primary.kill()
    standby.promote()
    append_through_failover(store, chain)

    assert store.lineage.generation == 1
    assert list(store.read_strand("run", "main")) == data_of(chain.records)
    store.check_history()
    store.close()


def test_lost_commits_stop_every_process(pair: tuple[Cluster, Standby]) -> None:
    """Neither the process that saw them nor any other writes, and all say why."""
    primary, standby = pair
    url, origin = both(primary, standby), fresh_origin()
    store, other = (PostgresStore(url, origin, connections=2) for _ in range(2))
    chain = Chain(origin)
    store.append(chain.take(2))
    other.append(Chain(origin, "other").take(1))
    Sequencer(store).drain()
    standby.wait_for(primary)
    standby.pause()
    store.append(chain.take(3))
    Sequencer(store).drain()
    primary.kill()
    standby.promote()
    with pytest.raises(CommitsLost, match="its tree has 3 entries, and one of 6 was seen") as lost:
        append_through_failover(store, chain)
    with pytest.raises(CommitsLost):  # a claim of work begins nothing
        store.renew_lease("worker", 1)
    with pytest.raises(CommitsLost):
        append_through_failover(other, Chain(origin, "later"))
    late = PostgresStore(url, origin, connections=2)
    late.head()
    with pytest.raises(CommitsLost, match="one of 6 was seen"):
        late.check_history()

    assert lost.value.missing == 3
    assert "forum ledger epoch" in str(lost.value)
    assert list(store.read_strand("run", "main")) == data_of(chain.records[:2])  # reading goes on
    for each in (store, other, late):
        each.close()


def test_lost_commits_without_an_index_are_found(pair: tuple[Cluster, Standby]) -> None:
    """The tree of an idle log may be the same, and an acknowledged entry is missing."""
    primary, standby = pair
    store = PostgresStore(both(primary, standby), fresh_origin(), connections=2)
    chain = Chain(store.origin)
    store.append(chain.take(1))
    Sequencer(store).drain()
    standby.wait_for(primary)
    standby.pause()
    store.append(chain.take(1))
    primary.kill()
    standby.promote()

    with pytest.raises(CommitsLost, match=r"\(1 entries of this process are missing\)"):
        append_through_failover(store, Chain(store.origin, "next"))
    store.close()


def test_an_old_primary_is_refused(pair: tuple[Cluster, Standby]) -> None:
    """What it acknowledges now is in no later database."""
    primary, standby = pair
    store = PostgresStore(both(primary, standby), fresh_origin(), connections=2)
    chain = Chain(store.origin)
    store.append(chain.take(1))
    standby.wait_for(primary)
    primary.kill()
    standby.promote()
    append_through_failover(store, chain)
    standby.kill()
    primary.start()

    error: StoreConnectionLost | None = None
    while not isinstance(error, ServerReplaced):
        with pytest.raises(StoreConnectionLost) as raised:
            store.append(chain.take(1))
        error = raised.value
    # A monitor would take its smaller tree for that of a database that was rolled back.
    with pytest.raises(ServerReplaced):
        store.read_state()
    store.close()


def test_a_writer_behind_lost_entries_is_refused(pair: tuple[Cluster, Standby]) -> None:
    """A process may know the end of a strand that another one has written."""
    primary, standby = pair
    url, origin = both(primary, standby), fresh_origin()
    writer, other = (PostgresStore(url, origin, connections=2) for _ in range(2))
    chain = Chain(origin)
    writer.append(chain.take(2))
    standby.wait_for(primary)
    standby.pause()
    writer.append(chain.take(1))
    primary.kill()
    standby.promote()
    with pytest.raises(CommitsLost):
        append_through_failover(other, chain)  # position 3, and 2 is not there

    assert list(other.read_strand("run", "main")) == data_of(chain.records[:2])
    writer.close()
    other.close()


def test_a_writer_behind_other_entries_is_refused(pair: tuple[Cluster, Standby]) -> None:
    """The position before is taken by another entry than the one that this writer follows."""
    primary, standby = pair
    url, origin = both(primary, standby), fresh_origin()
    store = PostgresStore(url, origin, connections=2)
    other = Chain(origin, "run")
    other.next()
    record = replace(LEDGER_KINDS.read(other.records[0].data), ts=9)
    data = LEDGER_KINDS.write(record)
    store.append([other.records[0]._replace(data=data, leaf=leaf_of(data))])
    standby.wait_for(primary)
    primary.kill()
    standby.promote()
    with pytest.raises(PositionTaken):
        append_through_failover(store, other)
    store.close()


def test_the_identity_can_be_read_by_any_role(pair: tuple[Cluster, Standby]) -> None:
    """Forum needs no right that an ordinary role has not."""
    primary, _ = pair
    with psycopg.connect(primary.url, autocommit=True) as db:
        db.execute("CREATE ROLE plain LOGIN")
        for grant in (
            "USAGE ON SCHEMA forum",
            "ALL ON ALL TABLES IN SCHEMA forum",
            "ALL ON ALL SEQUENCES IN SCHEMA forum",
        ):
            db.execute(f"GRANT {grant} TO plain".encode())
    store = PostgresStore(primary.url.replace("postgres@", "plain@"), fresh_origin())
    store.check_history()

    assert store.lineage.identity is not None
    store.close()
