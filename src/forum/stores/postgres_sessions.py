"""Opens every session of this product with a Postgres server, with limits by its purpose.

A peer that is gone must not hold anybody up, on either side:

- This process notices a server that vanished: data that nobody acknowledges end the connection
  (`tcp_user_timeout`), and so do unanswered keep-alives, which also cover a statement that was
  acknowledged before the server vanished.  Neither helps against a proxy or a server that still
  acknowledges and never replies, so a statement is given up a while after its `statement_timeout`.
- The server notices a process that vanished (`tcp_keepalives_*`, `tcp_user_timeout` and
  `client_connection_check_interval` of the session), ends its session and so frees its locks.

What the operator has set in the address of the database, or in `PGOPTIONS`, is left as it is.
Sessions must belong to one client each: a pooler that passes them on between transactions would
give the locks and settings of one client to another, and is refused.
"""

import os
import re
from collections.abc import Generator, Mapping
from contextlib import suppress
from enum import Enum
from random import SystemRandom
from threading import Lock
from time import monotonic
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakSet

import psycopg
from psycopg.pq import ConninfoOption
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool

from forum import errors
from forum.stores import sql_migrations

QUERIES = sql_migrations.load_queries("postgres")

_CONNECT_TIMEOUT_S = 5
"""For each host of an address with several."""
_CLIENT_LIMITS: Final = {
    "connect_timeout": _CONNECT_TIMEOUT_S,
    "keepalives_idle": 3,
    "keepalives_interval": 2,
    "keepalives_count": 4,
    "tcp_user_timeout": 10_000,
}
"""Parameters of libpq: a server that vanished is noticed after about ten seconds."""
_SERVER_LIMITS: Final = {
    "tcp_keepalives_idle": "10s",
    "tcp_keepalives_interval": "5s",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "25s",
}
"""Settings of a session: a process that vanished loses its locks after about 25 seconds."""
PLAN_SETTINGS: Final = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "jit": "off",
}
"""Settings of a session that repeats statements: each is planned once, to be read by indexes.

Otherwise the server plans a statement anew for each call where it expects a cheaper plan for some
parameters, as it does with partitions, and planning takes longer than the statement.  A plan that
is made while a table is small must not read the whole table when it has grown.
"""
_CHECK_INTERVAL_MIN_VERSION = 140_000
_REPLY_GRACE_S = 3.0
"""How long after its `statement_timeout` a server may take to say that a statement was ended."""
_PING_INTERVAL_S = 10.0
"""How often a session that only listens asks whether its server still answers."""
_POOLER_CHECK_INTERVAL_S = 60.0
"""How long a pooler that gave each client a session of its own is not checked again."""
_POOLER_LOOKS = 6
"""How many times one check compares the sessions of two clients."""
_MARK = "forum.session"
"""A setting of each session of ours: whoever finds it in a new session has got another's."""
_STATEMENT_POOLING = "08P01"
"""The SQLSTATE with which a pooler refuses to begin a transaction."""

_find_option_names = re.compile(r"(?:-c\s*|--)([\w.-]+)\s*=").findall

T = TypeVar("T")


class Limits(NamedTuple):
    """How long statements and transactions of a session may take; 0 is without a limit."""

    statement: str
    lock: str
    idle_in_transaction: str
    reply_s: float
    """How long this process waits for a reply, unless the operator sets another limit."""

    def settings(self) -> dict[str, str]:
        """Return those that the server enforces."""
        return {
            "statement_timeout": self.statement,
            "lock_timeout": self.lock,
            "idle_in_transaction_session_timeout": self.idle_in_transaction,
        }


class Purpose(Enum):
    """What a session is for; this decides its limits."""

    STATEMENTS = Limits("15s", "10s", "30s", 15 + _REPLY_GRACE_S)
    """The statements of a store: short, and tried again."""
    SESSION = Limits("5s", "5s", "10s", 5 + _REPLY_GRACE_S)
    """Locks and notifications that last as long as the session."""
    PROBE = Limits("1500ms", "1s", "5s", 2.0)
    """Whether the database can be written: the answer has to come at once."""
    LONG = Limits("", "20s", "", 0)
    """Migrations, backups, snapshots to verify: no limit but for locks."""


class LimitedSession(psycopg.Connection[TupleRow]):
    """A connection whose statements end when the server does not reply in time."""

    reply_s: float = 0.0
    """How long a reply may take, in seconds; 0 is without a limit."""
    _heard_at: float = 0.0

    def wait(self, gen: Generator[Any, Any, T], *arguments: Any, **options: Any) -> T:  # noqa: ANN401
        """Wait for the server; after the limit, close the connection and raise."""
        if not self.reply_s:
            return super().wait(gen, *arguments, **options)
        try:
            return super().wait(_until(gen, monotonic() + self.reply_s), *arguments, **options)
        except _ReplyOverdueError:
            # The state of the session is unknown, and the server may yet carry the statement out.
            self.pgconn.finish()
            text = f"the server has not replied within {self.reply_s:g} s"
            raise psycopg.OperationalError(text) from None

    def receive(self, seconds: float) -> list[str]:
        """Wait for notifications and return their payloads; check now and then that it lives.

        A peer that acknowledges keep-alives and passes nothing on would be listened to for ever.
        """
        self._heard_at = self._heard_at or monotonic()  # it has just been opened
        notes = list(self.notifies(timeout=seconds, stop_after=1))
        if notes:
            self._heard_at = monotonic()
        elif monotonic() - self._heard_at > _PING_INTERVAL_S:
            self.execute("SELECT 1")
            self._heard_at = monotonic()
        return [note.payload for note in notes]


