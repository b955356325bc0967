"""The two deployments under test, as the parent handles them."""

import shutil
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import sleep

import psycopg

from forum.app import upgrade_database
from tests.disks import filled, small_disk
from tests.soak.cluster import Cluster, Standby
from tests.soak.engine.orders import Orders
from tests.tcp_proxy import HangingProxy

_HANG_SECONDS = 25.0
"""Longer than the 20 seconds after which a client gives a silent server up."""
_FULL_SECONDS = 6.0
_TABLES_MEGABYTES = 256


class Bench(ABC):
    """A ledger and the queues of its engine, in the parent's hands."""

    name: str
    can_crash: bool
    """Whether there is a server that can be stopped under load."""
    one_writer: bool
    """Whether a process that is stopped may hold a lock for which all others wait."""

    def __init__(self, folder: Path, database: str | None) -> None:
        self.folder, self.database = folder, database
        (folder / "evidence").mkdir()
        self.settings = Orders(str(folder), database, "parent").settings

    @abstractmethod
    def strike(self) -> str:
        """Let the next fault happen to the server, see it pass, and return what happened."""

    @abstractmethod
    def forget(self) -> None:
        """Delete all that DBOS remembers; no worker may live."""

    @abstractmethod
    def memory(self) -> Iterator[tuple[str, str]]:
        """Yield all that DBOS remembers: where it stands, and its text."""


class SqliteBench(Bench):
    """One file."""

    name = "sqlite"
    can_crash = False
    one_writer = True

    def strike(self) -> str:
        """Do nothing: there is no server."""
        return "nothing"

    def forget(self) -> None:
        """Do nothing: there are no queues."""

    def memory(self) -> Iterator[tuple[str, str]]:
        """Yield nothing."""
        yield from ()


class PostgresBench(Bench):
    """A private cluster with a synchronous standby, behind a proxy that leads to the primary."""

    name = "postgres"
    can_crash = True
    one_writer = False

    def __init__(
        self, folder: Path, primary: Cluster, standby: Standby, proxy: HangingProxy
    ) -> None:
        super().__init__(folder, primary.url.replace(f":{primary.port}/", f":{proxy.port}/"))
        self._server, self._standby = primary, standby
        self._proxy = proxy
        self._faults: deque[Callable[[], str]] = deque(
            (self._restart, self._hang, self._fill_disk, self._fail_over)
        )
        upgrade_database(self.settings)

    def strike(self) -> str:
        """Let each fault happen in turn; those that need the first server, once."""
        fault = self._faults.popleft()
        if fault in (self._restart, self._hang):
            self._faults.append(fault)
        return fault()

    def _restart(self) -> str:
        """Stop the server as a crash would, and start it again: it recovers from its log."""
        self._server.restart("immediate")
        return "restarted"

    def _hang(self) -> str:
        """Pass nothing on for longer than clients wait, then what they sent, too late."""
        self._proxy.hangs.set()
        sleep(_HANG_SECONDS)
        self._proxy.hangs.clear()
        return "out of reach"

    def _fill_disk(self) -> str:
        """Leave no room for rows: the server goes on, and refuses to write."""
        with filled(_tables(self._server)):
            sleep(_FULL_SECONDS)
        return "without room"

    def _fail_over(self) -> str:
        """Kill the primary, and let the standby take its place."""
        self._server.kill()
        self._standby.promote()
        self._proxy.target = self._standby.port
        self._server = self._standby
        return "replaced by its standby"

    def forget(self) -> None:
        """Drop the schema of the queues."""
        with psycopg.connect(self._server.url) as db:
            db.execute("DROP SCHEMA IF EXISTS dbos CASCADE")

    def memory(self) -> Iterator[tuple[str, str]]:
        """Yield every row of every table."""
        with psycopg.connect(self._server.url) as db:
            tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'dbos'"
            for (table,) in db.execute(tables).fetchall():
                rows = db.execute(f'SELECT * FROM dbos."{table}"'.encode())  # noqa: S608  likewise
                columns = [column.name for column in rows.description or ()]
                for row in rows:
                    for column, value in zip(columns, row, strict=True):
                        yield f"{table}.{column}", _text(value)


@contextmanager
def open_bench(database: str, folder: Path) -> Iterator[Bench]:
    """Set up a deployment that nobody else uses."""
    if database == "sqlite":
        yield SqliteBench(folder, None)
        return
    with ExitStack() as stack:
        primary = stack.enter_context(Cluster(allow_in_place_tablespaces="on"))
        standby = stack.enter_context(Standby(primary))
        _move_tables(stack, primary)
        with psycopg.connect(primary.url, autocommit=True) as db:
            db.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
            db.execute("SELECT pg_reload_conf()")
        proxy = HangingProxy(primary.port)
        proxy.start()
        stack.callback(proxy.stop)
        stack.callback(proxy.hangs.clear)
        yield PostgresBench(folder, primary, standby, proxy)


def _move_tables(stack: ExitStack, primary: Cluster) -> None:
    """Put the tables of the primary on a small disk, and those of its standby where it likes."""
    stack.enter_context(small_disk(_tables(primary), _TABLES_MEGABYTES))
    shutil.chown(_tables(primary), "postgres", "postgres")
    with psycopg.connect(primary.url.replace("/test", "/postgres"), autocommit=True) as db:
        db.execute("CREATE TABLESPACE small LOCATION ''")
        db.execute("ALTER DATABASE test SET TABLESPACE small")


def _tables(cluster: Cluster) -> Path:
    return cluster.data / "pg_tblspc"


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
