"""Finds out whether a Postgres database can be written, in a session of its own.

A transaction that is rolled back would not show that a commit reaches the disk, and an update of an
existing row not that the disk has room.  So a probe

- waits briefly for the lock that every writer needs on the tables;
- lets the server write a temporary file of about 128 KiB, in the tablespace of the database;
- commits a message in the write-ahead log (`pg_logical_emit_message`), which is flushed to the disk
  and to a synchronous standby, and changes no table.

Limits: it cannot see a quota of a single table, a tablespace that is used for some tables only, nor
a disk that has room for the probe and less than the next append needs.
"""

from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from time import monotonic

import psycopg

from forum import errors
from forum.ledger.ports import StoreState
from forum.stores.fork_safety import ForkAware, register_fork_aware
from forum.stores.postgres_sessions import QUERIES, LimitedSession, Purpose, connect

# Several statements in one message of the protocol: they are one transaction.
_TRY_WRITING = (
    "LOCK TABLE ONLY forum.strand, ONLY forum.entry IN ROW EXCLUSIVE MODE; "
    f"{QUERIES['try_writing']}"
)
_SHARED_S = 1.0
"""How long the result of a probe serves all logs of a process."""


class DatabaseProbe(ForkAware):
    """A session that reads what a monitor needs, and tries whether it can write."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.after_fork_in_child()
        register_fork_aware(self)

    def after_fork_in_child(self) -> None:
        """Begin without a session: the one of the parent is abandoned."""
        self._lock, self._session = Lock(), None
        self._hanging: int | None = None
        self._tried_at, self._refused = -_SHARED_S, None

    _session: LimitedSession | None
    _hanging: int | None
    """The process of the server in which a commit of an earlier probe did not end."""
    _refused: psycopg.Error | errors.StoreTimedOut | None

    def read_state(self, log: int, check: Callable[[LimitedSession], None]) -> StoreState:
        """Return the state of a log.  Raises the errors of the driver, and those of a check."""
        with self._lock, self._use() as session:
            check(session)
            row = session.execute(QUERIES["log_state"], {"log": log}).fetchone()
        assert row is not None  # noqa: S101  the statement has no FROM that could be empty
        return StoreState(*row)

    def try_writing(self) -> None:
        """Raise the error of the driver, or `StoreTimedOut`, unless a commit is durable."""
        with self._lock:
            if monotonic() - self._tried_at >= _SHARED_S:
                try:
                    self._write()
                    self._refused = None
                except (psycopg.Error, errors.StoreTimedOut) as error:
                    self._refused = error
                self._tried_at = monotonic()
            refused = self._refused
        if refused is not None:
            raise refused

    def close(self) -> None:
        """Close the session."""
        with self._lock:
            if self._session is not None:
                self._session.close()
                self._session = None

    def _write(self) -> None:
        if self._hanging is not None:
            # Each further attempt would leave another session behind that cannot be ended.
            with self._use() as session:
                if session.execute(QUERIES["has_process"], (self._hanging,)).fetchone():
                    raise _hangs()
            self._hanging = None
        with self._use() as session:
            process = session.info.backend_pid
            try:
                session.execute(_TRY_WRITING.encode(), prepare=False)
            except psycopg.OperationalError as error:
                if error.sqlstate is None and session.closed:
                    self._hanging = process
                    raise _hangs() from error
                raise

    def _use(self) -> "_Used":
        if self._session is None or self._session.closed:
            session = connect(self._url, Purpose.PROBE, autocommit=True)
            session.execute(QUERIES["spill_early"])
            self._session = session
        return _Used(self._session)


class _Used:
    """A session in use: closed after an error that leaves its state unknown."""

    def __init__(self, session: LimitedSession) -> None:
        self._session = session

    def __enter__(self) -> LimitedSession:
        return self._session

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            with suppress(psycopg.Error):
                self._session.close()


def _hangs() -> errors.StoreTimedOut:
    why = "a commit has not ended; the database waits for its disk or for a synchronous standby"
    return errors.StoreTimedOut("trying whether it can be written", why)