class _ReplyOverdueError(Exception):
    """A server has not replied in time."""


def _until(gen: Generator[Any, Any, T], deadline: float) -> Generator[Any, Any, T]:
    """Pass a generator of the driver on; raise when its wait lasts beyond a deadline.

    The driver resumes it with a false value several times a second while nothing has arrived.
    """
    try:
        state = next(gen)
        while True:
            ready = yield state
            if not ready and monotonic() >= deadline:
                raise _ReplyOverdueError
            state = gen.send(ready)
    except StopIteration as end:
        result: T = end.value
        return result


class RetryDelay:
    """Delays between attempts: each twice the one before up to a bound, less a random part.

    Without the random part, all processes would come back to a restarted server at one moment.
    """

    def __init__(self, first_s: float = 0.5, longest_s: float = 5.0) -> None:
        self._first_s, self._longest_s = first_s, longest_s
        self._next_s = first_s
        self._random = SystemRandom()

    def next(self) -> float:
        """Return the next delay, in seconds."""
        delay, self._next_s = self._next_s, min(2 * self._next_s, self._longest_s)
        return self._random.uniform(delay / 2, delay)

    def reset(self) -> None:
        """Begin with the first delay: an attempt has succeeded."""
        self._next_s = self._first_s


def connect(url: str, purpose: Purpose, *, autocommit: bool = False) -> LimitedSession:
    """Open a session that a forked child abandons, and that finds names in `pg_catalog` only.

    Raises the errors of the driver, and `TransactionPooler`.
    """
    session = LimitedSession.connect(_limit_address(url), autocommit=True)
    try:
        # In no transaction: a rollback would undo it.
        is_pooled = _configure(session, purpose)
        if is_pooled:
            _poolers.check(url, session)
    except BaseException:
        session.close()
        raise
    session.autocommit = autocommit
    return session


def make_pool(
    url: str, size: int, timeout_s: float, max_idle_s: float
) -> ConnectionPool[LimitedSession]:
    """Return a pool of sessions for statements, which is not open yet."""

    def configure(session: LimitedSession) -> None:
        if _configure(session, Purpose.STATEMENTS):
            _poolers.check(url, session)

    return ConnectionPool(
        _limit_address(url),
        connection_class=LimitedSession,
        min_size=1,
        max_size=size,
        timeout=timeout_s,
        # An idle process gives its connections back: many workers share one server.
        max_idle=max_idle_s,
        # The pool doubles its delay between attempts, with a random part, and restarts with a short
        # delay after this time.  With the default, it would look for a server that was away for
        # minutes only every two minutes.
        reconnect_timeout=timeout_s,
        kwargs={"autocommit": True},
        configure=configure,
        open=False,
    )


def fetch_rows(
    db: psycopg.Connection[TupleRow], query: str, parameters: Mapping[str, Any]
) -> list[Any]:
    """Run a named query, and return all of its rows."""
    return db.execute(QUERIES[query], parameters, binary=True).fetchall()


def run_query(
    db: psycopg.Connection[TupleRow], query: str, **parameters: object
) -> psycopg.Cursor[TupleRow]:
    """Run a named query in the transaction of the caller."""
    return db.execute(QUERIES[query], parameters)


def check_database_url(url: str) -> None:
    """Raise `BadSettings` for an invalid database URL.

    The message does not repeat the URL, because it may contain a password.
    """
    try:
        psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        why = "not of the form postgresql://user@host/database"
        raise errors.BadSettings("the database's address", why) from None


