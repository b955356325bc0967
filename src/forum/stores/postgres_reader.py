"""Readers of one log in a Postgres database, wherever it was moved."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg

from forum import errors
from forum.ledger import ports
from forum.stores import sql_queries, sql_store
from forum.stores.postgres_connections import Connection, translate_errors
from forum.stores.postgres_schema import check_catalogue
from forum.stores.postgres_sessions import Purpose, check_database_url, connect, fetch_rows
from forum.stores.sql_entries import SqlEntryReader

_MAX_ID = 2**63 - 1


StrandKey = tuple[str, str]


NO_DATABASES: Mapping[str, str] = {}
"""No other database is named, to which a log may have been moved."""


class PostgresQueries(SqlEntryReader):
    """The parameters of queries in the form that Postgres needs."""

    def _list(self, values: list[int] | list[str]) -> object:
        return values

    def _entries_at(self, places: list[tuple[int | None, int]]) -> list[Any]:
        strands, ns = [place[0] for place in places], [place[1] for place in places]
        return self._fetch_rows("entries_at", strands=strands, ns=ns)

    def _last_entries(self, places: Sequence[tuple[str, str]]) -> list[Any]:
        runs, names = [place[0] for place in places], [place[1] for place in places]
        bounds = self._strand_bounds(places)
        return self._fetch_rows("last_entries", runs=runs, names=names, **bounds)

    def _bodies_at(self, places: list[tuple[str, str, int, str]]) -> list[Any]:
        runs, strands, ns, names = map(list, zip(*places, strict=True))
        return self._fetch_rows(
            "bodies_at",
            runs=runs,
            strands=strands,
            ns=ns,
            names=names,
            size=sql_queries.MAX_SMALL_BODY_BYTES,
            **self._strand_bounds([place[:2] for place in places]),
        )

    def _strand_bounds(self, strands: Sequence[StrandKey]) -> dict[str, int]:
        """Return the lowest and the highest id of strands; all ids if one is not known."""
        cached = self._strand_ids.value
        ids = [cached.get(strand) for strand in strands]
        known_ids = [strand for strand in ids if strand is not None]
        if len(known_ids) < len(ids) or not known_ids:
            return {"low": 0, "high": _MAX_ID}
        return {"low": min(known_ids), "high": max(known_ids)}


class PostgresReader(PostgresQueries, sql_store.SqlReader):
    """A reader of one log in one transaction: all queries see the same snapshot."""

    def __init__(self, connection: Connection, origin: str, log: int) -> None:
        super().__init__(origin)
        self._db, self._log = connection, log
        self._process = os.getpid()

    def check_catalogue(self) -> ports.CatalogueCheck:
        sql_queries.check_not_forked(self._process)
        return check_catalogue(self._db)

    def _fetch(self, query: str, parameters: dict[str, object]) -> list[Any]:
        sql_queries.check_not_forked(self._process)
        return fetch_rows(self._db, query, parameters)


@contextmanager
def open_reader(
    url: str, origin: str, databases: Mapping[str, str] = NO_DATABASES
) -> Iterator[PostgresReader]:
    """Open a reader of one snapshot of a log in a read-only transaction.

    A log that was moved is read in the one of the other databases where it is.  Raises `NoSuchLog`,
    and `LogMoved`.
    """
    check_database_url(url)
    with translate_errors("reading"), connect(url, Purpose.LONG) as db:
        db.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        db.read_only = True
        # With REPEATABLE READ, this first statement takes the snapshot that all later reads see.
        rows = fetch_rows(db, "log", {"origin": origin})
        if not rows:
            raise errors.NoSuchLog(origin)
        left = find_left(db, rows[0][0])
        if left is None:
            yield PostgresReader(db, origin, rows[0][0])
    if left is not None:
        if left.place not in databases:
            raise errors.LogMoved(origin, left.place)
        with open_reader(databases[left.place], origin, databases) as reader:
            yield reader


def find_database(url: str, origin: str, databases: Mapping[str, str]) -> str:
    """Return the address of the database in which a log is: this one, or where it was moved to.

    Raises `LogMoved` if that has no name here.
    """
    with translate_errors("looking for the log"), connect(url, Purpose.LONG) as db:
        rows = fetch_rows(db, "log", {"origin": origin})
        left = find_left(db, rows[0][0]) if rows else None
    if left is None:
        return url
    if left.place not in databases:
        raise errors.LogMoved(origin, left.place)
    return find_database(databases[left.place], origin, databases)


class LeftLog(NamedTuple):
    """Where a log is that was moved."""

    place: str
    id: str


def find_left(db: Connection, log: int) -> LeftLog | None:
    """Return where a log is, if it was moved from this database; an older schema has no moves."""
    if not fetch_rows(db, "has_moves", {})[0][0]:
        return None
    rows = fetch_rows(db, "move", {"log": log})
    return LeftLog(*rows[0][1:]) if rows and rows[0][0] == "left" else None
