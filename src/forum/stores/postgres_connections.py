"""The connections of one process to a Postgres database, for one log or for many.

Statements use a pool.  Locks belong to sessions: one session holds the sequencer locks of all logs
that this process leads, and one listens for due timers and holds the lock of the worker.
"""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from threading import Event, Lock, Thread
from time import monotonic
from typing import NamedTuple

import psycopg
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from forum import errors
from forum.ledger import ports
from forum.ledger.entry import LOG_RUN
from forum.ledger.retention_holds import RETENTION_STRAND
from forum.stores.fork_safety import ForkAware, register_fork_aware
from forum.stores.postgres_probe import DatabaseProbe
from forum.stores.postgres_sessions import (
    QUERIES,
    LimitedSession,
    Purpose,
    RetryDelay,
    abandon_sessions,
    check_database_url,
    connect,
    is_alive,
    make_pool,
)

POOL_SIZE = 8
_POOL_TIMEOUT_S = 10.0
_SHRINK_INTERVAL_S = 0.5
"""How often the pool closes one connection, if one was unused for so long."""
_LEAD_CHECK_INTERVAL_S = 4.0
"""How often a leader checks its session.  Two leaders at once are safe, and only waste work."""
_LISTEN_S = 0.2
"""How long a thread listens before it looks whether it has to end."""
_is_log_number = re.compile(r"[0-9]{1,19}").fullmatch

# The pool logs a warning for every failed connection attempt.  Callers that wait for a connection
# get an error, and `StoreMonitor` reports the outage to the operator once.
logging.getLogger("psycopg.pool").setLevel(logging.ERROR)

Connection = LimitedSession


class ServedLog(NamedTuple):
    """A log that a process serves, and how long rows beside its ended runs are kept."""

    log: int
    cleanup_delay_s: float


class LogWork(NamedTuple):
    """What there is to do for a log."""

    log: int
    due: int
    """How many timers are due, as far as they were counted."""
    has_lost_worker: bool
    """Whether a worker is lost whose runs have to be taken over."""
    is_unpublished: bool
    """Whether there is something to do for the process that signs."""
    is_elsewhere: bool
    """Whether it was moved to another database, whose work this one does not know."""


