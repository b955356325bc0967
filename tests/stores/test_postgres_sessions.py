"""Sessions with Postgres end when a peer is gone, on either side, and belong to one client."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from forum.errors import (
    StoreBlocked,
    StoreConnectionLost,
    StoreLocked,
    StoreTimedOut,
    TransactionPooler,
)
from forum.stores.postgres import PostgresStore
from forum.stores.postgres_connections import PostgresConnections, translate_errors
from forum.stores.postgres_schema import upgrade_schema
from forum.stores.postgres_sessions import LimitedSession, Purpose, RetryDelay, connect
from tests.networks import SeparateNetwork, can_make_networks
from tests.poolers import pooled
from tests.soak.cluster import Cluster
from tests.support import fresh_origin
from tests.tcp_proxy import HangingProxy

SOURCE = Path(__file__).parents[2] / "src" / "forum"
CONNECTING = {
    "psycopg": {"connect", "Connection", "AsyncConnection"},
    "psycopg_pool": {"ConnectionPool", "AsyncConnectionPool", "NullConnectionPool"},
}
THE_PLACE = "stores/postgres_sessions.py"
# The attacker of the demonstrations, which is no part of a server or worker.
ATTACKER = "features/demo/tampering.py"
HOLDER = """
import sys, time
from forum.stores.postgres_sessions import Purpose, connect
db = connect(sys.argv[1], Purpose.SESSION, autocommit=True)
db.execute("SELECT pg_advisory_lock(7)")
print("held", flush=True)
time.sleep(600)
"""
WRITER = """
import sys, time
from forum.stores.postgres_connections import PostgresConnections
from forum.errors import StoreFailed
connections = PostgresConnections(sys.argv[1])
connections.connect()
while True:
    begun = time.monotonic()
    try:
        with connections.use("trying") as db:
            row = db.execute("SELECT inet_server_addr()::text").fetchone()
            print("answer", row[0], flush=True)
    except StoreFailed as error:
        print("failed", round(time.monotonic() - begun, 1), flush=True)
    time.sleep(0.2)
"""


@pytest.fixture
def proxied(postgres_url: str) -> Iterator[tuple[HangingProxy, str]]:
    """Return a proxy before the database, and the address of the database through it."""
    with psycopg.connect(postgres_url) as db:
        proxy = HangingProxy(db.info.port)
    proxy.start()
    yield proxy, make_conninfo(postgres_url, host="127.0.0.1", port=str(proxy.port))
    proxy.hangs.clear()
    proxy.stop()


def test_one_place_connects() -> None:
    """A session without limits waits for hours, and so would whoever waits for its locks."""
    found = {
        (str(path.relative_to(SOURCE)), name)
        for path in SOURCE.rglob("*.py")
        for name in _connecting_names(ast.parse(path.read_text()))
    }
    other = {place for place, _ in found} - {THE_PLACE, ATTACKER}

    assert (THE_PLACE, "psycopg_pool.ConnectionPool") in found
    assert other == set()


def _connecting_names(tree: ast.Module) -> Iterator[str]:
    """Yield what a module calls of the driver to connect, or takes a class of as its base."""
    names = {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        used = [node.func] if isinstance(node, ast.Call) else []
        used += node.bases if isinstance(node, ast.ClassDef) else []
        for each in (use.value if isinstance(use, ast.Subscript) else use for use in used):
            module, name = "", ""
            if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
                module, name = each.value.id, each.attr
                if module in names:  # Connection.connect(...)
                    module, name = names[module]
            elif isinstance(each, ast.Name):
                module, name = names.get(each.id, ("", ""))
            elif isinstance(each, ast.Attribute) and isinstance(each.value, ast.Attribute):
                inner = each.value  # psycopg.Connection.connect(...)
                module = inner.value.id if isinstance(inner.value, ast.Name) else ""
                name = inner.attr
            if name in CONNECTING.get(module, ()):
                yield f"{module}.{name}"


@pytest.mark.parametrize("code", [
    "import psycopg\npsycopg.connect('')",
    "import psycopg\npsycopg.Connection.connect('')",
    "from psycopg import Connection as C\nC.connect('')",
    "from psycopg import connect\nconnect('')",
    "from psycopg_pool import ConnectionPool\nConnectionPool('')",
    "import psycopg_pool\nclass P(psycopg_pool.AsyncConnectionPool): pass",
])  # fmt: skip
def test_the_rule_finds_every_way_to_connect(code: str) -> None:
    """A rule that missed a spelling would hold nobody."""
    assert list(_connecting_names(ast.parse(code)))


@pytest.mark.parametrize("purpose", Purpose)
def test_a_session_has_the_limits_of_its_purpose(postgres_url: str, purpose: Purpose) -> None:
    """The server ends what a client has left behind, and each statement ends."""
    with connect(postgres_url, purpose, autocommit=True) as db:
        shown = {
            name: db.execute(f"SHOW {name}".encode()).fetchone()
            for name in (
                *("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count"),
                *("tcp_user_timeout", "client_connection_check_interval", "search_path"),
                *purpose.value.settings(),
            )
        }
        client = db.info.get_parameters()
    wanted = {name: (value or "0",) for name, value in purpose.value.settings().items()}

    assert shown == {
        "tcp_keepalives_idle": ("10",),
        "tcp_keepalives_interval": ("5",),
        "tcp_keepalives_count": ("3",),
        "tcp_user_timeout": ("25000",),
        "client_connection_check_interval": ("5s",),
        "search_path": ("pg_catalog, pg_temp",),
        **wanted,
    }
    assert client["tcp_user_timeout"] == "10000"
    assert client["connect_timeout"] == "5"
    assert (client["keepalives_idle"], client["keepalives_count"]) == ("3", "4")


def test_what_the_operator_sets_wins(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the address, in its options, and in the environment."""
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "9")
    url = make_conninfo(
        postgres_url,
        tcp_user_timeout="7000",
        options="-c statement_timeout=70s --lock-timeout=3s",
    )
    with connect(url, Purpose.STATEMENTS) as db:
        shown = [
            db.execute(f"SHOW {name}".encode()).fetchone()
            for name in ("statement_timeout", "lock_timeout", "tcp_keepalives_count")
        ]
        client, reply_s = {o.keyword: o.val for o in db.pgconn.info}, db.reply_s

    assert shown == [("70s",), ("3s",), ("3",)]
    assert (client[b"tcp_user_timeout"], client[b"connect_timeout"]) == (b"7000", b"9")
    assert reply_s == 73


