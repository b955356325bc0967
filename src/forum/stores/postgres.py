"""The Postgres store: many logs in one database, written by many processes."""

from collections.abc import Mapping
from contextlib import AbstractContextManager

import psycopg

from forum import errors
from forum.ledger import ports
from forum.stores import sql_store
from forum.stores.postgres_connections import Connection, translate_errors
from forum.stores.postgres_publishing import PostgresPublisherStore
from forum.stores.postgres_reader import find_database, open_reader
from forum.stores.postgres_sessions import QUERIES, Purpose, connect, run_query

_WAIT_FOR_WRITERS = "LOCK TABLE forum.log, forum.entry, forum.body, forum.checkpoint IN SHARE MODE"
"""A statement waits for this lock of its table before it looks whether it may write."""


_WAIT_TIMEOUT = "2s"


_WAIT_ATTEMPTS = 10


class _PlacedSignal:
    """A signal of the database in which the log was when it was opened."""

    def __init__(self, store: "PostgresStore", signal: ports.WorkSignal) -> None:
        self._store, self._signal = store, signal
        self._moves = store.moves

    def wait(self, seconds: float) -> bool:
        """Wait for a notification.  Raises `StoreConnectionLost` when the log is elsewhere."""
        heard = self._signal.wait(seconds)
        if self._moves != self._store.moves:
            why = "the log was moved to another database"
            raise errors.StoreConnectionLost("listening", why)
        return heard

    def close(self) -> None:
        """Close the session."""
        self._signal.close()


class PostgresStore(PostgresPublisherStore, sql_store.SqlStore):
    """A store of one log in a Postgres database; a forked child reconnects on first use."""

    def _claim_due_timers(
        self, claim: ports.TimerClaim, pauses: dict[str, int]
    ) -> list[ports.Timer]:
        with self._write_connection("claiming timers") as db:
            values = claim._asdict() | pauses | {"log": self._log, "own": list(claim.own)}
            return [ports.Timer(*row) for row in run_query(db, "claim_due", **values).fetchall()]

    def open_signal(self, worker: str) -> ports.WorkSignal:
        """Listen for due timers in a session that holds a lock of this worker."""
        with translate_errors("listening"):
            return _PlacedSignal(self, self._connections.open_signal(self._log, worker))

    def beat(self, worker: str, lease_s: float, early_s: float) -> list[str]:
        """Renew the lease of a worker, and return the workers that are lost, in one statement."""
        micros, early = round(lease_s * 1e6), round(early_s * 1e6)
        most = round(ports.MAX_LEASE_S * 1e6)
        return self._fetch_column("beat", worker=worker, micros=micros, early=early, most=most)

    def _claim_runs(self, claim: ports.RunClaim, pauses: dict[str, int]) -> list[ports.Timer]:
        with self._write_connection("claiming runs") as db:
            values = claim._asdict() | pauses | {"log": self._log}
            return [ports.Timer(*row) for row in run_query(db, "claim_runs", **values).fetchall()]

    def find_sequencer(self) -> ports.SequencerSession | None:
        rows = self._fetch_rows("sequencer_session")
        return ports.SequencerSession(*rows[0]) if rows else None

    def read_state(self) -> ports.StoreState:
        """Return what a monitor looks at, in a session of its own."""
        # What an old primary says must not look like a database that was rolled back.
        return self._connections.read_state(self._log, self._guard.refuse_left)

    def try_writing(self) -> None:
        """Raise the `StoreFailed` of the cause if the database cannot be written.

        Raises `CommitsLost` and `LogEnded` too.
        """
        self.check_history()
        self._connections.try_writing()
        # With a connection of the pool, and what is checked before one is used.  Afterwards: the
        # pool waits long for a server that is away.
        _, has_mark = self._watch_head()
        if has_mark:
            self._check_not_stopped()

    def snapshot(self) -> AbstractContextManager[ports.Reader]:
        """Open a reader in a read-only transaction of its own: all its reads see one snapshot."""
        return open_reader(self._connections.url, self._origin, self._databases)

    def close(self) -> None:
        """Close all connections, except shared ones."""
        if self._is_sharing:
            self._connections.stop_leading(self._log)
        else:
            self._connections.close()
        for connections in self._left:
            connections.close()


def stop_appends(url: str, origin: str, databases: Mapping[str, str]) -> None:
    """Let nobody append to a log from now on; what is there can be sequenced and signed.

    Raises `StoreLocked` if a writer that began before does not end: then call it again.
    """
    _mark_ended(url, origin, databases, n=1)


def end_log(url: str, origin: str, databases: Mapping[str, str]) -> None:
    """Let nobody change a log from now on, because its next epoch begins.

    Raises `StoreLocked` if a writer that began before does not end: then call it again.
    """
    _mark_ended(url, origin, databases, n=0)


def _mark_ended(url: str, origin: str, databases: Mapping[str, str], *, n: int) -> None:
    with (
        translate_errors("ending the log"),
        connect(find_database(url, origin, databases), Purpose.LONG, autocommit=True) as db,
    ):
        db.execute(QUERIES["mark_ended"], {"origin": origin, "n": n})
        wait_for_writers(db)


def reopen_log(url: str, origin: str, databases: Mapping[str, str]) -> None:
    """Let processes add to a log again, because its next epoch could not begin."""
    with (
        translate_errors("going on with the log"),
        connect(find_database(url, origin, databases), Purpose.LONG, autocommit=True) as db,
    ):
        db.execute(QUERIES["reopen_log"], {"origin": origin})


def wait_for_writers(db: Connection) -> None:
    """Wait for the statements that write and began before a mark of a log was committed.

    All writers of the database wait behind the lock that this takes, so it is given up soon and
    tried again.  Raises `psycopg.errors.LockNotAvailable` if one of the statements does not end.
    """
    for left in reversed(range(_WAIT_ATTEMPTS)):
        try:
            with db.transaction():
                db.execute("SELECT set_config('lock_timeout', %s, true)", (_WAIT_TIMEOUT,))
                db.execute(_WAIT_FOR_WRITERS)
        except psycopg.errors.LockNotAvailable:
            if not left:
                raise
        else:
            return
