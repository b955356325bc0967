"""One log in a Postgres database: its connections, and the checks before they are used.

A log may be moved to another database while processes work with it, and a standby that lacks
commits may take the place of a server.  So what reads or writes here compares the tree with those
seen before, and follows the log.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from math import inf
from threading import Lock
from typing import Any

import psycopg

from forum import errors
from forum.ledger import ports
from forum.ledger.database_memory import DatabaseMemory
from forum.ledger.epochs import previous_epoch
from forum.ledger.strand import ENDED_MARK, LOST_COMMITS_MARK
from forum.stores.database_guard import DatabaseGuard
from forum.stores.postgres_connections import POOL_SIZE, Connection, PostgresConnections
from forum.stores.postgres_reader import (
    NO_DATABASES,
    PostgresQueries,
    PostgresReader,
    StrandKey,
    find_left,
)
from forum.stores.postgres_schema import check_catalogue, check_schema
from forum.stores.postgres_sessions import QUERIES, fetch_rows, run_query
from forum.stores.sql_queries import QueryExecutor, SqlTransactions
from forum.tlog import EMPTY_ROOT, Hash
from forum.tracing import SpanName, begin_span

_MAX_PLACES = 5
"""The number of attempts of a write, each after the log was followed."""


_END_MARKS = [LOST_COMMITS_MARK, ENDED_MARK]
"""Each of these in the table of heads stops the processes of a log."""


class NotHereError(Exception):
    """The statement inserted nothing, because the log is not in this database."""


class PostgresLog(PostgresQueries, SqlTransactions):
    """Runs queries and transactions where the log is, over connections that were checked."""

    def __init__(
        self,
        url: str,
        origin: str,
        connections: int = POOL_SIZE,
        shared: PostgresConnections | None = None,
        after_look: Callable[[], None] = lambda: None,
        databases: Mapping[str, str] = NO_DATABASES,
    ) -> None:
        """Open a log, with connections of its own unless it is given some that others use too.

        `after_look` is called now and then while the log is used, with its tree compared.  A log
        that was moved is followed to those of the other databases that are named.
        """
        super().__init__(origin)
        self._databases, self._moves = databases, 0
        self._looked_at = -inf
        self._follow_lock = Lock()
        self._left: list[PostgresConnections] = []
        """Own connections to databases where the log was before; threads may still use them."""
        self._connections = shared or PostgresConnections(url, connections)
        self._guard = DatabaseGuard(origin, self.lineage, self._open_over)
        self._confirmed: DatabaseMemory[set[StrandKey]] = DatabaseMemory(self.lineage, set)
        """Strands whose end was compared with the record since the database has changed."""
        self._is_sharing, self._after_look = shared is not None, after_look
        if shared is None:
            self._connections.connect()
        try:
            self._begin()
        except BaseException:
            if shared is None:
                self._connections.close()
            raise

    def _begin(self) -> None:
        with self._connection("opening the log") as db:
            check_schema(db)
        fsync, commit = self._fetch_rows("durability")[0]
        # With these off, the server could acknowledge a commit and lose it in a crash.
        if fsync != "on" or commit == "off":
            raise errors.DurabilityDisabled(f"fsync is {fsync}, synchronous_commit is {commit}")
        # A tenant may not add a log, and an insert that adds nothing is refused as well.
        log: int | None = self._fetch_one("log", origin=self._origin)
        if log is None:
            with self._connection("opening the log") as db:
                add_log(db, self._origin)
            log = self._fetch_one("log", origin=self._origin)
        if log is None:
            raise errors.NoSuchLog(self._origin)
        self._log = log
        with self._connection("looking for the log") as db:
            left = find_left(db, log)
        if left is not None:
            self._follow(left.place, left.id)

    @property
    def moves(self) -> int:
        """How often this store has followed its log to another database."""
        return self._moves

    def _write_where_it_is(self, write: Callable[[], None]) -> None:
        """Call a function that raises `NotHereError` where the log is not; follow the log."""
        for _ in range(_MAX_PLACES):
            moves = self._moves
            try:
                return write()
            except NotHereError:
                # Nothing was recorded.  Another attempt if the log is here again, or elsewhere.
                self._find_log(moves)
                self._check_not_stopped()
        raise errors.LogPaused(self._origin)

    def _find_log(self, moves: int) -> None:
        """Find out where a log is that did not take a write, and follow it.

        `moves` tells how often this store had moved before.  Raises `LogPaused` while the log is
        being moved, `LogMoved` if it is in a database without a name here, and `LogEnded` if it is
        not signed any more.
        """
        with self._follow_lock:
            if moves != self._moves:
                return  # another thread has followed it
            with self._write_transaction("looking for the log") as execute:
                rows = execute("move").fetchall()
                is_here = not rows or rows[0][0] == "copying"
                if rows and rows[0][0] == "paused":
                    try:
                        is_here = execute("end_lost_move").rowcount == 1
                    except psycopg.errors.InsufficientPrivilege:
                        raise errors.LogPaused(self._origin) from None  # a tenant may not
                ended = execute("strand_head", strand=ENDED_MARK).fetchall()
            if is_here and ended and not ended[0][0]:
                raise errors.LogEnded(self._origin)
            if is_here:
                return
            state, place, move = rows[0]
            if state != "left":
                raise errors.LogPaused(self._origin)
            self._follow(place, move)

    def _check_not_stopped(self) -> None:
        """Raise `LogEnded` if the log takes no entries, because its next epoch begins."""
        if self._fetch_rows("strand_head", strand=ENDED_MARK):
            raise errors.LogEnded(self._origin)

    def _follow(self, place: str, move: str) -> None:
        """Use the log in another database from now on.  Raises `LogMoved`."""
        if place not in self._databases:
            raise errors.LogMoved(self._origin, place)
        there = PostgresConnections(self._databases[place])
        there.connect()
        try:
            with there.use("opening the log") as db:
                if not fetch_rows(db, "log", {"origin": self._origin}):
                    add_log(db, self._origin)
                log = fetch_rows(db, "log", {"origin": self._origin})[0][0]
                # The other database says that it left, so it has arrived, even if the mover was
                # killed before it wrote so.
                db.execute(QUERIES["arrive"], {"log": log, "id": move})
        except BaseException:
            there.close()
            raise
        if self._is_sharing:
            self._connections.stop_leading(self._log)
        else:
            self._left.append(self._connections)
        self._connections, self._log = there, log
        self._is_sharing = False
        self.lineage.move()
        self._moves += 1

    def _check_not_moving(self, execute: QueryExecutor) -> None:
        """Raise `LogPaused` while the log is copied: what is erased must not be in the copy."""
        # The mover waits for this lock after it has said that it copies.  So either it waits for
        # this transaction, or this statement sees what it has said.
        execute("lock_bodies")
        if execute("move").fetchall() and execute("end_lost_move").rowcount == 0:
            raise errors.LogPaused(self._origin)

    def check_catalogue(self) -> ports.CatalogueCheck:
        with self._connection("reading the catalogue") as db:
            return check_catalogue(db)

    def _fetch(self, query: str, parameters: dict[str, object]) -> list[Any]:
        try:
            return self._fetch_once(query, parameters)
        except errors.StoreConnectionLost:
            # After a restart of the server, all connections in the pool are broken, and have been
            # dropped: retry once.  A read can always be repeated.
            return self._fetch_once(query, parameters)

    def _fetch_once(self, query: str, parameters: Mapping[str, object]) -> list[Any]:
        with self._connection(f"reading ({query})") as db:
            return fetch_rows(db, query, parameters)

    @contextmanager
    def _connection(self, doing: str) -> Iterator[Connection]:
        with begin_span(SpanName.STORE, doing), self._connections.use(doing) as db:
            self._guard.admit(db)
            yield db

    @contextmanager
    def _write_connection(self, doing: str) -> Iterator[Connection]:
        with self._connection(doing) as db:
            self._guard.check(db)
            yield db

    @contextmanager
    def _write_transaction(self, doing: str) -> Iterator[QueryExecutor]:
        with self._write_connection(doing) as db, db.transaction():
            yield partial(run_query, db, log=self._log)

    def _open_over(self, db: Connection) -> "PostgresReader | None":
        """Open this log over a session; None if the database lacks it."""
        rows = fetch_rows(db, "log", {"origin": self._origin})
        if not rows:
            return None
        self._log = rows[0][0]  # a database that was made from a dump has other ids
        return PostgresReader(db, self._origin, self._log)

    def head(self) -> ports.TreeHead:
        """Return the tree that the sequencer committed last, and compare it with those seen."""
        return self._watch_head()[0]

    def _watch_head(self) -> tuple[ports.TreeHead, bool]:
        """Return the head as `head` does, and whether a mark stops the processes of the log."""
        before = self._guard.seen
        *row, has_mark = self._fetch_rows("watched_head", marks=_END_MARKS)[0]
        head = ports.TreeHead(row[0], Hash(row[1]))
        is_behind = not self._guard.note_head(head, before)
        is_due = self._guard.begin_look()
        if is_behind or (is_due and has_mark):
            with self._connection("comparing trees") as db:
                self._guard.look(db, again=is_behind)
        if is_due:
            self._after_look()
        return head, has_mark

    def require_history(self, head: ports.TreeHead) -> None:
        with self._connection("comparing trees") as db:
            self._guard.require(db, head)

    def check_history(self) -> None:
        if self._guard.has_ended:
            with self._write_connection("looking for the log"):
                return  # its next epoch could not begin, and it goes on
        self._guard.check()


def add_log(db: Connection, origin: str) -> None:
    """Add a log; if the epoch before it was moved, it begins where that one is."""
    rows = fetch_rows(db, "log", {"origin": previous_epoch(origin) or ""})
    left = find_left(db, rows[0][0]) if rows else None
    try:
        with db.transaction():
            db.execute(QUERIES["add_log"], (origin, EMPTY_ROOT))
            if left is not None:
                db.execute(QUERIES["add_left"], {"origin": origin, **left._asdict()})
    except psycopg.errors.InsufficientPrivilege as error:
        why = f"this user of the database may not add {origin}"
        hint = "The operator does: forum tenant epoch NAME, or after one: forum tenant role NAME"
        raise errors.StoreFailed("opening the log", why, hint) from error