def test_statements_and_locks_end(postgres_url: str) -> None:
    """What the database ends was not committed, and is no lost connection."""
    with connect(postgres_url, Purpose.PROBE, autocommit=True) as db:
        with pytest.raises(StoreTimedOut), translate_errors("trying"):
            db.execute("SELECT pg_sleep(30)")
        with psycopg.connect(postgres_url) as other:
            other.execute("SELECT pg_advisory_lock(71)")
            with pytest.raises(StoreLocked) as refused, translate_errors("trying"):
                db.execute("SELECT pg_advisory_lock(71)")
        alive = db.execute("SELECT 1").fetchone()

    assert isinstance(refused.value, StoreBlocked)
    assert not isinstance(refused.value, StoreConnectionLost)
    assert alive == (1,)


def test_a_peer_that_acknowledges_and_never_replies_is_given_up(
    proxied: tuple[HangingProxy, str],
) -> None:
    """A half-open connection: neither keep-alives nor the time of unsent data end it."""
    proxy, url = proxied
    with connect(url, Purpose.PROBE, autocommit=True) as db:
        db.execute("SELECT 1")
        proxy.hangs.set()
        begun = monotonic()
        with pytest.raises(StoreConnectionLost, match="has not replied"), translate_errors("x"):
            db.execute("SELECT 1")
        took = monotonic() - begun
        begun = monotonic()
        with pytest.raises(psycopg.OperationalError):
            connect(url, Purpose.PROBE)
        connecting = monotonic() - begun

    assert took < Purpose.PROBE.value.reply_s + 1
    assert connecting < 7
    assert db.closed