class PostgresConnections(ForkAware):
    """A pool and a session for locks; a forked child connects again on first use."""

    def __init__(self, url: str, size: int = POOL_SIZE) -> None:
        check_database_url(url)
        self.url, self._size = url, size
        self._reset()
        register_fork_aware(self)

    def _reset(self) -> None:
        self._pool = self._make_pool()
        self._is_open, self._open_lock = False, Lock()
        self._session: Connection | None = None
        self._led: set[int] = set()
        """The logs whose sequencer lock the session holds."""
        self._session_checked = -inf
        self._lead_lock = Lock()
        self._signals: LogSignals | None = None
        self._probe = DatabaseProbe(self.url)

    def _make_pool(self) -> "ConnectionPool[LimitedSession]":
        return make_pool(self.url, self._size, _POOL_TIMEOUT_S, _SHRINK_INTERVAL_S)

    def after_fork_in_child(self) -> None:
        """Abandon the pool and the session of the parent; new ones are opened on first use."""
        # First, while the old pool still refers to its connections: they are found through weak
        # references, which are empty after the pool is collected.
        abandon_sessions()
        # Mark the copied pool as closed.  Otherwise its finalizer would wait for threads that do
        # not exist in the child, or for a lock that one of them held.
        self._pool._closed = True  # noqa: SLF001  the pool has no public method for this
        self._reset()

    def connect(self) -> None:
        """Connect for the first time.  Raises `StoreConnectionLost` with the reason."""
        try:
            with translate_errors("connecting"):
                # Connect once without the pool: the pool retries silently, and its timeout would
                # not give the reason.
                connect(self.url, Purpose.STATEMENTS).close()
                self._open().wait(timeout=_POOL_TIMEOUT_S)
        except BaseException:
            self._pool.close()
            raise

    def _open(self) -> "ConnectionPool[Connection]":
        """Return the pool, and open it on the first call in this process."""
        if not self._is_open:
            with self._open_lock:
                if not self._is_open:
                    self._pool.open()
                    self._is_open = True
        return self._pool

    @contextmanager
    def use(self, doing: str) -> Iterator[Connection]:
        """Use a connection of the pool."""
        pool = self._open()
        try:
            with translate_errors(doing), pool.connection() as db:
                yield db
        except (errors.StoreConnectionLost, errors.StoreReadOnly) as error:
            if not isinstance(error.__cause__, PoolTimeout | PoolClosed):
                self._replace_pool(pool)
            raise

    def _replace_pool(self, pool: "ConnectionPool[LimitedSession]") -> None:
        """Make new connections instead of those of a pool; those in use end when given back.

        One of them has found out that its server has gone, or is not the primary any more; each of
        the others would cost its user as much time.
        """
        with self._open_lock:
            if self._pool is not pool:
                return  # another user of the pool was first
            self._pool = self._make_pool()
            self._pool.open()
        pool.close(timeout=0)

    def try_lead(self, log: int) -> bool:
        """Return whether this process holds the sequencer lock of a log; try to take it if not.

        Postgres frees the lock when the process or its session is gone.
        """
        with self._lead_lock, translate_errors("asking to lead"):
            self._check_session()
            if log not in self._led:
                if self._session is None:
                    self._session = connect(self.url, Purpose.SESSION, autocommit=True)
                row = self._session.execute(QUERIES["lead"], (log,)).fetchone()
                if row is not None and row[0]:
                    self._led.add(log)
            return log in self._led

    def _check_session(self) -> None:
        """Forget the session if it is broken; it is checked once in a while."""
        if self._session is None or (
            monotonic() - self._session_checked < _LEAD_CHECK_INTERVAL_S
            and not self._session.closed
        ):
            return
        self._session_checked = monotonic()
        if not is_alive(self._session):
            self._session.close()
            self._session = None
            self._led.clear()

    def stop_leading(self, log: int) -> None:
        """Free the sequencer lock of a log."""
        with self._lead_lock, suppress(psycopg.Error):  # a broken session has freed it
            if log in self._led and self._session is not None:
                self._led.discard(log)
                self._session.execute(QUERIES["stop_leading"], (log,))

    def share_signals(self, worker: str, report: Callable[[Exception], None]) -> "LogSignals":
        """Listen for all logs in one session, which holds the lock of this worker."""
        self._signals = LogSignals(self.url, worker, report)
        return self._signals

    def open_signal(self, log: int, worker: str) -> ports.WorkSignal:
        """Listen for due timers of a log, in a session that holds the lock of a worker."""
        if self._signals is not None:
            return self._signals.open(log)
        return _LogSession(self.url, log, worker)

    def read_state(self, log: int, check: Callable[[Connection], None]) -> ports.StoreState:
        """Return the state of a log for a monitor, in a session of its own that passes a check."""
        with translate_errors("reading its state"):
            return self._probe.read_state(log, check)

    def try_writing(self) -> None:
        """Raise the error of the cause if the database cannot be written."""
        with translate_errors("trying whether it can be written"):
            self._probe.try_writing()

    def find_logs(self, origins: Sequence[str]) -> dict[str, int]:
        """Return the numbers of the logs that the database has."""
        with self.use("finding logs") as db:
            return dict(db.execute(QUERIES["log_ids"], {"origins": list(origins)}).fetchall())

    def find_work(self, logs: Sequence[ServedLog], early_s: float, most: int) -> list[LogWork]:
        """Return what there is to do for each log, in one statement; count at most so many runs."""
        parameters = {
            "logs": [served.log for served in logs],
            "delays": [round(served.cleanup_delay_s * 1e6) for served in logs],
            "early": round(early_s * 1e6),
            "most": most,
        }
        with self.use("looking for work") as db:
            rows = db.execute(QUERIES["logs_with_work"], parameters).fetchall()
        return [LogWork(*row) for row in rows]

    def find_retention(self, logs: Sequence[int]) -> set[int]:
        """Return those of the logs that have rules of retention."""
        with self.use("looking for retention") as db:
            place = {"run": LOG_RUN, "strand": RETENTION_STRAND}
            parameters = {"logs": list(logs), **place}
            rows = db.execute(QUERIES["logs_with_retention"], parameters).fetchall()
        return {row[0] for row in rows}

    def close(self) -> None:
        """Close all connections."""
        if self._signals is not None:
            self._signals.close()
        if self._session is not None:
            self._session.close()
        self._probe.close()
        self._pool.close()


class _WorkerSession:
    """A session that listens for due timers, and holds the lock of a worker."""

    def __init__(self, url: str, worker: str) -> None:
        self._db = connect(url, Purpose.SESSION, autocommit=True)
        self._db.execute(QUERIES["hold_worker_lock"], {"worker": worker})
        self._db.execute("LISTEN forum_due")

    def receive(self, seconds: float) -> set[str]:
        """Wait for notifications; return the logs that they name."""
        with translate_errors("listening"):
            return set(self._db.receive(seconds))

    def close(self) -> None:
        """Close the session, which frees the lock."""
        self._db.close()


class _LogSession(_WorkerSession):
    """A session for one log."""

    def __init__(self, url: str, log: int, worker: str) -> None:
        super().__init__(url, worker)
        self._log = str(log)

    def wait(self, seconds: float) -> bool:
        """Wait for a notification of this log; return False after some seconds without one."""
        return self._log in self.receive(seconds)


