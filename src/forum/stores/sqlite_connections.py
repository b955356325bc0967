"""Connections to a ledger file: shared by threads, closed by forks, and durable.

Every connection that writes uses the write-ahead log with `synchronous=FULL`, so that a commit is
durable when it returns, and `secure_delete`, so that erased bodies are overwritten.
"""

import os
import sqlite3
from pathlib import Path
from threading import RLock
from time import monotonic, sleep
from typing import Any

from forum import errors
from forum.stores.fork_safety import ForkAware, block_forks, register_fork_aware
from forum.stores.sqlite_errors import translate_errors
from forum.stores.sqlite_schema import check_version

_BUSY_TIMEOUT_S = 20.0


_RETRY_DELAY_S = 0.01


class SharedConnection(sqlite3.Connection, ForkAware):
    """A connection for all threads of one process, one thread at a time; a fork closes it.

    SQLite tracks its file locks in memory per process, not per connection.  A forked child inherits
    this table, but not the locks themselves: while an inherited connection is open, even a new
    connection would read and write without locks.  So a child closes all inherited connections at
    once.  Closing them does not affect the parent, which keeps its own locks, provided that no
    transaction was open; therefore a fork waits for open transactions.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401  as in sqlite3
        super().__init__(*arguments, **options)
        self.lock = RLock()
        register_fork_aware(self)

    def close(self) -> None:
        """Close the connection, after waiting for the thread that uses it."""
        with self.lock:
            super().close()

    def before_fork(self) -> None:
        """Wait for the running statement or transaction, and block new ones."""
        self.lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Let the threads of the parent continue."""
        self.lock.release()

    def after_fork_in_child(self) -> None:
        """Close the connection, so that SQLite drops its inherited table of locks."""
        self.lock = RLock()
        self.close()


def connect(
    path: Path, *, read_only: bool = False, busy_timeout_s: float = _BUSY_TIMEOUT_S
) -> SharedConnection:
    """Open a connection for all threads; one that writes is durable.

    Raises `SchemaTooNew`, `DurabilityDisabled`, and the `StoreFailed` of the cause.
    """
    with translate_errors(f"opening {path}"):
        if not read_only:
            make_private(path)
        # No fork between opening and registration: a child would not close this connection.
        with block_forks():
            connection = SharedConnection(
                _uri(path, read_only=read_only),
                uri=True,
                timeout=busy_timeout_s,
                isolation_level=None,
                check_same_thread=False,
            )
        try:
            with connection.lock:
                check_version(connection)
                if not read_only:
                    _make_durable(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def _uri(path: Path, *, read_only: bool) -> str:
    if not read_only:
        return f"{path.absolute().as_uri()}?mode=rwc"
    if not path.exists():
        raise errors.StoreFailed("opening", f"there is no ledger at {path}")
    # On a read-only disk SQLite can open a WAL database only as immutable.  That ignores the
    # write-ahead log: with a log that is not empty, it would show an older state, so the normal
    # mode is used, which fails.
    log = path.with_name(path.name + "-wal")
    closed = not log.exists() or log.stat().st_size == 0
    frozen = closed and not _can_create_beside(path)
    return f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if frozen else ''}"


def _can_create_beside(path: Path) -> bool:
    # Without opening it: when the file is closed, the operating system drops the locks that other
    # connections of this process have on it, and other processes would truncate what is in use.
    shared = path.with_name(path.name + "-shm")
    return os.access(shared if shared.exists() else path.parent, os.W_OK)


def use_wal(connection: sqlite3.Connection) -> str:
    """Switch a file to the write-ahead log, and return the mode that it is in."""
    # The busy timeout does not cover the lock that this statement needs on a new file.  Without
    # this loop, all but one of several processes that create a ledger at once would fail.
    deadline = monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            journal: str = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > deadline:
                raise
            sleep(_RETRY_DELAY_S)
        else:
            return journal


def make_private(path: Path) -> None:
    """Make an empty file that only its owner may read, unless there is one."""
    # Bodies hold confidential replies of agents, so only the owner may read the file.  SQLite
    # creates its journal files with the same mode.
    try:
        if not path.exists():
            path.touch(mode=0o600)
    except OSError as error:
        remedy = "Check that its disk has free space, and that this user may write there"
        raise errors.StoreFailed(f"opening {path}", error.strerror or str(error), remedy) from None


def _make_durable(connection: sqlite3.Connection) -> None:
    journal = use_wal(connection)
    connection.execute("PRAGMA synchronous = FULL")
    # On macOS a file is only on the disk after a full sync; elsewhere these change nothing.
    connection.execute("PRAGMA fullfsync = ON")
    connection.execute("PRAGMA checkpoint_fullfsync = ON")
    connection.execute("PRAGMA secure_delete = ON")
    level = connection.execute("PRAGMA synchronous").fetchone()[0]
    if journal != "wal" or level < 2:  # 2 is FULL
        raise errors.DurabilityDisabled(f"journal_mode is {journal}, synchronous is {level}")


def is_only_connection(connection: sqlite3.Connection) -> bool:
    """Return whether no other connection is open; if so, leave the file in rollback mode.

    SQLite allows a file to leave WAL mode only if a single connection has it open.
    """
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        journal = connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        journal = "wal"
    finally:
        connection.execute(f"PRAGMA busy_timeout = {round(1000 * _BUSY_TIMEOUT_S)}")
    return bool(journal == "delete")