@pytest.mark.slow
def test_a_session_that_listens_finds_out_that_nobody_speaks(
    proxied: tuple[HangingProxy, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would hear nothing for ever, and hold a lock that says that its worker lives."""
    monkeypatch.setattr("forum.stores.postgres_sessions._PING_INTERVAL_S", 0.5)
    proxy, url = proxied
    with connect(url, Purpose.PROBE, autocommit=True) as db:
        db.execute("LISTEN some_channel")
        for _ in range(10):
            db.receive(0.1)
        proxy.hangs.set()
        with pytest.raises(psycopg.OperationalError, match="has not replied"):
            _listen(db, 20)


def test_a_session_that_was_just_opened_is_not_asked_whether_it_lives(postgres_url: str) -> None:
    """Its server has just replied; each worker opens such a session, and most are idle."""
    query = "SELECT query FROM pg_stat_activity WHERE pid = %s"
    with (
        connect(postgres_url, Purpose.SESSION, autocommit=True) as db,
        psycopg.connect(postgres_url) as other,
    ):
        db.execute("LISTEN some_channel")
        db.receive(0.1)
        last = other.execute(query, (db.info.backend_pid,)).fetchone()

    assert last == ("LISTEN some_channel",)


def _listen(db: LimitedSession, seconds: float) -> None:
    end = monotonic() + seconds
    while monotonic() < end:
        db.receive(0.1)


def test_a_lost_connection_costs_the_pool_all_of_its_age(postgres_url: str) -> None:
    """Each of the others would cost its caller the same time."""
    with closing(PostgresConnections(postgres_url)) as connections:
        with ExitStack() as held:
            used = [held.enter_context(connections.use("trying")) for _ in range(3)]
            before = {db.info.backend_pid for db in used}
        with pytest.raises(StoreConnectionLost), connections.use("trying") as broken:
            broken.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        with connections.use("trying") as new:
            process = new.info.backend_pid

    assert process not in before
    assert all(db.closed for db in used)


def test_delays_grow_up_to_a_bound_and_differ() -> None:
    """Processes that came back all at once would knock a restarted server over."""
    delays = [RetryDelay() for _ in range(20)]
    rounds = [[delay.next() for delay in delays] for _ in range(8)]
    delays[0].reset()

    assert all(0.25 <= delay <= 0.5 for delay in [*rounds[0], delays[0].next()])
    assert all(2.5 <= delay <= 5 for delay in rounds[-1])
    assert all(len(set(each)) > 15 for each in rounds)


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_a_pooler_that_shares_sessions_is_refused(postgres_url: str, mode: str) -> None:
    """Locks and settings would be another client's; the sentence says what to do."""
    with pooled(postgres_url, mode) as url:
        for purpose in Purpose:
            with pytest.raises(TransactionPooler, match="set pool_mode = session"):
                connect(url, purpose)
        with closing(PostgresConnections(url)) as connections, pytest.raises(TransactionPooler):
            connections.connect()
        with pytest.raises(TransactionPooler):
            upgrade_schema(url)


@pytest.mark.slow
def test_a_busy_shared_pooler_is_refused_to_each_of_many(postgres_url: str) -> None:
    """Others take the sessions that would give the pooler away."""
    with pooled(postgres_url, "transaction") as url:
        stop = Event()

        def load() -> None:
            with psycopg.connect(url, autocommit=True, prepare_threshold=None) as db:
                while not stop.is_set():
                    db.execute("SELECT 1")

        threads = [Thread(target=load) for _ in range(6)]
        for thread in threads:
            thread.start()
        try:
            refused = 0
            for _ in range(30):
                with suppress(TransactionPooler):
                    connect(url, Purpose.STATEMENTS).close()
                    continue
                refused += 1
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    assert refused == 30


def test_a_pooler_with_a_session_for_each_client_is_used(postgres_url: str) -> None:
    """And one client after the other finds nothing of the one before."""
    with pooled(postgres_url, "session") as url:
        for _ in range(3):
            with connect(url, Purpose.STATEMENTS, autocommit=True) as db:
                assert db.execute("SHOW lock_timeout").fetchone() == ("10s",)
        upgrade_schema(url)
        store = PostgresStore(url, fresh_origin())
        leads, size = store.try_lead(), store.head().size
        store.close()

    assert leads
    assert size == 0


@pytest.fixture
def network() -> Iterator[SeparateNetwork]:
    """Return a network that can be cut."""
    if not can_make_networks():
        pytest.skip("this process may not make networks")
    with SeparateNetwork() as made:
        yield made


@pytest.mark.slow
def test_a_host_that_vanishes_costs_twenty_seconds(network: SeparateNetwork) -> None:
    """Its packets are dropped and nothing is reset; the lock of a process on it is free then."""
    with _cluster_for(network) as (cluster, url):
        holder = _start(network, HOLDER, url)
        writer = _start(network, WRITER, url)
        assert holder.stdout is not None
        assert writer.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert writer.stdout.readline().startswith("answer")
        with psycopg.connect(cluster.url, autocommit=True) as db:
            assert db.execute("SELECT pg_try_advisory_lock(7)").fetchone() == (False,)
            network.cut()
            begun = monotonic()
            while db.execute("SELECT pg_try_advisory_lock(7)").fetchone() != (True,):
                assert monotonic() - begun < 60
                sleep(0.2)
            freed = monotonic() - begun
        lines = iter(writer.stdout.readline, "")
        lost = next(float(line.split()[1]) for line in lines if line.startswith("failed"))
        network.join()
        begun = monotonic()
        next(line for line in lines if line.startswith("answer"))
        back = monotonic() - begun
        for process in (holder, writer):
            process.kill()
            process.communicate()

    assert freed < 32
    assert lost < 20
    assert back < 20


def _start(network: SeparateNetwork, code: str, url: str) -> subprocess.Popen[str]:
    command = [*network.prefix, sys.executable, "-c", code, url]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


class _cluster_for:  # noqa: N801  used as a context manager
    """A private server that also listens in a network."""

    def __init__(self, network: SeparateNetwork) -> None:
        self._network = network
        addresses = f"127.0.0.1,{network.address}"
        self._cluster = Cluster(listen_addresses=addresses)

    def __enter__(self) -> tuple[Cluster, str]:
        cluster = self._cluster.__enter__()
        with (cluster.data / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {self._network.subnet} trust\n")
        with psycopg.connect(cluster.url, autocommit=True) as db:
            db.execute("SELECT pg_reload_conf()")
        return cluster, cluster.url.replace("127.0.0.1", self._network.address)

    def __exit__(self, *reason: object) -> None:
        self._cluster.__exit__(None, None, None)