class LogSignals:
    """One session that listens for many logs, and holds the lock of the worker of all of them."""

    def __init__(self, url: str, worker: str, report: Callable[[Exception], None]) -> None:
        self._url, self._worker = url, worker
        self._report = report
        self._lock, self._stop = Lock(), Event()
        self._news = Event()
        self._signals: dict[str, _SharedSignal] = {}
        self._heard: set[int] = set()
        self._is_connected, self._retry = False, RetryDelay()
        self._thread = Thread(target=self._run, name="forum-signals", daemon=True)
        self._thread.start()

    def open(self, log: int) -> "_SharedSignal":
        """Listen for due timers of a log.  Raises `StoreConnectionLost` without a session."""
        with self._lock:
            if not self._is_connected:
                raise errors.StoreConnectionLost("listening", "there is no session", "")
            signal = self._signals[str(log)] = _SharedSignal()
            return signal

    def wait(self, seconds: float) -> set[int]:
        """Wait for notifications of any log; return the logs named since the last call."""
        self._news.wait(seconds)
        self._news.clear()
        with self._lock:
            heard, self._heard = self._heard, set()
        return heard

    def wake(self) -> None:
        """End a wait."""
        self._news.set()

    def close(self) -> None:
        """Close the session, which frees the lock."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._listen()
            except errors.StoreFailed:
                pass  # other threads report that the database is away
            except Exception as error:  # noqa: BLE001  reported; it listens in a new session
                self._report(error)
            self._stop.wait(self._retry.next())

    def _listen(self) -> None:
        with translate_errors("listening"):
            session = _WorkerSession(self._url, self._worker)
        try:
            self._retry.reset()
            with self._lock:
                self._is_connected = True
            while not self._stop.is_set():
                self._pass_on(session.receive(_LISTEN_S))
        finally:
            with self._lock:
                self._is_connected = False
                signals, self._signals = self._signals, {}
            for signal in signals.values():
                signal.break_off()
            session.close()

    def _pass_on(self, logs: set[str]) -> None:
        if not logs:
            return
        with self._lock:
            signals = [self._signals[log] for log in logs if log in self._signals]
            # Any user of the database can send any payload.
            self._heard |= {int(log) for log in logs if _is_log_number(log)}
        for signal in signals:
            signal.notify()
        self._news.set()


class _SharedSignal:
    """The notifications of one log, received in a session that others use too."""

    def __init__(self) -> None:
        self._news, self._is_broken = Event(), False

    def wait(self, seconds: float) -> bool:
        """Wait for a notification of this log; return False after some seconds without one."""
        heard = self._news.wait(seconds)
        self._news.clear()
        if self._is_broken:
            raise errors.StoreConnectionLost("listening", "the session is gone", "")
        return heard

    def notify(self) -> None:
        """End the wait, with news."""
        self._news.set()

    def break_off(self) -> None:
        """End the wait with an error: the session is gone, and with it the lock."""
        self._is_broken = True
        self._news.set()

    def close(self) -> None:
        """Do nothing: the session goes on for other logs."""


_REMEDIES = {
    "42501": "Grant this user the right to do that",
    "3D000": "Create it: createdb NAME.  Or correct the name in the address of the database",
    "28P01": "Correct the password in the address of the database",
    "28000": "Correct the user in the address of the database, or let it in: pg_hba.conf",
}
"""The remedy for an error of Postgres, keyed by SQLSTATE."""
_UNREACHABLE = "See that the server runs, and that address and password are right"
"""The remedy if the server did not answer."""


_REFUSALS = {
    'database "': "3D000",
    "password authentication failed": "28P01",
    "no pg_hba.conf entry": "28000",
    'role "': "28000",
    "too many clients": "53300",
    "too many connections": "53300",
    "remaining connection slots": "53300",
}
"""The SQLSTATE of a refused connection by its words: the driver does not tell it then."""

_IDLE_TRANSACTION_ENDED = "25P03"
_CAUSES: dict[str, type[errors.StoreFailed]] = {
    "53100": errors.StoreFull,
    "53300": errors.TooManyConnections,
    "25006": errors.StoreReadOnly,
    "55P03": errors.StoreLocked,
    "57014": errors.StoreTimedOut,
    _IDLE_TRANSACTION_ENDED: errors.StoreConnectionLost,
}
"""The error for a cause that has a class of its own, keyed by SQLSTATE."""


def _translate(doing: str, error: psycopg.Error) -> errors.StoreFailed:
    state = error.sqlstate
    is_connection = isinstance(error, psycopg.OperationalError)
    hint = ""
    if state is None and is_connection:
        refused = str(error).partition("FATAL:")[2]
        state = next((state for words, state in _REFUSALS.items() if words in refused), None)
        hint = "" if state else _UNREACHABLE
    other = errors.StoreConnectionLost if is_connection else errors.StoreFailed
    kind = _CAUSES.get(state or "", other)
    return kind(doing, str(error), hint or _REMEDIES.get(state or "", ""))


@contextmanager
def translate_errors(doing: str) -> Iterator[None]:
    """Turn errors of the driver into errors of the store."""
    try:
        yield
    except PoolTimeout as error:
        raise errors.StoreConnectionLost(doing, str(error), _UNREACHABLE) from error
    except psycopg.Error as error:
        raise _translate(doing, error) from error
