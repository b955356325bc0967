"""The two databases under test, as the parent handles them: open, crash, copy, put back."""

import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from forum.ledger.ports import Reader
from forum.stores.postgres import PostgresStore
from forum.stores.postgres_schema import upgrade_schema
from forum.stores.sqlite import open_reader
from tests.soak.cluster import Cluster
from tests.soak.orders import ORIGIN


class Bench(ABC):
    """A database on this machine, in the parent's hands."""

    name: str
    can_crash: bool
    """Whether there is a server that can be stopped under load."""

    @property
    @abstractmethod
    def address(self) -> str:
        """What workers open."""

    @abstractmethod
    def reader(self) -> AbstractContextManager[Reader]:
        """Read the log as of one moment."""

    @abstractmethod
    def crash(self) -> None:
        """Stop the server at once, and start it again."""

    @abstractmethod
    def copy(self, to: Path) -> None:
        """Copy the files; no process may have them open."""

    @abstractmethod
    def put_back(self, copy: Path) -> None:
        """Replace the files by a copy; no process may have them open."""


class SqliteBench(Bench):
    """A ledger file.  There is no server: only processes can crash."""

    name = "sqlite"
    can_crash = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "sqlite"
        self._folder.mkdir()
        self._path = self._folder / "ledger.db"

    @property
    def address(self) -> str:
        """The path of the file."""
        return str(self._path)

    def reader(self) -> AbstractContextManager[Reader]:
        """Read the log as of one moment."""
        return open_reader(self._path, ORIGIN)

    def crash(self) -> None:
        """Do nothing."""

    def copy(self, to: Path) -> None:
        """Copy the file, with the write-ahead log that killed processes left beside it."""
        shutil.copytree(self._folder, to)

    def put_back(self, copy: Path) -> None:
        """Replace the file and all that stands beside it."""
        shutil.rmtree(self._folder)
        shutil.copytree(copy, self._folder)


class PostgresBench(Bench):
    """A database in a private cluster."""

    name = "postgres"
    can_crash = True

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        upgrade_schema(cluster.url)
        self._store = PostgresStore(cluster.url, ORIGIN, connections=1)

    @property
    def address(self) -> str:
        """The address of the database."""
        return self._cluster.url

    def reader(self) -> AbstractContextManager[Reader]:
        """Read the log as of one moment, through a connection of its own."""
        return self._store.snapshot()

    def crash(self) -> None:
        """Stop the server as a crash would, and start it again: it recovers from its log."""
        self._cluster.restart("immediate")

    def copy(self, to: Path) -> None:
        """Copy the data directory of the stopped server."""
        self._cluster.stop("fast")
        _copy(self._cluster.data, to)
        self._cluster.start()

    def put_back(self, copy: Path) -> None:
        """Replace the data directory of the stopped server."""
        self._cluster.stop("fast")
        shutil.rmtree(self._cluster.data)
        _copy(copy, self._cluster.data)
        self._cluster.start()

    def close(self) -> None:
        """Let go of the connections."""
        self._store.close()


@contextmanager
def open_bench(database: str, folder: Path) -> Iterator[Bench]:
    """Set up a database that nobody else uses."""
    if database == "sqlite":
        yield SqliteBench(folder)
        return
    with Cluster() as cluster:
        bench = PostgresBench(cluster)
        try:
            yield bench
        finally:
            bench.close()


def _copy(source: Path, target: Path) -> None:
    # Owner and mode too: the server refuses a directory that is not its own.
    subprocess.run(["cp", "--archive", source, target], check=True)
