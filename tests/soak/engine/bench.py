"""The two deployments under test, as the parent handles them."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from forum.app import upgrade_database
from tests.soak.cluster import Cluster
from tests.soak.engine.orders import Orders


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
    def crash(self) -> None:
        """Stop the server at once, and start it again."""

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

    def crash(self) -> None:
        """Do nothing: there is no server."""

    def forget(self) -> None:
        """Do nothing: there are no queues."""

    def memory(self) -> Iterator[tuple[str, str]]:
        """Yield nothing."""
        yield from ()


class PostgresBench(Bench):
    """One database in a private cluster."""

    name = "postgres"
    can_crash = True
    one_writer = False

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        super().__init__(folder, cluster.url)
        self._cluster = cluster
        upgrade_database(self.settings)

    def crash(self) -> None:
        """Stop the server as a crash would, and start it again: it recovers from its log."""
        self._cluster.restart("immediate")

    def forget(self) -> None:
        """Drop the schema of the queues."""
        with psycopg.connect(self._cluster.url) as db:
            db.execute("DROP SCHEMA IF EXISTS dbos CASCADE")

    def memory(self) -> Iterator[tuple[str, str]]:
        """Yield every row of every table."""
        with psycopg.connect(self._cluster.url) as db:
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
    with Cluster() as cluster:
        yield PostgresBench(folder, cluster)


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