def abandon_sessions() -> None:
    """Detach a forked child from the sessions of its parent, without sending to the server.

    While a child holds a connection open, the server does not notice that the parent is gone, and
    no other process can become the leader.  Each file descriptor is redirected to /dev/null and not
    closed: the driver still uses its number, and must not write into a file that reuses it.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    for session in list(_opened):
        with suppress(psycopg.Error, OSError):
            os.dup2(nowhere, session.fileno(), inheritable=False)
    _abandoned.extend(_opened)
    _opened.clear()
    os.close(nowhere)


_opened: WeakSet[LimitedSession] = WeakSet()
_abandoned: list[LimitedSession] = []
"""Sessions of a parent process: kept alive, so that their finalizers never run in the child."""


def _limit_address(url: str) -> str:
    """Return an address with the limits of libpq that it does not set itself."""
    given = psycopg.conninfo.conninfo_to_dict(url).keys() | _names_in_environment()
    limits = {name: value for name, value in _CLIENT_LIMITS.items() if name not in given}
    return psycopg.conninfo.make_conninfo(url, **limits)


def _names_in_environment() -> set[str]:
    """Return the parameters that the environment of this process sets."""
    defaults: list[ConninfoOption] = psycopg.pq.Conninfo.get_defaults()
    names = {option.keyword.decode(): option for option in defaults}
    return {
        name
        for name, option in names.items()
        if option.envvar is not None and option.envvar.decode() in os.environ
    }


def _configure(session: LimitedSession, purpose: Purpose) -> bool:
    """Set the limits of a new session; return whether it comes from a pooler.

    A pooler has sessions of its own with the server, and gives its clients other process numbers.
    Raises `TransactionPooler` if the session was another client's.
    """
    _opened.add(session)
    session.reply_s = purpose.value.reply_s or Purpose.STATEMENTS.value.reply_s
    session.execute(QUERIES["safe_path"])
    wanted, given = _session_settings(session, purpose), _given_settings(session)
    settings = {name: value for name, value in wanted.items() if value and name not in given}
    settings[_MARK] = "on"  # last: the statement returns its value before
    row = session.execute(
        QUERIES["limit_session"], {"names": list(settings), "values": list(settings.values())}
    ).fetchone()
    assert row is not None  # noqa: S101  there is at least the mark
    mark, process, statement_s = row
    session.reply_s = purpose.value.reply_s
    if purpose is Purpose.STATEMENTS and "statement_timeout" in given:
        session.reply_s = float(statement_s) + _REPLY_GRACE_S if statement_s else 0.0
    is_pooled: bool = process != session.info.backend_pid
    if is_pooled and mark:
        raise errors.TransactionPooler
    return is_pooled


def _session_settings(session: LimitedSession, purpose: Purpose) -> Mapping[str, str]:
    settings = {**_SERVER_LIMITS, **purpose.value.settings()}
    if purpose in (Purpose.STATEMENTS, Purpose.PROBE):
        settings |= PLAN_SETTINGS
    if session.info.server_version >= _CHECK_INTERVAL_MIN_VERSION:
        # While a statement runs, the server reads nothing, and would not see the end of the client.
        settings["client_connection_check_interval"] = "5s"
    return settings


def _given_settings(session: LimitedSession) -> set[str]:
    """Return the settings that the operator has given in the address or in the environment."""
    options = next((o.val for o in session.pgconn.info if o.keyword == b"options"), None) or b""
    return {name.replace("-", "_") for name in _find_option_names(options.decode())}


class _CheckedPoolers:
    """When the poolers of addresses were checked last."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._checked: dict[str, float] = {}

    def check(self, url: str, session: LimitedSession) -> None:
        """Raise `TransactionPooler` unless a pooler gives each client a session of its own.

        While another client is in a transaction, that client must not be in the session that this
        one was in, and this one must still be where it was.
        """
        with self._lock:
            if monotonic() - self._checked.get(url, -_POOLER_CHECK_INTERVAL_S) < (
                _POOLER_CHECK_INTERVAL_S
            ):
                return
        before = _server_process(session)
        with LimitedSession.connect(_limit_address(url), autocommit=True) as other:
            other.reply_s = session.reply_s or Purpose.STATEMENTS.value.reply_s
            # More than once: on a busy pooler, third clients may take the session meanwhile.
            for _ in range(_POOLER_LOOKS):
                if _is_shared(before, session, other):
                    raise errors.TransactionPooler
        with self._lock:
            self._checked[url] = monotonic()


_poolers = _CheckedPoolers()


def _is_shared(before: int, session: LimitedSession, other: LimitedSession) -> bool:
    """Return whether a client got the session of another one, which was in `before`."""
    try:
        other.execute("BEGIN")
    except psycopg.Error as error:
        if _is_statement_pooling(error):
            return True
        raise
    mark = other.execute(QUERIES["session_mark"]).fetchone()
    is_marked = mark is not None and bool(mark[0])
    is_shared = is_marked or _server_process(other) == before or _server_process(session) != before
    other.execute("ROLLBACK")
    return is_shared


def _is_statement_pooling(error: psycopg.Error) -> bool:
    return error.sqlstate == _STATEMENT_POOLING or "statement pooling" in str(error)


def _server_process(session: psycopg.Connection[TupleRow]) -> int:
    row = session.execute("SELECT pg_catalog.pg_backend_pid()").fetchone()
    assert row is not None  # noqa: S101  a function call returns a row
    process: int = row[0]
    return process


def is_alive(session: LimitedSession) -> bool:
    """Return whether the server answers, and with the session that this client has set up."""
    try:
        row = session.execute(QUERIES["session_mark"]).fetchone()
    except psycopg.OperationalError:
        return False
    return row is not None and bool(row[0])
