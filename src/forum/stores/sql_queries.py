"""What the parts of the SQL stores share: named queries, and transactions that run them.

Both databases run the same query names with the same parameters; only the SQL text differs.
"""

import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from struct import unpack
from typing import Any, Protocol

from forum import errors
from forum.ledger import ports
from forum.ledger.database_memory import Lineage

PAGE_ROWS = 1000
"""The maximum number of rows per query page."""


MAX_CACHED_STRANDS = 100_000
"""The maximum number of strand keys that a store caches in memory."""


MAX_SMALL_BODY_BYTES = 8192
"""The largest body, in bytes, that a batch query returns inline."""


def check_not_forked(process: int) -> None:
    """Raise `StoreFailed` in a child of the process that opened a snapshot."""
    if process != os.getpid():
        raise errors.StoreFailed(
            "reading", "this snapshot was opened before a fork; open a new one"
        )


def leaf_prefixes(leaves: Sequence[bytes]) -> tuple[int, ...]:
    """Return the lookup keys of leaves: the first eight bytes of each as a signed integer."""
    return unpack(f">{len(leaves)}q", b"".join([leaf[:8] for leaf in leaves]))


def to_micros(seconds: float) -> int:
    """Return seconds as microseconds."""
    return round(seconds * 1_000_000)


class QueryResult(Protocol):
    """The result of a statement: a database cursor."""

    @property
    def rowcount(self) -> int:
        """The number of rows found or changed."""

    def fetchall(self) -> list[Any]:
        """Return all rows of the result."""


class QueryExecutor(Protocol):
    """A function that runs a named query in an open transaction."""

    def __call__(self, query: str, **parameters: object) -> QueryResult:
        """Run the query and return its result."""


class SqlQueries(ports.LogIdentity):
    """Runs the named queries of a database for one log."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._log = 0
        self.lineage = Lineage()

    @abstractmethod
    def _fetch(self, query: str, parameters: dict[str, object]) -> list[Any]:
        """Run a query and return all of its rows."""

    def _fetch_rows(self, query: str, **parameters: object) -> list[Any]:
        """Run a query with the id of this log as the parameter `log`, and return all rows."""
        return self._fetch(query, {"log": self._log, **parameters})

    def _fetch_column(self, query: str, **parameters: object) -> list[Any]:
        """Return the first column of all rows."""
        return [row[0] for row in self._fetch_rows(query, **parameters)]

    def _fetch_one(self, query: str, **parameters: object) -> Any:  # noqa: ANN401  a column may have any type
        """Return the first column of the first row, or None."""
        return next(iter(self._fetch_column(query, **parameters)), None)

    def _fetch_pages(self, query: str, name: str, start: int, **place: object) -> Iterator[Any]:
        """Yield the rows of a query from the number `start` on, fetched page by page."""
        while page := self._fetch_rows(query, **place, **{name: start}, limit=PAGE_ROWS):
            yield from page
            # A tampered row whose number is too small would make this loop endless.
            if len(page) < PAGE_ROWS or page[-1][0] < start:
                return
            start = page[-1][0] + 1

    @abstractmethod
    def _list(self, values: list[int] | list[str]) -> object:
        """Return a list of integers or strings in the form that a query parameter needs."""

    @property
    def origin(self) -> str:
        return self._origin


class SqlClock(SqlQueries, ports.StoreClock):
    """Reads the clock of the database."""

    def now(self) -> int:
        return int(self._fetch_one("now"))


class SqlTransactions(SqlQueries):
    """Runs the named queries in transactions."""

    @abstractmethod
    def _write_transaction(self, doing: str) -> AbstractContextManager[QueryExecutor]:
        """Open a transaction: commit at the end of the block, roll back if the block raises."""

    def _check_not_moving(self, execute: QueryExecutor) -> None:
        """Raise `LogPaused` while the log is copied to another database."""

    def _change(self, doing: str, query: str, **parameters: object) -> None:
        """Run one statement in a transaction of its own."""
        with self._write_transaction(doing) as execute:
            execute(query, **parameters)
